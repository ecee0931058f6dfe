"""Sees what the nodes of a simulated run do to their disks: every write, rename, removal and fsync, as it happens.

Nodes have no port for their files, and need none: `os.write` and `os.fsync` are watched while the loop runs, and the
interpreter tells of all else by audit events, before it is done. Whose it is, the machine says whose code runs.
"""

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from harness.cluster.simulated.audit_events import listen, listen_no_more
from harness.cluster.simulated.disks import NodeDisk
from harness.cluster.simulated.machines import machine_of

_EVENTS = {  # audit event -> whether it takes room on the disk
    "open": True,
    "os.mkdir": True,
    "os.rename": False,
    "os.remove": False,
    "os.rmdir": False,
    "os.truncate": False,
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class DiskWatch:
    """In force as a context."""

    def __init__(self) -> None:
        self._write: Callable[..., int] = os.write
        self._sync: Callable[[Any], None] = os.fsync

    def __enter__(self) -> "DiskWatch":
        self._write, self._sync = os.write, os.fsync
        self._put(self._watched_write, self._watched_sync)
        listen(_on_event)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        listen_no_more(_on_event)
        self._put(self._write, self._sync)

    def _put(self, write: Callable[..., Any], sync: Callable[..., Any]) -> None:
        functions: Any = os
        functions.write, functions.fsync = write, sync

    def _watched_write(self, descriptor: int, data: Any) -> int:
        disk = _disk_here()
        if disk is None or not _is_concerned(disk) or not _is_on(disk, f"/proc/self/fd/{descriptor}"):
            return self._write(descriptor, data)
        what = f"a write of {len(data)} bytes to {os.path.basename(os.readlink(f'/proc/self/fd/{descriptor}'))}"
        if disk.changes(takes_room=True):
            self._write(descriptor, data[: len(data) // 2])
        disk.strikes_now(what)
        return self._write(descriptor, data)

    def _watched_sync(self, descriptor: Any) -> None:
        self._sync(descriptor)
        disk = _disk_here()
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        if disk is not None and _is_on(disk, f"/proc/self/fd/{number}"):
            disk.synced(number)


def _disk_here() -> NodeDisk | None:
    machine = machine_of()
    return None if machine is None else machine.disk


def _is_concerned(disk: NodeDisk) -> bool:
    """Whether anybody asks what is written. After a crash point it has struck, and what follows is undone."""
    return disk.is_full or disk.failure is not None or disk.crash_point is not None


def _is_on(disk: NodeDisk, path: Any) -> bool:
    """Its log, its journal of evidence and the world's own files are not."""
    real = os.path.realpath(os.fsdecode(path))
    return real == str(disk.top) or real.startswith(f"{disk.top}{os.sep}")


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    disk = _disk_here() if event in _EVENTS else None
    if disk is None or not _is_concerned(disk):
        return
    path = arguments[0]
    if isinstance(path, int):
        path = f"/proc/self/fd/{path}"
    if (event == "open" and not _writes(arguments)) or not _is_on(disk, path):
        return
    what = f"{event} of {os.path.basename(os.fsdecode(path))}"
    disk.changes(takes_room=_EVENTS[event])
    disk.strikes_now(what)


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    return bool(set(mode) & set("wax+")) if isinstance(mode, str) else bool(flags & _WRITING)
