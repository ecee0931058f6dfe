"""Reads Jepsen's histories in bulk: the numbers of many lines at once, and what they mean once for each skeleton.

Lines are the same but for their numbers (skeletons.py). So the text is cut into columns: where its numbers are, what
they are, and which skeleton each line has; then the events of all lines whose skeleton is known are columns too. The
plain reader reads every other line by itself. This equals reading the whole text as long as each line is complete; a
line that is not (a map over several lines, an open string, a discard of what follows) is not valid EDN by itself. Then,
as for every error, `NotInBulk` is raised: the plain reader reads the whole file and reports place and remedy.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from harness.errors import UsageError
from harness.history.jepsen.clojure_order import set_orders_of_numbers
from harness.history.jepsen.edn_reader import Keyword, read_text
from harness.history.jepsen.micro_operations import NO_OFFSET
from harness.history.jepsen.skeletons import INVOKED, NOTHING, NUMBER, ODD, PAIRS, PROCESS_MAX, Skeletons

Column: TypeAlias = Any  # an array of NumPy

_CHUNK_BYTES = 1 << 21  # what is made of it stays in a processor's cache
_DIGITS_MAX = 18  # as many fit into 63 bits, whatever they are
_SPACE, _ZERO = b" 0"
_NUMBER, _PAIRS = NUMBER[0], PAIRS[0]
# The numbers behind both names in a line; in a string they may stand too, or be a symbol's begin.
_INDEX_AND_TIME = re.compile(rb":(index|time) (0|[1-9][0-9]{0,17})(?=[ ,}])")
_PARTS = 7  # of a line with two of them
_NO_DIGITS = bytes(byte for byte in range(256) if byte not in b"0123456789")
_TO_NUMBER = bytes.maketrans(b"123456789", NUMBER * 9)


class NotInBulk(Exception):
    """This reader does not support the text: the plain one reads it, or reports what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """The events of some lines. Columns have a row an event of a line with a known skeleton; odd: (position, event) of
    the others. position: among all events; begin, end: of its line in the text.

    Of the completions, in order, those of `groups`: position, kind, micro_operation, key (its place in keys), count;
    and offset (or NO_OFFSET) and value of their records."""

    events: int
    position: Column
    begin: Column
    end: Column
    skeleton: Column
    kind: Column
    index: Column
    time: Column
    process: Column
    odd: Sequence[tuple[int, Any]]
    keys: Sequence[int]
    groups: Mapping[str, Column]
    offsets: Column
    values: Column


def blocks_of(text: bytes, skeletons: Skeletons, *, place: str) -> Iterator[Block]:
    """All events, in order. Raises NotInBulk, at any time."""
    if PAIRS in text:
        raise NotInBulk
    position = 0
    read_before = _ReadBefore(place)
    at, end = _inside(text)
    while at < end:
        newline = text.find(b"\n", min(at + _CHUNK_BYTES, end), end)
        until = end if newline < 0 else newline
        block = _Chunk(text[at:until], skeletons, read_before).block(at, position)
        position += block.events
        at = until + 1
        yield block


def _inside(text: bytes) -> tuple[int, int]:
    """The begin and end of the lines of maps: inside the vector, if the text is one."""
    begin, end = 0, len(text)
    while begin < end and text[begin : begin + 1].isspace():
        begin += 1
    while begin < end and text[end - 1 : end].isspace():
        end -= 1
    if text[begin : begin + 1] == b"[" and text[end - 1 : end] == b"]":
        if b";" in text[text.rfind(b"\n", begin, end) + 1 : end]:
            raise NotInBulk  # the last bracket may belong to a comment
        return begin + 1, end - 1
    return 0, len(text)


