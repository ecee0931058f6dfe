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


def ask_where_it_is_set(is_set: bool) -> bool:
    """R86: a coordinator is asked before its transaction's first record in a partition is appended."""
    return is_set


@dataclass(frozen=True, kw_only=True)
class ProducerRules:
    fences_producer: Callable[[int, int], bool] = older_than_known
    fences_coordinator: Callable[[int, int], bool] = older_than_known
    lists_aborted: Callable[[], bool] = list_every_aborted
    asks_coordinator: Callable[[bool], bool] = ask_where_it_is_set  # by transaction.partition.verification.enable
