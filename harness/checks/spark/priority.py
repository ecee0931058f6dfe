"""The scheduling priority of a process beside a load: lowest while the load runs, normal when its result is awaited.

A process that was made nice cannot be made less so by an ordinary user, so only what this user can undo is done. Where
Linux groups processes by session (autogroup), the session's own niceness counts: its owner may take it back to 0. A
process's niceness counts where sessions are not grouped, and is used by whoever may take it back (root, CAP_SYS_NICE,
RLIMIT_NICE). Everybody else gives up preempting others instead (SCHED_BATCH), which anybody may take back.
"""

import contextlib
import os
import resource
import time
from pathlib import Path

_NICE = 10
_LIMIT_OF_NICE_0 = 20  # RLIMIT_NICE is 20 minus the least niceness allowed
_CAP_SYS_NICE = 23
_ATTEMPTS, _APART_S = (
    10,
    0.05,
)  # ordinary users may set one session's place each tenth of a second, all of them together
_ROUNDS = 20  # repeats to find threads started meanwhile; a thread inherits its creator's priority


class Place:
    """The priority of a process that leads its session, with all its threads. No effect if it has ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._own = os.getpriority(os.PRIO_PROCESS, 0)

    def last(self) -> None:
        """Lowest priority, beside a load. Never raises: priority is no reason to fail."""
        self._set_session(_NICE)
        if _may_be_raised_to(self._own):
            self._set_nice(max(_NICE, self._own))
        else:
            self._of_threads(os.SCHED_BATCH)

    def as_any_other(self) -> None:
        """Normal priority: the result is awaited."""
        self._set_session(0)
        if _may_be_raised_to(self._own):
            self._set_nice(self._own)
        else:
            self._of_threads(os.SCHED_OTHER)

    def _set_session(self, niceness: int) -> None:
        for _ in range(_ATTEMPTS):
            try:
                Path(f"/proc/{self._pid}/autogroup").write_text(str(niceness))
            except BlockingIOError:
                time.sleep(_APART_S)
            except OSError:
                return  # the kernel does not group sessions, and has no such file
            else:
                return

    def _set_nice(self, niceness: int) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self._pid, niceness)  # PRIO_PROCESS would change only its first thread

    def _of_threads(self, policy: int) -> None:
        done: set[str] = set()
        for _ in range(_ROUNDS):
            begun = _threads(self._pid) - done
            if not begun:
                return
            for thread in begun:
                with contextlib.suppress(OSError):
                    os.sched_setscheduler(int(thread), policy, os.sched_param(0))
            done |= begun


def _threads(pid: int) -> set[str]:
    with contextlib.suppress(OSError):
        return set(os.listdir(f"/proc/{pid}/task"))
    return set()


def _may_be_raised_to(niceness: int) -> bool:
    soft, _ = resource.getrlimit(resource.RLIMIT_NICE)
    allowed = soft == resource.RLIM_INFINITY or soft >= _LIMIT_OF_NICE_0 - niceness
    return allowed or bool(_effective_capabilities() >> _CAP_SYS_NICE & 1)


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
