"""Stores converted journals in pieces while a run goes on: RUN/converting/piece-00000 and so on.

A piece contains what came since the previous one, and the state of each journal. So all pieces from the first on are a
consistent beginning, even if a process was killed while it wrote the next; the seal continues from there.
"""

import gc
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.history.journals.journal import CONTROLLER_ROWS
from harness.history.journals.journal_columns import JournalColumns
from harness.history.journals.journal_state import FIELDS, Before, State

FOLDER = "converting"
_FORMAT = 2  # format version of the pieces; others are not read
_LONG = 8
_STRING_BYTES = 100  # bytes in memory, approximately


class PiecesUnfit(HarnessError):
    """The pieces are not a beginning of these journals."""


class _Growth(msgspec.Struct, frozen=True, kw_only=True):
    """The growth of one journal. counts: number of integers by column."""

    state: State
    counts: dict[str, int]
    words: list[str]
    texts: list[str]


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    journals: dict[str, _Growth]


def journal_paths(history: Path) -> list[Path]:
    """In the order in which a run's tables have them."""
    return sorted(path for path in history.glob("*.jsonl") if path.name != CONTROLLER_ROWS)


class Journals:
    """All journals of a run, by name."""

    def __init__(self) -> None:
        self._journals: dict[str, JournalColumns] = {}
        self._pieces = 0

    def take(self, path: Path) -> bool:
        """Reads a piece of a journal; False if there is nothing new. Raises JournalChanged."""
        if path.name not in self._journals:
            self._journals[path.name] = JournalColumns(path)
        with _no_collection():
            return self._journals[path.name].take()

    def ended(self) -> list[JournalColumns]:
        """Reads all of them to their ends, in order."""
        journals = [self._journals[name] for name in sorted(self._journals)]
        with _no_collection():
            for journal in journals:
                journal.end()
        return journals

    def join(self, other: "Journals") -> None:
        """Takes over the journals of `other`, which are different ones."""
        self._journals |= other._journals

    # -- storing pieces -----------------------------------

    def fresh_bytes(self) -> int:
        """The approximate size in memory of what is in no piece yet."""
        return sum(
            _LONG * sum(map(len, journal.fresh.values()))
            + _STRING_BYTES * (len(journal.words.fresh()) + len(journal.texts.fresh()))
            for journal in self._journals.values()
        )

    def put_away(self, run: FilesBelow) -> None:
        """Writes a piece into RUN/converting, under its name only when it is complete, and forgets its contents."""
        growths = {
            name: _Growth(
                state=journal.state,
                counts={column: len(integers) for column, integers in journal.fresh.items()},
                words=journal.words.fresh(),
                texts=journal.texts.fresh(),
            )
            for name, journal in self._journals.items()
        }
        head = msgspec.json.encode(_Head(format=_FORMAT, journals=growths))
        head += b" " * (-len(head) % _LONG)
        with run.replacing(f"{FOLDER}/{_name(self._pieces)}") as file:
            file.write(len(head).to_bytes(_LONG, "little"))
            file.write(head)
            for journal in self._journals.values():
                for integers in journal.fresh.values():
                    integers.tofile(file)
        self._pieces += 1
        for journal in self._journals.values():
            journal.forget()

    @classmethod
    def resumed(cls, folder: Path, history: Path) -> "Journals":
        """The journals in the state of the last piece; to be read further and ended, not stored. Raises PiecesUnfit."""
        before: dict[str, Before] = {}
        there = {path.name for path in journal_paths(history)}
        for number, path in enumerate(sorted(folder.glob("piece-?????"))):
            if path.name != _name(number):
                raise PiecesUnfit(f"{_name(number)} is missing")
            for name, growth, integers in _read(path):
                if name not in there:
                    raise PiecesUnfit(f"{path.name} names {name!r}, and there is no such journal")
                known = before.setdefault(name, Before())
                known.state = growth.state
                known.words += growth.words
                known.texts += growth.texts
                for column, parts in known.integers.items():
                    parts.append(integers[column])
        journals = cls()
        for name, known in before.items():
            columns = journals._journals[name] = JournalColumns(history / name, known)
            if not columns.is_as_before():
                raise PiecesUnfit(f"{name} is not the journal any more that was converted")
        return journals


def _name(number: int) -> str:
    return f"piece-{number:05d}"


def _read(path: Path) -> Iterator[tuple[str, _Growth, dict[str, memoryview]]]:
    """Yields each journal in a piece; its integers stay on disk."""
    try:
        with path.open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        start = _LONG + int.from_bytes(whole[:_LONG], "little")
        head = msgspec.json.decode(whole[_LONG:start], type=_Head)
    except (OSError, ValueError, msgspec.MsgspecError) as error:  # empty, or another program's
        raise PiecesUnfit(f"{path.name} cannot be read: {error}") from None
    counts = [growth.counts for growth in head.journals.values()]
    known = head.format == _FORMAT and all(list(columns) == list(FIELDS) for columns in counts)
    if not known or start + _LONG * sum(sum(columns.values()) for columns in counts) != len(whole):
        raise PiecesUnfit(f"{path.name} was written by another version, or is cut short")
    for name, growth in head.journals.items():
        integers = {}
        for column, count in growth.counts.items():
            integers[column] = whole[start : start + _LONG * count].cast("q")
            start += _LONG * count
        yield name, growth, integers


@contextmanager
def _no_collection() -> Iterator[None]:
    """Switches the garbage collector off: millions of small lists without cycles would be searched in vain."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
