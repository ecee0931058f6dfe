"""Whatever would leave the simulated world fails, with its place: sockets, processes, threads, clocks, chance.

Our own code is given its clock and its chance. aiokafka and Python's logging have only the module `time`: for them, and
for nobody else, its functions answer with the world's time while this is in force. Python's own chance is seeded for
them. Interpreter and operating system report the rest by audit events, but for `datetime.now()` and what else reads a
clock within C: nobody hears of that.
"""

import gc
import os
import random
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from harness.cluster.simulated import audit_events
from harness.cluster.simulated.audit_events import listen, listen_no_more
from harness.host.clock import Clock

_MAY_ASK = ("aiokafka", "logging")  # their first name
_READINGS: dict[str, tuple[str, float]] = {  # of the module time: which of our clocks, in which unit
    "time": ("wall_ns", 1e-9),
    "time_ns": ("wall_ns", 1),
    "monotonic": ("monotonic_ns", 1e-9),
    "monotonic_ns": ("monotonic_ns", 1),
    "perf_counter": ("monotonic_ns", 1e-9),
    "perf_counter_ns": ("monotonic_ns", 1),
}
_NOT_A_PLACE = (__file__, audit_events.__file__, random.__file__, secrets.__file__)  # whoever called them is one
_WAYS_OUT = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.system",
    "socket.__new__",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "subprocess.Popen",
)


class Escape(AssertionError):
    """Something would leave the simulated world, and come back differently the next time."""


class NoWayOut:
    """In force as a context. `escapes`: each one that was tried, also where its exception went unheard."""

    def __init__(self, *, clock: Clock, chance: random.Random) -> None:
        self._clock = clock
        self._seed = chance.getrandbits(64)
        self._before: dict[tuple[Any, str], Any] = {}
        self._chance_before: Any = None
        self._thread = threading.get_ident()
        self.escapes: list[str] = []

    def __enter__(self) -> "NoWayOut":
        for name in _READINGS:
            self._replace(time, name, self._reading(name))
        self._replace(time, "sleep", self._refusing("time.sleep"))
        self._replace(os, "urandom", self._refusing("os.urandom"))
        self._replace(random, "_urandom", self._refusing("the system's chance"))  # of SystemRandom and secrets
        self._replace(random.Random, "seed", self._seeding())
        self._replace(random, "seed", random._inst.seed)
        self._replace(threading.Thread, "start", self._refusing("a thread"))
        self._chance_before = random.getstate()
        random.seed(self._seed)
        gc.collect()
        gc.disable()  # it would run, and finalize, at other moments in another process
        _watch(self)
        listen(self._on_event)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        listen_no_more(self._on_event)
        _watch(None)
        for (owner, name), before in self._before.items():
            setattr(owner, name, before)
        self._before.clear()
        gc.enable()
        random.setstate(self._chance_before)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _WAYS_OUT and self.is_here():
            raise self.refuse(event)

    def refuse(self, what: str, *, by: str = "") -> Escape:
        """`by`: the file that refuses it in its own name; its place is where that file was called."""
        passed = (*_NOT_A_PLACE, by)
        frames = [each for each in traceback.extract_stack()[:-1] if each.filename not in passed]
        place = frames[-1]
        self.escapes.append(f"{what} at {place.filename}:{place.lineno} ({place.name})")
        return Escape(self.escapes[-1])

    def _replace(self, owner: Any, name: str, by: Callable[..., Any]) -> None:
        before = self._before[owner, name] = getattr(owner, name)

        def replaced(*arguments: Any, **more: Any) -> Any:
            return (by if self.is_here() else before)(*arguments, **more)

        setattr(owner, name, replaced)

    def is_here(self) -> bool:
        """Whether the world asks. It has one thread and begins no other: those of the process are none of its."""
        return threading.get_ident() == self._thread

    def _reading(self, name: str) -> Callable[[], float]:
        clock, unit = _READINGS[name]
        read: Callable[[], int] = getattr(self._clock, clock)

        def reading() -> float:
            if sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] not in _MAY_ASK:
                raise self.refuse(f"time.{name} is asked")
            return read() if unit == 1 else read() * unit

        return reading

    def _seeding(self) -> Callable[..., None]:
        seeded = random.Random.seed

        def seed(generator: random.Random, a: Any = None, version: int = 2) -> None:
            if a is None:
                raise self.refuse("chance without a seed")
            seeded(generator, a, version)

        return seed

    def _refusing(self, what: str) -> Callable[..., Any]:
        def refusing(*arguments: Any, **more: Any) -> Any:
            raise self.refuse(what)

        return refusing


def refused(what: str, *, by: str) -> Escape:
    """By the world's own code, in the file `by`: remembered with its place where somebody watches."""
    if _watching is None or not _watching.is_here():
        return Escape(what)
    return _watching.refuse(what, by=by)


_watching: NoWayOut | None = None


def _watch(watcher: NoWayOut | None) -> None:
    global _watching
    _watching = watcher
