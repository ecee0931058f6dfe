"""Reads Jepsen's histories line by line in bulk, where lines have the form that Jepsen prints: nearly all of them.

A regular line is one map of the fields that every operation of the Kafka workload has, with integers for keys, offsets
and values. A few replacements turn the values of many lines into JSON, which one call parses. The plain reader reads
every other line by itself. This equals reading the whole text as long as each line is complete; a line that is not (a
map over several lines, an open string, a discard of what follows) is not valid EDN by itself. Then, as for every error,
`NotInBulk` is raised: the plain reader reads the whole file and reports place and remedy.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from harness.errors import UsageError
from harness.history.jepsen.clojure_order import ARRAY_MAP_MAX, map_order
from harness.history.jepsen.edn_reader import OPERATION_TAGS, read_text

_CHUNK_BYTES = 1 << 20
_SHAPES_MAX = 6  # accepted orders of the fields; Jepsen writes one
_FIELDS = ("index", "time", "type", "process", "f", "value")
_WHOLE = rb"0|[1-9][0-9]{0,17}"
_PATTERNS = {
    "index": _WHOLE,
    "time": rb"-?(?:%s)" % _WHOLE,
    "process": rb"0|[1-9][0-9]{0,8}",
    "type": rb":(?:invoke|ok|fail|info)",
    "f": rb":(?:send|poll|txn)",
    "value": rb'\[[^"]*\]',
}
_NAMED = re.compile(rb":(%s) " % b"|".join(name.encode() for name in _FIELDS))
_TAGS = b"|".join(re.escape(f"#{tag}".encode()) for tag in OPERATION_TAGS)
_MORE = re.compile(rb"(, :batch\? true)?(?:, :error (:[a-z][a-z0-9-]*))?(, :batch\? true)?")

# A value as JSON: each `[:send k v]` is ["s",k,v], each `[:poll {k [[offset v] ...] ...}]` is
# ["p",[k,[[offset,v],...],...]].
_TO_JSON = bytes.maketrans(b"{} \n", b"[],,")
_OF_JSON = b'0123456789-[]{}"sp \n'

_TO_NOUGHTS = bytes.maketrans(b"123456789", b"000000000")
_TOO_LONG = b"0" * 19  # digits: more than fit into 63 bits

Pair: TypeAlias = tuple[int, int]


class BulkSend(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False, tag="s"):
    key: int
    sent: int | Pair


class BulkPoll(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False, tag="p"):
    read: list[int | list[Pair]] | None = None


Micro: TypeAlias = BulkSend | BulkPoll
_DECODER = msgspec.json.Decoder(list[list[Micro]])


class NotInBulk(Exception):
    """This reader does not support the text: the plain one reads it, or reports what is wrong."""


@dataclass(slots=True)
class Line:
    """A regular line: one event."""

    index: int
    time: int
    type: str
    process: int
    f: str
    value: Sequence[Micro]
    batch: bool
    error: str | None


class OddLine:
    """Events read by the plain reader, as maps."""

    __slots__ = ("events",)

    def __init__(self, events: Sequence[Any]) -> None:
        self.events = events


def reads(poll: BulkPoll) -> Sequence[tuple[int, Sequence[tuple[int, int]]]]:
    """(key, pairs) of a poll in the order of Clojure's map. Raises NotInBulk for a duplicate or invalid key."""
    entries: list[Any] = poll.read or []
    keys, pairs = entries[::2], entries[1::2]
    if len(keys) == 1 and len(pairs) == 1 and type(keys[0]) is int and type(pairs[0]) is list:
        return [(keys[0], pairs[0])]
    if len(keys) != len(pairs) or any(type(key) is not int for key in keys) or any(type(p) is int for p in pairs):
        raise NotInBulk
    by_key = dict(zip(keys, pairs, strict=True))
    if len(by_key) < len(keys):
        raise NotInBulk
    return list(by_key.items()) if len(keys) <= ARRAY_MAP_MAX else [(key, by_key[key]) for key in map_order(keys)]


def lines_of(text: bytes, *, place: str) -> Iterator[Line | OddLine]:
    """Yields every line, in order. Raises NotInBulk, at any time."""
    shapes: list[Callable[[bytes], Any]] = []
    for lines in _chunks(_inside(text)):
        matches = [_matched(line, shapes) for line in lines]
        bodies = [match["value"] for match in matches if match is not None]
        values = iter(_decoded(bodies))
        for line, match in zip(lines, matches, strict=True):
            value = None if match is None else next(values)
            yield _odd(line, place) if match is None or value is None else _regular(match, value)


