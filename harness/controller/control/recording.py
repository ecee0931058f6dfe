"""Where faults come about: a cluster, one engine, and the topics that were named so far; and a recording, which has a
context of its own: a run whose load is somebody else's application. The session (session.py) acts on whichever is the
present one.

A recording's run is `Run`, as of any scenario; its plan waits until the application has been tested, and meanwhile
whoever commands the cluster acts in its place. The application's clients write the journals, each under a process
number that it is given here.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.controller.context import PlanResult, RunContext
from harness.controller.control.requests import Refused
from harness.controller.observer import Observer
from harness.controller.probes import Probes
from harness.controller.recorder import Recorder
from harness.controller.run import RunOutcome
from harness.controller.step_acts import Acts
from harness.history.journals.journal import ProcessNumbers
from harness.history.run_folder import RunFolder
from harness.history.schema.client_rows import FLOWS
from harness.host.clock import Clock
from harness.ports.cluster import ClientMaker, Cluster
from harness.scenario.model import Scenario, TopicSpec


@dataclass(frozen=True, kw_only=True)
class FaultContext:
    """context: what acts and waits act on. folder: where what is recorded goes."""

    context: RunContext
    acts: Acts
    folder: Path

    def knows(self, topics: tuple[TopicSpec, ...]) -> None:
        """Acts and waits may name these topics, too, from now on."""
        context = self.context
        context.scenario = replace(context.scenario, topics=(*context.scenario.topics, *topics))
        context.observer.watch([topic.name for topic in topics])

    async def close(self) -> list[str]:
        """Heals what is in force and stops looking; one sentence for each fault that could not be healed."""
        await self.acts.cancel()
        unhealed = await self.context.heal_everything()
        await self.context.observer.stop()
        self.context.recorder.close()
        return unhealed


def unrecorded_context(
    *,
    scenario: Scenario,
    cluster: Cluster,
    folder: Path,
    make_client: ClientMaker,
    clock: Clock,
) -> FaultContext:
    """Of a running cluster. What its faults leave in `folder` is judged by nobody."""
    recorder = Recorder(folder=folder, clock=clock)
    topics = [topic.name for topic in scenario.topics]
    context = RunContext(
        scenario=scenario,
        cluster=cluster,
        observer=Observer(cluster=cluster, topics=topics, clock=clock, recorder=recorder),
        recorder=recorder,
        clock=clock,
        seed=scenario.seed or 1,
        probes=Probes(
            make_client=make_client,
            bootstrap=cluster.bootstrap,
            settings=scenario.workload,
            folder=folder,
            clock=clock,
            numbers=ProcessNumbers(first=0, step=1),
        ),
    )
    context.observer.start()
    return FaultContext(context=context, acts=Acts(context), folder=folder)


# The run's own clients (probes, final reads) have the odd numbers, the application's the even ones.
RUN_NUMBERS, APPLICATION_NUMBERS = (1, 2), (0, 2)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")


def checked_name(name: str, *, of: str) -> str:
    """It becomes part of a file's name. Raises Refused."""
    if not _NAME.fullmatch(name):
        raise Refused("bad-request", f"{of}: {name[:100]!r} is no name: a-z, 0-9, - and _ alone, at most 60 of them")
    return name


class Waiting:
    """The plan of a recorded run: it is over when `release` is called. `begun` has the run's context by then."""

    def __init__(self) -> None:
        self.begun: asyncio.Future[RunContext] = asyncio.get_running_loop().create_future()
        self._released = asyncio.Event()

    async def run(self, context: RunContext) -> PlanResult:
        self.begun.set_result(context)
        await self._released.wait()
        return PlanResult()

    def release(self) -> None:
        self._released.set()


class Recording:
    """One run, between its first act and its verdict."""

    def __init__(
        self,
        *,
        folder: RunFolder,
        plan: Waiting,
        interrupt: asyncio.Event,
        outcome: "asyncio.Task[RunOutcome]",
        faults: FaultContext,
    ) -> None:
        self.folder = folder
        self._interrupt = interrupt
        self.faults = faults
        self._plan = plan
        self._outcome = outcome
        self._numbers = ProcessNumbers(first=APPLICATION_NUMBERS[0], step=APPLICATION_NUMBERS[1])

    @classmethod
    async def begin(
        cls,
        folder: RunFolder,
        run: Callable[[Waiting, asyncio.Event], Coroutine[Any, Any, RunOutcome]],
    ) -> "Recording":
        """Returns when the topics have leaders. `run`: with a plan, and what interrupts it, until it is sealed.

        Raises Refused where the run could not be begun.
        """
        plan, interrupt = Waiting(), asyncio.Event()
        outcome = asyncio.create_task(run(plan, interrupt))
        both: list[asyncio.Future[Any]] = [outcome, plan.begun]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not plan.begun.done():
            raise Refused("failed", (await outcome).error or "the recording ended before it began")
        context = plan.begun.result()
        faults = FaultContext(context=context, acts=Acts(context), folder=folder.path)
        return cls(folder=folder, plan=plan, interrupt=interrupt, outcome=outcome, faults=faults)

    def new_journal(self, name: str) -> tuple[Path, int]:
        """The file that one client of the application writes, and its process number. Raises Refused."""
        checked_name(name, of="client")
        number = self._numbers.next()
        return self.folder.history / f"application-{name}-{number}.jsonl", number

    def holds_to(self, flows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of the table flows, of what the application has committed by now."""
        context = self.faults.context
        for flow in flows:
            context.recorder.write(FLOWS.name, {**flow, "asked_ns": context.clock.monotonic_ns()})

    async def end(self) -> RunOutcome:
        """Heals, waits for recovery, reads back, collects and seals, as every run does."""
        await self.faults.acts.cancel()
        self._plan.release()
        return await self._outcome

    async def break_off(self) -> RunOutcome:
        """The cluster is about to end: heals and seals, and reads nothing back."""
        await self.faults.acts.cancel()
        self._interrupt.set()
        return await self._outcome
