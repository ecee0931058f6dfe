"""One journal as growing columns of machine integers, whether its lines come at once or while it is written.

A row refers only to its own journal: clients, operations, transactions and partitions are indexes in it, words and
foreign values indexes of its strings. So journals can be read in any order and in parallel, and stored in pieces
(pieces.py); only tables.py combines them. This module uses neither numpy nor Arrow, so that a process beside a run
stays small.
"""

import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from harness.errors import HarnessError
from harness.history.journals.journal import (
    STATUS,
    Assigned,
    Begin,
    Declare,
    Done,
    End,
    Finished,
    Group,
    Invoke,
    Line,
    Met,
    Opened,
    Part,
    Process,
    Read,
    Sent,
)
from harness.history.journals.journal_lines import UnfitLine, lines_in
from harness.history.journals.journal_state import FIELDS, Asked, Before, State
from harness.history.journals.unfit_journal import UNFIT, check_length, unfit_before, unfit_line, unfit_operation
from harness.history.sealed.strings import Strings

NONE: Final = -(2**63)  # represents null in the integer columns
NO_WORD: Final = -1
NO_TRANSACTION: Final = -1
NO_PARTITION: Final = -1
NO_ANSWER: Final = "no answer"  # the error of an operation that the end of the run interrupted
PIECE_BYTES = 1_000_000
_TAIL_BYTES = 64
_OK, _FAIL, _INFO = STATUS["ok"], STATUS["fail"], STATUS["info"]
_OPERATIONS = {"committed": "commit", "seek": "seek"}  # group events requested by a client


class JournalChanged(HarnessError):
    """A journal is no longer the file that was read before: it is shorter, or different."""


