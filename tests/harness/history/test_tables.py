"""Journals become tables: columns computed by the writer equal those computed by a window over the rows."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.history.facts.values import ValueNames, encode, number
from harness.history.journals.journal import JournalFile, ProcessNumbers
from harness.history.journals.journal_files import read_lines
from harness.history.schema.schemas import TABLES
from harness.history.sealed.derived_tables import bins_of
from harness.history.sealed.tables import Conversion
from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition


@dataclass
class Ticks:
    """A clock that is one nanosecond later at each look."""

    now: int = field(default=1000)

    def monotonic_ns(self) -> int:
        self.now += 1
        return self.now

    def wall_ns(self) -> int:
        return self.now


def converted(*paths: Path, names: ValueNames | None = None) -> Any:
    conversion = Conversion(names=names or ValueNames())
    for path in paths:
        conversion.add(path)
    return conversion.finish()


def send(partition: int, value: bytes) -> Send:
    return Send(topic="orders", partition=partition, value=value)


def read(topic: str, partition: int, offset: int, value: bytes = b"p0-000000", epoch: int | None = 3) -> ReadRecord:
    return ReadRecord(topic=topic, partition=partition, offset=offset, epoch=epoch, value=value)


polls = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2), st.integers(0, 50)), max_size=12), max_size=8
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(polls)
def test_step_and_last_are_what_a_window_over_each_poll_says(
    tmp_path: Path, polls: list[list[tuple[str, int, int]]]
) -> None:
    path = tmp_path / "c.jsonl"
    path.unlink(missing_ok=True)
    journal = JournalFile(path, worker="c", clock=Ticks())
    journal.begin_process(4, client="c", acks="all")
    for poll in polls:
        records = [read(topic, part, offset) for topic, part, offset in poll]
        journal.complete_poll(journal.invoke("poll"), records)
    journal.close()

    rows = converted(path).records.to_pylist()

    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [row for poll in polls for row in poll]
    assert [row["position"] for row in rows] == [i for poll in polls for i in range(len(poll))]
    for place, row in enumerate(rows):
        same = [o for o in rows if (o["operation"], o["partition_id"]) == (row["operation"], row["partition_id"])]
        before = [o for o in same if o["position"] < row["position"]]
        assert row["offset_step"] == (row["offset"] - before[-1]["offset"] if before else None), place
        assert row["last_of_poll"] == (same[-1]["position"] == row["position"])
        assert (row["topic"], row["partition"]) == sorted({(o["topic"], o["partition"]) for o in rows})[
            row["partition_id"]
        ]


def test_operations_are_numbered_by_completion_over_all_workers(tmp_path: Path) -> None:
    clock = Ticks()
    one = JournalFile(tmp_path / "one.jsonl", worker="one", clock=clock)
    two = JournalFile(tmp_path / "two.jsonl", worker="two", clock=clock)
    one.begin_process(0, client="one", acks="all")
    two.begin_process(1, client="two", acks="1")
    first = one.invoke("send", [send(0, encode(0, 0))])
    second = two.invoke("send", [send(1, encode(1, 0))])
    two.complete_send(second, [SendOutcome(status="ok", offset=7, error=None, end_ns=clock.monotonic_ns())])
    one.complete_send(first, [SendOutcome(status="fail", offset=None, error="E 19", end_ns=clock.monotonic_ns())])

    tables = converted(tmp_path / "one.jsonl", tmp_path / "two.jsonl")

    assert tables.operations.column("process").to_pylist() == [1, 0]
    rows = tables.records.to_pylist()
    assert [(row["operation"], row["process"], row["acks"], row["status"], row["offset"]) for row in rows] == [
        (0, 1, 1, 0, 7),
        (1, 0, -1, 1, None),
    ]
    assert rows[1]["error"] == "E 19"
    assert rows[0]["assignment"] is None
    assert rows[0]["last_of_poll"] is None
    assert tables.records.schema.equals(TABLES["records"])


def test_when_a_call_returned_is_kept_and_null_where_a_journal_does_not_say_it(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "p.jsonl", worker="p", clock=Ticks())
    journal.begin_process(2, client="p", acks="all")
    for returned_ns in (5, None):
        operation = journal.invoke("send", [send(0, encode(2, sequence)) for sequence in range(2)])
        outcome = SendOutcome(status="ok", offset=0, error=None, begin_ns=4, end_ns=9, returned_ns=returned_ns)
        journal.complete_send(operation, [outcome, outcome])
    journal.complete_poll(journal.invoke("poll"), [read("a", 0, 0)])
    journal.close()
    older = tmp_path / "older.jsonl"
    older.write_text("\n".join(line.replace(",[5,5]]", "]") for line in (tmp_path / "p.jsonl").read_text().split("\n")))

    assert converted(tmp_path / "p.jsonl").records.column("returned_ns").to_pylist() == [5, 5, None, None, None]
    assert converted(older).records.column("returned_ns").to_pylist() == [None] * 5


def test_a_killed_workers_last_operation_is_info_and_its_torn_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    clock = Ticks()
    journal = JournalFile(path, worker="p", clock=clock)
    journal.begin_process(2, client="p", acks="all")
    done = journal.invoke("send", [send(0, encode(2, 0))])
    journal.complete_send(done, [SendOutcome(status="ok", offset=0, error=None, end_ns=clock.monotonic_ns())])
    lost = journal.invoke("send", [send(0, encode(2, 1)), send(1, encode(2, 2))])
    whole = path.read_bytes()
    outcome = SendOutcome(status="ok", offset=1, error=None, end_ns=clock.monotonic_ns())
    journal.complete_send(lost, [outcome, outcome])
    answered = path.read_bytes()

    for end in range(len(whole), len(answered) - 1):
        path.write_bytes(answered[:end])
        rows = converted(path).records.to_pylist()
        assert [(row["value"], row["status"], row["offset"]) for row in rows] == [
            (number(2, 0), 0, 0),
            (number(2, 1), 2, None),
            (number(2, 2), 2, None),
        ]
        assert rows[1]["error"] == "no answer"
        assert rows[1]["completed_ns"] >= rows[1]["invoked_ns"]


def test_every_assignment_counts_anew_for_the_partitions_it_names(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "c.jsonl", worker="c", clock=Ticks())
    journal.begin_process(0, client="c", acks="all")
    both = [TopicPartition(topic="a", partition=0), TopicPartition(topic="a", partition=1)]
    journal.assigned(both)
    journal.complete_poll(journal.invoke("poll"), [read("a", 0, 0), read("a", 1, 0)])
    journal.assigned(both[:1])
    journal.complete_poll(journal.invoke("poll"), [read("a", 0, 0), read("a", 1, 1)])

    tables = converted(tmp_path / "c.jsonl")

    assert tables.records.column("assignment").to_pylist() == [1, 1, 2, 1]
    assert tables.operations.column("function").to_pylist() == ["assign", "poll", "assign", "poll"]
    assert tables.operations.column("count").to_pylist() == [2, 2, 1, 2]


def test_final_reads_tell_the_replica_and_probe_values_get_names(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "f.jsonl", worker="f", clock=Ticks())
    journal.begin_process(9, client="f", acks="all", replica=2)
    records = [
        read("a", 0, 0, b"r0", epoch=1),
        read("a", 0, 1, b"p1-000002...", epoch=4),
        read("a", 0, 2, b"\xff", None),
    ]
    journal.complete_poll(journal.invoke("final_poll"), records)
    names = ValueNames()

    rows = converted(tmp_path / "f.jsonl", names=names).records.to_pylist()

    assert [row["kind"] for row in rows] == [2, 2, 2]
    assert [row["replica"] for row in rows] == [2, 2, 2]
    assert [row["leader_epoch"] for row in rows] == [1, 4, None]
    assert dict(names.items()) == {rows[0]["value"]: "r0", rows[2]["value"]: "\\xff"}
    assert rows[1]["value"] == number(1, 2)


def test_bins_keep_every_record_and_the_worst_latency(tmp_path: Path) -> None:
    clock = Ticks()
    journal = JournalFile(tmp_path / "p.jsonl", worker="p", clock=clock)
    journal.begin_process(0, client="p", acks="all")
    for sequence in range(30):
        operation = journal.invoke("send", [send(0, encode(0, sequence))])
        start = clock.now
        clock.now += 50_000_000 if sequence != 20 else 900_000_000
        outcome = SendOutcome(status="ok", offset=sequence, error=None, begin_ns=start, end_ns=clock.now)
        journal.complete_send(operation, [outcome])
    journal.invoke("send", [send(0, encode(0, 30))])

    bins = bins_of(converted(tmp_path / "p.jsonl").records)

    assert sum(bins.column("ok").to_pylist()) == 30
    assert sum(bins.column("info").to_pylist()) == 1
    assert max(value for value in bins.column("max_ns").to_pylist() if value is not None) == 900_000_000
    assert [p50 is None for p50 in bins.column("p50_ns").to_pylist()] == [
        ok == 0 for ok in bins.column("ok").to_pylist()
    ]


def test_no_journals_give_empty_tables() -> None:
    tables = Conversion(names=ValueNames()).finish([("a", 1), ("a", 0)])

    assert len(tables.operations) == 0
    assert len(tables.records) == 0
    assert tables.partition_ids == {("a", 0): 0, ("a", 1): 1}
    assert len(bins_of(tables.records)) == 0


def test_process_numbers_of_writers_never_meet() -> None:
    writers = [ProcessNumbers(first=first, step=3) for first in range(3)]
    drawn = [writer.next() for writer in writers for _ in range(5)]

    assert len(set(drawn)) == 15


def test_an_invocation_is_on_disk_before_invoke_returns(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "p.jsonl", worker="p", clock=Ticks())
    journal.begin_process(0, client="p", acks="all")

    journal.invoke("send", [send(0, b"x")])

    assert [type(line).__name__ for line in read_lines(tmp_path / "p.jsonl")] == [
        "Opened",
        "Process",
        "Declare",
        "Invoke",
    ]


def test_an_operation_without_a_client_is_a_bug_of_ours(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        JournalFile(tmp_path / "p.jsonl", worker="p", clock=Ticks()).invoke("poll")
