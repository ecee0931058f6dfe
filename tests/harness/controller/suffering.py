"""Schedules that a cluster in memory suffers, each in a world of its own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any

from harness.controller.context import PlanResult
from harness.controller.fault_schedule import FaultSchedule
from harness.scenario.model import FaultSpec, Scenario
from tests.harness.controller.fault_world import FaultWorld, fault_world, scenario_of

Meddle = Callable[[FaultWorld], Coroutine[Any, Any, None]]


def schedule_of(scenario: Scenario) -> FaultSchedule:
    return FaultSchedule(scenario=scenario)


@contextlib.asynccontextmanager
async def sufferer(folder: Path) -> AsyncIterator[Any]:
    """What it gives runs a schedule; `during` meddles meanwhile."""
    numbers = count()
    async with contextlib.AsyncExitStack() as worlds:

        async def suffer(
            *faults: FaultSpec,
            duration_s: float = 0.15,
            during: Meddle | None = None,
            obstacle: str = "",
            seed: int = 1,
        ) -> tuple[PlanResult, FaultWorld]:
            scenario = scenario_of(faults=faults, duration_s=duration_s)
            world = await worlds.enter_async_context(fault_world(folder / str(next(numbers)), scenario))
            world.cluster.obstacle = obstacle
            world.context.seed = seed
            meddling = asyncio.create_task(during(world)) if during is not None else None
            result = await schedule_of(scenario).run(world.context)
            if meddling is not None:
                await meddling
            return result, world

        yield suffer
