"""Kafka's own clients in Java on a cluster: what they did is told, and what they do not tell is left open."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise

import pytest

from harness.clients.catalogue import CLIENTS, clients_for
from harness.clients.java import KAFKA, JavaProducer
from harness.clients.java_member import JavaMember
from harness.clients.java_program import JavaTools, Program
from harness.cluster.brokers.kafka_jars import installed
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.cluster.local.cluster import LocalCluster
from harness.errors import HarnessError
from harness.host.clock import SystemClock
from harness.ports.clients import ClientUse
from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.membership import GroupEvent
from harness.ports.own_names import AS_WRITTEN, OwnNames
from harness.ports.programs import Polled, ReadsByItself, SendsByItself
from harness.preflight.java_clients import java_tools

if installed(resolve_version(KAFKA)) is None:
    pytest.skip(f"no Kafka {KAFKA} in the cache: kafka-chaos fetch-kafka {KAFKA}", allow_module_level=True)
pytestmark = [pytest.mark.cluster, pytest.mark.jvm, pytest.mark.slow]

PARTITIONS = [TopicPartition(topic="orders", partition=number) for number in range(len(CLIENTS))]
SETTINGS = WorkloadSpec(client="java")
Outcomes = dict[bytes, SendOutcome]
WITHIN_S = 60


@asynccontextmanager
async def producer_of(cluster: LocalCluster) -> AsyncIterator[JavaProducer]:
    made = JavaProducer(bootstrap=cluster.bootstrap(None), settings=SETTINGS, tools=java_tools({}))
    assert isinstance(made, SendsByItself)
    try:
        yield made
    finally:
        await made.close()


async def read_all(cluster: LocalCluster) -> dict[bytes, ReadRecord]:
    client = CLIENTS["kafka-python"](bootstrap=cluster.bootstrap(None), settings=WorkloadSpec())
    read: dict[bytes, ReadRecord] = {}
    try:
        await client.assign(PARTITIONS, from_beginning=True)
        ends = await client.end_offsets(PARTITIONS)
        async with asyncio.timeout(WITHIN_S):
            while len(read) < sum(ends.values()):
                read |= {record.value: record for record in await client.poll(500, timeout_s=0.2)}
    finally:
        await client.close()
    return read


def in_batches(planned: Sequence[Send]) -> list[Sequence[Send]]:
    return [planned[start : start + 10] for start in range(0, len(planned), 10)]


async def test_each_record_stands_where_it_was_planned_and_at_the_offset_that_was_told(cluster: LocalCluster) -> None:
    outcomes: Outcomes = {}
    async with producer_of(cluster) as producer:
        planned = producer.planned(PARTITIONS, process=7, records=45)
        batches = in_batches(planned)
        running = producer.run(batches, records_per_second=500, until=asyncio.Event())
        async for number, told in running:
            outcomes |= {send.value: outcome for send, outcome in zip(batches[number], told, strict=True)}

    read = await read_all(cluster)
    assert [send.value for send in planned] == [f"7.{number}".encode() for number in range(45)]
    assert {send.partition for send in planned} == {place.partition for place in PARTITIONS}
    assert {send.value: send.partition for send in planned} == {key: each.partition for key, each in read.items()}
    assert {key: each.offset for key, each in outcomes.items()} == {key: each.offset for key, each in read.items()}
    assert {each.status for each in outcomes.values()} == {"ok"}


async def test_a_producer_that_is_stopped_says_what_it_never_sent(cluster: LocalCluster) -> None:
    outcomes: Outcomes = {}
    stop = asyncio.Event()
    async with producer_of(cluster) as producer:
        batches = in_batches(producer.planned(PARTITIONS, process=0, records=10_000))
        async for number, told in producer.run(batches, records_per_second=50, until=stop):
            stop.set()
            outcomes |= {send.value: outcome for send, outcome in zip(batches[number], told, strict=True)}

    read = await read_all(cluster)
    never = {value for value, outcome in outcomes.items() if outcome.error == "NeverSent"}
    assert len(outcomes) == 10_000
    assert {outcomes[value].status for value in never} == {"fail"}
    assert read.keys() == outcomes.keys() - never
    assert {outcomes[value].status for value in read} == {"ok"}


async def test_a_killed_producer_has_sent_nothing_that_was_not_planned_and_the_rest_is_unknown(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Program] = []

    class Kept(Program):
        def __init__(self, tool: str, clock: SystemClock) -> None:
            super().__init__(tool, clock)
            started.append(self)

    monkeypatch.setattr("harness.clients.java.Program", Kept)
    outcomes: Outcomes = {}
    async with producer_of(cluster) as producer:
        batches = in_batches(producer.planned(PARTITIONS, process=0, records=5_000))
        async for number, told in producer.run(batches, records_per_second=1_000, until=asyncio.Event()):
            if not outcomes:
                started[0].kill()
            outcomes |= {send.value: outcome for send, outcome in zip(batches[number], told, strict=True)}
        assert await started[0].exit_code() == -9

    read = await read_all(cluster)
    acknowledged = {value for value, outcome in outcomes.items() if outcome.status == "ok"}
    assert acknowledged <= read.keys() <= outcomes.keys() == {send.value for batch in batches for send in batch}
    assert {outcome.status for value, outcome in outcomes.items() if value not in acknowledged} == {"info"}


async def test_names_of_brokers_lead_where_they_lead_for_this_client(cluster: LocalCluster) -> None:
    host, _, port = cluster.bootstrap(None).split(",")[0].rpartition(":")
    tools = java_tools({"broker.of.this.run": host})
    producer = JavaProducer(bootstrap=f"broker.of.this.run:{port}", settings=SETTINGS, tools=tools)
    try:
        batches = in_batches(producer.planned(PARTITIONS, process=0, records=10))
        running = producer.run(batches, records_per_second=100, until=asyncio.Event())
        assert [[each.status for each in told] async for _, told in running] == [["ok"] * 10]
    finally:
        await producer.close()


async def test_a_producer_that_cannot_begin_is_an_error_and_not_a_silent_load(cluster: LocalCluster) -> None:
    producer = JavaProducer(bootstrap="nobody.invalid:1", settings=SETTINGS, tools=java_tools({}))
    batches = in_batches(producer.planned(PARTITIONS, process=0, records=10))
    try:
        with pytest.raises(HarnessError, match="VerifiableProducer ended with exit code 1 at its start"):
            async with aclosing(producer.run(batches, records_per_second=10, until=asyncio.Event())) as running:  # type: ignore[type-var]
                assert [each async for each in running] == []
    finally:
        await producer.close()


async def test_a_java_that_is_not_there_is_one_line() -> None:
    nowhere = JavaTools(java=java_tools({}).java.with_name("no-java"), class_path="")

    with pytest.raises(HarnessError, match="no-java cannot be started: No such file"):
        await Program.started(nowhere, "VerifiableProducer", [], configuration={}, clock=SystemClock())


# ---- a group's member ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def member_of(cluster: LocalCluster, names: OwnNames = AS_WRITTEN) -> AsyncIterator[ReadsByItself]:
    makers = clients_for((), names=names, java=lambda: java_tools({}))
    use = ClientUse(role="consumer", group="readers", session_timeout_ms=6000, offset_reset="earliest")
    made: object = makers["java"](bootstrap=cluster.bootstrap(None), settings=SETTINGS, use=use)
    assert isinstance(made, ReadsByItself)
    try:
        yield made
    finally:
        await made.close()


async def sent(cluster: LocalCluster, records: int) -> None:
    client = CLIENTS["kafka-python"](bootstrap=cluster.bootstrap(None), settings=WorkloadSpec())
    try:
        values = [(number % len(PARTITIONS), b"v%d" % number) for number in range(records)]
        outcomes = await client.send([Send(topic="orders", partition=part, value=value) for part, value in values])
    finally:
        await client.close()
    assert {outcome.status for outcome in outcomes} == {"ok"}


async def heard(member: ReadsByItself, *, offsets: int) -> list[Polled | GroupEvent]:
    """What it tells until it has committed so many offsets in all."""
    told: list[Polled | GroupEvent] = []
    async with asyncio.timeout(WITHIN_S):
        while sum(committed(told).values()) < offsets:
            told += await member.told(timeout_s=0.2)
            assert not member.has_ended, told
    return told


def committed(told: Sequence[Polled | GroupEvent]) -> dict[TopicPartition, int]:
    events = [each for each in told if isinstance(each, GroupEvent) and each.event == "committed"]
    return {place: offset or 0 for event in events for place, offset in event.offsets.items()}


async def test_a_member_tells_what_it_was_given_and_got_before_what_it_committed_of_it(cluster: LocalCluster) -> None:
    await sent(cluster, 30)

    async with member_of(cluster) as member:
        await member.join(["orders"])
        told = await heard(member, offsets=30)
        await member.close()
        last = list(member.take())

    assigned = next(each for each in told if isinstance(each, GroupEvent))
    assert (assigned.event, set(assigned.offsets)) == ("assigned", set(PARTITIONS))
    polled = [each for each in told if isinstance(each, Polled)]
    assert {record.value for each in polled for record in each.records} == {b"v%d" % number for number in range(30)}
    assert committed(told) == dict.fromkeys(PARTITIONS, 10)
    for before, after in pairwise(told):
        if isinstance(before, Polled):
            assert isinstance(after, GroupEvent)
            assert (after.event, after.status) == ("committed", "ok")
            reached = {(record.topic, record.partition): record.offset + 1 for record in before.records}
            assert {(place.topic, place.partition): offset for place, offset in after.offsets.items()} == reached
    assert all(each.begin_ns <= each.end_ns for each in told)
    assert [each.event for each in last if isinstance(each, GroupEvent)][-1:] == ["revoked"]
    assert member.has_ended


async def test_a_killed_member_s_successor_goes_on_where_it_had_committed(cluster: LocalCluster) -> None:
    await sent(cluster, 30)
    async with member_of(cluster) as member:
        await member.join(["orders"])
        told = await heard(member, offsets=30)
        await member.crash()
        told += member.take()
    assert member.has_ended
    assert not any(isinstance(each, GroupEvent) and each.event == "revoked" for each in told)

    await sent(cluster, 3)
    async with member_of(cluster) as successor:
        await successor.join(["orders"])
        later = await heard(successor, offsets=33)

    read = [record.offset for each in later if isinstance(each, Polled) for record in each.records]
    assert read == [10, 10, 10]


async def test_a_member_that_cannot_begin_is_an_error(cluster: LocalCluster) -> None:
    use = ClientUse(role="consumer", group="g", offset_reset="earliest")
    member = JavaMember(bootstrap="nobody.invalid:1", settings=SETTINGS, use=use, tools=java_tools({}))
    try:
        await member.join(["orders"])
        with pytest.raises(HarnessError, match="VerifiableConsumer ended with exit code 1 at its start"):
            await member.told(timeout_s=WITHIN_S)
    finally:
        await member.close()


@pytest.mark.parametrize("role", ["producer", "consumer"])
async def test_on_somebody_else_s_cluster_the_programs_speak_of_the_run_s_names(
    cluster: LocalCluster, role: str
) -> None:
    """The topic is `orders` there, and the run calls it `rders`."""
    names = OwnNames("o")
    if role == "consumer":
        await sent(cluster, 3)
        async with member_of(cluster, names) as member:
            await member.join(["rders"])
            assert {place.topic for place in committed(await heard(member, offsets=3))} == {"rders"}
        return
    makers = clients_for((), names=names, java=lambda: java_tools({}))
    made: object = makers["java"](bootstrap=cluster.bootstrap(None), settings=SETTINGS, use=ClientUse(role="producer"))
    assert isinstance(made, SendsByItself)
    places = [TopicPartition(topic="rders", partition=place.partition) for place in PARTITIONS]
    try:
        batches = in_batches(made.planned(places, process=1, records=10))
        running = made.run(batches, records_per_second=100, until=asyncio.Event())
        assert [[each.status for each in told] async for _, told in running] == [["ok"] * 10]
    finally:
        await made.close()
    assert {send.topic for batch in batches for send in batch} == {"rders"}
    assert set(await read_all(cluster)) == {send.value for batch in batches for send in batch}
