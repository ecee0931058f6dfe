"""Single requests of Kafka's protocol, by name: what can be held on its way, and what a trigger can wait for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Protocol, runtime_checkable

from harness.ports.cluster import Evidence, Link

API_KEYS: Mapping[str, int] = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "LeaderAndIsr": 4,
    "StopReplica": 5,
    "UpdateMetadata": 6,
    "ControlledShutdown": 7,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "SyncGroup": 14,
    "InitProducerId": 22,
    "OffsetForLeaderEpoch": 23,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "WriteTxnMarkers": 27,
    "TxnOffsetCommit": 28,
    "AlterPartition": 56,
}


def request_name(value: Any) -> str:
    """Raises ValueError, with the nearest name."""
    if value in API_KEYS:
        return str(value)
    close = get_close_matches(str(value)[:100], API_KEYS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(API_KEYS)}"
    raise ValueError(f"{str(value)[:100]!r} is no request; {hint}")


RequestName = Annotated[str, request_name]


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Which ones a fault strikes, and how. nth: only that one of those that pass since it began; 0: each of them.
    lost: they never arrive, and end their connection; else they wait."""

    request: str
    answers: bool = False
    nth: int = 0
    lost: bool = False

    def described(self) -> str:
        """For people: "answer to Fetch number 2"."""
        many = f"answers to {self.request}" if self.answers else f"{self.request} requests"
        one = f"answer to {self.request}" if self.answers else f"{self.request} request"
        return f"{one} number {self.nth}" if self.nth else many


@runtime_checkable
class CanHoldRequests(Protocol):
    """A network that reads Kafka's frames. What comes behind a held frame on its connection waits with it. A lost one
    takes its connection along, for no byte of a stream is skipped: both ends are reset when it would have arrived."""

    async def strike_requests(self, links: Sequence[Link], requests: Requests) -> Evidence: ...

    async def pass_requests(self, links: Sequence[Link], requests: Requests) -> Evidence: ...

    async def requested(self, request: str, nth: int) -> None:
        """Returns when the nth from now leaves its sender, struck or not, on whichever link."""
        ...
