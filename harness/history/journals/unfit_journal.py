"""Reports lines of a journal that our writer cannot have produced, with file and line number.

A torn last line is not one of them: it was torn when its writer was killed.
"""

from pathlib import Path

from harness.errors import HarnessError

LINE_BYTES_MAX = 64_000_000  # bytes; a poll of a million records takes half of it
# Exceptions while reading a line of valid JSON: it refers to something missing, or has an invalid number.
UNFIT = (LookupError, ValueError, OverflowError, TypeError)
_REMEDY = "no run of ours wrote this: put the file back as its run left it"
_PIECE_BYTES = 1_000_000


class JournalUnfit(HarnessError):
    """A journal has a line that our writer cannot have produced."""


def unfit_line(path: Path, position: int, text: bytes, index: int, error: BaseException) -> JournalUnfit:
    """`text` begins at `position`; `index`: of the line among its non-empty ones."""
    places = [place for place, line in enumerate(text.split(b"\n")) if line]
    return JournalUnfit(
        f"{path}:{_line_at(path, position) + places[index]}: no line of a journal ({_why(error)}); {_REMEDY}"
    )


def unfit_before(path: Path, position: int) -> JournalUnfit:
    """A line that ends at `position` is torn, but lines follow it."""
    return JournalUnfit(
        f"{path}:{_line_at(path, position) - 1}: no line of a journal (cut short, and lines follow it); {_REMEDY}"
    )


def unfit_operation(path: Path, operation: int, error: BaseException) -> JournalUnfit:
    return JournalUnfit(f"{path}: operation {operation} is none of a journal ({_why(error)}); {_REMEDY}")


def check_length(path: Path, position: int, length: int) -> None:
    if length > LINE_BYTES_MAX:
        most = f"longer than the {LINE_BYTES_MAX // 1_000_000} MB that a line may have"
        raise JournalUnfit(f"{path}:{_line_at(path, position)}: {most}; {_REMEDY}")


def _line_at(path: Path, position: int) -> int:
    """The line number, from 1."""
    line = 1
    with path.open("rb") as file:
        while position > 0 and (piece := file.read(min(position, _PIECE_BYTES))):
            line += piece.count(b"\n")
            position -= len(piece)
    return line


def _why(error: BaseException) -> str:
    return f"{error} is not known here" if isinstance(error, KeyError) else str(error)
