"""Three brokers and the coordination service on one loop, driven by an unmodified aiokafka."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, NotEnoughReplicasError

from reference_impl.core.identifiers import TopicPartition as Key
from reference_impl.runtime.in_process import InProcessCluster
from tests.reference_impl.runtime.conftest import running_cluster

pytestmark = pytest.mark.cluster

ORDERS = Key("orders", 0)


async def create_topic(
    cluster: InProcessCluster, replicas: Iterable[int] = (1, 2, 3), configs: dict[str, str] | None = None
) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    try:
        topic = NewTopic("orders", -1, -1, replica_assignments={0: list(replicas)}, topic_configs=configs or {})
        response = await admin.create_topics([topic])
        assert response.topic_errors[0][1] == 0, response
    finally:
        await admin.close()
    await cluster.until(lambda: leader_of(cluster) == next(iter(replicas)))


def leader_of(cluster: InProcessCluster) -> int | None:
    """The broker that leads now, if every broker that hosts the partition agrees."""
    states = {
        (state.leader, state.leader_epoch)
        for broker in cluster.brokers.values()
        for state in [broker.metadata.state(ORDERS)]
        if state is not None
    }
    leaders = [broker for broker, led in cluster.brokers.items() if is_leader(cluster, broker)]
    return leaders[0] if len(states) == 1 and len(leaders) == 1 and leaders[0] == next(iter(states))[0] else None


def is_leader(cluster: InProcessCluster, broker_id: int) -> bool:
    partition = cluster.brokers[broker_id].replicas.partitions.get(ORDERS)
    return partition is not None and partition.is_leader


def isr(cluster: InProcessCluster) -> set[int]:
    leader = leader_of(cluster)
    state = None if leader is None else cluster.brokers[leader].replicas.partitions[ORDERS].state
    return set() if state is None else set(state.isr)


@asynccontextmanager
async def producer(cluster: InProcessCluster, **settings: object) -> AsyncIterator[AIOKafkaProducer]:
    made = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap, **{"acks": "all", "enable_idempotence": True, **settings}
    )
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def send(cluster: InProcessCluster, values: Iterable[int], **settings: object) -> dict[int, int]:
    """Offset by value, of what was acknowledged."""
    async with producer(cluster, **settings) as client:
        waiting = {value: await client.send("orders", str(value).encode(), partition=0) for value in values}
        return {value: (await future).offset for value, future in waiting.items()}


async def read_all(cluster: InProcessCluster) -> list[tuple[int, int]]:
    """(offset, value) of the whole partition up to its high watermark."""
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        partition = TopicPartition("orders", 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        found: list[tuple[int, int]] = []
        while not found or found[-1][0] < end - 1:
            found += [
                (record.offset, int(record.value))
                for record in (await consumer.getmany(timeout_ms=500)).get(partition, ())
            ]
        return found
    finally:
        await consumer.stop()


async def test_what_was_acknowledged_is_read_in_order(cluster: InProcessCluster) -> None:
    await create_topic(cluster)
    offsets = await send(cluster, range(300))
    assert list(offsets.values()) == list(range(300))
    assert await read_all(cluster) == [(offset, value) for value, offset in offsets.items()]


async def test_killing_the_leader_loses_nothing_acknowledged(cluster: InProcessCluster) -> None:
    await create_topic(cluster)
    acknowledged: dict[int, int] = {}
    async with producer(cluster, request_timeout_ms=2000, retry_backoff_ms=50) as client:

        async def write() -> None:
            for value in range(400):
                acknowledged[value] = (await client.send_and_wait("orders", str(value).encode(), partition=0)).offset

        writing = asyncio.ensure_future(write())
        await cluster.until(lambda: len(acknowledged) > 50)
        await cluster.kill(1)
        await cluster.until(lambda: leader_of(cluster) == 2)
        await writing
    found = dict(await read_all(cluster))
    assert {offset: value for value, offset in acknowledged.items()} == found
    await cluster.until(lambda: isr(cluster) == {2, 3})

    await cluster.start_broker(1)
    await cluster.until(lambda: isr(cluster) == {1, 2, 3})
    logs = {broker.replicas.partitions[ORDERS].log.all_batches() for broker in cluster.brokers.values()}
    assert len(logs) == 1, "the replicas differ"


async def test_below_min_insync_replicas_nothing_is_appended(cluster: InProcessCluster) -> None:
    await create_topic(cluster)
    await send(cluster, range(3))
    await cluster.kill(2)
    await cluster.kill(3)
    await cluster.until(lambda: isr(cluster) == {1})
    before = cluster.brokers[1].replicas.partitions[ORDERS].log.log_end_offset
    with pytest.raises(NotEnoughReplicasError):
        await send(cluster, [99], enable_idempotence=False, request_timeout_ms=500)
    assert cluster.brokers[1].replicas.partitions[ORDERS].log.log_end_offset == before


async def test_a_clean_stop_hands_its_leaderships_over_first(tmp_path: Path) -> None:
    sessions_that_do_not_end = {"zookeeper.session.timeout.ms": "600000"}
    async with running_cluster(tmp_path, settings=sessions_that_do_not_end) as cluster:
        await create_topic(cluster)
        await send(cluster, range(10))
        await cluster.stop_broker(1)
        await cluster.until(lambda: leader_of(cluster) == 2 and isr(cluster) == {2, 3})
        assert [value for _, value in await read_all(cluster)] == list(range(10))


async def test_a_new_controller_takes_over(cluster: InProcessCluster) -> None:
    await create_topic(cluster, replicas=(2, 3, 1))
    controller = next(iter(cluster.brokers.values())).metadata.controller_id
    await cluster.kill(controller)
    await cluster.until(
        lambda: all(broker.metadata.controller_id not in (-1, controller) for broker in cluster.brokers.values())
    )
    await cluster.until(lambda: controller not in isr(cluster) and len(isr(cluster)) == 2)
    assert list((await send(cluster, range(5))).values()) == list(range(5))


async def test_a_topics_override_takes_effect_without_a_restart(cluster: InProcessCluster) -> None:
    await create_topic(cluster, configs={"min.insync.replicas": "3"})
    await send(cluster, range(3))
    await cluster.kill(3)
    await cluster.until(lambda: isr(cluster) == {1, 2})
    with pytest.raises(KafkaError):
        await send(cluster, [9], enable_idempotence=False, request_timeout_ms=500)


async def test_leadership_is_reported_in_the_evidence_journal(cluster: InProcessCluster, tmp_path: Path) -> None:
    await create_topic(cluster)
    await send(cluster, range(3))
    path = tmp_path / "1" / "evidence" / "events.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["event"] for event in events[:2]] == ["broker_start", "broker_registered"]
    started = next(event for event in events if event["event"] == "leadership_start")
    assert (started["topic"], started["partition"], started["from_offset"]) == ("orders", 0, 0)
