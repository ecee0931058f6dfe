"""What a check says against something, for tests that want it to say nothing."""

from collections.abc import Callable

from harness.errors import HarnessError


def refused_by(check: Callable[[], object]) -> str | None:
    """The line with which it refuses; None if it does not."""
    try:
        check()
    except HarnessError as refusal:
        return str(refusal)
    return None
