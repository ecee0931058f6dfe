"""The text of a journal as its lines. A writer that was killed tears its last line, and no other.

What cannot be read with lines behind it was damaged afterwards: nobody knows what the journal said there.
"""

from pathlib import Path

import msgspec

from harness.history.journal import Line

_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def read_lines(path: Path) -> list[Line]:
    return lines_in(path.read_bytes())[0]


class UnfitLine(Exception):
    """A line that no writer of ours leaves, not even one that was killed. index: of those that are not empty."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index


def lines_in(text: bytes) -> tuple[list[Line], bool]:
    """The lines, and whether a last one is left out because it is cut short. Raises UnfitLine."""
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
