"""Every library as a Client on a live cluster whose leader is killed: what it says of each record must be so."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

import pytest
from kafka.errors import OffsetOutOfRangeError

from harness.clients.catalogue import CLIENTS, OWN
from harness.cluster.local.cluster import LocalCluster
from harness.ports.cluster import (
    Client,
    ClientId,
    NodeId,
    ReadRecord,
    Send,
    SendOutcome,
    TopicPartition,
)
from harness.ports.load import WorkloadSpec
from harness.ports.membership import StartsAnywhere
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.cluster

T = TypeVar("T")
LIBRARIES = list(CLIENTS)
SETTINGS = WorkloadSpec(request_timeout_ms=1000, delivery_timeout_ms=2000)
LONGEST_SEND_S = 45.0  # of clients that give up after seconds, on a machine that is busy


class Producer:
    """One library at work as a producer of the workload is: a new client after an unknown outcome."""

    def __init__(self, library: str, cluster: LocalCluster) -> None:
        self.library = library
        self.partition = TopicPartition(topic="orders", partition=LIBRARIES.index(library))
        self.outcomes: dict[bytes, SendOutcome] = {}
        self.longest_s = 0.0
        self.done = asyncio.Event()
        self._bootstrap = cluster.bootstrap(ClientId(1 + LIBRARIES.index(library)))
        self._numbers = itertools.count()

    def client(self) -> Client:
        return CLIENTS[self.library](bootstrap=self._bootstrap, settings=SETTINGS)

    def of(self, status: str) -> dict[bytes, SendOutcome]:
        return {value: outcome for value, outcome in self.outcomes.items() if outcome.status == status}

    async def send(self, client: Client, *, count: int = 5) -> Sequence[SendOutcome]:
        records = [
            Send(topic="orders", partition=self.partition.partition, value=b"v%05d" % next(self._numbers))
            for _ in range(count)
        ]
        began = time.monotonic()
        outcomes = await client.send(records)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.outcomes |= {record.value: outcome for record, outcome in zip(records, outcomes, strict=True)}
        return outcomes

    async def run(self) -> None:
        while not self.done.is_set():
            client, alive = self.client(), True
            try:
                while alive and not self.done.is_set():
                    outcomes = await self.send(client)
                    alive = all(outcome.status != "info" for outcome in outcomes)
                    await asyncio.sleep(0.01)
            finally:
                await client.close()

    async def acknowledged(self, *, more: int) -> None:
        wanted = len(self.of("ok")) + more
        async with asyncio.timeout(PATIENCE_S):
            while len(self.of("ok")) < wanted:
                await asyncio.sleep(0.02)

    async def read_all(self) -> list[ReadRecord]:
        client = self.client()
        try:
            async with asyncio.timeout(PATIENCE_S):
                end = (await client.end_offsets([self.partition]))[self.partition]
                await client.assign([self.partition], from_beginning=True)
                records: list[ReadRecord] = []
                while not records or records[-1].offset + 1 < end:
                    records += await client.poll(100, timeout_s=0.25)
        finally:
            await client.close()
        return records


async def of_all(calls: Iterable[Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*calls))


async def test_what_each_library_says_of_a_record_is_so_through_a_leader_kill(cluster: LocalCluster) -> None:
    producers = [Producer(library, cluster) for library in LIBRARIES]
    async with asyncio.TaskGroup() as running:
        for producer in producers:
            running.create_task(producer.run())
        await of_all(producer.acknowledged(more=50) for producer in producers)
        await cluster.kill(NodeId(1))
        await of_all(producer.acknowledged(more=50) for producer in producers)
        for producer in producers:
            producer.done.set()
    read = await of_all(producer.read_all() for producer in producers)

    for producer, records in zip(producers, read, strict=True):
        library, acknowledged = producer.library, producer.of("ok")
        assert producer.longest_s < LONGEST_SEND_S, library
        assert all((outcome.begin_ns or 0) < outcome.end_ns for outcome in producer.outcomes.values()), library
        assert {outcome.code for outcome in acknowledged.values()} == {0}, library
        assert [record.offset for record in records] == sorted({record.offset for record in records}), library
        places = {record.value: record.offset for record in records}
        assert len(places) == len(records), f"{library}: an idempotent producer wrote a record twice"
        assert all(places.get(value) == outcome.offset for value, outcome in acknowledged.items()), library
        assert not producer.of("fail").keys() & places.keys(), library
        assert places.keys() <= producer.outcomes.keys(), library
        epochs = {record.epoch for record in records}
        assert epochs == ({None} if library == "aiokafka" else {0, 1}), library


async def test_what_too_few_replicas_got_is_unknown_to_each_library_and_closing_does_not_wait_for_it(
    cluster: LocalCluster,
) -> None:
    producers = [Producer(library, cluster) for library in LIBRARIES]
    clients = [producer.client() for producer in producers]
    async with asyncio.timeout(PATIENCE_S):
        for producer, client in zip(producers, clients, strict=True):
            while not producer.of("ok"):
                await producer.send(client)
    await cluster.kill(NodeId(2))
    await cluster.kill(NodeId(3))

    reported = await of_all(producer.send(client) for producer, client in zip(producers, clients, strict=True))
    began = time.monotonic()
    await of_all(client.close() for client in clients)

    assert {
        producer.library: {outcome.status for outcome in outcomes}
        for producer, outcomes in zip(producers, reported, strict=True)
    } == {library: {"info"} for library in LIBRARIES}
    assert time.monotonic() - began < LONGEST_SEND_S


async def polled_on(client: Client) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await client.poll(100, timeout_s=0.2)


async def test_the_final_reads_library_starts_at_any_offset_and_says_which_has_nothing(cluster: LocalCluster) -> None:
    first, second = (TopicPartition(topic="orders", partition=number) for number in range(2))
    client = CLIENTS[OWN](bootstrap=cluster.bootstrap(None), settings=SETTINGS)
    assert isinstance(client, StartsAnywhere)
    try:
        sent = [
            Send(topic="orders", partition=each.partition, value=b"v%d" % at)
            for each in (first, second)
            for at in range(5)
        ]
        assert {outcome.status for outcome in await client.send(sent)} == {"ok"}
        await client.assign_at({first: 3, second: 5})
        read: list[ReadRecord] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(read) < 2:
                read += await client.poll(100, timeout_s=0.2)
        assert [(record.partition, record.offset) for record in read] == [(0, 3), (0, 4)]

        await client.assign_at({first: 5, second: 9})
        with pytest.raises(OffsetOutOfRangeError) as raised:
            await polled_on(client)
        assert client.out_of_range(raised.value) == {second}
        assert client.out_of_range(TimeoutError()) == frozenset()
    finally:
        await client.close()
