"""A plan of faults by time and by trigger: each waits for its moment on its own, finds its victims by role, harms them,
and heals them after its time. The schedule that ran is written out, so that running it again is the same plan."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from harness.controller.context import PlanResult, RunContext, SkippedFault
from harness.controller.in_force import FaultsInForce
from harness.errors import HarnessError, UsageError
from harness.interfaces import Cluster, Fault, NodeId
from harness.scenario import FaultSpec, Scenario

_DOWN = ("kill", "stop", "wipe", "damage")
# What a node must not be under when a fault of a kind begins: the dead cannot be killed, and the paused do not stop.
_NOT_WHILE = {
    **dict.fromkeys(("kill", "wipe", "damage", "full"), _DOWN),
    **dict.fromkeys(("stop", "pause"), (*_DOWN, "pause")),
}
_GRACE_S = 1.0  # for finding victims when the plan's time is over as the fault begins


class Trigger(Protocol):
    """What a trigger's text means; faults/triggers.py parses it."""

    @property
    def kind(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def count(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class FaultBook:
    """What the fault catalogue offers a plan; compose fills it in, since the controller knows no fault by name."""

    make: Callable[[FaultSpec, Sequence[str]], Fault]
    resolve: Callable[..., list[NodeId]]
    trigger: Callable[[str], Trigger]
    written_out: Callable[..., tuple[FaultSpec, ...]]


class Disturbance:
    """Runs for the workload's duration, or longer when a fault that has begun still has to end."""

    def __init__(self, *, scenario: Scenario, book: FaultBook) -> None:
        self._scenario = scenario
        self._book = book

    async def run(self, context: RunContext) -> PlanResult:
        duration_s = self._scenario.workload.duration_s
        schedule = self._book.written_out(
            self._scenario.faults, duration_s=duration_s, chance=context.chance("schedule")
        )
        in_force = FaultsInForce(context)
        loop = asyncio.get_running_loop()
        began = loop.time()
        missed: list[str] = []
        skipped: list[SkippedFault] = []
        async with asyncio.TaskGroup() as group:
            for number, spec in enumerate(schedule):
                group.create_task(self._one(context, in_force, number, spec, began, duration_s, missed, skipped))
            group.create_task(asyncio.sleep(duration_s))
        return PlanResult(
            inconclusive=tuple(missed), skipped=tuple(skipped), scenario=replace(self._scenario, faults=schedule)
        )

    async def _one(
        self,
        context: RunContext,
        in_force: FaultsInForce,
        number: int,
        spec: FaultSpec,
        began: float,
        duration_s: float,
        missed: list[str],
        skipped: list[SkippedFault],
    ) -> None:
        loop = asyncio.get_running_loop()
        end = began + duration_s
        if spec.when is not None:
            try:
                async with asyncio.timeout_at(end):
                    await self._triggered(context, self._book.trigger(spec.when))
            except TimeoutError:
                skipped.append(_skipped(spec, "no-trigger"))
                return
            await asyncio.sleep(spec.delay_s)
        else:
            assert spec.at_s is not None, "a schedule that was written out has times only"
            await asyncio.sleep(max(0.0, began + spec.at_s - loop.time()))
        fault = self._book.make(spec, [topic.name for topic in self._scenario.topics])
        try:
            async with asyncio.timeout_at(max(end, loop.time() + _GRACE_S)):
                victims = await self._victims(context, in_force, fault.kind, spec, number)
        except TimeoutError:
            skipped.append(_skipped(spec, "no-victim"))
            return
        try:
            await self._harm(context, in_force, fault, spec, victims)
        except HarnessError as error:
            if fault.kind == "pause" and any(in_force.of_node(node, _DOWN) for node in victims):
                skipped.append(_skipped(spec, "no-victim"))  # another fault ended it before it was seen to stand still
                return
            missed.append(f"fault {_label(spec, context.cluster, victims)}: {error}")

    async def _harm(
        self, context: RunContext, in_force: FaultsInForce, fault: Fault, spec: FaultSpec, victims: Sequence[NodeId]
    ) -> None:
        begun = await in_force.begin(
            kind=fault.kind,
            label=_label(spec, context.cluster, victims),
            nodes=victims,
            begin=lambda: fault.begin(context.cluster, victims),
            end=lambda: fault.end(context.cluster, victims),
            links=lambda: " ".join(str(link) for link in getattr(fault, "links", ())),
            trigger=_trigger(spec),
        )
        if not getattr(fault, "lasts", True):  # a rolling restart is over when it has begun
            await in_force.end(begun)
        elif spec.for_s is not None:
            await asyncio.sleep(spec.for_s)
            await in_force.end(begun)

    async def _victims(
        self, context: RunContext, in_force: FaultsInForce, kind: str, spec: FaultSpec, number: int
    ) -> list[NodeId]:
        """Who holds the role, as soon as somebody does whom no other fault has down: schedules may overlap."""
        brokers = broker_ids(context.cluster)
        apart = [node.node for node in context.cluster.nodes if node.role != "broker"]
        while True:
            chance = context.chance(f"faults/{number}")
            try:
                victims = self._book.resolve(
                    spec.target or "all", view=context.observer, brokers=brokers, apart=apart, chance=chance
                )
            except UsageError:
                raise
            except HarnessError:  # nobody has that role now
                await context.observer.next_round()
                continue
            others = [fault for node in victims for fault in in_force.of_node(node, _NOT_WHILE.get(kind, ()))]
            if not others:
                return victims
            await others[0].over.wait()

    async def _triggered(self, context: RunContext, trigger: Trigger) -> None:
        if trigger.kind == "acks":
            await context.acks.wait_for(trigger.count)
            return
        observer = context.observer
        first = observer.leader(trigger.topic, trigger.partition)
        while True:
            if trigger.kind == "new_leader":
                leader = observer.leader(trigger.topic, trigger.partition)
                if leader not in (-1, first) and first != -1:
                    return
                first = leader if first == -1 else first
            elif 0 < len(observer.isr(trigger.topic, trigger.partition)) <= trigger.count:
                return
            await observer.next_round()


def broker_ids(cluster: Cluster) -> list[NodeId]:
    return [node.node for node in cluster.nodes if node.role == "broker"]


def called(cluster: Cluster, node: NodeId) -> str:
    """How people name it: "broker 1", or what the cluster calls a node that is no broker."""
    apart = {each.node: each.name for each in cluster.nodes if each.role != "broker"}
    return apart.get(node, f"broker {node}")


def _skipped(spec: FaultSpec, why: Literal["no-trigger", "no-victim"]) -> SkippedFault:
    return SkippedFault(kind=spec.kind, target=spec.target or "all", trigger=_trigger(spec), why=why)


def _trigger(spec: FaultSpec) -> str:
    return spec.when or f"at {spec.at_s:g} s"


def _label(spec: FaultSpec, cluster: Cluster, victims: Sequence[NodeId]) -> str:
    who = " and ".join(called(cluster, node) for node in victims)
    options = ", ".join(f"{key} {value}" for key, value in spec.options.items())
    return f"{spec.kind} of {who}" + (f" ({options})" if options else "")
