"""What brokers keep of groups and transactions is read from their logs, as real Kafka of three eras wrote them."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cluster import coordinator_logs
from harness.cluster.books import coordinator_records
from harness.cluster.coordinator_logs import read_coordinator_logs
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from harness.host.clock import Anchor
from harness.ports.cluster import NodeId
from harness.ports.coordinator_logs import CoordinatorLog, OffsetsRecord, TransactionRecord

DATA = Path(__file__).parent / "data" / "coordinator_logs"
VERSIONS = ("4.3.1", "2.8.2", "1.1.1")
AT_NOTHING = Anchor(monotonic_ns=0, wall_ns=0)


def log_of(version: str, topic: str) -> CoordinatorLog:
    logs = read_coordinator_logs(NodeId(1), DATA / version, t_ns=7, anchor=AT_NOTHING)
    return next(log for log in logs if log.topic == topic)


def stable_offsets(log: CoordinatorLog) -> dict[tuple[str, int], int]:
    """What the group has committed, by the rule of the protocol: a marker applies what its producer has pending."""
    pending: dict[int | None, dict[tuple[str, int], int]] = {}
    committed: dict[tuple[str, int], int] = {}
    for record in log.records:
        content = record.content
        assert isinstance(content, OffsetsRecord)
        if content.kind == "offset":
            assert record.transactional, "every offset of these runs was sent to a transaction"
            assert content.topic is not None
            assert content.topic_partition is not None
            assert content.committed_offset is not None
            place = content.topic, content.topic_partition
            pending.setdefault(record.producer_id, {})[place] = content.committed_offset
        elif content.kind == "marker":
            ended = pending.pop(record.producer_id, {})
            committed |= ended if content.commits else {}
    return committed


@pytest.mark.parametrize(
    ("version", "committed"),
    [
        ("4.3.1", {("orders", 0): 50, ("orders", 1): 100}),
        ("2.8.2", {("orders", 0): 250, ("orders", 1): 200}),
        ("1.1.1", {("orders", 0): 100, ("orders", 1): 200}),
    ],
)
def test_offsets_markers_and_generations_of_a_group_are_read(
    version: str, committed: dict[tuple[str, int], int]
) -> None:
    """These are the offsets that the group was told at the end of each run."""
    log = log_of(version, GROUP_OFFSETS_TOPIC)

    assert stable_offsets(log) == committed
    contents = [record.content for record in log.records]
    assert {content.kind for content in contents if isinstance(content, OffsetsRecord)} == {"offset", "group", "marker"}
    generations = [each for each in contents if isinstance(each, OffsetsRecord) and each.kind == "group"]
    assert [each.generation for each in generations][-2:] == [1, 2]
    assert [len(each.members or ()) for each in generations][-2:] == [2, 0]
    assert {each.group for each in contents if isinstance(each, OffsetsRecord) and each.kind != "marker"} == {"g"}
    assert log.log_end == log.records[-1].offset + 1
    assert all(record.wall_ms for record in log.records)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_state_of_a_transaction_is_read_with_its_producer_and_partitions(version: str) -> None:
    log = log_of(version, TRANSACTIONS_TOPIC)

    contents = [record.content for record in log.records if isinstance(record.content, TransactionRecord)]
    assert len(contents) == len(log.records)
    assert {content.transactional_id for content in contents} == {"g-1"}
    assert len({(content.producer_id, content.producer_epoch) for content in contents}) == 1
    begin = ["Ongoing", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert [content.state for content in contents[:5]] == ["Empty", *begin]
    assert {"PrepareAbort", "CompleteAbort"} <= {content.state for content in contents}
    assert {topic for topic, _ in contents[2].partitions or ()} == {"results", "__consumer_offsets"}
    assert contents[4].partitions == ()
    assert {content.timeout_ms for content in contents} == {10_000}


def test_only_before_kip_211_a_committed_offset_says_when_it_expires() -> None:
    def expires(version: str) -> set[bool]:
        contents = [record.content for record in log_of(version, GROUP_OFFSETS_TOPIC).records]
        offsets = [each for each in contents if isinstance(each, OffsetsRecord) and each.kind == "offset"]
        return {each.expire_wall_ms is not None for each in offsets}

    assert (expires("1.1.1"), expires("2.8.2"), expires("4.3.1")) == ({True}, {False}, {False})


def test_of_a_long_log_the_newest_records_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_logs, "KEPT_RECORDS", 4)

    log = log_of("2.8.2", GROUP_OFFSETS_TOPIC)

    assert (log.log_start, log.kept_from, log.log_end) == (0, 22, 26)
    assert [record.offset for record in log.records] == [22, 23, 24, 25]
    assert log_of("1.1.1", GROUP_OFFSETS_TOPIC).kept_from == 16


@pytest.mark.parametrize(
    ("name", "count", "partition"),
    [("g-1", 50, 27), ("g-2", 50, 28), ("g", 3, 1), ("polygenelubricants", 50, 0), ("", 50, 0)],
)
def test_a_names_partition_is_the_one_in_which_kafka_keeps_it(name: str, count: int, partition: int) -> None:
    """The first three are where the logs above are from; the fourth has the one hash without an absolute value."""
    assert partition_of(name, count) == partition


def test_epochs_of_the_newer_protocol_are_read() -> None:
    """KIP-848: key 3 is the group, 6 its assignment, 8 a member."""
    group, member, epoch = b"\0\1g", b"\0\2m1", b"\0\0" + struct.pack(">i", 9)

    read = [
        coordinator_records.decode(key, epoch) for key in (b"\0\3" + group, b"\0\6" + group, b"\0\x08" + group + member)
    ]

    assert [(each.kind, each.generation, each.member) for each in read] == [
        ("group_epoch", 9, None),
        ("assignment_epoch", 9, None),
        ("member_epoch", 9, "m1"),
    ]


def test_a_record_without_a_value_removes_what_its_key_names() -> None:
    offset = coordinator_records.decode(b"\0\1" + b"\0\1g" + b"\0\1t" + struct.pack(">i", 3), None)
    transaction = coordinator_records.decode_transaction(b"\0\0" + b"\0\2id", None)

    assert (offset.kind, offset.removed, offset.group, offset.topic, offset.topic_partition) == (
        "offset",
        True,
        "g",
        "t",
        3,
    )
    assert (transaction.removed, transaction.transactional_id) == (True, "id")


@given(st.binary(max_size=40) | st.none(), st.binary(max_size=80) | st.none())
def test_no_record_whatever_stops_the_reading(key: bytes | None, value: bytes | None) -> None:
    """A newer release may write what is unknown here: that is of kind other, or a transaction of nobody."""
    assert isinstance(coordinator_records.decode(key, value), OffsetsRecord)
    assert isinstance(coordinator_records.decode_marker(key), OffsetsRecord)
    assert isinstance(coordinator_records.decode_transaction(key, value), TransactionRecord)


@pytest.mark.parametrize("version", [5, 99])
def test_a_newer_version_of_a_value_is_not_guessed_at(version: int) -> None:
    key = b"\0\1" + b"\0\1g" + b"\0\1t" + struct.pack(">i", 0)
    assert coordinator_records.decode(key, struct.pack(">hqi", version, 7, 0) + b"\0" * 20).kind == "other"
    assert coordinator_records.decode_transaction(b"\0\0\0\1x", struct.pack(">h", version) + b"\0" * 60).state is None
