"""Brokers from before Kafka 0.10, observed: what their Metadata leaves out comes from ZooKeeper's transaction log."""

import asyncio
import contextlib
import json
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.cluster.books.observing import ZookeeperObservation
from harness.errors import HarnessError
from harness.host.clock import SystemClock
from harness.ports.cluster import NodeId

_CREATE, _CLOSE = 1, -11
_HEADER = struct.pack(">iiq", int.from_bytes(b"ZKLG", "big"), 2, 0)
_METADATA = 3


def buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def entry(zxid: int, kind: int, body: bytes, *, session: int) -> bytes:
    record = struct.pack(">qiqqi", session, zxid, zxid, 1000 + zxid, kind) + body
    return struct.pack(">qi", zlib.adler32(record), len(record)) + record + b"B"


def created(zxid: int, path: str, value: Any, *, session: int = 7, ephemeral: bool = False) -> bytes:
    body = buffer(path.encode()) + buffer(json.dumps(value).encode()) + struct.pack(">i", 0) + bytes([ephemeral])
    return entry(zxid, _CREATE, body + struct.pack(">i", 1), session=session)


def partition(*, error: int, leader: int, replicas: list[int], isr: list[int]) -> Any:
    kinds = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition
    return kinds(error_code=error, partition_index=0, leader_id=leader, replica_nodes=replicas, isr_nodes=isr)


@asynccontextmanager
async def broker(metadata: Any) -> AsyncIterator[tuple[str, int]]:
    """Answers Metadata in version 0; once anything else was asked, a connection stays mute, as with Kafka 0.9."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The harness hangs up when it knows enough: that ends the reading, and nothing is wrong.
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                key, version, correlation = struct.unpack_from(">hhi", await reader.readexactly(size))
                if (key, version) != (_METADATA, 0):
                    await reader.read()
                    break
                kinds = MetadataResponse
                topic = kinds.MetadataResponseTopic(error_code=0, name="r", partitions=[metadata])
                node = kinds.MetadataResponseBroker(node_id=1, host="node1", port=9092)
                body = bytes(kinds(brokers=[node], topics=[topic]).encode(version=0))
                writer.write(struct.pack(">ii", len(body) + 4, correlation) + body)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()


def observation(address: tuple[str, int] | None, folder: Path) -> ZookeeperObservation:
    addresses = {NodeId(1): address} if address else {}
    return ZookeeperObservation(addresses, transactions=folder, is_running=lambda node: True, clock=SystemClock())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.1"
    path.write_bytes(_HEADER)
    return path


def append(log: Path, *entries: bytes) -> None:
    with log.open("ab") as file:
        file.write(b"".join(entries))


async def test_the_controller_is_whom_zookeeper_knows_and_nobody_once_its_session_is_closed(log: Path) -> None:
    seen = observation(None, log.parent)
    received = []
    for entries in (
        (),
        (created(1, "/controller", {"version": 1, "brokerid": 3}, session=8, ephemeral=True),),
        (entry(2, _CLOSE, b"", session=8),),
        (created(3, "/controller", {"version": 1, "brokerid": 2}, session=9, ephemeral=True),),
    ):
        append(log, *entries)
        await seen.look([])
        received.append(seen.controller())
    assert received == [-1, 3, -1, 2]


async def test_before_zookeeper_has_written_anything_there_is_no_controller(tmp_path: Path) -> None:
    seen = observation(None, tmp_path / "version-2")
    await seen.look([])
    assert seen.controller() == -1


async def test_an_entry_that_is_still_being_written_is_read_when_it_is_whole(log: Path) -> None:
    whole = created(1, "/controller", {"version": 1, "brokerid": 3})
    seen = observation(None, log.parent)
    append(log, whole[:40])
    await seen.look([])
    assert seen.controller() == -1
    append(log, whole[40:])
    await seen.look([])
    assert seen.controller() == 3


async def test_a_znode_that_a_stranger_wrote_costs_one_look(log: Path) -> None:
    seen = observation(None, log.parent)
    append(log, created(1, "/brokers/topics/orders", ["no", "topic"]), created(2, "/controller", {"brokerid": 3}))
    with pytest.raises(HarnessError, match="/brokers/topics/orders"):
        await seen.look([])
    await seen.look([])
    assert seen.controller() == 3


async def test_a_partition_with_dead_replicas_is_seen_with_all_of_them(log: Path) -> None:
    append(log, created(1, "/brokers/topics/r", {"version": 1, "partitions": {"0": [1, 2, 3]}}))
    async with broker(partition(error=9, leader=1, replicas=[1, 3], isr=[1, 3])) as address:
        seen = observation(address, log.parent)
        states = await seen.look(["r"])
        seen.close()
    assert [(state.leader, state.isr, state.replicas) for state in states] == [(1, (1, 3), (1, 2, 3))]


async def test_a_partition_that_the_broker_does_not_know_is_no_state(log: Path) -> None:
    async with broker(partition(error=3, leader=-1, replicas=[1], isr=[])) as address:
        seen = observation(address, log.parent)
        assert await seen.look(["r"]) == []
        seen.close()
    assert MetadataRequest.API_KEY == _METADATA
