"""A run's journals as files: which there are, their lines, which a copy lacks, and lines that no writer of ours leaves.

A killed writer tears its last line, and no other; any other unreadable line was damaged afterwards, and its contents
are unknown. run.json has the list of journals with their lengths (`journals`), because a copied folder may lack some. A
run whose harness was killed, or an older one, has none; then the specs of the worker processes, in RUN/workers, show
which journals must exist.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from harness.errors import HarnessError
from harness.history.journals.journal import CONTROLLER_ROWS, Line
from harness.history.run_folder import RunFolder

_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def journal_paths(history: Path) -> list[Path]:
    """In the order in which a run's tables have them."""
    return sorted(path for path in history.glob("*.jsonl") if path.name != CONTROLLER_ROWS)


def read_lines(path: Path) -> list[Line]:
    return lines_in(path.read_bytes())[0]


class UnfitLine(Exception):
    """A line that our writer never produces, not even when killed. index: among the non-empty lines."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index


def lines_in(text: bytes) -> tuple[list[Line], bool]:
    """The lines, and whether a last one is left out because it is torn. Raises UnfitLine."""
    try:
        return _DECODER.decode_lines(text), False
    except (msgspec.DecodeError, RecursionError):
        lines: list[Line] = []
        texts = [line for line in text.split(b"\n") if line]
        for line in texts:
            try:
                lines.append(_DECODER.decode(line))
            except (msgspec.ValidationError, RecursionError) as error:
                raise UnfitLine(len(lines), str(error)) from error
            except msgspec.DecodeError as error:
                if len(lines) + 1 < len(texts):
                    raise UnfitLine(len(lines), f"{error}, and lines follow it") from error
        return lines, len(lines) < len(texts)


# ---- which a run opened ----------------------------------------------------------------------------------------------


_REMEDY = "put it back as the run left it, without it nothing can be judged"
_ALL_STARTED = "drain"  # the phase in which every worker has begun
_READ = "collect"  # the phase before which the final read has ended
_FINAL_READ = "final-read.jsonl"


def opened_journals(folder: RunFolder) -> dict[str, int]:
    """Their lengths in bytes by name, stored at the end of the run."""
    paths = [*journal_paths(folder.history), folder.history / CONTROLLER_ROWS]
    return {path.name: path.stat().st_size for path in paths if path.is_file()}


def check_journals(folder: RunFolder) -> None:
    """Raises HarnessError if one is missing or has another length."""
    run = folder.run
    lengths: Mapping[str, int] = run.get("journals") or {}
    for name, length in sorted(lengths.items()):
        path = folder.history / name
        if not path.exists():
            raise HarnessError(f"{path} is missing, one of the {len(lengths)} journals of the run: {_REMEDY}")
        if path.is_file() and path.stat().st_size != length:
            raise HarnessError(f"{path} has {path.stat().st_size} bytes, and had {length} at the run's end: {_REMEDY}")
    for name in [] if lengths else _expected(folder, run):
        if not (folder.history / name).exists():
            raise HarnessError(f"{folder.history / name} is missing, a journal that the run opened: {_REMEDY}")


def may_lack_their_end(folder: RunFolder) -> bool:
    """True if the lengths are unknown: then the last records sent may be missing from every journal."""
    return not folder.run.get("journals") and any(journal_paths(folder.history))


def _expected(folder: RunFolder, run: Mapping[str, object]) -> list[str]:
    phases = run.get("phases")
    entered = {phase["name"] for phase in phases} if isinstance(phases, list) else set()
    started = sorted((folder.path / "workers").glob("*.json")) if _ALL_STARTED in entered else []
    read = [_FINAL_READ] if _READ in entered else []
    return [f"{path.stem}.jsonl" for path in started] + read


# ---- lines that no writer of ours leaves -----------------------------------------------------------------------------


LINE_BYTES_MAX = 64_000_000  # bytes; a poll of a million records takes half of it
# Exceptions while reading a line of valid JSON: it refers to something missing, or has an invalid number.
UNFIT = (LookupError, ValueError, OverflowError, TypeError)
_NOT_OURS = "no run of ours wrote this: put the file back as its run left it"
_PIECE_BYTES = 1_000_000


class JournalUnfit(HarnessError):
    """A journal has a line that our writer cannot have produced."""


def unfit_line(path: Path, position: int, text: bytes, index: int, error: BaseException) -> JournalUnfit:
    """`text` begins at `position`; `index`: of the line among its non-empty ones."""
    places = [place for place, line in enumerate(text.split(b"\n")) if line]
    return JournalUnfit(
        f"{path}:{_line_at(path, position) + places[index]}: no line of a journal ({_why(error)}); {_NOT_OURS}"
    )


def unfit_before(path: Path, position: int) -> JournalUnfit:
    """A line that ends at `position` is torn, but lines follow it."""
    return JournalUnfit(
        f"{path}:{_line_at(path, position) - 1}: no line of a journal (cut short, and lines follow it); {_NOT_OURS}"
    )


def unfit_operation(path: Path, operation: int, error: BaseException) -> JournalUnfit:
    return JournalUnfit(f"{path}: operation {operation} is none of a journal ({_why(error)}); {_NOT_OURS}")


def check_length(path: Path, position: int, length: int) -> None:
    if length > LINE_BYTES_MAX:
        most = f"longer than the {LINE_BYTES_MAX // 1_000_000} MB that a line may have"
        raise JournalUnfit(f"{path}:{_line_at(path, position)}: {most}; {_NOT_OURS}")


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
