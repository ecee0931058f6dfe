"""The nodes' network leads to this machine and nowhere else, unless the scenario opens it."""

import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.docker.capabilities import Capabilities
from harness.cluster.docker.engine import Engine
from harness.cluster.docker.infra import make_network, start_infra
from harness.cluster.docker.labels import labels_of
from harness.cluster.docker.namespace import Namespace, pid_of

_PORT = 9
_LISTEN = f"""
import socket
server = socket.create_server(("", {_PORT}))
print("ready", flush=True)
while True:
    server.accept()
"""


@pytest.fixture
def outside(infra_image: str, run: Path, capabilities: Capabilities) -> Iterator[str]:
    """Its address: a machine beyond this one, which is a namespace at the end of a cable of its own."""
    if capabilities.entry != "nsenter":
        pytest.skip("a network outside can be made only as root on the engine's machine")
    quarter = os.getpid() % 64 * 4  # of a network that is documentation's (RFC 5737): tests side by side take others
    here, there = (f"198.51.100.{quarter + end}" for end in (1, 2))
    cable = f"kc-{uuid.uuid4().hex[:8]}"
    with contextlib.ExitStack() as made:
        far = start_infra(infra_image, name=f"kafka-chaos-test-{cable}", network=None, labels=labels_of(run))
        made.callback(far.container.remove, force=True)  # and the cable with it
        for words in (
            f"link add {cable} type veth peer name eth0 netns {pid_of(far.container)}",
            f"addr add {here}/30 dev {cable}",
            f"link set {cable} up",
        ):
            subprocess.run(["ip", *words.split()], check=True)
        beyond = Namespace(far.container, entry="nsenter")
        for words in (f"addr add {there}/30 dev eth0", "link set eth0 up"):
            beyond.run(["ip", *words.split()])
        _, lines = far.container.exec_run(["python3", "-c", _LISTEN], stream=True)
        assert next(lines) == b"ready\n"
        yield there


@pytest.mark.parametrize(
    ("options", "reached"), [({}, "silent"), ({"internal": True}, "silent"), ({"internal": False}, "open")]
)
def test_a_node_reaches_what_is_beyond_this_machine_only_where_the_network_is_open(
    engine: Engine, infra_image: str, run: Path, outside: str, options: dict[str, bool], reached: str
) -> None:
    name = f"kafka-chaos-test-{uuid.uuid4().hex[:8]}"
    with contextlib.ExitStack() as made:
        network = make_network(name, labels_of(run), **options)
        made.callback(network.remove)
        infra = start_infra(infra_image, name=name, network=network, labels=labels_of(run))
        made.callback(infra.container.remove, force=True)
        assert Namespace(infra.container, entry="nsenter").reaches(outside, _PORT, timeout_s=1) == reached
        assert engine.client.networks.get(name).attrs["Internal"] is (reached != "open")
