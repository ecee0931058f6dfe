"""A cluster in memory that suffers every fault and remembers what was done to it, and the context a plan is given."""

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from harness.controller.context import PlanResult, RunContext
from harness.controller.observer import Observer
from harness.controller.probes import Probes
from harness.controller.recorder import Recorder
from harness.controller.steps import OrderedSteps
from harness.controller.workers.processes import controller_numbers
from harness.errors import HarnessError
from harness.history.journals.controller_rows import ROWS, read_rows
from harness.ports.capabilities import Fetched, Impairment, Place
from harness.ports.clients import ClientUse
from harness.ports.cluster import (
    COORDINATION,
    Client,
    ClientId,
    Evidence,
    Link,
    NodeId,
    PartitionState,
    ReplicaLog,
    Send,
    SendOutcome,
    TopicDefinition,
    TopicPartition,
)
from harness.ports.load import WorkloadSpec
from harness.ports.requests import Requests
from harness.scenario.model import ClusterSpec, ExpectSpec, FaultSpec, Scenario, StepSpec, TopicSpec
from harness.scenario.steps import read_step
from tests.harness.controller.conftest import MemoryClient, MemoryCluster
from tests.jumping_time import CLOCK

ORDERS = TopicPartition(topic="orders", partition=0)


class Answers:
    """What every broker of a cluster in memory answers, unless `fails` says that it does not."""

    def __init__(self, cluster: "FaultyCluster") -> None:
        self._cluster = cluster

    def _asked(self, deed: str) -> None:
        self._cluster.deeds.append(deed)
        if self._cluster.fails is not None:
            raise self._cluster.fails

    async def registered(self) -> Sequence[int]:
        return sorted(self._cluster.running)

    async def config_defaults(self, node: NodeId, keys: Sequence[str]) -> Mapping[str, str | None]:
        self._asked(f"defaults {node}")
        return {key: "1" if key == "min.insync.replicas" else None for key in keys}

    async def configure_broker(self, node: NodeId, settings: Mapping[str, str]) -> int:
        self._asked(f"configure {node} {dict(settings)}")
        return 42

    async def create_topic(self, topic: TopicDefinition) -> int:
        self._asked(f"create {topic.name} {topic.replication_factor} {topic.assignment}")
        return 38

    async def fetch(self, node: NodeId, partition: TopicPartition, offset: int, *, epoch: int, version: int) -> Fetched:
        self._asked(f"fetch {node} {partition.topic}-{partition.partition} {offset} {epoch} {version}")
        values = [value.decode() for value in self._cluster.logs[partition][offset:]]
        return Fetched(error=0 if node == 1 else 6, values=tuple(values) if node == 1 else ())

    async def epoch_end(self, node: NodeId, partition: TopicPartition, epoch: int) -> tuple[int, int]:
        self._asked(f"epoch {epoch} {node}")
        return (0, 10 * (epoch + 1)) if node == 1 else (6, -1)

    async def produce(self, node: NodeId, records: Sequence[Send], *, acks: str, timeout_s: float) -> tuple[int, int]:
        self._asked(f"produce {node} {records[0].topic}-{records[0].partition} {acks} {timeout_s:g}")
        return (0, 7) if node == 1 else (6, -1)


