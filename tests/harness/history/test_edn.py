"""The Jepsen export: every operation is invoked and completed, in the words of jepsen.tests.kafka, and comes back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.clock import SystemClock
from harness.history.edn import export
from harness.history.edn_reader import Keyword, read_file
from harness.history.imported import ImportedHistory
from harness.history.jepsen_import import read_history
from harness.history.journal import JournalFile
from harness.history.run_folder import RunFolder
from harness.history.schemas import TABLES
from harness.history.sealing import seal
from harness.history.values import encode
from harness.interfaces import ReadRecord, Send, SendOutcome
from tests.harness.checks.jepsen.model import Model, events_of


def _folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, scenario="s", clock=SystemClock(), seed=1, stamp="now")


def test_a_history_is_exported_in_jepsens_words(tmp_path: Path) -> None:
    clock = SystemClock()
    folder = _folder(tmp_path)
    journal = JournalFile(folder.history / "w.jsonl", worker="w", clock=clock)
    journal.begin_process(5, client="w", acks="0")  # so an old version called a success what has no offset
    sent = journal.invoke("send", [Send(topic="t", partition=p, value=encode(0, p)) for p in (0, 1, 1)])
    now = clock.monotonic_ns()
    journal.complete_send(sent, [
        SendOutcome(status="ok", offset=3, error=None, t1_ns=now),
        SendOutcome(status="info", offset=None, error="KafkaTimeoutError", t1_ns=now),
        SendOutcome(status="ok", offset=None, error=None, t1_ns=now),
    ])  # fmt: skip
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
    """The tables of a run, told row by row; topic t has partitions 0 and 1, times are small."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        for part in (0, 1):
            self.add("partitions", tp=part, topic="t", part=part, log_start=0, read_to_end=False)

    def add(self, table: str, **columns: Any) -> None:
        self.rows[table].append(dict.fromkeys(TABLES[table].names) | {"run": 0} | columns)

    def op(
        self, f: str, t0: int, t1: int, records: Sequence[tuple[int, int | None, int]] = (), *, process: int = 1,
        status: int = 0, txn: int | None = None, statuses: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """records: (partition, offset, value)."""
        op = len(self.rows["ops"])
        self.add("ops", op=op, process=process, client="c", f=f, status=status, t0=t0, t1=t1, count=len(records),
                 txn=txn)  # fmt: skip
        for i, (part, off, value) in enumerate(records):
            self.add(
                "records", kind=0 if f == "send" else 1, status=statuses[i] if statuses else status, op=op,
                acks=-1 if f == "send" else None, last=None if f == "send" else i + 1 == len(records),
                assignment=None if f == "send" else 0, process=process, topic="t", part=part, tp=part, i=i, off=off,
                value=value, t0=t0, t1=t1, txn=txn,
            )  # fmt: skip

    def group(self, event: str, t: int, part: int, *, process: int = 1, off: int | None = None) -> None:
        self.add("group_events", process=process, group="g", event=event, topic="t", part=part, off=off, status=0,
                 t0=t, t1=t)  # fmt: skip

    def exported(self, tmp_path: Path) -> tuple[list[Mapping[Any, Any]], ImportedHistory]:
        folder = _folder(tmp_path)
        for name, rows in self.rows.items():
            folder.write_table(name, pa.Table.from_pylist(rows, schema=TABLES[name]))
        path = tmp_path / "run.edn"
        count = export(folder, path)
        events = [event for _, event in read_file(path)]
        assert [event[Keyword("index")] for event in events] == list(range(count))
        return events, read_history(path)


def _said(history: ImportedHistory) -> set[tuple[Any, ...]]:
    return {
        (row["kind"], row["status"], history.keys[row["tp"]], row["off"], history.values[row["value"]])
        for row in history.tables["records"].to_pylist()
    }


def test_every_record_comes_back_with_its_outcome(tmp_path: Path) -> None:
    run = _Run()
    run.op("send", 1, 9, [(0, 0, 10), (0, None, 11), (1, None, 12), (1, None, 13)], status=2, statuses=[0, 1, 2, 2])
    run.op("send", 2, 5, [(0, 1, 14)])  # while the first is under way
    run.op("poll", 10, 11, [(0, 0, 10), (0, 1, 14)])
    run.op("final_poll", 12, 13, [(1, 0, 12)], process=3, status=1)
    _, history = run.exported(tmp_path)

    assert _said(history) == {
        (row["kind"], row["status"], row["tp"], row["off"], row["value"]) for row in run.rows["records"]
    }
    sends = [row for row in history.tables["records"].to_pylist() if row["kind"] == 0]
    # Of two records whose fate is unknown the one proves nothing of the other.
    assert len({row["op"] for row in sends if row["status"] == 2}) == 2
    assert {row["process"] for row in history.tables["ops"].to_pylist()} >= {1, 3}


def test_a_transaction_is_one_operation_with_its_outcome(tmp_path: Path) -> None:
    run = _Run()
    for txn, outcome in enumerate((0, 1, 2)):
        t = 100 * txn
        run.add("transactions", txn=txn, process=1, transactional_id="x", t0=t, t1=t + 50, outcome=outcome)
        run.op("poll", t + 10, t + 20, [(0, txn, txn)], txn=txn)
        run.op("send", t + 21, t + 30, [(1, txn, 10 + txn)], txn=txn, status=outcome)
        run.op("commit", t + 31, t + 32, txn=txn, status=outcome)
    _, history = run.exported(tmp_path)
    ops = history.tables["ops"].to_pylist()

    assert [(op["f"], op["status"], op["t0"], op["t1"], op["count"]) for op in ops] == [
        ("txn", 0, 0, 50, 2), ("txn", 1, 100, 150, 2), ("txn", 2, 200, 250, 2),
    ]  # fmt: skip
    assert [row["mop"] for row in history.tables["records"].to_pylist()] == [0, 1] * 3


def test_subscriptions_rebalances_seeks_crashes_and_ends_come_back(tmp_path: Path) -> None:
    run = _Run()
    run.op("subscribe", 1, 1)
    run.group("assigned", 5, 0)
    run.op("poll", 4, 6, [(0, 0, 1)])
    run.group("revoked", 8, 0)
    run.op("poll", 7, 9)
    run.op("seek", 10, 10)
    run.group("seek", 10, 0, off=0)
    run.op("seek", 11, 11)
    run.group("seek", 11, 1, off=7)
    run.op("crash", 12, 12, status=2)
    run.op("assign", 13, 13, process=2)
    run.rows["partitions"][0]["end_offset"] = 3
    _, history = run.exported(tmp_path)
    beside = [
        (row["op"], row["what"], history.keys[row["tp"]], row["off"])
        for row in history.tables["imported_keys"].to_pylist()
    ]
    fs = {op["op"]: op["f"] for op in history.tables["ops"].to_pylist()}

    assert [f for _, f in sorted(fs.items())] == [
        "subscribe", "poll", "poll", "assign", "assign", "assign", "crash", "assign", "debug-topic-partitions",
    ]  # fmt: skip
    assert {(fs[op], what, key) for op, what, key, _ in beside if what in ("rebalanced", "left")} == {
        ("poll", "rebalanced", 0), ("poll", "left", 0),
    }  # fmt: skip
    assert [key for _, what, key, _ in beside if what == "sought"] == [0, 1]
    dropped = sorted(op for op, f in fs.items() if f == "assign")[1]
    assert [key for op, what, key, _ in beside if op == dropped and what == "assigned"] == [0]
    assert [(key, off) for _, what, key, off in beside if what == "end"] == [(0, 3)]


def test_what_was_wrong_is_as_wrong_when_it_comes_back(tmp_path: Path) -> None:
    run = _Run()
    run.op("send", 1, 2, [(0, 0, 1), (0, 1, 2), (0, 2, 3)])
    run.op("send", 3, 4, [(1, None, 9)], status=1)
    run.op("poll", 5, 6, [(0, 0, 1)], process=2)
    run.op("poll", 7, 8, [(0, 2, 3), (1, 0, 9)], process=2)
    run.op("poll", 9, 10, [(0, 2, 3)], process=2)
    events, _ = run.exported(tmp_path)
    errors = Model(events_of(events)).errors()

    assert errors.keys() == {"lost-write", "unseen", "G1a", "poll-skip", "nonmonotonic-poll"}
    assert [(error["key"], error["value"]) for error in errors["lost-write"]] == [(0, 2)]


def test_a_folder_without_the_newer_tables_is_exported_too(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    for name in ("ops", "records", "partitions"):
        folder.write_table(name, TABLES[name].empty_table())

    assert export(folder, tmp_path / "none.edn") == 0
