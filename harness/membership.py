"""Groups and transactions: what a client may be beyond one that sends and reads, and what its journal then tells.

The other half of interfaces.py. A workload asks for such a client with ClientUse (client_use.py), and for what it can
do with `isinstance`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from harness.interfaces import Client, Journal, Send, TopicPartition


@dataclass(frozen=True, kw_only=True)
class GroupEvent:
    """What happened between a client and its group, as the tables have it (history/schemas.py, group_events)."""

    event: Literal["assigned", "revoked", "lost", "committed", "fetched", "seek"]
    offsets: Mapping[TopicPartition, int | None]
    t0_ns: int
    t1_ns: int
    status: Literal["ok", "fail", "info"] = "ok"
    error: str | None = None
    generation: int | None = None
    member: str | None = None


@dataclass(frozen=True, kw_only=True)
class TransactionEnd:
    outcome: Literal["committed", "aborted", "unknown"]
    error: str | None = None


@runtime_checkable
class KnowsPositions(Protocol):
    """A consumer that passes what it hands to nobody: transaction markers, aborted records, compacted offsets."""

    async def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]: ...

    async def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]: ...


@runtime_checkable
class GroupClient(Client, Protocol):
    """A member of a group (ClientUse.group). What the coordinator refuses is an event's status, never an exception."""

    async def subscribe(self, topics: Sequence[str]) -> None: ...

    def rebalances(self) -> Sequence[GroupEvent]: ...  # assigned, revoked, lost: since the last time, in order

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent: ...  # waits for the answer

    async def committed(self, partitions: Sequence[TopicPartition]) -> GroupEvent: ...  # asks the coordinator

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent: ...

    async def crash(self) -> None: ...  # gone without a word to the group


@runtime_checkable
class TransactionalClient(GroupClient, Protocol):
    """With a transactional id. A client whose transaction ended `unknown` must be replaced."""

    async def begin_transaction(self) -> None: ...  # raises what the library raises: nothing has begun then

    async def send_offsets(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent: ...  # to the transaction

    async def end_transaction(self, *, commit: bool) -> TransactionEnd: ...


@runtime_checkable
class GroupJournal(Journal, Protocol):
    """Operations inside a transaction name it; `transaction` is the journal's own number."""

    def invoke(self, f: str, records: Sequence[Send] = (), *, transaction: int | None = None) -> int: ...

    def group_event(self, event: GroupEvent, *, transaction: int | None = None) -> None: ...

    def done(self, f: str, *, t0_ns: int | None = None, count: int = 0, error: str | None = None) -> None:
        """An operation without records that is over: subscribe, crash."""
        ...

    def begin_transaction(self) -> int: ...  # before the library is asked; returns the journal's own number

    def end_transaction(self, transaction: int, end: TransactionEnd) -> None: ...
