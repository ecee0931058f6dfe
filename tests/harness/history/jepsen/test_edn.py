"""The Jepsen export: every operation is invoked and completed in the format of jepsen.tests.kafka,
and can be imported."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.checks.jepsen import check_histories
from harness.history.facts.values import encode
from harness.history.jepsen.edn import export
from harness.history.jepsen.edn_reader import Keyword, bytes_of, read_bytes
from harness.history.jepsen.imported import ImportedHistory
from harness.history.jepsen.jepsen_import import read_history
from harness.history.journals.journal import JournalFile
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import TABLES
from harness.history.sealed.sealing import seal
from harness.host.clock import SystemClock
from harness.ports.cluster import ReadRecord, Send, SendOutcome
from tests.harness.checks.jepsen.model import Model, events_of


def _folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, scenario="s", clock=SystemClock(), seed=1, stamp="now")


def test_a_history_is_exported_in_jepsens_words(tmp_path: Path) -> None:
    clock = SystemClock()
    folder = _folder(tmp_path)
    journal = JournalFile(folder.history / "w.jsonl", worker="w", clock=clock)
    journal.begin_process(5, client="w", acks="0")  # an old version stored a success without an offset
    sent = journal.invoke("send", [Send(topic="t", partition=p, value=encode(0, p)) for p in (0, 1, 1)])
    now = clock.monotonic_ns()
    journal.complete_send(
        sent,
        [
            SendOutcome(status="ok", offset=3, error=None, end_ns=now),
            SendOutcome(status="info", offset=None, error="KafkaTimeoutError", end_ns=now),
            SendOutcome(status="ok", offset=None, error=None, end_ns=now),
        ],
    )
    record = ReadRecord(topic="t", partition=0, offset=3, epoch=0, value=encode(0, 0))
    journal.complete_poll(journal.invoke("poll"), [record])
    seal(folder)

    lines = tmp_path / "history.edn"

    assert export(folder, lines) == 6
    assert [line.split(", ", 2)[2] for line in lines.read_text().splitlines()] == [
        ":type :invoke, :process 5, :f :send, :value [[:send 0 0] [:send 1 1]], :batch? true}",
        ":type :invoke, :process 6, :f :send, :value [[:send 1 1]]}",
        ":type :ok, :process 5, :f :send, :value [[:send 0 [3 0]] [:send 1 1]], :batch? true}",
        ":type :info, :process 6, :f :send, :value [[:send 1 1]]}",
        ":type :invoke, :process 5, :f :poll, :value [[:poll]]}",
        ":type :ok, :process 5, :f :poll, :value [[:poll {0 [[3 0]]}]]}",
    ]


class _Run:
    """The tables of a run, built row by row; topic t has partitions 0 and 1, times are small."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        for part in (0, 1):
            self.add("partitions", partition_id=part, topic="t", partition=part, log_start_offset=0, read_to_end=False)

    def add(self, table: str, **columns: Any) -> None:
        self.rows[table].append(dict.fromkeys(TABLES[table].names) | {"run": 0} | columns)

    def operation(
        self,
        f: str,
        invoked_ns: int,
        completed_ns: int,
        records: Sequence[tuple[int, int | None, int]] = (),
        *,
        process: int = 1,
        status: int = 0,
        transaction: int | None = None,
        statuses: Sequence[int] = (),
    ) -> None:
        """records: (partition, offset, value)."""
        op = len(self.rows["operations"])
        self.add(
            "operations",
            operation=op,
            process=process,
            client="c",
            function=f,
            status=status,
            invoked_ns=invoked_ns,
            completed_ns=completed_ns,
            count=len(records),
            transaction=transaction,
        )
        for i, (part, offset, value) in enumerate(records):
            self.add(
                "records",
                kind=0 if f == "send" else 1,
                status=statuses[i] if statuses else status,
                operation=op,
                acks=-1 if f == "send" else None,
                last_of_poll=None if f == "send" else i + 1 == len(records),
                assignment=None if f == "send" else 0,
                process=process,
                topic="t",
                partition=part,
                partition_id=part,
                position=i,
                offset=offset,
                value=value,
                invoked_ns=invoked_ns,
                completed_ns=completed_ns,
                transaction=transaction,
            )

    def group(self, event: str, time_ns: int, partition: int, *, process: int = 1, offset: int | None = None) -> None:
        self.add(
            "group_events",
            process=process,
            group="g",
            event=event,
            topic="t",
            partition=partition,
            offset=offset,
            status=0,
            invoked_ns=time_ns,
            completed_ns=time_ns,
        )

    def exported(self, tmp_path: Path) -> tuple[list[Mapping[Any, Any]], ImportedHistory]:
        folder = _folder(tmp_path)
        for name, rows in self.rows.items():
            folder.write_table(name, pa.Table.from_pylist(rows, schema=TABLES[name]))
        path = tmp_path / "run.edn"
        count = export(folder, path)
        events = [event for _, event in read_bytes(bytes_of(path), place=str(path))]
        assert [event[Keyword("index")] for event in events] == list(range(count))
        return events, read_history(path)


def _said(history: ImportedHistory) -> set[tuple[Any, ...]]:
    return {
        (row["kind"], row["status"], history.keys[row["partition_id"]], row["offset"], history.values[row["value"]])
        for row in history.tables["records"].to_pylist()
    }


