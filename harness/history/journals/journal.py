"""A worker's journal: its clients' requests and answers, one JSON array per line, written without a buffer.

The invocation of an operation is on disk before its first record is sent; one line has all its answers. So a record
without an answer line is `info`, whoever was killed. One writer appends the lines; only the last can be torn.

    ["J", worker]                           the first line: the file is being written
    ["P", process, client, acks, time, replica, library, role, idempotent, isolation, group, transactional_id,
     offset_reset, tells_attempts, group_instance_id, group_protocol, reads_for]
                                            a new client begins; operations that follow belong to it
    ["D", number, topic, partition]         a short number for a topic-partition, in this file
    ["I", operation, function, time, partitions, values, texts, transaction, keys]
                                            invocation; for sends partitions and values in sending order
    ["S", operation, time, statuses, offsets, errors, invoked, completed, timestamps, returned]
                                            answer of a send: one entry per record in each list; returned: when the
                                            call to the library had returned, or the answer if that came first
    ["R", operation, time, parts, error]    answer of a poll; a part is
                                            [partition, offsets, epochs, values, texts, keys, timestamps, log_append]
    ["A", time, partitions]                 partitions were newly assigned
    ["G", event, invoked, completed, partitions, offsets, status, generation, member, error, transaction,
     require_stable]                        an event between the client and its group
    ["C", process, time, event, node, partition, epoch, status, error, request, version, code]
                                            a client's event, before the answers it preceded
    ["O", function, invoked, completed, count, error]   an operation without records (subscribe, crash)
    ["B", transaction, time]                a transaction is about to begin, with its number in this file
    ["E", transaction, time, outcome, error]    it was committed (0), aborted (1), the outcome is unknown (2), or no
                                            broker was told of it (3)
    ["N", topic, values, texts, origins]    which input the records of these values in that topic are of (an id that is
                                            written as a value is), null: of none
    ["F", lines]                            the last line: the writer finished; number of lines before this one. A
                                            writer that goes on after all ends with another one

Times are in ns of the run's clock. A value that is not a number of the workload (values.py) is written as -1-k, where
k is its index in `texts`. Trailing columns may be missing: older journals have fewer, and neither J nor F. A
transaction without its end line has an unknown outcome.
"""

import errno
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from harness.history.facts import values
from harness.history.journals.journal_sources import (
    AClientEvent,
    AnEnd,
    AnEvent,
    AnOutcome,
    APlace,
    ARecord,
    ASend,
    AUse,
)
from harness.host.clock import Clock

CONTROLLER_ROWS = "controller.jsonl"  # in the same folder, but not a journal: controller_rows.py
STATUS = {"ok": 0, "fail": 1, "info": 2}
ACKS = {"0": 0, "1": 1, "all": -1}
OUTCOME = {"committed": 0, "aborted": 1, "unknown": 2, "never_begun": 3}
_KEY = re.compile(rb"k(0|[1-9][0-9]{0,17})")


# The number types of the tables; numbers without a name here have 64 bits.
Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Status = Annotated[int, msgspec.Meta(ge=0, le=2)]
Outcome = Annotated[int, msgspec.Meta(ge=0, le=3)]  # of a transaction


class Opened(msgspec.Struct, array_like=True, tag="J", frozen=True):
    worker: str


class Process(msgspec.Struct, array_like=True, tag="P", frozen=True):
    process: Int32
    client: str
    acks: Annotated[int, msgspec.Meta(ge=-1, le=1)]
    time_ns: Int64
    replica: Int32 | None
    library: str | None = None
    role: str | None = None
    idempotent: bool | None = None
    isolation: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    offset_reset: str | None = None
    tells_attempts: bool | None = None
    group_instance_id: str | None = None  # of a static member (KIP-345)
    group_protocol: str | None = None  # classic, or consumer (KIP-848)
    reads_for: str | None = None  # an application's consumer, of whose group nothing else is recorded


class Declare(msgspec.Struct, array_like=True, tag="D", frozen=True):
    number: int
    topic: str
    partition: Int32


class Invoke(msgspec.Struct, array_like=True, tag="I", frozen=True):
    operation: int
    f: str
    time_ns: int
    partition_ids: list[int]
    values: list[int]
    texts: list[str]
    transaction: int | None = None
    keys: list[int | None] = []  # none at all, or one for each record


