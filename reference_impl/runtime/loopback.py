"""Loopback addresses for clusters on one machine: a block of 127.0.0.0/8 for each process, ports that are free right
now."""

import os
import socket

BLOCK = 64 + os.getpid() % 128


def address(node: int) -> str:
    return f"127.{BLOCK}.0.{node}"


def free_port(*addresses: str) -> int:
    """Free on each of the addresses at this moment."""
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
