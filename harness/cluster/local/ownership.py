"""Who owns what: a run holds a lock on RUN/lock and is entered under the state directory; a free lock means it is over.

The sweep is the second line behind PR_SET_PDEATHSIG: every command ends the processes of runs whose lock is free, and
only those whose pid, start time, boot and marker all agree.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from harness.cluster.local.processes import MARKER, PROCESSES, boot_id, start_time, state_of
from harness.cluster.local.state import state_directory
from harness.errors import HarnessError

LOCK = "lock"


def _entries() -> Path:
    folder = state_directory() / "runs"
    folder.mkdir(exist_ok=True)
    return folder


class RunOwnership:
    """Held while a run goes on."""

    def __init__(self, run: Path) -> None:
        self._run = run.resolve()
        self._entry = _entries() / (hashlib.sha256(str(self._run).encode()).hexdigest()[:24] + ".json")
        self._lock = -1
        self.owes = False  # set when the run leaves something undone: the next command's sweep tries again

    def __enter__(self) -> "RunOwnership":
        self._lock = os.open(self._run / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise HarnessError(f"{self._run}: another kafka-chaos is at work on this run folder; wait for it") from None
        # Entered whole or not at all: another command's sweep may be reading just now.
        draft = self._entry.with_suffix(f".{os.getpid()}.new")
        draft.write_text(json.dumps({"run": str(self._run)}), encoding="utf-8")
        draft.replace(self._entry)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.owes:
            self._entry.unlink(missing_ok=True)
        os.close(self._lock)


def is_anything_entered() -> bool:
    """Whether there are runs that go on, or that ended without leaving in order."""
    return any(_entries().glob("*.json"))


def _nothing(run: Path) -> tuple[list[str], bool]:
    return [], True


def sweep(undo: Callable[[Path], tuple[list[str], bool]] = _nothing) -> list[str]:
    """Ends what runs left behind whose harness is gone; one sentence for each process ended.

    `undo` undoes what else a run owes: its sentences, and whether nothing is left to be tried again next time.
    """
    told = []
    for entry in sorted(_entries().glob("*.json")):
        try:
            run = Path(json.loads(entry.read_text(encoding="utf-8"))["run"])
        except FileNotFoundError:
            continue  # its run, or another sweep, was done with it first
        except (ValueError, KeyError, TypeError):
            entry.unlink(missing_ok=True)  # no entry of ours: nothing can be learnt from it
            continue
        try:
            descriptor = os.open(run / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except (FileNotFoundError, NotADirectoryError):
            entry.unlink(missing_ok=True)  # the run folder was removed
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        told.extend(_end_processes(run))
        undone, over = undo(run)
        told.extend(undone)
        if over:
            entry.unlink(missing_ok=True)
        os.close(descriptor)
    return told


def processes_of(run: Path) -> Iterator[int]:
    """Pids of the run's processes that are still there, checked by start time, boot and marker."""
    try:
        lines = (run / PROCESSES).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return
    boot = boot_id()
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the last line of a harness that was killed while writing it
        pid = entry["pid"]
        if entry["boot"] == boot and start_time(pid) == entry["start"] and _is_marked(pid, run):
            yield pid


def _is_marked(pid: int, run: Path) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"{MARKER}={run.resolve()}".encode() in environment


def _end_processes(run: Path) -> list[str]:
    told = []
    for pid in processes_of(run):
        if state_of(pid) != "Z":
            with contextlib.suppress(ProcessLookupError):  # it ended by itself in this moment
                os.kill(pid, signal.SIGKILL)
                told.append(f"ended process {pid} that {run} had left behind")
    return told
