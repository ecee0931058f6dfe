"""The fabric as a process of its own, controlled by its commands."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from harness.cluster.local.addresses import AddressBlock
from harness.cluster.local.fabric import Route
from harness.cluster.local.fabric_control import FabricControl
from harness.cluster.local.ownership import processes_of
from harness.cluster.local.processes import Spawner
from harness.errors import HarnessError
from harness.ports.cluster import NodeId
from tests.harness.cluster.local.streams import Streams, exchange, is_silent
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.cluster

_ONE, _TWO = NodeId(1), NodeId(2)


class World:
    """Two nodes that echo on two ports, and a link each way between them."""

    def __init__(self, addresses: AddressBlock, control: FabricControl, run: Path) -> None:
        self.addresses = addresses
        self.control = control
        self.run = run
        self.servers: list[asyncio.Server] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        ports = (self.addresses.internal_port, self.addresses.controller_port)
        for node, port in product((_ONE, _TWO), ports):
            self.servers.append(await asyncio.start_server(self._echo, self.addresses.node(node), port))
        pairs = ((_ONE, _TWO), (_TWO, _ONE))
        routes = [
            Route(
                link=f"n{source}>n{target}",
                listen=(self.addresses.link(source, target), port),
                target=(self.addresses.node(target), port),
            )
            for (source, target), port in product(pairs, ports)
        ]
        await self.control.start(routes)

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(1 << 16):
                writer.write(piece)
        writer.close()

    async def connect(self, source: NodeId, target: NodeId, port: int | None = None) -> Streams:
        port = self.addresses.internal_port if port is None else port
        streams = await asyncio.open_connection(self.addresses.link(source, target), port)
        self.writers.append(streams[1])
        return streams

    async def stop(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
        await self.control.stop()
        for server in self.servers:
            server.close()
        self.addresses.release()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    control = FabricControl(spawner=Spawner(run=tmp_path), log=tmp_path / "fabric.log")
    made = World(AddressBlock([_ONE, _TWO], client_links=1), control, tmp_path)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


async def test_one_direction_is_cut_and_the_other_goes_on(world: World) -> None:
    there, back = await world.connect(_ONE, _TWO), await world.connect(_TWO, _ONE)
    for streams in (there, back):
        assert await exchange(streams, b"a") == b"a"
    seen = await world.control.command("cut", ["n1>n2"], mode="hang")
    assert seen == {"n1>n2": {"bytes": 2, "connections": 1, "cut": True}}
    there[1].write(b"b")
    assert await exchange(back, b"b") == b"b"
    assert await is_silent(there[0])
    seen = await world.control.command("look", ["n1>n2", "n2>n1"])
    assert [(seen[link]["cut"], seen[link]["bytes"]) for link in ("n1>n2", "n2>n1")] == [(True, 2), (False, 4)]
    await world.control.command("heal", ["n1>n2"], mode="resume")
    async with asyncio.timeout(PATIENCE_S):
        assert await there[0].readexactly(1) == b"b"


async def test_a_link_leads_to_every_port_of_its_target_and_is_cut_and_healed_as_one(world: World) -> None:
    both = [await world.connect(_ONE, _TWO), await world.connect(_ONE, _TWO, world.addresses.controller_port)]
    for streams in both:
        assert await exchange(streams, b"abc") == b"abc"
    seen = await world.control.command("cut", ["n1>n2"], mode="hang")
    assert seen == {"n1>n2": {"bytes": 12, "connections": 2, "cut": True}}
    for reader, writer in both:
        writer.write(b"d")
        assert await is_silent(reader)
    assert not (await world.control.command("heal", ["n1>n2"], mode="resume"))["n1>n2"]["cut"]
    for reader, _ in both:
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readexactly(1) == b"d"


async def test_a_command_that_was_broken_off_does_not_answer_for_the_next(world: World) -> None:
    cut = asyncio.create_task(world.control.command("cut", ["n1>n2"], mode="hang"))
    await asyncio.sleep(0)  # it is on its way, and its answer is not here yet
    cut.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await cut
    assert (await world.control.command("look", ["n1>n2"]))["n1>n2"]["cut"]
    assert not (await world.control.command("heal", ["n1>n2"], mode="resume"))["n1>n2"]["cut"]
    assert set(await world.control.command("look", ["n2>n1"])) == {"n2>n1"}


async def test_a_fabric_that_died_is_reported_with_the_place_of_its_log(world: World) -> None:
    (pid,) = processes_of(world.run)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(HarnessError, match=r"the link fabric does not answer; see .*/fabric\.log"):
        await world.control.command("look", ["n1>n2"])


async def test_a_stopped_fabric_ends_its_links_and_its_process(world: World) -> None:
    reader, _ = streams = await world.connect(_ONE, _TWO)
    assert await exchange(streams, b"a") == b"a"
    await world.control.stop()
    assert list(processes_of(world.run)) == []
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    with pytest.raises(ConnectionRefusedError):
        await world.connect(_ONE, _TWO)
