"""Three kinds of wrong, never mixed.

A bug of ours is an AssertionError. A run that could not be done is a HarnessError: one line that names the place and
the remedy. A system that misbehaves is neither: it is data, a finding.
"""

import contextlib
import difflib
import os
import traceback
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

_Error = TypeVar("_Error", bound=BaseException)

INTERRUPTED = 130  # the exit code of a command that was ended by a signal
NAME_SHOWN = 100  # characters shown of a wrong name; a longer one is not a typing error
_LINE_SHOWN = 200  # characters of a line of what somebody else's error says
_REMEDIES = {
    "what its tables hold": "seal the run again from its journals",
    "what its journals hold": "put them back as the run left them",
    "what its lines hold": "write the history as Jepsen does",
    "what its nodes left on their disks": "take an image whose broker writes Kafka's files",
    "what the broker answers": "hold it against the schemas of Kafka's messages",
}


class HarnessError(Exception):
    """The run could not be done. The message is one line for the user: what, where, and the remedy."""


class UsageError(HarnessError):
    """The user's input is wrong (a scenario key, an option, a run folder that is none); exit code 2."""


def in_a_line(error: HarnessError | OSError) -> str:
    """What the machine refused, with the file where it says so, or the error's own line."""
    if isinstance(error, HarnessError):
        return str(error)
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"


def leaves(group: BaseExceptionGroup[_Error]) -> list[_Error]:
    """What is in it, and in the groups in it."""
    found: list[_Error] = []
    for error in group.exceptions:
        found.extend(leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found


def first_line(error: BaseException) -> str:
    """Of an error of somebody else's, for a log: what follows may be a stack of another language's calls."""
    return str(error).partition("\n")[0]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where something stands that cannot be run: a line of a file, or an option. Neither: on this machine."""

    file: str = ""
    line: int = 0
    option: str = ""

    def __str__(self) -> str:
        return self.option or (f"{self.file}:{self.line}" if self.file else "")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is known beforehand against a run: where it stands, what is wrong, and what to do about it."""

    place: Place = Place()
    what: str
    remedy: str = ""  # empty where `what` says it
    of_machine: bool = False  # nothing is wrong with what was written: this machine, world or cluster cannot do it

    def __str__(self) -> str:
        text = f"{self.place}: {self.what}" if str(self.place) else self.what
        return f"{text}; {self.remedy}" if self.remedy else text


class Problems(UsageError):
    """Everything that is known beforehand against a run, or against several."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__(". ".join(str(problem) for problem in self.problems))


def nearest(name: str, known: Collection[str]) -> str:
    """The remedy for an unknown name: the nearest known one, or all of them."""
    close = difflib.get_close_matches(name[:NAME_SHOWN], list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known)) or 'none'}"


# What data that somebody else made can raise where they are read: a null, a word or a number that no run of ours has.
MISFITS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)


def in_short(error: BaseException) -> str:
    """Its type, and the first line of what it says, which others may have made long."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:_LINE_SHOWN]}"


def misfit(place: object, error: Exception, *, what: str = "what its tables hold") -> HarnessError:
    """One line for it. Which line of code stumbled stays in it, for it may be a bug of ours as well."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f", {Path(frame.filename).name} line {frame.lineno}" for frame in last)
    return HarnessError(
        f"{place}: {what} does not fit together ({in_short(error)}{where}): {_REMEDIES[what]}; "
        "if they are its own, this is a bug"
    )


def end_at_once(line: str) -> NoReturn:
    """From a signal's handler, wherever that came: nothing is unwound, and threads and native code cannot object."""
    with contextlib.suppress(OSError):  # then nobody reads it
        os.write(2, f"kafka-chaos: {line}\n".encode())
    os._exit(INTERRUPTED)
