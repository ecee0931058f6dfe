"""The properties that a workload requires of a client."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.ports.load import WorkloadSpec

METADATA_MAX_AGE_MS = 1000  # a setting of all client libraries: the maximum age of a client's metadata


@dataclass(frozen=True, kw_only=True)
class ClientUse:
    """What a client is created for, in addition to the settings that all clients of a workload share."""

    role: Literal["producer", "consumer", "both"]
    group: str | None = None
    group_protocol: Literal["classic", "consumer"] = "classic"  # how its members join: JoinGroup, or KIP-848
    session_timeout_ms: int = 6000  # of a group's member
    transactional_id: str | None = None
    transaction_timeout_ms: int = 10_000
    isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    offset_reset: Literal["earliest", "latest", "none"] = "none"


def as_used(settings: WorkloadSpec, use: ClientUse | None) -> WorkloadSpec:
    """What the load's settings come to for such a client: every library refuses transactions without idempotence, and
    idempotence without acks=all or without retries, so these are for the load's plain producers."""
    if use is None or use.transactional_id is None or settings.idempotent:
        return settings
    return replace(settings, acks="all", idempotence=True, retries=None)
