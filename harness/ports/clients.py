"""What a workload requires of a client, and what its library reports: failed attempts, lost connections, known leaders.

Reports are not part of any answer: a record that was acknowledged in the end may have been sent twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

from harness.ports.load import WorkloadSpec
from harness.values import GroupProtocol

METADATA_MAX_AGE_MS = 1000  # a setting of all client libraries: the maximum age of a client's metadata


@dataclass(frozen=True, kw_only=True)
class ClientUse:
    """What a client is created for, in addition to the settings that all clients of a workload share."""

    role: Literal["producer", "consumer", "both"]
    group: str | None = None
    group_protocol: GroupProtocol = "classic"
    session_timeout_ms: int = 6000  # of a group's member
    group_instance_id: str | None = None  # of a static member (KIP-345)
    transactional_id: str | None = None
    transaction_timeout_ms: int = 10_000
    isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    offset_reset: Literal["earliest", "latest", "none"] = "none"


PLAIN = ClientUse(role="both")


READERS_OF: Mapping[str, str] = {"java": "kafka-python"}  # its tools read as members of groups alone


def library_for(library: str, use: ClientUse | None) -> str:
    """Whose client it is: a library without readers outside of groups has those of another one."""
    is_reader = use is not None and use.role == "consumer" and use.group is None
    return READERS_OF.get(library, library) if is_reader else library


def as_used(settings: WorkloadSpec, use: ClientUse | None) -> WorkloadSpec:
    """What the load's settings come to for such a client: every library refuses transactions without idempotence, and
    idempotence without acks=all or without retries, so these are for the load's plain producers."""
    settings = replace(settings, client=library_for(settings.client, use))
    if use is None or use.transactional_id is None or settings.idempotent:
        return settings
    return replace(settings, acks="all", idempotence=True, retries=None)


# ---- what it reports ------------------------------------------------------------------------------------------------


# attempt_failed: sending a batch failed; it may be sent again. timeout: a request was not answered in time. disconnect:
# a connection was lost or could not be opened. connect: it is open. leader: metadata names a partition's leader, for
# the first time or a different one. request: requests of a kind go to a node in a version, for the first time or a
# different one; only of those kinds in which the version decides what was promised.
Kind = Literal["attempt_failed", "timeout", "disconnect", "connect", "leader", "request"]


@dataclass(frozen=True, kw_only=True)
class ClientEvent:
    """node: the other end; for `leader` the leader, -1 if there is none. None: unknown, or not for this event.

    status: of an attempt, by outcomes.py: fail if it was refused before the append, info if unknown. code: the number
    of the error that a broker answered (error_codes.py).
    """

    event: Kind
    t_ns: int
    node: int | None = None
    topic: str | None = None
    partition: int | None = None
    epoch: int | None = None
    status: Literal["fail", "info"] | None = None
    error: str | None = None
    request: str | None = None
    version: int | None = None
    code: int | None = None


@runtime_checkable
class ReportsEvents(Protocol):
    """A client that reports its events. tells_attempts: it reports each failed attempt before its records' answer."""

    @property
    def tells_attempts(self) -> bool: ...

    def take_events(self) -> Sequence[ClientEvent]: ...  # events since the last call, in order
