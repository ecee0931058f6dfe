"""Preferred rebalance: the ratio per broker decides (claim S20)."""

from reference_impl.core.controller.preferred import imbalance, rebalanced
from reference_impl.core.identifiers import TopicPartition
from reference_impl.core.state import PartitionState


def preferring_1(count: int, *, displaced: int) -> list[PartitionState]:
    return [
        PartitionState(
            topic_partition=TopicPartition("t", number),
            replicas=(1, 2),
            leader=2 if number < displaced else 1,
            isr=(2, 1),
            leader_epoch=0,
            partition_epoch=0,
            controller_epoch=1,
        )
        for number in range(count)
    ]


def moved(count: int, *, displaced: int, eligible: tuple[int, ...] = (1, 2)) -> int:
    return len(rebalanced(preferring_1(count, displaced=displaced), eligible=eligible, percentage=10))


def test_the_ratio_counts_those_led_elsewhere_among_those_that_prefer_the_broker() -> None:
    assert imbalance(preferring_1(4, displaced=1), 1) == 0.25
    assert imbalance(preferring_1(4, displaced=1), 2) == 0.0


def test_one_of_one_is_moved_one_of_twenty_is_not() -> None:
    assert moved(1, displaced=1) == 1
    assert moved(20, displaced=1) == 0


def test_the_percentage_itself_is_still_tolerated() -> None:
    assert moved(10, displaced=1) == 0
    assert moved(10, displaced=2) == 2


def test_a_dead_broker_gets_nothing_back() -> None:
    assert moved(1, displaced=1, eligible=(2,)) == 0
