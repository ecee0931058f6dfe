"""Clients that nobody wrote for this broker: each creates a topic, produces with idempotence, loses its leader to a
kill, and reads every record once and in order. (kafka-python: tests/reference_impl/runtime/test_processes.py.)"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.admin import NewTopic as ConfluentNewTopic
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.host.clock import SystemClock
from harness.ports.cluster import ClientId, NodeId, PartitionState
from harness.scenario.model import ClusterSpec
from tests.end_to_end.shell import Shell
from tests.waiting import PATIENCE_S, comes_true, until

TOPIC = "orders"
BEFORE = [b"before-%03d" % number for number in range(200)]
AFTER = [b"after-%03d" % number for number in range(200)]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    (tmp_path / "run").mkdir()
    made = LocalCluster(
        run_path=tmp_path / "run", system=system_of(ClusterSpec(brokers=(1, 2, 3))), client_links=1, clock=SystemClock()
    )
    try:
        await made.start()
        yield made
    finally:
        await made.stop()
    assert Shell(directory=tmp_path.resolve()).processes() == []


async def kill_leader(cluster: LocalCluster) -> None:
    """Once the whole ISR is there, so that the next leader has everything."""
    states: list[PartitionState] = []

    async def all_in_sync() -> bool:
        states[:] = await cluster.live_partition_states([TOPIC])
        return bool(states) and states[0].leader >= 0 and len(states[0].isr) == 3

    await comes_true(all_in_sync, "the whole ISR")
    await cluster.kill(NodeId(states[0].leader))


class Librdkafka:
    """confluent-kafka, whose calls block: each is made on a thread."""

    def __init__(self, bootstrap: str) -> None:
        self._servers = {"bootstrap.servers": bootstrap}
        self._producer = Producer(
            {**self._servers, "enable.idempotence": True, "acks": "all", "message.timeout.ms": 30_000}
        )
        self._consumer = Consumer(
            {**self._servers, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "error"}
        )

    def create_topic(self) -> dict[str, str]:
        """And says how it is configured."""
        admin = AdminClient(self._servers)
        topic = ConfluentNewTopic(TOPIC, num_partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[TOPIC].result(20)
        until(lambda: admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions, "the topic in the metadata")
        assert len(admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].replicas) == 3
        resource = ConfigResource(ResourceType.TOPIC, TOPIC)
        described = admin.describe_configs([resource])[resource].result(10)
        self._consumer.assign([ConfluentPartition(TOPIC, 0, 0)])
        return {name: entry.value for name, entry in described.items()}

    def produce(self, values: list[bytes]) -> list[int]:
        """The offsets in the order of the answers."""
        offsets: list[int] = []

        def answered(error: object, message: object) -> None:
            assert error is None, error
            offsets.append(message.offset())  # type: ignore[attr-defined]

        for value in values:
            self._producer.produce(TOPIC, value, partition=0, on_delivery=answered)
        assert self._producer.flush(40) == 0
        return offsets

    def read(self, count: int) -> list[bytes]:
        """Every message, errors too, so that a gap or a refused fetch shows in the comparison."""
        messages: list[Message] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(messages) < count and time.monotonic() < deadline:
            messages += self._consumer.consume(count - len(messages), timeout=0.5)
        return [message.value() for message in messages]

    def end_offset(self) -> int:
        return int(self._consumer.get_watermark_offsets(ConfluentPartition(TOPIC, 0), timeout=10)[1])

    def close(self) -> None:
        self._consumer.close()


async def test_librdkafka_goes_through_a_leader_change_without_loss_or_duplicate(cluster: LocalCluster) -> None:
    client = await asyncio.to_thread(Librdkafka, cluster.bootstrap(ClientId(1)))
    try:
        assert (await asyncio.to_thread(client.create_topic))["min.insync.replicas"] == "2"
        assert await asyncio.to_thread(client.produce, BEFORE) == list(range(200))
        assert await asyncio.to_thread(client.read, 200) == BEFORE

        await kill_leader(cluster)

        assert await asyncio.to_thread(client.produce, AFTER) == list(range(200, 400))
        assert await asyncio.to_thread(client.read, 200) == AFTER
        assert await asyncio.to_thread(client.end_offset) == 400
    finally:
        await asyncio.to_thread(client.close)


async def test_aiokafka_goes_through_a_leader_change_without_loss_or_duplicate(cluster: LocalCluster) -> None:
    bootstrap = cluster.bootstrap(ClientId(1))
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([AioNewTopic(TOPIC, 1, 3, topic_configs={"min.insync.replicas": "2"})])
        described: list[dict[str, Any]] = []

        async def is_known() -> bool:  # a broker tells of a topic once the controller has told it
            described[:] = await admin.describe_topics([TOPIC])
            return bool(described and described[0]["partitions"])

        await comes_true(is_known, "the topic in the metadata")
        assert len(described[0]["partitions"][0]["replicas"]) == 3
    finally:
        await admin.close()
    partition = TopicPartition(TOPIC, 0)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", request_timeout_ms=30_000
    )
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="none")
    await producer.start()
    await consumer.start()
    try:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        assert await produced(producer, BEFORE) == list(range(200))
        assert await read(consumer, 200) == BEFORE

        await kill_leader(cluster)

        assert await produced(producer, AFTER) == list(range(200, 400))
        assert await read(consumer, 200) == AFTER
        assert (await consumer.end_offsets([partition]))[partition] == 400
    finally:
        await consumer.stop()
        await producer.stop()


async def produced(producer: AIOKafkaProducer, values: list[bytes]) -> list[int]:
    async with asyncio.timeout(PATIENCE_S):
        futures = [await producer.send(TOPIC, value, partition=0) for value in values]
        return [(await future).offset for future in futures]


async def read(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        return [(await consumer.getone()).value for _ in range(count)]


def test_the_cluster_command_serves_clients_until_an_interrupt_and_leaves_nothing(tmp_path: Path) -> None:
    shell = Shell(directory=tmp_path.resolve())
    ready = tmp_path / "ready.json"
    process = shell.start("cluster", "--ready-file", str(ready))
    try:
        until(lambda: ready.is_file() or process.poll() is not None, "the ready file")
        addresses = json.loads(ready.read_text())
        assert addresses["coordination"]
        assert shell.processes()
        assert all(Path(f"/proc/{each['process']}").is_dir() for each in addresses["nodes"])
        assert [each["role"] for each in addresses["nodes"]] == ["coordination", "broker", "broker", "broker"]
        assert all(Path(each["data"]).is_dir() and Path(each["log"]).is_file() for each in addresses["nodes"])
        assert addresses["process"] == process.pid
        admin = KafkaAdminClient(bootstrap_servers=addresses["bootstrap"])
        try:
            admin.create_topics([NewTopic(TOPIC, 1, 3)])
        finally:
            admin.close()
        producer = KafkaProducer(bootstrap_servers=addresses["bootstrap"], acks="all")
        try:
            assert producer.send(TOPIC, b"first", partition=0).get(20).offset == 0
        finally:
            producer.close()

        process.send_signal(signal.SIGINT)

        assert process.wait(30) == 0, shell.output.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)
    assert addresses["bootstrap"] in shell.output.read_text()
    assert shell.processes() == []
    assert list(tmp_path.glob("kafka-chaos-cluster-*")) == []


def test_the_cluster_command_says_when_a_node_has_ended_and_what_its_log_said(tmp_path: Path) -> None:
    shell = Shell(directory=tmp_path.resolve())
    process = shell.start("cluster", "--ready-file", str(tmp_path / "ready.json"))
    try:
        until(lambda: (tmp_path / "ready.json").is_file() or process.poll() is not None, "the ready file")
        (folder,) = tmp_path.glob("kafka-chaos-cluster-*")
        started = [json.loads(line) for line in (folder / "processes.jsonl").read_text().splitlines()]
        (victim,) = [entry["pid"] for entry in started if "/nodes/2/" in entry["command"]]
        os.kill(victim, signal.SIGKILL)

        until(lambda: "broker 2 ended with code -9; its log ends with" in shell.output.read_text(), "the end is told")

        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)
    said = shell.output.read_text()
    assert "reference_impl.runtime" in said
    assert said.count("ended with code") == 1  # those that the command itself ends are no news
