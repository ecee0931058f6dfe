"""Planted flaws of idempotent producers: repeated batches, gaps, and what a log knows of who wrote it."""

from dataclasses import replace

from reference_impl.core.planted.flaw import Flaw, of_producers


def _never_look(number_from_last: int) -> bool:
    return False


def _the_last_alone(number_from_last: int) -> bool:
    return number_from_last == 0


def _anything_follows(sequence: int, expected_sequence: int) -> bool:
    return True


def _never() -> bool:
    return False


def _for_nothing(required_offset: int) -> int:
    return 0


def _always_idle(idle_ms: float, expiration_ms: int) -> bool:
    return True


PRODUCERS = (
    Flaw(
        name="no-duplicate-detection",
        part="producers",
        origin="M60, KIP-98",
        description="a batch that a producer repeats is appended again",
        apply=of_producers(
            lambda producers: replace(producers, looks_for_repeated=_never_look, follows=_anything_follows)
        ),
    ),
    Flaw(
        name="new-leaders-know-no-producers",
        part="producers",
        origin="M61, hazard",
        description="a new leader knows nothing of the producers of its log",
        apply=of_producers(lambda producers: replace(producers, inherits=_never)),
    ),
    Flaw(
        name="one-batch-remembered",
        part="producers",
        origin="M62, KAFKA-5494",
        description="of a producer only the last batch is remembered, and no gap is seen",
        apply=of_producers(
            lambda producers: replace(producers, looks_for_repeated=_the_last_alone, follows=_anything_follows)
        ),
    ),
    Flaw(
        name="gaps-in-sequence",
        part="producers",
        origin="M63, hazard",
        description="a batch is taken though one before it is missing",
        apply=of_producers(lambda producers: replace(producers, follows=_anything_follows)),
    ),
    Flaw(
        name="producers-outlive-their-cut",
        part="producers",
        origin="M64, hazard",
        description="what was cut from a log is still known of its producers",
        apply=of_producers(lambda producers: replace(producers, forgets_what_was_cut=_never)),
    ),
    Flaw(
        name="repeated-acknowledged-at-once",
        part="producers",
        origin="M65, hazard",
        description="a repeated batch is acknowledged, committed or not",
        apply=of_producers(lambda producers: replace(producers, repeated_waits_for=_for_nothing)),
    ),
    Flaw(
        name="producers-expire-at-once",
        part="producers",
        origin="M67, KAFKA-7298",
        description="what is known of producers is forgotten at the next look",
        apply=of_producers(lambda producers: replace(producers, is_idle=_always_idle)),
    ),
)
