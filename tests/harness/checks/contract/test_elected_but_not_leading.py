"""A broker that was elected and died, or lost its election again, before it began to lead: what its log shows."""

from dataclasses import replace

import pytest

from harness.checks.contract.deposed import was_down
from harness.checks.contract.rulings import Ruling
from harness.checks.contract.take_overs import TakeOvers
from harness.checks.model.elections import Election
from harness.checks.model.lost_records import LostRecord
from harness.checks.spark.detection import Copy
from tests.harness.checks.contract.test_survival import LOG, fate, partition_of, ruled
from tests.harness.checks.histories import model
from tests.harness.checks.histories.build import SECOND, History

OF_EPOCH_1 = [*LOG[:7], *((offset, 1, 100 + offset) for offset in range(7, 12))]


def elected_again_before_it_heard(*, epochs: str = "0:0") -> History:
    """Broker 1's last three records are not broker 2's, elected cleanly; broker 1 is elected once more, and follows it.

    It is read as leader of epoch 2 with these records, and cuts them as a follower of epoch 1 before it hears of that.
    """
    history = History()
    history.state(1, 0, (1, 2), at=0, start=0)
    history.state(2, 1, (1, 2), at=8, start=7)
    history.state(1, 2, (1,), at=12)
    history.snapshot(1, LOG, at=13, reason="heal", epochs=epochs)
    history.snapshot(1, LOG[7:], at=14, reason="truncation")
    history.truncation(1, 7, 10, epoch=1, at=14)
    return history.state(1, 3, (1,), at=20, start=7)


def test_what_it_still_held_before_it_began_to_lead_may_be_lost_by_the_election_before() -> None:
    history = elected_again_before_it_heard()
    ruling = ruled(history, fate(history, 8, acks=1))
    assert (ruling.classification, ruling.cause_epoch) == ("permitted", 1)


def test_what_it_held_when_it_had_begun_was_lost_later() -> None:
    history = elected_again_before_it_heard(epochs="0:0 2:10")
    assert ruled(history, fate(history, 8, acks=1)).classification == "violation"


@pytest.mark.parametrize("value", [107, 111])  # at offsets that it cut, and beyond its log's end
def test_its_cut_of_other_records_shows_that_it_never_had_those_of_the_leader_before(value: int) -> None:
    def lost(*, others_were_read: bool) -> Ruling:
        history = elected_again_before_it_heard()
        if not others_were_read:
            history.rows["replica_log"] = [row for row in history.rows["replica_log"] if row["snapshot"] != 1]
            history.rows["replica_log"] = [row for row in history.rows["replica_log"] if row["snapshot"] != 0]
        history.snapshot(2, OF_EPOCH_1, at=11, reason="kill", epochs="0:0 1:7")
        record = fate(history, value, acks=1, at=9)
        log = history.rows["replica_log"]
        at = value - 100
        record = replace(
            record,
            offset=at,
            epoch=1,
            in_a_log=True,
            copies=frozenset(Copy(*copy) for copy in model.copies(log, 0, value, at)),
            others=frozenset(Copy(*copy) for copy in model.copies_beside(log, 0, value, at)),
        )
        return ruled(history, record)

    assert lost(others_were_read=True).classification == "permitted"
    assert (lost(others_were_read=False).classification == "permitted") is (value == 111)


def reports_its_mark(history: History, node: int) -> None:
    """Whoever reports anything of its log would report a cut as well."""
    history.wrote_down(node, 5, at=5)


