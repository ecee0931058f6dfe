"""Which election may have moved a log's end back, so that a later record lawfully got a lower offset."""

from harness.checks.contract import lawful_rewind
from harness.checks.elections import NOWHERE, Election
from harness.checks.story import PartitionStory
from harness.checks.unclean_rules import DEFAULT_PERMISSION

OFFSET = 5


def election(epoch: int, leader: int, *, start: int, leader_before: int = -1) -> Election:
    return Election(
        t=epoch, uncertainty_ns=0, epoch=epoch, leader=leader, leader_before=leader_before, unclean=False,
        isr=(1, 2), isr_before=(1, 2), elr_before=(), start=start, start_from=NOWHERE,
        permission=DEFAULT_PERMISSION,
    )  # fmt: skip


def story(*elections: Election) -> PartitionStory:
    states = tuple(
        {"t": each.t, "leader": each.leader, "leader_epoch": each.epoch, "isr": [1, 2], "elr": None, "exact": True}
        for each in elections
    )
    return PartitionStory(
        run=0, tp=0, topic="orders", part=0, replicas=(1, 2), read_to_end=True, end_offset=9, states=states,
        elections=elections,
    )  # fmt: skip


FIRST = election(0, 1, start=0)


def test_the_first_leader_rewound_nothing_however_low_its_log_began() -> None:
    for strict in (False, True):
        assert lawful_rewind(story(FIRST), offset=OFFSET, epoch=0, t=9, strict=strict) is None


def test_a_fail_over_to_a_shorter_log_explains_what_acks_1_left_and_nothing_that_was_committed() -> None:
    second = election(1, 2, start=3, leader_before=1)
    assert lawful_rewind(story(FIRST, second), offset=OFFSET, epoch=1, t=9, strict=False) == second
    assert lawful_rewind(story(FIRST, second), offset=OFFSET, epoch=1, t=9, strict=True) is None


def test_a_fail_over_to_a_log_that_went_on_beyond_the_offset_explains_nothing() -> None:
    second = election(1, 2, start=OFFSET + 1, leader_before=1)
    assert lawful_rewind(story(FIRST, second), offset=OFFSET, epoch=1, t=9, strict=False) is None
