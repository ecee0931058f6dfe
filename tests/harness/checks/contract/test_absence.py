"""What shows that a record was gone, or that it was committed, and what leaves that open."""

from dataclasses import replace

import pytest

from harness.checks.contract.absence import Absence
from harness.checks.contract.rulings import Ruling
from harness.checks.contract.timeline import Known
from harness.checks.spark.detection import Copy
from tests.harness.checks.contract.test_survival import LOG, fate, partition_of, ruled
from tests.harness.checks.histories.build import SECOND, History

LACKS_IT = LOG[:5]


def gone_from_its_leader(*, in_sync: bool = True) -> History:
    """Broker 1's log is read without records 5 to 9 while it leads, with broker 2 in sync or not: the story before."""
    return History().unclean_config("true").state(1, 0, (1, 2) if in_sync else (1,), at=0, start=0)


def then_elected_uncleanly(history: History) -> Ruling:
    history.snapshot(1, LACKS_IT, at=5, reason="heal", epochs="0:0")
    history.state(3, 1, (3,), at=8, start=4)
    return ruled(history, fate(history, 8))


def test_what_its_leaders_log_lacked_no_later_election_cost() -> None:
    ruling = then_elected_uncleanly(gone_from_its_leader())
    assert (ruling.classification, ruling.election) == ("violation", None)


@pytest.mark.parametrize(
    ("in_sync", "seen_at", "expected"),
    [
        (True, 12, "permitted"),  # it had it still, and might have been elected
        (False, 12, "violation"),  # it could not have been elected cleanly
        (True, 4, "observation"),  # nobody knows whether it had it until then
    ],
)
def test_unless_a_replica_in_sync_had_it_still_when_the_next_leader_was_elected(
    in_sync: bool, seen_at: float, expected: str
) -> None:
    history = gone_from_its_leader(in_sync=in_sync).snapshot(2, LOG, at=seen_at, reason="heal", epochs="0:0")
    assert then_elected_uncleanly(history).classification == expected


@pytest.mark.parametrize(
    ("cut_at", "cut_to", "expected"),
    [(6, 5, "violation"), (4, 5, "violation"), (6, 9, "observation"), (9, 5, "observation")],
)
def test_a_replica_that_cut_it_before_that_election_had_it_no_more(cut_at: float, cut_to: int, expected: str) -> None:
    history = gone_from_its_leader().snapshot(2, LOG, at=4, reason="heal", epochs="0:0")
    history.truncation(2, cut_to, 10, epoch=0, at=cut_at)
    assert then_elected_uncleanly(history).classification == expected


@pytest.mark.parametrize(("wiped", "expected"), [(1, "permitted"), (3, "violation")])
def test_a_log_whose_disk_was_lost_does_not_tell_that_the_record_was_gone(wiped: int, expected: str) -> None:
    history = gone_from_its_leader().fault("wipe", [wiped], at=3, until=4)
    assert then_elected_uncleanly(history).classification == expected


@pytest.mark.parametrize(("acknowledged_at", "expected"), [(6, "permitted"), (4, "violation")])
def test_what_had_the_offset_in_the_same_epoch_and_was_cut_before_it_shows_nothing_of_it(
    acknowledged_at: float, expected: str
) -> None:
    """A leader drops what it wrote, writes there again, and loses its office; no log has the later one."""
    history = History().state(1, 0, (1, 2), at=0, start=0)
    history.snapshot(1, LOG, at=5, reason="heal", epochs="0:0")
    history.state(2, 1, (2,), at=8, start=4)
    lost = fate(history, 8, acks=1, at=acknowledged_at)
    another = replace(lost, copies=frozenset(), others=frozenset({Copy(node=1, snapshot=0, epoch=0)}))
    assert ruled(history, another).classification == expected


@pytest.mark.parametrize(("cut_at", "expected"), [(6.5, "violation"), (7.8, "observation"), (9.5, "permitted")])
def test_a_leaders_cut_of_which_nobody_knows_whether_the_next_was_elected_by_then_leaves_it_open(
    cut_at: float, expected: str
) -> None:
    history = History().unclean_config("true")
    history.state(1, 0, (1,), at=0, start=0)
    history.truncation(1, 5, 10, epoch=None, at=cut_at)
    history.state(3, 1, (3,), at=8, start=7)
    history.rows["partition_states"][-1]["uncertainty_ns"] = SECOND
    lost = replace(fate(history, 8), in_a_log=True)
    assert ruled(history, lost).classification == expected