class Sent(msgspec.Struct, array_like=True, tag="S", frozen=True):
    operation: int
    time_ns: int
    statuses: list[Status]
    offsets: list[int | None]
    errors: list[str | None]
    invoked_ns: list[int | None]
    completed_ns: list[int]
    timestamps: list[int | None] = []  # none, one for all records, or one for each
    returned_ns: list[int | None] = []  # none, or one for each


class Part(msgspec.Struct, array_like=True, frozen=True):
    partition_id: int
    offsets: list[int]
    epochs: list[Int32 | None]
    values: list[int]
    texts: list[str]
    keys: list[int | None] = []  # as in Invoke
    timestamps: list[int | None] = []  # as in Sent
    log_append: bool | None = None


class Read(msgspec.Struct, array_like=True, tag="R", frozen=True):
    operation: int
    time_ns: int
    parts: list[Part]
    error: str | None


class Assigned(msgspec.Struct, array_like=True, tag="A", frozen=True):
    time_ns: int
    partition_ids: list[int]


class Group(msgspec.Struct, array_like=True, tag="G", frozen=True):
    event: str
    invoked_ns: int
    completed_ns: int
    partition_ids: list[int]
    offsets: list[int | None]
    status: Status
    generation: Int32 | None = None
    member: str | None = None
    error: str | None = None
    transaction: int | None = None
    require_stable: bool | None = None


class ClientMet(msgspec.Struct, array_like=True, tag="C", frozen=True):
    process: int
    time_ns: int
    event: str
    node: Int32 | None
    partition_id: int | None
    epoch: Int32 | None
    status: Status | None
    error: str | None
    request: str | None = None
    version: Int16 | None = None
    code: Int16 | None = None


class Done(msgspec.Struct, array_like=True, tag="O", frozen=True):
    f: str
    invoked_ns: int
    completed_ns: int
    count: Int32
    error: str | None


class Begin(msgspec.Struct, array_like=True, tag="B", frozen=True):
    transaction: int
    time_ns: int


class End(msgspec.Struct, array_like=True, tag="E", frozen=True):
    transaction: int
    time_ns: int
    outcome: Outcome
    error: str | None


class Origins(msgspec.Struct, array_like=True, tag="N", frozen=True):
    topic: str
    values: list[int]
    texts: list[str]
    origins: list[int | None]


class Finished(msgspec.Struct, array_like=True, tag="F", frozen=True):
    lines: int


Line = (
    Opened
    | Process
    | Declare
    | Invoke
    | Sent
    | Read
    | Assigned
    | Group
    | ClientMet
    | Done
    | Begin
    | End
    | Origins
    | Finished
)
_ENCODER = msgspec.json.Encoder()


class ProcessNumbers:
    """Numbers of clients, unique in the run: writer `first` of `step` writers uses first, first + step, ..."""

    def __init__(self, *, first: int, step: int) -> None:
        assert 0 <= first < step, (first, step)
        self._next = first
        self._step = step

    def next(self) -> int:
        number = self._next
        self._next += self._step
        return number


