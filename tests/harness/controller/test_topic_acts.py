"""Topics deleted and created anew by a step: done when every broker shows it."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from harness.controller import step_acts
from harness.errors import HarnessError
from harness.host.clock import SystemClock
from harness.ports.cluster import TopicDefinition
from harness.scenario.model import TopicSpec


class Cluster:
    """Tells of each change a round later, as brokers do."""

    def __init__(self) -> None:
        self.states: list[list[Any]] = []
        self.asked: list[str] = []

    async def delete_topic(self, topic: str) -> None:
        self.asked.append(f"delete {topic}")
        self.states = [[self._state(0, 1)], []]

    async def create_topics(self, topics: Sequence[TopicDefinition]) -> None:
        self.asked += [f"create {topic.name} with {topic.partitions} partitions" for topic in topics]
        self.states = [[], [self._state(0, -1)], [self._state(0, 1)], [self._state(0, 1), self._state(1, 2)]]

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[Any]:
        return self.states.pop(0)

    def _state(self, partition: int, leader: int) -> Any:
        return SimpleNamespace(topic="orders", partition=partition, leader=leader)


def context(cluster: Any) -> Any:
    return SimpleNamespace(
        cluster=cluster,
        clock=SystemClock(),
        scenario=SimpleNamespace(topics=(TopicSpec(name="orders", partitions=2),)),
    )


def test_a_deletion_is_done_when_no_broker_tells_of_the_topic_and_a_creation_when_each_partition_is_led() -> None:
    cluster = Cluster()
    assert asyncio.run(step_acts.delete(context(cluster), {"delete_topic": "orders"})) == "topic orders deleted"
    assert cluster.states == []
    assert asyncio.run(step_acts.create(context(cluster), {"create_topic": "orders"})) == "topic orders created anew"
    assert cluster.states == []
    assert cluster.asked == ["delete orders", "create orders with 2 partitions"]


def test_a_topic_that_the_scenario_does_not_describe_is_refused_in_a_line() -> None:
    with pytest.raises(HarnessError, match=r"'payments'.*\[\[topics\]\]; known: orders"):
        asyncio.run(step_acts.create(context(Cluster()), {"create_topic": "payments"}))


def test_a_cluster_that_deletes_nothing_says_so() -> None:
    with pytest.raises(HarnessError, match="cannot delete a topic"):
        asyncio.run(step_acts.delete(context(object()), {"delete_topic": "orders"}))
