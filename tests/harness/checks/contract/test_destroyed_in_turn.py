"""Copies destroyed one after the other: whether each was gone when the last one was, or may have been there again."""

from dataclasses import replace

import pytest

from tests.harness.checks.contract.test_survival import LOG, fate, ruled
from tests.harness.checks.histories.build import History


def both_disks_lost(*, ended_at: float | None, seen_at: float | None = None, rejoined: bool = False) -> History:
    """Brokers 1 and 2 are in sync. Broker 2's disk is lost at 5 s, broker 1's at 10 s; broker 1 leads without records.

    ended_at: when broker 2 ran again. seen_at: its log is read with the record. rejoined: it left the ISR in between.
    """
    history = History().state(1, 0, (1, 2), at=0, start=0)
    history.fault("wipe", [2], at=5, until=ended_at)
    if rejoined:
        history.state(1, 0, (1,), at=6)
        history.state(1, 0, (1, 2), at=8)
    if seen_at is not None:
        history.snapshot(2, LOG, at=seen_at, reason="heal", epochs="0:0")
    history.fault("wipe", [1], at=10, until=12)
    return history.state(1, 1, (1, 2), at=14, start=0)


@pytest.mark.parametrize(
    ("ended_at", "seen_at", "rejoined", "expected"),
    [
        (None, None, False, "permitted"),  # it never ran again
        (11.0, None, False, "permitted"),  # it ran again too late to fetch the record
        (6.0, None, False, "observation"),  # it may have fetched it again before the last copy went
        (6.0, 7.0, False, "violation"),  # it had it again
        (6.0, 4.0, False, "observation"),  # it had it before its disk was lost: that says nothing
        (6.0, None, True, "violation"),  # who joins the ISR again has every record of it again
        (11.0, 12.0, False, "violation"),  # it has it though its disk was emptied: something is wrong, and no excuse
    ],
)
def test_the_last_copy_is_the_last_only_if_the_others_were_not_there_again(
    ended_at: float | None, seen_at: float | None, rejoined: bool, expected: str
) -> None:
    history = both_disks_lost(ended_at=ended_at, seen_at=seen_at, rejoined=rejoined)
    assert ruled(history, fate(history, 4)).classification == expected


@pytest.mark.parametrize(("led_by_1", "expected"), [(False, "permitted"), (True, "observation")])
def test_nobody_fetches_a_record_again_from_himself(led_by_1: bool, expected: str) -> None:
    """Broker 2 leads, loses its disk and runs again, and then broker 1's is lost, which may have led in between."""
    history = History().state(2, 0, (1, 2), at=0, start=0)
    history.fault("wipe", [2], at=5, until=6)
    if led_by_1:
        history.state(1, 1, (1, 2), at=7)
    history.fault("wipe", [1], at=10, until=12)
    history.state(2, 2, (1, 2), at=14, start=0)
    assert ruled(history, fate(history, 4)).classification == expected


def test_a_disk_that_was_lost_before_the_record_was_acknowledged_took_nothing() -> None:
    history = both_disks_lost(ended_at=None)
    assert ruled(history, fate(history, 4, at=4)).classification == "permitted"
    assert ruled(history, fate(history, 4, at=6)).classification == "violation"


@pytest.mark.parametrize(("overwritten", "expected"), [(True, "violation"), (False, "permitted")])
def test_a_disk_took_no_record_whose_place_held_another_of_its_epoch_before(overwritten: bool, expected: str) -> None:
    history = History().state(1, 0, (1,), at=0, start=0)
    history.snapshot(1, LOG, at=3, reason="heal", epochs="0:0")
    if overwritten:
        history.snapshot(1, [(offset, 0, 50 + offset) for offset in range(10)], at=7, reason="kill", epochs="0:0")
    history.fault("wipe", [1], at=8, until=9)
    history.state(1, 2, (1,), at=14, start=0)
    assert ruled(history, fate(history, 4)).classification == expected


@pytest.mark.parametrize(("led_meanwhile", "expected"), [(True, "observation"), (False, "permitted")])
def test_a_damage_that_was_found_when_another_led_already_may_not_be_what_took_the_record(
    led_meanwhile: bool, expected: str
) -> None:
    """Epochs were not told. Broker 1's batch was damaged at 5 s; it cut its log there at 12 s."""
    history = History().state(1, -1, (1,), at=0)
    history.damage(1, 4, 6, at=5)
    if led_meanwhile:
        history.state(2, -1, (2,), at=8)
    history.truncation(1, 4, 10, epoch=-1, at=12)
    assert ruled(history, replace(fate(history, 8), epoch=None)).classification == expected
