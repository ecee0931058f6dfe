"""Compaction and DeleteRecords over the network, with unmodified clients (docs/replication.md R78 to R85)."""

import asyncio
from pathlib import Path

import pytest
from aiokafka.errors import KafkaError
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import InvalidTopicError, OffsetOutOfRangeError, PolicyViolationError
from kafka.structs import OffsetAndMetadata

from reference_impl.core.cleaning.compaction import Cleaning
from reference_impl.core.identifiers import TopicPartition as Key
from reference_impl.runtime.broker import Broker
from reference_impl.runtime.disk_work import DiskEffects
from reference_impl.runtime.in_process import InProcessCluster
from reference_impl.wire.record_batches import parse_headers
from reference_impl.wire.record_filtering import keyed_records
from tests.reference_impl.runtime.conftest import running_cluster
from tests.reference_impl.runtime.test_cluster import ORDERS, create_topic, leader_of, producer, send
from tests.reference_impl.runtime.test_disk_work import create
from tests.reference_impl.runtime.test_retention import FIRST, administer, ask, starts

pytestmark = pytest.mark.cluster

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "100",
}
QUICK = {"log.cleaner.backoff.ms": "50", "offsets.topic.replication.factor": "3"}


async def send_keyed(cluster: InProcessCluster, keys: list[str], value: str = "v") -> None:
    async with producer(cluster) as client:
        for number, key in enumerate(keys):
            await client.send_and_wait("orders", f"{value}{number}".encode() * 10, key=key.encode(), partition=0)


def stored(cluster: InProcessCluster, broker_id: int, key: Key = ORDERS) -> list[tuple[int, bytes | None]]:
    """(offset, key) of a replica's records."""
    content = cluster.brokers[broker_id].replicas.partitions[key].log.all_batches()
    return [
        (record.offset, record.key)
        for header in parse_headers(content)
        if not header.is_control
        for record in keyed_records(content[header.position : header.end_position], header)
    ]


def is_compact(cluster: InProcessCluster, broker_id: int, *, records_max: int) -> bool:
    return len(stored(cluster, broker_id)) <= records_max


async def test_every_replica_compacts_and_one_that_was_away_copies_the_gaps(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, settings=QUICK) as cluster:
        await create_topic(cluster, configs=COMPACTED)
        keys = [f"key-{number % 5}" for number in range(100)]
        await cluster.kill(3)
        await send_keyed(cluster, keys)
        await cluster.until(lambda: all(is_compact(cluster, broker, records_max=30) for broker in (1, 2)))
        await cluster.start_broker(3)
        await cluster.until(lambda: stored(cluster, 3)[-1:] == stored(cluster, 1)[-1:])
        await cluster.kill(1)
        await cluster.kill(2)
        await cluster.start_broker(2)
        await cluster.until(lambda: leader_of(cluster) in (2, 3))

        def latest(consumer: KafkaConsumer) -> dict[bytes, int]:
            consumer.seek_to_beginning(FIRST)
            found: dict[bytes, int] = {}
            while consumer.position(FIRST) < 100:
                found |= {record.key: record.offset for record in consumer.poll(500).get(FIRST, ())}
            return found

        assert await ask(cluster, latest) == {f"key-{number}".encode(): 95 + number for number in range(5)}
        await send_keyed(cluster, keys[:5])
        await cluster.until(lambda: stored(cluster, 2)[-1] == (104, b"key-4") == stored(cluster, 3)[-1])


async def test_a_new_replica_takes_its_leaders_gaps_while_a_pass_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[Key] = []

    async def endless(disk: DiskEffects, key: Key, plan: Cleaning, *, keys_max: int) -> None:
        began.append(key)
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(DiskEffects, "clean", endless)
    async with running_cluster(tmp_path, settings=QUICK) as cluster:
        await create_topic(cluster, configs=COMPACTED)
        await send_keyed(cluster, ["a"] * 40)
        await cluster.until(lambda: began == [ORDERS] * 3)
        await create(cluster, "payments", [1, 2, 3], **COMPACTED)
        new = Key("payments", 0)

        def takes_gaps(broker: Broker) -> bool:
            partition = broker.replicas.partitions.get(new)
            return partition is not None and partition.log.cleaned_to == 0

        await cluster.until(lambda: all(map(takes_gaps, cluster.brokers.values())))


