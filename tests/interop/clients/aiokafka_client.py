"""aiokafka's part of the table of clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.codec import has_lz4, has_snappy, has_zstd

from tests.interop.clients.python_operations import FIRST_TIME_MS, RECORDS, run, values

Operation = Callable[[], Coroutine[None, None, str]]


@asynccontextmanager
async def administering(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def administration(bootstrap: str, topic: str) -> dict[str, Operation]:

    async def topics() -> str:
        async with administering(bootstrap) as admin:
            gone = NewTopic(f"{topic}.gone", num_partitions=1, replication_factor=1)
            await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=3), gone])
            await admin.delete_topics([f"{topic}.gone"])
            while topic not in (names := await admin.list_topics()) or f"{topic}.gone" in names:
                await asyncio.sleep(0.05)
        return "created, deleted, listed"

    async def partitions() -> str:
        async with administering(bootstrap) as admin:
            await admin.create_partitions({topic: NewPartitions(3)})
        return "increased to 3"

    async def alter() -> str:
        async with administering(bootstrap) as admin:
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "-1"})])
        return "altered"

    async def configuration() -> str:
        async with administering(bootstrap) as admin:
            await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        return "described"

    return {
        "topics": topics,
        "partitions": partitions,
        "configuration": configuration,
        "alter": alter,
    }


def operations(bootstrap: str, topic: str) -> Mapping[str, Callable[[], str]]:
    partition = TopicPartition(topic, 0)

    async def produce(**settings: object) -> str:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
            sent = [await producer.send(topic, value, partition=0, timestamp_ms=at) for at, value in values()]
            await asyncio.gather(*sent)
        return f"{RECORDS} records"

    async def read(**settings: object) -> str:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **settings) as consumer:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end, count = (await consumer.end_offsets([partition]))[partition], 0
            while count < end:
                count += sum(map(len, (await consumer.getmany(timeout_ms=200)).values()))
        return f"{count} records"

    async def at_time() -> str:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            found = (await consumer.offsets_for_times({partition: FIRST_TIME_MS + 5}))[partition]
        return f"offset {found.offset}"

    async def group() -> str:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=f"{topic}-group", auto_offset_reset="earliest"
        )
        async with consumer:
            await consumer.getone()
        return "records"

    async def transaction() -> str:
        made = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="somebody")
        async with made as producer, producer.transaction():
            await producer.send_and_wait(topic, b"value", partition=0)
        return "committed"

    known: dict[str, Operation] = {
        **administration(bootstrap, topic),
        "idempotent": lambda: produce(enable_idempotence=True),
        "read": read,
        "read-named": lambda: read(group_id="nobody"),
        "time": at_time,
        "group": group,
        "transaction": transaction,
    }
    for acks in (0, 1, "all"):
        known[f"acks-{acks}"] = partial(produce, acks=acks)
    installed = {"snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}
    for codec in ("none", "gzip", *(name for name, is_installed in installed.items() if is_installed())):
        known[f"codec-{codec}"] = partial(produce, compression_type=None if codec == "none" else codec)
    return {name: partial(_run, operation) for name, operation in known.items()}


def _run(operation: Operation) -> str:
    return asyncio.run(operation())


if __name__ == "__main__":
    run(operations)
