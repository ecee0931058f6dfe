"""A plan of faults by time and by trigger: each begins at its moment, whatever the others do, and ends after its time.

The plan does not wait for a node that cannot be hit at that moment: the fault begins on the other victims, or is
skipped, and the run reports it. It waits only for a role that no node holds for a while, as between two leaders, and
for the end of a fault that has to be alone; then the fault begins late, and the run reports by how much. The schedule
is written out, so that a rerun is the same plan.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from faults.planned import PlannedFault
from harness.controller.context import PlanResult, RunContext, SkippedFault
from harness.controller.faults.awaited import Awaited
from harness.controller.faults.engine import FaultEngine, Moment, Victims, called
from harness.controller.faults.in_force import FaultInForce, Occasion
from harness.errors import HarnessError, UsageError
from harness.ports.faults import Fault, NothingToStrike
from harness.scenario.model import FaultSpec, Scenario

_GRACE_S = 1.0  # to find victims when the plan's time ends as the fault begins
_ALONE_S = 10.0  # how long a fault waits until it, or the one that has to be alone, has no other beside it


class FaultSchedule:
    """Runs for the workload's duration, or longer if a fault that has begun must still end."""

    def __init__(self, *, scenario: Scenario) -> None:
        self._scenario = scenario

    async def run(self, context: RunContext) -> PlanResult:
        workload = self._scenario.workload
        load_began_ns = context.load_began_ns
        warmed_s = 0.0 if load_began_ns is None else workload.warm_up_s
        began_ns = load_began_ns if load_began_ns is not None else context.clock.monotonic_ns()
        played = _Played(context, began_ns=began_ns, warmed_s=warmed_s, duration_s=workload.duration_s)
        async with asyncio.TaskGroup() as group:
            for number, spec in enumerate(self._scenario.faults):
                group.create_task(played.one(number, spec))
            group.create_task(played.until(workload.duration_s))
        return PlanResult(inconclusive=tuple(played.missed), skipped=tuple(played.skipped))