def test_every_record_comes_back_with_its_outcome(tmp_path: Path) -> None:
    run = _Run()
    run.operation(
        "send", 1, 9, [(0, 0, 10), (0, None, 11), (1, None, 12), (1, None, 13)], status=2, statuses=[0, 1, 2, 2]
    )
    run.operation("send", 2, 5, [(0, 1, 14)])  # while the first is under way
    run.operation("poll", 10, 11, [(0, 0, 10), (0, 1, 14)])
    run.operation("final_poll", 12, 13, [(1, 0, 12)], process=3, status=1)
    _, history = run.exported(tmp_path)

    assert _said(history) == {
        (row["kind"], row["status"], row["partition_id"], row["offset"], row["value"]) for row in run.rows["records"]
    }
    sends = [row for row in history.tables["records"].to_pylist() if row["kind"] == 0]
    # Two records of unknown outcome are independent.
    assert len({row["operation"] for row in sends if row["status"] == 2}) == 2
    assert {row["process"] for row in history.tables["operations"].to_pylist()} >= {1, 3}


def test_a_transaction_is_one_operation_with_its_outcome(tmp_path: Path) -> None:
    run = _Run()
    for txn, outcome in enumerate((0, 1, 2)):
        t = 100 * txn
        run.add(
            "transactions",
            transaction=txn,
            process=1,
            transactional_id="x",
            invoked_ns=t,
            completed_ns=t + 50,
            outcome=outcome,
        )
        run.operation("poll", t + 10, t + 20, [(0, txn, txn)], transaction=txn)
        run.operation("send", t + 21, t + 30, [(1, txn, 10 + txn)], transaction=txn, status=outcome)
        run.operation("commit", t + 31, t + 32, transaction=txn, status=outcome)
    _, history = run.exported(tmp_path)
    ops = history.tables["operations"].to_pylist()

    assert [(op["function"], op["status"], op["invoked_ns"], op["completed_ns"], op["count"]) for op in ops] == [
        ("txn", 0, 0, 50, 2),
        ("txn", 1, 100, 150, 2),
        ("txn", 2, 200, 250, 2),
    ]
    assert [row["micro_operation"] for row in history.tables["records"].to_pylist()] == [0, 1] * 3


def test_subscriptions_rebalances_seeks_crashes_and_ends_come_back(tmp_path: Path) -> None:
    run = _Run()
    run.operation("subscribe", 1, 1)
    run.group("assigned", 5, 0)
    run.operation("poll", 4, 6, [(0, 0, 1)])
    run.group("revoked", 8, 0)
    run.operation("poll", 7, 9)
    run.operation("seek", 10, 10)
    run.group("seek", 10, 0, offset=0)
    run.operation("seek", 11, 11)
    run.group("seek", 11, 1, offset=7)
    run.operation("crash", 12, 12, status=2)
    run.operation("assign", 13, 13, process=2)
    run.rows["partitions"][0]["end_offset"] = 3
    _, history = run.exported(tmp_path)
    beside = [
        (row["operation"], row["what"], history.keys[row["partition_id"]], row["offset"])
        for row in history.tables["imported_keys"].to_pylist()
    ]
    fs = {op["operation"]: op["function"] for op in history.tables["operations"].to_pylist()}

    assert [f for _, f in sorted(fs.items())] == [
        "subscribe",
        "poll",
        "poll",
        "assign",
        "assign",
        "assign",
        "crash",
        "assign",
        "debug-topic-partitions",
    ]
    assert {(fs[op], what, key) for op, what, key, _ in beside if what in ("rebalanced", "left")} == {
        ("poll", "rebalanced", 0),
        ("poll", "left", 0),
    }
    assert [key for _, what, key, _ in beside if what == "sought"] == [0, 1]
    dropped = sorted(op for op, f in fs.items() if f == "assign")[1]
    assert [key for op, what, key, _ in beside if op == dropped and what == "assigned"] == [0]
    assert [(key, offset) for _, what, key, offset in beside if what == "end"] == [(0, 3)]


def test_what_was_wrong_is_as_wrong_when_it_comes_back(tmp_path: Path) -> None:
    run = _Run()
    run.operation("send", 1, 2, [(0, 0, 1), (0, 1, 2), (0, 2, 3)])
    run.operation("send", 3, 4, [(1, None, 9)], status=1)
    run.operation("poll", 5, 6, [(0, 0, 1)], process=2)
    run.operation("poll", 7, 8, [(0, 2, 3), (1, 0, 9)], process=2)
    run.operation("poll", 9, 10, [(0, 2, 3)], process=2)
    events, _ = run.exported(tmp_path)
    errors = Model(events_of(events)).errors()

    assert errors.keys() == {"lost-write", "unseen", "G1a", "poll-skip", "nonmonotonic-poll"}
    assert [(error["key"], error["value"]) for error in errors["lost-write"]] == [(0, 2)]


def test_polls_of_one_client_that_overlap_skip_nothing_when_they_come_back(tmp_path: Path) -> None:
    """Two tasks of one client read a partition each, and come to lie on now this, now that process."""
    run = _Run()
    run.operation("send", 1, 2, [(0, 0, 1), (0, 1, 2), (0, 2, 3), (1, 0, 11), (1, 1, 12), (1, 2, 13)])
    for begin, end, partition, offset in (
        (10, 14, 0, 0),
        (12, 18, 1, 0),
        (19, 23, 1, 1),
        (20, 24, 0, 1),
        (25, 29, 0, 2),
        (26, 30, 1, 2),
    ):
        run.operation("poll", begin, end, [(partition, offset, 10 * partition + offset + 1)], process=2)
    events, history = run.exported(tmp_path)

    assert Model(events_of(events)).errors() == {}
    (answer,) = check_histories([history], ww_deps=False, sub_via=frozenset({"assign"}), compatible=False)
    assert (answer.errors, answer.bad) == ({}, [])


def test_a_folder_without_the_newer_tables_is_exported_too(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    for name in ("operations", "records", "partitions"):
        folder.write_table(name, TABLES[name].empty_table())

    assert export(folder, tmp_path / "none.edn") == 0
