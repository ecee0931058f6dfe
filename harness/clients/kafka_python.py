"""kafka-python as a Client.

Known behaviour (3.0.12, seen on real Kafka): an idempotent producer never recovers from an expired batch, so the owner
replaces a client after an unknown outcome; with retries NOT_ENOUGH_REPLICAS becomes a timeout.

Its failed attempts, connections and versions of requests are recorded by hooks into its sender and its connections,
because it has no callback for them. Every failed attempt at a batch, whatever the reason, passes the sender's
`_dispatch_error` before its records are answered.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import OffsetOutOfRangeError, RequestTimedOutError
from kafka.producer.sender import Sender
from kafka.record import default_records, legacy_records

from harness.clients import answers as common
from harness.clients.answers import Answers, may_be_idempotent
from harness.clients.client_log import ClientLog
from harness.clients.secured import kafka_python_settings
from harness.clients.threaded import ThreadedClient
from harness.host.record_codecs import LZ4, SNAPPY, ZSTD, decompress
from harness.ports.clients import PLAIN, ClientUse
from harness.ports.cluster import Client, ReadRecord, Send, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.security import SecuritySpec

_NEEDED = ("_dispatch_error", "_failed_produce", "_handle_produce_response")
TELLS_ATTEMPTS = all(hasattr(Sender, name) for name in _NEEDED)  # of the version that is installed

_COORDINATOR = re.compile(r"coordinator-(\d+)")
OFFSET_FETCH = "OffsetFetch"
# Kinds of requests in whose versions promises differ, by their key: Produce 12 and EndTxn 5 are of KIP-890, OffsetFetch
# 7 can ask for stable offsets and TxnOffsetCommit 3 names the member (KIP-447), OffsetCommit 9 is for KIP-848.
DECIDING = {0: "Produce", 8: "OffsetCommit", 9: OFFSET_FETCH, 26: "EndTxn", 28: "TxnOffsetCommit"}


def watch_producer(producer: Any, log: ClientLog) -> None:
    sender = producer._sender
    if TELLS_ATTEMPTS:
        _watch_attempts(sender, log)
    _watch_connections(sender._client._manager, log)


def watch_consumer(consumer: Any, log: ClientLog) -> None:
    _watch_connections(consumer._manager, log)


def _watch_attempts(sender: Any, log: ClientLog) -> None:
    at_work: list[int | None] = [None]  # the request whose answer or loss the sender's thread handles now

    def of_node(function: Callable[..., Any], node_at: int) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            at_work[0] = arguments[node_at]
            try:
                return function(*arguments)
            finally:
                at_work[0] = None

        return wrapped

    dispatch = sender._dispatch_error

    def dispatched(batch: Any, exception: Any, partition_response: Any = None) -> None:
        place = batch.topic_partition
        log.failed(place.topic, place.partition, exception, node=at_work[0])
        dispatch(batch, exception, partition_response)

    sender._dispatch_error = dispatched
    sender._failed_produce = of_node(sender._failed_produce, 1)
    sender._handle_produce_response = of_node(sender._handle_produce_response, 0)


def _watch_connections(manager: Any, log: ClientLog) -> None:
    """Watches connections to brokers, not to bootstrap servers (which have no id), and the leaders in metadata."""
    connect = manager.get_connection

    def connected(node: Any, *arguments: Any, **more: Any) -> Any:
        known = manager._conns.get(node)
        connection = connect(node, *arguments, **more)
        if connection is not known:
            _watch_requests(connection, log)
        if connection is not known and isinstance(node, int):
            _watch(connection, log)
            connection.init_future.add_callback(lambda _: log.connection("connect", node))
        return connection

    for node, connection in list(manager._conns.items()):
        _watch_requests(connection, log)
        if isinstance(node, int):
            _watch(connection, log)
    manager.get_connection = connected

    def metadata_changed(cluster: Any) -> None:
        # Copied in one step: other threads may add topics.
        topics = {topic: dict(parts) for topic, parts in list(cluster._partitions.items())}
        log.leaders(
            (topic, number, part.leader_id, part.leader_epoch if part.leader_epoch >= 0 else None)
            for topic, parts in topics.items()
            for number, part in parts.items()
        )

    manager.cluster.add_listener(metadata_changed)
    metadata_changed(manager.cluster)


def _watch(connection: Any, log: ClientLog) -> None:
    def lost(error: object = None) -> None:
        in_vain = isinstance(error, RequestTimedOutError)
        log.connection("timeout" if in_vain else "disconnect", connection.node_id, error)

    connection.close_future.add_both(lost)


def _watch_requests(connection: Any, log: ClientLog) -> None:
    """Of every connection: to its group's coordinator the library opens one of its own, with the id coordinator-N."""
    send, node = connection._send_request, _COORDINATOR.fullmatch(str(connection.node_id))
    number = connection.node_id if isinstance(connection.node_id, int) else int(node[1]) if node is not None else None

    def sent(request: Any, *arguments: Any, **more: Any) -> Any:
        answer = send(request, *arguments, **more)  # which has chosen the version
        if (name := DECIDING.get(request.API_KEY)) is not None and request.API_VERSION is not None:
            log.request(name, request.API_VERSION, node=number)
        return answer

    connection._send_request = sent


