"""The places of connections: how many are served at a time, for how long, and who gives way.

Whoever reaches the port can open connections and say nothing, or a byte now and then: other users of the machine, too.
So what has not shown a word of ours gives way to whoever comes next, the oldest first, and every connection ends in
time, however busy it seems. Whoever wrote a stored page can find out its word: those that show such a one keep half of
the places at most.
"""

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import ClassVar

from harness.web.requests import Reach


@dataclass(kw_only=True)
class _Place:
    connection: socket.socket
    since_s: float = field(default_factory=time.monotonic)
    reach: Reach | None = None  # of the word that it has shown


class Places:
    """Of one server. Its threads call `keep` and `leave`, and the one that accepts connections all else."""

    MOST: ClassVar[int] = 32
    ASKED_WITHIN_S: ClassVar[float] = 15.0  # a request as a whole, until its word was read
    ANSWERED_WITHIN_S: ClassVar[float] = 300.0  # and until its answer was taken

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[socket.socket, _Place] = {}  # in the order they came

    @property
    def taken(self) -> int:
        return len(self._taken)

    def take(self, connection: socket.socket) -> bool:
        """False if all places are taken by those that have shown the secret word."""
        with self._lock:
            if len(self._taken) >= self.MOST:
                wordless = [place for place in self._taken.values() if place.reach is None]
                of_pages = [place for place in self._taken.values() if place.reach not in (None, "all")]
                in_turn = [*of_pages, *wordless] if len(of_pages) > self.MOST // 2 else [*wordless, *of_pages]
                if not in_turn:
                    return False
                self._end(in_turn[0])
            self._taken[connection] = _Place(connection=connection)
            return True

    def keep(self, connection: socket.socket, reach: Reach) -> None:
        """It has shown a word. With the secret one it gives way to nobody."""
        with self._lock:
            if connection in self._taken:
                self._taken[connection].reach = reach

    def leave(self, connection: socket.socket) -> None:
        with self._lock:
            self._taken.pop(connection, None)

    def end_what_is_late(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            for place in list(self._taken.values()):
                allowed_s = self.ANSWERED_WITHIN_S if place.reach else self.ASKED_WITHIN_S
                if now_s - place.since_s > allowed_s:
                    self._end(place)

    def _end(self, place: _Place) -> None:
        """Its thread reads an end, or cannot write, and leaves; its place is free now."""
        del self._taken[place.connection]
        with contextlib.suppress(OSError):
            place.connection.shutdown(socket.SHUT_RDWR)
