"""kafka-python as a Client.

Known habits (real_kafka.md 5.2): an idempotent producer never recovers from an expired batch, so the owner replaces a
client after an unknown outcome; with retries NOT_ENOUGH_REPLICAS turns into a time-out.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from harness.clients import answers as common
from harness.clients.answers import Answers, may_be_idempotent
from harness.clients.threaded import ThreadedClient
from harness.interfaces import Client, ReadRecord, Send, TopicPartition
from harness.scenario import WorkloadSpec


class KafkaPythonClient(ThreadedClient):
    """Its sender thread answers by callbacks."""

    def __init__(self, *, bootstrap: str, settings: WorkloadSpec, brokers_version: tuple[int, ...] = ()) -> None:
        super().__init__(library="kafka-python", bootstrap=bootstrap, settings=settings)
        self._servers: dict[str, Any] = {
            "bootstrap_servers": [server.strip() for server in bootstrap.split(",")],
            "bootstrap_timeout_ms": common.MAX_BLOCK_MS,
            "allow_auto_create_topics": False,
            "metadata_max_age_ms": common.METADATA_MAX_AGE_MS,
            "reconnect_backoff_ms": common.RECONNECT_MS,
            "reconnect_backoff_max_ms": common.RECONNECT_MAX_MS,
            "metrics_enabled": False,
            # Brokers from before 0.10 hang up on the question which version they are.
            **({"api_version": brokers_version[:2]} if brokers_version else {}),
        }
        self._producer: Any = None
        self._consumer: Any = None

    # -- producing ----------------------------------------

    def _open_producer(self) -> Any:
        settings = self._settings
        idempotence = may_be_idempotent(settings)
        more: dict[str, Any] = {} if settings.retries is None else {"retries": settings.retries}
        if not idempotence and settings.retries != 0:
            # A retried batch would be overtaken by the one behind it: the client's doing, not the cluster's.
            more["max_in_flight_requests_per_connection"] = 1
        return KafkaProducer(
            acks=settings.acks if settings.acks == "all" else int(settings.acks),
            enable_idempotence=idempotence,
            linger_ms=settings.linger_ms,
            request_timeout_ms=settings.request_timeout_ms,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            max_block_ms=common.MAX_BLOCK_MS,
            **self._servers,
            **more,
        )

    def _send(self, records: Sequence[Send], answers: Answers) -> None:
        for place, record in enumerate(records):
            answers.begin(place)
            try:
                if self._producer is None:
                    self._producer = self._open_producer()
                future = self._producer.send(record.topic, value=record.value, partition=record.partition)
            except Exception as error:  # noqa: BLE001  # classed by the table, whatever it is
                answers.refused(place, error)
                break
            future.add_callback(partial(_delivered, answers, place))
            future.add_errback(partial(answers.failed, place))
        answers.wait(self._send_s)

    # -- consuming ----------------------------------------

    def _open_consumer(self) -> Any:
        if self._consumer is None:
            self._consumer = KafkaConsumer(
                group_id=None,
                enable_auto_commit=False,
                # A position that is gone (truncation) is told, not silently replaced: the owner starts a new client.
                auto_offset_reset="none",
                fetch_max_wait_ms=common.FETCH_WAIT_MS,
                max_partition_fetch_bytes=common.FETCH_BYTES,
                request_timeout_ms=self._read_timeout_ms,
                **self._servers,
            )
        return self._consumer

    def _assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        wanted = [KafkaTopicPartition(partition.topic, partition.partition) for partition in partitions]
        consumer = self._open_consumer()
        consumer.assign(wanted)
        if from_beginning:
            consumer.seek_to_beginning(*wanted)
        else:
            consumer.seek_to_end(*wanted)

    def _poll(self, limit: int, timeout_s: float) -> list[ReadRecord]:
        answer = self._open_consumer().poll(timeout_ms=int(timeout_s * 1000), max_records=limit)
        return [
            ReadRecord(
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                epoch=record.leader_epoch if record.leader_epoch is not None and record.leader_epoch >= 0 else None,
                value=record.value if record.value is not None else b"",
            )
            for records in answer.values()
            for record in records
        ]

    def _end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = {KafkaTopicPartition(partition.topic, partition.partition): partition for partition in partitions}
        answer = self._open_consumer().end_offsets(list(wanted), timeout_ms=self._read_timeout_ms)
        return {wanted[partition]: offset for partition, offset in answer.items()}

    # -- the end ------------------------------------------

    def _close(self) -> None:
        try:
            if self._consumer is not None:
                self._consumer.close(autocommit=False, timeout_ms=500)
        finally:
            if self._producer is not None:
                self._producer.close(timeout=0.5)

    def _abandon(self) -> None:
        # KafkaProducer.close gives up before it stops its sender when the flush times out; left alone, the sender
        # would go on sending what the history already calls unknown.
        if self._producer is not None:
            self._producer._sender.force_close()


def _delivered(answers: Answers, place: int, metadata: Any) -> None:
    answers.delivered(place, metadata.offset)


def make_client(*, bootstrap: str, settings: WorkloadSpec, brokers_version: tuple[int, ...] = ()) -> Client:
    """The ClientMaker of the catalogue. `brokers_version`: where brokers cannot be asked for it."""
    return KafkaPythonClient(bootstrap=bootstrap, settings=settings, brokers_version=brokers_version)
