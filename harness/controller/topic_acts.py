"""Acts on whole topics: delete one, or create it again as the scenario describes it. Both return when that is seen."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from harness.controller.context import RunContext
from harness.errors import HarnessError
from harness.ports.capabilities import CanDeleteTopics
from harness.ports.cluster import PartitionState, TopicDefinition

_SEEN_S = 30.0  # ZooKeeper's controller deletes replica by replica
_LOOK_AGAIN_S = 0.1


async def delete(context: RunContext, body: Mapping[str, Any]) -> str:
    topic, cluster = str(body["delete_topic"]), context.cluster
    if not isinstance(cluster, CanDeleteTopics):
        raise HarnessError("this cluster cannot delete a topic")
    await cluster.delete_topic(topic)
    await _until(context, topic, lambda states: not states, "is still reported by a broker")
    return f"topic {topic} deleted"


async def create(context: RunContext, body: Mapping[str, Any]) -> str:
    topic = str(body["create_topic"])
    wanted = definition_of(context, topic)
    await context.cluster.create_topics([wanted])

    def led(states: list[PartitionState]) -> bool:
        return len({state.partition for state in states if state.leader >= 0}) == wanted.partition_count

    await _until(context, topic, led, "has no leader for each partition")
    return f"topic {topic} created anew"


def definition_of(context: RunContext, name: str) -> TopicDefinition:
    spec = next((topic for topic in context.scenario.topics if topic.name == name), None)
    if spec is None:
        known = ", ".join(topic.name for topic in context.scenario.topics)
        raise HarnessError(f"create_topic {name!r}: the scenario has no such topic in [[topics]]; known: {known}")
    return TopicDefinition(
        name=name,
        partitions=None if spec.assignment else spec.partitions,
        assignment=spec.assignment,
        replication_factor=None if spec.assignment else spec.replication_factor,
        settings=spec.settings,
    )


async def _until(context: RunContext, topic: str, holds: Callable[[list[PartitionState]], bool], else_: str) -> None:
    deadline_ns = context.clock.monotonic_ns() + int(_SEEN_S * 1e9)
    while True:
        states = await context.cluster.live_partition_states([topic])
        if holds([state for state in states if state.topic == topic]):
            return
        if context.clock.monotonic_ns() > deadline_ns:
            raise HarnessError(f"topic {topic} {else_} {_SEEN_S:g} s after the request")
        await asyncio.sleep(_LOOK_AGAIN_S)