def ranges(first: Column, counts: Column) -> Column:
    """The numbers from each first on, as many as counted."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + counts, counts)


class _Chunk:
    """Some lines. number: of each number of the text its value; start: of each mark of a line's skeleton, the place of
    its first number, and behind the last one their count; first: of each line its first mark."""

    def __init__(self, text: bytes, skeletons: Skeletons, read_before: "_ReadBefore") -> None:
        self._text = text
        self._skeletons = skeletons
        self._read_before = read_before
        raw = np.frombuffer(text, np.uint8)
        self._lines = np.concatenate([[0], np.flatnonzero(raw == 10) + 1, [len(text) + 1]])
        digit = (raw - np.uint8(_ZERO)) < 10
        edges = np.flatnonzero(np.diff(digit, prepend=False, append=False))
        begins, lengths = edges[::2], edges[1::2] - edges[::2]
        wrong = (lengths > _DIGITS_MAX) | (raw[begins] == _ZERO) & (lengths > 1)
        self._number = _values_of(text, lengths)
        digit[begins] = False
        marked = np.frombuffer(text.translate(_TO_NUMBER), np.uint8)[~digit]
        lines = self._marked(marked.tobytes().replace(b"[0 0]", PAIRS))
        self._skeleton = skeletons.numbers_of(lines)
        known = skeletons.columns
        marks = known["marks"][self._skeleton]
        self._first = np.cumsum(marks) - marks
        self._kind = known["kind"][self._skeleton]
        self._kind[np.searchsorted(self._lines, begins[wrong], side="right") - 1] = ODD

    def _marked(self, text: bytes) -> list[bytes]:
        """The skeletons of all lines: pairs in a row have one mark."""
        found = np.frombuffer(text, np.uint8)
        pairs = found == _PAIRS
        goes_on = np.zeros(len(found), bool)
        goes_on[2:] = pairs[2:] & pairs[:-2] & (found[1:-1] == _SPACE)
        at = np.flatnonzero(pairs | (found == _NUMBER))
        width = 1 + pairs[at]
        start = np.cumsum(width) - width
        self._start = np.append(start[~goes_on[at]], len(self._number))
        gone = goes_on.copy()
        gone[:-1] |= goes_on[1:]
        return found[~gone].tobytes().split(b"\n")

    def block(self, begin: int, position: int) -> Block:
        events = np.ones(len(self._kind), np.int64)
        events[self._kind == NOTHING] = 0
        read = {line: self._plainly(line) for line in np.flatnonzero(self._kind == ODD).tolist()}
        for line, found in read.items():
            events[line] = len(found)
        positions = position + np.cumsum(events) - events
        rows = np.flatnonzero(self._kind >= INVOKED)
        known, skeleton = self._skeletons.columns, self._skeleton[rows]
        field = {name: self._numbered(rows, known[name][skeleton]) for name in ("index", "time", "process")}
        if (field["process"] > PROCESS_MAX).any():
            raise NotInBulk
        return Block(
            events=int(events.sum()),
            position=positions[rows],
            begin=begin + self._lines[rows],
            end=begin + self._lines[rows + 1] - 1,
            skeleton=skeleton,
            kind=self._kind[rows],
            index=field["index"],
            time=field["time"] * known["time_sign"][skeleton],
            process=field["process"],
            odd=[(int(positions[line]) + i, event) for line, found in read.items() for i, event in enumerate(found)],
            **self._grouped(rows[self._kind[rows] != INVOKED], positions),
        )

    def _plainly(self, line: int) -> Sequence[Any]:
        return self._read_before.events_of(self._text[self._lines[line] : self._lines[line + 1] - 1])

    def _numbered(self, lines: Column, marks: Column) -> Column:
        return self._number[self._start[self._first[lines] + marks]]

    def _grouped(self, lines: Column, positions: Column) -> dict[str, Any]:
        """What the completions sent and polled."""
        known, shape, skeleton = self._skeletons.columns, self._skeletons.groups, self._skeleton[lines]
        counts = known["groups"][skeleton]
        group, line = ranges(known["first_group"][skeleton], counts), np.repeat(lines, counts)
        keys = pa.array(self._numbered(line, shape["key"][group])).dictionary_encode()
        key = keys.indices.to_numpy()
        if shape["wide"][group].any():
            order = _clojure_order(line, shape["micro_operation"][group], shape["wide"][group] != 0, keys)
            group, line, key = group[order], line[order], key[order]
        micro_operation = shape["micro_operation"][group]
        beside = np.flatnonzero(shape["beside"][group])
        if len(beside):
            _distinct(line[beside], micro_operation[beside], key[beside])
        mark, with_offsets = self._first[line] + shape["pairs"][group], shape["with_offsets"][group] != 0
        start, end = self._start[mark], self._start[mark + 1]
        count = np.where(shape["pairs"][group] < 0, 0, np.where(with_offsets, (end - start) // 2, 1))
        if (count[shape["single"][group] != 0] > 1).any():
            raise NotInBulk
        offsets, values = self._pairs(start, count, with_offsets)
        return {
            "keys": keys.dictionary.to_pylist(),
            "groups": {
                "order": positions[line],
                "kind": shape["kind"][group],
                "micro_operation": micro_operation,
                "key": key,
                "count": count,
            },
            "offsets": offsets,
            "values": values,
        }

    def _pairs(self, start: Column, count: Column, with_offsets: Column) -> tuple[Column, Column]:
        ends = np.cumsum(count)
        total = int(ends[-1]) if len(ends) else 0
        at = np.repeat(start - 2 * (ends - count), count)
        at += 2 * np.arange(total)
        offsets, values = self._number[at], self._number[np.minimum(at + 1, len(self._number) - 1)]
        alone = (ends - count)[~with_offsets & (count > 0)]
        values[alone] = offsets[alone]
        offsets[alone] = NO_OFFSET
        return offsets, values


def _values_of(text: bytes, lengths: Column) -> Column:
    """The numbers of a text, given how long each is; 0 for what is too long."""
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    digits = pa.py_buffer(text.translate(None, _NO_DIGITS))
    fits = np.packbits(lengths <= _DIGITS_MAX, bitorder="little")
    written = pa.StringArray.from_buffers(len(lengths), pa.py_buffer(ends), digits, pa.py_buffer(fits))
    return written.cast(pa.int64()).fill_null(0).to_numpy()


def _clojure_order(line: Column, micro_operation: Column, wide: Column, keys: pa.DictionaryArray) -> Column:
    """The groups, those of each wide map in its order."""
    orders = set_orders_of_numbers(keys.dictionary.to_numpy().view(np.uint64)).astype(np.int64)
    return np.lexsort((np.where(wide, orders[keys.indices.to_numpy()], 0), micro_operation, line))


def _distinct(line: Column, micro_operation: Column, key: Column) -> None:
    """The keys of a map are."""
    begins = np.ones(len(line), bool)
    begins[1:] = (line[1:] != line[:-1]) | (micro_operation[1:] != micro_operation[:-1])
    in_map = np.cumsum(begins) * (int(key.max()) + 1) + key
    if len(np.unique(in_map)) < len(in_map):
        raise NotInBulk


class _ReadBefore:
    """Lines that are read plainly. Many subscribe or assign the same keys again: where only the numbers of :index and
    :time differ from those of a line that was read before, the event differs in these alone."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._events: dict[tuple[bytes, ...], Mapping[Any, Any] | None] = {}

    def events_of(self, line: bytes) -> Sequence[Any]:
        parts = _INDEX_AND_TIME.split(line)
        if len(parts) != _PARTS:
            return events_of_line(line, self._place)
        before, first, one, between, second, other, behind = parts
        text = before, first, between, second, behind
        if text not in self._events:
            self._events[text] = self._alike(text)
        if (event := self._events[text]) is None:
            return events_of_line(line, self._place)
        return [{**event, Keyword(first.decode()): int(one), Keyword(second.decode()): int(other)}]

    def _alike(self, text: tuple[bytes, ...]) -> Mapping[Any, Any] | None:
        """The event of a line with these parts, if what follows the two names are its index and its time."""
        before, first, between, second, behind = text
        line = b"%s:%s 1%s:%s 2%s" % (before, first, between, second, behind)
        match events_of_line(line, self._place):
            case [dict() as event] if (
                event.get(Keyword(first.decode())) == 1 and event.get(Keyword(second.decode())) == 2
            ):
                return event
        return None


def events_of_line(line: bytes, place: str) -> Sequence[Any]:
    """What the plain reader makes of one line."""
    try:
        return [event for _, event in read_text(line.decode(), place=place, whole=False)]
    except (UsageError, UnicodeDecodeError) as error:
        raise NotInBulk from error
