"""librdkafka's part of the table of clients, by confluent-kafka."""

import time
from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import OFFSET_BEGINNING, Consumer, ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.interop.clients.python_operations import FIRST_TIME_MS, RECORDS, run, values


def administration(bootstrap: str, topic: str) -> dict[str, Callable[[], str]]:
    servers = {"bootstrap.servers": bootstrap, "log_level": 0}

    def topics() -> str:
        admin = AdminClient(servers)
        gone = NewTopic(f"{topic}.gone", num_partitions=1, replication_factor=1)
        for each in admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=3), gone]).values():
            each.result()
        admin.delete_topics([f"{topic}.gone"])[f"{topic}.gone"].result()
        while topic not in (names := admin.list_topics(timeout=5).topics) or f"{topic}.gone" in names:
            time.sleep(0.05)
        return "created, deleted, listed"

    def partitions() -> str:
        admin = AdminClient(servers)
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
        return "increased to 3"

    def configuration() -> str:
        admin, resource = AdminClient(servers), ConfigResource(ResourceType.TOPIC, topic)
        admin.describe_configs([resource])[resource].result()
        return "described"

    def alter() -> str:
        admin, resource = AdminClient(servers), ConfigResource(ResourceType.TOPIC, topic)
        entry = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for each in admin.incremental_alter_configs([changed]).values():
            each.result()
        while admin.describe_configs([resource])[resource].result()["retention.ms"].value != "-1":
            time.sleep(0.05)
        return "altered"

    def elections() -> str:
        admin = AdminClient(servers)
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result()
        return "asked for the preferred leader"

    return {
        "topics": topics,
        "partitions": partitions,
        "configuration": configuration,
        "alter": alter,
        "elections": elections,
    }


def operations(bootstrap: str, topic: str) -> Mapping[str, Callable[[], str]]:
    servers = {"bootstrap.servers": bootstrap, "log_level": 0}

    def produce(**settings: object) -> str:
        producer = Producer({**servers, **{name.replace("_", "."): value for name, value in settings.items()}})
        outcomes: list[object] = []
        for at, value in values():
            producer.produce(
                topic, value, partition=0, timestamp=at, on_delivery=lambda error, _: outcomes.append(error)
            )
        while producer.flush(1):
            pass
        if any(outcomes):
            raise KafkaException(next(filter(None, outcomes)))
        return f"{RECORDS} records"

    def read() -> str:
        consumer = Consumer({**servers, "group.id": "nobody", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
        count = 0
        while count < end:
            message = consumer.poll(0.2)
            if message is not None and message.error():
                raise KafkaException(message.error())
            count += message is not None
        consumer.close()
        return f"{count} records"

    def at_time() -> str:
        consumer = Consumer({**servers, "group.id": "nobody"})
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, FIRST_TIME_MS + 5)], timeout=5)
        consumer.close()
        return f"offset {found.offset}"

    def group() -> str:
        consumer = Consumer({**servers, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        while (message := consumer.poll(0.2)) is None:
            pass
        if message.error():
            raise KafkaException(message.error())
        return "records"

    def transaction() -> str:
        producer = Producer({**servers, "transactional.id": "somebody"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        producer.commit_transaction()
        return "committed"

    known: dict[str, Callable[[], str]] = {
        **administration(bootstrap, topic),
        "idempotent": lambda: produce(enable_idempotence=True),
        "read": read,
        "read-named": read,  # it reads under no other condition
        "time": at_time,
        "group": group,
        "transaction": transaction,
    }
    for acks in ("0", "1", "all"):
        known[f"acks-{acks}"] = partial(produce, acks=acks)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        known[f"codec-{codec}"] = partial(produce, compression_type=codec)
    return known


if __name__ == "__main__":
    run(operations)
