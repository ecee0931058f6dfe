"""The skeletons of a history's lines: a line with a mark in place of each number, which many lines share.

The plain reader reads a skeleton once, with a number of its own in place of each mark. Where these numbers come back
says what the numbers of every line of this skeleton mean. If one comes back twice, not at all, or where no number is
pulled from the text, then lines of this skeleton are read plainly, one by one.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from harness.errors import HarnessError
from harness.history.jepsen.clojure_order import ARRAY_MAP_MAX
from harness.history.jepsen.edn_reader import Keyword, read_text, written
from harness.history.jepsen.micro_operations import NO_OFFSET, SENDS, WITH_RECORDS, groups_of
from harness.history.schema.schemas import STATUS_FAIL, STATUS_INFO, STATUS_OK

Column: TypeAlias = Any  # an array of NumPy

NUMBER, PAIRS = b"0", b"\x01"  # marks: a number; one or more [number number] in a row
INVOKED, ODD, NOTHING = -1, -2, -3  # beside the statuses of completions, what the lines of a skeleton are
STATUSES: Mapping[Keyword, int] = {
    Keyword("ok"): STATUS_OK,
    Keyword("fail"): STATUS_FAIL,
    Keyword("info"): STATUS_INFO,
}
PROCESS_MAX = 2**31 - 1
_INVOKE = Keyword("invoke")
_MARKS = re.compile(b"[%s]" % (NUMBER + PAIRS))
_FIRST = 1_000_000  # numbers in place of marks: two a mark, all of them as long, none a multiple of another
_MOST = _FIRST // 4
_NOWHERE = -1


class GroupShape(NamedTuple):
    """key, pairs: which marks. pairs is _NOWHERE where the group is empty; with_offsets: it is one of PAIRS.
    beside: other keys are in the same map; wide: so many that Clojure orders them by their hashes; single: it is what
    was sent, one record."""

    kind: int
    micro_operation: int
    key: int
    pairs: int
    with_offsets: bool
    beside: bool
    wide: bool
    single: bool


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What lines of one skeleton have in common. kind: a status, or one of INVOKED, ODD and NOTHING. index, time and
    process: which marks."""

    kind: int
    index: int = 0
    time: int = 0
    time_sign: int = 1
    process: int = 0
    function: str = ""
    error: str | None = None
    batch: bool = False
    groups: Sequence[GroupShape] = ()


_ODD = Shape(kind=ODD)


class Skeletons:
    """Numbers skeletons, and has as columns what is known of each."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self.shapes: list[Shape] = []
        self._marks: list[int] = []
        self._columns: Mapping[str, Column] = {}
        self._groups: Mapping[str, Column] = {}

    def numbers_of(self, lines: Sequence[bytes]) -> Column:
        found = list(map(self._known.get, lines))
        if None in found:
            for line in dict.fromkeys(line for line, number in zip(lines, found, strict=True) if number is None):
                self._known[line] = len(self.shapes)
                self.shapes.append(_shape_of(line))
                self._marks.append(len(_MARKS.findall(line)))
            found = list(map(self._known.get, lines))
            self._columns = {}
        return np.array(found, np.int64)

    @property
    def columns(self) -> Mapping[str, Column]:
        if not self._columns:
            self._in_columns()
        return self._columns

    @property
    def groups(self) -> Mapping[str, Column]:
        """The groups of all skeletons, one after the other: `first_group` and `groups` say which are whose."""
        if not self._columns:
            self._in_columns()
        return self._groups

    def _in_columns(self) -> None:
        shapes = self.shapes
        counts = np.array([len(shape.groups) for shape in shapes], np.int64)
        numbers = ("kind", "index", "time", "time_sign", "process", "batch")
        self._columns = {name: np.array([getattr(shape, name) for shape in shapes], np.int64) for name in numbers} | {
            "marks": np.array(self._marks, np.int64),
            "groups": counts,
            "first_group": np.cumsum(counts) - counts,
        }
        groups = [group for shape in shapes for group in shape.groups]
        table = np.array(groups, np.int64).reshape(len(groups), len(GroupShape._fields))
        self._groups = dict(zip(GroupShape._fields, table.T.copy(), strict=True))


def _shape_of(skeleton: bytes) -> Shape:
    marks = [match.group() for match in _MARKS.finditer(skeleton)]
    if len(marks) > _MOST:
        return _ODD
    try:
        events = [event for _, event in read_text(_numbered(skeleton), place="", whole=False)]
        if not events and not marks:
            return Shape(kind=NOTHING)
        return _of_event(events[0], marks) if len(events) == 1 else _ODD
    except (_Unfit, HarnessError, UnicodeDecodeError):
        return _ODD


def _numbered(skeleton: bytes) -> str:
    """With a number of its own in place of each mark: twice the mark's place, and the one after it in pairs."""
    places = iter(range(_FIRST, _FIRST + 2 * _MOST + 2, 2))

    def number(match: "re.Match[bytes]") -> bytes:
        first = next(places)
        return b"%d" % first if match.group() == NUMBER else b"[%d %d]" % (first, first + 1)

    return _MARKS.sub(number, skeleton).decode()


