"""The safety decisions on producers and their transactions in a log, each a small pure function, in one frozen value.

As in core/rules.py: a planted flaw replaces one of these functions. R45 means a rule of docs/replication.md.
"""

from collections.abc import Callable
from dataclasses import dataclass


def older_than_known(epoch: int, known_epoch: int) -> bool:
    """R45, R70: a producer, or a coordinator, that has a successor changes nothing."""
    return epoch < known_epoch


def list_every_aborted() -> bool:
    """R69: a reader of committed records is told of each aborted transaction in what it gets."""
    return True


def every_cached(number_from_last: int) -> bool:
    """R45: a repeated batch is looked for among all that are remembered; the last one has number 0."""
    assert number_from_last >= 0
    return True


def next_in_sequence(sequence: int, expected_sequence: int) -> bool:
    """R45: a gap means that a batch before this one is missing."""
    return sequence == expected_sequence


def wait_as_for_the_first(required_offset: int) -> int:
    """R46: a repeated batch is acknowledged when it is committed, as its first copy."""
    return required_offset


def inherit_all() -> bool:
    """R46: a leader knows of producers what the leaders before it appended."""
    return True


def forget_with_the_cut() -> bool:
    """R47: a batch that was cut away is not there, so that its retry is none."""
    return True


def idle_for_longer(idle_ms: float, expiration_ms: int) -> bool:
    """R47."""
    return idle_ms > expiration_ms


def verify_if_set(is_set: bool) -> bool:
    """R86, KIP-890: what comes behind the marker of its transaction must not open another one."""
    return is_set


@dataclass(frozen=True, kw_only=True)
class ProducerRules:
    fences_producer: Callable[[int, int], bool] = older_than_known
    fences_coordinator: Callable[[int, int], bool] = older_than_known
    looks_for_repeated: Callable[[int], bool] = every_cached
    follows: Callable[[int, int], bool] = next_in_sequence
    repeated_waits_for: Callable[[int], int] = wait_as_for_the_first
    inherits: Callable[[], bool] = inherit_all  # asked when a leader's term begins
    forgets_what_was_cut: Callable[[], bool] = forget_with_the_cut
    is_idle: Callable[[float, int], bool] = idle_for_longer
    verifies: Callable[[bool], bool] = verify_if_set  # by transaction.partition.verification.enable
    lists_aborted: Callable[[], bool] = list_every_aborted
