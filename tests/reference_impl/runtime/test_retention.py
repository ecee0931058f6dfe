"""Retention, timestamps and lookup by time over the network, with unmodified clients."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidTimestampError
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import OffsetOutOfRangeError

from reference_impl.runtime.in_process import InProcessCluster
from tests.reference_impl.runtime.conftest import Clock
from tests.reference_impl.runtime.test_cluster import ORDERS, create_topic, is_leader, leader_of

pytestmark = pytest.mark.cluster

FIRST = TopicPartition("orders", 0)
Answer = TypeVar("Answer")


async def ask(
    cluster: InProcessCluster, question: Callable[[KafkaConsumer], Answer], *, group: str | None = None
) -> Answer:
    """A kafka-python consumer is asked, in a thread of its own: the brokers run on this loop."""

    def run() -> Answer:
        consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap.split(","),
            group_id=group,
            auto_offset_reset="none",
            enable_auto_commit=False,
        )
        try:
            consumer.assign([FIRST])
            return question(consumer)
        finally:
            consumer.close()

    return await asyncio.to_thread(run)


async def administer(cluster: InProcessCluster, act: Callable[[KafkaAdminClient], Answer]) -> Answer:
    def run() -> Answer:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
        try:
            return act(admin)
        finally:
            admin.close()

    return await asyncio.to_thread(run)


async def send_at(cluster: InProcessCluster, times: list[int], *, value: bytes = b"v") -> list[tuple[int, int]]:
    """(offset, timestamp as answered), one batch each."""
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    try:
        answers = [await producer.send_and_wait("orders", value, partition=0, timestamp_ms=time) for time in times]
        return [(answer.offset, answer.timestamp) for answer in answers]
    finally:
        await producer.stop()


def starts(cluster: InProcessCluster) -> dict[int, int]:
    return {
        broker: running.replicas.partitions[ORDERS].log.log_start_offset for broker, running in cluster.brokers.items()
    }


async def test_lookup_by_time_is_a_scan_over_many_segments(tidy_cluster: InProcessCluster, clock: Clock) -> None:
    await create_topic(tidy_cluster)
    began = clock.now_ms
    times = [began + n for n in (0, 5, 3, 9, 9, 2, 20, 11, 30, 25, 40, 40)]
    await send_at(tidy_cluster, times)
    wanted = range(began - 1, began + 42)

    def look_up(consumer: KafkaConsumer) -> dict[int, tuple[int, int] | None]:
        found = {}
        for time in wanted:
            answer = consumer.offsets_for_times({FIRST: time})[FIRST]
            found[time] = None if answer is None else (answer.offset, answer.timestamp)
        return found

    assert await ask(tidy_cluster, look_up) == {
        time: next(((offset, each) for offset, each in enumerate(times) if each >= time), None) for time in wanted
    }


async def test_old_segments_go_on_every_replica_and_readers_below_are_out_of_range(
    tidy_cluster: InProcessCluster, clock: Clock, tmp_path: Path
) -> None:
    await create_topic(tidy_cluster, configs={"retention.ms": "10000"})
    began = clock.now_ms
    await send_at(tidy_cluster, [began] * 12)
    clock.now_ms += 5_000
    await send_at(tidy_cluster, [clock.now_ms] * 4)
    assert set(starts(tidy_cluster).values()) == {0}
    clock.now_ms += 5_001
    await tidy_cluster.until(
        lambda: len(set(starts(tidy_cluster).values())) == 1 and 0 not in starts(tidy_cluster).values()
    )
    start = starts(tidy_cluster)[1]
    assert 9 <= start <= 12

    assert await ask(tidy_cluster, lambda consumer: consumer.beginning_offsets([FIRST])[FIRST]) == start
    assert await ask(tidy_cluster, lambda consumer: consumer.end_offsets([FIRST])[FIRST]) == 16

    def read_from(offset: int) -> Callable[[KafkaConsumer], list[int]]:
        def read(consumer: KafkaConsumer) -> list[int]:
            consumer.seek(FIRST, offset)
            found: list[int] = []
            while not found or found[-1] < 15:
                found += [record.offset for record in consumer.poll(500).get(FIRST, ())]
            return found

        return read

    with pytest.raises(OffsetOutOfRangeError):
        await ask(tidy_cluster, read_from(start - 1))
    assert await ask(tidy_cluster, read_from(start)) == list(range(start, 16))
    await tidy_cluster.until(lambda: not list(tmp_path.glob("*/data/orders-0/*.deleted")))


async def test_the_start_survives_a_kill_and_what_was_deleted_meanwhile_is_not_copied(
    tidy_cluster: InProcessCluster, clock: Clock
) -> None:
    await create_topic(tidy_cluster, configs={"retention.ms": "10000"})
    await send_at(tidy_cluster, [clock.now_ms] * 12)
    await tidy_cluster.kill(3)
    await tidy_cluster.until(lambda: leader_of(tidy_cluster) == 1)
    await send_at(tidy_cluster, [clock.now_ms] * 6)
    clock.now_ms += 10_001
    await tidy_cluster.until(lambda: starts(tidy_cluster) == {1: 18, 2: 18})
    await tidy_cluster.kill(2)
    await tidy_cluster.start_broker(2)
    await tidy_cluster.start_broker(3)
    await tidy_cluster.until(lambda: starts(tidy_cluster) == {1: 18, 2: 18, 3: 18})
    assert [offset for offset, _ in await send_at(tidy_cluster, [clock.now_ms] * 3)] == [18, 19, 20]
    await tidy_cluster.until(
        lambda: (
            {broker.replicas.partitions[ORDERS].log.all_batches() for broker in tidy_cluster.brokers.values()}
            == {tidy_cluster.brokers[1].replicas.partitions[ORDERS].log.all_batches()}
        )
    )
    assert is_leader(tidy_cluster, 1)


async def test_a_topic_that_may_only_be_so_large_loses_its_oldest_segments(
    tidy_cluster: InProcessCluster, clock: Clock
) -> None:
    await create_topic(tidy_cluster, configs={"retention.bytes": "900"})
    await send_at(tidy_cluster, [clock.now_ms] * 30)

    def sizes() -> list[int]:
        logs = [broker.replicas.partitions[ORDERS].log for broker in tidy_cluster.brokers.values()]
        return [sum(segment.size for segment in log.segments) for log in logs]

    await tidy_cluster.until(lambda: max(sizes()) < 900 + 300)
    assert min(sizes()) >= 900
    assert min(starts(tidy_cluster).values()) > 0


async def test_with_append_time_the_leader_says_when(tidy_cluster: InProcessCluster, clock: Clock) -> None:
    await create_topic(tidy_cluster, configs={"message.timestamp.type": "LogAppendTime"})
    answered = []
    for _ in range(3):
        clock.now_ms += 7
        answered += await send_at(tidy_cluster, [12345])
    assert answered == [(n, clock.now_ms - 14 + 7 * n) for n in range(3)]

    def read(consumer: KafkaConsumer) -> list[tuple[int, int, int]]:
        consumer.seek(FIRST, 0)
        found: list[tuple[int, int, int]] = []
        while len(found) < 3:
            records = consumer.poll(500).get(FIRST, ())
            found += [(record.offset, record.timestamp, record.timestamp_type) for record in records]
        return found

    assert await ask(tidy_cluster, read) == [(offset, time, 1) for offset, time in answered]
    looked_up = await ask(tidy_cluster, lambda consumer: consumer.offsets_for_times({FIRST: answered[1][1]}))
    assert (looked_up[FIRST].offset, looked_up[FIRST].timestamp) == answered[1]


async def test_times_too_far_from_the_leaders_are_refused(tidy_cluster: InProcessCluster, clock: Clock) -> None:
    await create_topic(tidy_cluster, configs={"message.timestamp.before.max.ms": "1000"})
    with pytest.raises(InvalidTimestampError):
        await send_at(tidy_cluster, [clock.now_ms + 3_600_001])  # an hour is Kafka's default
    with pytest.raises(InvalidTimestampError):
        await send_at(tidy_cluster, [clock.now_ms - 1001])
    answered = await send_at(tidy_cluster, [clock.now_ms + 3_600_000, clock.now_ms - 1000])
    assert [offset for offset, _ in answered] == [0, 1]


async def test_a_running_topic_can_be_given_another_retention(tidy_cluster: InProcessCluster, clock: Clock) -> None:
    await create_topic(tidy_cluster)
    await send_at(tidy_cluster, [clock.now_ms - 5000] * 6)
    assert set(starts(tidy_cluster).values()) == {0}
    change = [ConfigResource(ConfigResourceType.TOPIC, "orders", configs={"retention.ms": "1000"})]
    await administer(tidy_cluster, lambda admin: admin.alter_configs(change))
    await tidy_cluster.until(lambda: set(starts(tidy_cluster).values()) == {6})


async def test_a_policy_that_is_not_served_is_refused_by_name(tidy_cluster: InProcessCluster) -> None:
    await create_topic(tidy_cluster)
    change = [ConfigResource(ConfigResourceType.TOPIC, "orders", configs={"cleanup.policy": "keep"})]
    answer = await administer(tidy_cluster, lambda admin: admin.alter_configs(change))
    assert "cleanup.policy=keep: must be delete or compact" in str(answer)


async def test_every_replica_forgets_a_producer_that_has_been_silent_for_long(
    tidy_cluster: InProcessCluster, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await create_topic(tidy_cluster, configs={"retention.ms": "-1"})
    await send_at(tidy_cluster, [clock.now_ms])
    await tidy_cluster.until(lambda: all(end == 1 for end in ends(tidy_cluster)))
    assert "are forgotten" not in caplog.text
    clock.now_ms += 60_001
    forgotten = "orders-0: 1 idempotent producers silent for 60000 ms are forgotten"
    await tidy_cluster.until(lambda: caplog.text.count(forgotten) == 3)


def ends(cluster: InProcessCluster) -> list[int]:
    return [broker.replicas.partitions[ORDERS].log.log_end_offset for broker in cluster.brokers.values()]
