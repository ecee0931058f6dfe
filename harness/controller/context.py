"""What a plan works with: the cluster, the observer, the recorder, random numbers, and small clients of its own.

A plan begins and ends faults itself, and registers for each how to undo it (`heal_later`). At the end the run heals
every fault that is still in force, newest first.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from harness.controller.observer import Observer
from harness.controller.probes import Probes
from harness.controller.recorder import Recorder
from harness.errors import HarnessError, UsageError
from harness.host.clock import Clock
from harness.host.randomness import stream
from harness.ports.cluster import Cluster, NodeId, ShowsLogs
from harness.ports.coordinator_logs import ShowsCoordinatorLogs
from harness.scenario.model import Scenario


class Acknowledgements:
    """Counts the outcomes of the workers' sends and polls. `wait_for` is the trigger "after the n-th ack"."""

    def __init__(self) -> None:
        self.ok = 0
        self.info = 0
        self.fail = 0
        self.polled = 0
        self._changed = asyncio.Event()

    def add(self, *, ok: int = 0, info: int = 0, fail: int = 0, polled: int = 0) -> None:
        self.ok += ok
        self.info += info
        self.fail += fail
        self.polled += polled
        woken, self._changed = self._changed, asyncio.Event()
        woken.set()

    async def wait_for(self, count: int) -> None:
        """Returns when `count` records in total are acknowledged, counted from the start of the load."""
        while self.ok < count:
            await self._changed.wait()

    async def changed(self) -> None:
        await self._changed.wait()


@dataclass(frozen=True, kw_only=True)
class SkippedFault:
    """A planned fault that could not begin: its trigger never fired, or its victims were never there or never up."""

    kind: str
    target: str
    trigger: str
    why: Literal["no-trigger", "no-victim", "not-alone"]


@dataclass(frozen=True, kw_only=True)
class PlanResult:
    """inconclusive: one sentence per wait that timed out.

    ended_at: the step that ended the plan; one of the sentences is about it.
    skipped: does not change the verdict; a scenario that needs these faults says so in its coverage conditions.
    """

    inconclusive: tuple[str, ...] = ()
    ended_at: int | None = None
    skipped: tuple[SkippedFault, ...] = ()


Heal = Callable[[], Awaitable[None]]


@dataclass(kw_only=True)
class RunContext:
    """One per run. `workload_running` is set while the workers send; `stopping` is set by the first Ctrl-C.

    A plan need not look at `stopping`: its task is cancelled, and what it registered with `heal_later` is healed.
    """

    scenario: Scenario
    cluster: Cluster
    observer: Observer
    recorder: Recorder
    clock: Clock
    seed: int
    probes: Probes
    acks: Acknowledgements = field(default_factory=Acknowledgements)
    workload_running: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    load_began_ns: int | None = None
    _heals: dict[int, tuple[str, Heal]] = field(default_factory=dict)
    _next_heal: int = 0

    def topic_of(self, body: Mapping[str, Any]) -> str:
        """The topic that a step names, or the scenario's first. Raises UsageError where there is none."""
        if "topic" in body:
            return str(body["topic"])
        if not self.scenario.topics:
            raise UsageError(f"{next(iter(body), 'this')}: name a topic, for there is none yet")
        return self.scenario.topics[0].name

    def chance(self, name: str) -> random.Random:
        """A separate random stream for each user and purpose, e.g. "faults/3"."""
        return stream(self.seed, name)

    # -- healing ----------------------------------------

    def heal_later(self, label: str, heal: Heal) -> int:
        """Makes sure that `heal` is called, by the run if not by the plan. Call it BEFORE the fault begins."""
        self._next_heal += 1
        self._heals[self._next_heal] = (label, heal)
        return self._next_heal

    def healed(self, number: int) -> None:
        """The plan has undone the fault itself: the run no longer needs to."""
        self._heals.pop(number, None)

    async def heal_everything(self) -> list[str]:
        """Undoes what is in force, newest first. Returns one sentence for each fault that could not be undone."""
        failures = []
        while self._heals:  # meanwhile the time of others may end, which the plan then undoes itself
            label, heal = self._heals.pop(max(self._heals))
            try:
                await heal()
            except (HarnessError, OSError, TimeoutError) as error:
                failures.append(f"healing {label!r} failed: {error}")
        return failures

    # -- the replicas' disks ----------------------------------------

    async def snapshot(
        self,
        reason: Literal["kill", "heal", "wipe", "restart", "end"],
        node: int,
        *,
        topics: Sequence[str] | None = None,
    ) -> None:
        """Reads the node's replica logs into the history; does nothing if the cluster does not show its disks.

        Take one after each kill and before each heal, resume, restart and wipe: a log may be cut right afterwards.
        """
        cluster = self.cluster
        if isinstance(cluster, ShowsLogs):
            await asyncio.to_thread(self._read_replicas, cluster, reason, NodeId(node), topics)

    def _read_replicas(self, cluster: ShowsLogs, reason: str, node: NodeId, topics: Sequence[str] | None) -> None:
        wanted = self.scenario.topic_names if topics is None else topics
        logs = [log for log in cluster.read_replicas(node) if log.topic in wanted]
        self.recorder.replica_logs(reason, int(node), logs)
        if reason == "wipe" and isinstance(cluster, ShowsCoordinatorLogs):
            self.recorder.coordinator_logs(reason, cluster.read_coordinator_logs(node))


class Plan(Protocol):
    """Faults by time, chance and trigger, or ordered steps. `run` returns at its end; an interrupt cancels it."""

    async def run(self, context: RunContext) -> PlanResult: ...
