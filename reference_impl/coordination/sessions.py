"""Sessions and their deadlines. A sign of life moves a session's deadline. The caller passes the time in."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from reference_impl.coordination.records import PASSWORD_LENGTH


@dataclass(kw_only=True, slots=True)
class _Session:
    timeout_ms: int
    deadline: float
    """In seconds, of the caller's clock."""


def password_of(session_id: int) -> bytes:
    """Derives a session's password, as ZooKeeper does, so that it need not be stored. It prevents mistakes, not
    attacks."""
    return hashlib.sha256(b"kafka-chaos session %d" % session_id).digest()[:PASSWORD_LENGTH]


def first_session_id(wall_clock_ms: int) -> int:
    """Puts the time into the upper bytes, as ZooKeeper does, so a server that lost its log does not
    reuse session ids."""
    return (wall_clock_ms << 16) & 0x00FF_FFFF_FFFF_FFFF


class Sessions:
    def __init__(self) -> None:
        self._sessions: dict[int, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._sessions

    def __iter__(self) -> Iterator[int]:
        return iter(self._sessions)

    def open(self, session_id: int, *, timeout_ms: int) -> None:
        """Opens a session. It gets its deadline with the first `touch`, because the replay of a log has no clock."""
        self._sessions[session_id] = _Session(timeout_ms=timeout_ms, deadline=math.inf)

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def timeout_ms(self, session_id: int) -> int:
        return self._sessions[session_id].timeout_ms

    def touch(self, session_id: int, *, now: float) -> None:
        session = self._sessions[session_id]
        session.deadline = now + session.timeout_ms / 1000

    def restart(self, *, now: float) -> None:
        """Gives every session a full timeout: nobody could send a ping during the recovery."""
        for session_id in self._sessions:
            self.touch(session_id, now=now)

    def expired(self, *, now: float) -> list[int]:
        return [session_id for session_id, session in self._sessions.items() if session.deadline <= now]

    def next_deadline(self) -> float | None:
        return min((session.deadline for session in self._sessions.values()), default=None)
