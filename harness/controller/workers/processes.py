"""The harness's side of the worker processes: starts them, sends `start` and `stop`, reads their counters.

A worker that dies by itself is not a finding about the system: it makes the run inconclusive; the reason names its log.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from harness.controller.client_progress import ClientProgress
from harness.controller.context import Acknowledgements
from harness.controller.workers.acting import STOP_GRACE_S, WorkerSpec
from harness.errors import HarnessError
from harness.history.journals.journal import ProcessNumbers
from harness.ports.capabilities import SharedWithOthers
from harness.ports.cluster import AdvertisesNames, ClientId, Cluster
from harness.scenario.model import Scenario
from harness.scenario.written import workload_table

READY_S = 30.0
END_S = 3.0  # after a worker should have ended by itself


class Spawn(Protocol):
    """Starts a process of this run (registered for the sweep) with pipes for stdin and stdout, stderr to `log`."""

    def __call__(self, arguments: Sequence[str], *, log: Path) -> Awaitable[asyncio.subprocess.Process]: ...


async def spawn_plainly(arguments: Sequence[str], *, log: Path) -> asyncio.subprocess.Process:
    """Starts a process that no sweep knows; it still ends with the harness (acting.py)."""
    with log.open("ab") as errors:
        return await asyncio.create_subprocess_exec(
            *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors
        )


class Workers(Protocol):
    """All clients of the workload. Implemented by processes here; by tasks in tests and in a simulated world."""

    async def prepare(self, acks: Acknowledgements) -> None:
        """Once the cluster runs; returns when all are ready to start. What they count goes to `acks`."""

    def start(self) -> None: ...

    def ask(self, on_progress: Callable[[str, ClientProgress], None]) -> None:
        """From now on `on_progress` gets the name of a client of the load and what it tried or got, each thing once."""

    async def stop(self) -> list[str]: ...  # in-flight operations get their time-out; returns a sentence per failure

    async def kill(self) -> None: ...  # at once; idempotent


class WorkerProcesses:
    """Implements Workers. `command` starts a worker, e.g. [python, -m, harness, worker]."""

    def __init__(
        self,
        *,
        scenario: Scenario,
        cluster: Cluster,
        command: Sequence[str],
        history: Path,
        folder: Path,
        spawn: Spawn = spawn_plainly,
    ) -> None:
        self._scenario = scenario
        self._cluster = cluster
        self._command = tuple(command)
        self._history = history
        self._folder = folder
        self._acks = Acknowledgements()
        self._spawn = spawn
        self._stop_s = scenario.workload.delivery_timeout_ms / 1000 + STOP_GRACE_S
        self._workers: list[_Worker] = []
        self._on_progress: Callable[[str, ClientProgress], None] = _unasked

    async def prepare(self, acks: Acknowledgements) -> None:
        self._acks = acks
        self._folder.mkdir(parents=True, exist_ok=True)
        for spec in worker_specs(self._scenario, self._cluster, history=self._history):
            path = self._folder / f"{spec.name}.json"
            path.write_bytes(msgspec.json.encode(spec))
            log = self._folder / f"{spec.name}.log"
            process = await self._spawn([*self._command, str(path)], log=log)
            self._workers.append(
                _Worker(name=spec.name, process=process, log=log, on_counts=self._count, progress=self._progressed)
            )
        for worker in self._workers:
            await worker.wait_ready()

    def _count(self, counts: Mapping[str, int]) -> None:
        known: dict[str, Any] = {name: counts[name] for name in ("ok", "info", "fail", "polled") if name in counts}
        if known:
            self._acks.add(**known)

    def _progressed(self, name: str, progress: ClientProgress) -> None:
        self._on_progress(name, progress)

    def start(self) -> None:
        for worker in self._workers:
            worker.tell("start")

    def ask(self, on_progress: Callable[[str, ClientProgress], None]) -> None:
        self._on_progress = on_progress
        for worker in self._workers:
            worker.tell("ask")

    async def stop(self) -> list[str]:
        for worker in self._workers:
            worker.tell("stop")
        complaints = await asyncio.gather(*(worker.wait_end(self._stop_s + END_S) for worker in self._workers))
        self._workers.clear()
        return [complaint for complaint in complaints if complaint]

    async def kill(self) -> None:
        for worker in self._workers:
            await worker.kill()
        self._workers.clear()


def _unasked(name: str, progress: ClientProgress) -> None:
    raise AssertionError(f"{name} told of {progress} before it was asked")


class _Worker:
    """One worker process; passes on its counters, and what it tells, as they arrive."""

    def __init__(
        self,
        *,
        name: str,
        process: asyncio.subprocess.Process,
        log: Path,
        on_counts: Callable[[Mapping[str, int]], None],
        progress: Callable[[str, ClientProgress], None],
    ) -> None:
        self._name = name
        self._process = process
        self._log = log
        self._on_counts = on_counts
        self._progressed = progress
        self._ready = asyncio.Event()
        self._ended_well = False
        self._listening = asyncio.create_task(self._listen(), name=f"worker {name}")

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message: dict[str, Any] = msgspec.json.decode(line)
            if "ready" in message:
                self._ready.set()
            elif "ended" in message:
                self._ended_well = True
            elif "told" in message:
                self._progressed(self._name, msgspec.convert(message["told"], ClientProgress))
            else:
                self._on_counts(message)
        self._ready.set()  # no more output; wait_ready looks at the exit code

    async def wait_ready(self) -> None:
        try:
            async with asyncio.timeout(READY_S):
                await self._ready.wait()
        except TimeoutError:
            raise HarnessError(f"worker {self._name} did not come up in {READY_S:.0f} s; see {self._log}") from None
        if self._listening.done():
            raise HarnessError(f"worker {self._name} ended at its start; see {self._log}")

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(f"{command}\n".encode())

    async def wait_end(self, timeout_s: float) -> str | None:
        """Waits for its end. Returns None if it ended in time and without error; otherwise a sentence."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._listening
                code = await self._process.wait()
        except TimeoutError:
            await self.kill()
            return f"worker {self._name} did not stop in {timeout_s:.0f} s and was killed; its log is {self._log}"
        if code != 0 or not self._ended_well:
            return f"worker {self._name} ended with exit code {code}; its log is {self._log}"
        return None

    async def kill(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening


def worker_specs(scenario: Scenario, cluster: Cluster, *, history: Path) -> list[WorkerSpec]:
    """One spec per client, each with its own client link (numbered from 1); the cluster runs.

    The last process series stays free: the controller uses it for probes and final reads (`controller_numbers`).
    """
    assert scenario.seed is not None, "a run has one"
    workload = scenario.workload
    counts, table = workload.facts.clients, workload_table(workload)
    partitions = [(each.topic, each.partition) for each in scenario.partitions(workload.topics)]
    roles = [(role, place) for role, count in counts.items() for place in range(count)]
    return [
        WorkerSpec(
            name=f"{role}-{place + 1}",
            role=role,
            place=place,
            places=counts[role],
            process_first=index,
            process_step=len(roles) + 1,
            bootstrap=cluster.bootstrap(ClientId(index + 1)),
            partitions=partitions,
            workload=table,
            seed=scenario.seed,
            journal=str(history / f"{role}-{place + 1}.jsonl"),
            parent=os.getpid(),
            names=dict(cluster.names_for(ClientId(index + 1))) if isinstance(cluster, AdvertisesNames) else {},
            brokers_version=list(scenario.traits.silent_version),
            security=scenario.cluster.attached.security,
            names_before=cluster.own_names.before if isinstance(cluster, SharedWithOthers) else "",
        )
        for index, (role, place) in enumerate(roles)
    ]


def controller_numbers(workers: int) -> ProcessNumbers:
    """The series of process numbers that `worker_specs` leaves free."""
    return ProcessNumbers(first=workers, step=workers + 1)
