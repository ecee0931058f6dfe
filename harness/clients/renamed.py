"""A client of any library that speaks of a run's topics and groups as the run does, where they have other names on the
cluster (own_names.py). It can do what the client that it wraps can, and nothing else: one class for each capability.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from harness.ports.clients import ClientEvent, ClientUse, ReportsEvents
from harness.ports.cluster import Client, ClientMaker, Event, ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.membership import (
    GroupClient,
    GroupEvent,
    KnowsPositions,
    StartsAnywhere,
    TransactionalClient,
    TransactionEnd,
)
from harness.ports.own_names import OwnNames
from harness.ports.programs import Polled, ReadsByItself, SendsByItself


class Renamed:
    """Implements Client. `inner`: what the subclasses know to be possible is called on it."""

    def __init__(self, inner: Any, names: OwnNames) -> None:
        self._inner = inner
        self._names = names

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        there = self._names.there
        sent: Sequence[SendOutcome] = await self._inner.send(
            [replace(record, topic=there(record.topic)) for record in records]
        )
        return sent

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        await self._inner.assign(self._names.all_there(partitions), from_beginning=from_beginning)

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        here = self._names.here
        return [
            replace(record, topic=here(record.topic)) for record in await self._inner.poll(limit, timeout_s=timeout_s)
        ]

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._names.keyed_here(await self._inner.end_offsets(self._names.all_there(partitions)))

    async def close(self) -> None:
        await self._inner.close()


class _Reports(Renamed):
    @property
    def tells_attempts(self) -> bool:
        tells: bool = self._inner.tells_attempts
        return tells

    def take_events(self) -> Sequence[ClientEvent]:
        return [
            event if event.topic is None else replace(event, topic=self._names.here(event.topic))
            for event in self._inner.take_events()
        ]


class _KnowsPositions(Renamed):
    async def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._names.keyed_here(await self._inner.positions(self._names.all_there(partitions)))

    async def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._names.keyed_here(await self._inner.first_offsets(self._names.all_there(partitions)))


class _StartsAnywhere(Renamed):
    async def assign_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        await self._inner.assign_at(self._names.keyed_there(offsets))

    def out_of_range(self, error: BaseException) -> frozenset[TopicPartition]:
        return frozenset(self._names.partition_here(each) for each in self._inner.out_of_range(error))


class _Member(Renamed):
    def _heard(self, event: GroupEvent) -> GroupEvent:
        return replace(event, offsets=self._names.keyed_here(event.offsets))

    async def subscribe(self, topics: Sequence[str]) -> None:
        await self._inner.subscribe([self._names.there(topic) for topic in topics])

    def rebalances(self) -> Sequence[GroupEvent]:
        return [self._heard(event) for event in self._inner.rebalances()]

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        return self._heard(await self._inner.commit(self._names.keyed_there(offsets)))

    async def committed(self, partitions: Sequence[TopicPartition]) -> GroupEvent:
        return self._heard(await self._inner.committed(self._names.all_there(partitions)))

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        return self._heard(await self._inner.seek(self._names.keyed_there(offsets)))

    async def crash(self) -> None:
        await self._inner.crash()


class _Transactional(_Member):
    async def begin_transaction(self) -> None:
        await self._inner.begin_transaction()

    async def send_offsets(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        return self._heard(await self._inner.send_offsets(self._names.keyed_there(offsets)))

    async def end_transaction(self, *, commit: bool) -> TransactionEnd:
        ended: TransactionEnd = await self._inner.end_transaction(commit=commit)
        return ended


class _SendsByItself(Renamed):
    def planned(self, partitions: Sequence[TopicPartition], *, process: int, records: int) -> Sequence[Send]:
        planned = self._inner.planned(self._names.all_there(partitions), process=process, records=records)
        return [replace(record, topic=self._names.here(record.topic)) for record in planned]

    def run(
        self, batches: Sequence[Sequence[Send]], *, records_per_second: float, until: Event
    ) -> AsyncIterator[tuple[int, Sequence[SendOutcome]]]:
        there = [[replace(record, topic=self._names.there(record.topic)) for record in batch] for batch in batches]
        running: AsyncIterator[tuple[int, Sequence[SendOutcome]]] = self._inner.run(
            there, records_per_second=records_per_second, until=until
        )
        return running


class _ReadsByItself(Renamed):
    async def join(self, topics: Sequence[str]) -> None:
        await self._inner.join([self._names.there(topic) for topic in topics])

    async def told(self, *, timeout_s: float) -> Sequence[Polled | GroupEvent]:
        return self._here(await self._inner.told(timeout_s=timeout_s))

    def take(self) -> Sequence[Polled | GroupEvent]:
        return self._here(self._inner.take())

    def _here(self, told: Sequence[Polled | GroupEvent]) -> Sequence[Polled | GroupEvent]:
        here, keyed = self._names.here, self._names.keyed_here
        return [
            replace(each, records=[replace(record, topic=here(record.topic)) for record in each.records])
            if isinstance(each, Polled)
            else replace(each, offsets=keyed(each.offsets))
            for each in told
        ]

    @property
    def has_ended(self) -> bool:
        ended: bool = self._inner.has_ended
        return ended

    async def crash(self) -> None:
        await self._inner.crash()


# Those that contain others first: a class stands before what it is made of.
_PARTS: Sequence[tuple[type, type[Renamed]]] = (
    (TransactionalClient, _Transactional),
    (GroupClient, _Member),
    (StartsAnywhere, _StartsAnywhere),
    (KnowsPositions, _KnowsPositions),
    (ReportsEvents, _Reports),
    (SendsByItself, _SendsByItself),
    (ReadsByItself, _ReadsByItself),
)


@cache
def _kind(parts: tuple[type[Renamed], ...]) -> type[Renamed]:
    return type("RenamedClient", (*parts, Renamed), {})


def renamed(client: Client, names: OwnNames) -> Client:
    return _kind(tuple(part for able, part in _PARTS if isinstance(client, able)))(client, names)


class Renaming:
    """A ClientMaker whose clients speak of the run's names."""

    def __init__(self, make_client: ClientMaker, names: OwnNames) -> None:
        self._make_client = make_client
        self._names = names

    def __call__(self, *, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Client:
        use = self._names.use_there(use)
        return renamed(self._make_client(bootstrap=bootstrap, settings=settings, use=use), self._names)
