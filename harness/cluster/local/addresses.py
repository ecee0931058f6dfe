"""Addresses of one run: a locked block 127.B.0.0/16 and a few ports, so that concurrent runs never share any.

The n-th node (from 1; the coordination service is a node too) listens at 127.B.0.n. The link from n to m is at
127.B.n.m, the link from client c to m at 127.B.(128+c).m. A link has the same port as the listener it leads to, because
a hosts file maps names, not ports.
"""

import fcntl
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from harness.errors import HarnessError
from harness.host.user_folders import state_directory
from harness.ports.cluster import ClientId, NodeId

_BLOCKS = range(10, 250)  # 127.0 and its neighbours are used by other programs
_PORTS = range(21_000, 31_000, 100)  # below the ephemeral range of Linux
CLIENT_LINKS_MAX = 90
NODES_MAX = 127


class AddressBlock:
    """The addresses of one run; the lock ends with the process. Nodes are numbered in the given order."""

    def __init__(self, nodes: Sequence[NodeId], *, client_links: int) -> None:
        if client_links > CLIENT_LINKS_MAX:
            raise HarnessError(f"{client_links} clients: a local run has addresses for at most {CLIENT_LINKS_MAX}")
        self._place = {node: number for number, node in enumerate(nodes, 1)}
        self.client_links = client_links
        self.block, self._lock = _locked_block()
        try:
            self.port = _free_ports(self.block, count=client_links + 3)
        except HarnessError:
            self.release()
            raise

    def release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> "AddressBlock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def node(self, node: NodeId) -> str:
        """The node's real address."""
        return f"127.{self.block}.0.{self._place[node]}"

    def link(self, source: NodeId, target: NodeId) -> str:
        return f"127.{self.block}.{self._place[source]}.{self._place[target]}"

    def client(self, client: ClientId, target: NodeId) -> str:
        return f"127.{self.block}.{128 + client}.{self._place[target]}"

    @property
    def internal_port(self) -> int:
        """The port of the brokers' inter-broker listener, and the coordination service's client port."""
        return self.port

    def client_port(self, client: ClientId) -> int:
        """The port of one client link's listener, the same on every broker."""
        return self.port + client

    @property
    def admin_port(self) -> int:
        """The port of the harness's own listener at the node's real address; it is never cut."""
        return self.port + self.client_links + 1

    @property
    def controller_port(self) -> int:
        """The port of the controller's listener on a node that is also a broker."""
        return self.port + self.client_links + 2


def _locked_block() -> tuple[int, int]:
    folder = state_directory() / "blocks"
    folder.mkdir(exist_ok=True)
    start = os.getpid() % len(_BLOCKS)
    for number in range(len(_BLOCKS)):
        block = _BLOCKS[(start + number) % len(_BLOCKS)]
        descriptor = os.open(folder / str(block), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        if _is_quiet(block):
            return block, descriptor
        os.close(descriptor)
    raise HarnessError(f"no free address block 127.B.0.0/16 is left; `kafka-chaos sweep` ends runs left in {folder}")


def _is_quiet(block: int) -> bool:
    """True if no process listens in the block; this also detects other users, whose locks are not visible."""
    prefix = f"{block:02X}7F"
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        if state == "0A" and local.split(":")[0].endswith(prefix):
            return False
    return True


def _free_ports(block: int, *, count: int) -> int:
    """The first of `count` consecutive ports that are free on the wildcard address and in the block."""
    for first in _PORTS:
        if all(_is_free(f"127.{block}.0.1", port) for port in range(first, first + count)):
            return first
    raise HarnessError(f"no {count} free ports in a row from {_PORTS.start} to {_PORTS.stop} on 127.{block}.0.1")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
