"""The controller's checks of an ISR proposal, in the order of docs/replication.md R31."""

import pytest

from reference_impl.core.controller.alter_partition import check_sender, decide
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.state import IsrProposal, LiveBroker, PartitionState

KEY = TopicPartition("t", 0)
BROKERS = {
    broker_id: LiveBroker(
        broker_id=broker_id,
        broker_epoch=10 * broker_id,
        listeners=(),
        directory_ids=(),
        shutting_down=broker_id == 4,
    )
    for broker_id in (1, 2, 3, 4)
}
STATE = PartitionState(
    topic_partition=KEY,
    replicas=(1, 2, 3, 4, 5),
    leader=2,
    isr=(2, 1),
    leader_epoch=7,
    partition_epoch=9,
    controller_epoch=1,
)


def answer(
    isr: str = "213",
    *,
    sender: int = 2,
    leader_epoch: int = 7,
    partition_epoch: int = 9,
    epochs: dict[int, int] | None = None,
    recovery_state: int = 0,
) -> PartitionState | ErrorCode:
    members = tuple((int(member), (epochs or {}).get(int(member), 10 * int(member))) for member in isr)
    proposal = IsrProposal(topic_partition=KEY, leader_epoch=leader_epoch, partition_epoch=partition_epoch, isr=members)
    return decide(proposal, sender=sender, state=STATE, brokers=BROKERS, recovery_state=recovery_state)


def test_an_older_incarnation_may_not_ask() -> None:
    assert check_sender(2, 20, BROKERS) is ErrorCode.NONE
    assert check_sender(2, 19, BROKERS) is ErrorCode.STALE_BROKER_EPOCH
    assert check_sender(9, 90, BROKERS) is ErrorCode.STALE_BROKER_EPOCH


def test_a_leader_that_knows_more_than_the_controller_has_met_a_deposed_one() -> None:
    assert answer(leader_epoch=8, sender=1) is ErrorCode.NOT_CONTROLLER
    assert answer(partition_epoch=10, leader_epoch=6) is ErrorCode.NOT_CONTROLLER


def test_a_deposed_leader_is_fenced_before_it_learns_that_it_does_not_lead() -> None:
    assert answer(leader_epoch=6, sender=1) is ErrorCode.FENCED_LEADER_EPOCH
    assert answer(sender=1, partition_epoch=8) is ErrorCode.INVALID_REQUEST


def test_a_proposal_from_an_older_partition_epoch_is_refused() -> None:
    assert answer("9", partition_epoch=8) is ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize("isr", ["29", "13", "", "22"])
def test_an_isr_is_made_of_replicas_and_has_its_leader(isr: str) -> None:
    assert answer(isr) is ErrorCode.INVALID_REQUEST


def test_there_is_no_recovering_leader_here() -> None:
    assert answer(recovery_state=1) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("isr", "epochs"),
    [("25", {}), ("24", {}), ("23", {3: 29})],
    ids=["not registered", "shutting down", "an incarnation before"],
)
def test_a_member_must_be_the_registered_incarnation(isr: str, epochs: dict[int, int]) -> None:
    assert answer(isr, epochs=epochs) is ErrorCode.INELIGIBLE_REPLICA


def test_a_request_of_version_2_cannot_say_which_incarnation_it_means() -> None:
    assert isinstance(answer("23", epochs={2: -1, 3: -1}), PartitionState)


def test_a_returning_replica_is_named_last_and_epochs_are_left_to_the_write() -> None:
    committed = answer("312")
    assert isinstance(committed, PartitionState)
    assert committed.isr == (2, 1, 3)
    assert (committed.leader_epoch, committed.partition_epoch) == (7, 9)


def test_a_slow_replica_leaves() -> None:
    committed = answer("2")
    assert isinstance(committed, PartitionState)
    assert committed.isr == (2,)
