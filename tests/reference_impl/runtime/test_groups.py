"""Consumer groups on three brokers in this process, with an unmodified aiokafka."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from reference_impl.core.groups.placement import partition_of_group
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC
from reference_impl.core.identifiers import TopicPartition as Key
from reference_impl.runtime.in_process import InProcessCluster
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
async def member(cluster: InProcessCluster) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        "orders",
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
    number = partition_of_group(group, int(SETTINGS["offsets.topic.num.partitions"]))
    leading = [
        broker_id
        for broker_id, broker in cluster.brokers.items()
        if (partition := broker.replicas.partitions.get(Key(GROUP_OFFSETS_TOPIC, number))) and partition.is_leader
    ]
    return leading[0] if len(leading) == 1 else None


async def test_a_group_shares_the_partitions_and_reads_every_record_once(groups_cluster: InProcessCluster) -> None:
    await create_topic(groups_cluster)
    await send(groups_cluster, 40)
    async with member(groups_cluster) as first, member(groups_cluster) as second:
        while len(first.assignment()) != 2 or len(second.assignment()) != 2:
            await asyncio.sleep(0.05)
        assert not first.assignment() & second.assignment()
        assert len(first.assignment() | second.assignment()) == PARTITIONS


async def test_what_was_committed_outlives_the_coordinator(groups_cluster: InProcessCluster) -> None:
    await create_topic(groups_cluster)
    await send(groups_cluster, 40)
    async with member(groups_cluster) as consumer:
        assert sorted(await read(consumer, 40)) == list(range(40))
        await consumer.commit()
    coordinator = coordinator_of(groups_cluster)
    assert coordinator is not None
    await groups_cluster.kill(coordinator)
    await groups_cluster.until(lambda: coordinator_of(groups_cluster) not in (None, coordinator))
    await send(groups_cluster, 8)
    async with member(groups_cluster) as consumer:
        assert sorted(await read(consumer, 8)) == list(range(8)), "what was committed is delivered again"
        assert await consumer.committed(TopicPartition("orders", 0)) == 10
