"""A worker's journal: what its clients asked and were answered, one JSON array a line, written without a buffer.

The invocation of an operation is on disk before its first record leaves; one line brings all its answers. So a record
without an answer line is `info`, whoever was killed. Lines are appended by one writer; only the last can be torn.

    ["P", process, client, acks, t, replica]   a fresh client begins; operations that follow are its own
    ["D", number, topic, partition]            a short number for a topic-partition, in this file
    ["I", operation, f, t, tps, values, texts] invocation; for sends tps and values in sending order
    ["S", operation, t, statuses, offsets, errors, t0s, t1s]
    ["R", operation, t, parts, error]          answer of a poll; a part is [tp, offsets, epochs, values, texts]
    ["A", t, tps]                              partitions were assigned anew

A value that is no number of the workload's own (values.py) is written as -1-k, where k is its place in `texts`.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from harness.clock import Clock
from harness.history import values

STATUS = {"ok": 0, "fail": 1, "info": 2}
ACKS = {"0": 0, "1": 1, "all": -1}


class Process(msgspec.Struct, array_like=True, tag="P", frozen=True):
    process: int
    client: str
    acks: int
    t: int
    replica: int | None


class Declare(msgspec.Struct, array_like=True, tag="D", frozen=True):
    number: int
    topic: str
    partition: int


class Invoke(msgspec.Struct, array_like=True, tag="I", frozen=True):
    operation: int
    f: str
    t: int
    tps: list[int]
    values: list[int]
    texts: list[str]


class Sent(msgspec.Struct, array_like=True, tag="S", frozen=True):
    operation: int
    t: int
    statuses: list[int]
    offsets: list[int | None]
    errors: list[str | None]
    t0s: list[int | None]
    t1s: list[int]


class Part(msgspec.Struct, array_like=True, frozen=True):
    tp: int
    offsets: list[int]
    epochs: list[int | None]
    values: list[int]
    texts: list[str]


class Read(msgspec.Struct, array_like=True, tag="R", frozen=True):
    operation: int
    t: int
    parts: list[Part]
    error: str | None


class Assigned(msgspec.Struct, array_like=True, tag="A", frozen=True):
    t: int
    tps: list[int]


Line = Process | Declare | Invoke | Sent | Read | Assigned
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class _Send(Protocol):
    """harness.interfaces.Send, seen from the storey below."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def value(self) -> bytes: ...


class _Outcome(Protocol):
    @property
    def status(self) -> Literal["ok", "fail", "info"]: ...
    @property
    def offset(self) -> int | None: ...
    @property
    def error(self) -> str | None: ...
    @property
    def t1_ns(self) -> int: ...
    @property
    def t0_ns(self) -> int | None: ...


class _Record(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def epoch(self) -> int | None: ...
    @property
    def value(self) -> bytes: ...


class _TopicPartition(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...


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
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._operations = 0
        self._numbers: dict[tuple[str, int], int] = {}
        self._process = -1

    @property
    def process(self) -> int:
        assert self._process >= 0, "no client has begun"
        return self._process

    def begin_process(self, process: int, *, client: str, acks: str, replica: int | None = None) -> None:
        """A fresh client; `replica`: it reads with that broker as the only possible leader."""
        self._process = process
        self._write(Process(process, client, ACKS[acks], self._clock.monotonic_ns(), replica))

    def invoke(self, f: str, records: Sequence[_Send] = ()) -> int:
        assert self._process >= 0, "no client has begun"
        self._operations += 1
        tps = [self._number(record.topic, record.partition) for record in records]
        numbers, texts = _numbers(record.value for record in records)
        self._write(Invoke(self._operations, f, self._clock.monotonic_ns(), tps, numbers, texts))
        return self._operations

    def complete_send(self, operation: int, outcomes: Sequence[_Outcome]) -> None:
        self._write(
            Sent(
                operation,
                self._clock.monotonic_ns(),
                [STATUS[outcome.status] for outcome in outcomes],
                [outcome.offset for outcome in outcomes],
                [outcome.error for outcome in outcomes],
                [outcome.t0_ns for outcome in outcomes],
                [outcome.t1_ns for outcome in outcomes],
            )
        )

    def complete_poll(self, operation: int, records: Sequence[_Record], *, error: str | None = None) -> None:
        now = self._clock.monotonic_ns()
        parts: list[Part] = []
        start = 0
        while start < len(records):
            first = records[start]
            end = start + 1
            while (
                end < len(records) and records[end].partition == first.partition and records[end].topic == first.topic
            ):
                end += 1
            block = records[start:end]
            numbers, texts = _numbers(record.value for record in block)
            tp = self._number(first.topic, first.partition)
            parts.append(Part(tp, [r.offset for r in block], _compact([r.epoch for r in block]), numbers, texts))
            start = end
        self._write(Read(operation, now, parts, error))

    def assigned(self, partitions: Sequence[_TopicPartition]) -> None:
        tps = [self._number(partition.topic, partition.partition) for partition in partitions]
        self._write(Assigned(self._clock.monotonic_ns(), tps))

    def close(self) -> None:
        if self._file >= 0:
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


def _compact(epochs: list[int | None]) -> list[int | None]:
    """One epoch where all are the same, which is nearly always."""
    return epochs[:1] if len(set(epochs)) == 1 else epochs


def read_lines(path: Path) -> list[Line]:
    """The lines of a journal. A last line that was torn by a kill is dropped."""
    lines: list[Line] = []
    for text in path.read_bytes().split(b"\n"):
        if text:
            try:
                lines.append(_DECODER.decode(text))
            except msgspec.DecodeError:
                break  # only the last line can be torn
    return lines
