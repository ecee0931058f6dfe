"""A leader gives each offset of its epoch once: what was sent later, and stands at a record's place or below in its
epoch, shows that the record had been cut by then, unless a deposed leader wrote it."""

from dataclasses import replace
from typing import Any

import pytest

from harness.checks.contract.rulings import Ruling
from harness.checks.model.lost_records import Rewrite
from harness.checks.rewrites import Rewrites
from harness.checks.spark.detection import Copy, Flagged
from tests.harness.checks.contract.test_survival import LOG, fate, ruled
from tests.harness.checks.histories.build import SECOND, History


def written_anew(sent_s: float, seen_s: float, *, epoch: int = 0) -> tuple[Rewrite, ...]:
    return (Rewrite(epoch=epoch, sent_ns=int(sent_s * SECOND), seen_ns=int(seen_s * SECOND)),)


def failed_over(*, killed_at: float | None = None, started_at: float | None = None) -> History:
    """At 8 s broker 2 takes over with a log that ends at 4."""
    history = History().state(1, 0, (1, 2), at=0, start=0)
    if killed_at is not None:
        history.fault("kill", [1], at=killed_at, until=20)
    if started_at is not None:
        history.started(1, at=started_at)
    return history.state(2, 1, (2,), at=8, start=4)


@pytest.mark.parametrize(
    ("sent_s", "seen_s", "ended", "expected"),
    [
        (4, 5, {}, "violation"),
        (9, 10, {}, "permitted"),  # by a deposed leader
        (7, 10, {}, "observation"),  # by one that led still, or by a deposed one
        (7, 10, {"killed_at": 7.5}, "violation"),  # it led still: it was down before anybody was elected
        (7, 10, {"started_at": 7.5}, "violation"),
        (7, 10, {"killed_at": 6.5}, "observation"),
    ],
)
def test_what_was_written_anew_within_its_epoch_no_later_election_cost(
    sent_s: float, seen_s: float, ended: dict[str, float], expected: str
) -> None:
    lost = replace(fate(failed_over(), 8, acks=1), rewritten=written_anew(sent_s, seen_s))
    assert ruled(failed_over(**ended), lost).classification == expected


def test_states_that_were_only_polled_do_not_tell_who_led() -> None:
    history = failed_over()
    for row in history.rows["partition_states"]:
        row["exact"] = False
    lost = replace(fate(history, 8, acks=1), rewritten=written_anew(4, 5))
    assert ruled(history, lost).classification == "observation"


@pytest.mark.parametrize(("epoch", "expected"), [(0, "violation"), (1, "permitted")])
def test_where_only_one_leader_can_have_answered_its_epoch_is_known(epoch: int, expected: str) -> None:
    history = failed_over()
    lost = replace(fate(history, 8, acks=1), epoch=None, t_sent=int(1.9 * SECOND))
    assert ruled(history, replace(lost, rewritten=written_anew(4, 5, epoch=epoch))).classification == expected


def both_lose_their_power() -> Ruling:
    history = History().state(1, 0, (1, 2), at=0, start=0)
    history.fault("wipe", [1], at=6, until=8)
    history.fault("wipe", [2], at=6, until=9)
    history.state(1, 1, (1,), at=8, start=0)
    return ruled(history, replace(fate(history, 8), rewritten=written_anew(4, 12)))


def test_nor_did_the_disks_that_were_lost_afterwards() -> None:
    assert both_lose_their_power().classification == "violation"


@pytest.mark.parametrize(("begun_at", "expected"), [(8.5, "violation"), (13, "permitted")])
def test_what_a_leader_cut_after_it_had_begun_it_had_when_it_took_over(begun_at: float, expected: str) -> None:
    """Before that it may have cut it as a follower, by the word of somebody before it."""
    history = History()
    history.state(1, 0, (1, 2), at=0, start=0)
    history.state(2, 1, (2,), at=8, start=10)
    history.rows["broker_events"][-1]["time_ns"] = int(begun_at * SECOND)
    history.truncation(2, 5, 10, epoch=None, at=12)
    history.snapshot(2, LOG[5:], at=12, reason="truncation")
    history.truncation(3, 5, 10, epoch=1, at=14)
    assert ruled(history, fate(history, 8, acks=1)).classification == expected


# ---- which they are --------------------------------------------------------------------------------------------------


def row_of(value: int, offset: int, *, sent_s: float, answered_s: float, epoch: int | None = 0, **more: Any) -> Flagged:
    columns: dict[str, Any] = {
        "status": 0,
        "acks": 1,
        "acknowledged": offset,
        "process": 0,
        "operation": value,
        "seen": 0,
        "seen_any": 0,
        "final_offsets": 0,
        "read_first": None,
        "read_last": None,
        "step": None,
        "flags": frozenset({"conflict"}),
        "held": frozenset(),
        "held_at_end": frozenset(),
        "copies": frozenset(),
        "others": frozenset(),
        "below_acks_all": False,
        "answered": True,
    }
    return Flagged(
        run=0,
        partition_id=0,
        value=value,
        offset=offset,
        read_epoch=epoch,
        invoked_ns=int(sent_s * SECOND),
        completed_ns=int(answered_s * SECOND),
        **(columns | more),
    )


FIRST = [row_of(offset, offset, sent_s=1 + offset / 10, answered_s=1.05 + offset / 10) for offset in range(10)]
AGAIN = [row_of(20 + offset, offset, sent_s=3 + offset / 10, answered_s=3.05 + offset / 10) for offset in range(5, 9)]


@pytest.mark.parametrize(("offset", "sent_s"), [(4, []), (5, [3.5]), (9, [3.5]), (7, [3.5, 3.7])])
def test_the_first_that_was_written_anew_counts_and_what_stands_at_its_own_place(
    offset: int, sent_s: list[float]
) -> None:
    found = Rewrites([*FIRST, *AGAIN]).of(FIRST[offset], 0)
    assert [each.sent_ns for each in found] == [int(t * SECOND) for t in sent_s]


def test_also_below_records_of_which_nobody_knows_the_epoch() -> None:
    unknown = [replace(row, read_epoch=None) for row in FIRST]
    assert Rewrites([*unknown, *AGAIN]).of(unknown[9], None)


@pytest.mark.parametrize(
    "row",
    [
        replace(FIRST[8], read_last=4 * SECOND),  # it was read afterwards
        replace(FIRST[8], tries=2),  # an application sent it again
        replace(FIRST[8], read_epoch=1),
    ],
)
def test_what_may_have_been_written_after_that_is_not_below_it(row: Flagged) -> None:
    assert not Rewrites([*FIRST, *AGAIN]).of(row, row.epoch)


def test_of_a_record_that_was_seen_in_two_epochs_nobody_knows_which_was_written_when() -> None:
    twice = [replace(row, copies=frozenset({Copy(node=1, snapshot=0, epoch=1)})) for row in AGAIN]
    assert not Rewrites([*FIRST, *twice]).of(FIRST[8], 0)


def test_of_a_log_that_is_written_anew_all_the_time_the_first_times_are_enough() -> None:
    rows = [row_of(value, 5, sent_s=value, answered_s=value + 0.5) for value in range(5_000)]
    assert 100 <= len(Rewrites(rows).of(rows[0], 0)) <= 200
