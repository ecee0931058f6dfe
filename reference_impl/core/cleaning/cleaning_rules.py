"""The safety decisions of the log cleaner, each a small pure function, held in one frozen value.

As in core/rules.py: a planted flaw replaces one of these functions. R79 means a rule of docs/replication.md.
"""

from collections.abc import Callable
from dataclasses import dataclass


def clean_stable_only(last_stable_offset: int, active_segment_offset: int) -> int:
    """R79, KAFKA-13194: what is not committed, or of an open transaction, is not cleaned, nor the active segment."""
    assert last_stable_offset >= 0
    assert active_segment_offset >= 0
    return min(last_stable_offset, active_segment_offset)


def note_later(known_offset: int | None, offset: int) -> int:
    """R80: the offsets map has the last record of each key."""
    return offset


def no_later_of_its_key(offset: int, latest_offset: int | None) -> bool:
    """R81: the last record of a key stays. None: the dirty part has no record of it."""
    return latest_offset is None or offset >= latest_offset


def until_its_horizon(horizon_ms: int | None, now_ms: int) -> bool:
    """R83, KIP-534: a tombstone, or a marker of nothing, stays for delete.retention.ms after the pass that saw it
    first; a reader that lags behind would never learn of the deletion else."""
    return horizon_ms is None or now_ms < horizon_ms


def last_batch_of_its_producer(last_offset: int, producers_last_offset: int) -> bool:
    """R82, KAFKA-5490."""
    return last_offset == producers_last_offset


def where_it_was(offset: int, base_offset: int, number: int) -> int:
    """R81: an offset is a record's for good."""
    return offset


@dataclass(frozen=True, kw_only=True)
class CleaningRules:
    cleans_to: Callable[[int, int], int] = clean_stable_only
    notes: Callable[[int | None, int], int] = note_later
    is_latest: Callable[[int, int | None], bool] = no_later_of_its_key
    outlives_horizon: Callable[[int | None, int], bool] = until_its_horizon
    offset_of: Callable[[int, int, int], int] = where_it_was  # of the record with that number of those left
    keeps_for_producer: Callable[[int, int], bool] = last_batch_of_its_producer