class _Unfit(Exception):
    """Lines of this skeleton are odd."""


class _Marks:
    """Which marks a skeleton has, and which have been used."""

    def __init__(self, marks: Sequence[bytes]) -> None:
        self._left = dict(enumerate(marks))

    def number(self, found: Any) -> int:
        """The mark of a number."""
        return self._taken(found, NUMBER)

    def pairs(self, offset: Any, value: Any) -> int:
        mark = self._taken(offset, PAIRS)
        if type(value) is not int or value != offset + 1:
            raise _Unfit
        return mark

    def _taken(self, found: Any, kind: bytes) -> int:
        if type(found) is not int or found < _FIRST or found % 2:
            raise _Unfit
        mark = (found - _FIRST) // 2
        if self._left.pop(mark, None) != kind:
            raise _Unfit
        return mark

    def all_used(self) -> bool:
        return not self._left


def _of_event(event: Any, kinds: Sequence[bytes]) -> Shape:
    if not isinstance(event, dict) or event.get(Keyword("rebalance-log")):
        raise _Unfit
    field = {name: event.get(Keyword(name)) for name in ("index", "time", "process", "type", "f", "value", "error")}
    function, kind = field["f"], field["type"]
    if not isinstance(function, Keyword) or str(function)[1:] not in WITH_RECORDS:
        raise _Unfit
    invoked = kind == _INVOKE
    if not isinstance(kind, Keyword) or not (invoked or kind in STATUSES):
        raise _Unfit
    marks = _Marks(kinds)
    time = field["time"]
    sign = -1 if isinstance(time, int) and time < 0 else 1
    groups = list(_groups(function.name, field["value"], marks))
    if invoked and any(group.beside for group in groups):
        raise _Unfit  # whether keys are distinct is seen in completions alone
    shape = Shape(
        kind=INVOKED if invoked else STATUSES[kind],
        index=marks.number(field["index"]),
        time=marks.number(time * sign if isinstance(time, int) else time),
        time_sign=sign,
        process=marks.number(field["process"]),
        function=function.name,
        error=None if field["error"] is None else written(field["error"]),
        batch=event.get(Keyword("batch?")) is True,
        groups=[] if invoked else groups,
    )
    if not marks.all_used():
        raise _Unfit
    return shape


def _groups(function: str, value: Any, marks: _Marks) -> Iterator[GroupShape]:
    groups = list(groups_of("", function, value))
    keys_of = Counter((kind, micro_operation) for kind, micro_operation, _, _ in groups)
    for kind, micro_operation, key, pairs in groups:
        keys = keys_of[kind, micro_operation]
        mark, wide = marks.number(key), keys > ARRAY_MAP_MAX
        shape = GroupShape(kind, micro_operation, mark, _NOWHERE, False, keys > 1, wide, kind in SENDS)
        match pairs:
            case []:
                yield shape
            case [(offset, found)] if offset == NO_OFFSET:
                yield shape._replace(pairs=marks.number(found))
            case [(offset, found)]:
                yield shape._replace(pairs=marks.pairs(offset, found), with_offsets=True)
            case _:
                raise _Unfit
