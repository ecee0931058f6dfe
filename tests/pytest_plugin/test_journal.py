"""The plugin writes the same lines as the harness's own journal, and chooses partitions as Kafka's Java client does."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from kafka.partitioner.default import murmur2 as theirs
from kafka_chaos_pytest.clients.wrapped import Partitioning, Reading, as_bytes, murmur2
from kafka_chaos_pytest.errors import ChaosError
from kafka_chaos_pytest.journal import Delivered, Journal

from harness.history.journals.journal import JournalFile
from harness.host.clock import SystemClock
from harness.ports.clients import ClientUse
from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.membership import TransactionEnd

VALUES = (b"tea", b"p3-000123", b"p3-000123...", b"p9999999-000001", b"\xff\xfe", b"", "Öl".encode())
# where a line has them
TIMES = {"P": (4,), "I": (3,), "S": (2, 7, 9), "R": (2,), "A": (1,), "G": (2, 3), "B": (2,), "E": (2,)}


def lines_of(path: Path) -> list[list[object]]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        for place in TIMES.get(line[0], ()):
            line[place] = "now"
    return lines


def by_the_plugin(path: Path) -> None:
    journal = Journal(path, process=4, worker="shop")
    journal.begin_process(role="both", acks=1, library="lib")
    for value in VALUES:
        operation = journal.send("orders", 2, value, b"k7" if value == b"tea" else b"other", transaction=None)
        journal.sent(operation, status="ok", offset=3)
    journal.sent(journal.send("orders", 0, b"lost", None, transaction=None), status="info", error="TimeoutError")
    transaction = journal.begin_transaction()
    journal.sent(journal.send("orders", 0, b"taken back", None, transaction=transaction), status="ok", offset=4)
    journal.end_transaction(transaction, "aborted")
    journal.assigned([("orders", 2)])
    operation = journal.poll()
    journal.polled(operation, [Delivered(topic="orders", partition=2, offset=5, value=b"tea", timestamp_ms=9)])
    journal.polled(journal.poll(), [], error="Gone")
    journal.close()
    journal.sent(1, status="ok", offset=3)  # too late, and no error


def by_the_harness(path: Path) -> None:
    journal = JournalFile(path, worker="shop", clock=SystemClock())
    use = ClientUse(role="both")
    journal.begin_process(4, client="shop", acks="1", library="lib", use=use)
    for value in VALUES:
        key = b"k7" if value == b"tea" else b"other"
        operation = journal.invoke("send", [Send(topic="orders", partition=2, value=value, key=key)])
        journal.complete_send(operation, [SendOutcome(status="ok", offset=3, error=None, end_ns=1, returned_ns=1)])
    operation = journal.invoke("send", [Send(topic="orders", partition=0, value=b"lost")])
    outcome = SendOutcome(status="info", offset=None, error="TimeoutError", end_ns=1, returned_ns=1)
    journal.complete_send(operation, [outcome])
    transaction = journal.begin_transaction()
    send = Send(topic="orders", partition=0, value=b"taken back")
    operation = journal.invoke("send", [send], transaction=transaction)
    journal.complete_send(operation, [SendOutcome(status="ok", offset=4, error=None, end_ns=1, returned_ns=1)])
    journal.end_transaction(transaction, TransactionEnd(outcome="aborted"))
    journal.assigned([TopicPartition(topic="orders", partition=2)])
    operation = journal.invoke("poll")
    record = ReadRecord(topic="orders", partition=2, offset=5, epoch=None, value=b"tea", timestamp_ms=9)
    journal.complete_poll(operation, [record])
    journal.complete_poll(journal.invoke("poll"), [], error="Gone")
    journal.close()


def test_both_write_the_same_lines(tmp_path: Path) -> None:
    by_the_plugin(tmp_path / "plugin.jsonl")
    by_the_harness(tmp_path / "harness.jsonl")
    plugin, harness = lines_of(tmp_path / "plugin.jsonl"), lines_of(tmp_path / "harness.jsonl")
    assert [_comparable(line) for line in plugin] == [_comparable(line) for line in harness]


def _comparable(line: list[object]) -> list[object]:
    """Trailing columns may be left out; what a client is besides its role, its journal need not say."""
    kept = line[:8] if line[0] == "P" else list(line)
    if line[0] == "R":
        parts = line[3]
        assert isinstance(parts, list)
        kept[3] = [[*part[:7]] for part in parts]
    while kept and kept[-1] in (None, [], [None]):
        kept.pop()
    return kept


def test_a_call_is_over_when_it_returned_or_was_answered_whichever_came_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "shop.jsonl", process=4, worker="shop")
    first, second = (journal.send("orders", 0, value, None, transaction=None) for value in (b"tea", b"milk"))
    journal.handed_over(first)
    between = time.monotonic_ns()
    journal.sent(first, status="ok", offset=0)
    journal.sent(second, status="ok", offset=1)  # by another thread, before the call returned
    journal.handed_over(second)
    journal.close()
    lines = [json.loads(line) for line in (tmp_path / "shop.jsonl").read_text().splitlines()]
    over = {line[1]: (line[2], line[9]) for line in lines if line[0] == "S"}

    assert over[first][1][0] < between < over[first][0]
    assert over[second][1] == [over[second][0]]


def test_a_send_that_nobody_answers_is_not_acknowledged_whatever_offset_its_library_makes_up(tmp_path: Path) -> None:
    """kafka-python counts up from 0 with acks=0, and aiokafka and librdkafka have other inventions."""
    journal = Journal(tmp_path / "j", process=0, worker="shop")
    journal.begin_process(role="producer", acks=0)
    journal.sent(journal.send("orders", 0, b"tea", None, transaction=None), status="ok", offset=0, timestamp_ms=7)
    journal.close()
    (answer,) = [line for line in lines_of(tmp_path / "j") if line[0] == "S"]
    assert (answer[3], answer[4], answer[8]) == ([2], [None], [None])


def test_a_partition_is_begun_at_the_beginning_once_and_then_where_the_application_likes(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", process=0, worker="shop")
    reading = Reading(journal)
    first, second = (TopicPartition(topic="orders", partition=number) for number in (0, 1))
    reading.polled(journal.poll(), (), [first])
    reading.polled(journal.poll(), (), [first, second])  # added, or after a rebalance
    reading.polled(journal.poll(), (), [first, second])
    reading.sought()
    reading.polled(journal.poll(), (), [first, second])
    journal.close()
    group_lines = [line for line in lines_of(tmp_path / "j") if line[0] in ("A", "G")]
    assert [(line[0], line[2] if line[0] == "A" else line[4:]) for line in group_lines] == [
        ("A", [0]),
        ("A", [0, 1]),
        ("G", [[0], [None], 0]),
        ("A", [0, 1]),
        ("G", [[0, 1], [None, None], 0]),
    ]


def test_a_partition_that_was_sought_before_it_was_ever_read_is_begun_where_the_application_likes(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "j", process=0, worker="shop")
    reading = Reading(journal)
    first, second = (TopicPartition(topic="orders", partition=number) for number in (0, 1))
    reading.sought(first)
    reading.polled(journal.poll(), (), [first, second])
    journal.close()
    group_lines = [line for line in lines_of(tmp_path / "j") if line[0] in ("A", "G")]
    assert [(line[0], line[2] if line[0] == "A" else line[4:]) for line in group_lines] == [
        ("A", [0, 1]),
        ("G", [[0], [None], 0]),
    ]


def test_a_full_disk_is_reported_and_not_passed_over() -> None:
    with pytest.raises(OSError, match=r"[Nn]o space"):
        Journal(Path("/dev/full"), process=0, worker="shop")


@given(some.binary(max_size=40))
def test_a_key_leads_to_the_partition_that_javas_client_chooses(key: bytes) -> None:
    assert murmur2(key) == theirs(key) & 0xFFFFFFFF


def test_records_without_a_key_take_turns_and_a_topic_without_partitions_is_reported() -> None:
    partitioning = Partitioning()
    assert [partitioning.choose({0, 1, 2}, None) for _ in range(4)] == [0, 1, 2, 0]
    with pytest.raises(ChaosError, match="has no partitions"):
        partitioning.choose(set(), None)


def test_a_value_that_a_deserializer_made_is_refused_with_the_remedy() -> None:
    assert [as_bytes(each) for each in (None, "a", b"a", bytearray(b"a"))] == [b"", b"a", b"a", b"a"]
    with pytest.raises(ChaosError, match="without serializer or deserializer"):
        as_bytes({"order": 1})
