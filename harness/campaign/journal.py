"""The journal of a campaign: what was begun, ended and judged, so that a later start goes on where this one stopped.

A line is on the disk before anything is built upon it. The last line may be torn by a kill or a power cut; it is
left out, and that step is done again. Any other line that cannot be read is an error.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from harness.campaign.rows import RunJudged
from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.history.schema.texts import check_values
from harness.host import memory

NAME = "journal.jsonl"


class Begun(msgspec.Struct, tag="begun", frozen=True, kw_only=True):
    number: int
    attempt: int
    at: str


class Ended(msgspec.Struct, tag="ended", frozen=True, kw_only=True):
    """folder: the run folder, below the campaign's; "" where there is none, and `error` says why."""

    number: int
    folder: str
    error: str
    took_s: float


class JudgedLine(msgspec.Struct, tag="judged", frozen=True, kw_only=True):
    run: RunJudged


class Finished(msgspec.Struct, tag="finished", frozen=True, kw_only=True):
    """Nothing is left to do: the next start of the same plan is another campaign."""

    at: str


Line = Begun | Ended | JudgedLine | Finished
_ENCODER = msgspec.json.Encoder()
_TIMES_AS_LARGE = 8  # a journal that was read, as its text is


@dataclass(kw_only=True)
class State:
    """What the journal says. ended: runs that wait for their verdict; attempts: how often each was begun."""

    attempts: dict[int, int] = field(default_factory=dict)
    ended: dict[int, Ended] = field(default_factory=dict)
    judged: dict[int, RunJudged] = field(default_factory=dict)
    finished: bool = False

    def take(self, line: Line) -> None:
        match line:
            case Begun():
                self.attempts[line.number] = line.attempt
            case Ended():
                self.ended[line.number] = line
            case JudgedLine():
                self.ended.pop(line.run.number, None)
                self.judged[line.run.number] = line.run
            case Finished():
                self.finished = True

    def is_open(self, number: int) -> bool:
        """Whether the run is still to be done: one that was begun and never ended was killed."""
        return number not in self.ended and number not in self.judged


def read_state(files: FilesBelow) -> State:
    """Of a journal that somebody else may have written. Raises FileNotFoundError, HarnessError."""
    place = str(files.top / NAME)
    with files.open(NAME) as file:
        memory.check(place, _TIMES_AS_LARGE * os.fstat(file.fileno()).st_size)
        return state_of(file.read(), place=place)


class Journal:
    """Appends to the journal in a campaign's folder and knows what it says. One process at a time."""

    def __init__(self, files: FilesBelow) -> None:
        """Raises HarnessError where a line cannot be read that is not the last."""
        self._place = files.top / NAME
        try:
            content = files.read(NAME)
        except FileNotFoundError:
            content = b""
        self.state = state_of(content, place=str(self._place))
        self._file = files.append(NAME)
        if content and not content.endswith(b"\n"):
            self._file.truncate(content.rfind(b"\n") + 1)

    def write(self, line: Line) -> None:
        """Returns when the line is on the disk. Raises HarnessError."""
        try:
            self._file.write(_ENCODER.encode(line) + b"\n")
            os.fsync(self._file.fileno())
        except OSError as error:
            raise HarnessError(
                f"{self._place}: cannot be written: {error.strerror}; the campaign stops here"
            ) from error
        self.state.take(line)

    def close(self) -> None:
        self._file.close()


def state_of(content: bytes, *, place: str) -> State:
    """Raises HarnessError."""
    state = State()
    lines = content.split(b"\n")
    for number, text in enumerate(lines[:-1], 1):  # after the last line's end there is nothing, or a torn line
        try:
            value = msgspec.json.decode(text)
            check_values(value)
            state.take(msgspec.convert(value, Line))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise HarnessError(f"{place}:{number}: no line of a campaign ({error}); name another --runs") from error
    return state


def encoded(lines: Iterable[Line]) -> bytes:
    """The journal that holds these lines."""
    return b"".join(_ENCODER.encode(line) + b"\n" for line in lines)
