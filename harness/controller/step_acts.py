"""The acts of an ordered plan: begin a fault of the catalogue, end one, and acts that are not faults: produce,
configure, elect, delete and create a topic. Each returns what was seen."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

from faults import links
from faults.planned import PlannedFault
from harness.controller.context import RunContext
from harness.controller.faults.engine import FaultEngine, Moment, called
from harness.controller.faults.in_force import FaultInForce, FaultsInForce, Occasion
from harness.errors import HarnessError
from harness.ports.capabilities import CanDeleteTopics
from harness.ports.cluster import (
    CanCutLinks,
    CanReconfigure,
    Evidence,
    Link,
    NodeId,
    PartitionState,
    SendOutcome,
    TopicDefinition,
)
from harness.ports.faults import Undo
from harness.scenario.model import StepSpec
from harness.scenario.steps import values_of
from harness.values import seconds

Act = Callable[[StepSpec], Awaitable[str]]  # what was seen


class Acts:
    """Performs acts, and knows the faults that they left in force."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._engine = FaultEngine(context)
        self._later: list[asyncio.Task[None]] = []
        self._acts: Mapping[str, Act] = {
            "produce": self._produce,
            "start": self._start,
            "resume": partial(self._undo, "resume"),
            "free": partial(self._undo, "free"),
            "heal": self._heal,
            "configure": self._configure,
            "elect": self._elect,
            "delete_topic": self._delete_topic,
            "create_topic": self._create_topic,
        }

    async def perform(self, step: StepSpec, number: int) -> str:
        """Does the act and returns what was seen. Raises HarnessError when it could not be done."""
        if step.planned is not None:
            return await self._begin(step.planned, number)
        return await self._acts[next(iter(step.body))](step)

    @property
    def in_force(self) -> FaultsInForce:
        return self._engine.in_force

    async def finish(self) -> list[str]:
        """Waits for faults that end after a time (`for`), so that their end is recorded. A sentence per failure."""
        failures = []
        for task in self._later:
            try:
                await task
            except HarnessError as error:
                failures.append(str(error))
        return failures

    async def cancel(self) -> None:
        """Stops waiting for faults that end after a time (`for`); the run heals them."""
        for task in self._later:
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)

    # -- faults: one begins now, and ends after `for`, at the step that undoes its kind, or with the run --------------

    async def _begin(self, planned: PlannedFault, number: int) -> str:
        return "; ".join(self.seen(each) for each in await self.begin(planned, step=number))

    async def begin(
        self, planned: PlannedFault, *, step: int | None, trigger: str = "", chance: str = "steps"
    ) -> list[FaultInForce]:
        """What is in force now. step: its number in the plan; None where it is asked for by other means.

        Raises HarnessError when it could not be done. What a plan has begun by then the run heals; what was asked for
        by other means is healed at once, since whoever asked does not learn what there is of it.
        """
        victims = self._engine.victims(planned, chance=chance, moment=Moment(self._context.observer))
        occasion = Occasion(planned_ns=self._context.clock.monotonic_ns(), step=step, trigger=trigger)
        # A victim that is down already is not skipped silently: the cluster refuses the act, and the plan ends.
        begun, failed = await self._engine.begin(planned, victims.meant, occasion)
        if failed and step is None:
            await self._engine.end([*begun, *(each for each, _ in failed)])
        if failed:
            raise failed[0][1]
        if planned.for_s is not None:
            self._later.append(asyncio.create_task(self._end_after(begun, planned.for_s)))
        return begun

    def seen(self, fault: FaultInForce) -> str:
        done = "is over" if fault.over.is_set() else "in force"
        what = _names(fault.struck.links) or ", ".join(called(self._context.cluster, node) for node in fault.nodes)
        return f"{fault.fault.name} {done} on {what}"

    async def _end_after(self, faults: Sequence[FaultInForce], for_s: float) -> None:
        """`for = "1 s"`: the fault ends after that time while the plan goes on, unless a step undoes it before."""
        try:
            async with asyncio.timeout(self._engine.in_force.left_s(faults, for_s)):
                for fault in faults:
                    await fault.over.wait()
        except TimeoutError:
            await self._engine.end(faults)

    def _meant(self, step: StepSpec) -> list[NodeId]:
        cluster = self._context.cluster
        assert step.victims is not None, "such an act names nodes"
        return step.victims.resolve(
            view=Moment(self._context.observer),
            brokers=[node.node for node in cluster.nodes if node.role == "broker"],
            apart=[node.node for node in cluster.nodes if node.role != "broker"],
            chance=self._context.chance("steps"),
        )

    async def _start(self, step: StepSpec) -> str:
        seen: list[Evidence] = await self._engine.in_force.start(self._meant(step))
        return "; ".join(evidence.sentence for evidence in seen)

    async def _undo(self, word: Undo, step: StepSpec) -> str:
        for node in self._meant(step):
            await self._engine.in_force.end(self._engine.in_force.undone_by(word, node)[-1])
        return step.text

    async def _heal(self, step: StepSpec) -> str:
        in_force, what = self._engine.in_force, step.body["heal"]
        if isinstance(what, list):
            cluster = self._context.cluster
            if not isinstance(cluster, CanCutLinks):
                raise HarnessError("this cluster cannot name links")
            meant = in_force.on_links(links.named(cluster.links(), what))
        else:
            meant = [each for each in in_force.all() if each.fault.undone_by == "heal"]
            meant = [each for each in meant if what in ("all", each.fault.name)]
        if not meant:
            raise HarnessError(f"{step.text}: nothing of that name is in force that heal could undo")
        for fault in meant:
            await in_force.end(fault)
        return f"healed {' '.join(_names(fault.struck.links) or fault.label for fault in meant)}"

    # -- probes and administration ----------------------------------------------------------------------------------

    async def _produce(self, step: StepSpec) -> str:
        outcomes = await produce(self._context, step.body)
        refused = [outcome for outcome in outcomes if outcome.status != "ok"]
        if refused and str(step.body.get("acks", "all")) != "0":
            raise HarnessError(
                f"{step.text}: {len(refused)} of {len(outcomes)} were not acknowledged ({refused[0].error}); "
                "the story cannot go on without them"
            )
        return f"{len(outcomes)} acknowledged, offsets {outcomes[0].offset} to {outcomes[-1].offset}"

    async def _configure(self, step: StepSpec) -> str:
        cluster = _reconfigured(self._context)
        settings = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in step.body["configure"].items()
        }
        await cluster.set_topic_config(self._context.topic_of(step.body), settings)
        return ", ".join(f"{key}={value}" for key, value in settings.items())

    async def _elect(self, step: StepSpec) -> str:
        error = await elect(self._context, step.body)
        if error:
            raise HarnessError(f"{step.text}: answered with error {error}")
        return "elected"

    async def _delete_topic(self, step: StepSpec) -> str:
        return await delete(self._context, step.body)

    async def _create_topic(self, step: StepSpec) -> str:
        return await create(self._context, step.body)


