"""Group events and transactions in journals become tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.history.facts.values import encode
from harness.history.journals.journal import JournalFile
from harness.history.journals.journal_files import read_lines
from harness.history.schema.schemas import TABLES
from harness.ports.clients import ClientUse
from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.membership import GroupEvent, TransactionEnd
from tests.harness.history.test_tables import Ticks, converted

Status = Literal["ok", "fail", "info"]
MEMBER = ClientUse(role="consumer", group="readers", isolation="read_committed", offset_reset="earliest")
PROCESSOR = ClientUse(role="both", group="workers", transactional_id="x-1", isolation="read_committed")
ORDERS = [TopicPartition(topic="orders", partition=number) for number in range(3)]


def journal_in(folder: Path, name: str = "w", *, use: ClientUse = PROCESSOR, clock: Ticks | None = None) -> JournalFile:
    journal = JournalFile(folder / f"{name}.jsonl", worker=name, clock=clock or Ticks())
    journal.begin_process(7, client=name, acks="all", library="kafka-python", idempotent=True, use=use)
    return journal


def event(kind: Any, offsets: dict[TopicPartition, int | None], *, at: int = 5, status: Status = "ok") -> GroupEvent:
    return GroupEvent(
        event=kind,
        offsets=offsets,
        begin_ns=at,
        end_ns=at + 1,
        status=status,
        generation=3,
        member="m-1",
        error=None if status == "ok" else "CommitFailedError",
    )


def send_one(journal: JournalFile, sequence: int, status: Status, transaction: int | None) -> None:
    record = Send(topic="out", partition=0, value=encode(7, sequence))
    operation = journal.invoke("send", [record], transaction=transaction)
    offset = sequence if status == "ok" else None
    error = None if status == "ok" else "E 19"
    journal.complete_send(operation, [SendOutcome(status=status, offset=offset, error=error, end_ns=9)])


def test_a_client_is_reported_with_what_it_was_made_for(tmp_path: Path) -> None:
    journal_in(tmp_path, "a")
    journal_in(tmp_path, "b", use=MEMBER)
    reported = converted(tmp_path / "a.jsonl", tmp_path / "b.jsonl").processes.to_pylist()

    assert [(row["role"], row["group"], row["transactional_id"], row["acks"]) for row in reported] == [
        ("both", "workers", "x-1", -1),
        ("consumer", "readers", None, None),
    ]
    assert {row["library"] for row in reported} == {"kafka-python"}
    assert [row["offset_reset"] for row in reported] == ["none", "earliest"]
    assert [row["idempotent"] for row in reported] == [True, None]
    assert {row["isolation"] for row in reported} == {"read_committed"}


ends = st.sampled_from(["committed", "aborted", "unknown", "never_begun", None])
answers = st.lists(st.sampled_from(["ok", "fail", "info"]), max_size=3)
stories = st.lists(st.tuples(ends, answers), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(stories)
def test_what_was_sent_in_a_transaction_became_what_the_transaction_became(
    tmp_path: Path, stories: list[tuple[Any, list[Status]]]
) -> None:
    (tmp_path / "w.jsonl").unlink(missing_ok=True)
    journal = journal_in(tmp_path)
    wanted = []
    for number, (end, statuses) in enumerate(stories):
        transaction = journal.begin_transaction()
        for place, status in enumerate(statuses):
            send_one(journal, 10 * number + place, status, transaction)
            settled = {"committed": status, "aborted": "fail", "never_begun": "fail"}.get(end, "info")
            wanted.append(
                (number, 10 * number + place, 1 if status == "fail" else ("ok", "fail", "info").index(settled))
            )
        if end is not None:
            journal.end_transaction(transaction, TransactionEnd(outcome=end))
    journal.close()

    tables = converted(tmp_path / "w.jsonl")

    rows = tables.records.to_pylist()
    assert [(row["transaction"], row["value"] & 0xFF, row["status"]) for row in rows] == wanted
    assert all((row["error"] is None) == (row["status"] == 0) for row in rows)
    outcomes = [row["outcome"] for row in tables.transactions.to_pylist()]
    assert outcomes == [{"committed": 0, "aborted": 1, "never_begun": 3}.get(end, 2) for end, _ in stories]
    assert tables.operations.column("transaction").to_pylist() == [txn for txn, _, _ in wanted]
    assert tables.operations.column("status").to_pylist() == [status for _, _, status in wanted]
    for name in ("operations", "records", "processes", "transactions", "group_events"):
        assert getattr(tables, name).schema.equals(TABLES[name]), name


def test_transactions_are_numbered_over_the_run_in_order_of_their_beginnings(tmp_path: Path) -> None:
    clock = Ticks()
    one, two = journal_in(tmp_path, "one", clock=clock), journal_in(tmp_path, "two", clock=clock)
    first, second = two.begin_transaction(), one.begin_transaction()
    send_one(one, 1, "ok", second)
    send_one(two, 2, "ok", first)
    one.end_transaction(second, TransactionEnd(outcome="aborted", error="on purpose"))
    two.end_transaction(first, TransactionEnd(outcome="committed"))

    tables = converted(tmp_path / "one.jsonl", tmp_path / "two.jsonl")

    assert [(row["transaction"], row["outcome"], row["error"]) for row in tables.transactions.to_pylist()] == [
        (0, 0, None),
        (1, 1, "on purpose"),
    ]
    assert [(row["value"] & 0xFF, row["transaction"], row["error"]) for row in tables.records.to_pylist()] == [
        (1, 1, "transaction aborted"),
        (2, 0, None),
    ]


def test_offsets_sent_to_a_transaction_share_its_outcome(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    for end in ("committed", "aborted", None, "never_begun"):
        transaction = journal.begin_transaction()
        journal.group_event(event("committed", {ORDERS[0]: 4}), transaction=transaction)
        if end is not None:
            journal.end_transaction(transaction, TransactionEnd(outcome=end))

    tables = converted(tmp_path / "w.jsonl")

    rows = tables.group_events.to_pylist()
    assert [(row["transaction"], row["status"], row["error"]) for row in rows] == [
        (0, 0, None),
        (1, 1, "transaction aborted"),
        (2, 2, "outcome of the transaction unknown"),
        (3, 1, "transaction never begun"),
    ]
    assert [row["group"] for row in tables.transactions.to_pylist()] == ["workers"] * 4
    assert tables.transactions.to_pylist()[2]["completed_ns"] >= tables.transactions.to_pylist()[2]["invoked_ns"]
    assert [(row["function"], row["status"]) for row in tables.operations.to_pylist()] == [
        ("commit", 0),
        ("commit", 1),
        ("commit", 2),
        ("commit", 1),
    ]


def test_each_partition_of_an_event_is_a_row_of_its_own(tmp_path: Path) -> None:
    journal = journal_in(tmp_path, use=MEMBER)
    journal.group_event(event("assigned", {ORDERS[0]: None, ORDERS[1]: 12}))
    journal.group_event(event("committed", {ORDERS[1]: 20}, at=8, status="fail"))

    rows = converted(tmp_path / "w.jsonl").group_events.to_pylist()

    assert [(row["event"], row["partition"], row["offset"], row["status"], row["error"]) for row in rows] == [
        ("assigned", 0, None, 0, None),
        ("assigned", 1, 12, 0, None),
        ("committed", 1, 20, 1, "CommitFailedError"),
    ]
    assert {(row["group"], row["generation"], row["member"], row["topic"]) for row in rows} == {
        ("readers", 3, "m-1", "orders")
    }


def test_a_client_without_a_group_may_seek_to_where_nobody_recorded(tmp_path: Path) -> None:
    journal = journal_in(tmp_path, use=ClientUse(role="consumer", isolation="read_committed", offset_reset="earliest"))
    journal.group_event(event("seek", {ORDERS[0]: None}))
    journal.done("crash")

    (row,) = converted(tmp_path / "w.jsonl").group_events.to_pylist()

    assert (row["event"], row["group"], row["offset"]) == ("seek", "", None)


def test_a_partition_gained_by_a_rebalance_or_a_seek_begins_a_new_assignment(tmp_path: Path) -> None:
    journal = journal_in(tmp_path, use=MEMBER)

    def poll(partition: int, offset: int) -> None:
        record = ReadRecord(topic="orders", partition=partition, offset=offset, epoch=0, value=encode(0, offset))
        journal.complete_poll(journal.invoke("poll"), [record])

    journal.done("subscribe", count=1)
    journal.group_event(event("assigned", {ORDERS[0]: None, ORDERS[1]: None}))
    poll(0, 5)
    journal.group_event(event("seek", {ORDERS[0]: 5}))
    poll(0, 5)
    poll(1, 0)
    journal.group_event(event("revoked", {ORDERS[0]: None, ORDERS[1]: None}))
    journal.group_event(event("assigned", {ORDERS[1]: None}))
    poll(1, 0)
    journal.done("crash")

    tables = converted(tmp_path / "w.jsonl")

    assert tables.records.column("assignment").to_pylist() == [1, 2, 1, 2]
    fields = {row["function"]: (row["status"], row["count"]) for row in tables.operations.to_pylist()}
    assert fields["subscribe"] == (0, 1)
    assert fields["seek"] == (0, 1)
    assert fields["crash"] == (2, 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.none() | st.integers(0, 9), st.none() | st.integers(0, 2), st.booleans()),
        max_size=8,
    )
)
def test_keys_and_timestamps_come_back_for_polls_and_sends(
    tmp_path: Path, records: list[tuple[int, int | None, int | None, bool]]
) -> None:
    (tmp_path / "w.jsonl").unlink(missing_ok=True)
    journal = journal_in(tmp_path)
    keyed = [None if key is None else b"k%d" % key for _, key, _, _ in records]
    sends = [
        Send(topic="orders", partition=part, value=encode(7, i), key=keyed[i]) for i, (part, *_) in enumerate(records)
    ]
    operation = journal.invoke("send", sends)
    journal.complete_send(
        operation,
        [SendOutcome(status="ok", offset=1, error=None, end_ns=5, timestamp_ms=time) for _, _, time, _ in records],
    )
    reads = [
        ReadRecord(
            topic="orders",
            partition=part,
            offset=i,
            epoch=0,
            value=encode(7, i),
            key=keyed[i],
            timestamp_ms=time,
            log_append=append,
        )
        for i, (part, _, time, append) in enumerate(records)
    ]
    journal.complete_poll(journal.invoke("poll"), reads)
    journal.close()

    rows = converted(tmp_path / "w.jsonl").records.to_pylist()

    sent, polled = rows[: len(records)], rows[len(records) :]
    assert [(row["partition"], row["key"], row["timestamp_ms"]) for row in sent] == [each[:3] for each in records]
    assert [(row["partition"], row["key"], row["timestamp_ms"], row["log_append"]) for row in polled] == records


def test_a_journal_cut_anywhere_is_read_up_to_there_and_its_open_transaction_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    journal = journal_in(tmp_path)
    transaction = journal.begin_transaction()
    send_one(journal, 1, "ok", transaction)
    journal.group_event(event("committed", {ORDERS[0]: 4}), transaction=transaction)
    before_the_end = len(path.read_bytes())
    journal.end_transaction(transaction, TransactionEnd(outcome="committed"))
    whole = path.read_bytes()

    for end in range(before_the_end, len(whole) - 1):
        path.write_bytes(whole[:end])
        tables = converted(path)
        assert tables.transactions.column("outcome").to_pylist() == [2]
        assert tables.records.column("status").to_pylist() == [2]
        assert tables.group_events.column("status").to_pylist() == [2]
    for end in range(before_the_end):
        path.write_bytes(whole[:end])
        assert len(converted(path).transactions) <= 1


def test_a_send_was_stamped_by_whoever_all_readers_of_its_partition_say(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    stamps = {0: [True, True], 1: [False], 2: [True, False], 3: []}
    sends = [Send(topic="orders", partition=part, value=encode(7, part)) for part in stamps]
    outcome = SendOutcome(status="ok", offset=0, error=None, end_ns=9, timestamp_ms=100)
    journal.complete_send(journal.invoke("send", sends), [outcome] * len(sends))
    for part, reported in stamps.items():
        reads = [
            ReadRecord(topic="orders", partition=part, offset=at, epoch=0, value=encode(7, part), log_append=append)
            for at, append in enumerate(reported)
        ]
        journal.complete_poll(journal.invoke("poll"), reads)

    rows = converted(tmp_path / "w.jsonl").records.to_pylist()

    assert [row["log_append"] for row in rows if row["kind"] == 0] == [True, False, None, None]


OLD = [
    ["P", 3, "producer-1", -1, 10, None],
    ["D", 0, "orders", 0],
    ["I", 1, "send", 11, [0], [3 << 40], []],
    ["S", 1, 15, [0], [4], [None], [12], [14]],
    ["I", 2, "poll", 16, [], [], []],
    ["R", 2, 18, [[0, [4], [0], [3 << 40], []]], None],
]


@pytest.mark.parametrize("stable", [True, False, None])
def test_a_fetch_says_whether_it_asked_for_stable_offsets(tmp_path: Path, stable: bool | None) -> None:
    journal = journal_in(tmp_path)
    journal.group_event(replace(event("fetched", {ORDERS[0]: 4}), require_stable=stable))
    journal.group_event(event("committed", {ORDERS[0]: 5}))
    journal.close()

    rows = converted(tmp_path / "w.jsonl").group_events.to_pylist()

    assert [(row["event"], row["require_stable"]) for row in rows] == [("fetched", stable), ("committed", None)]


def test_a_journal_from_before_these_columns_is_read_with_nulls(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in OLD))

    assert len(read_lines(path)) == len(OLD)
    tables = converted(path)
    rows = tables.records.to_pylist()
    assert [(row["offset"], row["status"], row["transaction"], row["key"], row["timestamp_ms"]) for row in rows] == [
        (4, 0, None, None, None)
    ] * 2
    assert tables.processes.to_pylist()[0]["role"] is None
    assert len(tables.transactions) == len(tables.group_events) == 0


@pytest.mark.parametrize("key", [b"k01", b"x1", b"k", b"k-1"])
def test_a_key_that_is_none_of_the_workloads_has_no_number(tmp_path: Path, key: bytes) -> None:
    journal = journal_in(tmp_path)
    journal.invoke("send", [Send(topic="orders", partition=0, value=b"v", key=key)])

    assert converted(tmp_path / "w.jsonl").records.column("key").to_pylist() == [None]
