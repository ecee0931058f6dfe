"""Ownership of a run: locks on RUN/lock and on its entry in the state directory; free locks mean that the run is over.

The sweep complements PR_SET_PDEATHSIG: every command ends the processes of runs with free locks, but only those whose
pid, start time, boot id and marker all match. It reads only from the folder in which the run began (entries.py), never
from one that was put in its place.
"""

import contextlib
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated

import msgspec

from harness.cluster.local.entries import DamagedEntry, enter, entries, entry_path, lock, open_folder, read
from harness.cluster.local.processes import MARKER, PROCESSES, boot_id, start_time, state_of
from harness.errors import HarnessError

LOCK = "lock"
_PID_MAX = 1 << 22  # the largest pid of Linux


class RunOwnership:
    """Held while a run is active."""

    def __init__(self, run: Path) -> None:
        self._run = run.resolve()
        self._locks = contextlib.ExitStack()
        self.owes = False  # set if the run leaves something undone: the next command's sweep tries again

    def __enter__(self) -> "RunOwnership":
        with contextlib.ExitStack() as locks:
            try:
                folder = os.open(self._run, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                locks.callback(os.close, folder)
                locks.callback(os.close, _lock_in(folder, create=True))
                locks.callback(os.close, self._entered(folder))
            except BlockingIOError:
                raise HarnessError(
                    f"{self._run}: another kafka-chaos is at work on this run folder; wait for it"
                ) from None
            except DamagedEntry as error:
                raise HarnessError(f"{entry_path(self._run)} is no entry of a run ({error}); remove it") from None
            except OSError as error:
                raise HarnessError(f"{self._run}: it cannot be locked ({error.strerror}); use another folder") from None
            self._locks = locks.pop_all()
        return self

    def _entered(self, folder: int) -> int:
        try:
            return enter(self._run, folder)
        except (BlockingIOError, DamagedEntry):
            raise
        except OSError as error:
            place = entry_path(self._run)
            raise HarnessError(
                f"{place} cannot be written ({error.strerror}), and without it no command would know what this run "
                "leaves if it is killed; see XDG_STATE_HOME"
            ) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.owes:
            entry_path(self._run).unlink(missing_ok=True)
        self._locks.close()


def _lock_in(folder: int, *, create: bool) -> int:
    """Locks the file in exactly that folder. Raises BlockingIOError if another process has the lock."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
    descriptor = os.open(LOCK, flags, 0o644, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_anything_over() -> bool:
    """True if the entry of a run is there that is no longer active."""
    for path in entries().glob("*.json"):
        try:
            descriptor = lock(path)
        except FileNotFoundError:
            continue
        except DamagedEntry:
            return True
        if descriptor is not None:
            os.close(descriptor)
            return True
    return False


@contextlib.contextmanager
def when_over(run: Path) -> Iterator[bool]:
    """True if no process works on any run of this user: all active runs are registered and hold their entries.

    The run folder itself is not used: it may belong to anybody by now. While this holds, no run can begin in its place.
    """
    try:
        descriptor = lock(entry_path(run))
    except (FileNotFoundError, DamagedEntry):
        yield True
        return
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


@dataclass(frozen=True, kw_only=True)
class LeftRun:
    """A run that is over. `folder` leads to exactly its folder while the sweep holds it; `path` names it."""

    path: Path
    folder: Path


def _nothing(left: LeftRun) -> tuple[list[str], bool]:
    return [], True


def sweep(undo: Callable[[LeftRun], tuple[list[str], bool]] = _nothing) -> list[str]:
    """Ends what runs left behind whose harness is gone; returns one sentence per ended process.

    `undo` undoes other effects of a run: returns its sentences, and whether nothing has to be retried. A damaged entry,
    or one with a foreign folder, costs a sentence and only itself; the others are swept.
    """
    sentences = []
    for path in sorted(entries().glob("*.json")):
        try:
            sentences.extend(_sweep_one(path, undo))
        except DamagedEntry as error:
            sentences.append(_removed(path, str(error)))
    return sentences


def _removed(path: Path, reason: str) -> str:
    description = f"{path} is no entry of a run ({reason})"
    try:
        path.unlink(missing_ok=True)
    except OSError as error:  # a folder
        return f"{description}, and cannot be removed ({error.strerror}); do it by hand"
    return f"removed {description}"


def _sweep_one(path: Path, undo: Callable[[LeftRun], tuple[list[str], bool]]) -> list[str]:
    with contextlib.ExitStack() as held:
        try:
            descriptor = lock(path)
        except FileNotFoundError:
            return []  # its run or another sweep removed it first
        if descriptor is None:
            return []
        held.callback(os.close, descriptor)
        entry = read(descriptor)
        try:
            folder = open_folder(entry)
            held.callback(os.close, folder)
            with contextlib.suppress(FileNotFoundError):  # removed with everything else in its folder
                held.callback(os.close, _lock_in(folder, create=False))
        except BlockingIOError:
            return []  # registered in another state directory too
        except FileNotFoundError:
            path.unlink(missing_ok=True)  # the run folder was removed
            return []
        except HarnessError as error:
            path.unlink(missing_ok=True)
            return [str(error)]
        except OSError as error:
            path.unlink(missing_ok=True)
            lock_file = Path(entry.run) / LOCK
            return [f"{lock_file} is no lock of a run ({error.strerror}): what that run left is yours to end"]
        left = LeftRun(path=Path(entry.run), folder=Path(f"/proc/self/fd/{folder}"))
        sentences = _end_processes(left)
        undone, over = undo(left)
        if over:
            path.unlink(missing_ok=True)
        return [*sentences, *undone]


class _Started(msgspec.Struct, frozen=True, kw_only=True):
    """A line of RUN/processes.jsonl, as `Spawner` writes it."""

    pid: Annotated[int, msgspec.Meta(ge=1, le=_PID_MAX)]
    start: int | None
    boot: str


def processes_of(run: Path) -> Iterator[int]:
    """The pids of the run's processes that still exist, checked by start time, boot id and marker."""
    return (process.pid for process in _left_in(run, marker=run.resolve()))


def _left_in(folder: Path, *, marker: Path) -> Iterator[_Started]:
    try:
        descriptor = os.open(folder / PROCESSES, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        lines = file.read().splitlines()
    for line in lines:
        try:
            process = msgspec.json.decode(line, type=_Started)
        except (ValueError, RecursionError):
            continue  # the last line of a harness that was killed while writing
        if _is_there(process, marker):
            yield process


def _is_there(process: _Started, marker: Path) -> bool:
    if process.boot != boot_id() or process.start is None or start_time(process.pid) != process.start:
        return False
    try:
        environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return MARKER.encode() + b"=" + os.fsencode(marker) in environment


def _end_processes(left: LeftRun) -> list[str]:
    sentences = []
    try:
        for process in _left_in(left.folder, marker=left.path):
            if _kill(process, left.path):
                sentences.append(f"ended process {process.pid} that {left.path} had left behind")
    except OSError as error:
        sentences.append(f"{left.path / PROCESSES} cannot be read ({error.strerror}): its processes, if any, are left")
    return sentences


def _kill(process: _Started, marker: Path) -> bool:
    """Sends SIGKILL, but to no other process that got the pid meanwhile: it is checked again once a pidfd holds it."""
    try:
        held = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError:  # a kernel before 5.3, or one that refuses pidfds
        return _signal(process, marker, lambda: os.kill(process.pid, signal.SIGKILL))
    try:
        return _signal(process, marker, lambda: signal.pidfd_send_signal(held, signal.SIGKILL))
    finally:
        os.close(held)


def _signal(process: _Started, marker: Path, send: Callable[[], None]) -> bool:
    if not _is_there(process, marker) or state_of(process.pid) == "Z":
        return False
    try:
        send()
    except ProcessLookupError:  # it ended by itself at this moment
        return False
    return True
