"""Loopback addresses for clusters on one machine: a block of 127.0.0.0/8 per process, and free ports."""

import os
import socket
from functools import cache

_BLOCKS = range(64, 192)


def address(node: int) -> str:
    return f"127.{_taken_block()[0]}.0.{node}"


@cache
def _taken_block() -> tuple[int, socket.socket]:
    """A block that no other process here has. The name of the socket is the lock, and goes with this process."""
    for number in range(len(_BLOCKS)):
        block = _BLOCKS[(os.getpid() + number) % len(_BLOCKS)]
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0kafka-chaos-loopback-{block}")
        except OSError:
            lock.close()
        else:
            return block, lock
    raise OSError(f"all of 127.{_BLOCKS.start}.0.0/16 to 127.{_BLOCKS.stop - 1}.0.0/16 are taken by other processes")


def free_port(*addresses: str) -> int:
    """Returns a port that is free on each of the addresses at this moment."""
    while True:
        with socket.socket() as first:
            first.bind((addresses[0], 0))
            port = int(first.getsockname()[1])
            try:
                for other in addresses[1:]:
                    with socket.socket() as probe:
                        probe.bind((other, port))
            except OSError:
                continue
            return port
