"""What members ask a coordinator and what they are answered; its settings."""

from dataclasses import dataclass

from reference_impl.core.identifiers import ErrorCode
from reference_impl.wire.record_fields import TEXT_BYTES_MAX

NO_GENERATION = -1
NO_MEMBER_ID = ""
MADE_ID_BYTES = 37  # a hyphen and a UUID, which make a member's id of its client's or its instance's

Protocols = tuple[tuple[str, bytes], ...]  # in the member's order of preference: name, metadata


def too_long(*texts: str) -> bool:
    """Whether one of them does not fit into a record: flexible versions of requests have room for longer ones."""
    return any(len(text.encode()) + MADE_ID_BYTES > TEXT_BYTES_MAX for text in texts)


@dataclass(frozen=True, kw_only=True)
class JoinRequest:
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    needs_known_id: bool  # JoinGroup since version 4: a new dynamic member asks for an id first (KIP-394)
    can_skip_assignment: bool  # since version 9: a static leader may be told not to assign again (KIP-814)


@dataclass(frozen=True, kw_only=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, kw_only=True)
class JoinAnswer:
    error: ErrorCode
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()  # for the leader alone
    skip_assignment: bool = False


@dataclass(frozen=True, kw_only=True)
class SyncRequest:
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


@dataclass(frozen=True, kw_only=True)
class SyncAnswer:
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who speaks. member_id is empty for a static member that is named by its instance alone."""

    member_id: str
    instance_id: str | None = None
    generation: int = NO_GENERATION


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """Kafka's settings of a broker, with its defaults."""

    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_commit_timeout_ms: int = 5000
    offsets_retention_ms: int = 7 * 24 * 3_600_000