class FaultyCluster(MemoryCluster):
    """`deeds` lists what was done, in order. `obstacle` makes one deed fail; `slow_s` makes each take a while."""

    def __init__(self) -> None:
        super().__init__()
        self.deeds: list[str] = []
        self.obstacle = ""
        self.slow_s = 0.0
        self.proof_s = 0.0  # how long after its effect an act is proved
        self.paused: set[int] = set()
        self.cut_links: set[str] = set()
        self.delays: dict[str, float] = {}
        self.wiped: set[int] = set()
        self.settings: dict[str, str] = {}
        self.election_error = 0
        self.answer: tuple[str, int | None] = ("ok", 0)  # what every produce request is answered with
        self.ends_known = True
        self.isr: tuple[int, ...] | None = None
        self.ends: dict[int, int] = {}  # of the logs of these nodes; the others' are as long as what was sent
        self.nobody_leads = False
        self.controller_epochs: list[int] = []
        self.fails: OSError | TimeoutError | None = None

    def questions(self) -> Answers:
        return Answers(self)

    async def _do(self, deed: str) -> Evidence:
        self.deeds.append(deed)
        await asyncio.sleep(self.slow_s)
        if deed == self.obstacle:
            raise HarnessError(f"{deed} did not work")
        took_effect_ns = CLOCK.monotonic_ns()
        await asyncio.sleep(self.proof_s)
        return Evidence(t_ns=took_effect_ns, sentence=f"{deed} was seen")

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        states = await super().live_partition_states(topics)
        if self.nobody_leads:
            states = [dataclasses.replace(state, leader=-1, leader_epoch=state.leader_epoch + 1) for state in states]
        return states if self.isr is None else [dataclasses.replace(state, isr=self.isr) for state in states]

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        return self.ends.get(int(node), super().log_end(node, topic, partition))

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

    async def lose_tail(self, node: NodeId, topic: str, partition: int, *, records: int) -> Evidence:
        if int(node) in self.running:
            raise HarnessError(f"broker {node} is running; kill it before its tail is lost")
        return await self._do(f"lose {node} {topic}-{partition} {records}")

    async def damage(self, node: NodeId, topic: str, partition: int, *, at: Place) -> Evidence:
        return await self._do(f"damage {node} {topic}-{partition} {at}")

    async def lose_unsynced(self, node: NodeId) -> Evidence:
        return await self._do(f"lose unsynced {node}")

    async def kill_at_write(self, node: NodeId, *, nth: int, torn: bool, within_s: float) -> Evidence:
        return await self._do(f"kill {node} at write {nth} {torn}")

    async def fail_at_write(self, node: NodeId, *, nth: int, within_s: float) -> Evidence:
        return await self._do(f"fail {node} at write {nth}")

    async def fill_disk(self, node: NodeId) -> Evidence:
        return await self._do(f"fill {node}")

    async def free_disk(self, node: NodeId) -> Evidence:
        return await self._do(f"free {node}")

    async def impair(self, links: Sequence[Link], impairment: Impairment) -> Evidence:
        return await self._do(f"{' '.join(str(link) for link in links)} {impairment.described()}")

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        return [] if int(node) in self.wiped else super().read_replicas(node)

    def links(self) -> Sequence[Link]:
        brokers = [node.node for node in self.nodes]
        made = [Link(source=a, target=b) for a in brokers for b in [*brokers, COORDINATION] if a != b]
        return made + [Link(client=ClientId(1), target=b) for b in brokers]

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

    async def strike_requests(self, links: Sequence[Link], requests: Requests) -> Evidence:
        return await self._do(f"strike {requests} {' '.join(str(link) for link in links)}")

    async def pass_requests(self, links: Sequence[Link], requests: Requests) -> Evidence:
        return await self._do(f"pass {requests} {' '.join(str(link) for link in links)}")

    async def requested(self, request: str, nth: int) -> None:
        raise AssertionError("nobody waits for a request here")

    async def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        self.deeds.append(f"set {topic} {dict(settings)}")
        self.settings |= settings

    async def elect(self, topic: str, partition: int, *, kind: Literal["preferred", "unclean"]) -> int:
        self.deeds.append(f"elect {topic}-{partition} {kind}")
        return self.election_error

    def set_log(self, *values: str) -> None:
        self.logs[ORDERS] = [value.encode() for value in values]


class FaultyClient(MemoryClient):
    """Answers as the cluster is told to; without end offsets, reading works all the same."""

    def __init__(self, cluster: FaultyCluster) -> None:
        super().__init__(cluster)
        self._faulty = cluster

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        status, code = self._faulty.answer
        if status == "ok":
            return await super().send(records)
        now = CLOCK.monotonic_ns()
        return [
            SendOutcome(status=cast(Any, status), offset=None, error=f"error {code}", code=code, end_ns=now)
            for _ in records
        ]

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        if not self._faulty.ends_known:
            raise RuntimeError("OffsetNotAvailableError 78")
        return await super().end_offsets(partitions)


