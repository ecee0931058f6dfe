"""The safety decisions of the controller, each a small pure function, held in one frozen value.

As in core/rules.py: a planted flaw replaces one of these functions. R31 means a rule of docs/replication.md.
"""

from collections.abc import Callable
from dataclasses import dataclass


def next_epoch(leader_epoch: int) -> int:
    """R1: each term of a leader has an epoch of its own."""
    return leader_epoch + 1


def only_if_allowed(is_allowed: bool) -> bool:
    """R34: whoever is outside the ISR may lack committed records."""
    return is_allowed


def in_sync_only(is_in_sync: bool) -> bool:
    """R35."""
    return is_in_sync


def live_and_staying(is_eligible: bool) -> bool:
    """R32."""
    return is_eligible


def same_epoch(epoch: int, known_epoch: int) -> bool:
    """R31: a proposal that starts from an older state than the controller's is void."""
    return epoch >= known_epoch


def same_incarnation(broker_epoch: int, registered_broker_epoch: int) -> bool:
    """R31, KIP-903: who fetched is a broker in one of its lives; -1: the request does not say in which."""
    return broker_epoch in (-1, registered_broker_epoch)


def another_life(broker_epoch: int, known_broker_epoch: int) -> bool:
    """R43, KAFKA-7235: a restart is a death and a birth, though nobody saw it."""
    return broker_epoch != known_broker_epoch


@dataclass(frozen=True, kw_only=True)
class ControllerRules:
    next_epoch: Callable[[int], int] = next_epoch
    elects_unclean: Callable[[bool], bool] = only_if_allowed
    may_be_preferred: Callable[[bool], bool] = in_sync_only
    may_lead: Callable[[bool], bool] = live_and_staying
    is_current: Callable[[int, int], bool] = same_epoch  # leader and partition epoch of a proposal
    may_join: Callable[[int, int], bool] = same_incarnation
    is_renewed: Callable[[int, int], bool] = another_life
