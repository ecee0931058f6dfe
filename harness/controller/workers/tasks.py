"""The workload's clients as tasks of the harness's own loop: the same work as the worker processes', and no process."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from harness.controller.client_progress import ClientProgress, ProgressReporter
from harness.controller.context import Acknowledgements
from harness.controller.workers.acting import STOP_GRACE_S, act, settings_of
from harness.controller.workers.processes import worker_specs
from harness.host.clock import Clock
from harness.ports.cluster import ClientMaker, Cluster
from harness.scenario.model import Scenario

_COUNTED = ("ok", "info", "fail", "polled")


class Begin(Protocol):
    """Has the work done as that client's; its task."""

    def __call__(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]": ...


class WorkerTasks:
    """Implements Workers."""

    def __init__(
        self,
        *,
        scenario: Scenario,
        cluster: Cluster,
        make_client: ClientMaker,
        history: Path,
        clock: Clock,
        begin: Begin,
    ) -> None:
        self._scenario = scenario
        self._cluster = cluster
        self._make_client = make_client
        self._history = history
        self._clock = clock
        self._begin = begin
        self._acks = Acknowledgements()
        self._until = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._progress: dict[str, ProgressReporter] = {}
        self._on_progress: Callable[[str, ClientProgress], None] | None = None

    async def prepare(self, acks: Acknowledgements) -> None:
        self._acks = acks

    def start(self) -> None:
        for spec in worker_specs(self._scenario, self._cluster, history=self._history):
            progress = self._progress[spec.name] = ProgressReporter(self._teller(spec.name))
            work = act(
                spec,
                settings=settings_of(spec),
                make_client=self._make_client,
                until=self._until,
                count=self._counted,
                clock=self._clock,
                progress=progress,
            )
            self._tasks[spec.name] = self._begin(spec.name, work)

    def _teller(self, name: str) -> Callable[[dict[str, Any]], None]:
        def tell(progress: Any) -> None:
            assert self._on_progress is not None, "nothing is told before it is asked"
            self._on_progress(name, msgspec.convert(progress, ClientProgress, from_attributes=True))

        return tell

    def _counted(self, counts: Mapping[str, int]) -> None:
        known = {name: counts[name] for name in _COUNTED if name in counts}
        if known:
            self._acks.add(**known)

    def ask(self, on_progress: Callable[[str, ClientProgress], None]) -> None:
        self._on_progress = on_progress
        for progress in self._progress.values():
            progress.ask()

    async def stop(self) -> list[str]:
        """Operations in flight may still be answered: they get the client's own time-outs."""
        self._until.set()
        if self._tasks:
            await asyncio.wait(
                list(self._tasks.values()), timeout=self._scenario.workload.delivery_timeout_ms / 1000 + STOP_GRACE_S
            )
        complaints = [complaint for name, task in self._tasks.items() if (complaint := _complaint(name, task))]
        await self.kill()
        return complaints

    async def kill(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _complaint(name: str, task: "asyncio.Task[None]") -> str:
    if not task.done():
        return f"worker {name} did not stop in time and was ended"
    error = None if task.cancelled() else task.exception()
    return "" if error is None else f"worker {name} ended with {type(error).__name__}: {error}"
