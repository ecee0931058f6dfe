"""Consumer groups on three brokers in this process, with an unmodified aiokafka."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from reference_impl.core.groups.group import GroupState
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC
from reference_impl.core.identifiers import TopicPartition as Key
from reference_impl.core.placement import coordinating_partition
from reference_impl.runtime.in_process import InProcessCluster
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import encode_request, request_class
from tests.reference_impl.runtime.conftest import running_cluster
from tests.reference_impl.runtime.test_cluster import producer

pytestmark = pytest.mark.cluster

GROUP = "readers"
PARTITIONS = 4
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture
async def groups_cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with running_cluster(tmp_path, settings=SETTINGS) as made:
        yield made


async def create_topic(cluster: InProcessCluster) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    try:
        response = await admin.create_topics([NewTopic("orders", PARTITIONS, 3)])
        assert response.topic_errors[0][1] == 0, response
    finally:
        await admin.close()


async def send(cluster: InProcessCluster, count: int) -> None:
    async with producer(cluster) as client:
        waiting = [
            await client.send("orders", str(value).encode(), partition=value % PARTITIONS) for value in range(count)
        ]
        await asyncio.gather(*waiting)


@asynccontextmanager
async def member(cluster: InProcessCluster, *, subscribes: bool = True) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        *(["orders"] if subscribes else []),
        bootstrap_servers=cluster.bootstrap,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=3000,
        heartbeat_interval_ms=300,
        retry_backoff_ms=50,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def read(consumer: AIOKafkaConsumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            found += [int(record.value) for record in records]
    return found


def coordinator_of(cluster: InProcessCluster, group: str = GROUP) -> int | None:
    """The broker that leads the group's partition."""
    number = coordinating_partition(group, int(SETTINGS["offsets.topic.num.partitions"]))
    leading = [
        broker_id
        for broker_id, broker in cluster.brokers.items()
        if (partition := broker.replicas.partitions.get(Key(GROUP_OFFSETS_TOPIC, number))) and partition.is_leader
    ]
    return leading[0] if len(leading) == 1 else None


def state(cluster: InProcessCluster) -> GroupState | None:
    """The group's, where it is coordinated."""
    found = [
        group.state
        for broker in cluster.brokers.values()
        for coordinator in broker.coordinators.all()
        for group in coordinator.groups.values()
        if group.group_id == GROUP
    ]
    return found[0] if found else None


def isrs(cluster: InProcessCluster) -> list[tuple[int, ...]]:
    return [
        known.isr
        for broker in cluster.brokers.values()
        for key, partition in broker.replicas.partitions.items()
        if key.topic == GROUP_OFFSETS_TOPIC and partition.is_leader and (known := partition.state)
    ]


async def test_a_group_shares_the_partitions_and_reads_every_record_once(groups_cluster: InProcessCluster) -> None:
    await create_topic(groups_cluster)
    await send(groups_cluster, 40)
    async with member(groups_cluster) as first, member(groups_cluster) as second:
        while len(first.assignment()) != 2 or len(second.assignment()) != 2:
            await asyncio.sleep(0.05)
        assert not first.assignment() & second.assignment()
        assert len(first.assignment() | second.assignment()) == PARTITIONS


async def kill_coordinator(cluster: InProcessCluster) -> int:
    """Returns the broker that was killed, when another one coordinates the group."""
    coordinator = coordinator_of(cluster)
    assert coordinator is not None
    await cluster.kill(coordinator)
    await cluster.until(lambda: coordinator_of(cluster) not in (None, coordinator))
    return coordinator


async def test_no_answered_commit_is_lost_with_its_coordinator(groups_cluster: InProcessCluster) -> None:
    await create_topic(groups_cluster)
    partition = TopicPartition("orders", 0)
    answered = 0
    async with member(groups_cluster, subscribes=False) as consumer:
        consumer.assign([partition])

        async def commit_until(offset: int) -> None:
            nonlocal answered
            while answered < offset:
                await consumer.commit({partition: answered + 1})
                answered += 1

        committing = asyncio.ensure_future(commit_until(300))
        for enough in (50, 150):
            await groups_cluster.until(lambda enough=enough: answered >= enough or committing.done())  # type: ignore[misc]
            before = answered
            killed = await kill_coordinator(groups_cluster)
            async with member(groups_cluster, subscribes=False) as other:
                # aiokafka takes an answer that is an error as a whole (a coordinator loads) for "nothing committed".
                await groups_cluster.until(lambda: state(groups_cluster) is not None)
                found = await other.committed(partition)
                assert (found or 0) >= before > 0, "an answered commit is gone"
            await groups_cluster.start_broker(killed)
            await groups_cluster.until(lambda: all(len(isr) == 3 for isr in isrs(groups_cluster)))
        await committing
        assert await consumer.committed(partition) == answered == 300


async def test_a_rebalance_is_ended_by_the_next_coordinator(groups_cluster: InProcessCluster) -> None:
    await create_topic(groups_cluster)
    async with member(groups_cluster) as first, member(groups_cluster) as second:
        await groups_cluster.until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
        joining = member(groups_cluster)
        entering = asyncio.ensure_future(joining.__aenter__())
        await groups_cluster.until(lambda: state(groups_cluster) is GroupState.PREPARING_REBALANCE)
        await kill_coordinator(groups_cluster)
        third = await entering
        members = (first, second, third)
        await groups_cluster.until(
            lambda: (
                sum(len(each.assignment()) for each in members) == PARTITIONS
                and all(each.assignment() for each in members)
                and len(set().union(*(each.assignment() for each in members))) == PARTITIONS
            )
        )
        assert state(groups_cluster) is GroupState.STABLE
        await joining.__aexit__(None, None, None)


async def test_what_was_committed_outlives_the_coordinator(groups_cluster: InProcessCluster) -> None:
    await create_topic(groups_cluster)
    await send(groups_cluster, 40)
    async with member(groups_cluster) as consumer:
        assert sorted(await read(consumer, 40)) == list(range(40))
        await consumer.commit()
    await kill_coordinator(groups_cluster)
    await send(groups_cluster, 8)
    async with member(groups_cluster) as consumer:
        assert sorted(await read(consumer, 8)) == list(range(8)), "what was committed is delivered again"
        assert await consumer.committed(TopicPartition("orders", 0)) == 10


async def test_who_disconnects_while_it_waits_for_the_others_leaves_no_connection(
    groups_cluster: InProcessCluster,
) -> None:
    await create_topic(groups_cluster)
    async with member(groups_cluster):
        coordinator = coordinator_of(groups_cluster)
        assert coordinator is not None
        listeners = groups_cluster.brokers[coordinator].listeners
        _, writer = await asyncio.open_connection(*groups_cluster.client_address(coordinator))
        join = request_class(ApiKey.JOIN_GROUP)
        asked = join(
            group_id=GROUP,
            session_timeout_ms=6000,
            rebalance_timeout_ms=60_000,
            member_id="",
            protocol_type="consumer",
            protocols=[join.JoinGroupRequestProtocol(name="roundrobin", metadata=b"")],
        )
        writer.write(encode_request(ApiKey.JOIN_GROUP, 2, 1, "gone", asked))
        await groups_cluster.until(lambda: state(groups_cluster) is GroupState.PREPARING_REBALANCE)
        place = "{}:{}".format(*writer.get_extra_info("sockname"))

        def is_connected() -> bool:
            return any(each._peer == place for listener in listeners for each in listener._connections)

        assert is_connected()
        writer.close()
        await groups_cluster.until(lambda: not is_connected())
        assert state(groups_cluster) is not GroupState.DEAD
