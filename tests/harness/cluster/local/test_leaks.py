"""The leak check on sockets of this process, which acts as broker 1."""

import os
import socket
from collections.abc import Iterator

import pytest

from harness.cluster.local.leaks import leaks

pytestmark = pytest.mark.cluster

_REAL = {"broker 1": "127.9.0.1", "broker 2": "127.9.0.2"}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.9.0.2", 0)) as made:
        yield made


def _found(port: int) -> list[str]:
    return leaks({"broker 1": os.getpid()}, _REAL, peer_ports={port})


def test_a_connection_to_a_peers_real_address_is_reported(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert _found(port) == []
    with socket.create_connection(("127.9.0.2", port)):
        (sentence,) = _found(port)
        assert "broker 1 is connected to the real address of broker 2" in sentence
        assert str(port) in sentence
    assert _found(port) == []


def test_a_connection_by_a_link_or_to_another_port_or_to_itself_is_no_leak() -> None:
    for address in ("127.9.1.2", "127.9.0.1"):
        with socket.create_server((address, 0)) as listener:
            port = listener.getsockname()[1]
            with socket.create_connection((address, port)):
                assert _found(port) == []
    with socket.create_server(("127.9.0.2", 0)) as listener, socket.create_connection(listener.getsockname()):
        assert _found(listener.getsockname()[1] + 1) == []


def test_a_process_that_is_gone_has_no_leaks() -> None:
    assert leaks({"broker 1": 2**22 + 1}, _REAL, peer_ports={1}) == []