class JournalColumns:
    """`take` reads the whole lines available, `end` the rest, once. `fresh`: what was not stored in a piece yet."""

    def __init__(self, path: Path, before: Before | None = None) -> None:
        self.path = path
        self.state = State(inode=path.stat().st_ino) if before is None else before.state
        self.words = Strings(before.words if before else ())  # errors, operations, members
        self.texts = Strings(before.texts if before else ())  # foreign values
        self.fresh: dict[str, array[int]] = {name: array("q") for name in FIELDS}
        self._before = before
        self._takes: dict[type, Callable[[Any], None]] = {
            Invoke: self._invoke,
            Sent: self._sent,
            Read: self._read,
            Declare: self._declare,
            Process: self._begin_client,
            Assigned: self._assigned,
            Group: self._group,
            Met: self._met,
            Done: self._done,
            Begin: self._begin_transaction,
            End: self._end_transaction,
            Opened: self._opened,
            Finished: self._finished,
        }

    def integers(self, name: str) -> list[Any]:
        """The column, one part after the other."""
        return [*(self._before.integers[name] if self._before else ()), self.fresh[name]]

    def forget(self) -> None:
        """Forgets the fresh part after it was stored."""
        for name in FIELDS:
            self.fresh[name] = array("q")
        self.words.forget()
        self.texts.forget()

    def drop(self, name: str) -> None:
        """Frees a column that nobody needs any more."""
        self.fresh[name] = array("q")
        if self._before is not None:
            self._before.integers[name] = []

    # -- reading ------------------------------------------

    def take(self) -> bool:
        """Reads a piece of whole lines; False if there is none."""
        state = self.state
        if state.torn:
            return False
        text = self._text_from(state.position)
        whole, newline, _ = text.rpartition(b"\n")
        if not newline:
            return False
        self._feed(whole)
        state.position += len(whole) + 1
        state.tail = whole[-_TAIL_BYTES:]
        return True

    def end(self) -> None:
        """Reads everything left; operations without an answer get none."""
        while self.take():
            pass
        rest = self._text_from(self.state.position)
        if not self.state.torn:
            self._feed(rest)
        elif rest.strip():
            raise unfit_before(self.path, self.state.position)
        for operation, asked in self.state.unanswered.items():
            try:
                self._never_answered(asked)
            except UNFIT as error:
                raise unfit_operation(self.path, operation, error) from error

    @property
    def is_complete(self) -> bool | None:
        """True if the last line says that the writer finished; None if the journal's version has no such line."""
        if self.state.torn:
            return False
        return self.state.finished if self.state.opened else None

    def is_as_before(self) -> bool:
        """True if the file begins with what was read of it."""
        try:
            end = self.state.position - 1
            return self.state.position == 0 or self._text_from(end - len(self.state.tail), end) == self.state.tail
        except (OSError, JournalChanged):
            return False

    def _text_from(self, position: int, end: int | None = None) -> bytes:
        """Reads up to `end`; otherwise a piece, or more if a line is longer."""
        with self.path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_ino != self.state.inode or found.st_size < self.state.position:
                raise JournalChanged(f"{self.path.name} is not the file any more that was read before")
            file.seek(position)
            if end is not None:
                return file.read(end - position)
            text = file.read(PIECE_BYTES)
            while b"\n" not in text and (more := file.read(PIECE_BYTES)):
                text += more
                check_length(self.path, position, len(text))
        return text

    def _feed(self, text: bytes) -> None:
        takes, index = self._takes, 0
        try:
            lines, self.state.torn = lines_in(text)
            for index, line in enumerate(lines):  # noqa: B007  # used in the message about an unfit line
                takes[type(line)](line)
            self.state.lines += len(lines)
            self._check_count(lines)
        except UnfitLine as error:
            raise unfit_line(self.path, self.state.position, text, error.index, error) from error
        except UNFIT as error:
            raise unfit_line(self.path, self.state.position, text, index, error) from error

    # -- operations and records ---------------------------

    def _client(self) -> int:
        if not self.state.clients:
            raise ValueError("an operation, a group or a transaction before any client")
        return len(self.state.clients) - 1

    def _invoke(self, line: Invoke) -> None:
        state = self.state
        if len(line.values) != len(line.partition_ids):
            raise ValueError(f"{len(line.values)} values for {len(line.partition_ids)} records")
        txn = NO_TRANSACTION if line.transaction is None else state.transactions[line.transaction]
        state.unanswered[line.operation] = Asked(state.operations_begun, self._client(), txn, line)
        state.operations_begun += 1

    def _answered(self, asked: Asked, completed_ns: int, status: int, count: int, error: str | None) -> int:
        """The index of the operation among those that ended."""
        number, invoke = self.words.number, asked.invoke
        why = NO_WORD if error is None else number(error)
        self.fresh["operations"].extend(
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
        self.state.operations_ended += 1
        return self.state.operations_ended - 1

    def _single(
        self, f: str, invoked_ns: int, completed_ns: int, count: int, error: str | None, *, status: int | None = None,
        transaction: int = NO_TRANSACTION,
    ) -> None:  # fmt: skip
        """An operation without records. After a crash the outcome of its work is unknown."""
        if status is None:
            status = _INFO if f == "crash" else _OK if error is None else _FAIL
        asked = Asked(self.state.operations_begun, self._client(), transaction, Invoke(-1, f, invoked_ns, [], [], []))
        self.state.operations_begun += 1
        self._answered(asked, completed_ns, status, count, error)

    def _sent(self, line: Sent) -> None:
        asked = self.state.unanswered.pop(line.operation)
        invoke, count, errors, number = asked.invoke, len(asked.invoke.partition_ids), line.errors, self.words.number
        error = next((error for error in errors if error is not None), None)
        op = self._answered(asked, line.time_ns, _status_of(line.statuses), count, error)
        if not count:
            return
        self._send_block(op, invoke, line.timestamps)
        stored_offsets, stored_answers, numbers = self.fresh["offset"], self.fresh["told"], self.state.numbers
        returned = line.returned_ns or [None] * count
        for partition_id, status, offset, error, invoked_ns, completed_ns, returned_ns in zip(
            invoke.partition_ids, line.statuses, line.offsets, errors, line.invoked_ns, line.completed_ns, returned,
            strict=True,
        ):  # fmt: skip
            stored_offsets.append(NONE if offset is None else offset)
            invoked_ns = invoke.time_ns if invoked_ns is None else invoked_ns
            why = NO_WORD if error is None else number(error)
            over_ns = NONE if returned_ns is None else returned_ns
            stored_answers.extend((numbers[partition_id], status, NONE, invoked_ns, completed_ns, why, over_ns))

    def _never_answered(self, asked: Asked) -> None:
        """The outcome is unknown: a worker was killed, or the run ended first. It has no end time."""
        invoke, count, why = asked.invoke, len(asked.invoke.partition_ids), self.words.number(NO_ANSWER)
        op = self._answered(asked, NONE, _INFO, count, NO_ANSWER)
        if not count:
            return
        self._send_block(op, invoke, ())
        self.fresh["offset"].extend([NONE] * count)
        for partition_id in invoke.partition_ids:
            self.fresh["told"].extend((self.state.numbers[partition_id], _INFO, NONE, invoke.time_ns, NONE, why, NONE))

    def _send_block(self, operation: int, invoke: Invoke, timestamps: Sequence[int | None]) -> None:
        count = len(invoke.partition_ids)
        keys, times = self._beside("key", invoke.keys, count), self._beside("timestamp_ms", timestamps, count)
        self.fresh["blocks"].extend((operation, 1, count, NONE, 0, NONE, 1, keys, times))
        self.fresh["value"].extend(self._values(invoke.values, invoke.texts))

    def _read(self, line: Read) -> None:
        state = self.state
        asked = state.unanswered.pop(line.operation)
        status, invoked_ns, completed_ns = _OK if line.error is None else _FAIL, asked.invoke.time_ns, line.time_ns
        gained = state.assignments.get(state.clients[asked.client].process, {})
        count = sum([len(part.offsets) for part in line.parts])
        op = self._answered(asked, completed_ns, status, count, line.error)
        first = 0
        for part in line.parts:
            if part.offsets:
                partition_id = state.numbers[part.partition_id]
                self._part(part, op, first, partition_id, gained.get(partition_id, 0), status, invoked_ns, completed_ns)
                first += len(part.offsets)

    def _part(
        self, partition: Part, operation: int, first: int, partition_id: int, assignment: int, status: int,
        invoked_ns: int, completed_ns: int
    ) -> None:  # fmt: skip
        fresh, epochs, count = self.fresh, partition.epochs, len(partition.offsets)
        if len(partition.values) != count:
            raise ValueError(f"{len(partition.values)} values for {count} records")
        each = len(epochs) == count > 1
        log_append = NONE if partition.log_append is None else int(partition.log_append)
        keys, times = (
            self._beside("key", partition.keys, count),
            self._beside("timestamp_ms", partition.timestamps, count),
        )
        fresh["blocks"].extend((operation, 0, count, assignment, first, log_append, int(each), keys, times))
        for epoch in epochs if each else epochs[:1] or (None,):
            fresh["told"].extend(
                (partition_id, status, NONE if epoch is None else epoch, invoked_ns, completed_ns, NO_WORD, NONE)
            )
        fresh["offset"].extend(partition.offsets)
        fresh["value"].extend(self._values(partition.values, partition.texts))

    def _beside(self, name: str, column: Sequence[int | None], count: int) -> int:
        """Keys or timestamps of a block: none, one for all its records, or one each; returns whether it is one each."""
        if len(column) == count:
            self.fresh[name].extend([NONE if entry is None else entry for entry in column])
            return 1
        self.fresh[name].append(NONE if not column or column[0] is None else column[0])
        return 0

    def _values(self, numbers: list[int], texts: list[str]) -> list[int]:
        if not texts and min(numbers, default=0) >= 0:
            return numbers
        text = self.texts.number
        return [number if number >= 0 else -1 - text(texts[-1 - number]) for number in numbers]

    # -- lines other than sends and polls -------------------

    def _declare(self, line: Declare) -> None:
        place, places = (line.topic, line.partition), self.state.places
        if place not in places:
            places.append(place)
        self.state.numbers[line.number] = places.index(place)

    def _opened(self, line: Opened) -> None:
        self.state.opened = True

    def _finished(self, line: Finished) -> None:
        self.state.finished = True

    def _check_count(self, lines: Sequence[Line]) -> None:
        """Compares the number of lines with the writer's count."""
        if lines and isinstance(lines[-1], Finished) and lines[-1].lines != self.state.lines - 1:
            raise ValueError(f"{lines[-1].lines} lines were written before this one, {self.state.lines - 1} are here")

    def _begin_client(self, line: Process) -> None:
        self.state.clients.append(line)

    def _assigned(self, line: Assigned) -> None:
        self._gained(line.partition_ids)
        self._single("assign", line.time_ns, line.time_ns, len(line.partition_ids), None)

    def _gained(self, partition_ids: Sequence[int]) -> None:
        """The current client gained these partitions: its next reads of them begin a new assignment."""
        times = self.state.assignments.setdefault(self.state.clients[self._client()].process, {})
        for partition_id in partition_ids:
            place = self.state.numbers[partition_id]
            times[place] = times.get(place, 0) + 1

    def _done(self, line: Done) -> None:
        self._single(line.f, line.invoked_ns, line.completed_ns, line.count, line.error)

    def _begin_transaction(self, line: Begin) -> None:
        self.state.transactions[line.transaction] = self.state.transactions_begun
        self.state.transactions_begun += 1
        self.fresh["begun"].extend((self._client(), line.time_ns))

    def _end_transaction(self, line: End) -> None:
        why = NO_WORD if line.error is None else self.words.number(line.error)
        self.fresh["ended"].extend((self.state.transactions[line.transaction], line.time_ns, line.outcome, why))

    def _group(self, line: Group) -> None:
        number, client = self.words.number, self._client()
        txn = NO_TRANSACTION if line.transaction is None else self.state.transactions[line.transaction]
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
        self.fresh["events"].extend(row)
        for partition_id, offset in zip(line.partition_ids, line.offsets, strict=True):
            self.fresh["places"].extend((self.state.numbers[partition_id], NONE if offset is None else offset))
        if line.event in ("assigned", "seek") and line.status == _OK:
            self._gained(line.partition_ids)
        if txn != NO_TRANSACTION:
            self.fresh["took"].extend((txn, client))
        if line.event in _OPERATIONS:
            f, count = _OPERATIONS[line.event], len(line.partition_ids)
            self._single(f, line.invoked_ns, line.completed_ns, count, line.error, status=line.status, transaction=txn)

    def _met(self, line: Met) -> None:
        """The line may be late: another client may have begun by then."""
        clients, number = self.state.clients, self.words.number
        known = [place for place, client in enumerate(clients) if client.process == line.process]
        if not known:
            raise LookupError(f"nothing has begun as process {line.process}")
        place = NO_PARTITION if line.partition_id is None else self.state.numbers[line.partition_id]
        node, epoch, status, version, code = (
            NONE if entry is None else entry for entry in (line.node, line.epoch, line.status, line.version, line.code)
        )
        why, request = (NO_WORD if word is None else number(word) for word in (line.error, line.request))
        self.fresh["met"].extend(
            (known[-1], line.time_ns, number(line.event), node, place, epoch, status, why, request, version, code)
        )


def _status_of(statuses: Sequence[int]) -> int:
    """ok and fail only if all records agree; the records have the details."""
    first = statuses[0] if statuses else _INFO
    return first if statuses.count(first) == len(statuses) else _INFO
