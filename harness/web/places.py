"""The places of connections: how many are served at a time, for how long, and who gives way.

Whoever reaches the port can open connections and say nothing, or a byte now and then: other users of the machine, too.
So what has not shown a word of ours gives way to whoever comes next, the oldest first, and every connection ends in
time, however busy it seems.
"""

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(kw_only=True)
class _Place:
    connection: socket.socket
    since_s: float = field(default_factory=time.monotonic)
    is_kept: bool = False  # has shown a word


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
        """False if all places are taken by those that have shown a word."""
        with self._lock:
            if len(self._taken) >= self.MOST:
                oldest = next((place for place in self._taken.values() if not place.is_kept), None)
                if oldest is None:
                    return False
                self._end(oldest)
            self._taken[connection] = _Place(connection=connection)
            return True

    def keep(self, connection: socket.socket) -> None:
        """It has shown a word: it gives way to nobody."""
        with self._lock:
            if connection in self._taken:
                self._taken[connection].is_kept = True

    def leave(self, connection: socket.socket) -> None:
        with self._lock:
            self._taken.pop(connection, None)

    def end_what_is_late(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            for place in list(self._taken.values()):
                allowed_s = self.ANSWERED_WITHIN_S if place.is_kept else self.ASKED_WITHIN_S
                if now_s - place.since_s > allowed_s:
                    self._end(place)

    def _end(self, place: _Place) -> None:
        """Its thread reads an end, or cannot write, and leaves; its place is free now."""
        del self._taken[place.connection]
        with contextlib.suppress(OSError):
            place.connection.shutdown(socket.SHUT_RDWR)
