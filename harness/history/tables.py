"""Journals in, columns out: all tables that clients' journals give, with the column meanings of schemas.py.

Rows stay flat from the journal's lists to Arrow: Python touches each list once (extend), numpy does the rest. Journals
are read a piece at a time, and records leave a row group at a time.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.history.group_tables import NO_TRANSACTION, GroupEvents, Transactions, processes_table
from harness.history.journal import (
    Assigned,
    Begin,
    Declare,
    Done,
    End,
    Group,
    Invoke,
    Line,
    Part,
    Process,
    Read,
    Sent,
    lines_of,
)
from harness.history.operation_columns import Operations
from harness.history.record_columns import NONE, NULL_ERROR, Columns, full, record_tables
from harness.history.schemas import (
    KIND_FINAL_POLL,
    KIND_POLL,
    KIND_SEND,
    STATUS_FAIL,
    STATUS_INFO,
    STATUS_OK,
    TABLES,
)
from harness.history.values import ValueNames

TopicPart = tuple[str, int]
NO_ANSWER = "no answer"
_OPERATIONS = {"committed": "commit", "seek": "seek"}  # group events that a client asked for


@dataclass(frozen=True, slots=True)
class _Asked:
    """An operation without its answer. place: among the operations of the run."""

    place: int
    process: Process
    invoke: Invoke
    txn: int


@dataclass(kw_only=True)
class _File:
    """What the numbers of one journal stand for."""

    process: Process | None = None
    client: int = -1  # the place of `process` among those of the run
    tps: dict[int, int] = field(default_factory=dict)
    transactions: dict[int, int] = field(default_factory=dict)
    unanswered: dict[int, _Asked] = field(default_factory=dict)
    assignments: dict[tuple[int, int], int] = field(default_factory=dict)

    def gained(self, tps: Iterable[int]) -> None:
        """The present process has these partitions anew: its next reads of them begin a new assignment."""
        assert self.process is not None, "an assignment before any client"
        for tp in tps:
            key = (self.process.process, self.tps[tp])
            self.assignments[key] = self.assignments.get(key, 0) + 1

    def transaction(self, number: int | None) -> int:
        return NO_TRANSACTION if number is None else self.transactions[number]


class Conversion:
    """Takes journals one after the other (`add`), then gives the tables (`finish`). `names` may grow."""

    def __init__(self, *, names: ValueNames, run: int = 0) -> None:
        self._names = names
        self._run = run
        self._operations = Operations()
        self._columns = Columns()
        self._tps: dict[TopicPart, int] = {}
        self._errors: dict[str, int] = {}
        self._last_t = 0
        self._processes: list[Process] = []
        self._transactions = Transactions()
        self._events = GroupEvents()
        self._event_tps: list[list[int]] = []

    # -- reading ------------------------------------------

    def add(self, path: Path) -> None:
        with no_collection():
            self.add_lines(lines_of(path))

    def add_lines(self, lines: Iterable[Line]) -> None:
        file = _File()
        for line in lines:
            match line:
                case Declare():
                    file.tps[line.number] = self.tp(line.topic, line.partition)
                case Process():
                    file.process, file.client = line, len(self._processes)
                    self._processes.append(line)
                    self._last_t = max(self._last_t, line.t)
                case Invoke():
                    assert file.process is not None, "an operation before any client"
                    txn = file.transaction(line.txn)
                    place = self._operations.begin(file.client, line.f, line.t, txn)
                    file.unanswered[line.operation] = _Asked(place, file.process, line, txn)
                    self._last_t = max(self._last_t, line.t)
                case Sent():
                    self._sent(line, file.unanswered.pop(line.operation), file.tps)
                case Read():
                    self._read(line, file.unanswered.pop(line.operation), file.tps, file.assignments)
                case Assigned():
                    file.gained(line.tps)
                    self._single("assign", line.t, line.t, len(line.tps), None, file)
                case Group() | Done() | Begin() | End():
                    self._beside(line, file)
        for asked in file.unanswered.values():
            self._unanswered(asked, file.tps)

    def _beside(self, line: Group | Done | Begin | End, file: _File) -> None:
        """What is no send and no poll."""
        assert file.process is not None, "a group or a transaction before any client"
        match line:
            case Group():
                self._group_event(line, file, file.process)
            case Done():
                self._single(line.f, line.t0, line.t1, line.count, line.error, file)
            case Begin():
                file.transactions[line.txn] = self._transactions.begin(line, file.process)
                self._last_t = max(self._last_t, line.t)
            case End():
                self._transactions.end(file.transactions[line.txn], line)
                self._last_t = max(self._last_t, line.t)

    def _group_event(self, line: Group, file: _File, process: Process) -> None:
        transaction = file.transaction(line.txn)
        self._events.add(line, process, transaction)
        self._event_tps.append([file.tps[tp] for tp in line.tps])
        if line.event in ("assigned", "seek") and line.status == STATUS_OK:
            file.gained(line.tps)
        if transaction != NO_TRANSACTION:
            self._transactions.took_offsets_of(transaction, process.group)
        if line.event in _OPERATIONS:
            f = _OPERATIONS[line.event]
            self._single(f, line.t0, line.t1, len(line.tps), line.error, file, status=line.status, txn=transaction)

    def _single(
        self, f: str, t0: int, t1: int, count: int, error: str | None, file: _File, *, status: int | None = None,
        txn: int = NO_TRANSACTION,
    ) -> None:  # fmt: skip
        """An operation without records. A crash is one of which nobody knows what became of its work."""
        assert file.process is not None, "an operation before any client"
        if status is None:
            status = STATUS_INFO if f == "crash" else STATUS_OK if error is None else STATUS_FAIL
        place = self._operations.begin(file.client, f, t0, txn)
        self._operations.end(place, t1=t1, status=status, count=count, error=error)
        self._last_t = max(self._last_t, t1)

    def tp(self, topic: str, partition: int) -> int:
        """The number that stands for a topic-partition until `finish` makes ids in order of name."""
        return self._tps.setdefault((topic, partition), len(self._tps))

    def _error(self, name: str | None) -> int:
        return NULL_ERROR if name is None else self._errors.setdefault(name, len(self._errors))

    def _values(self, numbers: list[int], texts: list[str]) -> list[int]:
        if not texts:
            return numbers
        return [number if number >= 0 else self._names.number_of_text(texts[-1 - number]) for number in numbers]

    def _block(
        self, kind: int, asked: _Asked, count: int, *, first: int = 0, assignment: int = NONE,
        log_append: bool | None = None, each: bool = True,
    ) -> None:  # fmt: skip
        columns = self._columns
        columns.kind.append(kind)
        columns.count.append(count)
        columns.op.append(asked.place)
        columns.process.append(asked.process.process)
        columns.acks.append(asked.process.acks if kind == KIND_SEND else NONE)
        replica = asked.process.replica if kind == KIND_FINAL_POLL else None
        columns.replica.append(NONE if replica is None else replica)
        columns.assignment.append(assignment)
        columns.first.append(first)
        columns.txn.append(asked.txn)
        columns.log_append.append(NONE if log_append is None else int(log_append))
        columns.told_each.append(int(each))

    def _sent(self, line: Sent, asked: _Asked, tps: dict[int, int]) -> None:
        invoke, columns = asked.invoke, self._columns
        count = len(invoke.tps)
        self._last_t = max(self._last_t, line.t)
        error = next((error for error in line.errors if error is not None), None)
        self._operations.end(asked.place, t1=line.t, status=_status_of(line.statuses), count=count, error=error)
        if not count:
            return
        self._block(KIND_SEND, asked, count)
        columns.tp.extend([tps[tp] for tp in invoke.tps])
        columns.value.extend(self._values(invoke.values, invoke.texts))
        columns.status.extend(line.statuses)
        columns.off.extend([NONE if offset is None else offset for offset in line.offsets])
        columns.epoch.extend([NONE] * count)
        columns.t0.extend([invoke.t if t0 is None else t0 for t0 in line.t0s])
        columns.t1.extend(line.t1s)
        columns.error.extend([self._error(error) for error in line.errors])
        columns.beside(invoke.keys, line.timestamps, count)

    def _unanswered(self, asked: _Asked, tps: dict[int, int]) -> None:
        """Nobody knows: a worker was killed, or the run ended first. t1 stays open until `finish`."""
        invoke, columns = asked.invoke, self._columns
        count = len(invoke.tps)
        self._operations.end(asked.place, t1=None, status=STATUS_INFO, count=count, error=NO_ANSWER)
        if not count:
            return
        self._block(KIND_SEND, asked, count)
        columns.tp.extend([tps[tp] for tp in invoke.tps])
        columns.value.extend(self._values(invoke.values, invoke.texts))
        columns.status.extend([STATUS_INFO] * count)
        columns.off.extend([NONE] * count)
        columns.epoch.extend([NONE] * count)
        columns.t0.extend([invoke.t] * count)
        columns.t1.extend([NONE] * count)
        columns.error.extend([self._error(NO_ANSWER)] * count)
        columns.beside(invoke.keys, (), count)

    def _read(self, line: Read, asked: _Asked, tps: dict[int, int], assignments: dict[tuple[int, int], int]) -> None:
        self._last_t = max(self._last_t, line.t)
        status = STATUS_OK if line.error is None else STATUS_FAIL
        kind = KIND_FINAL_POLL if asked.invoke.f == "final_poll" else KIND_POLL
        first = 0
        for part in line.parts:
            tp, count = tps[part.tp], len(part.offsets)
            if not count:
                continue
            each = len(part.epochs) == count > 1
            assignment = assignments.get((asked.process.process, tp), 0)
            self._block(kind, asked, count, first=first, assignment=assignment, log_append=part.log_append, each=each)
            self._part(part, tp, status, (asked.invoke.t, line.t), each=each)
            first += count
        self._operations.end(asked.place, t1=line.t, status=status, count=first, error=line.error)

    def _part(self, part: Part, tp: int, status: int, times: tuple[int, int], *, each: bool) -> None:
        columns, count = self._columns, len(part.offsets)
        entries = count if each else 1
        columns.off.extend(part.offsets)
        columns.value.extend(self._values(part.values, part.texts))
        columns.tp.extend([tp] * entries)
        columns.status.extend([status] * entries)
        columns.epoch.extend(full(part.epochs, entries))
        columns.t0.extend([times[0]] * entries)
        columns.t1.extend([times[1]] * entries)
        columns.error.extend([NULL_ERROR] * entries)
        columns.beside(part.keys, part.timestamps, count)

    # -- writing ------------------------------------------

    def finish(self, known: Iterable[TopicPart] = ()) -> "Converted":
        """`known`: topic-partitions of the run that need not occur in any journal; they get ids all the same."""
        for topic, partition in known:
            self.tp(topic, partition)
        names = sorted(self._tps)
        ids = {name: number for number, name in enumerate(names)}
        tp_ids = np.array([ids[name] for name in self._tps], np.int32)
        ops, rank, t1_of_op = self._operations.table(
            self._processes, self._transactions, run=self._run, last_t=self._last_t
        )
        records = partial(
            record_tables, self._columns, run=self._run, names=names, tp_ids=tp_ids, rank=rank, t1_of_op=t1_of_op,
            errors=self._errors, transactions=self._transactions,
        )  # fmt: skip
        told = list(self._tps)
        places = [[told[tp] for tp in tps] for tps in self._event_tps]
        return Converted(
            ops=ops,
            record_tables=records,
            processes=processes_table(self._processes, run=self._run),
            transactions=self._transactions.table(run=self._run, last_t=self._last_t),
            group_events=self._events.table(places, self._transactions, run=self._run),
            tps=ids,
        )


@dataclass(frozen=True, kw_only=True)
class Converted:
    """record_tables: the records, a row group at a time. tps: the dense ids of topic-partitions, in order of name."""

    ops: pa.Table
    record_tables: Callable[[], Iterator[pa.Table]]
    processes: pa.Table
    transactions: pa.Table
    group_events: pa.Table
    tps: dict[TopicPart, int]

    @property
    def records(self) -> pa.Table:
        """All of them at once, where they are few."""
        return pa.concat_tables([TABLES["records"].empty_table(), *self.record_tables()])


@contextmanager
def no_collection() -> Iterator[None]:
    """Millions of small lists come and go while journals are read, none of them in a circle: looking is in vain."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _status_of(statuses: Sequence[int]) -> int:
    """ok and fail only where all records agree; the records tell the rest."""
    present = set(statuses)
    return present.pop() if len(present) == 1 else STATUS_INFO
