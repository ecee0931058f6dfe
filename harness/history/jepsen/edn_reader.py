"""Reads EDN, the notation of Jepsen's histories: strictly, one value after the other.

Vectors become lists, lists tuples, maps dicts, sets frozensets; keywords, symbols, characters and tagged values have
types of their own, because Jepsen distinguishes `:x` from `"x"`. The tags that Jepsen puts before an operation are
dropped. Invalid or too large EDN is an error of one line: file, line, problem, remedy.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.history.files_below import open_plain
from harness.host import memory


@dataclass(frozen=True, slots=True)
class Keyword:
    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f":{self.namespace}/{self.name}" if self.namespace else f":{self.name}"


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Character:
    text: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value whose tag is not Jepsen's own: #inst, #object, #error ..."""

    tag: str
    value: Any


# Tags of plain maps: the printed form of Jepsen's records.
OPERATION_TAGS = ("jepsen.history.Op", "jepsen.history/Op", "knossos.op.Op", "knossos.op/Op")
NESTING_MAX = 100
DIGITS_MAX = 1000
_BYTES_IN_MEMORY = 8  # bytes of memory per byte of EDN, approximately
_REMEDY = "write the history as Jepsen does: one map a line, or one vector of maps"
_OCTAL = "01234567"
_SHOWN_MAX = 200  # characters of what is wrong, which may be as long as the file
_NAMED_CHARACTERS = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
_OPEN = {"{": "}", "[": "]", "(": ")", "#{": "}"}

# The whole vector of a poll's [offset value] pairs is one token where all are small plain numbers: most of a history.
_TOKEN = re.compile(
    r"""[\s,]*+(?:;[^\n]*+(?:\n[\s,]*+|\Z))*+
    (?:(?P<pairs>\[\[INT[ ]INT\](?:,?[ ]\[INT[ ]INT\])*+\])
    |(?P<number>[+-]?(?:0|[1-9][0-9]*)(?=[\s,\]\}\)\[\{\(";]|\Z))
    |(?P<keyword>:[^\s,\[\]{}()";\\@^`~]+)
    |(?P<open>\#\{|[\[{(])
    |(?P<close>[\]})])
    |(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")
    |(?P<discard>\#_)
    |(?P<special>\#\#(?:-?Inf|NaN)(?![^\s,\[\]{}()";]))
    |(?P<tag>\#[^\s,\[\]{}()";\\@^`~\#]+)
    |(?P<character>\\(?:u[0-9a-fA-F]{4}|o[0-7]{1,3}|[a-z]+|.)(?![^\s,\[\]{}()";]))
    |(?P<atom>[^\s,\[\]{}()";\\@^`~\#:][^\s,\[\]{}()";\\@^`~]*)
    |(?P<end>\Z)
    )""".replace("INT", "-?(?:0|[1-9][0-9]*)"),
    re.VERBOSE | re.DOTALL,
)
_RATIO = re.compile(r"([+-]?[0-9]+)/([0-9]+)")
_FLOAT = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?M?|[eE][+-]?[0-9]+M?|M)")
_BIG = re.compile(r"([+-]?(?:0|[1-9][0-9]*))N")
_OTHER_BASE = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0([0-7]+)|([0-9]{1,2})[rR]([0-9a-zA-Z]+))N?")
_DIGITS = re.compile(r"-?[0-9]+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL)
_NOTHING = object()  # the result of a discarded value


def bytes_of(path: Path, *, through_links: bool = True) -> bytes:
    """The whole file. Raises HarnessError if its values take more memory than allowed."""
    try:
        with open_plain(path, through_links=through_links) as file:
            memory.check(f"{path}: its values", memory_of(os.fstat(file.fileno()).st_size))
            return file.read()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): name a file of Jepsen's history") from error


def memory_of(size: int) -> int:
    """The approximate memory in bytes of the values of a file of this size."""
    return size * _BYTES_IN_MEMORY


def read_bytes(text: bytes, *, place: str) -> Iterator[tuple[int, Any]]:
    """(line, value) for each value of the file; a file with a single vector yields its elements."""
    try:
        return read_text(text.decode("utf-8"), place=place)
    except UnicodeDecodeError as error:
        raise UsageError(f"{place} is not UTF-8 ({error}): {_REMEDY}") from error


def read_text(text: str, *, place: str = "text", whole: bool = True) -> Iterator[tuple[int, Any]]:
    """whole: a text with a single vector yields its elements; a part of a text never does."""
    reader = _Reader(text, place)
    count = 0
    while True:
        start = reader.next_start()
        value = reader.value_or_end()
        if value is _NOTHING:
            return
        count += 1
        if whole and isinstance(value, (list, tuple)) and count == 1 and reader.at_end():
            yield from ((reader.line(start), element) for element in value)
        else:
            yield reader.line(start), value


