"""The last lines of a node's log, for error messages, or the one that says why it ended."""

import re
from pathlib import Path

from harness.cluster import node_files
from harness.errors import HarnessError

_LINES = 5
_LINE_CHARACTERS = 300
_READ_BYTES = 65_536
_CAUSE = re.compile(r"Caused by: (.+)")
# Of Java and of Python, alone on its line or behind the name of its thread.
_EXCEPTION = re.compile(r"(?:Exception in thread \"[^\"]*\" )?((?:[\w$]+\.)*[\w$]*(?:Exception|Error|Exit)(?:: .+)?)")
_SERIOUS = re.compile(r"\b(?:ERROR|FATAL)\b")


def last_lines(log: Path) -> list[str]:
    """Returns the last few non-empty lines; none if there is no log."""
    return _end_of(log)[-_LINES:]


def reason_in(log: Path) -> str:
    """The line of a log that says why its writer ended: the innermost cause, else the exception, else the last serious
    line, else the last one. Empty if there is no log."""
    lines = [line.strip() for line in _end_of(log)]
    causes = [match[1] for line in lines if (match := _CAUSE.fullmatch(line))]
    exceptions = [match[1] for line in lines if (match := _EXCEPTION.fullmatch(line))]
    serious = [line for line in lines if _SERIOUS.search(line)]
    return next((found[-1] for found in (causes, exceptions, serious, lines) if found), "")


def _end_of(log: Path) -> list[str]:
    try:
        text = node_files.read_end(log, _READ_BYTES).decode(errors="replace")
    except (OSError, HarnessError):
        return []
    return [line.rstrip()[:_LINE_CHARACTERS] for line in text.splitlines() if line.strip()]
