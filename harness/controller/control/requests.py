"""One request is one line of JSON, and so is its answer: {"id": 7, "act": {"pause": "leader(orders/0)"}} is answered by
{"id": 7, "ok": true, ...} or {"id": 7, "ok": false, "error": {"code": ..., "message": ..., "remedy": ...}}.

docs/control.md is the description for users; a test holds the tables here against it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import msgspec

from harness.errors import HarnessError, Problems, UsageError, nearest

LINE_BYTES_MAX = 65_536
DEPTH_MAX = 20
ID_MAX = 100  # characters
Word = Literal["state", "act", "heal", "wait", "topic", "record", "client", "check", "end"]
WORDS: tuple[Word, ...] = ("state", "act", "heal", "wait", "topic", "record", "client", "check", "end")
Code = Literal["bad-json", "too-long", "bad-request", "failed", "timeout", "busy", "not-allowed", "ending"]
CODES: tuple[Code, ...] = get_args(Code)
_EXAMPLE = '{"id": 1, "state": {}}'
REMEDIES: Mapping[Code, str] = {
    "bad-json": f"send one JSON object a line, ended by a newline, for example {_EXAMPLE}",
    "too-long": f"a line has at most {LINE_BYTES_MAX} bytes; this connection is closed, open another one",
    "bad-request": "docs/control.md describes every request",
    "failed": 'ask for {"state": {}} and look at the nodes\' logs; nothing of a fault that failed stays in force',
    "timeout": 'give it more time with "within", or ask for {"state": {}} to see what holds it up',
    "busy": "try again when another request has been answered",
    "not-allowed": "connect as the user who started the cluster",
    "ending": "the cluster is being stopped; start another one",
}


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: Code, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy or REMEDIES[code]


@dataclass(frozen=True, kw_only=True)
class Request:
    """value: what stands behind the word. within: as the request gives it; None: the word's own limit."""

    id: int | str | None
    word: Word
    value: Any
    within: Any = None


def read_request(line: bytes) -> Request:
    """Raises Refused."""
    try:
        asked = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise Refused("bad-json", f"this line is no JSON: {error}") from None
    if not isinstance(asked, dict):
        raise Refused("bad-json", "this line is JSON, but no object")
    _check_depth(asked)
    _refuse_equal_keys(line)
    words = [word for word in asked if word in WORDS]
    for key in asked:
        if key not in (*WORDS, "id", "within"):
            raise Refused("bad-request", f"unknown key {key[:100]!r}; {nearest(key[:100], WORDS)}")
    if len(words) != 1:
        raise Refused("bad-request", f"a request has exactly one of {', '.join(WORDS)}")
    word = cast(Word, words[0])
    if "within" in asked and word not in ("act", "wait", "check"):
        raise Refused("bad-request", "within goes with act, wait and check alone")
    return Request(id=id_of(asked), word=word, value=asked[word], within=asked.get("within"))


def id_of(asked: Mapping[str, Any]) -> int | str | None:
    """Raises Refused for what could not be repeated in an answer as it came."""
    given = asked.get("id")
    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return given
    if isinstance(given, str) and len(given) <= ID_MAX:
        return given
    raise Refused("bad-request", f"id is a whole number or a text of at most {ID_MAX} characters")


def id_in(line: bytes) -> int | str | None:
    """The id of a line that is refused, where it can be had."""
    try:
        asked = msgspec.json.decode(line)
        if not isinstance(asked, dict):
            return None
        keys = [key for key, _ in json.loads(line, object_pairs_hook=tuple, parse_int=str, parse_float=str)]
        return id_of(asked) if keys.count("id") == 1 else None  # which of two is meant nobody can say
    except (msgspec.DecodeError, RecursionError, ValueError, Refused):
        return None


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > DEPTH_MAX:
        raise Refused("bad-request", f"more than {DEPTH_MAX} levels of nesting")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        _check_depth(each, depth + 1)


def _refuse_equal_keys(line: bytes) -> None:
    """Which of two is meant nobody can say. Of a line that was read and is not nested too deep."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise Refused("bad-request", f"the key {key[:100]!r} is there twice in one object")
            found[key] = value
        return found

    # The numbers were read before: a whole one of many digits is none here.
    json.loads(line, object_pairs_hook=once, parse_int=str, parse_float=str)


def fields_of(value: Any, known: Mapping[str, type | tuple[type, ...]], *, of: str) -> dict[str, Any]:
    """An object with no other keys than these, each of its type. Raises Refused."""
    if not isinstance(value, dict):
        raise Refused("bad-request", f"{of}: an object is needed, for example {{}}")
    for key, each in value.items():
        if key not in known:
            raise Refused("bad-request", f"{of}: unknown key {key[:100]!r}; known: {', '.join(known) or 'none'}")
        if not isinstance(each, known[key]) or (isinstance(each, bool) and known[key] is not bool):
            raise Refused("bad-request", f"{of}: {key} has the wrong type")
    return value


def refusal_of(error: HarnessError | OSError | TimeoutError | ValueError) -> Refused:
    """The error by which what the harness raised is answered: its kind decides, never its words."""
    if isinstance(error, Problems):
        remedies = [problem.remedy for problem in error.problems if problem.remedy]
        return Refused("bad-request", str(error), "; ".join(remedies))
    if isinstance(error, UsageError | ValueError):
        return Refused("bad-request", str(error))
    if isinstance(error, TimeoutError):
        return Refused("timeout", str(error) or "not done in time")
    return Refused("failed", str(error))


def answer_line(id: int | str | None, fields: Mapping[str, Any]) -> bytes:  # noqa: A002  # as the protocol calls it
    return msgspec.json.encode({"id": id, "ok": True, **fields}) + b"\n"


def error_line(id: int | str | None, refused: Refused) -> bytes:  # noqa: A002
    error = {"code": refused.code, "message": refused.message, "remedy": refused.remedy}
    return msgspec.json.encode({"id": id, "ok": False, "error": error}) + b"\n"
