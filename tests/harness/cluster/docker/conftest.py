"""A Docker engine if there is one, the infra image, and three nodes that echo what they receive."""

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from harness.cluster.docker import images
from harness.cluster.docker.capabilities import Capabilities, probe
from harness.cluster.docker.engine import Engine, connect
from harness.cluster.docker.infra import Infra, make_network, start_infra
from harness.cluster.docker.labels import labels_of
from harness.cluster.docker.packet_rules import Places
from harness.errors import HarnessError
from harness.ports.cluster import ClientId, NodeId

LOCAL_BASE = "kafka-chaos-base:local"  # what .ci/prepare-docker makes
PEER_PORT, CLIENT_1_PORT, CLIENT_2_PORT = 9001, 9002, 9003

_ECHO = f"""
import asyncio
async def echo(reader, writer):
    while data := await reader.read(4096):
        writer.write(data)
        await writer.drain()
    writer.close()
async def main():
    for port in ({PEER_PORT}, {CLIENT_1_PORT}, {CLIENT_2_PORT}):
        await asyncio.start_server(echo, "0.0.0.0", port)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    try:
        connected = connect()
    except HarnessError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as monkeypatch:
        if images.BASE_VARIABLE not in os.environ:
            try:
                connected.client.images.get(LOCAL_BASE)
                monkeypatch.setenv(images.BASE_VARIABLE, LOCAL_BASE)
            except ImageNotFound:
                monkeypatch.delenv(images.BASE_VARIABLE, raising=False)
        yield connected
    connected.close()


@pytest.fixture(scope="session")
def infra_image(engine: Engine) -> str:
    try:
        return images.provide(engine, images.infra_recipe())
    except HarnessError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def capabilities(engine: Engine, infra_image: str, tmp_path_factory: pytest.TempPathFactory) -> Capabilities:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        return probe(engine, infra_image, labels_of(tmp_path_factory.mktemp("run")))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@dataclass(frozen=True, kw_only=True)
class Nodes:
    infra: Mapping[NodeId, Infra]
    places: Places

    def address(self, node: int) -> str:
        return self.places.addresses[NodeId(node)]


@pytest.fixture(scope="module")
def nodes(engine: Engine, infra_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Nodes 1 to 3 on one bridge, each listening for peers and for two clients."""
    name = f"kafka-chaos-test-{uuid.uuid4().hex[:8]}"
    with ExitStack() as made, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        labels = labels_of(tmp_path_factory.mktemp("run"))
        network = make_network(name, labels)
        made.callback(network.remove)
        found = {}
        for number in (1, 2, 3):
            infra = start_infra(infra_image, name=f"{name}-node{number}", network=network, labels=labels)
            made.callback(infra.container.remove, force=True)
            infra.container.exec_run(["python3", "-c", _ECHO], detach=True)
            found[NodeId(number)] = infra
        yield Nodes(
            infra=found,
            places=Places(
                addresses={node: infra.address for node, infra in found.items()},
                peer_ports={node: [PEER_PORT] for node in found},
                client_ports={ClientId(1): CLIENT_1_PORT, ClientId(2): CLIENT_2_PORT},
            ),
        )


def names(collection: Any, **options: Any) -> set[str]:
    return {thing.name for thing in collection.list(**options)}
