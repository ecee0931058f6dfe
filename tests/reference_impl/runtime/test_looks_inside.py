"""A broker decodes batches only where it must, with every codec, in order of arrival, never on its event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from confluent_kafka import Producer

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.identifiers import TopicPartition as Key
from reference_impl.core.timestamps import TimestampSettings
from reference_impl.runtime.in_process import InProcessCluster
from reference_impl.runtime.threads import DecodingThread
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.compression import GZIP
from reference_impl.wire.messages import decode_response, encode_request
from reference_impl.wire.record_batches import parse_headers
from tests.reference_impl.odd_batches import CASES, COMPRESS, GARBAGE, NOW_MS, THREE, batch, packed, record
from tests.reference_impl.raw_client import Listed, list_offset, produce, produce_request
from tests.reference_impl.runtime.conftest import running_cluster

pytestmark = pytest.mark.cluster

Found = TypeVar("Found")
TOPIC = "orders"
ORDERS = Key(TOPIC, 0)
LATEST, MAX_TIMESTAMP = -1, -3
OK = (ErrorCode.NONE, 0)
A_DAY_MS = str(24 * 3_600_000)  # times in the batches are those of when the tests were collected


async def create(cluster: InProcessCluster, configs: dict[str, str] | None = None) -> tuple[str, int]:
    """A topic led by broker 1; answers where that listens for clients."""
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(TOPIC, -1, -1, {0: [1, 2, 3]}, topic_configs=configs or {})])
    finally:
        await admin.close()
    await cluster.until(lambda: all(ORDERS in broker.replicas.partitions for broker in cluster.brokers.values()))
    await cluster.until(lambda: cluster.brokers[1].replicas.partitions[ORDERS].is_leader)
    return cluster.client_address(1)


async def sent(address: tuple[str, int], data: bytes, *, version: int = 9) -> tuple[int, int]:
    return await asyncio.to_thread(produce, address, TOPIC, data, version=version)


async def listed(address: tuple[str, int], timestamp: int) -> Listed:
    return await asyncio.to_thread(list_offset, address, TOPIC, timestamp)


def three_times(name: str) -> bytes:
    return packed(name, record(0) + record(1, time_delta=20) + record(2, time_delta=10), max_time=NOW_MS + 20)


@pytest.mark.parametrize("name", COMPRESS)
async def test_an_offset_is_found_by_time_in_a_batch_of_any_codec(cluster: InProcessCluster, name: str) -> None:
    address = await create(cluster)
    assert await sent(address, three_times(name)) == OK
    assert await listed(address, NOW_MS) == Listed(error=0, offset=0, timestamp=NOW_MS)
    assert await listed(address, NOW_MS + 5) == Listed(error=0, offset=1, timestamp=NOW_MS + 20)
    assert await listed(address, NOW_MS + 21) == Listed(error=0, offset=-1, timestamp=-1)
    assert await listed(address, MAX_TIMESTAMP) == Listed(error=0, offset=1, timestamp=NOW_MS + 20)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_an_offset_is_found_by_time_in_what_clients_themselves_compress(
    cluster: InProcessCluster, codec: str
) -> None:
    """And where a limit of their times makes the leader look when they produce."""
    address = await create(cluster, {"message.timestamp.before.max.ms": A_DAY_MS})
    through_aiokafka = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, compression_type=codec, acks="all")
    await through_aiokafka.start()
    try:
        for number in range(3):
            value = b"a" * 100
            sent_now = await through_aiokafka.send_and_wait(TOPIC, value, partition=0, timestamp_ms=NOW_MS + number)
            assert sent_now.offset == number
    finally:
        await through_aiokafka.stop()
    await asyncio.to_thread(produce_through_librdkafka, cluster.bootstrap, codec)

    assert [(await listed(address, NOW_MS + number)).offset for number in range(6)] == list(range(6))
    headers = parse_headers(cluster.brokers[1].replicas.partitions[ORDERS].log.all_batches())
    assert {header.compression for header in headers} == {["gzip", "snappy", "lz4", "zstd"].index(codec) + 1}


def produce_through_librdkafka(bootstrap: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    for number in range(3, 6):
        producer.produce(TOPIC, b"b" * 1000, partition=0, timestamp=NOW_MS + number)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("name", COMPRESS)
async def test_a_record_that_is_too_old_is_refused_in_a_batch_of_any_codec(
    cluster: InProcessCluster, name: str
) -> None:
    address = await create(cluster, {"message.timestamp.before.max.ms": A_DAY_MS})
    old = packed(name, record(0, time_delta=-2 * int(A_DAY_MS)) + record(1), 2)
    assert await sent(address, old) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert await sent(address, three_times(name)) == OK


async def test_a_batch_that_cannot_be_looked_into_is_an_error_of_its_lookup_and_of_nothing_else(
    cluster: InProcessCluster,
) -> None:
    address = await create(cluster)
    assert await sent(address, batch(GARBAGE, attributes=GZIP)) == OK
    assert (await listed(address, NOW_MS)).error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert await sent(address, packed("gzip", THREE, base_time=NOW_MS + 50)) == (ErrorCode.NONE, 3)
    assert await listed(address, NOW_MS + 50) == Listed(error=0, offset=3, timestamp=NOW_MS + 50)


async def test_a_header_that_promised_too_much_leads_to_the_next_batch(cluster: InProcessCluster) -> None:
    address = await create(cluster)
    assert await sent(address, batch(THREE, max_time=NOW_MS + 50)) == OK
    assert await sent(address, batch(THREE, base_time=NOW_MS + 40)) == (ErrorCode.NONE, 3)
    assert await listed(address, NOW_MS + 30) == Listed(error=0, offset=3, timestamp=NOW_MS + 40)


async def test_with_validate_records_a_broker_takes_what_the_table_says(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, settings={"reference.validate.records": "true"}) as cluster:
        address = await create(cluster)
        for case in CASES:
            error, _ = await sent(address, case.data)
            assert ErrorCode(error) is case.looked_at, case.what
        logs = [broker.replicas.partitions[ORDERS].log for broker in cluster.brokers.values()]
        await cluster.until(lambda: len({log.all_batches() for log in logs}) == 1)


async def test_zstd_is_refused_from_clients_too_old_to_read_it(cluster: InProcessCluster) -> None:
    address = await create(cluster)
    data = packed("zstd", THREE)
    assert await sent(address, data, version=6) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)
    assert await sent(address, data, version=7) == OK


class Looks:
    """All brokers' looks wait, each on its thread, until they may."""

    def __init__(self) -> None:
        self.begun = 0
        self.may = threading.Event()

    def decoding(self) -> DecodingThread:
        return HeldUp(self)


