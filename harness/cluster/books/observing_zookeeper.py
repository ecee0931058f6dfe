"""Observes brokers before Kafka 0.10, whose Metadata contains no controller and only live replicas.

Both are in znodes, and ZooKeeper's transaction log shows them as soon as they are written. Leaders and in-sync replicas
are still each broker's own view.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.cluster.books.observing import Observation
from harness.cluster.books.zookeeper_log import ChangeFollower, ZnodeChange, understanding
from harness.host.clock import Clock
from harness.ports.cluster import NodeId, PartitionState

_CONTROLLER, _TOPICS = "/controller", "/brokers/topics/"


class ZookeeperObservation(Observation):
    """`transactions`: the folder of ZooKeeper's transaction log, "version-2" of its dataDir."""

    # 9, REPLICA_NOT_AVAILABLE: version 0 returns it for a partition with a dead replica, together with a valid leader.
    known_by_codes = (*Observation.known_by_codes, 9)
    reports_versions = False

    def __init__(
        self,
        addresses: Mapping[NodeId, tuple[str, int]],
        *,
        transactions: Path,
        is_running: Callable[[NodeId], bool],
        clock: Clock,
    ) -> None:
        super().__init__(addresses, is_running=is_running, clock=clock)
        self._follower = ChangeFollower(transactions)
        self._elected = -1
        self._assigned: dict[tuple[str, int], tuple[int, ...]] = {}

    async def look(self, topics: Sequence[str]) -> list[PartitionState]:
        for change in self._follower.read_on():
            with understanding(change):
                self._take(change)
        return await super().look(topics)

    def controller(self) -> int:
        return self._elected

    def _take(self, change: ZnodeChange) -> None:
        topic = change.path.removeprefix(_TOPICS)
        if change.path == _CONTROLLER:
            self._elected = -1 if change.data is None else int(json.loads(change.data)["brokerid"])
        elif topic != change.path and "/" not in topic and change.data:
            for partition, replicas in json.loads(change.data)["partitions"].items():
                self._assigned[topic, int(partition)] = tuple(replicas)

    def _states(self, node: NodeId, answer: Any) -> list[PartitionState]:
        return [
            dataclasses.replace(state, replicas=self._assigned.get((state.topic, state.partition), state.replicas))
            for state in super()._states(node, answer)
        ]
