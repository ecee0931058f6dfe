"""Where nobody recorded where an unclean leader's log ended, what it wrote and what outlived it tells, or nothing."""

from harness.checks.contract import rule
from harness.checks.elections import NOWHERE, Election
from harness.checks.fates import EpochRead, Fate
from harness.checks.rulings import Doubt
from harness.checks.story import PartitionStory, Truncation
from harness.checks.survival import Survival
from harness.checks.unclean_rules import Permission


def election(epoch: int, leader: int, *, unclean: bool, allowed: bool = True) -> Election:
    return Election(
        t=10 * epoch, uncertainty_ns=0, epoch=epoch, leader=leader, leader_before=leader - 1, unclean=unclean,
        isr=(leader,), isr_before=(1,), elr_before=(), start=0 if epoch == 0 else None, start_from=NOWHERE,
        permission=Permission(allowed=allowed, source="setting"),
    )  # fmt: skip


def story(second: Election) -> PartitionStory:
    elections = (election(0, 1, unclean=False), second)
    states = tuple(
        {"t": each.t, "leader": each.leader, "leader_epoch": each.epoch, "isr": [1], "elr": None, "exact": True}
        for each in elections
    )
    # The old leader cut to its own high watermark, which lies behind the record: it tells nothing of the new one's log.
    cut = Truncation(node=1, t=12, epoch=1, from_offset=20, to_offset=9, reason="its high watermark")
    return PartitionStory(
        run=0, tp=0, topic="orders", part=0, replicas=(1, 2), read_to_end=True, end_offset=9, states=states,
        elections=elections, truncations=(cut,), snapshots=({"node": 1, "t": 11, "reason": "kill", "log_end": 20},),
    )  # fmt: skip


LOST = Fate(offset=5, epoch=0, acks=-1, t_acknowledged=5, committed=True, in_a_log=True)


def test_an_allowed_unclean_election_without_a_known_log_end_leaves_a_loss_open() -> None:
    ruling = rule(story(election(1, 2, unclean=True)), LOST)
    assert ruling.classification == "observation"
    assert ruling.undecided == Doubt(code="which-leader-lost-it", epochs=(1,))


def test_one_that_the_configuration_forbids_does_not() -> None:
    ruling = rule(story(election(1, 2, unclean=True, allowed=False)), LOST)
    assert (ruling.classification, ruling.cause) == ("violation", "unclean-election")


def test_one_that_wrote_at_or_below_the_record_had_its_log_end_there() -> None:
    first = EpochRead(epoch=1, is_final=True, first_offset=3, last_offset=8)
    told = story(election(1, 2, unclean=True))
    ruling = rule(told, LOST, Survival(told, [first]))
    assert (ruling.classification, ruling.cause) == ("permitted", "unclean-election")


def test_one_after_which_later_records_of_the_same_epoch_are_still_there_did_not_cost_it() -> None:
    last = EpochRead(epoch=0, is_final=True, first_offset=0, last_offset=8)
    told = story(election(1, 2, unclean=True))
    assert rule(told, LOST, Survival(told, [last])).classification == "violation"


def test_a_clean_election_without_a_known_log_end_explains_nothing() -> None:
    assert rule(story(election(1, 2, unclean=False)), LOST).classification == "violation"
