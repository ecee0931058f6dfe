"""A worker's journal: what its clients asked and were answered, one JSON array a line, written without a buffer.

The invocation of an operation is on disk before its first record leaves; one line brings all its answers. So a record
without an answer line is `info`, whoever was killed. Lines are appended by one writer; only the last can be torn.

    ["J", worker]                              the first line: the file is being written
    ["P", process, client, acks, t, replica, library, role, idempotent, isolation, group, transactional_id,
     offset_reset, tells_attempts]             a fresh client begins; operations that follow are its own
    ["D", number, topic, partition]            a short number for a topic-partition, in this file
    ["I", operation, f, t, tps, values, texts, txn, keys]  invocation; for sends tps and values in sending order
    ["S", operation, t, statuses, offsets, errors, t0s, t1s, timestamps]
    ["R", operation, t, parts, error]          answer of a poll; a part is
                                               [tp, offsets, epochs, values, texts, keys, timestamps, log_append]
    ["A", t, tps]                              partitions were assigned anew
    ["G", event, t0, t1, tps, offsets, status, generation, member, error, txn]  between the client and its group
    ["C", process, t, event, node, tp, epoch, status, error]  what a client met, said before the answers it came before
    ["O", f, t0, t1, count, error]             an operation without records (subscribe, crash)
    ["B", txn, t]                              a transaction is about to begin; txn is its number in this file
    ["E", txn, t, outcome, error]              it was committed (0), aborted (1), or nobody knows (2)
    ["F", lines]                               the last line: the writer was done; how many lines came before

A value that is no number of the workload's own (values.py) is written as -1-k, where k is its place in `texts`. What
stands at the end of a line may be missing: older journals have fewer columns, and neither J nor F. A transaction
without its end line is one of which nobody knows.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from harness.clock import Clock
from harness.history import values
from harness.history.journal_sources import (
    AClientEvent,
    AnEnd,
    AnEvent,
    AnOutcome,
    APlace,
    ARecord,
    ASend,
    AUse,
)

CONTROLLER_ROWS = "controller.jsonl"  # beside the journals, and none of them: controller_rows.py
STATUS = {"ok": 0, "fail": 1, "info": 2}
ACKS = {"0": 0, "1": 1, "all": -1}
OUTCOME = {"committed": 0, "aborted": 1, "unknown": 2}
_KEY = re.compile(rb"k(0|[1-9][0-9]{0,17})")


# What the tables hold; numbers without a name here are of 64 bits.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Status = Annotated[int, msgspec.Meta(ge=0, le=2)]


class Opened(msgspec.Struct, array_like=True, tag="J", frozen=True):
    worker: str


class Process(msgspec.Struct, array_like=True, tag="P", frozen=True):
    process: Int32
    client: str
    acks: Annotated[int, msgspec.Meta(ge=-1, le=1)]
    t: Int64
    replica: Int32 | None
    library: str | None = None
    role: str | None = None
    idempotent: bool | None = None
    isolation: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    offset_reset: str | None = None
    tells_attempts: bool | None = None


class Declare(msgspec.Struct, array_like=True, tag="D", frozen=True):
    number: int
    topic: str
    partition: Int32


class Invoke(msgspec.Struct, array_like=True, tag="I", frozen=True):
    operation: int
    f: str
    t: int
    tps: list[int]
    values: list[int]
    texts: list[str]
    txn: int | None = None
    keys: list[int | None] = []  # none at all, or one for each record


class Sent(msgspec.Struct, array_like=True, tag="S", frozen=True):
    operation: int
    t: int
    statuses: list[Status]
    offsets: list[int | None]
    errors: list[str | None]
    t0s: list[int | None]
    t1s: list[int]
    timestamps: list[int | None] = []  # none, one for all records, or one for each


class Part(msgspec.Struct, array_like=True, frozen=True):
    tp: int
    offsets: list[int]
    epochs: list[Int32 | None]
    values: list[int]
    texts: list[str]
    keys: list[int | None] = []  # as in Invoke
    timestamps: list[int | None] = []  # as in Sent
    log_append: bool | None = None


class Read(msgspec.Struct, array_like=True, tag="R", frozen=True):
    operation: int
    t: int
    parts: list[Part]
    error: str | None


class Assigned(msgspec.Struct, array_like=True, tag="A", frozen=True):
    t: int
    tps: list[int]


class Group(msgspec.Struct, array_like=True, tag="G", frozen=True):
    event: str
    t0: int
    t1: int
    tps: list[int]
    offsets: list[int | None]
    status: Status
    generation: Int32 | None = None
    member: str | None = None
    error: str | None = None
    txn: int | None = None


class Met(msgspec.Struct, array_like=True, tag="C", frozen=True):
    process: int
    t: int
    event: str
    node: Int32 | None
    tp: int | None
    epoch: Int32 | None
    status: Status | None
    error: str | None


class Done(msgspec.Struct, array_like=True, tag="O", frozen=True):
    f: str
    t0: int
    t1: int
    count: Int32
    error: str | None


class Begin(msgspec.Struct, array_like=True, tag="B", frozen=True):
    txn: int
    t: int


class End(msgspec.Struct, array_like=True, tag="E", frozen=True):
    txn: int
    t: int
    outcome: Status
    error: str | None


class Finished(msgspec.Struct, array_like=True, tag="F", frozen=True):
    lines: int


Line = Opened | Process | Declare | Invoke | Sent | Read | Assigned | Group | Met | Done | Begin | End | Finished
_ENCODER = msgspec.json.Encoder()


class ProcessNumbers:
    """Numbers of clients, unique over the run: writer `first` of `step` writers takes first, first + step, ..."""

    def __init__(self, *, first: int, step: int) -> None:
        assert 0 <= first < step, (first, step)
        self._next = first
        self._step = step

    def next(self) -> int:
        number = self._next
        self._next += self._step
        return number


class JournalFile:
    """The writer; implements harness.interfaces.Journal. `begin_process` must come before the first operation."""

    def __init__(self, path: Path, *, worker: str, clock: Clock) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.worker = worker
        self._clock = clock
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
        self._operations = 0
        self._transactions = 0
        self._numbers: dict[tuple[str | None, int | None], int] = {}
        self._process = -1
        self._lines = 0
        self._write(Opened(worker))

    @property
    def process(self) -> int:
        assert self._process >= 0, "no client has begun"
        return self._process

    def begin_process(
        self,
        process: int,
        *,
        client: str,
        acks: str,
        replica: int | None = None,
        library: str | None = None,
        idempotent: bool | None = None,
        use: AUse | None = None,
        tells_attempts: bool | None = None,
    ) -> None:
        """A fresh client; `replica`: it reads with that broker as the only possible leader."""
        self._process = process
        line = Process(process, client, ACKS[acks], self._clock.monotonic_ns(), replica, library)
        line = msgspec.structs.replace(line, idempotent=idempotent, tells_attempts=tells_attempts)
        if use is not None:
            line = msgspec.structs.replace(
                line, role=use.role, group=use.group, transactional_id=use.transactional_id,
                idempotent=None if use.role == "consumer" else idempotent,
                isolation=None if use.role == "producer" else use.isolation,
                offset_reset=None if use.role == "producer" else use.offset_reset,
            )  # fmt: skip
        self._write(line)

    def invoke(self, f: str, records: Sequence[ASend] = (), *, transaction: int | None = None) -> int:
        assert self._process >= 0, "no client has begun"
        self._operations += 1
        tps = [self._number(record.topic, record.partition) for record in records]
        numbers, texts = _numbers(record.value for record in records)
        keys = _keys([record.key for record in records])
        now = self._clock.monotonic_ns()
        self._write(Invoke(self._operations, f, now, tps, numbers, texts, transaction, keys))
        return self._operations

    def complete_send(self, operation: int, outcomes: Sequence[AnOutcome]) -> None:
        self._write(
            Sent(
                operation,
                self._clock.monotonic_ns(),
                [STATUS[outcome.status] for outcome in outcomes],
                [outcome.offset for outcome in outcomes],
                [outcome.error for outcome in outcomes],
                [outcome.t0_ns for outcome in outcomes],
                [outcome.t1_ns for outcome in outcomes],
                _compact([outcome.timestamp_ms for outcome in outcomes]),
            )
        )

    def complete_poll(self, operation: int, records: Sequence[ARecord], *, error: str | None = None) -> None:
        now = self._clock.monotonic_ns()
        parts: list[Part] = []
        start = 0
        while start < len(records):
            first = records[start]
            end = start + 1
            while (
                end < len(records)
                and records[end].partition == first.partition
                and records[end].topic == first.topic
                and records[end].log_append == first.log_append
            ):
                end += 1
            block = records[start:end]
            numbers, texts = _numbers(record.value for record in block)
            tp = self._number(first.topic, first.partition)
            parts.append(
                Part(
                    tp,
                    [r.offset for r in block],
                    _compact([r.epoch for r in block]),
                    numbers,
                    texts,
                    _keys([r.key for r in block]),
                    _compact([r.timestamp_ms for r in block]),
                    first.log_append,
                )
            )
            start = end
        self._write(Read(operation, now, parts, error))

    def assigned(self, partitions: Sequence[APlace]) -> None:
        tps = [self._number(partition.topic, partition.partition) for partition in partitions]
        self._write(Assigned(self._clock.monotonic_ns(), tps))

    def group_event(self, event: AnEvent, *, transaction: int | None = None) -> None:
        tps = [self._number(place.topic, place.partition) for place in event.offsets]
        offsets = list(event.offsets.values())
        status = STATUS[event.status]
        told = (event.generation, event.member, event.error)
        self._write(Group(event.event, event.t0_ns, event.t1_ns, tps, offsets, status, *told, transaction))

    def met(self, process: int, events: Sequence[AClientEvent]) -> None:
        """What that client met; but nothing of partitions that this journal does not name: nobody used them here."""
        for event in events:
            place = event.topic, event.partition
            if place[0] is None or place in self._numbers:
                tp = None if event.topic is None else self._numbers[place]
                status = None if event.status is None else STATUS[event.status]
                self._write(Met(process, event.t_ns, event.event, event.node, tp, event.epoch, status, event.error))

    def done(self, f: str, *, t0_ns: int | None = None, count: int = 0, error: str | None = None) -> None:
        now = self._clock.monotonic_ns()
        self._write(Done(f, now if t0_ns is None else t0_ns, now, count, error))

    def begin_transaction(self) -> int:
        self._transactions += 1
        self._write(Begin(self._transactions, self._clock.monotonic_ns()))
        return self._transactions

    def end_transaction(self, transaction: int, end: AnEnd) -> None:
        self._write(End(transaction, self._clock.monotonic_ns(), OUTCOME[end.outcome], end.error))

    def close(self) -> None:
        if self._file >= 0:
            self._write(Finished(self._lines))
            os.close(self._file)
            self._file = -1

    def _number(self, topic: str, partition: int) -> int:
        number = self._numbers.get((topic, partition))
        if number is None:
            number = self._numbers[topic, partition] = len(self._numbers)
            self._write(Declare(number, topic, partition))
        return number

    def _write(self, line: Line) -> None:
        os.write(self._file, _ENCODER.encode(line) + b"\n")
        self._lines += 1


def _numbers(encoded: Iterable[bytes]) -> tuple[list[int], list[str]]:
    numbers: list[int] = []
    texts: list[str] = []
    for value in encoded:
        number = values.decode(value)
        if number is None:
            number = -1 - len(texts)
            texts.append(values.text_of_bytes(value))
        numbers.append(number)
    return numbers, texts


def _compact(column: list[int | None]) -> list[int | None]:
    """One epoch where all are the same, which is nearly always; likewise the time of a batch."""
    return column[:1] if len(set(column)) == 1 else column


def _keys(keys: list[bytes | None]) -> list[int | None]:
    """The numbers of the workload's own keys, k0, k1, ...; nothing where there are none."""
    matches = [None if key is None else _KEY.fullmatch(key) for key in keys]
    return [None if match is None else int(match[1]) for match in matches] if any(matches) else []