class _Reader:
    def __init__(self, text: str, place: str) -> None:
        self._text = text
        self._place = place
        self._at = 0
        self._depth = 0
        self._line, self._line_at = 1, 0
        self._keywords: dict[str, Keyword] = {}

    def line(self, at: int) -> int:
        """Counted from the previously requested position: requests in order cost one pass over the text."""
        if at < self._line_at:
            return self._text.count("\n", 0, at) + 1
        self._line += self._text.count("\n", self._line_at, at)
        self._line_at = at
        return self._line

    def _wrong(self, what: str, at: int) -> UsageError:
        shown = what if len(what) <= _SHOWN_MAX else f"{what[:_SHOWN_MAX]}…"
        return UsageError(f"{self._place}:{self.line(at)}: {shown}: {_REMEDY}")

    def _too_much(self, what: str, at: int) -> HarnessError:
        return HarnessError(f"{self._place}:{self.line(at)}: {what}")

    def _deeper(self, at: int) -> None:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise self._too_much(f"nested more than {NESTING_MAX} deep, as no history of Jepsen's is", at)

    def _check_digits(self, token: str, at: int) -> None:
        if len(token) > DIGITS_MAX:
            raise self._too_much(f"a number of more than {DIGITS_MAX} digits", at)

    def _token(self) -> "re.Match[str]":
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            at = self._at + len(self._text[self._at :]) - len(self._text[self._at :].lstrip(" \t\r\n,"))
            raise self._wrong(f"no EDN here: {self._text[at : at + 20]!r}", at)
        self._at = match.end()
        return match

    def next_start(self) -> int:
        match = _TOKEN.match(self._text, self._at)
        return match.start(match.lastgroup or 0) if match else self._at

    def at_end(self) -> bool:
        match = _TOKEN.match(self._text, self._at)
        return match is not None and match.lastgroup == "end"

    def value_or_end(self) -> Any:
        """The next value, or _NOTHING at the end of the text."""
        while True:
            match = self._token()
            if match.lastgroup == "end":
                return _NOTHING
            value = self._of(match)
            if value is not _NOTHING:
                return value

    def _value(self, after: str, at: int) -> Any:
        self._deeper(at)
        value = self.value_or_end()
        if value is _NOTHING:
            raise self._wrong(f"the text ends after {after}", at)
        self._depth -= 1
        return value

    def _of(self, match: "re.Match[str]") -> Any:
        kind = match.lastgroup
        assert kind is not None
        token, at = match[kind], match.start(kind)
        match kind:
            case "pairs":
                written_numbers = _DIGITS.findall(token)
                if len(token) > DIGITS_MAX:
                    self._check_digits(max(written_numbers, key=len), at)
                numbers = [int(digits) for digits in written_numbers]
                return [[offset, value] for offset, value in zip(numbers[::2], numbers[1::2], strict=True)]
            case "number":
                self._check_digits(token, at)
                return int(token)
            case "keyword":
                return self._keyword(token, at)
            case "open":
                return self._collection(token, at)
            case "close":
                raise self._wrong(f"{token} closes nothing", at)
            case "string":
                return self._string(token[1:-1], at)
            case "discard":
                self._value(token, at)
                return _NOTHING
            case "special":
                return float(token[2:].replace("Inf", "inf").replace("NaN", "nan"))
            case "tag":
                value = self._value(token, at)
                return value if token[1:] in OPERATION_TAGS else Tagged(token[1:], value)
            case "character":
                return self._character(token[1:], at)
            case _:
                return self._atom(token, at)

    def _collection(self, opened: str, at: int) -> Any:
        wanted, elements = _OPEN[opened], []
        self._deeper(at)
        while True:
            match = self._token()
            kind = match.lastgroup
            if kind == "close":
                if match["close"] != wanted:
                    raise self._wrong(f"{match['close']} where {wanted} should close {opened}", match.start("close"))
                break
            if kind == "end":
                raise self._wrong(f"{opened} is never closed", at)
            value = self._of(match)
            if value is not _NOTHING:
                elements.append(value)
        self._depth -= 1
        if opened == "[":
            return elements
        if opened == "(":
            return tuple(elements)
        if opened == "#{":
            return self._distinct([frozen(element) for element in elements], at)
        if len(elements) % 2:
            raise self._wrong("a map with a key that has no value", at)
        keys = [frozen(key) for key in elements[::2]]
        self._distinct(keys, at)
        return dict(zip(keys, elements[1::2], strict=True))

    def _distinct(self, elements: list[Any], at: int) -> frozenset[Any]:
        distinct = frozenset(elements)
        if len(distinct) < len(elements):
            counts = Counter(elements)
            twice = next(element for element in elements if counts[element] > 1)
            raise self._wrong(f"{written(twice)} stands twice in one set or map", at)
        return distinct

    def _keyword(self, token: str, at: int) -> Keyword:
        found = self._keywords.get(token)
        if found is None:
            namespace, slash, name = token[1:].rpartition("/")
            if token[1] in ":/" or (slash and not (namespace and name)):
                raise self._wrong(f"{token} is no keyword", at)
            found = self._keywords[token] = Keyword(name, namespace or None)
        return found

    def _string(self, body: str, at: int) -> str:
        if "\\" not in body:
            return body

        def of(match: "re.Match[str]") -> str:
            escape = match[1]
            if escape[0] == "u" and len(escape) == 5:
                return chr(int(escape[1:], 16))
            if escape[0] in _OCTAL:
                return chr(int(escape, 8))
            if escape not in _ESCAPES:
                raise self._wrong(f"\\{escape} is no escape of a string", at)
            return _ESCAPES[escape]

        text = _ESCAPE.sub(of, body)
        # Two escaped halves of one character.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _character(self, name: str, at: int) -> Character:
        if len(name) == 1:
            return Character(name)
        if name[0] == "u" and len(name) == 5:
            if "\ud800" <= (character := chr(int(name[1:], 16))) <= "\udfff":
                raise self._wrong(f"\\{name} is half a character", at)
            return Character(character)
        if name[0] == "o" and name[1:2] in tuple(_OCTAL):
            return Character(chr(int(name[1:], 8)))
        if name not in _NAMED_CHARACTERS:
            raise self._wrong(f"\\{name} is no character", at)
        return Character(_NAMED_CHARACTERS[name])

    def _atom(self, token: str, at: int) -> Any:
        if token in ("nil", "true", "false"):
            return {"nil": None, "true": True, "false": False}[token]
        if not (token[0].isdigit() or (token[0] in "+-" and token[1:2].isdigit())):
            namespace, slash, name = token.partition("/")
            return Symbol(name, namespace) if slash and namespace and name else Symbol(token)
        self._check_digits(token, at)
        if match := _BIG.fullmatch(token):
            return int(match[1])
        if match := _RATIO.fullmatch(token):
            if int(match[2]) == 0:
                raise self._wrong(f"{token} divides by zero", at)
            ratio = Fraction(int(match[1]), int(match[2]))
            return ratio if ratio.denominator > 1 else ratio.numerator
        if _FLOAT.fullmatch(token):
            try:
                return Decimal(token[:-1]) if token.endswith("M") else float(token)
            except InvalidOperation:
                raise self._too_much(f"{token[:40]} is beyond every number", at) from None
        if match := _OTHER_BASE.fullmatch(token):
            sign, hexadecimal, octal, base, digits = match.groups()
            try:
                number = int(hexadecimal or octal or digits, 16 if hexadecimal else 8 if octal else int(base))
            except ValueError:
                raise self._wrong(f"{token} is no number", at) from None
            return -number if sign == "-" else number
        raise self._wrong(f"{token} is no number", at)


