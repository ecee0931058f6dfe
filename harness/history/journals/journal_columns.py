"""One journal as columns of machine integers.

A row refers only to its own journal: clients, operations, transactions and partitions are indexes in it, words and
foreign values indexes of its strings. So journals can be read in any order; only merging.py combines them. Millions of
rows are held for a while, so this module makes no object of a row.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from harness.history.journals.journal import (
    STATUS,
    Assigned,
    Begin,
    ClientMet,
    Declare,
    Done,
    End,
    Finished,
    Group,
    Invoke,
    Line,
    Opened,
    Origins,
    Part,
    Process,
    Read,
    Sent,
)
from harness.history.journals.journal_files import (
    UNFIT,
    UnfitLine,
    check_length,
    lines_in,
    unfit_before,
    unfit_line,
    unfit_operation,
)

NONE: Final = -(2**63)  # represents null in the integer columns
NO_WORD: Final = -1
NO_TRANSACTION: Final = -1
NO_PARTITION: Final = -1
NO_ANSWER: Final = "no answer"  # the error of an operation that the end of the run interrupted
PIECE_BYTES = 1_000_000
_OK, _FAIL, _INFO = STATUS["ok"], STATUS["fail"], STATUS["info"]
_OPERATIONS = {"committed": "commit", "seek": "seek"}  # group events requested by a client

# The integers of a row. begun: the operation's index by its call. told_each, key_each, time_each: the block has such an
# entry for each of its records instead of one for all.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "operations": ("begun", "client", "word", "invoked_ns", "transaction", "completed_ns", "status", "count", "error"),
    "blocks": ("operation", "sent", "count", "assignment", "first", "log_append", "told_each", "key_each", "time_each"),
    "told": ("partition_id", "status", "leader_epoch", "invoked_ns", "completed_ns", "error", "returned_ns"),
    "offset": ("offset",),
    "value": ("value",),
    "key": ("key",),
    "timestamp_ms": ("timestamp_ms",),
    "begun": ("client", "invoked_ns"),
    "ended": ("transaction", "completed_ns", "outcome", "error"),
    "took": ("transaction", "client"),
    "events": (
        "word",
        "invoked_ns",
        "completed_ns",
        "status",
        "generation",
        "member",
        "error",
        "client",
        "transaction",
        "count",
        "require_stable",
    ),
    "places": ("partition_id", "offset"),
    "origins": ("word", "value", "origin"),
    "met": (
        "client",
        "invoked_ns",
        "word",
        "node",
        "of_tp",
        "leader_epoch",
        "status",
        "error",
        "request",
        "version",
        "code",
    ),
}


class _Asked(NamedTuple):
    """An operation without its answer."""

    begun: int
    client: int
    transaction: int
    invoke: Invoke


class Strings:
    """Numbers strings in the order in which they first occur."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> list[str]:
        return list(self._numbers)


