"""confluent-kafka (librdkafka) as a Client: the sending thread calls poll() until all delivery reports have come.

Known behaviour: a record without a leader is sent again without counting as a retry, even after an answer (librdkafka
takes NOT_LEADER_OR_FOLLOWER for a refusal before the append), so `retries = 0` does not mean one attempt. A consumer
must name a group, and looks up its coordinator although it never joins. An idempotent producer whose log was truncated
(an unclean election) fails for good.

Its events are extracted from its debug log, because it has no callback for an attempt that it will repeat. poll()
delivers the log before the delivery reports of the same records. Only known lines are used, identified by facility and
form, and converted to typed events at once; nothing else reads them. Each failed attempt at a batch is one `MSGSET`
line.
"""

import logging
import re
import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException

from harness.clients import answers as common
from harness.clients.answers import Answers, may_be_idempotent
from harness.clients.client_log import ClientLog
from harness.clients.outcomes import library_error_of
from harness.clients.secured import confluent_settings
from harness.clients.threaded import ThreadedClient
from harness.ports.clients import PLAIN, ClientUse, Kind
from harness.ports.cluster import Client, ReadRecord, Send, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.security import SecuritySpec

DEBUG = "msg,broker"  # the debug contexts whose lines are used
TELLS_ATTEMPTS = confluent_kafka.libversion()[0].startswith("2.")  # the client's name in these lines
# FACILITY [client] [thrd:...]: host:port/node: what
_LINE = re.compile(
    r"(?P<facility>MSGSET|FAIL|STATE|TOPBRK) \[[^]]*\] \[thrd:[^]]*\]: \S+/(?P<node>\d+): (?P<what>.*)", re.S
)
_ATTEMPT = re.compile(
    r"(?P<topic>\S+) \[(?P<part>\d+)\]: MessageSet with .* encountered error: (?P<error>.*) \(actions [^()]*\)"
)
_LOST = re.compile(r".*\((?P<name>_[A-Z_]+)\)$", re.S)
_JOINED = re.compile(r"Topic (?P<topic>\S+) \[(?P<part>\d+)\]: joining broker")
_UP = " -> UP"
_OWN_DOING = frozenset({"_DESTROY", "_DESTROY_BROKER"})  # a connection that it closes because nobody needs it
_IN_VAIN = "_TIMED_OUT"


def logger_of(log: ClientLog) -> logging.Logger:
    """The `logger` for librdkafka: one that nobody else uses."""
    logger = logging.Logger("librdkafka", logging.DEBUG)
    logger.propagate = False
    logger.addHandler(_Reader(log))
    return logger


class _Reader(logging.Handler):
    def __init__(self, log: ClientLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        line = _LINE.match(record.getMessage())
        if line is None:
            return
        node, what = int(line["node"]), line["what"]
        match line["facility"]:
            case "MSGSET":
                self._attempt(node, what)
            case "FAIL" if (lost := _LOST.match(what)) and lost["name"] not in _OWN_DOING:
                kind: Kind = "timeout" if lost["name"] == _IN_VAIN else "disconnect"
                self._log.connection(kind, node, _errors().get(lost["name"]))
            case "STATE" if what.endswith(_UP):
                self._log.connection("connect", node)
            case "TOPBRK" if joined := _JOINED.match(what):
                self._log.leaders([(joined["topic"], int(joined["part"]), node, None)])

    def _attempt(self, node: int, what: str) -> None:
        """An error of unknown wording leaves the outcome of the attempt unknown."""
        attempt = _ATTEMPT.match(what)
        if attempt is not None:
            error = _errors().get(attempt["error"], confluent_kafka.KafkaError(confluent_kafka.KafkaError._FAIL))
            self._log.failed(attempt["topic"], int(attempt["part"]), error, node=node)


@cache
def _errors() -> Mapping[str, Any]:
    """librdkafka's and Kafka's errors, by name and by the text in librdkafka's log."""
    numbers = {getattr(confluent_kafka.KafkaError, name) for name in dir(confluent_kafka.KafkaError)}
    known = [confluent_kafka.KafkaError(number) for number in sorted(n for n in numbers if isinstance(n, int))]
    return {library_error_of(error).name: error for error in known} | {error.str(): error for error in known}


POLL_S = 0.1
LOOKED_UP_GROUP = "kafka-chaos"  # of its consumers, which never join it
LEAST_SOCKET_TIMEOUT_MS = 1000  # librdkafka does not accept less time for setting up a connection


class ConfluentClient(ThreadedClient):
    """One librdkafka instance for producing and one for consuming, each with its own threads underneath."""

    retries_itself = True
    tells_attempts = TELLS_ATTEMPTS

    def __init__(
        self,
        *,
        bootstrap: str,
        settings: WorkloadSpec,
        use: ClientUse | None = None,
        security: SecuritySpec | None = None,
    ) -> None:
        super().__init__(library="confluent-kafka", bootstrap=bootstrap, settings=settings)
        self._use = use or PLAIN
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

    def _producer_settings(self) -> dict[str, Any]:
        """Additional settings of a subclass."""
        return {}

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
                **self._producer_settings(),
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

    def _consumer_settings(self) -> dict[str, Any]:
        return {"group.id": LOOKED_UP_GROUP}

    def _open_consumer(self) -> Any:
        if self._consumer is None:
            self._consumer = confluent_kafka.Consumer(
                {
                    **self._servers,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    # "error": a position that no longer exists (truncation) is an error, not silently reset; the owner
                    # starts a new client.
                    "auto.offset.reset": "error" if self._use.offset_reset == "none" else self._use.offset_reset,
                    "fetch.wait.max.ms": common.FETCH_WAIT_MS,
                    "max.partition.fetch.bytes": common.FETCH_BYTES,
                    # librdkafka requires a second more than the broker may wait.
                    "socket.timeout.ms": max(self._read_timeout_ms, common.FETCH_WAIT_MS + 1000),
                    "allow.auto.create.topics": False,
                    "isolation.level": self._use.isolation,
                    **self._consumer_settings(),
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


def make_client(
    *,
    bootstrap: str,
    settings: WorkloadSpec,
    use: ClientUse | None = None,
    security: SecuritySpec | None = None,
) -> Client:
    """The ClientMaker of the catalogue."""
    return ConfluentClient(bootstrap=bootstrap, settings=settings, use=use, security=security)
