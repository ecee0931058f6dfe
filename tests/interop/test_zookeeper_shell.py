"""ZooKeeper's own shell on our coordination service: what it asks is answered, and what it sets is kept."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.kafka_tools import TIMEOUT_S, java_command, kafka_home
from tests.loopback import address
from tests.reference_impl.runtime.broker_processes import COORDINATION, Processes

HOME = kafka_home("3.9.1")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    try:
        made.start_coordination()
        yield made
    finally:
        made.end_all()


def ask(service: Processes, *words: str) -> list[str]:
    """One command in one shell, which waits until the service is there; what it printed of its own."""
    server = f"{address(COORDINATION)}:{service.coordination_port}"
    command = java_command(HOME, "org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", server, *words)
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert ended.returncode == 0, ended
    noise = ("Connecting to", "WATCHER::", "WatchedEvent")
    return [line for line in ended.stdout.splitlines() if line and " INFO " not in line and not line.startswith(noise)]


def test_the_shell_creates_sets_acls_reads_lists_and_deletes(service: Processes) -> None:
    assert ask(service, "create", "/a", "before") == []  # "Created /a" goes to the other stream
    assert ask(service, "setAcl", "/a", "world:anyone:r") == []
    assert ask(service, "getAcl", "/a") == ["'world,'anyone", ": r"]
    assert "aclVersion = 1" in ask(service, "stat", "/a")
    assert ask(service, "set", "/a", "after") == []
    assert ask(service, "get", "/a") == ["after"]
    assert ask(service, "delete", "/a") == []
    assert ask(service, "ls", "/") == ["[zookeeper]"]