LOG_APPEND_TIME = 1  # ConsumerRecord.timestamp_type


class KafkaPythonClient(ThreadedClient):
    """Its sender thread answers by callbacks."""

    tells_attempts = TELLS_ATTEMPTS

    def __init__(
        self,
        *,
        bootstrap: str,
        settings: WorkloadSpec,
        brokers_version: tuple[int, ...] = (),
        use: ClientUse | None = None,
        security: SecuritySpec | None = None,
    ) -> None:
        super().__init__(library="kafka-python", bootstrap=bootstrap, settings=settings)
        self._use = use or PLAIN
        self._servers: dict[str, Any] = {
            "bootstrap_servers": [server.strip() for server in bootstrap.split(",")],
            "bootstrap_timeout_ms": common.MAX_BLOCK_MS,
            "allow_auto_create_topics": False,
            "metadata_max_age_ms": common.METADATA_MAX_AGE_MS,
            "reconnect_backoff_ms": common.RECONNECT_MS,
            "reconnect_backoff_max_ms": common.RECONNECT_MAX_MS,
            "metrics_enabled": False,
            # Brokers before 0.10 close the connection on a request for their version.
            **({"api_version": brokers_version[:2]} if brokers_version else {}),
            **kafka_python_settings(security),
        }
        self._producer: Any = None
        self._consumer: Any = None

    # -- producing ----------------------------------------

    def _producer_settings(self) -> dict[str, Any]:
        """Additional settings of a subclass."""
        return {}

    def _open_producer(self) -> Any:
        settings = self._settings
        idempotence = may_be_idempotent(settings)
        more: dict[str, Any] = {} if settings.retries is None else {"retries": settings.retries}
        if not idempotence and settings.retries != 0:
            # A later batch would overtake a retried one: the client's fault, not the cluster's.
            more["max_in_flight_requests_per_connection"] = 1
        producer = KafkaProducer(
            acks=settings.acks if settings.acks == "all" else int(settings.acks),
            enable_idempotence=idempotence,
            linger_ms=settings.linger_ms,
            request_timeout_ms=settings.request_timeout_ms,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            max_block_ms=common.MAX_BLOCK_MS,
            **self._servers,
            **more,
            **self._producer_settings(),
        )
        watch_producer(producer, self._log)
        return producer

    def _send(self, records: Sequence[Send], answers: Answers) -> None:
        created_ms: list[int] = []
        for place, record in enumerate(records):
            answers.begin(place)
            created_ms.append(time.time_ns() // 1_000_000)
            try:
                if self._producer is None:
                    self._producer = self._open_producer()
                future = self._producer.send(
                    record.topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=created_ms[place],
                )
            except Exception as error:  # noqa: BLE001  # classed by the table, whatever it is
                answers.refused(place, error)
                break
            answers.returned(place)
            future.add_callback(partial(_delivered, answers, place, created_ms))
            future.add_errback(partial(answers.failed, place))
        answers.wait(self._send_s)

    # -- consuming ----------------------------------------

    def _consumer_settings(self) -> dict[str, Any]:
        return {"group_id": None}

    def _open_consumer(self) -> Any:
        if self._consumer is None:
            _read_every_compression()
            self._consumer = KafkaConsumer(
                enable_auto_commit=False,
                # "none": a position that no longer exists (truncation) is an error, not silently reset; the owner
                # starts a new client.
                auto_offset_reset=self._use.offset_reset,
                isolation_level=self._use.isolation,
                fetch_max_wait_ms=common.FETCH_WAIT_MS,
                max_partition_fetch_bytes=common.FETCH_BYTES,
                request_timeout_ms=self._read_timeout_ms,
                **self._servers,
                **self._consumer_settings(),
            )
            watch_consumer(self._consumer, self._log)
        return self._consumer

    def _assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        wanted = [KafkaTopicPartition(partition.topic, partition.partition) for partition in partitions]
        consumer = self._open_consumer()
        consumer.assign(wanted)
        if from_beginning:
            consumer.seek_to_beginning(*wanted)
        else:
            consumer.seek_to_end(*wanted)

    async def assign_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        await self._thread.call(partial(self._assign_at, offsets), timeout_s=self._read_s(0))

    def _assign_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        consumer, wanted = self._open_consumer(), theirs(offsets)
        consumer.assign(list(wanted))
        for partition, ours in wanted.items():
            consumer.seek(partition, offsets[ours])

    def out_of_range(self, error: BaseException) -> frozenset[TopicPartition]:
        """Without a reset the library raises the error with the partitions and their offsets."""
        if not isinstance(error, OffsetOutOfRangeError) or not error.args or not isinstance(error.args[0], Mapping):
            return frozenset()
        return frozenset(TopicPartition(topic=each.topic, partition=each.partition) for each in error.args[0])

    def _poll(self, limit: int, timeout_s: float) -> list[ReadRecord]:
        answer = self._open_consumer().poll(timeout_ms=int(timeout_s * 1000), max_records=limit)
        return [
            ReadRecord(
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                epoch=record.leader_epoch if record.leader_epoch is not None and record.leader_epoch >= 0 else None,
                value=record.value if record.value is not None else b"",
                key=record.key,
                timestamp_ms=record.timestamp,
                log_append=None if record.timestamp_type is None else record.timestamp_type == LOG_APPEND_TIME,
            )
            for records in answer.values()
            for record in records
        ]

    def _end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """With read_committed the last stable offsets."""
        wanted = theirs(partitions)
        answer = self._open_consumer().end_offsets(list(wanted), timeout_ms=self._read_timeout_ms)
        return {wanted[partition]: offset for partition, offset in answer.items()}

    async def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return await self._thread.call(partial(self._first_offsets, partitions), timeout_s=self._read_s(0))

    def _first_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = theirs(partitions)
        answer = self._open_consumer().beginning_offsets(list(wanted), timeout_ms=self._read_timeout_ms)
        return {wanted[partition]: offset for partition, offset in answer.items()}

    async def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return await self._thread.call(partial(self._positions, partitions), timeout_s=self._read_s(0))

    def _positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        consumer = self._open_consumer()
        found = {
            ours: consumer.position(partition, timeout_ms=self._read_timeout_ms)
            for partition, ours in theirs(partitions).items()
        }
        return {partition: offset for partition, offset in found.items() if offset is not None}

    # -- the end ------------------------------------------

    def _close(self) -> None:
        try:
            if self._consumer is not None:
                self._consumer.close(autocommit=False, timeout_ms=500)
        finally:
            if self._producer is not None:
                self._producer.close(timeout=0.5)

    def _abandon(self) -> None:
        # KafkaProducer.close returns before it stops its sender if the flush times out; the sender would then continue
        # to send what the history calls unknown.
        if self._producer is not None:
            self._producer._sender.force_close()


def theirs(partitions: Iterable[TopicPartition]) -> dict[Any, TopicPartition]:
    return {KafkaTopicPartition(partition.topic, partition.partition): partition for partition in partitions}


def _delivered(answers: Answers, place: int, created_ms: Sequence[int], metadata: Any) -> None:
    """For a duplicate batch the broker answers the timestamp of its last record, as if it had stamped all of them; then
    this record's timestamp is unknown."""
    answered_ms = metadata.timestamp
    known = answered_ms == created_ms[place] or answered_ms not in created_ms
    answers.delivered(place, metadata.offset, timestamp_ms=answered_ms if known else None)


def make_client(
    *,
    bootstrap: str,
    settings: WorkloadSpec,
    use: ClientUse | None = None,
    brokers_version: tuple[int, ...] = (),
    security: SecuritySpec | None = None,
) -> Client:
    """The ClientMaker of the catalogue. `brokers_version`: for brokers without ApiVersions."""
    return KafkaPythonClient(
        bootstrap=bootstrap, settings=settings, use=use, brokers_version=brokers_version, security=security
    )


def _read_every_compression() -> None:
    """An application compresses its records as it likes, and kafka-python reads but gzip unless further packages are
    there: from now on it decompresses as the harness does."""
    for module in (default_records, legacy_records):
        module.snappy_decode, module.lz4_decode = partial(decompress, SNAPPY), partial(decompress, LZ4)
    default_records.zstd_decode = partial(decompress, ZSTD)
    legacy_records.lz4_decode_old_kafka = partial(decompress, LZ4, old_lz4=True)
    for reader in (default_records.DefaultRecordBatch, legacy_records.LegacyRecordBatch):
        reader._assert_has_codec = lambda self, codec: None
