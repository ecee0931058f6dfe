"""A run's journals, and their lines. A killed writer tears its last line, and no other.

Any other unreadable line was damaged afterwards, and its contents are unknown.
"""

from pathlib import Path

import msgspec

from harness.history.journals.journal import CONTROLLER_ROWS, Line

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
