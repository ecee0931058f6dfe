"""A cluster in memory that suffers every fault and remembers what was done to it, and the context a plan is given."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from harness.controller.context import RunContext
from harness.controller.observer import Observer
from harness.controller.probes import Probes
from harness.controller.recorder import Recorder
from harness.controller.workers import controller_numbers
from harness.errors import HarnessError
from harness.history.controller_rows import ROWS, read_rows
from harness.interfaces import (
    Client,
    Evidence,
    Link,
    NodeId,
    PartitionState,
    ReadRecord,
    ReplicaLog,
    Send,
    SendOutcome,
    TopicDefinition,
    TopicPartition,
)
from harness.scenario import ClusterSpec, ExpectSpec, FaultSpec, Scenario, StepSpec, TopicSpec, WorkloadSpec
from harness.scenario_steps import read_step
from tests.harness.controller.conftest import CLOCK, MemoryClient, MemoryCluster

ORDERS = TopicPartition(topic="orders", partition=0)


class FaultyCluster(MemoryCluster):
    """`deeds` lists what was done, in order. `obstacle` makes one deed fail; `slow_s` makes each take a while."""

    def __init__(self) -> None:
        super().__init__()
        self.deeds: list[str] = []
        self.obstacle = ""
        self.slow_s = 0.0
        self.paused: set[int] = set()
        self.cut_links: set[str] = set()
        self.delays: dict[str, float] = {}
        self.wiped: set[int] = set()
        self.settings: dict[str, str] = {}
        self.election_error = 0
        self.answer: tuple[str, int | None] = ("ok", 0)  # what every produce request is answered with
        self.ends_known = True
        self.isr: tuple[int, ...] | None = None
        self.controller_epochs: list[int] = []

    async def _do(self, deed: str) -> Evidence:
        self.deeds.append(deed)
        await asyncio.sleep(self.slow_s)
        if deed == self.obstacle:
            raise HarnessError(f"{deed} did not work")
        return Evidence(t_ns=CLOCK.monotonic_ns(), sentence=f"{deed} was seen")

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        states = await super().live_partition_states(topics)
        return states if self.isr is None else [dataclasses.replace(state, isr=self.isr) for state in states]

    async def kill(self, node: NodeId) -> Evidence:
        if int(node) not in self.running:
            raise HarnessError(f"broker {node} is not running")
        seen = await self._do(f"kill {node}")
        self.running.discard(int(node))
        self.paused.discard(int(node))
        return seen

    async def shut_down(self, node: NodeId) -> Evidence:
        seen = await self._do(f"stop {node}")
        self.running.discard(int(node))
        return seen

    async def start_node(self, node: NodeId) -> Evidence:
        seen = await self._do(f"start {node}")
        self.running.add(int(node))
        return seen

    async def pause(self, node: NodeId) -> Evidence:
        self.paused.add(int(node))
        return await self._do(f"pause {node}")

    async def resume(self, node: NodeId) -> Evidence:
        self.paused.discard(int(node))
        return await self._do(f"resume {node}")

    async def wipe(self, node: NodeId) -> Evidence:
        if int(node) in self.running:
            raise HarnessError(f"broker {node} is running; kill it before its disk is wiped")
        self.wiped.add(int(node))
        return await self._do(f"wipe {node}")

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        return [] if int(node) in self.wiped else super().read_replicas(node)

    def links(self) -> Sequence[Link]:
        brokers = [f"n{n.node}" for n in self.nodes]
        made = [Link(source=a, target=b) for a in brokers for b in [*brokers, "n100"] if a != b]
        return made + [Link(source="c1", target=b) for b in brokers]

    async def cut(self, links: Sequence[Link], *, mode: Literal["hang", "reset"] = "hang") -> Evidence:
        names = [str(link) for link in links]
        seen = await self._do(f"cut {' '.join(names)} {mode}")
        self.cut_links |= set(names)
        return seen

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence:
        names = [str(link) for link in links]
        seen = await self._do(f"heal {' '.join(names)} {mode}")
        self.cut_links -= set(names)
        return seen

    async def slow(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        self.delays |= {str(link): delay_ms for link in links}
        return await self._do(f"slow {' '.join(str(link) for link in links)} {delay_ms:g}")

    async def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        self.settings |= settings

    async def elect_leader(self) -> int:
        return self.election_error

    def set_log(self, *values: str) -> None:
        self.logs[ORDERS] = [value.encode() for value in values]


class Reconfigurable(FaultyCluster):
    """`elect` is a word of the memory cluster's own; here it is the capability's, and elections by role go on."""

    async def elect(self, topic: str, partition: int, *, kind: str) -> int:  # type: ignore[override]
        self.deeds.append(f"elect {topic}-{partition} {kind}")
        return self.election_error

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        MemoryCluster.elect(self)
        self.elect_now = self.elect
        try:
            self.elect = lambda: None  # type: ignore[assignment,method-assign,misc]
            return await super().live_partition_states(topics)
        finally:
            del self.elect
