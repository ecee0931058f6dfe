"""What a workload asks a client for."""

from dataclasses import dataclass
from typing import Literal

METADATA_MAX_AGE_MS = 1000  # what all client libraries are set to: so old may be what a client knows of leaders


@dataclass(frozen=True, kw_only=True)
class ClientUse:
    """What a client is made for, beyond the settings that all clients of a workload share."""

    role: Literal["producer", "consumer", "both"]
    group: str | None = None
    transactional_id: str | None = None
    isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    offset_reset: Literal["earliest", "latest", "none"] = "none"
