"""Groups and transactions: the additional interfaces of such clients and of their journal.

The other half of cluster.py. A workload requests such a client with ClientUse (clients.py), and tests its
capabilities with `isinstance`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from harness.ports.cluster import Client, Journal, ReadRecord, Send, TopicPartition


@dataclass(frozen=True, kw_only=True)
class GroupEvent:
    """An event between a client and its group, as in the table group_events (harness/history/schema/schemas.py)."""

    event: Literal["assigned", "revoked", "lost", "committed", "fetched", "seek"]
    offsets: Mapping[TopicPartition, int | None]
    begin_ns: int
    end_ns: int
    status: Literal["ok", "fail", "info"] = "ok"
    error: str | None = None
    generation: int | None = None
    member: str | None = None
    require_stable: bool | None = None  # of a fetch, if it is known


@dataclass(frozen=True, kw_only=True)
class TransactionEnd:
    """never_begun: no broker was told of it: nothing was in it, or the client refused to begin it."""

    outcome: Literal["committed", "aborted", "unknown", "never_begun"]
    error: str | None = None


@runtime_checkable
class KnowsPositions(Protocol):
    """A consumer that knows which offsets it skips: transaction markers, aborted records, compacted offsets."""

    async def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]: ...

    async def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]: ...


@runtime_checkable
class StartsAnywhere(Protocol):
    """A consumer that can be assigned partitions at given offsets."""

    async def assign_at(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def out_of_range(self, error: BaseException) -> frozenset[TopicPartition]:
        """The partitions whose leaders answered, by this error of a poll, that they have nothing at that offset."""
        ...


@runtime_checkable
class GroupClient(Client, Protocol):
    """A member of a group (ClientUse.group). A coordinator's refusal is an event's status, never an exception."""

    async def subscribe(self, topics: Sequence[str]) -> None: ...

    def rebalances(self) -> Sequence[GroupEvent]: ...  # assigned, revoked, lost: events since the last call, in order

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent: ...  # waits for the answer

    # requests them from the coordinator
    async def committed(self, partitions: Sequence[TopicPartition]) -> GroupEvent: ...

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent: ...

    async def crash(self) -> None: ...  # ends without leaving the group


@runtime_checkable
class TransactionalClient(GroupClient, Protocol):
    """A client with a transactional id. After a transaction with outcome `unknown` it must be replaced."""

    async def begin_transaction(self) -> None: ...  # raises the library's exceptions: no transaction has begun then

    async def send_offsets(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent: ...  # to the transaction

    async def end_transaction(self, *, commit: bool) -> TransactionEnd: ...


@runtime_checkable
class GroupJournal(Journal, Protocol):
    """Operations inside a transaction name it; `transaction` is the journal's own number."""

    def invoke(self, f: str, records: Sequence[Send] = (), *, transaction: int | None = None) -> int: ...

    def group_event(self, event: GroupEvent, *, transaction: int | None = None) -> None: ...

    def polled(self, records: Sequence[ReadRecord], *, begin_ns: int, end_ns: int) -> None:
        """A poll that is told once it is over."""
        ...

    def done(self, f: str, *, begin_ns: int | None = None, count: int = 0, error: str | None = None) -> None:
        """A completed operation without records: subscribe, crash."""
        ...

    def begin_transaction(self) -> int: ...  # before the library is called; returns the journal's own number

    def end_transaction(self, transaction: int, end: TransactionEnd) -> None: ...
