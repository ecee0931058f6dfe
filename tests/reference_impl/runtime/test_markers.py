"""Markers on their way to the leaders: each leader's by itself, and none is left out for want of news (R74)."""

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from reference_impl.core.coordinator_log import Phase
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC, ErrorCode, TopicPartition
from reference_impl.core.state import PartitionState
from reference_impl.core.transactions.transaction_data import TransactionMarkers
from reference_impl.runtime.coordinators.markers import MarkerSender
from reference_impl.runtime.coordinators.terms import CoordinatorTerms
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import Producer
from reference_impl.wire.messages import response_class
from tests.reference_impl.core.memory_log import MemoryLog, batch

A, B, C = (TopicPartition("orders", number) for number in range(3))
WriteTxnMarkersResponse = response_class(ApiKey.WRITE_TXN_MARKERS)
MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = MarkerResult.WritableTxnMarkerTopicResult
PartitionResult = TopicResult.WritableTxnMarkerPartitionResult


class Watched(MarkerSender):
    """Counts how often it looked whether topics were deleted."""

    looks = 0

    def deleted(self, markers: TransactionMarkers, answered_before: int) -> set[TopicPartition]:
        self.looks += 1
        return super().deleted(markers, answered_before)


class World:
    """A coordinator's metadata, and leaders of which some hang. asked: those that were, though they may hang."""

    def __init__(self) -> None:
        self.asked: set[int] = set()
        self.metadata = MetadataCache()
        self.hanging: set[int] = set()
        self.written: set[TopicPartition] = set()
        self.refusing: set[int] = set()
        self.sender = Watched(self.metadata, self._ask)

    def set_leaders(self, leaders: dict[TopicPartition, int]) -> None:
        """By the controller, in an update of everything."""
        self.metadata.update(
            SimpleNamespace(
                controller_id=1, live_brokers=[], is_full=True, deleted_topics=[], topics=[], partition_states=[]
            )
        )
        for key, leader in leaders.items():
            self.leads(key, leader)

    def leads(self, key: TopicPartition, leader: int) -> None:
        self.metadata._states.setdefault(key.topic, {})[key.partition] = PartitionState(
            topic_partition=key,
            replicas=(1, 2),
            leader=leader,
            isr=(1, 2),
            leader_epoch=0,
            partition_epoch=0,
            controller_epoch=1,
        )

    async def _ask(self, leader: int, api_key: int, version: int, body: Any) -> Any:
        self.asked.add(leader)
        while leader in self.hanging:
            await asyncio.sleep(0.01)
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER if leader in self.refusing else ErrorCode.NONE
        return WriteTxnMarkersResponse(
            markers=[
                MarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        TopicResult(
                            name=topic.name,
                            partitions=[
                                PartitionResult(partition_index=number, error_code=error)
                                for number in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in body.markers
            ]
        )

    def note(self, partitions: Iterable[TopicPartition]) -> None:
        self.written.update(partitions)

    async def until_written(self, *partitions: TopicPartition) -> None:
        """These and no other."""
        await until(lambda: self.written.issuperset(partitions))
        assert self.written == set(partitions)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def markers(*partitions: TopicPartition) -> TransactionMarkers:
    return TransactionMarkers("writer", Producer(7, 0), Marker(True, 0), frozenset(partitions))


async def test_a_topic_counts_as_deleted_only_by_news_that_came_during_the_term() -> None:
    """What the broker knew before may be older than the topic: it learns that it leads first."""
    world = World()
    world.set_leaders({TopicPartition("__transaction_state", 0): 1})
    term = world.sender.of_term()
    term.write(markers(A), world.note)
    await until(lambda: world.sender.looks > 1)
    assert not world.written
    world.set_leaders({})
    await world.until_written(A)
    term.stop()


async def test_no_leaders_markers_wait_for_another_leader() -> None:
    world = World()
    world.set_leaders({A: 1, B: 2, C: 2})
    world.hanging, world.refusing = {1}, {2}
    term = world.sender.of_term()
    term.write(markers(A, B, C), world.note)
    await until(lambda: world.asked == {1, 2})
    world.refusing = set()
    await world.until_written(B, C)
    world.hanging = set()
    await world.until_written(A, B, C)
    term.stop()
    world.sender.stop()


async def test_leaders_that_part_later_do_not_wait_for_one_another_either() -> None:
    world = World()
    world.set_leaders({A: 1, B: 1})
    world.hanging, world.refusing = {2}, {1}
    term = world.sender.of_term()
    term.write(markers(A, B), world.note)
    await until(lambda: world.asked == {1})
    world.leads(A, 2)
    world.refusing = set()
    await world.until_written(B)
    world.hanging = set()
    await world.until_written(A, B)
    term.stop()
    world.sender.stop()


# Terms


class Served:
    """A coordinator that only notes what it is told."""

    def __init__(self) -> None:
        self.phase = Phase.LOADING
        self.heard: list[str] = []

    def replay(self, batches: object) -> None:
        self.heard.append("replay")

    def loaded(self) -> None:
        self.heard.append("loaded")

    def failed(self) -> None:
        self.heard.append("failed")

    def end(self) -> None:
        self.phase = Phase.ENDED

    def tick(self) -> None: ...

    def expire(self) -> None: ...


@pytest.mark.parametrize("ends", [False, True])
async def test_after_the_end_no_term_begins_again(ends: bool) -> None:
    key, made = TopicPartition(GROUP_OFFSETS_TOPIC, 0), list[Served]()
    partition: Any = SimpleNamespace(
        topic_partition=key, is_leader=True, leader_epoch=0, high_watermark=0, log=MemoryLog()
    )
    replicas: Any = SimpleNamespace(on_progress=[], partitions={key: partition})

    def begin(number: int, log: object) -> Served:
        made.append(Served())
        return made[-1]

    terms = CoordinatorTerms(
        GROUP_OFFSETS_TOPIC,
        replicas=replicas,
        metadata=MetadataCache(),
        begin=begin,
        loads_from=lambda start, active: start,
    )
    if ends:
        terms.end()
    replicas.on_progress[0](key)
    await asyncio.sleep(0)
    assert len(made) == (0 if ends else 1)
    assert (terms.current(0) is None) == ends


async def test_a_term_that_is_over_before_all_is_read_serves_nobody() -> None:
    key, served = TopicPartition(GROUP_OFFSETS_TOPIC, 0), Served()
    log = MemoryLog()
    log.append(batch("a"), 1)
    partition: Any = SimpleNamespace(topic_partition=key, is_leader=True, leader_epoch=0, high_watermark=1, log=log)
    replicas: Any = SimpleNamespace(on_progress=[], partitions={key: partition})
    terms = CoordinatorTerms(
        GROUP_OFFSETS_TOPIC,
        replicas=replicas,
        metadata=MetadataCache(),
        begin=lambda number, log: served,
        loads_from=lambda start, active: start,
    )
    replicas.on_progress[0](key)
    await asyncio.sleep(0)
    partition.is_leader = False
    await asyncio.sleep(0.01)
    assert not served.heard
    assert terms.current(0) is None
