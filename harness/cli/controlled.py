"""Composes what commands a cluster over a socket: its session, the runs that it records, and who judges them."""

import asyncio
import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import compose
from harness.clients import catalogue as clients
from harness.cluster.local.cluster import LocalCluster, RunningCluster
from harness.cluster.local.ownership import RunOwnership
from harness.controller.control.recording import (
    RUN_NUMBERS,
    FaultContext,
    Recording,
    Waiting,
    checked_name,
    unrecorded_context,
)
from harness.controller.control.session import ControlSession
from harness.controller.control.socket_server import ControlSocket
from harness.controller.run import Run, RunOutcome
from harness.errors import HarnessError, in_a_line
from harness.history.facts import values
from harness.history.journals.journal import ProcessNumbers
from harness.history.run_folder import RunFolder
from harness.history.run_origin import stamp, versions
from harness.host.clock import SystemClock
from harness.ports.load import WorkloadSpec
from harness.scenario.model import ClusterSpec, ExpectSpec, Scenario, TopicSpec
from harness.scenario.written import written_out

STORY = "An application's own clients, tested on a cluster that its tests command."
FINDINGS_MAX, VALUES_MAX = 100, 20  # in one answer; the run's page and tables have all of them
_JUDGED = (0, 1, 3)  # exit codes of a check that has judged


class Commanded:
    """What a session needs of the rest of the program. runs: where recorded runs go. command: as the user gave it."""

    def __init__(self, *, cluster: LocalCluster, spec: ClusterSpec, folder: Path, runs: Path, command: str) -> None:
        self._cluster = cluster
        self._folder = folder
        self._runs = runs
        self._command = command
        self._clock = SystemClock()
        self._unrecorded = 0
        self._scenario = Scenario(
            name="application",
            story=STORY,
            source="",
            cluster=spec,
            topics=(),
            workload=WorkloadSpec(),
            faults=(),
            steps=(),
            expect=ExpectSpec(),
            coverage={},
            seed=1,
        )

    def session(self, end: Callable[[], None]) -> ControlSession:
        return ControlSession(unrecorded=self.unrecorded, record=self.record, judge=self.judge, end=end)

    def unrecorded(self, topics: tuple[TopicSpec, ...]) -> FaultContext:
        self._unrecorded += 1
        return unrecorded_context(
            scenario=dataclasses.replace(self._scenario, topics=topics),
            cluster=self._cluster,
            folder=self._folder / "unrecorded" / str(self._unrecorded),
            make_client=compose.CLIENTS[clients.OWN],
            clock=self._clock,
        )

    async def record(self, name: str, topics: tuple[TopicSpec, ...]) -> Recording:
        """Begins a run in a folder of its own. Raises Refused, HarnessError."""
        checked_name(name, of="record")
        scenario = dataclasses.replace(self._scenario, name=name, topics=topics)
        began = stamp(self._clock.wall_ns())
        folder = RunFolder.create(self._runs, scenario=name, clock=self._clock, seed=1, stamp=began)
        folder.write_scenario(written_out(scenario))
        folder.update(
            command=self._command,
            versions=versions(),
            system=scenario.cluster.system,
            world=scenario.cluster.world,
            workload=dataclasses.asdict(scenario.workload.facts),
        )
        first, step = RUN_NUMBERS

        async def run(plan: Waiting, interrupt: asyncio.Event) -> RunOutcome:
            with RunOwnership(folder.path):
                return await Run(
                    folder=folder,
                    scenario=scenario,
                    cluster=RunningCluster(self._cluster, began_ns=self._clock.monotonic_ns()),
                    plan=plan,
                    make_client=compose.CLIENTS[clients.OWN],
                    workers=None,
                    numbers=ProcessNumbers(first=first, step=step),
                    clock=self._clock,
                    seed=1,
                    interrupt=interrupt,
                    asks_anew=False,  # the application may read on
                ).go()

        return await Recording.begin(folder, run)

    async def judge(self, run: Path, within_s: float) -> Mapping[str, Any]:
        """By `kafka-chaos check` in a process of its own, so that its memory goes when it ends. Raises HarnessError."""
        command = [sys.executable, "-m", "harness", "check", str(run)]
        checking = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(within_s):
                _, said = await checking.communicate()
        except TimeoutError:
            raise TimeoutError(f"check: not judged within {within_s:g} s; `kafka-chaos check {run}` does so") from None
        finally:
            if checking.returncode is None:
                checking.kill()
                await checking.wait()
        if checking.returncode not in _JUDGED:
            last = (said.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            raise HarnessError(f"{run}: it could not be judged (exit code {checking.returncode}): {last}")
        return await asyncio.to_thread(found_in, RunFolder(run))


def found_in(folder: RunFolder) -> Mapping[str, Any]:
    """What a judged run's answer has: its verdict, and its findings with some of the values they are about."""
    verdict = folder.verdict()
    names = {row["value"]: row["name"] for row in folder.table("value_names").to_pylist()}
    rows = folder.table("findings").to_pylist()
    page = folder.path / "report.html"
    return {
        "run": str(folder.path),
        "page": str(page) if page.is_file() else None,
        "verdict": verdict["verdict"],
        "exit_code": verdict["exit_code"],
        "sentence": verdict["sentence"],
        "findings_in_all": len(rows),
        "findings": [
            {
                "finding": row["finding"],
                "check": row["check"],
                "class": row["classification"],
                "topic": row["topic"],
                "partition": row["partition"],
                "count": row["count"],
                "values": [values.shown(value, names) for value in (row["values"] or [])[:VALUES_MAX]],
                "sentence": row["sentence_text"],
                "cause": row["cause_text"],
            }
            for row in rows[:FINDINGS_MAX]
        ],
    }


class Control:
    """A cluster's control socket, from when it is ready until it ends. until_stdin_closes: whoever started the command
    holds its standard input open for as long as the cluster is wanted."""

    def __init__(self, path: Path, *, runs: Path, command: str, until_stdin_closes: bool) -> None:
        self.path = path.absolute()
        self._runs = runs
        self._command = command
        self._until_stdin_closes = until_stdin_closes

    async def serve(
        self,
        cluster: LocalCluster,
        spec: ClusterSpec,
        folder: Path,
        *,
        interrupt: asyncio.Event,
        ready: Callable[[], None],
    ) -> list[str]:
        """Until `interrupt` is set, or the request `end` comes; sentences on what could not be healed then."""
        commanded = Commanded(cluster=cluster, spec=spec, folder=folder, runs=self._runs, command=self._command)
        session = commanded.session(interrupt.set)
        listening = ControlSocket(self.path, session.answer, only_uid=os.geteuid())
        try:
            await listening.open()
            ready()
            if self._until_stdin_closes:
                asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _read_to_end, interrupt)
            await interrupt.wait()
        finally:
            try:
                unhealed = await session.close()
            except (HarnessError, OSError) as error:
                unhealed = [in_a_line(error)]
            await listening.close()
        return unhealed


def _read_to_end(closed: asyncio.Event) -> None:
    """Whoever started the command writes nothing there: only that its end is reached means something."""
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        closed.set()
