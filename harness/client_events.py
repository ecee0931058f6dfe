"""What a client library met while it worked: which attempts failed, which connections it lost, who it took for leader.

Facts of the client's own, of which no answer tells: a record that was acknowledged in the end may have been sent twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

# attempt_failed: a batch was sent, or was to be, and came back with an error; it may be sent again. timeout: a request
# was not answered in time. disconnect: a connection was lost, or never made. connect: it stands. leader: metadata names
# a partition's leader, for the first time or another than before.
Kind = Literal["attempt_failed", "timeout", "disconnect", "connect", "leader"]


@dataclass(frozen=True, kw_only=True)
class ClientEvent:
    """node: the other end; of `leader` the leader, -1 where there is none. None: not known, or not of this kind.

    status: of an attempt, by outcomes.py: fail where it was refused before the append, info where nobody knows.
    """

    event: Kind
    t_ns: int
    node: int | None = None
    topic: str | None = None
    partition: int | None = None
    epoch: int | None = None
    status: Literal["fail", "info"] | None = None
    error: str | None = None


@runtime_checkable
class TellsEvents(Protocol):
    """A client that tells what it met. tells_attempts: each one that failed is told before its records' answer."""

    @property
    def tells_attempts(self) -> bool: ...

    def take_events(self) -> Sequence[ClientEvent]: ...  # those since the last call, in order
