"""The safety decisions of a transaction coordinator, each a small pure function, held in one frozen value.

As in core/rules.py: a planted flaw replaces one of these functions. R74 means a rule of docs/replication.md.
"""

from collections.abc import Callable
from dataclasses import dataclass


def current_epoch_only(epoch: int, known_epoch: int) -> bool:
    """R73: a producer that has a successor neither adds to a transaction nor ends one."""
    return epoch == known_epoch


def when_prepared_is_replicated(is_replicated: bool) -> bool:
    """R74: the end is answered when its Prepare record is replicated: whoever coordinates then ends it so."""
    return is_replicated


def resume_what_is_prepared(has_markers_left: bool) -> bool:
    """R76: a new coordinator writes the markers of every transaction that it finds prepared."""
    return has_markers_left


def over_after_its_timeout(open_for_ms: int, timeout_ms: int) -> bool:
    """R75: a transaction that stays open for longer is aborted."""
    return open_for_ms > timeout_ms


def load_from_log_start(log_start_offset: int, active_segment_offset: int) -> int:
    """R76: a new coordinator reads its partition from the beginning."""
    assert log_start_offset <= active_segment_offset
    return log_start_offset


@dataclass(frozen=True, kw_only=True)
class TransactionRules:
    admits_epoch: Callable[[int, int], bool] = current_epoch_only
    answers_end: Callable[[bool], bool] = when_prepared_is_replicated  # asked after the append, and when replicated
    resumes: Callable[[bool], bool] = resume_what_is_prepared
    is_over: Callable[[int, int], bool] = over_after_its_timeout
    loads_from: Callable[[int, int], int] = load_from_log_start
