"""On a cluster that others use, what a client is told and tells has the run's own names here and marked ones there."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from harness.clients.kafka_python import KafkaPythonClient
from harness.clients.kafka_python_member import KafkaPythonMember
from harness.clients.renamed import Renaming, renamed
from harness.ports.clients import ClientEvent, ClientUse, ReportsEvents
from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition
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

NAMES = OwnNames("chaos-3f2a-")
HERE, THERE = TopicPartition(topic="orders", partition=1), TopicPartition(topic="chaos-3f2a-orders", partition=1)
CAPABILITIES = (ReportsEvents, KnowsPositions, StartsAnywhere, GroupClient, TransactionalClient)


class Plain:
    """Keeps what it was told, and answers with what it knows by its name there."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        self.calls.append([record.topic for record in records])
        return [SendOutcome(status="ok", offset=5, error=None, end_ns=1)]

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        self.calls.append(list(partitions))

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        return [ReadRecord(topic=THERE.topic, partition=1, offset=5, epoch=0, value=b"v")]

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 6)

    async def close(self) -> None:
        self.calls.append("closed")


class Able(Plain):
    tells_attempts = True

    def take_events(self) -> Sequence[ClientEvent]:
        return [
            ClientEvent(event="leader", t_ns=1, topic=THERE.topic, partition=1),
            ClientEvent(event="connect", t_ns=2, node=1),
        ]

    async def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 7)

    async def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def assign_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.calls.append(dict(offsets))

    def out_of_range(self, error: BaseException) -> frozenset[TopicPartition]:
        return frozenset({THERE})

    async def subscribe(self, topics: Sequence[str]) -> None:
        self.calls.append(list(topics))

    def rebalances(self) -> Sequence[GroupEvent]:
        return [self._event({THERE: None})]

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        return self._event(offsets)

    async def committed(self, partitions: Sequence[TopicPartition]) -> GroupEvent:
        return self._event(dict.fromkeys(partitions, 3))

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        return self._event(offsets)

    async def crash(self) -> None:
        self.calls.append("crashed")

    async def begin_transaction(self) -> None:
        self.calls.append("begun")

    async def send_offsets(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        return self._event(offsets)

    async def end_transaction(self, *, commit: bool) -> TransactionEnd:
        return TransactionEnd(outcome="committed" if commit else "aborted")

    def _event(self, offsets: Mapping[TopicPartition, int | None]) -> GroupEvent:
        self.calls.append(dict(offsets))
        return GroupEvent(event="committed", offsets=offsets, begin_ns=1, end_ns=2)


async def test_records_and_partitions_are_renamed_on_both_ways() -> None:
    inner = Plain()
    client = renamed(inner, NAMES)

    await client.send([Send(topic="orders", partition=1, value=b"v")])
    await client.assign([HERE], from_beginning=True)

    assert inner.calls == [["chaos-3f2a-orders"], [THERE]]
    assert [record.topic for record in await client.poll(1, timeout_s=0)] == ["orders"]
    assert await client.end_offsets([HERE]) == {HERE: 6}
    assert not any(isinstance(client, able) for able in CAPABILITIES), "it can do no more than what it wraps"


async def test_what_groups_and_readers_are_told_is_renamed_too() -> None:
    inner = Able()
    client: Any = renamed(inner, NAMES)

    assert all(isinstance(client, able) for able in CAPABILITIES)
    assert client.tells_attempts
    assert [event.topic for event in client.take_events()] == ["orders", None]
    assert await client.positions([HERE]) == {HERE: 7}
    assert await client.first_offsets([HERE]) == {HERE: 0}
    assert client.out_of_range(ValueError()) == {HERE}
    assert [list(event.offsets) for event in client.rebalances()] == [[HERE]]
    inner.calls.clear()
    await client.assign_at({HERE: 4})
    await client.subscribe(["orders"])
    events = [
        await client.commit({HERE: 1}),
        await client.committed([HERE]),
        await client.seek({HERE: 2}),
        await client.send_offsets({HERE: 9}),
    ]
    assert [event.offsets for event in events] == [{HERE: 1}, {HERE: 3}, {HERE: 2}, {HERE: 9}]
    assert inner.calls == [{THERE: 4}, ["chaos-3f2a-orders"], {THERE: 1}, {THERE: 3}, {THERE: 2}, {THERE: 9}]


def test_a_client_is_made_for_the_marked_group_and_id() -> None:
    used: list[ClientUse | None] = []

    def make(*, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Plain:
        used.append(use)
        return Plain()

    maker = Renaming(make, NAMES)
    maker(bootstrap="a:1", settings=WorkloadSpec(), use=ClientUse(role="both", group="g", transactional_id="g-1"))
    maker(bootstrap="a:1", settings=WorkloadSpec(), use=ClientUse(role="consumer"))
    maker(bootstrap="a:1", settings=WorkloadSpec())

    assert [None if use is None else (use.group, use.transactional_id) for use in used] == [
        ("chaos-3f2a-g", "chaos-3f2a-g-1"),
        (None, None),
        None,
    ]


def test_the_coordinators_topics_are_everybodys() -> None:
    assert NAMES.there("__consumer_offsets") == NAMES.here("__consumer_offsets") == "__consumer_offsets"
    assert OwnNames.drawn("") == OwnNames()
    assert OwnNames.drawn("team").there("orders").startswith("team-")


@pytest.mark.parametrize("kind", [KafkaPythonClient, KafkaPythonMember])
def test_what_the_libraries_clients_can_do_stays_possible(kind: type) -> None:
    inner: Any = object.__new__(kind)
    client = renamed(inner, NAMES)
    assert [able for able in CAPABILITIES if isinstance(client, able)] == [
        able for able in CAPABILITIES if isinstance(inner, able)
    ]