def _inside(text: bytes) -> tuple[int, int, bytes]:
    """The begin and end of the lines of maps: inside the vector, if the text is one."""
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if text[begin : begin + 1] == b"[" and text[end - 1 : end] == b"]":
        if b";" in text[text.rfind(b"\n", begin, end) + 1 : end]:
            raise NotInBulk  # the last bracket may belong to a comment
        return begin + 1, end - 1, text
    return 0, len(text), text


def _chunks(inside: tuple[int, int, bytes]) -> Iterator[list[bytes]]:
    at, end, text = inside
    while at < end:
        newline = text.find(b"\n", min(at + _CHUNK_BYTES, end), end)
        until = end if newline < 0 else newline
        yield text[at:until].split(b"\n")
        at = until + 1


def _matched(line: bytes, shapes: list[Callable[[bytes], Any]]) -> "re.Match[bytes] | None":
    """Matches the known orders of fields; a line in a new order adds one."""
    line = line.strip(b" ,\t")
    for shape in shapes:
        if (match := shape(line)) is not None and _MORE.fullmatch(match["more"]):
            return match  # type: ignore[no-any-return]
    if len(shapes) >= _SHAPES_MAX or b":f :" not in line:
        return None
    names = [name.decode() for name in _NAMED.findall(line)]
    if sorted(names) != sorted(_FIELDS):
        return None
    fields = rb",? ".join(rb":%s (?P<%s>%s)" % (name.encode(), name.encode(), _PATTERNS[name]) for name in names)
    shape = re.compile(rb"(?:(?:%s) ?)?\{%s(?P<more>(?:, .*)?)\}" % (_TAGS, fields)).fullmatch
    match = shape(line)
    if match is None or not _MORE.fullmatch(match["more"]):
        return None
    shapes.append(shape)
    return match


def _decoded(bodies: Sequence[bytes]) -> Sequence[list[Micro] | None]:
    """The micro-operations of each body; None for those that need the plain reader."""
    try:
        return _DECODER.decode(_json(bodies))
    except (NotInBulk, msgspec.DecodeError):
        return [_decoded_alone(body) for body in bodies]


def _decoded_alone(body: bytes) -> list[Micro] | None:
    try:
        return _DECODER.decode(_json([body]))[0]
    except (NotInBulk, msgspec.DecodeError):
        return None


def _json(bodies: Sequence[bytes]) -> bytes:
    """Converts to JSON; raises NotInBulk where JSON's one kind of bracket would hide a difference between EDN's two
    kinds.

    `{` only follows `:poll`. In what the decoder accepts, each `}` ends some list: that of a map if the end of the
    micro-operation follows, and the end of a pair and of all pairs precedes it, or nothing at all.
    """
    text = b"\n".join(bodies).replace(b", ", b" ").replace(b"[:send ", b'["s" ')
    text = text.replace(b"[:poll {", b'["p" {').replace(b"[:poll]", b'["p"]')
    maps = text.count(b'["p" {')
    ends = text.count(b"{}]") + text.count(b"[]}]") + text.count(b"]]}]") - text.count(b"]]]}]") - text.count(b"[]]}]")
    if text.translate(None, _OF_JSON) or _TOO_LONG in text.translate(_TO_NOUGHTS):
        raise NotInBulk
    if text.count(b"{") != maps or text.count(b"}") != maps or ends != maps:
        raise NotInBulk
    return b"[" + text.translate(_TO_JSON) + b"]"


def _regular(match: "re.Match[bytes]", value: list[Micro]) -> Line:
    index, time, kind, process, f, more = match.group("index", "time", "type", "process", "f", "more")
    batch, error = False, None
    if more:
        matched = _MORE.fullmatch(more)
        assert matched is not None, "it was matched before"
        if matched[1] and matched[3]:
            raise NotInBulk
        batch, error = bool(matched[1] or matched[3]), matched[2].decode() if matched[2] else None
    return Line(
        index=int(index),
        time=int(time),
        type=_KINDS[kind],
        process=int(process),
        f=_KINDS[f],
        value=value,
        batch=batch,
        error=error,
    )


_KINDS = {f":{kind}".encode(): kind for kind in ("invoke", "ok", "fail", "info", "send", "poll", "txn")}


def _odd(line: bytes, place: str) -> OddLine:
    try:
        return OddLine([event for _, event in read_text(line.decode(), place=place, whole=False)])
    except (UsageError, UnicodeDecodeError) as error:
        raise NotInBulk from error
