"""Three kinds of wrong, never mixed.

A bug of ours is an AssertionError. A run that could not be done is a HarnessError: one line that names the place and
the remedy. A system that misbehaves is neither: it is data, a finding.
"""


class HarnessError(Exception):
    """The run could not be done. The message is one line for the user: what, where, and the remedy."""


class UsageError(HarnessError):
    """The user's input is wrong (a scenario key, an option, a run folder that is none); exit code 2."""