class HeldUp(DecodingThread):
    def __init__(self, looks: Looks) -> None:
        super().__init__()
        self._looks = looks

    async def run(self, look: Callable[[], Found]) -> Found:
        self._looks.begun += 1

        def late() -> Found:
            assert self._looks.may.wait(60)
            return look()

        return await super().run(late)


@pytest.fixture
async def held_up(tmp_path: Path) -> AsyncIterator[tuple[InProcessCluster, Looks]]:
    looks = Looks()
    async with running_cluster(tmp_path, decoding=looks.decoding) as made:
        try:
            yield made, looks
        finally:
            looks.may.set()


async def send_all(address: tuple[str, int], *batches: bytes, acks: int = -1) -> Any:
    """Without waiting for an answer; the connection stays open."""
    reader, writer = await asyncio.open_connection(*address)
    for number, data in enumerate(batches):
        writer.write(encode_request(ApiKey.PRODUCE, 9, number, "raw", produce_request(TOPIC, data, acks=acks)))
    await writer.drain()
    return reader, writer


async def answered(reader: asyncio.StreamReader) -> tuple[int, int, int]:
    """(correlation id, error, base offset)"""
    size = int.from_bytes(await reader.readexactly(4), "big")
    number, response = decode_response(ApiKey.PRODUCE, 9, await reader.readexactly(size))
    (answer,) = response.responses[0].partition_responses
    return number, answer.error_code, answer.base_offset


async def test_while_a_lookup_by_time_looks_the_broker_serves_everybody_else(
    held_up: tuple[InProcessCluster, Looks],
) -> None:
    cluster, looks = held_up
    address = await create(cluster)
    assert await sent(address, three_times("gzip")) == OK
    looking = asyncio.ensure_future(listed(address, NOW_MS))
    await cluster.until(lambda: looks.begun == 1)

    assert await sent(address, packed("lz4", THREE)) == (ErrorCode.NONE, 3)
    assert (await listed(address, LATEST)).offset == 6
    assert not looking.done()
    looks.may.set()
    assert (await looking).offset == 0


async def test_a_producers_batches_are_appended_in_their_order_whichever_are_looked_at(
    held_up: tuple[InProcessCluster, Looks],
) -> None:
    """The topic's settings change meanwhile: the later batches need no look, and wait for the others all the same."""
    cluster, looks = held_up
    address = await create(cluster, {"message.timestamp.before.max.ms": A_DAY_MS})
    numbered = [batch(THREE, producer=(77, 0, 3 * number)) for number in range(4)]
    reader, writer = await send_all(address, *numbered[:2])
    await cluster.until(lambda: looks.begun == 2)
    partition = cluster.brokers[1].replicas.partitions[ORDERS]
    partition.update_settings(replace(partition.settings, timestamps=TimestampSettings()))
    later_reader, later_writer = await send_all(address, *numbered[2:])
    assert (await listed(address, LATEST)).offset == 0
    looks.may.set()
    assert [await answered(reader) for _ in range(2)] == [(0, 0, 0), (1, 0, 3)]
    assert [await answered(later_reader) for _ in range(2)] == [(0, 0, 6), (1, 0, 9)]
    writer.close()
    later_writer.close()


async def test_what_was_sent_is_appended_though_its_sender_went_away(
    held_up: tuple[InProcessCluster, Looks],
) -> None:
    cluster, looks = held_up
    address = await create(cluster, {"message.timestamp.before.max.ms": A_DAY_MS})
    reader, writer = await send_all(address, three_times("lz4"), three_times("zstd"), acks=0)
    await cluster.until(lambda: looks.begun == 2)
    writer.write_eof()
    assert await reader.read() == b""  # the broker has closed the connection, too
    writer.close()
    looks.may.set()
    log = cluster.brokers[1].replicas.partitions[ORDERS].log
    await cluster.until(lambda: log.log_end_offset == 6)


async def test_a_broker_that_stops_appends_nothing_that_is_still_looked_at(
    held_up: tuple[InProcessCluster, Looks],
) -> None:
    cluster, looks = held_up
    address = await create(cluster, {"message.timestamp.before.max.ms": A_DAY_MS})
    _, writer = await send_all(address, three_times("lz4"))
    await cluster.until(lambda: looks.begun == 1)
    log = cluster.brokers[1].replicas.partitions[ORDERS].log
    await cluster.stop_broker(1)
    looks.may.set()
    again = await cluster.start_broker(1)
    await cluster.until(lambda: len(again.metadata.brokers) == 3)
    assert log.log_end_offset == 0
    assert parse_headers(again.replicas.partitions[ORDERS].log.all_batches()) == []
    writer.close()