class _Played:
    """One execution of a schedule; times are seconds since the load began."""

    def __init__(self, context: RunContext, *, began_ns: int, warmed_s: float, duration_s: float) -> None:
        self._context = context
        self._engine = FaultEngine(context)
        self._began_ns = began_ns
        self._warmed_s = warmed_s
        self._duration_s = duration_s
        self._awaited = Awaited(context, self._engine.in_force, began_ns=began_ns)
        self._moments: dict[tuple[float | None, str | None, float, int], Moment] = {}
        self.missed: list[str] = []
        self.skipped: list[SkippedFault] = []

    async def until(self, second: float) -> None:
        await asyncio.sleep(max(0.0, self._left_s(second)))

    def _left_s(self, second: float) -> float:
        return second - (self._context.clock.monotonic_ns() - self._began_ns) / 1e9

    async def one(self, number: int, spec: FaultSpec) -> None:
        """Waits for the fault's moment, finds its victims, begins it on them, and ends it after its time; as often as
        it may begin and its trigger comes."""
        planned = spec.planned
        for time in range(spec.times):
            planned_ns = await self._its_moment(spec)
            if planned_ns is None:
                if time == 0:
                    self._skip(spec, "no-trigger")
                return
            await self._once(number, spec, planned, planned_ns, time)

    async def _once(self, number: int, spec: FaultSpec, planned: PlannedFault, planned_ns: int, time: int) -> None:
        moment = self._moments.setdefault((spec.at_s, spec.when, spec.delay_s, time), Moment(self._context.observer))
        if not self._engine.in_force.lets_begin(planned.fault):
            if not await self._free(planned.fault):
                self._skip(spec, "not-alone")
                return
            moment = Moment(self._context.observer)  # roles may have moved
        victims = await self._victims(planned, f"faults/{number}/{time}" if time else f"faults/{number}", moment)
        if not victims.nodes and planned.fault.may_hit:
            self._skip(spec, "no-victim")
            return
        for node in victims.unfit:
            self._skip(replace(spec, target=called(self._context.cluster, node)), "no-victim")
        occasion = Occasion(planned_ns=planned_ns, trigger=_trigger(spec), scheduled=number)
        await self._begin_and_end(planned, victims, occasion, spec)

    async def _free(self, fault: Fault) -> bool:
        """Waits until nothing in force forbids the fault to begin; returns False if that takes too long."""
        in_force = self._engine.in_force
        try:
            async with asyncio.timeout(max(0.0, min(_ALONE_S, self._left_s(self._duration_s)))):
                while not in_force.lets_begin(fault):
                    await in_force.one_is_over()
        except TimeoutError:
            return False
        return True

    async def _its_moment(self, spec: FaultSpec) -> int | None:
        """Waits for the fault's moment. Returns the planned time; None if its trigger never fired."""
        clock = self._context.clock
        if spec.when is None:
            assert spec.at_s is not None, "a schedule that was written out has times only"
            at_s = max(spec.at_s, self._warmed_s)
            await self.until(at_s)
            return self._began_ns + int(at_s * 1e9)
        try:
            async with asyncio.timeout(max(0.0, self._left_s(self._duration_s))):
                await self._awaited.all_of(spec.trigger)
        except TimeoutError:
            return None
        planned_ns = clock.monotonic_ns() + int(spec.delay_s * 1e9)
        await asyncio.sleep(spec.delay_s)
        return planned_ns

    async def _victims(self, planned: PlannedFault, chance: str, moment: Moment) -> Victims:
        """The nodes that hold the role now; if none of them can be hit, the next holders before the plan's end."""
        look_again = bool(planned.fault.may_hit) and planned.victims.by_role
        found = Victims()
        try:
            async with asyncio.timeout(max(self._left_s(self._duration_s), _GRACE_S)):
                while True:
                    try:
                        found = self._engine.victims(planned, chance=chance, moment=moment)
                    except UsageError:
                        raise
                    except HarnessError:  # no node has that role now
                        found = Victims()
                    if found.nodes or not look_again:
                        return found
                    await self._context.observer.next_round()
                    moment = Moment(self._context.observer)  # looks again: roles move
        except TimeoutError:
            return found

    async def _begin_and_end(
        self, planned: PlannedFault, victims: Victims, occasion: Occasion, spec: FaultSpec
    ) -> None:
        engine = self._engine
        if not engine.in_force.lets_begin(planned.fault):
            self._skip(spec, "not-alone")
            return
        try:
            begun, failed = await engine.begin(planned, victims.nodes, occasion)
        except HarnessError as error:
            if isinstance(error, NothingToStrike) and planned.victims.by_role:
                self._skip(spec, "no-victim")  # whoever has the role now has no link of that kind
                return
            self.missed.append(f"fault {spec.kind} ({occasion.trigger}): {error}")
            return
        for each, why in failed:
            if isinstance(why, NothingToStrike):
                self._skip(spec, "no-victim")
                await self._end([each], occasion, spec)  # what there may be of it
            elif each.fault.leaves == "paused" and any(engine.in_force.state_of(node) == "down" for node in each.nodes):
                self._skip(spec, "no-victim")  # another fault ended it before it took effect
            else:
                self.missed.append(f"fault {each.label}: {why}")
        if spec.for_s is not None and planned.fault.lasts_s is None:
            await asyncio.sleep(engine.in_force.left_s(begun, spec.for_s))
            await self._end(begun, occasion, spec)

    async def _end(self, begun: Sequence[FaultInForce], occasion: Occasion, spec: FaultSpec) -> None:
        try:
            await self._engine.end(begun)
        except HarnessError as error:
            self.missed.append(f"fault {spec.kind} ({occasion.trigger}), as it ended: {error}")

    def _skip(self, spec: FaultSpec, why: Literal["no-trigger", "no-victim", "not-alone"]) -> None:
        self.skipped.append(SkippedFault(kind=spec.kind, target=spec.target or "all", trigger=_trigger(spec), why=why))


def _trigger(spec: FaultSpec) -> str:
    return spec.when or f"at {spec.at_s:g} s"
