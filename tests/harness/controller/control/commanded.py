"""A cluster in memory under command, and somebody who asks it over its socket."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.controller.control.recording import RUN_NUMBERS, FaultContext, Recording, Waiting, unrecorded_context
from harness.controller.control.session import ControlSession
from harness.controller.control.socket_server import ControlSocket
from harness.controller.run import Run, RunOutcome
from harness.history.journals.journal import ProcessNumbers
from harness.history.run_folder import RunFolder
from harness.ports.clients import ClientUse
from harness.ports.cluster import Client
from harness.ports.load import WorkloadSpec
from harness.scenario.model import TopicSpec
from harness.scenario.written import written_out
from tests.harness.controller.fault_world import FaultyClient, FaultyCluster, scenario_of
from tests.jumping_time import CLOCK


class OfItsSession(FaultyCluster):
    """A recorded run neither starts nor stops it."""

    async def start(self) -> None:
        self.running = self.running or {1, 2, 3}

    async def stop(self) -> None:
        """The session does."""


class Asking:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def line(self, text: bytes) -> Mapping[str, Any]:
        self.writer.write(text)
        return await self.answer()

    async def answer(self) -> Mapping[str, Any]:
        answered: Mapping[str, Any] = json.loads(await self.reader.readuntil(b"\n"))
        return answered

    async def ask(self, **request: Any) -> Mapping[str, Any]:
        return await self.line(json.dumps(request).encode() + b"\n")

    async def is_closed(self) -> bool:
        return await self.reader.read() == b""

    def close(self) -> None:
        self.writer.close()


@dataclass(kw_only=True)
class Commanded:
    cluster: FaultyCluster
    session: ControlSession
    path: Path
    ended: asyncio.Event
    judged: list[Path] = field(default_factory=list)
    connections: list[Asking] = field(default_factory=list)

    async def connect(self) -> Asking:
        asking = Asking(*await asyncio.open_unix_connection(str(self.path)))
        self.connections.append(asking)
        return asking


@contextlib.asynccontextmanager
async def commanded(folder: Path, *, uid: int | None = None) -> AsyncIterator[Commanded]:
    cluster = OfItsSession()
    await cluster.start()
    ended = asyncio.Event()
    nothing = replace(scenario_of(), topics=())
    judged: list[Path] = []

    def make_client(*, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Client:
        return FaultyClient(cluster)

    def unrecorded(topics: tuple[TopicSpec, ...]) -> FaultContext:
        return unrecorded_context(
            scenario=replace(nothing, topics=topics),
            cluster=cluster,
            folder=folder / "unrecorded",
            make_client=make_client,
            clock=CLOCK,
        )

    async def record(name: str, topics: tuple[TopicSpec, ...]) -> Recording:
        run_folder = RunFolder.create(folder / "runs", scenario=name, clock=CLOCK, seed=1, stamp="20260101-000000")
        scenario = replace(nothing, name=name, topics=topics)
        run_folder.write_scenario(written_out(scenario))

        async def run(plan: Waiting, interrupt: asyncio.Event) -> RunOutcome:
            first, step = RUN_NUMBERS
            return await Run(
                folder=run_folder,
                scenario=scenario,
                cluster=cluster,
                plan=plan,
                make_client=make_client,
                workers=None,
                numbers=ProcessNumbers(first=first, step=step),
                clock=CLOCK,
                seed=1,
                interrupt=interrupt,
            ).go()

        return await Recording.begin(run_folder, run)

    async def judge(run: Path, within_s: float) -> Mapping[str, Any]:
        judged.append(run)
        return {"verdict": "pass", "run": str(run)}

    session = ControlSession(unrecorded=unrecorded, record=record, judge=judge, end=ended.set)
    path = folder / "control"
    listening = ControlSocket(path, session.answer, only_uid=os.geteuid() if uid is None else uid)
    await listening.open()
    made = Commanded(cluster=cluster, session=session, path=path, ended=ended, judged=judged)
    try:
        yield made
    finally:
        for connection in made.connections:
            connection.close()
        await session.close()
        await listening.close()