def failed_over_near_a_mark(
    *, mark: int = 9, at: float, acks: int = 1, unclean: bool = False, again: bool = False
) -> Ruling:
    """Leaders change at 8 s, known to within a second; broker 1 wrote a high watermark down about then.

    again: they change once more at 14 s, as uncertainly.
    """
    history = History()
    if unclean:
        history.unclean_config("true")
    history.state(1, 0, (1, 2), at=0, start=0)
    history.wrote_down(1, mark, at=at)
    history.snapshot(1, LOG, at=6, reason="kill", epochs="0:0")
    history.state(3 if unclean else 2, 1, (2, 3), at=8, start=7)
    if again:
        history.state(3, 2, (3,), at=14, start=7)
    for row in history.rows["partition_states"][1:]:
        row["uncertainty_ns"] = SECOND
    return ruled(history, fate(history, 8, acks=acks))


@pytest.mark.parametrize("acks", [0, 1])
def test_a_mark_of_which_nobody_knows_whose_reign_it_is_of_leaves_open_whether_it_was_committed(acks: int) -> None:
    ruling = failed_over_near_a_mark(at=7.5, acks=acks)
    assert ruling.classification == "observation"
    assert ruling.undecided is not None
    assert ruling.undecided.code == "may-have-been-committed"
    assert failed_over_near_a_mark(at=6.5).classification == "violation", "its own leader's, surely"
    assert failed_over_near_a_mark(at=9.5).classification == "permitted", "the next leader's, surely"


def test_such_a_mark_puts_nothing_in_doubt_that_it_cannot_change() -> None:
    assert failed_over_near_a_mark(at=7.5, mark=8).classification == "permitted", "it may end below the record"
    assert failed_over_near_a_mark(at=7.5, unclean=True).classification == "permitted", "committed or not"
    assert failed_over_near_a_mark(at=7.5, acks=-1).classification == "violation", "it was promised anyhow"
    assert failed_over_near_a_mark(at=13.5, again=True).classification == "permitted", "neither leader is its own"


@pytest.mark.parametrize(
    ("node", "to", "at", "expected"),
    [
        (2, 5, 9, "observation"),  # it is unknown what it cut, and it might have been elected
        (2, 9, 9, "violation"),  # above the record
        (1, 5, 9, "violation"),  # who had lost it already
    ],
)
def test_who_was_in_sync_and_cut_its_place_by_the_next_leaders_word_may_have_had_it_until_then(
    node: int, to: int, at: float, expected: str
) -> None:
    history = gone_from_its_leader().state(3, 1, (3,), at=8, start=4)
    history.truncation(node, to, 10, epoch=1, at=at)
    history.snapshot(1, LACKS_IT, at=5, reason="heal", epochs="0:0")
    assert ruled(history, fate(history, 8)).classification == expected


@pytest.mark.parametrize(
    ("own_epoch", "of_another", "is_gone"), [(0, 0, True), (None, 0, True), (None, None, False), (0, None, False)]
)
def test_another_record_at_its_place_tells_of_the_epoch_that_it_is_of_and_of_no_unknown_one(
    own_epoch: int | None, of_another: int | None, is_gone: bool
) -> None:
    history = History().state(1, 0, (1, 2), at=0, start=0)
    history.snapshot(3, LOG, at=5, reason="heal", epochs="0:0")
    another = frozenset({Copy(node=3, snapshot=0, epoch=of_another)})
    lost = replace(fate(history, 8, acks=1, at=4), epoch=own_epoch, copies=frozenset(), others=another)
    story = partition_of(history)
    absence = Absence(story, {log.number: log for log in story.logs})
    gone = absence.of(lost, written_in=Known(sure=0, perhaps=0), since=0, after_t=0).perhaps
    assert (gone.epoch == 0) == is_gone