class JournalFile:
    """The writer; implements harness.ports.cluster.Journal. `begin_process` must precede the first operation."""

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
        self._path = path
        self._refused = 0  # the number of the error by which a line could not be written whole
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
        """Begins a new client; `replica`: it reads with that broker as the only possible leader."""
        self._process = process
        line = Process(process, client, ACKS[acks], self._clock.monotonic_ns(), replica, library)
        line = msgspec.structs.replace(line, idempotent=idempotent, tells_attempts=tells_attempts)
        if use is not None:
            line = msgspec.structs.replace(
                line,
                role=use.role,
                group=use.group,
                transactional_id=use.transactional_id,
                idempotent=None if use.role == "consumer" else idempotent,
                isolation=None if use.role == "producer" else use.isolation,
                offset_reset=None if use.role == "producer" else use.offset_reset,
                group_instance_id=use.group_instance_id,
                group_protocol=None if use.group is None else use.group_protocol,
            )
        self._write(line)

    def invoke(self, f: str, records: Sequence[ASend] = (), *, transaction: int | None = None) -> int:
        assert self._process >= 0, "no client has begun"
        self._operations += 1
        partition_ids = [self._number(record.topic, record.partition) for record in records]
        numbers, texts = _numbers(record.value for record in records)
        keys = _keys([record.key for record in records])
        now = self._clock.monotonic_ns()
        self._write(Invoke(self._operations, f, now, partition_ids, numbers, texts, transaction, keys))
        return self._operations

    def complete_send(self, operation: int, outcomes: Sequence[AnOutcome]) -> None:
        self._write(
            Sent(
                operation,
                self._clock.monotonic_ns(),
                [STATUS[outcome.status] for outcome in outcomes],
                [outcome.offset for outcome in outcomes],
                [outcome.error for outcome in outcomes],
                [outcome.begin_ns for outcome in outcomes],
                [outcome.end_ns for outcome in outcomes],
                _compact([outcome.timestamp_ms for outcome in outcomes]),
                [outcome.returned_ns for outcome in outcomes],
            )
        )

    def complete_poll(self, operation: int, records: Sequence[ARecord], *, error: str | None = None) -> None:
        now = self._clock.monotonic_ns()
        self._write(Read(operation, now, self._parts(records), error))

    def polled(self, records: Sequence[ARecord], *, begin_ns: int, end_ns: int) -> None:
        """A poll that is told once it is over."""
        assert self._process >= 0, "no client has begun"
        self._operations += 1
        self._write(Invoke(self._operations, "poll", begin_ns, [], [], []))
        self._write(Read(self._operations, end_ns, self._parts(records), None))

    def _parts(self, records: Sequence[ARecord]) -> list[Part]:
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
            partition_id = self._number(first.topic, first.partition)
            parts.append(
                Part(
                    partition_id,
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
        return parts

    def assigned(self, partitions: Sequence[APlace]) -> None:
        partition_ids = [self._number(partition.topic, partition.partition) for partition in partitions]
        self._write(Assigned(self._clock.monotonic_ns(), partition_ids))

    def group_event(self, event: AnEvent, *, transaction: int | None = None) -> None:
        partition_ids = [self._number(place.topic, place.partition) for place in event.offsets]
        offsets = list(event.offsets.values())
        status = STATUS[event.status]
        details = (event.generation, event.member, event.error, transaction, event.require_stable)
        self._write(Group(event.event, event.begin_ns, event.end_ns, partition_ids, offsets, status, *details))

    def client_met(self, process: int, events: Sequence[AClientEvent]) -> None:
        """Writes a client's event, unless it is about a partition that this journal does not name: it was not used
        here."""
        for event in events:
            place = event.topic, event.partition
            if place[0] is None or place in self._numbers:
                partition_id = None if event.topic is None else self._numbers[place]
                status = None if event.status is None else STATUS[event.status]
                details = (event.epoch, status, event.error, event.request, event.version, event.code)
                self._write(ClientMet(process, event.t_ns, event.event, event.node, partition_id, *details))

    def done(self, f: str, *, begin_ns: int | None = None, count: int = 0, error: str | None = None) -> None:
        now = self._clock.monotonic_ns()
        self._write(Done(f, now if begin_ns is None else begin_ns, now, count, error))

    def begin_transaction(self) -> int:
        self._transactions += 1
        self._write(Begin(self._transactions, self._clock.monotonic_ns()))
        return self._transactions

    def end_transaction(self, transaction: int, end: AnEnd) -> None:
        self._write(End(transaction, self._clock.monotonic_ns(), OUTCOME[end.outcome], end.error))

    def close(self) -> None:
        if self._file >= 0:
            if not self._refused:
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
        if not self._refused:
            encoded = _ENCODER.encode(line) + b"\n"
            try:
                self._refused = 0 if os.write(self._file, encoded) == len(encoded) else errno.ENOSPC
            except OSError as error:
                self._refused = error.errno or errno.EIO
        if self._refused:  # a torn line has to stay the last one
            raise OSError(self._refused, os.strerror(self._refused), str(self._path))
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
    """One epoch if all are equal, which is nearly always so; likewise for the timestamps of a batch."""
    return column[:1] if len(set(column)) == 1 else column


def _keys(keys: list[bytes | None]) -> list[int | None]:
    """The numbers of the workload's own keys, k0, k1, ...; nothing if there are none."""
    matches = [None if key is None else _KEY.fullmatch(key) for key in keys]
    return [None if match is None else int(match[1]) for match in matches] if any(matches) else []
