"""Planted flaws of logs on disk: what a start believes, and what a flush keeps."""

from dataclasses import replace

from reference_impl.core.planted.flaw import Flaw, of_storage


def _always_clean(is_there: bool) -> bool:
    return True


def _verify_nothing(is_clean: bool, holds_unflushed: bool) -> bool:
    return False


def _never() -> bool:
    return False


def _up_to_the_end(recovery_point: int, log_end_offset: int) -> int:
    return log_end_offset


STORAGE = (
    Flaw(
        name="every-stop-is-clean",
        part="storage",
        origin="M100, KAFKA-15375",
        description="a start takes every stop for a clean one",
        apply=of_storage(lambda storage: replace(storage, is_clean=_always_clean)),
    ),
    Flaw(
        name="recovery-point-with-append",
        part="storage",
        origin="M101, KAFKA-10101",
        description="the recovery point moves with each append, flushed or not",
        apply=of_storage(lambda storage: replace(storage, recovery_point_after_append=_up_to_the_end)),
    ),
    Flaw(
        name="damaged-batches-taken",
        part="storage",
        origin="M102, hazard",
        description="neither a start nor a follower checks the CRC of a batch",
        apply=of_storage(lambda storage: replace(storage, verifies=_verify_nothing, verifies_fetched=_never)),
    ),
    Flaw(
        name="flush-without-sync",
        part="storage",
        origin="M113, hazard",
        description="a flush syncs nothing",
        apply=of_storage(lambda storage: replace(storage, syncs=_never)),
    ),
)
