"""Begins and ends every fault, for schedules and for steps: finds its victims, begins it on each of them, and ends it
when its plan says so. A schedule gives a time; a step means now.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from faults.planned import PlannedFault
from harness.controller.context import RunContext
from harness.controller.faults.in_force import FaultInForce, FaultsInForce, Occasion
from harness.controller.observer import Observer
from harness.errors import HarnessError
from harness.ports.cluster import Cluster, NodeId
from harness.ports.faults import Struck


class Moment:
    """Which node held which role when this moment first looked it up: the same for all faults that begin together.

    Otherwise one fault could stop the leader while another fault of the same moment still looks for it.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._leaders: dict[tuple[str, int], int] = {}
        self._isrs: dict[tuple[str, int], tuple[int, ...]] = {}
        self._coordinators: dict[str, int] = {}
        self._controller = -1

    @property
    def controller(self) -> int:
        if self._controller < 0:
            self._controller = self._observer.controller
        return self._controller

    def leader(self, topic: str, partition: int) -> int:
        led = self._leaders.get((topic, partition), -1)
        if led < 0:
            led = self._leaders[topic, partition] = self._observer.leader(topic, partition)
        return led

    def last_leader(self, topic: str, partition: int) -> int:
        leader = self.leader(topic, partition)
        return leader if leader >= 0 else self._observer.last_leader(topic, partition)

    def coordinator(self, name: str) -> int:
        known = self._coordinators.get(name, -1)
        if known < 0:
            known = self._coordinators[name] = self._observer.coordinator(name)
        return known

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        isr = self._isrs.get((topic, partition), ())
        if not isr:
            isr = self._isrs[topic, partition] = self._observer.isr(topic, partition)
        return isr


@dataclass(frozen=True, kw_only=True)
class Victims:
    """meant: all victims, in order. unfit: those that cannot be hit, because they are down or paused already."""

    meant: tuple[NodeId, ...] = ()
    unfit: tuple[NodeId, ...] = ()

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """The victims that can be hit."""
        return tuple(node for node in self.meant if node not in self.unfit)


class FaultEngine:
    """Begins and ends faults in one run."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.in_force = FaultsInForce(context)

    def victims(self, planned: PlannedFault, *, chance: str, moment: Moment) -> Victims:
        """Raises HarnessError if no node has the role now."""
        cluster, fault = self._context.cluster, planned.fault
        if not fault.may_hit:
            return Victims()
        roles = {node.node: node.role for node in cluster.nodes}
        unfit = (
            {node for node in roles if self.in_force.state_of(node) in fault.not_while} if fault.not_while else set()
        )
        if fault.undone_by == "start":
            unfit |= {node for node in roles if self.in_force.is_starting(node)}
        found = planned.victims.resolve(
            view=moment,
            brokers=broker_ids(cluster),
            apart=[node for node, role in roles.items() if role != "broker"],
            unfit=unfit,
            chance=self._context.chance(chance),
        )
        return Victims(meant=tuple(found), unfit=tuple(node for node in found if node in unfit))

    async def begin(
        self, planned: PlannedFault, victims: Sequence[NodeId], occasion: Occasion
    ) -> tuple[list[FaultInForce], list[tuple[FaultInForce, HarnessError]]]:
        """Returns the faults now in force, and the errors: if one fails, the others are still completed.

        Raises HarnessError if there is no node, or no link, that it could hit.
        """
        begun = [
            self.in_force.ask(planned.fault, each, label=self._label(planned, each), occasion=occasion)
            for each in self._struck(planned, victims)
        ]
        failed: list[tuple[FaultInForce, HarnessError]] = []

        async def one(each: FaultInForce) -> None:
            try:
                await self.in_force.begin(each)
            except HarnessError as error:
                failed.append((each, error))

        if planned.fault.in_turn:
            for each in begun:
                await one(each)
        else:
            await asyncio.gather(*(one(each) for each in begun))
        if planned.fault.lasts_s is not None and not failed:
            await asyncio.sleep(planned.fault.lasts_s)
            await self.end(begun)
        return [each for each in begun if each not in {one for one, _ in failed}], failed

    async def end(self, faults: Sequence[FaultInForce]) -> None:
        """Ends them together. Tries all of them, then raises HarnessError for the first that could not be ended."""
        ended = await asyncio.gather(*(self.in_force.end(each) for each in faults), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    def _struck(self, planned: PlannedFault, victims: Sequence[NodeId]) -> list[Struck]:
        cluster, fault = self._context.cluster, planned.fault
        roles = {node.node: node.role for node in cluster.nodes}
        for node in victims:
            if roles[node] not in fault.may_hit:
                raise HarnessError(f"{fault.name} hits {' and '.join(fault.may_hit)}s, not {called(cluster, node)}")
        groups = [[node] for node in victims] if fault.each_apart else [list(victims)]
        topics = tuple(topic.name for topic in self._context.scenario.topics)
        clock = self._context.clock
        return [replace(fault.strikes(cluster, group), topics=topics, clock=clock) for group in groups]

    def _label(self, planned: PlannedFault, struck: Struck) -> str:
        cluster = self._context.cluster
        who = " ".join(struck.named) or " and ".join(called(cluster, node) for node in struck.nodes)
        options = ", ".join(f"{key} {value}" for key, value in planned.given.items() if key != "links")
        whose = f" of {who}" if who else ""  # elections and settings strike a topic, which is among the options
        return f"{planned.fault.name}{whose}" + (f" ({options})" if options else "")


def broker_ids(cluster: Cluster) -> list[NodeId]:
    return [node.node for node in cluster.nodes if node.role == "broker"]


def called(cluster: Cluster, node: NodeId) -> str:
    """The node's name for people: what the cluster calls it."""
    return {each.node: each.name for each in cluster.nodes}.get(node, f"broker {node}")
