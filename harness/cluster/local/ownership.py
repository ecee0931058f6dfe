"""Who owns what: a run holds a lock on RUN/lock and on its entry in the state directory; free locks mean it is over.

The sweep is the second line behind PR_SET_PDEATHSIG: every command ends the processes of runs whose locks are free, and
only those whose pid, start time, boot and marker all agree. It reads from the very folder that the run began in
(entries.py), never from what somebody put in its place.
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
_PID_MAX = 1 << 22  # Linux has no greater one


class RunOwnership:
    """Held while a run goes on."""

    def __init__(self, run: Path) -> None:
        self._run = run.resolve()
        self._locks = contextlib.ExitStack()
        self.owes = False  # set when the run leaves something undone: the next command's sweep tries again

    def __enter__(self) -> "RunOwnership":
        with contextlib.ExitStack() as locks:
            try:
                folder = os.open(self._run, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                locks.callback(os.close, folder)
                locks.callback(os.close, _lock_in(folder, create=True))
                locks.callback(os.close, enter(self._run, folder))
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.owes:
            entry_path(self._run).unlink(missing_ok=True)
        self._locks.close()


def _lock_in(folder: int, *, create: bool) -> int:
    """Locks the file in that very folder. Raises BlockingIOError when another has it."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
    descriptor = os.open(LOCK, flags, 0o644, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_anything_entered() -> bool:
    """Whether there are runs that go on, or that ended without leaving in order."""
    return any(entries().glob("*.json"))


@contextlib.contextmanager
def when_over(run: Path) -> Iterator[bool]:
    """Whether nobody works on a run of this user's any more: all that go on are entered, and hold their entries.

    Its folder is not asked, which may be anybody's by now. While this lasts, nobody begins anew in its place.
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
    """A run that is over. `folder` leads to the very folder it began in while the sweep holds it; `path` names it."""

    path: Path
    folder: Path


def _nothing(left: LeftRun) -> tuple[list[str], bool]:
    return [], True


def sweep(undo: Callable[[LeftRun], tuple[list[str], bool]] = _nothing) -> list[str]:
    """Ends what runs left behind whose harness is gone; one sentence for each process ended.

    `undo` undoes what else a run owes: its sentences, and whether nothing is left to be tried again next time.
    An entry that is damaged, or whose folder is not the run's, costs a sentence and itself; the others are swept.
    """
    told = []
    for path in sorted(entries().glob("*.json")):
        try:
            told.extend(_sweep_one(path, undo))
        except DamagedEntry as error:
            told.append(_removed(path, str(error)))
    return told


def _removed(path: Path, reason: str) -> str:
    told = f"{path} is no entry of a run ({reason})"
    try:
        path.unlink(missing_ok=True)
    except OSError as error:  # a folder
        return f"{told}, and cannot be removed ({error.strerror}); do it by hand"
    return f"removed {told}"


def _sweep_one(path: Path, undo: Callable[[LeftRun], tuple[list[str], bool]]) -> list[str]:
    with contextlib.ExitStack() as held:
        try:
            descriptor = lock(path)
        except FileNotFoundError:
            return []  # its run, or another sweep, was done with it first
        if descriptor is None:
            return []
        held.callback(os.close, descriptor)
        entry = read(descriptor)
        try:
            folder = open_folder(entry)
            held.callback(os.close, folder)
            with contextlib.suppress(FileNotFoundError):  # removed, with all else that it held
                held.callback(os.close, _lock_in(folder, create=False))
        except BlockingIOError:
            return []  # entered in another state directory too
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
        told = _end_processes(left)
        undone, over = undo(left)
        if over:
            path.unlink(missing_ok=True)
        return [*told, *undone]


class _Started(msgspec.Struct, frozen=True, kw_only=True):
    """A line of RUN/processes.jsonl, as `Spawner` writes it."""

    pid: Annotated[int, msgspec.Meta(ge=1, le=_PID_MAX)]
    start: int | None
    boot: str


def processes_of(run: Path) -> Iterator[int]:
    """Pids of the run's processes that are still there, checked by start time, boot and marker."""
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
            continue  # the last line of a harness that was killed while writing it
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
    told = []
    try:
        for process in _left_in(left.folder, marker=left.path):
            if _kill(process, left.path):
                told.append(f"ended process {process.pid} that {left.path} had left behind")
    except OSError as error:
        told.append(f"{left.path / PROCESSES} cannot be read ({error.strerror}): its processes, if any, are left")
    return told


def _kill(process: _Started, marker: Path) -> bool:
    """SIGKILL, to no other process that has got its pid since: it is asked for again once it is held."""
    try:
        held = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError:  # a kernel before 5.3, or one that is told to refuse
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
    except ProcessLookupError:  # it ended by itself in this moment
        return False
    return True
