"""A group of one member, in memory: a log to read, a coordinator that remembers, and errors where a test wants them."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from harness.ports.clients import ClientUse
from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition, Workload
from harness.ports.membership import GroupEvent, TransactionEnd
from tests.waiting import PATIENCE_S
from tests.workloads.notes import Notes
from workloads.consumer_groups import ConsumerGroupsSettings
from workloads.transactions import TransactionsSettings

ORDERS = TopicPartition(topic="orders", partition=0)
RESULTS = TopicPartition(topic="results", partition=0)
BATCH = 3


def event(kind: Any, offsets: Mapping[TopicPartition, int | None], *, fails: bool = False) -> GroupEvent:
    status: Literal["ok", "fail"] = "fail" if fails else "ok"
    return GroupEvent(event=kind, offsets=offsets, begin_ns=1, end_ns=2, status=status, generation=1, member="m")


class Script:
    """`fails(what, number)`: whether the so-manieth call of that name fails. The end is set after `polls` polls."""

    def __init__(self, *, polls: int, fails: Callable[[str, int], bool] = lambda what, number: False) -> None:
        self.notes = Notes()
        self.until = asyncio.Event()
        self.members: list[Member] = []
        self.uses: list[ClientUse | None] = []
        self.stored: int | None = None
        self.last: dict[str, int] = {}
        self._polls = polls
        self._fails = fails

    def fails(self, what: str) -> bool:
        self.last[what] = self.last.get(what, 0) + 1
        if what == "poll" and self.last[what] >= self._polls:
            self.until.set()
        return self._fails(what, self.last[what])

    def make(self, use: ClientUse | None = None) -> "Member":
        self.notes.process += 1
        self.uses.append(use)
        self.members.append(Member(self))
        return self.members[-1]

    async def act(self, workload: Workload) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await workload.act(self.make, self.notes, random.Random(5), self.until)


class Member:
    """Implements TransactionalClient. Every poll has BATCH records of an endless log."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._heard: list[GroupEvent] = []
        self._position = script.stored or 0
        self._pending: int | None = None
        self._joined = False
        self.ended: str | None = None

    async def subscribe(self, topics: Sequence[str]) -> None:
        if self._script.fails("subscribe"):
            raise ConnectionError("no coordinator")
        self._joined = True
        self._heard.append(event("assigned", {ORDERS: None}))

    def rebalances(self) -> Sequence[GroupEvent]:
        heard, self._heard = self._heard, []
        return heard

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        await asyncio.sleep(0)
        if self._script.fails("poll"):
            raise ConnectionError("gone")
        if self._script.fails("rebalance"):
            self._heard.append(event("revoked", {ORDERS: None}))
        first, self._position = self._position, self._position + BATCH
        return [
            ReadRecord(topic="orders", partition=0, offset=at, epoch=0, value=b"v")
            for at in range(first, first + BATCH)
        ]

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        if self._script.fails("commit"):
            return event("committed", offsets, fails=True)
        self._script.stored = offsets[ORDERS]
        return event("committed", offsets)

    async def committed(self, partitions: Sequence[TopicPartition]) -> GroupEvent:
        return event("fetched", dict.fromkeys(partitions, self._script.stored))

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        if self._script.fails("seek"):
            return event("seek", offsets, fails=True)
        self._position = offsets.get(ORDERS, self._position)
        return event("seek", offsets)

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        raise AssertionError("a member of a group is assigned partitions by the group")

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {}

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        status: Literal["ok", "info"] = "info" if self._script.fails("send") else "ok"
        return [SendOutcome(status=status, offset=None, error=None, end_ns=1) for _ in records]

    async def begin_transaction(self) -> None:
        if self._script.fails("begin"):
            raise TimeoutError
        self._pending = None

    async def send_offsets(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        if self._script.fails("offsets"):
            return event("committed", offsets, fails=True)
        self._pending = offsets[ORDERS]
        return event("committed", offsets)

    async def end_transaction(self, *, commit: bool) -> TransactionEnd:
        if not commit:
            return TransactionEnd(outcome="aborted")
        if self._script.fails("end"):
            return TransactionEnd(outcome="unknown", error="no answer")
        self._script.stored = self._pending
        return TransactionEnd(outcome="committed")

    async def crash(self) -> None:
        self.ended = "crashed"

    async def close(self) -> None:
        self.ended = "left"
        if self._joined:
            self._heard.append(event("revoked", {ORDERS: None}))


def in_a_group(**changes: Any) -> ConsumerGroupsSettings:
    return ConsumerGroupsSettings(group="readers", **changes)


def in_transactions(**changes: Any) -> TransactionsSettings:
    usual: dict[str, Any] = {"group": "readers", "output": "results", "processors": 1, "abort_share": 0.0}
    return TransactionsSettings(**(usual | changes))
