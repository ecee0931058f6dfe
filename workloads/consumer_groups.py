"""Producers as in produce_and_poll; consumers are members of one group, which come and go.

A member polls, processes, and commits by hand what it has of partitions that are still its own; by chance it goes back
to the first records of a poll instead. After a while, drawn by the seed, it leaves, or crashes: no commit, no word to
the group, whose coordinator must miss it. All that passes between a member and its group is journalled, the committed
offsets it starts from included. A member that cannot poll any more is replaced like any other.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import ClassVar

from harness.client_use import ClientUse
from harness.interfaces import ClientFactory, Event, Journal, ReadRecord, TopicPartition, Workload
from harness.membership import GroupClient, GroupEvent, GroupJournal
from harness.scenario import WorkloadSpec
from workloads.produce_and_poll import POLL_RECORDS, POLL_S, RENEW_S, ProduceAndPoll


class Membership:
    """One client's life in a group: which partitions it owns, as far as it was told, and what of it is journalled."""

    def __init__(self, client: GroupClient, journal: GroupJournal) -> None:
        self._client = client
        self._journal = journal
        self.owned: set[TopicPartition] = set()

    async def join(self, topics: Sequence[str]) -> bool:
        """False when the library refuses; that is journalled too."""
        error = None
        try:
            await self._client.subscribe(topics)
        except Exception as raised:  # noqa: BLE001  # whatever the library raises: the next client tries again
            error = type(raised).__name__
        self._journal.done("subscribe", count=len(topics), error=error)
        return error is None

    async def poll(self, *, limit: int = POLL_RECORDS, transaction: int | None = None) -> Sequence[ReadRecord] | None:
        """None when the client is of no use any more. What was heard of the group comes first."""
        operation = self._journal.invoke("poll", transaction=transaction)
        try:
            records = await self._client.poll(limit, timeout_s=POLL_S)
        except Exception as error:  # noqa: BLE001  # recorded; a new client is the remedy for all of them
            self.hear()
            self._journal.complete_poll(operation, (), error=type(error).__name__)
            return None
        gained = self.hear()
        self._journal.complete_poll(operation, records)
        if gained:
            self._journal.group_event(await self._client.committed(gained))
        return records

    def hear(self) -> list[TopicPartition]:
        """Journals the rebalances since the last time; the partitions gained."""
        gained: list[TopicPartition] = []
        for event in self._client.rebalances():
            self._journal.group_event(event)
            if event.event == "assigned":
                self.owned |= event.offsets.keys()
                gained = list(event.offsets)
            else:
                self.owned -= event.offsets.keys()
                gained = []
        return gained

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> bool:
        event = await self._client.seek(offsets)
        self._journal.group_event(event)
        return event.status == "ok"


def positions_after(records: Sequence[ReadRecord]) -> dict[TopicPartition, int]:
    """The offset behind the last record of each partition: what is committed once they are processed."""
    return {TopicPartition(topic=each.topic, partition=each.partition): each.offset + 1 for each in records}


def positions_before(records: Sequence[ReadRecord]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic=each.topic, partition=each.partition): each.offset for each in reversed(records)}


class ConsumerGroups:
    """Implements harness.interfaces.Workload for one of its clients."""

    name: ClassVar[str] = "consumer_groups"

    def __init__(self, *, topics: Sequence[str], settings: WorkloadSpec) -> None:
        self._topics = tuple(topics)
        self._settings = settings
        self._use = ClientUse(role="consumer", group=settings.group, offset_reset="earliest")

    async def act(self, client: ClientFactory, journal: Journal, chance: random.Random, until: Event) -> None:
        loop = asyncio.get_running_loop()
        stay_s = self._settings.stay_s
        while not until.is_set():
            leaves = loop.time() + chance.expovariate(1 / stay_s) if stay_s else float("inf")
            crashes = chance.random() < self._settings.crash_share
            member = client(self._use)
            assert isinstance(member, GroupClient), member
            assert isinstance(journal, GroupJournal), journal
            membership = Membership(member, journal)
            alive = True
            try:
                alive = await membership.join(self._topics) and await self._stay(
                    member, membership, journal, chance, until, leaves
                )
            finally:
                if alive and crashes and not until.is_set():
                    await member.crash()
                    journal.done("crash")
                else:
                    await member.close()
                    membership.hear()
            if not until.is_set():
                await asyncio.sleep(RENEW_S)

    async def _stay(
        self,
        member: GroupClient,
        membership: Membership,
        journal: GroupJournal,
        chance: random.Random,
        until: Event,
        leaves: float,
    ) -> bool:
        """Until it is time to go; False when the client gave up first."""
        loop = asyncio.get_running_loop()
        while not until.is_set():
            records = await membership.poll()
            if records is None:
                return False
            if loop.time() >= leaves:
                return True  # with what it has polled and not committed, which is delivered again
            if records and chance.random() < self._settings.seek_share:
                if not await membership.seek(_kept(positions_before(records), membership.owned)):
                    return False
            elif processed := _kept(positions_after(records), membership.owned):
                event: GroupEvent = await member.commit(processed)
                journal.group_event(event)
        return True


def _kept(offsets: Mapping[TopicPartition, int], owned: set[TopicPartition]) -> dict[TopicPartition, int]:
    return {partition: offset for partition, offset in offsets.items() if partition in owned}


def make_workload(
    *, role: str, place: int, places: int, partitions: Sequence[TopicPartition], settings: WorkloadSpec
) -> Workload:
    if role == "producer":
        return ProduceAndPoll(role=role, place=place, places=places, partitions=partitions, settings=settings)
    return ConsumerGroups(topics=sorted({partition.topic for partition in partitions}), settings=settings)