def frozen(value: Any) -> Any:
    """The value in a form that can be a set element or a map key."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(element) for element in value)
    if isinstance(value, dict):
        return frozenset((key, frozen(element)) for key, element in value.items())
    if isinstance(value, Tagged):
        return Tagged(value.tag, frozen(value.value))
    return value


_UNESCAPES = {value: f"\\{key}" for key, value in _ESCAPES.items()}
_CHARACTER_NAMES = {value: key for key, value in _NAMED_CHARACTERS.items()}


def written(value: Any) -> str:
    """The value as EDN."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + "".join(_UNESCAPES.get(character, character) for character in value) + '"'
        case Fraction():
            return f"{value.numerator}/{value.denominator}"
        case Decimal():
            return f"{value}M"
        case float() if value != value or value in (float("inf"), float("-inf")):
            return {"inf": "##Inf", "-inf": "##-Inf"}.get(str(value), "##NaN")
        case Character(text):
            return "\\" + _CHARACTER_NAMES.get(text, text)
        case Tagged(tag, inner):
            return f"#{tag} {written(inner)}"
        case list():
            return "[" + " ".join(map(written, value)) + "]"
        case tuple():
            return "(" + " ".join(map(written, value)) + ")"
        case frozenset():
            return "#{" + " ".join(sorted(map(written, value))) + "}"
        case dict():
            return "{" + ", ".join(f"{written(key)} {written(element)}" for key, element in value.items()) + "}"
        case _:
            return str(value)
