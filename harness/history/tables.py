"""Journals in, columns out: the tables ops, records and bins, with the column meanings of schemas.py.

Rows stay flat from the journal's lists to Arrow: Python touches each list once (extend), numpy does the rest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.journal import Assigned, Declare, Invoke, Line, Part, Process, Read, Sent, read_lines
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
_NONE = np.iinfo(np.int64).min  # stands for null in the integer columns while they are built
_NULL_ERROR = -1


@dataclass(kw_only=True)
class _Columns:
    """Growing columns. `op` is the place of the operation in `Conversion.ops` until operations are put in order."""

    kind: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)  # rows of each block; kind, op, ... have one entry per block
    op: list[int] = field(default_factory=list)
    process: list[int] = field(default_factory=list)
    acks: list[int] = field(default_factory=list)
    replica: list[int] = field(default_factory=list)
    assignment: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)  # i of the block's first row
    # one entry per row from here on
    tp: list[int] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    off: list[int] = field(default_factory=list)
    epoch: list[int] = field(default_factory=list)
    value: list[int] = field(default_factory=list)
    t0: list[int] = field(default_factory=list)
    t1: list[int] = field(default_factory=list)
    error: list[int] = field(default_factory=list)


@dataclass(kw_only=True)
class _Operation:
    process: Process
    invoke: Invoke
    order: int
    t1: int | None = None
    status: int = STATUS_INFO
    count: int = 0
    error: str | None = None


class Conversion:
    """Takes journals one after the other (`add`), then gives the tables (`finish`). `names` may grow."""

    def __init__(self, *, names: ValueNames, run: int = 0) -> None:
        self._names = names
        self._run = run
        self._operations: list[_Operation] = []
        self._columns = _Columns()
        self._tps: dict[TopicPart, int] = {}
        self._errors: dict[str, int] = {}
        self._last_t = 0

    # -- reading ------------------------------------------

    def add(self, path: Path) -> None:
        self.add_lines(read_lines(path))

    def add_lines(self, lines: Iterable[Line]) -> None:
        process: Process | None = None
        tps: dict[int, int] = {}
        unanswered: dict[int, tuple[int, _Operation]] = {}
        assignments: dict[tuple[int, int], int] = {}
        for line in lines:
            match line:
                case Declare():
                    tps[line.number] = self.tp(line.topic, line.partition)
                case Process():
                    process = line
                    self._last_t = max(self._last_t, line.t)
                case Invoke():
                    assert process is not None, "an operation before any client"
                    operation = _Operation(process=process, invoke=line, order=len(self._operations))
                    unanswered[line.operation] = (len(self._operations), operation)
                    self._operations.append(operation)
                    self._last_t = max(self._last_t, line.t)
                case Sent():
                    self._sent(line, *unanswered.pop(line.operation), tps)
                case Read():
                    self._read(line, *unanswered.pop(line.operation), tps, assignments)
                case Assigned():
                    assert process is not None, "an assignment before any client"
                    for tp in line.tps:
                        key = (process.process, tps[tp])
                        assignments[key] = assignments.get(key, 0) + 1
                    self._assigned(line, process)
        for number, operation in unanswered.values():
            self._unanswered(number, operation, tps)

    def tp(self, topic: str, partition: int) -> int:
        """The number that stands for a topic-partition until `finish` makes ids in order of name."""
        return self._tps.setdefault((topic, partition), len(self._tps))

    def _error(self, name: str | None) -> int:
        return _NULL_ERROR if name is None else self._errors.setdefault(name, len(self._errors))

    def _values(self, numbers: list[int], texts: list[str]) -> list[int]:
        if not texts:
            return numbers
        return [number if number >= 0 else self._names.number_of_text(texts[-1 - number]) for number in numbers]

    def _block(self, kind: int, number: int, operation: _Operation, count: int, *, first: int, assignment: int) -> None:
        columns = self._columns
        columns.kind.append(kind)
        columns.count.append(count)
        columns.op.append(number)
        columns.process.append(operation.process.process)
        columns.acks.append(operation.process.acks if kind == KIND_SEND else _NONE)
        replica = operation.process.replica if kind == KIND_FINAL_POLL else None
        columns.replica.append(_NONE if replica is None else replica)
        columns.assignment.append(assignment)
        columns.first.append(first)

    def _sent(self, line: Sent, number: int, operation: _Operation, tps: dict[int, int]) -> None:
        invoke, columns = operation.invoke, self._columns
        count = len(invoke.tps)
        self._last_t = max(self._last_t, line.t)
        operation.t1, operation.count = line.t, count
        operation.status = _status_of(line.statuses)
        operation.error = next((error for error in line.errors if error is not None), None)
        self._block(KIND_SEND, number, operation, count, first=0, assignment=_NONE)
        columns.tp.extend(tps[tp] for tp in invoke.tps)
        columns.value.extend(self._values(invoke.values, invoke.texts))
        columns.status.extend(line.statuses)
        columns.off.extend(_NONE if offset is None else offset for offset in line.offsets)
        columns.epoch.extend([_NONE] * count)
        columns.t0.extend(invoke.t if t0 is None else t0 for t0 in line.t0s)
        columns.t1.extend(line.t1s)
        columns.error.extend(map(self._error, line.errors))

    def _unanswered(self, number: int, operation: _Operation, tps: dict[int, int]) -> None:
        """Nobody knows: a worker was killed, or the run ended first. t1 stays open until `finish`."""
        invoke, columns = operation.invoke, self._columns
        count = operation.count = len(invoke.tps)
        operation.error = NO_ANSWER
        if not count:
            return
        self._block(KIND_SEND, number, operation, count, first=0, assignment=_NONE)
        columns.tp.extend(tps[tp] for tp in invoke.tps)
        columns.value.extend(self._values(invoke.values, invoke.texts))
        columns.status.extend([STATUS_INFO] * count)
        columns.off.extend([_NONE] * count)
        columns.epoch.extend([_NONE] * count)
        columns.t0.extend([invoke.t] * count)
        columns.t1.extend([_NONE] * count)
        columns.error.extend([self._error(NO_ANSWER)] * count)

    def _read(
        self,
        line: Read,
        number: int,
        operation: _Operation,
        tps: dict[int, int],
        assignments: dict[tuple[int, int], int],
    ) -> None:
        self._last_t = max(self._last_t, line.t)
        operation.t1, operation.error = line.t, line.error
        operation.status = STATUS_OK if line.error is None else STATUS_FAIL
        kind = KIND_FINAL_POLL if operation.invoke.f == "final_poll" else KIND_POLL
        for part in line.parts:
            tp = tps[part.tp]
            assignment = assignments.get((operation.process.process, tp), 0)
            self._block(kind, number, operation, len(part.offsets), first=operation.count, assignment=assignment)
            self._part(part, tp, operation)
            operation.count += len(part.offsets)

    def _part(self, part: Part, tp: int, operation: _Operation) -> None:
        columns, count = self._columns, len(part.offsets)
        epochs = part.epochs if len(part.epochs) == count else part.epochs * count
        columns.tp.extend([tp] * count)
        columns.value.extend(self._values(part.values, part.texts))
        columns.status.extend([operation.status] * count)
        columns.off.extend(part.offsets)
        columns.epoch.extend(_NONE if epoch is None else epoch for epoch in epochs)
        columns.t0.extend([operation.invoke.t] * count)
        columns.t1.extend([operation.t1 or 0] * count)
        columns.error.extend([_NULL_ERROR] * count)

    def _assigned(self, line: Assigned, process: Process) -> None:
        invoke = Invoke(-1, "assign", line.t, [], [], [])
        operation = _Operation(process=process, invoke=invoke, order=len(self._operations), t1=line.t)
        operation.status, operation.count = STATUS_OK, len(line.tps)
        self._operations.append(operation)

    # -- writing ------------------------------------------

    def finish(self, known: Iterable[TopicPart] = ()) -> "Converted":
        """`known`: topic-partitions of the run that need not occur in any journal; they get ids all the same."""
        for topic, partition in known:
            self.tp(topic, partition)
        names = sorted(self._tps)
        ids = {name: number for number, name in enumerate(names)}
        tp_ids = np.array([ids[name] for name in self._tps], np.int32)
        ops, rank, t1_of_op = self._finish_ops()
        return Converted(ops=ops, records=self._finish_records(names, tp_ids, rank, t1_of_op), tps=ids)

    def _finish_ops(self) -> tuple[pa.Table, Any, Any]:
        operations = self._operations
        answered = np.array([operation.t1 is not None for operation in operations], bool)
        t1 = np.array([operation.t1 or 0 for operation in operations], np.int64)
        t1[~answered] = self._last_t
        t0 = np.array([operation.invoke.t for operation in operations], np.int64)
        order = np.lexsort((np.arange(len(operations)), t0, ~answered, t1))
        rank = np.empty(len(operations), np.int64)
        rank[order] = np.arange(len(operations))
        ordered = [operations[place] for place in order]
        table = pa.table(
            {
                "run": np.full(len(ordered), self._run, np.int32),
                "op": np.arange(len(ordered), dtype=np.int64),
                "process": pa.array([operation.process.process for operation in ordered], pa.int32()),
                "client": pa.array([operation.process.client for operation in ordered], pa.string()),
                "f": pa.array([operation.invoke.f for operation in ordered], pa.string()),
                "status": pa.array([operation.status for operation in ordered], pa.int8()),
                "t0": t0[order],
                "t1": t1[order],
                "count": pa.array([operation.count for operation in ordered], pa.int32()),
                "error": pa.array([operation.error for operation in ordered], pa.string()),
            },
            schema=TABLES["ops"],
        )
        return table, rank, t1

    def _finish_records(self, names: Sequence[TopicPart], tp_ids: Any, rank: Any, t1_of_op: Any) -> pa.Table:
        columns = self._columns
        count = np.array(columns.count, np.int64)
        op_place = np.repeat(np.array(columns.op, np.int64), count)
        starts = np.cumsum(count) - count
        i = np.arange(len(op_place)) - np.repeat(starts - np.array(columns.first, np.int64), count)
        op = rank[op_place] if len(op_place) else op_place
        order = np.lexsort((i, op))
        blocks = {
            name: np.repeat(np.array(getattr(columns, name), np.int64), count)[order]
            for name in ("kind", "process", "acks", "replica", "assignment")
        }
        rows = {
            name: np.array(getattr(columns, name), np.int64)[order]
            for name in ("status", "off", "epoch", "value", "t0", "t1", "error")
        }
        tp = tp_ids[np.array(columns.tp, np.int64)[order]] if len(order) else np.zeros(0, np.int32)
        open_end = rows["t1"] == _NONE
        rows["t1"][open_end] = t1_of_op[op_place[order][open_end]]
        op, i = op[order], i[order]
        step, last = _steps(op, tp, i, rows["off"], blocks["kind"])
        topics = [topic for topic, _ in names]
        parts = np.array([part for _, part in names], np.int32)
        return pa.table(
            {
                "run": np.full(len(op), self._run, np.int32),
                "kind": blocks["kind"].astype(np.int8),
                "status": rows["status"].astype(np.int8),
                "acks": _nullable(blocks["acks"], pa.int8()),
                "op": op,
                "process": blocks["process"].astype(np.int32),
                "assignment": _nullable(blocks["assignment"], pa.int32()),
                "topic": _texts(tp, topics),
                "part": parts[tp] if len(tp) else tp,
                "tp": tp,
                "i": i.astype(np.int32),
                "off": _nullable(rows["off"], pa.int64()),
                "step": _nullable(step, pa.int64()),
                "last": pa.array(last, pa.bool_(), mask=blocks["kind"] == KIND_SEND),
                "epoch": _nullable(rows["epoch"], pa.int32()),
                "value": rows["value"],
                "t0": rows["t0"],
                "t1": rows["t1"],
                "txn": pa.nulls(len(op), pa.int64()),
                "replica": _nullable(blocks["replica"], pa.int32()),
                "error": _texts(rows["error"], list(self._errors)),
            },
            schema=TABLES["records"],
        )


@dataclass(frozen=True, kw_only=True)
class Converted:
    """tps: the dense id of each topic-partition, in order of (topic, partition)."""

    ops: pa.Table
    records: pa.Table
    tps: dict[TopicPart, int]


def _status_of(statuses: Sequence[int]) -> int:
    """ok and fail only where all records agree; the records tell the rest."""
    present = set(statuses)
    return present.pop() if len(present) == 1 else STATUS_INFO


def _steps(op: Any, tp: Any, i: Any, off: Any, kind: Any) -> tuple[Any, Any]:
    """step and last of polls. Rows of one partition need not lie together within a poll."""
    step = np.full(len(op), _NONE, np.int64)
    last = np.zeros(len(op), bool)
    read = np.flatnonzero(kind != KIND_SEND)
    if not len(read):
        return step, last
    order = read[np.lexsort((i[read], tp[read], op[read]))]
    same = (op[order][1:] == op[order][:-1]) & (tp[order][1:] == tp[order][:-1])
    later = order[1:][same]
    step[later] = off[later] - off[order[:-1][same]]
    last[order] = np.append(~same, True)
    return step, last


def _nullable(column: Any, kind: pa.DataType) -> pa.Array:
    absent = column == _NONE
    filled = np.where(absent, 0, column)
    return pa.array(filled, mask=absent).cast(kind)


def _texts(codes: Any, texts: Sequence[str]) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string())).cast(pa.string())
