"""Producers as in produce_and_poll; consumers are members of one group, which join and leave.

A member polls, processes, and commits explicitly the offsets of partitions that it still owns; at random it seeks back
to the first records of a poll instead. After a time drawn from the seed it leaves, or crashes: without a commit or a
leave request, so that the coordinator must detect it. Everything between a member and its group is journalled, also the
committed offsets it starts from. A member that can no longer poll is replaced like any other.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from harness.ports.clients import ClientUse
from harness.ports.cluster import Client, ClientFactory, Event, Journal, ReadRecord, TopicPartition, Workload
from harness.ports.load import LoadFacts
from harness.ports.membership import GroupClient, GroupEvent, GroupJournal
from harness.ports.programs import ReadsByItself
from harness.values import GroupProtocol, Seconds, Share
from workloads.produce_and_poll import POLL_RECORDS, POLL_S, RENEW_S, ProduceAndPoll, ProducerSettings
from workloads.programs import ProgramsLife


@dataclass(frozen=True, kw_only=True)
class GroupSettings(ProducerSettings):
    """The settings of workloads whose clients are members of a group."""

    group: str = ""
    session_timeout_ms: int = 6000  # the group members' session time-out
    group_protocol: GroupProtocol = "classic"  # how they join: JoinGroup, or KIP-848
    static_members: bool = False  # a member's successor takes its place under its name (KIP-345)
    stay_s: Seconds | None = None  # how long a member stays in its group, on average; None: to the end
    crash_share: Share = 0.5  # share of the leaving members that crash instead

    def check(self, topics: Sequence[str]) -> None:
        if not self.group:
            raise ValueError(f'workload {self.name!r} needs a group, for example group = "readers"')

    def membership(self, place: int) -> ClientUse:
        """Of the member at this place, counted from 0."""
        return ClientUse(
            role="consumer",
            group=self.group,
            group_protocol=self.group_protocol,
            group_instance_id=f"{self.group}-{place + 1}" if self.static_members else None,
            session_timeout_ms=self.session_timeout_ms,
            offset_reset="earliest",
        )


@dataclass(frozen=True, kw_only=True)
class ConsumerGroupsSettings(GroupSettings):
    name: ClassVar[str] = "consumer_groups"

    seek_share: Share = 0.0  # of the polls: the member seeks back to their first records, without a commit

    @property
    def facts(self) -> LoadFacts:
        clients = {"producer": self.producers, "consumer": self.consumers}
        return LoadFacts(
            clients=clients,
            group=self.group,
            session_timeout_ms=self.session_timeout_ms,
            group_protocol=self.group_protocol,
            value_bytes=self.value_bytes,
            in_flight=self.batch,
        )

    def make_worker(self, *, role: str, place: int, places: int, partitions: Sequence[TopicPartition]) -> Workload:
        if role == "producer":
            return ProduceAndPoll(role=role, place=place, places=places, partitions=partitions, settings=self)
        topics = sorted({partition.topic for partition in partitions})
        return ConsumerGroups(topics=topics, settings=self, use=self.membership(place))


class Membership:
    """One client's membership in a group: knows the partitions assigned to it, and journals its events."""

    def __init__(self, client: GroupClient, journal: GroupJournal) -> None:
        self._client = client
        self._journal = journal
        self.owned: set[TopicPartition] = set()

    async def join(self, topics: Sequence[str]) -> bool:
        """Joins the group. False if the library refuses; that is journalled too."""
        error = None
        try:
            await self._client.subscribe(topics)
        except Exception as raised:  # noqa: BLE001  # the library may raise anything: the next client tries again
            error = type(raised).__name__
        self._journal.done("subscribe", count=len(topics), error=error)
        return error is None

    async def poll(self, *, limit: int = POLL_RECORDS, transaction: int | None = None) -> Sequence[ReadRecord] | None:
        """Polls; None if the client must be replaced. Journals the group's events first."""
        operation = self._journal.invoke("poll", transaction=transaction)
        try:
            records = await self._client.poll(limit, timeout_s=POLL_S)
        except Exception as error:  # noqa: BLE001  # any error is recorded; a new client continues
            self.hear()
            self._journal.complete_poll(operation, (), error=type(error).__name__)
            return None
        gained = self.hear()
        self._journal.complete_poll(operation, records)
        if gained:
            self._journal.group_event(await self._client.committed(gained))
        return records

    def hear(self) -> list[TopicPartition]:
        """Journals the rebalances since the last call. Returns the partitions gained."""
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
    """The offset after the last record of each partition, to be committed after processing."""
    return {TopicPartition(topic=each.topic, partition=each.partition): each.offset + 1 for each in records}