def elected_uncleanly_and_never_began(*, reports: bool = True, cut: bool = False, end: int = 7) -> History:
    """Broker 1 dies as the only leader; broker 2 is elected uncleanly, read with `end` records, and dies at once."""
    history = History().unclean_config("true")
    history.state(1, 0, (1, 2), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    if reports:
        reports_its_mark(history, 2)
    history.state(2, 1, (2,), at=12)
    if cut:
        history.truncation(2, 7, 10, epoch=1, at=12.5)
    history.snapshot(2, LOG[:end], at=13, reason="kill", epochs="0:0")
    return history.state(3, 2, (3,), at=20, start=5)


@pytest.mark.parametrize(
    ("reports", "cut", "end", "expected"),
    [
        (True, False, 7, "permitted"),
        (False, False, 7, "observation"),  # what it cut meanwhile, nobody would know
        (True, True, 7, "observation"),  # it may have had it when it was elected
    ],
)
def test_what_a_leader_lacked_that_died_before_it_began_to_lead_was_lost_by_its_election(
    reports: bool, cut: bool, end: int, expected: str
) -> None:
    history = elected_uncleanly_and_never_began(reports=reports, cut=cut, end=end)
    assert ruled(history, fate(history, 8)).classification == expected


def elected_cleanly_and_never_began(*, reports: bool = True) -> History:
    """Broker 1, in sync, is elected and fenced at once, read with all it had, and broker 2 is elected without it."""
    history = History().unclean_config("true")
    history.state(2, 0, (1, 2), at=0, start=0)
    history.state(2, 0, (1,), at=3)
    if reports:
        reports_its_mark(history, 1)
    history.state(1, 1, (1,), at=12)
    history.snapshot(1, LOG, at=13, reason="kill", epochs="0:0")
    history.state(2, 2, (2,), at=20, start=5)
    history.rows["partition_states"][-1]["unclean"] = True
    if reports:
        history.truncation(1, 5, 10, epoch=2, at=22)
    return history


@pytest.mark.parametrize(("reports", "expected"), [(True, "permitted"), (False, "observation")])
def test_what_it_held_after_its_election_and_cut_by_the_word_of_the_next_leader_was_lost_by_that_one(
    reports: bool, expected: str
) -> None:
    history = elected_cleanly_and_never_began(reports=reports)
    ruling = ruled(history, fate(history, 8))
    assert ruling.classification == expected
    assert not reports or ruling.cause_epoch == 2


def elected_cleanly_and_wiped(*, down: bool, seen: bool) -> History:
    """Broker 2, in sync, is elected in epoch 1, and never begins to lead: broker 3 is elected uncleanly, without 8.

    Its disk was lost before its election, while it was down for it or before it had run again; or seen: its log is
    read after its election, and only then its disk is lost.
    """
    history = History().unclean_config("true")
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1, 2), at=3)
    reports_its_mark(history, 2)
    if not seen:
        history.fault("wipe", [2], at=9, until=13 if down else 11)
        history.rows["faults"][-1]["end_asked_ns"] = int((12.9 if down else 10.9) * SECOND)
    history.state(2, 1, (2, 1), at=12)
    if seen:
        history.snapshot(2, LOG, at=14, reason="kill", epochs="0:0")
        history.fault("wipe", [2], at=15)
    history.fault("wipe", [1], at=15)
    history.state(3, 2, (3,), at=20, start=5)
    history.rows["partition_states"][-1]["unclean"] = True
    return history


@pytest.mark.parametrize("down", [True, False])
def test_the_election_of_a_wiped_broker_that_never_leads_is_not_accused_of_what_another_one_in_sync_had(
    down: bool,
) -> None:
    history = elected_cleanly_and_wiped(down=down, seen=False)
    assert ruled(history, fate(history, 8)).classification == "observation"


def test_what_it_held_after_its_election_and_lost_with_its_disk_was_not_lost_by_that_election() -> None:
    history = elected_cleanly_and_wiped(down=False, seen=True)
    ruling = ruled(history, fate(history, 8))
    assert (ruling.classification, ruling.cause_epoch) == ("permitted", 2)


@pytest.mark.parametrize(("held", "expected"), [(True, "permitted"), (False, "observation")])
def test_what_one_in_sync_held_still_was_lost_by_the_unclean_election_whatever_its_leader_had_dropped_before(
    held: bool, expected: str
) -> None:
    """Broker 2 was seen with 8, and is elected uncleanly without it; broker 1, in sync, may have it still."""
    history = History().unclean_config("true")
    history.state(1, 0, (1, 2), at=0, start=0)
    history.snapshot(2, LOG, at=5, reason="kill", epochs="0:0")
    history.state(1, 0, (1,), at=7)
    history.state(2, 1, (2,), at=12, start=5)
    history.rows["partition_states"][-1]["unclean"] = True
    if held:
        history.truncation(1, 5, 10, epoch=1, at=20)
        history.snapshot(1, LOG[5:], at=20, reason="truncation")
    assert ruled(history, fate(history, 8)).classification == expected


def elected_while_wiped() -> History:
    """The disks of brokers 1 and 2 are lost; 2 is elected while it is down, and 3 without 8, which nothing allows."""
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1, 2), at=3)
    history.fault("wipe", [2], at=9, until=13)
    history.fault("wipe", [1], at=9.5, until=40)
    history.state(2, 1, (2,), at=12)
    history.state(3, 2, (3,), at=20, start=5)
    history.rows["partition_states"][-1]["unclean"] = True
    return history


@pytest.mark.parametrize(("had", "expected"), [(True, "violation"), (None, "permitted")])
def test_what_an_elected_one_is_known_to_have_had_was_not_lost_with_disks_before(
    monkeypatch: pytest.MonkeyPatch, had: bool | None, expected: str
) -> None:
    known = TakeOvers.had

    def told_of_epoch_1(self: TakeOvers, election: Election, lost: LostRecord) -> bool | None:
        return had if election.epoch == 1 else known(self, election, lost)

    monkeypatch.setattr(TakeOvers, "had", told_of_epoch_1)
    history = elected_while_wiped()
    ruling = ruled(history, replace(fate(history, 8), epoch=None, t_sent=int(1.9 * SECOND)))
    assert ruling.classification == expected


@pytest.mark.parametrize(("event", "down"), [(None, True), ("broker_start", False), ("unclean_election", True)])
def test_who_started_was_not_down_and_what_others_told_of_it_is_no_word_of_its_own(
    event: str | None, down: bool
) -> None:
    history = elected_while_wiped()
    if event is not None:
        place = {"topic": "t", "partition": 0} if event == "unclean_election" else {}
        history._add("broker_events", node=2, time_ns=11 * SECOND, event=event, **place)
    assert was_down(partition_of(history), 2, 9 * SECOND, 12 * SECOND) is down
