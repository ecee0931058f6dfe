"""One journal as columns of machine integers that only grow, whenever its lines come: all at once or as it is written.

A row refers to nothing outside its journal: clients, operations, transactions and partitions are places in this one,
words and foreign values places among its strings. So journals can be read in any order, side by side, and what they
have grown to can be put away (pieces.py); only tables.py brings them together. Neither numpy nor Arrow is needed here:
a process that does this beside a run stays small.
"""

import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from harness.errors import HarnessError
from harness.history.journal import (
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
from harness.history.journal_lines import UnfitLine, lines_in
from harness.history.journal_state import FIELDS, Asked, Before, State
from harness.history.strings import Strings
from harness.history.unfit_journal import UNFIT, check_length, unfit_before, unfit_line, unfit_operation

NONE: Final = -(2**63)  # stands for null in the integer columns
NO_WORD: Final = -1
NO_TRANSACTION: Final = -1
NO_PARTITION: Final = -1
NO_ANSWER: Final = "no answer"  # the error of an operation that its run ended first
PIECE_BYTES = 1_000_000
_TAIL_BYTES = 64
_OK, _FAIL, _INFO = STATUS["ok"], STATUS["fail"], STATUS["info"]
_OPERATIONS = {"committed": "commit", "seek": "seek"}  # group events that a client asked for


class JournalChanged(HarnessError):
    """A journal is not the file any more that was read before: it is shorter, or another."""


class JournalColumns:
    """`take` reads what whole lines there are, `end` the rest, once. `fresh`: what has not been put away."""

    def __init__(self, path: Path, before: Before | None = None) -> None:
        self.path = path
        self.state = State(inode=path.stat().st_ino) if before is None else before.state
        self.words = Strings(before.words if before else ())  # errors, operations, members
        self.texts = Strings(before.texts if before else ())  # values that are not the workload's own
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
        """What is fresh was put away."""
        for name in FIELDS:
            self.fresh[name] = array("q")
        self.words.forget()
        self.texts.forget()

    def drop(self, name: str) -> None:
        """Nobody needs the column any more."""
        self.fresh[name] = array("q")
        if self._before is not None:
            self._before.integers[name] = []

    # -- reading ------------------------------------------

    def take(self) -> bool:
        """Reads a piece of whole lines; False where there is none."""
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
        """Takes all there is, and what has no answer yet gets none."""
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
        """Whether its writer came to its end; None where that was not written down."""
        if self.state.torn:
            return False
        return self.state.finished if self.state.opened else None

    def is_as_before(self) -> bool:
        """Whether the file begins with what was read of it."""
        try:
            end = self.state.position - 1
            return self.state.position == 0 or self._text_from(end - len(self.state.tail), end) == self.state.tail
        except (OSError, JournalChanged):
            return False

    def _text_from(self, position: int, end: int | None = None) -> bytes:
        """Up to `end`; else a piece, or more where a line is longer than that."""
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
            for index, line in enumerate(lines):  # noqa: B007  # told where a line is unfit
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
        if len(line.values) != len(line.tps):
            raise ValueError(f"{len(line.values)} values for {len(line.tps)} records")
        txn = NO_TRANSACTION if line.txn is None else state.transactions[line.txn]
        state.unanswered[line.operation] = Asked(state.operations_begun, self._client(), txn, line)
        state.operations_begun += 1

    def _answered(self, asked: Asked, t1: int, status: int, count: int, error: str | None) -> int:
        """The place of the operation among those that ended."""
        number, invoke = self.words.number, asked.invoke
        why = NO_WORD if error is None else number(error)
        self.fresh["operations"].extend(
            (asked.begun, asked.client, number(invoke.f), invoke.t, asked.txn, t1, status, count, why)
        )
        self.state.operations_ended += 1
        return self.state.operations_ended - 1

    def _single(
        self, f: str, t0: int, t1: int, count: int, error: str | None, *, status: int | None = None,
        txn: int = NO_TRANSACTION,
    ) -> None:  # fmt: skip
        """An operation without records. A crash is one of which nobody knows what became of its work."""
        if status is None:
            status = _INFO if f == "crash" else _OK if error is None else _FAIL
        asked = Asked(self.state.operations_begun, self._client(), txn, Invoke(-1, f, t0, [], [], []))
        self.state.operations_begun += 1
        self._answered(asked, t1, status, count, error)

    def _sent(self, line: Sent) -> None:
        asked = self.state.unanswered.pop(line.operation)
        invoke, count, errors, number = asked.invoke, len(asked.invoke.tps), line.errors, self.words.number
        error = next((error for error in errors if error is not None), None)
        op = self._answered(asked, line.t, _status_of(line.statuses), count, error)
        if not count:
            return
        self._send_block(op, invoke, line.timestamps)
        off, told, numbers = self.fresh["off"], self.fresh["told"], self.state.numbers
        for tp, status, offset, error, t0, t1 in zip(
            invoke.tps, line.statuses, line.offsets, errors, line.t0s, line.t1s, strict=True
        ):
            off.append(NONE if offset is None else offset)
            t0, why = invoke.t if t0 is None else t0, NO_WORD if error is None else number(error)
            told.extend((numbers[tp], status, NONE, t0, t1, why))

    def _never_answered(self, asked: Asked) -> None:
        """Nobody knows: a worker was killed, or the run ended first. t1 stays open."""
        invoke, count, why = asked.invoke, len(asked.invoke.tps), self.words.number(NO_ANSWER)
        op = self._answered(asked, NONE, _INFO, count, NO_ANSWER)
        if not count:
            return
        self._send_block(op, invoke, ())
        self.fresh["off"].extend([NONE] * count)
        for tp in invoke.tps:
            self.fresh["told"].extend((self.state.numbers[tp], _INFO, NONE, invoke.t, NONE, why))

    def _send_block(self, op: int, invoke: Invoke, timestamps: Sequence[int | None]) -> None:
        count = len(invoke.tps)
        keys, times = self._beside("key", invoke.keys, count), self._beside("timestamp_ms", timestamps, count)
        self.fresh["blocks"].extend((op, 1, count, NONE, 0, NONE, 1, keys, times))
        self.fresh["value"].extend(self._values(invoke.values, invoke.texts))

    def _read(self, line: Read) -> None:
        state = self.state
        asked = state.unanswered.pop(line.operation)
        status, t0, t1 = _OK if line.error is None else _FAIL, asked.invoke.t, line.t
        gained = state.assignments.get(state.clients[asked.client].process, {})
        count = sum([len(part.offsets) for part in line.parts])
        op = self._answered(asked, t1, status, count, line.error)
        first = 0
        for part in line.parts:
            if part.offsets:
                tp = state.numbers[part.tp]
                self._part(part, op, first, tp, gained.get(tp, 0), status, t0, t1)
                first += len(part.offsets)

    def _part(
        self, part: Part, op: int, first: int, tp: int, assignment: int, status: int, t0: int, t1: int
    ) -> None:  # fmt: skip
        fresh, epochs, count = self.fresh, part.epochs, len(part.offsets)
        if len(part.values) != count:
            raise ValueError(f"{len(part.values)} values for {count} records")
        each = len(epochs) == count > 1
        log_append = NONE if part.log_append is None else int(part.log_append)
        keys, times = self._beside("key", part.keys, count), self._beside("timestamp_ms", part.timestamps, count)
        fresh["blocks"].extend((op, 0, count, assignment, first, log_append, int(each), keys, times))
        for epoch in epochs if each else epochs[:1] or (None,):
            fresh["told"].extend((tp, status, NONE if epoch is None else epoch, t0, t1, NO_WORD))
        fresh["off"].extend(part.offsets)
        fresh["value"].extend(self._values(part.values, part.texts))

    def _beside(self, name: str, column: Sequence[int | None], count: int) -> int:
        """Keys or timestamps of a block: none, one for all its records, or one for each; whether it is for each."""
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

    # -- what is no send and no poll ----------------------

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
        """Held against the count of whoever wrote it."""
        if lines and isinstance(lines[-1], Finished) and lines[-1].lines != self.state.lines - 1:
            raise ValueError(f"{lines[-1].lines} lines were written before this one, {self.state.lines - 1} are here")

    def _begin_client(self, line: Process) -> None:
        self.state.clients.append(line)

    def _assigned(self, line: Assigned) -> None:
        self._gained(line.tps)
        self._single("assign", line.t, line.t, len(line.tps), None)

    def _gained(self, tps: Sequence[int]) -> None:
        """The present client has these partitions anew: its next reads of them begin a new assignment."""
        times = self.state.assignments.setdefault(self.state.clients[self._client()].process, {})
        for tp in tps:
            place = self.state.numbers[tp]
            times[place] = times.get(place, 0) + 1

    def _done(self, line: Done) -> None:
        self._single(line.f, line.t0, line.t1, line.count, line.error)

    def _begin_transaction(self, line: Begin) -> None:
        self.state.transactions[line.txn] = self.state.transactions_begun
        self.state.transactions_begun += 1
        self.fresh["begun"].extend((self._client(), line.t))

    def _end_transaction(self, line: End) -> None:
        why = NO_WORD if line.error is None else self.words.number(line.error)
        self.fresh["ended"].extend((self.state.transactions[line.txn], line.t, line.outcome, why))

    def _group(self, line: Group) -> None:
        number, client = self.words.number, self._client()
        txn = NO_TRANSACTION if line.txn is None else self.state.transactions[line.txn]
        member = NO_WORD if line.member is None else number(line.member)
        why = number(line.error) if line.error else NO_WORD
        generation = NONE if line.generation is None else line.generation
        row = (number(line.event), line.t0, line.t1, line.status, generation, member, why, client, txn, len(line.tps))
        self.fresh["events"].extend(row)
        for tp, offset in zip(line.tps, line.offsets, strict=True):
            self.fresh["places"].extend((self.state.numbers[tp], NONE if offset is None else offset))
        if line.event in ("assigned", "seek") and line.status == _OK:
            self._gained(line.tps)
        if txn != NO_TRANSACTION:
            self.fresh["took"].extend((txn, client))
        if line.event in _OPERATIONS:
            f, count = _OPERATIONS[line.event], len(line.tps)
            self._single(f, line.t0, line.t1, count, line.error, status=line.status, txn=txn)

    def _met(self, line: Met) -> None:
        """Told late as like as not: by then another client may have begun."""
        clients, number = self.state.clients, self.words.number
        known = [place for place, client in enumerate(clients) if client.process == line.process]
        if not known:
            raise LookupError(f"nothing has begun as process {line.process}")
        place = NO_PARTITION if line.tp is None else self.state.numbers[line.tp]
        told = [NONE if entry is None else entry for entry in (line.node, line.epoch, line.status)]
        why = NO_WORD if line.error is None else number(line.error)
        self.fresh["met"].extend((known[-1], line.t, number(line.event), told[0], place, told[1], told[2], why))


def _status_of(statuses: Sequence[int]) -> int:
    """ok and fail only where all records agree; the records tell the rest."""
    first = statuses[0] if statuses else _INFO
    return first if statuses.count(first) == len(statuses) else _INFO
