"""kafka-python's part of the table of clients."""

import time
from collections.abc import Callable, Mapping
from functools import partial

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.codec import has_lz4, has_snappy, has_zstd

from tests.interop.clients.python_operations import FIRST_TIME_MS, RECORDS, run, values


def administration(bootstrap: str, topic: str) -> dict[str, Callable[[], str]]:
    servers = {"bootstrap_servers": bootstrap.split(",")}

    def topics() -> str:
        admin = KafkaAdminClient(**servers)
        made = [NewTopic(topic, num_partitions=1, replication_factor=3)]
        admin.create_topics([*made, NewTopic(f"{topic}.gone", num_partitions=1, replication_factor=1)])
        admin.delete_topics([f"{topic}.gone"])
        while topic not in (names := admin.list_topics()) or f"{topic}.gone" in names:
            time.sleep(0.05)
        admin.close()
        return "created, deleted, listed"

    def partitions() -> str:
        admin = KafkaAdminClient(**servers)
        admin.create_partitions({topic: 3})
        admin.close()
        return "increased to 3"

    def alter() -> str:
        admin = KafkaAdminClient(**servers)
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "-1"})])
        admin.close()
        return "altered"

    def configuration() -> str:
        admin = KafkaAdminClient(**servers)
        admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        admin.close()
        return "described"

    def elections() -> str:
        admin = KafkaAdminClient(**servers)
        admin.elect_leaders(0, {topic: [0]}, raise_errors=False)
        admin.close()
        return "asked for the preferred leader"

    return {
        "topics": topics,
        "partitions": partitions,
        "configuration": configuration,
        "alter": alter,
        "elections": elections,
    }


def operations(bootstrap: str, topic: str) -> Mapping[str, Callable[[], str]]:
    servers = {"bootstrap_servers": bootstrap.split(",")}
    partition = TopicPartition(topic, 0)

    def produce(**settings: object) -> str:
        producer = KafkaProducer(**servers, **settings)
        sent = [producer.send(topic, value, partition=0, timestamp_ms=at) for at, value in values()]
        for each in sent:
            each.get(timeout=10)
        producer.close()
        return f"{RECORDS} records"

    def read(**settings: object) -> str:
        consumer = KafkaConsumer(**servers, enable_auto_commit=False, **settings)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end, count = consumer.end_offsets([partition])[partition], 0
        while count < end:
            count += sum(map(len, consumer.poll(timeout_ms=200).values()))
        consumer.close()
        return f"{count} records"

    def at_time() -> str:
        consumer = KafkaConsumer(**servers)
        found = consumer.offsets_for_times({partition: FIRST_TIME_MS + 5})[partition]
        consumer.close()
        return f"offset {found.offset}"

    def group() -> str:
        consumer = KafkaConsumer(topic, **servers, group_id=f"{topic}-group", auto_offset_reset="earliest")
        while not (polled := consumer.poll(timeout_ms=200)):
            pass
        return f"{sum(map(len, polled.values()))} records"

    def transaction() -> str:
        producer = KafkaProducer(**servers, transactional_id="somebody")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"value", partition=0)
        producer.commit_transaction()
        return "committed"

    known: dict[str, Callable[[], str]] = {
        **administration(bootstrap, topic),
        "idempotent": lambda: produce(enable_idempotence=True),
        "read": read,
        "read-named": lambda: read(group_id="nobody"),
        "time": at_time,
        "group": group,
        "transaction": transaction,
    }
    for acks in (0, 1, "all"):
        known[f"acks-{acks}"] = partial(produce, acks=acks, enable_idempotence=False)
    installed = {"snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}
    for codec in ("none", "gzip", *(name for name, is_installed in installed.items() if is_installed())):
        known[f"codec-{codec}"] = partial(produce, compression_type=None if codec == "none" else codec)
    return known


if __name__ == "__main__":
    run(operations)
