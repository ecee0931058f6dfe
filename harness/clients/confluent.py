"""confluent-kafka (librdkafka) as a Client: the sending thread calls poll() until all delivery reports have come.

Known behaviour: a record without a leader is sent again without counting as a retry, even after an answer (librdkafka
takes NOT_LEADER_OR_FOLLOWER for a refusal before the append), so `retries = 0` does not mean one attempt. A consumer
must name a group, and looks up its coordinator although it never joins. An idempotent producer whose log was truncated
(an unclean election) fails for good.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException

from harness.clients import answers as common
from harness.clients.answers import Answers, may_be_idempotent
from harness.clients.confluent_log import DEBUG, TELLS_ATTEMPTS, logger_of
from harness.clients.secured import confluent_settings
from harness.clients.threaded import ThreadedClient
from harness.ports.cluster import Client, ReadRecord, Send, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.security import SecuritySpec

POLL_S = 0.1
LOOKED_UP_GROUP = "kafka-chaos"  # of its consumers, which never join it
LEAST_SOCKET_TIMEOUT_MS = 1000  # librdkafka does not accept less time for setting up a connection


class ConfluentClient(ThreadedClient):
    """One librdkafka instance for producing and one for consuming, each with its own threads underneath."""

    retries_itself = True
    tells_attempts = TELLS_ATTEMPTS

    def __init__(self, *, bootstrap: str, settings: WorkloadSpec, security: SecuritySpec | None = None) -> None:
        super().__init__(library="confluent-kafka", bootstrap=bootstrap, settings=settings)
        self._servers: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "broker.address.family": "v4",
            "topic.metadata.refresh.interval.ms": common.METADATA_MAX_AGE_MS,
            "metadata.max.age.ms": 3 * common.METADATA_MAX_AGE_MS,
            "reconnect.backoff.ms": common.RECONNECT_MS,
            "reconnect.backoff.max.ms": common.RECONNECT_MAX_MS,
            "socket.connection.setup.timeout.ms": max(settings.request_timeout_ms, LEAST_SOCKET_TIMEOUT_MS),
            "error_cb": _ignore,  # brokers that are down; otherwise readers get them as messages
            "debug": DEBUG,
            "logger": logger_of(self._log),
            **confluent_settings(security),
        }
        self._producer: Any = None
        self._consumer: Any = None
        self._unraised: KafkaException | None = None

    # -- producing ----------------------------------------

    def _open_producer(self) -> Any:
        settings = self._settings
        idempotence = may_be_idempotent(settings)
        more: dict[str, Any] = {} if settings.retries is None else {"retries": settings.retries}
        if not idempotence and settings.retries != 0:
            # A later batch would overtake a retried one: the client's fault, not the cluster's.
            more["max.in.flight.requests.per.connection"] = 1
        return confluent_kafka.Producer(
            {
                **self._servers,
                "acks": settings.acks,
                "enable.idempotence": idempotence,
                "linger.ms": settings.linger_ms,
                # The broker's limit and the client's own: librdkafka has two, Kafka's clients have one.
                "request.timeout.ms": settings.request_timeout_ms,
                "socket.timeout.ms": settings.request_timeout_ms,
                "message.timeout.ms": settings.delivery_timeout_ms,
                **more,
            }
        )

    def _send(self, records: Sequence[Send], answers: Answers) -> None:
        for place, record in enumerate(records):
            answers.begin(place)
            try:
                if self._producer is None:
                    self._producer = self._open_producer()
                key = {} if record.key is None else {"key": record.key}
                report = partial(_report, answers, place)
                self._producer.produce(
                    record.topic, record.value, partition=record.partition, on_delivery=report, **key
                )
            except Exception as error:  # noqa: BLE001  # classed by the table, whatever it is
                answers.refused(place, error)
                break
            answers.returned(place)
        producer, deadline, fatal = self._producer, time.monotonic() + self._send_s, False
        while producer is not None and not answers.complete and time.monotonic() < deadline:
            try:
                producer.poll(POLL_S)
            except KafkaException:
                # A fatal error is raised once; the delivery reports with its effect on each record follow.
                if fatal:
                    raise
                fatal = True

    # -- consuming ----------------------------------------

    def _open_consumer(self) -> Any:
        if self._consumer is None:
            self._consumer = confluent_kafka.Consumer(
                {
                    **self._servers,
                    "group.id": LOOKED_UP_GROUP,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    # A position that no longer exists (truncation) is an error, not silently reset: the owner starts a
                    # new client.
                    "auto.offset.reset": "error",
                    "fetch.wait.max.ms": common.FETCH_WAIT_MS,
                    "max.partition.fetch.bytes": common.FETCH_BYTES,
                    # librdkafka requires a second more than the broker may wait.
                    "socket.timeout.ms": max(self._read_timeout_ms, common.FETCH_WAIT_MS + 1000),
                    "allow.auto.create.topics": False,
                    "isolation.level": "read_uncommitted",  # as in the other libraries
                }
            )
        return self._consumer

    def _assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        offset = OFFSET_BEGINNING if from_beginning else OFFSET_END
        self._unraised = None
        self._open_consumer().assign(
            [confluent_kafka.TopicPartition(each.topic, each.partition, offset) for each in partitions]
        )

    def _poll(self, limit: int, timeout_s: float) -> list[ReadRecord]:
        """Returns the first records, at most `limit`; the next call raises an error that came after them."""
        consumer = self._open_consumer()
        if self._unraised is not None:
            error, self._unraised = self._unraised, None
            raise error
        # consume() waits for its full limit: take one record, then what is available already.
        first = consumer.poll(timeout_s)
        messages = [] if first is None else [first, *(consumer.consume(limit - 1, timeout=0) if limit > 1 else ())]
        records = []
        for message in messages:
            if message.error() is not None:
                self._unraised = KafkaException(message.error())
                break
            records.append(_record(message))
        if not records and self._unraised is not None:
            error, self._unraised = self._unraised, None
            raise error
        return records

    def _end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        consumer = self._open_consumer()
        ends = {}
        for partition in partitions:
            asked = confluent_kafka.TopicPartition(partition.topic, partition.partition)
            _, ends[partition] = consumer.get_watermark_offsets(asked, timeout=self._read_timeout_ms / 1000)
        return ends

    # -- the end ------------------------------------------

    def _close(self) -> None:
        try:
            if self._consumer is not None:
                self._consumer.close()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        # Otherwise queued records would still be sent, while the history calls them unknown.
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge(blocking=False)
            producer.poll(0)


def _report(answers: Answers, place: int, error: Any, message: Any) -> None:
    """The delivery report, served by poll()."""
    if error is None:
        kind, timestamp_ms = message.timestamp()
        # For a duplicate batch the broker answers a timestamp as if it had stamped it: only the client's own is
        # certain.
        known = kind == confluent_kafka.TIMESTAMP_CREATE_TIME
        answers.delivered(place, message.offset(), timestamp_ms=timestamp_ms if known else None)
    else:
        answers.failed(place, error)


def _record(message: Any) -> ReadRecord:
    epoch = message.leader_epoch()
    return ReadRecord(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        epoch=epoch if epoch is not None and epoch >= 0 else None,
        value=message.value() or b"",
        key=message.key(),
        timestamp_ms=_time_of(message),
        log_append=message.timestamp()[0] == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME,
    )


def _time_of(message: Any) -> int | None:
    kind, timestamp_ms = message.timestamp()
    return None if kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE else int(timestamp_ms)


def _ignore(_: Any) -> None:
    return None


def limits(settings: WorkloadSpec) -> list[str]:
    """How this library deviates from the workload's settings."""
    limitations = []
    if settings.retries == 0:
        limitations.append("retries = 0 is not one attempt: a record that found no leader is sent again")
    return limitations


def make_client(*, bootstrap: str, settings: WorkloadSpec, security: SecuritySpec | None = None) -> Client:
    """The ClientMaker of the catalogue."""
    return ConfluentClient(bootstrap=bootstrap, settings=settings, security=security)
