"""The leak check: no node may hold a connection to another node's real address; all connections must use links.

A leak makes a fault ineffective without a visible sign: leadership moves as planned, but the node that was cut still
gets messages.
"""

import os
from collections.abc import Mapping
from pathlib import Path

_ESTABLISHED = "01"


def _sockets_of(pid: int) -> set[str]:
    """The inode numbers of the process's sockets."""
    found: set[str] = set()
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def _address(text: str) -> str:
    """Decodes an IPv4 address in the kernel's little-endian hexadecimal."""
    raw = bytes.fromhex(text.split(":")[0])
    return ".".join(str(byte) for byte in reversed(raw))


def leaks(pids: Mapping[str, int], real_addresses: Mapping[str, str], *, peer_ports: set[int]) -> list[str]:
    """Returns one sentence per leak. `pids` and `real_addresses` are by node name; only connections to `peer_ports`
    count."""
    owners = {address: name for name, address in real_addresses.items()}
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    connections = [line.split() for line in lines]
    found = []
    for name, pid in pids.items():
        inodes = _sockets_of(pid)
        for fields in connections:
            remote, state, inode = fields[2], fields[3], fields[9]
            if state != _ESTABLISHED or inode not in inodes:
                continue
            owner = owners.get(_address(remote))
            port = int(remote.split(":")[1], 16)
            if owner is not None and owner != name and port in peer_ports:
                found.append(f"{name} is connected to the real address of {owner}, port {port}, past the link fabric")
    return found
