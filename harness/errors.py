"""Three kinds of wrong, never mixed.

A bug of ours is an AssertionError. A run that could not be done is a HarnessError: one line that names the place and
the remedy. A system that misbehaves is neither: it is data, a finding.
"""

import traceback
from pathlib import Path

_SAID_MAX = 200
_REMEDIES = {
    "what its tables hold": "seal the run again from its journals",
    "what its journals hold": "put them back as the run left them",
}


class HarnessError(Exception):
    """The run could not be done. The message is one line for the user: what, where, and the remedy."""


class UsageError(HarnessError):
    """The user's input is wrong (a scenario key, an option, a run folder that is none); exit code 2."""


# What data that somebody else made can raise where they are read: a null, a word or a number that no run of ours has.
MISFITS = (
    ArithmeticError, AttributeError, LookupError, NotImplementedError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def misfit(place: object, error: Exception, *, what: str = "what its tables hold") -> HarnessError:
    """One line for it. Which line of code stumbled stays in it, for it may be a bug of ours as well."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f", {Path(frame.filename).name} line {frame.lineno}" for frame in last)
    said = (str(error).splitlines() or [""])[0][:_SAID_MAX]
    return HarnessError(
        f"{place}: {what} does not fit together ({type(error).__name__}: {said}{where}): {_REMEDIES[what]}; "
        "if they are its own, this is a bug"
    )
