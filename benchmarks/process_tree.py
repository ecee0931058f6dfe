"""Memory and CPU of a process and everything below it, sampled from /proc while it runs."""

import os
import threading
from pathlib import Path
from types import TracebackType

_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY_S = 0.1


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and of its children that have ended; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def _own_cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / _TICKS


def children(pid: int) -> list[int]:
    """Direct children, of all threads."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in task.read_text().split()]
        except OSError:
            continue
    return found


def tree_of(pid: int) -> list[int]:
    found, waiting = [], [pid]
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += children(each)
    return found


def _pss_bytes(pid: int) -> int:
    """Proportional size: a page that two processes share counts half in each."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0


class ProcessTree:
    """`with ProcessTree(pid) as tree`: afterwards `peak_bytes` and `cpu_s` of all that ran below it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.peak_bytes = 0

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu.values())

    def __enter__(self) -> "ProcessTree":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(_EVERY_S):
            pids = tree_of(self._pid)
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss_bytes, pids)))
            for pid in pids:
                self._cpu[pid] = max(self._cpu.get(pid, 0.0), _own_cpu_s(pid))
