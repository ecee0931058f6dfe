"""Addresses for tests: a loopback block of this process's own, and ports that are free on all of it."""

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reference_impl.runtime.in_process import InProcessCluster

BLOCK = 64 + os.getpid() % 128


def address(node: int) -> str:
    return f"127.{BLOCK}.0.{node}"


def free_port(*addresses: str) -> int:
    """Free on each of the addresses at this moment."""
    while True:
        with socket.socket() as first:
            first.bind((addresses[0], 0))
            port = first.getsockname()[1]
            try:
                for other in addresses[1:]:
                    with socket.socket() as probe:
                        probe.bind((other, port))
            except OSError:
                continue
            return int(port)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    """Three brokers and the coordination service on this test's loop."""
    addresses = {node: address(node) for node in (1, 2, 3)}
    everywhere = [address(9), *addresses.values()]
    made = InProcessCluster(
        tmp_path,
        addresses=addresses,
        coordination_address=address(9),
        ports=(free_port(*everywhere), free_port(*everywhere), free_port(*everywhere)),
    )
    try:
        await made.start()
        yield made
    finally:
        await made.stop()
