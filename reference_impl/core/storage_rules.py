"""The safety decisions of a log on disk, each a small pure function, held in one frozen value.

As in core/rules.py: a planted flaw replaces one of these functions. R48 means a rule of docs/replication.md.
"""

from collections.abc import Callable
from dataclasses import dataclass


def believe_the_file(is_there: bool) -> bool:
    """R48: a stop was clean if the file says so."""
    return is_there


def verify_what_was_not_flushed(is_clean: bool, holds_unflushed: bool) -> bool:
    """R49: after an unclean stop the CRC of all behind the recovery point must hold."""
    return not is_clean and holds_unflushed


def verify_what_is_fetched() -> bool:
    """R22: a batch that was damaged on the way, or at the leader, is not taken."""
    return True


def sync_before_it_counts() -> bool:
    """R49: what is before the recovery point outlives a loss of power."""
    return True


def as_far_as_flushed(recovery_point: int, log_end_offset: int) -> int:
    """R49: an append moves no recovery point."""
    assert recovery_point <= log_end_offset
    return recovery_point


@dataclass(frozen=True, kw_only=True)
class StorageRules:
    is_clean: Callable[[bool], bool] = believe_the_file
    verifies: Callable[[bool, bool], bool] = verify_what_was_not_flushed
    verifies_fetched: Callable[[], bool] = verify_what_is_fetched
    syncs: Callable[[], bool] = sync_before_it_counts
    recovery_point_after_append: Callable[[int, int], int] = as_far_as_flushed
