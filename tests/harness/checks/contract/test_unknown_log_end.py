"""Where nobody recorded where an unclean leader's log ended, what it wrote and what outlived it tells, or nothing."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.checks.contract.rule import rule
from harness.checks.contract.rulings import Doubt
from harness.checks.contract.timelines import Timelines
from harness.checks.model.elections import NOWHERE, Election
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory, Truncation
from harness.checks.model.unclean_rules import Permission
from harness.checks.spark.detection import EpochRead
from harness.history.schema.cluster_rows import PartitionStateRow, SnapshotRow
from tests.harness.checks.contract.test_survival import LOG, fate, ruled
from tests.harness.checks.histories.build import History
from tests.rows import row_of


def election(epoch: int, leader: int, *, unclean: bool, allowed: bool = True) -> Election:
    return Election(
        time_ns=10 * epoch,
        uncertainty_ns=0,
        epoch=epoch,
        leader=leader,
        leader_before=leader - 1,
        unclean=unclean,
        isr=(leader,),
        isr_before=(1,),
        elr_before=(),
        start=0 if epoch == 0 else None,
        start_from=NOWHERE,
        permission=Permission(allowed=allowed, source="setting"),
    )


def story(second: Election) -> PartitionHistory:
    elections = (election(0, 1, unclean=False), second)
    states = tuple(
        row_of(
            PartitionStateRow,
            time_ns=each.time_ns,
            leader=each.leader,
            leader_epoch=each.epoch,
            isr=[1],
            elr=None,
            exact=True,
        )
        for each in elections
    )
    # The old leader cut to its own high watermark, which lies behind the record: it shows nothing of the new one's log.
    cut = Truncation(node=1, time_ns=12, epoch=1, from_offset=20, to_offset=9, reason="its high watermark")
    return PartitionHistory(
        run=0,
        partition_id=0,
        topic="orders",
        partition=0,
        replicas=(1, 2),
        read_to_end=True,
        end_offset=9,
        states=states,
        elections=elections,
        truncations=(cut,),
        snapshots=(row_of(SnapshotRow, node=1, snapshot=0, time_ns=11, reason="kill", log_end_offset=20),),
    )


LOST = LostRecord(offset=5, epoch=0, acks=-1, t_acknowledged=5, committed=True, in_a_log=True)


def test_an_allowed_unclean_election_without_a_known_log_end_leaves_a_loss_open() -> None:
    ruling = rule(story(election(1, 2, unclean=True)), LOST)
    assert ruling.classification == "observation"
    assert ruling.undecided == Doubt(code="which-leader-lost-it", epochs=(1,))


def test_one_that_the_configuration_forbids_does_not() -> None:
    ruling = rule(story(election(1, 2, unclean=True, allowed=False)), LOST)
    assert (ruling.classification, ruling.cause) == ("violation", "unclean-election")


def test_one_that_wrote_at_or_below_the_record_had_its_log_end_there() -> None:
    first = EpochRead(epoch=1, is_final=True, first_offset=3, last_offset=8)
    partition_history = story(election(1, 2, unclean=True))
    ruling = rule(partition_history, LOST, Timelines(partition_history, [first]))
    assert (ruling.classification, ruling.cause) == ("permitted", "unclean-election")


def test_one_after_which_later_records_of_the_same_epoch_are_still_there_did_not_cost_it() -> None:
    last = EpochRead(epoch=0, is_final=True, first_offset=0, last_offset=8)
    partition_history = story(election(1, 2, unclean=True))
    assert rule(partition_history, LOST, Timelines(partition_history, [last])).classification == "violation"


def test_a_clean_election_without_a_known_log_end_explains_nothing() -> None:
    assert rule(story(election(1, 2, unclean=False)), LOST).classification == "violation"


def led_twice(*, allowed: bool = True) -> History:
    """Broker 2 is elected uncleanly, nobody knows from where; it starts anew, leads again, and tells its log end: 5."""
    history = History().unclean_config(str(allowed).lower())
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    history.state(2, 1, (2,), at=8)
    return history.state(2, 2, (2,), at=12, start=5)


def test_a_log_that_ended_below_the_record_later_had_ended_there_before() -> None:
    history = led_twice()
    ruling = ruled(history, fate(history, 8))
    assert (ruling.classification, ruling.cause_epoch) == ("permitted", 1)


def test_unless_it_was_cut_meanwhile() -> None:
    history = led_twice().truncation(2, 5, 10, epoch=1, at=10)
    assert ruled(history, fate(history, 8)).classification == "observation"


def test_nor_if_its_disk_was_lost_meanwhile() -> None:
    history = led_twice(allowed=False)
    assert ruled(history, fate(history, 8)).classification == "violation"
    history.fault("wipe", [2], at=10, until=11)
    assert ruled(history, fate(history, 8)).classification == "observation"


def test_what_another_broker_lost_or_cut_meanwhile_does_not_matter() -> None:
    history = led_twice().truncation(1, 5, 10, epoch=1, at=10)
    history.fault("wipe", [3], at=10, until=11)
    assert ruled(history, fate(history, 8)).classification == "permitted"


def test_a_followers_copy_tells_of_the_leaders_log_only_if_the_epoch_begins_at_the_same_offset_in_both() -> None:
    def elected(start: int) -> str:
        history = History().unclean_config("true")
        history.state(1, 0, (1, 2, 3), at=0, start=0)
        history.state(1, 0, (1,), at=3)
        history.state(2, 1, (2,), at=8, start=start)
        history.snapshot(3, LOG, at=12, reason="heal", epochs="0:0 1:10")
        return ruled(history, fate(history, 8)).classification

    assert elected(10) == "violation", "the election cost nothing below its start"
    assert elected(12) == "observation"


def test_a_disk_that_was_lost_before_the_record_was_last_read_excuses_nothing_whichever_leader_lost_it() -> None:
    """No log tells of the record, so that time decides: the log end of the leader between is not known."""
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1, 2), at=3)
    history.state(2, 1, (2,), at=8)
    history.fault("wipe", [2], at=15, until=16)
    history.state(2, 2, (2,), at=30, start=0)
    read_at = {at: replace(fate(history, 8, read_at=at), epoch=None) for at in (12, 20)}
    assert ruled(history, read_at[20]).classification == "violation"
    assert ruled(history, read_at[12]).classification != "violation"


def test_acks_1_at_an_unknown_place_is_not_held_to_what_was_committed() -> None:
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(2, 1, (2, 3), at=8, start=7)
    unplaced = replace(fate(history, 8, acks=1), offset=None, epoch=None)
    assert ruled(history, unplaced).classification != "violation"
    assert ruled(history, replace(unplaced, acks=-1)).classification == "violation"


def polled(history: History) -> History:
    for row in history.rows["partition_states"]:
        row |= {"exact": False, "observer": 3, "leader_before": None, "isr_before": None, "unclean": None}
    return history


def test_a_fail_over_is_from_the_leader_before_also_where_the_books_were_only_polled() -> None:
    """Broker 1 led, then broker 2 with all that it had, then broker 1 with less."""
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(2, 1, (2, 1), at=8, start=10)
    history.snapshot(2, LOG, at=10, reason="heal", epochs="0:0 1:10")
    history.state(1, 2, (1,), at=12, start=7)
    ruling = ruled(polled(history), fate(history, 8, acks=1))
    assert (ruling.classification, ruling.cause, ruling.cause_epoch) == ("permitted", "fail-over", 2)


def test_nor_is_a_restart_of_the_same_leader_a_fail_over_there() -> None:
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 1, (1,), at=12, start=7)
    ruling = ruled(polled(history), fate(history, 8, acks=1))
    assert not any(rule.holds for rule in ruling.rules)
    assert ruling.cause == "restart"


def test_a_rule_that_nobody_can_decide_is_reported_before_which_of_several_leaders_it_was() -> None:
    forbidden, unknown = election(1, 2, unclean=True, allowed=False), election(2, 3, unclean=True)
    unknown = replace(unknown, permission=Permission(allowed=None, source="brokers-differ"), start=3)
    one = story(forbidden)
    ruling = rule(replace(one, elections=(*one.elections, unknown)), LOST)
    assert ruling.classification == "observation"
    assert ruling.undecided is not None
    assert ruling.undecided.code == "rule-not-decided"


@pytest.mark.parametrize(
    ("follower_epochs", "expected"),
    [
        ((), "observation"),
        (("0:0 1:7",), "permitted"),
        (("0:0", "0:0 1:7"), "permitted"),  # one that never heard of the epoch says nothing
        (("0:0 1:7", "0:0 1:7"), "permitted"),
        (("0:0 1:7", "0:0 1:9"), "observation"),  # they contradict each other
        (("0:0 1:9",), "observation"),  # and nothing tells what the leader's log had below that
    ],
)
def test_followers_checkpoints_stand_in_for_the_leaders_word_where_they_agree(
    follower_epochs: Sequence[str], expected: str
) -> None:
    history = History().unclean_config("true")
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    history.state(2, 1, (2,), at=8)
    for number, epochs in enumerate(follower_epochs):
        history.snapshot(3 + number, [], at=20, reason="heal", epochs=epochs)
    assert ruled(history, fate(history, 8)).classification == expected


@pytest.mark.parametrize("journal", [False, True])
def test_the_leaders_own_word_comes_before_its_followers(journal: bool) -> None:
    """A journal that says that it leads, and not from where, says nothing of it."""
    history = History().unclean_config("true")
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    history.state(2, 1, (2,), at=8)
    history.snapshot(3, [], at=20, reason="heal", epochs="0:0 1:9")
    history.snapshot(2, [], at=21, reason="heal", epochs="0:0 1:7")
    if journal:
        history.broker_event(2, "leadership_start", at=9, leader_epoch=1, from_offset=None)
    assert ruled(history, fate(history, 8)).classification == "permitted"


def test_what_a_follower_of_a_clean_leader_cut_that_leaders_log_lacked() -> None:
    def failed_over(first: int, end: int, *, epoch: int = 1) -> str:
        history = History()
        history.state(1, 0, (1, 2, 3), at=0, start=0)
        history.state(2, 1, (2, 3), at=8)
        history.truncation(3, first, end, epoch=epoch, at=9)
        return ruled(history, fate(history, 8, acks=1)).classification

    assert failed_over(7, 10) == "permitted"
    assert failed_over(8, 9) == "permitted"
    assert failed_over(9, 10) == "observation", "above the record"
    assert failed_over(6, 7) == failed_over(7, 8) == "observation", "the follower never had it"
    assert failed_over(7, 10, epoch=2) == "observation", "by the word of another leader"