def positions_before(records: Sequence[ReadRecord]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic=each.topic, partition=each.partition): each.offset for each in reversed(records)}


class Life(Protocol):
    """What one client does between joining and leaving."""

    async def stay(self, chance: random.Random, until: Event, leaves: float) -> bool:
        """Works until it is time to leave. False if the client failed earlier."""
        ...

    async def before_a_crash(self) -> None: ...

    def hear(self) -> object:
        """Journals what the client has still to tell once it has ended."""
        ...


async def one_after_the_other(
    client: ClientFactory,
    use: ClientUse,
    settings: GroupSettings,
    journal: Journal,
    chance: random.Random,
    until: Event,
    begin: Callable[[Client | ReadsByItself, GroupJournal], Life],
) -> None:
    """The clients of one worker: each stays for a drawn time, then leaves or crashes; the next one joins."""
    loop = asyncio.get_running_loop()
    while not until.is_set():
        leaves = loop.time() + chance.expovariate(1 / settings.stay_s) if settings.stay_s else float("inf")
        crashes = chance.random() < settings.crash_share
        member = client(use)
        assert isinstance(member, GroupClient | ReadsByItself), member
        assert isinstance(journal, GroupJournal), journal
        life = begin(member, journal)
        alive = True
        try:
            alive = await life.stay(chance, until, leaves)
        finally:
            if alive and crashes and not until.is_set():
                await life.before_a_crash()
                await member.crash()
                life.hear()
                journal.done("crash")
            else:
                await member.close()
                life.hear()
        if not until.is_set():
            await asyncio.sleep(RENEW_S)


class ConsumerGroups:
    """Implements harness.ports.cluster.Workload for one of its clients."""

    def __init__(self, *, topics: Sequence[str], settings: ConsumerGroupsSettings, use: ClientUse) -> None:
        self._topics = tuple(topics)
        self._settings = settings
        self._use = use

    async def act(self, client: ClientFactory, journal: Journal, chance: random.Random, until: Event) -> None:
        def begin(member: Client | ReadsByItself, group_journal: GroupJournal) -> Life:
            if isinstance(member, ReadsByItself):
                return ProgramsLife(member, group_journal, self._topics)
            assert isinstance(member, GroupClient), member
            return _Member(member, group_journal, self._topics, self._settings)

        await one_after_the_other(client, self._use, self._settings, journal, chance, until, begin)


class _Member:
    def __init__(
        self, client: GroupClient, journal: GroupJournal, topics: Sequence[str], settings: ConsumerGroupsSettings
    ) -> None:
        self._client = client
        self._journal = journal
        self._topics = topics
        self._settings = settings
        self.membership = Membership(client, journal)

    async def stay(self, chance: random.Random, until: Event, leaves: float) -> bool:
        if not await self.membership.join(self._topics):
            return False
        loop = asyncio.get_running_loop()
        while not until.is_set():
            records = await self.membership.poll()
            if records is None:
                return False
            if loop.time() >= leaves:
                return True  # what it polled and did not commit is delivered again
            owned = self.membership.owned
            if records and chance.random() < self._settings.seek_share:
                if not await self.membership.seek(_kept(positions_before(records), owned)):
                    return False
            elif processed := _kept(positions_after(records), owned):
                event: GroupEvent = await self._client.commit(processed)
                self._journal.group_event(event)
        return True

    async def before_a_crash(self) -> None:
        """Does nothing: what it polled and did not commit is delivered again."""

    def hear(self) -> object:
        return self.membership.hear()


def _kept(offsets: Mapping[TopicPartition, int], owned: set[TopicPartition]) -> dict[TopicPartition, int]:
    return {partition: offset for partition, offset in offsets.items() if partition in owned}
