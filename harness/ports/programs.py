"""Clients that are programs of their own: they choose what they send, read and commit, and when, and tell of it after.

What is not known of them is left open. A program may have sent whatever it may ever send, so all of that is journalled
before it begins; and what it did lies between the last moment at which it is known to have said nothing of what came
before, and the moment at which it was heard.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.ports.cluster import Event, ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.membership import GroupEvent


@runtime_checkable
class SendsByItself(Protocol):
    """A producer. It lives for the records that were planned, and is replaced then."""

    def planned(self, partitions: Sequence[TopicPartition], *, process: int, records: int) -> Sequence[Send]:
        """All that it may send, in its order. partitions: all of one topic. process: the client's number in the run."""
        ...

    def run(
        self, batches: Sequence[Sequence[Send]], *, records_per_second: float, until: Event
    ) -> AsyncIterator[tuple[int, Sequence[SendOutcome]]]:
        """Sends what was planned, here in batches; yields the number of each batch, from 0, once all of it has an
        outcome. Those it has not come to when `until` is set were never sent: they fail. Raises HarnessError if it did
        not even begin."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Polled:
    """What a program got by one poll of its own."""

    records: Sequence[ReadRecord]
    begin_ns: int
    end_ns: int


@runtime_checkable
class ReadsByItself(Protocol):
    """A member of a group (ClientUse.group) that polls, and commits what it has polled. What it had told before its end
    can be taken after it."""

    async def join(self, topics: Sequence[str]) -> None: ...

    async def told(self, *, timeout_s: float) -> Sequence[Polled | GroupEvent]:
        """What it told since the last call, in order; waits so long for the first."""
        ...

    def take(self) -> Sequence[Polled | GroupEvent]: ...  # the same without waiting

    @property
    def has_ended(self) -> bool: ...

    async def crash(self) -> None: ...  # ends without leaving the group

    async def close(self) -> None: ...  # leaves the group
