"""A run's names and values as people may read them, whatever characters they have: on a screen, in a log, in XML.

Control characters could rewrite what stands on the screen, marks of direction could reorder it, and a line feed could
pass for a line of ours. Each is shown as its code.
"""

import logging
import re
import shlex
from types import TracebackType

# Controls (C0 but tab and line feed, DEL, C1), what is invisible or turns the direction of writing, separators of
# lines, halves of characters, tags, and what no XML may hold.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_BREAKS = {"\n": "\\n", "\t": "\\t"}


def visible(text: str) -> str:
    """Of several lines: tabs and line feeds stay."""
    return _HIDDEN.sub(_code, text)


def printable(text: object) -> str:
    """On one line."""
    return visible(str(text)).replace("\n", _BREAKS["\n"]).replace("\t", _BREAKS["\t"])


def shortened(text: str, most: int = 2000) -> str:
    """What is longer loses its middle: the place stands in front of a line, the remedy at its end."""
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} … {text[-(most // 4) :]}"


def for_a_shell(place: str) -> str:
    """A path or name as one word of a command, and no option of it."""
    return shlex.quote(f"./{place}" if place.startswith("-") else place)


def _code(match: "re.Match[str]") -> str:
    number = ord(match.group())
    if match.group() == "\r":
        return "\\r"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


class LogLines(logging.Formatter):
    """A line for each record; a traceback has the lines of its own that it needs."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name for it
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(  # noqa: N802  # logging's name for it
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return visible(super().formatException(ei))