async def test_a_record_without_a_key_is_refused_by_a_compacted_topic(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, settings=QUICK) as cluster:
        await create_topic(cluster, configs=COMPACTED)
        with pytest.raises(KafkaError):
            await send(cluster, [1])
        await send_keyed(cluster, ["a"])
        assert stored(cluster, 1) == [(0, b"a")]


async def test_committed_offsets_are_compacted_and_told_after_a_restart(tmp_path: Path) -> None:
    settings = {**QUICK, "offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "2000"}
    dirty = {**settings, "log.cleaner.min.cleanable.ratio": "0.01"}
    offsets = Key("__consumer_offsets", 0)
    async with running_cluster(tmp_path, settings=dirty) as cluster:
        await create_topic(cluster)
        await send(cluster, range(120))

        def commit(consumer: KafkaConsumer) -> None:
            for offset in range(1, 101):
                consumer.commit({FIRST: OffsetAndMetadata(offset, "", -1)})

        def committed(consumer: KafkaConsumer) -> int | None:
            found: int | None = consumer.committed(FIRST)
            return found

        await ask(cluster, commit, group="readers")
        await cluster.until(lambda: all(len(stored(cluster, each, offsets)) < 60 for each in cluster.brokers))
        assert await ask(cluster, committed, group="readers") == 100
        with pytest.raises(InvalidTopicError):
            await delete_records(cluster, 1, TopicPartition("__consumer_offsets", 0))
        for broker in (1, 2, 3):
            await cluster.kill(broker)
        for broker in (1, 2, 3):
            await cluster.start_broker(broker)
        assert await ask(cluster, committed, group="readers") == 100


async def delete_records(cluster: InProcessCluster, before: int, partition: object = FIRST) -> int:
    def act(admin: KafkaAdminClient) -> int:
        low_watermark: int = admin.delete_records({partition: before})[partition]["low_watermark"]
        return low_watermark

    return await administer(cluster, act)


async def test_deleted_records_are_gone_from_every_live_replica_when_it_is_answered_and_after_a_restart(
    cluster: InProcessCluster,
) -> None:
    await create_topic(cluster)
    await send(cluster, range(20))
    assert await delete_records(cluster, 7) == 7
    assert starts(cluster) == {1: 7, 2: 7, 3: 7}
    await cluster.kill(3)
    await cluster.until(lambda: 3 not in cluster.brokers[1].metadata.eligible_replicas())
    assert await delete_records(cluster, -1) == 20
    assert starts(cluster) == {1: 20, 2: 20}
    # The leader's start is on disk when it is answered; a follower, which may lead next, writes its own each minute.
    await cluster.brokers[2].replicas.checkpoint_log_starts()
    await cluster.kill(1)
    await cluster.kill(2)
    await cluster.start_broker(1)
    assert cluster.brokers[1].replicas.partitions[ORDERS].log.log_start_offset == 20
    await cluster.start_broker(2)
    await cluster.start_broker(3)
    await cluster.until(lambda: starts(cluster) == {1: 20, 2: 20, 3: 20})
    assert (await send(cluster, [1]))[1] == 20


async def test_what_is_not_committed_or_not_to_be_deleted_is_refused(cluster: InProcessCluster) -> None:
    await create_topic(cluster, configs=COMPACTED)
    with pytest.raises(PolicyViolationError):
        await delete_records(cluster, 0)
    policy = ConfigResource(ConfigResourceType.TOPIC, "orders", {"cleanup.policy": "compact,delete"})
    await administer(cluster, lambda admin: admin.alter_configs([policy], incremental=True))
    await send_keyed(cluster, ["a", "b"])
    await cluster.until(lambda: cluster.brokers[1].replicas.partitions[ORDERS].settings.deletes)
    for offset in (3, -2):
        with pytest.raises(OffsetOutOfRangeError):
            await delete_records(cluster, offset)
    assert await delete_records(cluster, 1) == 1
