"""Transactions on three brokers in this process, with an unmodified aiokafka: all of one is read or nothing, whoever
dies meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from reference_impl.core.identifiers import TRANSACTIONS_TOPIC
from reference_impl.core.identifiers import TopicPartition as Key
from reference_impl.core.transactions.transaction import TransactionState
from reference_impl.runtime.in_process import InProcessCluster
from tests.reference_impl.runtime.conftest import running_cluster
from tests.reference_impl.runtime.test_groups import PARTITIONS, create_topic

pytestmark = pytest.mark.cluster

ID, GROUP = "writer", "readers"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with running_cluster(tmp_path, settings=SETTINGS) as cluster:
        await create_topic(cluster)
        yield cluster


@asynccontextmanager
async def writer(cluster: InProcessCluster, *, timeout_ms: int = 60_000) -> AsyncIterator[AIOKafkaProducer]:
    client = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap,
        transactional_id=ID,
        transaction_timeout_ms=timeout_ms,
        request_timeout_ms=10_000,
        retry_backoff_ms=50,
    )
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


async def read(cluster: InProcessCluster, *, committed: bool = True) -> list[int]:
    """All that such a reader sees now."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        isolation_level="read_committed" if committed else "read_uncommitted",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        partitions = [TopicPartition("orders", number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        found: list[int] = []
        for partition in partitions:
            while await consumer.position(partition) < ends[partition]:
                for records in (await consumer.getmany(partition, timeout_ms=100)).values():
                    found += [int(record.value) for record in records]
        return sorted(found)
    finally:
        await consumer.stop()


async def send(client: AIOKafkaProducer, values: range) -> None:
    for value in values:
        await client.send_and_wait("orders", str(value).encode(), partition=value % PARTITIONS)


def state(cluster: InProcessCluster) -> TransactionState | None:
    found = [
        coordinator.transactions[ID].state
        for broker in cluster.brokers.values()
        for coordinator in broker.transactions.all()
        if ID in coordinator.transactions
    ]
    return found[0] if len(found) == 1 else None


def leader_of(cluster: InProcessCluster, topic: str, number: int) -> int | None:
    leading = [
        broker_id
        for broker_id, broker in cluster.brokers.items()
        if (partition := broker.replicas.partitions.get(Key(topic, number))) and partition.is_leader
    ]
    return leading[0] if len(leading) == 1 else None


def coordinator_of(cluster: InProcessCluster) -> int | None:
    number = next(iter(cluster.brokers.values())).transactions.partition_of(ID)
    return None if number is None else leader_of(cluster, TRANSACTIONS_TOPIC, number)


async def test_readers_of_committed_records_see_what_was_committed_and_nothing_of_the_rest(
    made: InProcessCluster,
) -> None:
    async with writer(made) as client:
        async with client.transaction():
            await send(client, range(8))
        await client.begin_transaction()
        await send(client, range(8, 16))
        assert await read(made) == list(range(8))
        await client.abort_transaction()
        async with client.transaction():
            await send(client, range(16, 20))
    await made.until(lambda: state(made) is TransactionState.COMPLETE_COMMIT)
    assert await read(made) == [*range(8), *range(16, 20)]
    assert await read(made, committed=False) == list(range(20))


async def test_a_second_producer_of_the_id_aborts_what_the_first_left_open_and_fences_it(
    made: InProcessCluster,
) -> None:
    async with writer(made) as first:
        await first.begin_transaction()
        await send(first, range(4))
        async with writer(made) as second, second.transaction():
            await send(second, range(4, 8))
        with pytest.raises((ProducerFenced, KafkaError)):
            await first.commit_transaction()
    await made.until(lambda: state(made) is TransactionState.COMPLETE_COMMIT)
    assert await read(made) == list(range(4, 8))


async def test_a_transaction_that_is_open_for_too_long_is_aborted(made: InProcessCluster) -> None:
    async with writer(made, timeout_ms=1000) as client:
        await client.begin_transaction()

        async def commit_late() -> None:
            """On a machine under load it is fenced while it sends."""
            await send(client, range(4))
            await made.until(lambda: state(made) is TransactionState.COMPLETE_ABORT)
            await client.commit_transaction()

        with pytest.raises(KafkaError):
            await commit_late()
    await made.until(lambda: state(made) is TransactionState.COMPLETE_ABORT)
    assert await read(made) == []


@pytest.mark.parametrize("commits", [True, False])
async def test_a_groups_offsets_are_committed_with_the_transaction_or_not_at_all(
    made: InProcessCluster, commits: bool
) -> None:
    partition = TopicPartition("orders", 0)
    async with writer(made) as client:
        await client.begin_transaction()
        await send(client, range(4))
        await client.send_offsets_to_transaction({partition: 7}, GROUP)
        await (client.commit_transaction() if commits else client.abort_transaction())
    await made.until(lambda: state(made) in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT))
    consumer = AIOKafkaConsumer(bootstrap_servers=made.bootstrap, group_id=GROUP, enable_auto_commit=False)
    await consumer.start()
    try:
        assert await consumer.committed(partition) == (7 if commits else None)
    finally:
        await consumer.stop()


@pytest.mark.parametrize("commits", [True, False])
async def test_what_was_decided_is_written_by_the_next_coordinator(made: InProcessCluster, commits: bool) -> None:
    """The coordinator is killed between Prepare and Complete: its markers never leave it."""
    async with writer(made) as client:
        await client.begin_transaction()
        await send(client, range(8))
        coordinator = coordinator_of(made)
        assert coordinator is not None
        broker = made.brokers[coordinator]

        async def never(*_: object) -> None:
            await asyncio.Event().wait()

        broker._markers._ask = never
        await (client.commit_transaction() if commits else client.abort_transaction())
        assert state(made) is (TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT)
        assert await read(made) == []
        await made.kill(coordinator)
        decided = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
        await made.until(lambda: state(made) is decided)
        assert await read(made) == (list(range(8)) if commits else [])
        async with client.transaction():
            await send(client, range(8, 12))
    assert await read(made) == [*(range(8) if commits else ()), *range(8, 12)]


async def test_a_transaction_outlives_the_leader_of_its_partition(made: InProcessCluster) -> None:
    async with writer(made) as client:
        await client.begin_transaction()
        await send(client, range(8))
        coordinator = coordinator_of(made)
        leaders = {leader_of(made, "orders", number) for number in range(PARTITIONS)}
        victim = next(each for each in leaders if each not in (None, coordinator))
        assert victim is not None
        await made.kill(victim)
        await send(client, range(8, 16))
        assert await read(made) == []
        await client.commit_transaction()
    await made.until(lambda: state(made) is TransactionState.COMPLETE_COMMIT)
    assert await read(made) == list(range(16))
