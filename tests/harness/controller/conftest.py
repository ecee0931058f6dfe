"""A cluster of lists in memory, its clients, and workers as tasks: enough to do a whole run in a second."""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.controller.client_progress import ClientProgress, ProgressReporter
from harness.controller.context import Acknowledgements, PlanResult, RunContext
from harness.controller.run import Progress, Run
from harness.controller.workers.acting import WorkerSpec, act, settings_of
from harness.controller.workers.processes import controller_numbers, worker_specs
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.ports.clients import ClientUse
from harness.ports.cluster import (
    BrokerEvent,
    Client,
    ClientId,
    Cluster,
    ClusterHistory,
    Evidence,
    LogRecord,
    Node,
    NodeId,
    PartitionState,
    ReadRecord,
    ReplicaLog,
    Send,
    SendOutcome,
    TopicDefinition,
    TopicPartition,
)
from harness.ports.load import WorkloadSpec
from harness.scenario.model import Scenario
from harness.scenario.written import written_out
from tests.jumping_time import CLOCK, JumpingLoop
from tests.partition_states import seen
from workloads.produce_and_poll import ProduceAndPollSettings

REAL_TIME = ("test_follower", "test_workers")  # modules that wait for processes


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"real": asyncio.new_event_loop} if item.path.stem in REAL_TIME else {"jumping": JumpingLoop}


class MemoryCluster:
    """Every running broker has the same log. A partition's leader is its first running replica."""

    def __init__(self, brokers: int = 3) -> None:
        self.nodes = [Node(node=NodeId(n), role="broker", name=f"broker {n}") for n in range(1, brokers + 1)]
        self.running: set[int] = set()
        self.stopped = False
        self.broken = False  # refuses to start
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self.replicas: dict[TopicPartition, tuple[int, ...]] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.leaders: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        if self.broken:
            raise HarnessError("node 1 did not start; see nodes/1/log")
        self.running = {int(node.node) for node in self.nodes}

    async def stop(self) -> None:
        self.running.clear()
        self.stopped = True

    def bootstrap(self, client: ClientId | None) -> str:
        return "memory"

    def choose_leaders(self) -> None:
        for partition, replicas in self.replicas.items():
            leader = next((each for each in replicas if each in self.running), -1)
            if leader != self.leaders[partition]:
                self.leaders[partition] = leader
                self.epochs[partition] += 1

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        self.choose_leaders()
        return [
            seen(
                observer,
                self.leaders[partition],
                self.epochs[partition],
                tuple(each for each in replicas if each in self.running),
                topic=partition.topic,
                partition=partition.partition,
                t_ns=CLOCK.monotonic_ns(),
                uncertainty_ns=1000,
                replicas=replicas,
            )
            for observer in sorted(self.running)
            for partition, replicas in self.replicas.items()
        ]

    async def controller(self) -> int:
        return min(self.running, default=-1)

    async def create_topics(self, topics: Sequence[TopicDefinition]) -> None:
        for topic in topics:
            assert topic.assignment is not None
            for number, replicas in enumerate(topic.assignment):
                partition = TopicPartition(topic=topic.name, partition=number)
                self.logs[partition], self.replicas[partition] = [], replicas
                self.epochs[partition], self.leaders[partition] = 0, replicas[0]

    def collect(self) -> ClusterHistory:
        cut = BrokerEvent(
            node=NodeId(1),
            t_ns=CLOCK.monotonic_ns(),
            event="truncation",
            topic="orders",
            partition=0,
            epoch=1,
            from_offset=9,
            to_offset=8,
            cut=(LogRecord(offset=8, epoch=0, value=b"cut"),),
        )
        return ClusterHistory(partition_states=(), controllers=(), broker_events=(cut,), configuration=())

    def environment(self) -> Mapping[str, str]:
        return {"system": "memory"}

    # CanCrash
    async def kill(self, node: NodeId) -> Evidence:
        self.running.discard(int(node))
        return Evidence(t_ns=CLOCK.monotonic_ns(), sentence=f"node {node} is gone")

    shut_down = kill

    async def start_node(self, node: NodeId) -> Evidence:
        self.running.add(int(node))
        return Evidence(t_ns=CLOCK.monotonic_ns(), sentence=f"node {node} runs")

    def is_running(self, node: NodeId) -> bool:
        return int(node) in self.running

    # HasDisks
    async def wipe(self, node: NodeId) -> Evidence:
        return Evidence(t_ns=CLOCK.monotonic_ns(), sentence="wiped")

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        return [
            ReplicaLog(
                node=node,
                topic=partition.topic,
                partition=partition.partition,
                t_ns=CLOCK.monotonic_ns(),
                log_start=0,
                high_watermark=len(log),
                log_end=len(log),
                epochs=((0, 0),),
                records=tuple(LogRecord(offset=offset, epoch=0, value=value) for offset, value in enumerate(log)),
            )
            for partition, log in self.logs.items()
            if int(node) in self.replicas[partition]
        ]

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        return len(self.logs[TopicPartition(topic=topic, partition=partition)])

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None:
        return self.log_end(node, topic, partition)


