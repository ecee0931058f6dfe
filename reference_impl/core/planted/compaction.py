"""Planted flaws of the log cleaner."""

from dataclasses import replace

from reference_impl.core.planted.flaw import Flaw, of_cleaning


def _clean_to_the_active_segment(last_stable_offset: int, active_segment_offset: int) -> int:
    return active_segment_offset


def _note_earlier(known_offset: int | None, offset: int) -> int:
    return offset if known_offset is None else known_offset


def _no_earlier_of_its_key(offset: int, latest_offset: int | None) -> bool:
    return latest_offset is None or offset <= latest_offset


def _gone_at_once(horizon_ms: int | None, now_ms: int) -> bool:
    return False


def _numbered_anew(offset: int, base_offset: int, number: int) -> int:
    return base_offset + number


def _of_no_producer(last_offset: int, producers_last_offset: int) -> bool:
    return False


COMPACTION = (
    Flaw(
        name="clean-beyond-stable",
        part="compaction",
        origin="M104, KAFKA-13194",
        description="the log cleaner goes up to the active segment, committed or not",
        apply=of_cleaning(lambda cleaning: replace(cleaning, cleans_to=_clean_to_the_active_segment)),
    ),
    Flaw(
        name="tombstones-gone-at-once",
        part="compaction",
        origin="M105, hazard",
        description="the log cleaner removes tombstones and markers in the first pass that sees them",
        apply=of_cleaning(lambda cleaning: replace(cleaning, outlives_horizon=_gone_at_once)),
    ),
    Flaw(
        name="keep-first-of-a-key",
        part="compaction",
        origin="M106, hazard",
        description="of the records of a key in its dirty part the log cleaner keeps the first",
        apply=of_cleaning(lambda cleaning: replace(cleaning, notes=_note_earlier, is_latest=_no_earlier_of_its_key)),
    ),
    Flaw(
        name="compaction-renumbers",
        part="compaction",
        origin="M107, hazard",
        description="what the log cleaner leaves of a batch gets the offsets from its beginning on",
        apply=of_cleaning(lambda cleaning: replace(cleaning, offset_of=_numbered_anew)),
    ),
    Flaw(
        name="forget-producers-in-compaction",
        part="compaction",
        origin="M108, hazard",
        description="the log cleaner removes the last batch of a producer with its records",
        apply=of_cleaning(lambda cleaning: replace(cleaning, keeps_for_producer=_of_no_producer)),
    ),
)