def _names(links: Sequence[Link]) -> str:
    return " ".join(str(link) for link in links)


def _reconfigured(context: RunContext) -> CanReconfigure:
    if not isinstance(context.cluster, CanReconfigure):
        raise HarnessError("this cluster cannot be reconfigured and cannot be asked for an election")
    return context.cluster


async def produce(context: RunContext, body: Mapping[str, Any]) -> Sequence[SendOutcome]:
    return await context.probes.produce(
        context.topic_of(body),
        int(body.get("partition", 0)),
        values_of(body["produce"]),
        acks=cast(Literal["0", "1", "all"], str(body.get("acks", "all"))),
        timeout_s=seconds(body.get("timeout", "5 s")),
    )


async def elect(context: RunContext, body: Mapping[str, Any]) -> int:
    topic = context.topic_of(body)
    return await _reconfigured(context).elect(topic, int(body.get("partition", 0)), kind=body["elect"])


# ---- acts on whole topics -------------------------------------------------------------------------------------------


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
    return spec.definition


async def _until(context: RunContext, topic: str, holds: Callable[[list[PartitionState]], bool], else_: str) -> None:
    deadline_ns = context.clock.monotonic_ns() + int(_SEEN_S * 1e9)
    while True:
        states = await context.cluster.live_partition_states([topic])
        if holds([state for state in states if state.topic == topic]):
            return
        if context.clock.monotonic_ns() > deadline_ns:
            raise HarnessError(f"topic {topic} {else_} {_SEEN_S:g} s after the request")
        await asyncio.sleep(_LOOK_AGAIN_S)