@dataclass(frozen=True, kw_only=True)
class FaultWorld:
    cluster: FaultyCluster
    context: RunContext
    folder: Path

    def rows(self, table: str) -> list[dict[str, Any]]:
        return cast(list[dict[str, Any]], read_rows(self.folder / ROWS).named(table))

    def faults(self) -> list[dict[str, Any]]:
        return self.rows("faults")

    def outcomes(self) -> list[str]:
        return [row["outcome"] for row in self.rows("steps")]

    def snapshots(self) -> list[tuple[str, int]]:
        return [(row["reason"], row["node"]) for row in self.rows("replica_snapshots")]


def steps_of(*tables: Mapping[str, Any]) -> tuple[StepSpec, ...]:
    return tuple(read_step(dict(table), line=10 + number) for number, table in enumerate(tables))


def scenario_of(
    *,
    steps: Sequence[StepSpec] = (),
    faults: Sequence[FaultSpec] = (),
    duration_s: float = 0.2,
    warm_up_s: float = 1.0,
) -> Scenario:
    return Scenario(
        name="story",
        story="",
        source="",
        cluster=ClusterSpec(),
        topics=(TopicSpec(name="orders", assignment=((1, 2, 3),)),),
        workload=WorkloadSpec(duration_s=duration_s, warm_up_s=warm_up_s),
        faults=tuple(faults),
        steps=tuple(steps),
        expect=ExpectSpec(),
        coverage={},
    )


@contextlib.asynccontextmanager
async def fault_world(folder: Path, scenario: Scenario) -> AsyncIterator[FaultWorld]:
    """A started cluster with its topic, and an observer that has looked once and goes on looking."""
    cluster = FaultyCluster()
    await cluster.start()
    topics = [TopicDefinition(name=topic.name, assignment=topic.assignment) for topic in scenario.topics]
    await cluster.create_topics(topics)
    recorder = Recorder(folder=folder, clock=CLOCK)
    observer = Observer(cluster=cluster, topics=["orders"], clock=CLOCK, recorder=recorder, interval_s=0.005)

    def make_client(*, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Client:
        return FaultyClient(cluster)

    context = RunContext(
        scenario=scenario,
        cluster=cluster,
        observer=observer,
        recorder=recorder,
        clock=CLOCK,
        seed=1,
        probes=Probes(
            make_client=make_client,
            bootstrap=cluster.bootstrap,
            settings=scenario.workload,
            folder=folder,
            clock=CLOCK,
            numbers=controller_numbers(0),
        ),
    )
    await observer.poll_once()
    observer.start()
    try:
        yield FaultWorld(cluster=cluster, context=context, folder=folder)
    finally:
        await observer.stop()
        recorder.close()


class Play(Protocol):
    """Runs steps. `before` sets the cluster up, `during` meddles meanwhile."""

    async def __call__(
        self,
        *tables: dict[str, Any],
        before: Callable[[FaultyCluster], None] | None = None,
        during: Callable[[FaultWorld], Coroutine[Any, Any, None]] | None = None,
    ) -> tuple[PlanResult, FaultWorld]: ...


@contextlib.asynccontextmanager
async def player(folder: Path) -> AsyncIterator[Play]:
    """Each play has a world of its own; what a plan left in force there can be looked at until the end."""
    numbers = itertools.count()
    async with contextlib.AsyncExitStack() as worlds:

        async def play(
            *tables: dict[str, Any],
            before: Callable[[FaultyCluster], None] | None = None,
            during: Callable[[FaultWorld], Coroutine[Any, Any, None]] | None = None,
        ) -> tuple[PlanResult, FaultWorld]:
            scenario = scenario_of(steps=steps_of(*tables))
            world = await worlds.enter_async_context(fault_world(folder / str(next(numbers)), scenario))
            if before is not None:
                before(world.cluster)
                await world.context.observer.poll_once()
            plan = OrderedSteps(scenario=scenario)
            meddling = asyncio.create_task(during(world)) if during is not None else None
            result = await plan.run(world.context)
            if meddling is not None:
                await meddling
            return result, world

        yield play
