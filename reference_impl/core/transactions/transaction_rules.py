"""The safety decisions of a transaction coordinator, each a small pure function, held in one frozen value.

As in core/rules.py: a planted flaw replaces one of these functions. R74 means a rule of docs/replication.md.
"""

from collections.abc import Callable
from dataclasses import dataclass


def newest_epoch_only(epoch: int, current_epoch: int) -> bool:
    """R73: a producer that has a successor is fenced."""
    return epoch == current_epoch


def end_when_replicated(is_replicated: bool) -> bool:
    """R74: an end is answered when its decision is replicated."""
    return is_replicated


def as_it_was_decided(is_commit: bool, number: int, count: int) -> bool:
    """R74: every partition gets the marker that was decided; this is the one with that number, of so many."""
    assert 0 <= number < count
    return is_commit


def write_what_is_prepared() -> bool:
    """R76: a new coordinator writes the markers of what it finds decided."""
    return True


def fence_who_was_late() -> bool:
    """R75: what timed out is aborted under the next epoch."""
    return True


@dataclass(frozen=True, kw_only=True)
class TransactionRules:
    is_current: Callable[[int, int], bool] = newest_epoch_only
    answers_end: Callable[[bool], bool] = end_when_replicated  # asked after the append, and when it is replicated
    result_in: Callable[[bool, int, int], bool] = as_it_was_decided
    resumes_markers: Callable[[], bool] = write_what_is_prepared
    fences_late: Callable[[], bool] = fence_who_was_late