class JournalColumns:
    """What one journal says. Raises JournalUnfit for a line that no writer of ours left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.words = Strings()  # errors, operations, members
        self.texts = Strings()  # foreign values
        self.columns: dict[str, array[int]] = {name: array("q") for name in FIELDS}
        self._rows: dict[str, list[int]] = {name: [] for name in FIELDS}  # of the current piece, for `columns`
        self.clients: list[Process] = []
        self.places: list[tuple[str, int]] = []
        self.operations_begun = 0
        self.operations_ended = 0
        self.transactions_begun = 0
        self._numbers: dict[int, int] = {}  # number of a topic-partition in the journal: its index in `places`
        self._unanswered: dict[int, _Asked] = {}
        self._assignments: dict[int, dict[int, int]] = {}  # by process and place: the number of assignments
        self._transactions: dict[int, int] = {}  # number in the journal: index
        self._lines = 0
        self._is_torn = False  # its last line is torn
        self._is_opened = False  # it has the first line J; older journals do not
        self._is_finished = False  # its writer wrote the last line F
        self._takes: dict[type, Callable[[Any], None]] = {
            Invoke: self._invoke,
            Sent: self._sent,
            Read: self._read,
            Declare: self._declare,
            Process: self._begin_client,
            Assigned: self._assigned,
            Group: self._group,
            ClientMet: self._client_met,
            Done: self._done,
            Begin: self._begin_transaction,
            End: self._end_transaction,
            Origins: self._origins,
            Opened: self._opened,
            Finished: self._finished,
        }
        self._read_file()

    @property
    def is_complete(self) -> bool | None:
        """True if the last line says that the writer finished; None if the journal's version has no such line."""
        if self._is_torn:
            return False
        return self._is_finished if self._is_opened else None

    # -- reading ------------------------------------------

    def _read_file(self) -> None:
        """Piece by piece, of whole lines; operations without an answer get none."""
        position = 0
        with self.path.open("rb") as file:
            while text := self._piece(file, position):
                if self._is_torn and text.strip():
                    raise unfit_before(self.path, position)
                self._feed(text, position)
                position += len(text)
        for operation, asked in self._unanswered.items():
            try:
                self._never_answered(asked)
                self._to_columns()
            except UNFIT as error:
                raise unfit_operation(self.path, operation, error) from error

    def _piece(self, file: BinaryIO, position: int) -> bytes:
        """Some whole lines; the last one may lack its end."""
        text = file.read(PIECE_BYTES)
        begin = text.rfind(b"\n") + 1  # of the last line, which may go on
        while text and not text.endswith(b"\n") and (more := file.readline(PIECE_BYTES)):
            text += more
            check_length(self.path, position + begin, len(text) - begin)
        return text

    def _feed(self, text: bytes, position: int) -> None:
        takes, index = self._takes, 0
        try:
            lines, self._is_torn = lines_in(text)
            for index, line in enumerate(lines):  # noqa: B007  # used in the message about an unfit line
                takes[type(line)](line)
            self._lines += len(lines)
            self._check_count(lines)
            self._to_columns(lines)
        except UnfitLine as error:
            raise unfit_line(self.path, position, text, error.index, error) from error
        except UNFIT as error:
            raise unfit_line(self.path, position, text, index, error) from error

    def _to_columns(self, lines: Sequence[Line] = ()) -> None:
        """A list takes a number in a third of the time that an array takes: arrays get a piece at once."""
        try:
            for name, rows in self._rows.items():
                self.columns[name].fromlist(rows)
                rows.clear()
        except OverflowError as error:
            too_large = (index for index, line in enumerate(lines) if not _fits(msgspec.to_builtins(line)))
            index = next(too_large, None)
            if index is None:  # it was asked in an earlier piece, and is answered in this one or never
                raise
            raise UnfitLine(index, str(error)) from error

    # -- operations and records ---------------------------

    def _client(self) -> int:
        if not self.clients:
            raise ValueError("an operation, a group or a transaction before any client")
        return len(self.clients) - 1

    def _invoke(self, line: Invoke) -> None:
        if len(line.values) != len(line.partition_ids):
            raise ValueError(f"{len(line.values)} values for {len(line.partition_ids)} records")
        txn = NO_TRANSACTION if line.transaction is None else self._transactions[line.transaction]
        self._unanswered[line.operation] = _Asked(self.operations_begun, self._client(), txn, line)
        self.operations_begun += 1

    def _answered(self, asked: _Asked, completed_ns: int, status: int, count: int, error: str | None) -> int:
        """The index of the operation among those that ended."""
        number, invoke = self.words.number, asked.invoke
        why = NO_WORD if error is None else number(error)
        self._rows["operations"].extend(
            (
                asked.begun,
                asked.client,
                number(invoke.f),
                invoke.time_ns,
                asked.transaction,
                completed_ns,
                status,
                count,
                why,
            )
        )
        self.operations_ended += 1
        return self.operations_ended - 1

    def _single(
        self,
        f: str,
        invoked_ns: int,
        completed_ns: int,
        count: int,
        error: str | None,
        *,
        status: int | None = None,
        transaction: int = NO_TRANSACTION,
    ) -> None:
        """An operation without records. After a crash the outcome of its work is unknown."""
        if status is None:
            status = _INFO if f == "crash" else _OK if error is None else _FAIL
        asked = _Asked(self.operations_begun, self._client(), transaction, Invoke(-1, f, invoked_ns, [], [], []))
        self.operations_begun += 1
        self._answered(asked, completed_ns, status, count, error)

    def _sent(self, line: Sent) -> None:
        asked = self._unanswered.pop(line.operation)
        invoke, count, errors, number = asked.invoke, len(asked.invoke.partition_ids), line.errors, self.words.number
        error = next((error for error in errors if error is not None), None)
        op = self._answered(asked, line.time_ns, _status_of(line.statuses), count, error)
        if not count:
            return
        self._send_block(op, invoke, line.timestamps)
        stored_offsets, stored_answers, numbers = self._rows["offset"], self._rows["told"], self._numbers
        returned = line.returned_ns or [None] * count
        for partition_id, status, offset, error, invoked_ns, completed_ns, returned_ns in zip(
            invoke.partition_ids,
            line.statuses,
            line.offsets,
            errors,
            line.invoked_ns,
            line.completed_ns,
            returned,
            strict=True,
        ):
            stored_offsets.append(NONE if offset is None else offset)
            invoked_ns = invoke.time_ns if invoked_ns is None else invoked_ns
            why = NO_WORD if error is None else number(error)
            over_ns = NONE if returned_ns is None else returned_ns
            stored_answers.extend((numbers[partition_id], status, NONE, invoked_ns, completed_ns, why, over_ns))

    def _never_answered(self, asked: _Asked) -> None:
        """The outcome is unknown: a worker was killed, or the run ended first. It has no end time."""
        invoke, count, why = asked.invoke, len(asked.invoke.partition_ids), self.words.number(NO_ANSWER)
        op = self._answered(asked, NONE, _INFO, count, NO_ANSWER)
        if not count:
            return
        self._send_block(op, invoke, ())
        self._rows["offset"].extend([NONE] * count)
        for partition_id in invoke.partition_ids:
            self._rows["told"].extend((self._numbers[partition_id], _INFO, NONE, invoke.time_ns, NONE, why, NONE))

    def _send_block(self, operation: int, invoke: Invoke, timestamps: Sequence[int | None]) -> None:
        count = len(invoke.partition_ids)
        keys, times = self._beside("key", invoke.keys, count), self._beside("timestamp_ms", timestamps, count)
        self._rows["blocks"].extend((operation, 1, count, NONE, 0, NONE, 1, keys, times))
        self._rows["value"].extend(self._values(invoke.values, invoke.texts))

    def _read(self, line: Read) -> None:
        asked = self._unanswered.pop(line.operation)
        status, invoked_ns, completed_ns = _OK if line.error is None else _FAIL, asked.invoke.time_ns, line.time_ns
        gained = self._assignments.get(self.clients[asked.client].process, {})
        count = sum([len(part.offsets) for part in line.parts])
        op = self._answered(asked, completed_ns, status, count, line.error)
        first = 0
        for part in line.parts:
            if part.offsets:
                partition_id = self._numbers[part.partition_id]
                self._part(part, op, first, partition_id, gained.get(partition_id, 0), status, invoked_ns, completed_ns)
                first += len(part.offsets)

    def _part(
        self,
        partition: Part,
        operation: int,
        first: int,
        partition_id: int,
        assignment: int,
        status: int,
        invoked_ns: int,
        completed_ns: int,
    ) -> None:
        columns, epochs, count = self._rows, partition.epochs, len(partition.offsets)
        if len(partition.values) != count:
            raise ValueError(f"{len(partition.values)} values for {count} records")
        each = len(epochs) == count > 1
        log_append = NONE if partition.log_append is None else int(partition.log_append)
        keys, times = (
            self._beside("key", partition.keys, count),
            self._beside("timestamp_ms", partition.timestamps, count),
        )
        columns["blocks"].extend((operation, 0, count, assignment, first, log_append, int(each), keys, times))
        for epoch in epochs if each else epochs[:1] or (None,):
            columns["told"].extend(
                (partition_id, status, NONE if epoch is None else epoch, invoked_ns, completed_ns, NO_WORD, NONE)
            )
        columns["offset"].extend(partition.offsets)
        columns["value"].extend(self._values(partition.values, partition.texts))

    def _beside(self, name: str, column: Sequence[int | None], count: int) -> int:
        """Keys or timestamps of a block: none, one for all its records, or one each; returns whether it is one each."""
        if len(column) == count:
            self._rows[name].extend([NONE if entry is None else entry for entry in column])
            return 1
        self._rows[name].append(NONE if not column or column[0] is None else column[0])
        return 0

    def _values(self, numbers: list[int], texts: list[str]) -> list[int]:
        if not texts and min(numbers, default=0) >= 0:
            return numbers
        text = self.texts.number
        return [number if number >= 0 else -1 - text(texts[-1 - number]) for number in numbers]

    # -- lines other than sends and polls -------------------

    def _declare(self, line: Declare) -> None:
        place, places = (line.topic, line.partition), self.places
        if place not in places:
            places.append(place)
        self._numbers[line.number] = places.index(place)

    def _opened(self, line: Opened) -> None:
        self._is_opened = True

    def _finished(self, line: Finished) -> None:
        """Whether it is the last line _check_count sees."""

    def _check_count(self, lines: Sequence[Line]) -> None:
        """Compares the number of lines with the writer's count. One that went on after it had finished is not finished
        until it says so again."""
        if not lines:
            return
        last = lines[-1]
        self._is_finished = isinstance(last, Finished)
        if isinstance(last, Finished) and last.lines != self._lines - 1:
            raise ValueError(f"{last.lines} lines were written before this one, {self._lines - 1} are here")

    def _begin_client(self, line: Process) -> None:
        self.clients.append(line)

    def _assigned(self, line: Assigned) -> None:
        self._gained(line.partition_ids)
        self._single("assign", line.time_ns, line.time_ns, len(line.partition_ids), None)

    def _gained(self, partition_ids: Sequence[int]) -> None:
        """The current client gained these partitions: its next reads of them begin a new assignment."""
        times = self._assignments.setdefault(self.clients[self._client()].process, {})
        for partition_id in partition_ids:
            place = self._numbers[partition_id]
            times[place] = times.get(place, 0) + 1

    def _done(self, line: Done) -> None:
        self._single(line.f, line.invoked_ns, line.completed_ns, line.count, line.error)

    def _begin_transaction(self, line: Begin) -> None:
        self._transactions[line.transaction] = self.transactions_begun
        self.transactions_begun += 1
        self._rows["begun"].extend((self._client(), line.time_ns))

    def _end_transaction(self, line: End) -> None:
        why = NO_WORD if line.error is None else self.words.number(line.error)
        self._rows["ended"].extend((self._transactions[line.transaction], line.time_ns, line.outcome, why))

    def _origins(self, line: Origins) -> None:
        topic, values = self.words.number(line.topic), self._values(line.values, line.texts)
        for value, origin in zip(values, line.origins, strict=True):
            input_value = NONE if origin is None else self._values([origin], line.texts)[0]
            self._rows["origins"].extend((topic, value, input_value))

    def _group(self, line: Group) -> None:
        number, client = self.words.number, self._client()
        txn = NO_TRANSACTION if line.transaction is None else self._transactions[line.transaction]
        member = NO_WORD if line.member is None else number(line.member)
        why = number(line.error) if line.error else NO_WORD
        generation = NONE if line.generation is None else line.generation
        row = (
            number(line.event),
            line.invoked_ns,
            line.completed_ns,
            line.status,
            generation,
            member,
            why,
            client,
            txn,
            len(line.partition_ids),
            NONE if line.require_stable is None else int(line.require_stable),
        )
        self._rows["events"].extend(row)
        for partition_id, offset in zip(line.partition_ids, line.offsets, strict=True):
            self._rows["places"].extend((self._numbers[partition_id], NONE if offset is None else offset))
        if line.event in ("assigned", "seek") and line.status == _OK:
            self._gained(line.partition_ids)
        if txn != NO_TRANSACTION:
            self._rows["took"].extend((txn, client))
        if line.event in _OPERATIONS:
            f, count = _OPERATIONS[line.event], len(line.partition_ids)
            self._single(f, line.invoked_ns, line.completed_ns, count, line.error, status=line.status, transaction=txn)

    def _client_met(self, line: ClientMet) -> None:
        """The line may be late: another client may have begun by then."""
        clients, number = self.clients, self.words.number
        known = [place for place, client in enumerate(clients) if client.process == line.process]
        if not known:
            raise LookupError(f"nothing has begun as process {line.process}")
        place = NO_PARTITION if line.partition_id is None else self._numbers[line.partition_id]
        node, epoch, status, version, code = (
            NONE if entry is None else entry for entry in (line.node, line.epoch, line.status, line.version, line.code)
        )
        why, request = (NO_WORD if word is None else number(word) for word in (line.error, line.request))
        self._rows["met"].extend(
            (known[-1], line.time_ns, number(line.event), node, place, epoch, status, why, request, version, code)
        )


def _status_of(statuses: Sequence[int]) -> int:
    """ok and fail only if all records agree; the records have the details."""
    first = statuses[0] if statuses else _INFO
    return first if statuses.count(first) == len(statuses) else _INFO


def _fits(entry: object) -> bool:
    """Whether all numbers in it are of 64 bits."""
    if isinstance(entry, list | tuple):
        return all(map(_fits, entry))
    return not isinstance(entry, int) or -(2**63) <= entry < 2**63