class MemoryClient:
    """Sends to a partition without a leader are unknown; reads of one raise."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._positions: dict[TopicPartition, int] = {}

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        await asyncio.sleep(0.001)
        outcomes = []
        for record in records:
            partition = TopicPartition(topic=record.topic, partition=record.partition)
            if self._leaderless(partition):
                now = CLOCK.monotonic_ns()
                outcomes.append(SendOutcome(status="info", offset=None, error="KafkaTimeoutError", end_ns=now))
                continue
            log = self._cluster.logs[partition]
            log.append(record.value)
            now = CLOCK.monotonic_ns()
            outcomes.append(SendOutcome(status="ok", offset=len(log) - 1, error=None, end_ns=now))
        return outcomes

    def _leaderless(self, partition: TopicPartition) -> bool:
        return not set(self._cluster.replicas[partition]) & self._cluster.running

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        self._positions = dict.fromkeys(partitions, 0)

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        await asyncio.sleep(0.005)
        records = []
        for partition, position in self._positions.items():
            if self._leaderless(partition):
                raise TimeoutError("no leader")
            log = self._cluster.logs[partition]
            for offset in range(position, len(log)):
                records.append(
                    ReadRecord(
                        topic=partition.topic,
                        partition=partition.partition,
                        offset=offset,
                        epoch=0,
                        value=log[offset],
                    )
                )
            self._positions[partition] = len(log)
        return records

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        if any(self._leaderless(partition) for partition in partitions):
            raise TimeoutError("no leader")
        return {partition: len(self._cluster.logs[partition]) for partition in partitions}

    async def close(self) -> None:
        self._positions = {}


class TaskWorkers:
    """The workload's clients as tasks of the same loop."""

    def __init__(self, scenario: Scenario, cluster: Cluster, history: Path, make_client: Any) -> None:
        self._scenario, self._cluster, self._history = scenario, cluster, history
        self._make_client = make_client
        self._acks = Acknowledgements()
        self._specs: Sequence[WorkerSpec] = ()
        self._until = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._progress: dict[str, ProgressReporter] = {}
        self._on_progress: Callable[[str, ClientProgress], None] | None = None

    async def prepare(self, acks: Acknowledgements) -> None:
        self._acks = acks
        self._specs = worker_specs(self._scenario, self._cluster, history=self._history)
        await asyncio.sleep(0)

    def start(self) -> None:
        def count(counts: Mapping[str, int]) -> None:
            self._acks.add(**dict(counts))

        for spec in self._specs:
            self._progress[spec.name] = ProgressReporter(partial(self._progressed, spec.name))
            work = act(
                spec,
                settings=settings_of(spec),
                make_client=self._make_client,
                until=self._until,
                count=count,
                clock=CLOCK,
                progress=self._progress[spec.name],
            )
            self._tasks.append(asyncio.create_task(work))

    def _progressed(self, name: str, progress: Mapping[str, Any]) -> None:
        assert self._on_progress is not None, "nobody asked"
        self._on_progress(name, msgspec.convert(progress, ClientProgress))

    def ask(self, on_progress: Callable[[str, ClientProgress], None]) -> None:
        self._on_progress = on_progress
        for progress in self._progress.values():
            progress.ask()

    async def stop(self) -> list[str]:
        self._until.set()
        await asyncio.gather(*self._tasks)
        return []

    async def kill(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class PlanOf:
    """A plan from a coroutine function."""

    def __init__(self, story: Callable[[RunContext], Any]) -> None:
        self._story = story

    async def run(self, context: RunContext) -> PlanResult:
        result = await self._story(context)
        return result if isinstance(result, PlanResult) else PlanResult()


@dataclasses.dataclass(kw_only=True)
class StagedRun:
    run: Run
    cluster: MemoryCluster
    folder: RunFolder
    progress: list[Progress]


@pytest.fixture
def staged_run(tmp_path: Path, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StagedRun]:
    """Makes a run of `scenario` under a plan; everything else is in memory."""
    monkeypatch.setattr("harness.controller.run.STEADY_S", 0.1)

    def make(story: Callable[[RunContext], Any], *, cluster: MemoryCluster | None = None, **changes: Any) -> StagedRun:
        wanted = dataclasses.replace(scenario, **{"seed": 1, **changes})
        memory = cluster or MemoryCluster()
        folder = RunFolder.create(tmp_path / "runs", scenario=wanted.name, clock=CLOCK, seed=1, stamp="now")
        folder.write_scenario(written_out(wanted))
        workload = wanted.workload

        def make_client(*, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Client:
            return MemoryClient(memory)

        progress: list[Progress] = []
        run = Run(
            folder=folder,
            scenario=wanted,
            cluster=memory,
            plan=PlanOf(story),
            make_client=make_client,
            workers=TaskWorkers(wanted, memory, folder.history, make_client) if workload.workers else None,
            numbers=controller_numbers(workload.workers),
            clock=CLOCK,
            seed=1,
            interrupt=asyncio.Event(),
            progress=progress.append,
        )
        return StagedRun(run=run, cluster=memory, folder=folder, progress=progress)

    return make


@pytest.fixture
def scenario() -> Scenario:
    from harness.scenario.model import ClusterSpec, ExpectSpec, TopicSpec

    return Scenario(
        name="story",
        story="",
        source="",
        cluster=ClusterSpec(),
        topics=(TopicSpec(name="orders", assignment=((1, 2, 3), (2, 3, 1))),),
        workload=ProduceAndPollSettings(rate_per_second=2000, warm_up_s=0.0, producers=2, consumers=1),
        faults=(),
        steps=(),
        expect=ExpectSpec(),
        coverage={},
        recovery_timeout_s=0.6,
    )
