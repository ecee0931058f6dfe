"""kafka-python as a Client: its blocking calls run in one thread per client, its answers are timed where they arrive.

Known habits (real_kafka.md 5.2): an idempotent producer never recovers from an expired batch, so the owner replaces a
client after an unknown outcome; with retries NOT_ENOUGH_REPLICAS turns into a time-out. `close` is bounded: a thread
that hangs is left behind (they are daemons), never waited for.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from harness.clients.outcomes import of_delivery, of_hand_over
from harness.interfaces import Client, ReadRecord, Send, SendOutcome, TopicPartition
from harness.scenario import WorkloadSpec

MAX_BLOCK_MS = 5000
METADATA_MAX_AGE_MS = 1000
CLOSE_S = 2.0
_GRACE_S = 2.0  # beyond the library's own time-outs, before it is taken to hang

T = TypeVar("T")


class _Thread:
    """Runs one call after the other. Not an executor: those are joined when Python ends, and a call may hang."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    async def call(self, function: Callable[[], T], *, timeout_s: float) -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001  # handed to the caller, whatever it is
                settle = partial(_fail, answer, error)
            else:
                settle = partial(_succeed, answer, result)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle)

        self._calls.put(run)
        async with asyncio.timeout(timeout_s):
            return await answer

    def end(self) -> None:
        self._calls.put(None)


def _succeed(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[T]", error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


class _Answers:
    """Collects the outcomes of one send operation; filled by kafka-python's sender thread."""

    def __init__(self, count: int) -> None:
        self._outcomes: list[SendOutcome | None] = [None] * count
        self._missing = count
        self._lock = threading.Lock()
        self._complete = threading.Event()

    def put(self, place: int, outcome: SendOutcome) -> None:
        with self._lock:
            if self._outcomes[place] is None:
                self._outcomes[place] = outcome
                self._missing -= 1
                if self._missing == 0:
                    self._complete.set()

    def wait(self, timeout_s: float) -> list[SendOutcome | None]:
        self._complete.wait(timeout_s)
        with self._lock:
            return list(self._outcomes)


class KafkaPythonClient:
    """Implements harness.interfaces.Client."""

    def __init__(self, *, bootstrap: str, settings: WorkloadSpec) -> None:
        self._bootstrap = [server.strip() for server in bootstrap.split(",")]
        self._settings = settings
        self._retried = settings.retries != 0
        self._thread = _Thread(f"kafka-python {bootstrap[:40]}")
        self._producer: Any = None
        self._consumer: Any = None
        self._send_s = (MAX_BLOCK_MS + settings.delivery_timeout_ms + settings.linger_ms) / 1000 + _GRACE_S

    # -- producing ----------------------------------------

    def _open_producer(self) -> Any:
        settings = self._settings
        # kafka-python refuses idempotence without acks=all or without retries.
        idempotence = settings.idempotence and settings.acks == "all" and settings.retries != 0
        more: dict[str, Any] = {} if settings.retries is None else {"retries": settings.retries}
        if not idempotence and settings.retries != 0:
            # A retried batch would be overtaken by the one behind it: the client's doing, not the cluster's.
            more["max_in_flight_requests_per_connection"] = 1
        return KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks=settings.acks if settings.acks == "all" else int(settings.acks),
            enable_idempotence=idempotence,
            linger_ms=settings.linger_ms,
            request_timeout_ms=settings.request_timeout_ms,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            max_block_ms=MAX_BLOCK_MS,
            bootstrap_timeout_ms=MAX_BLOCK_MS,
            allow_auto_create_topics=False,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
            metrics_enabled=False,
            **more,
        )

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        answers = _Answers(len(records))
        try:
            await self._thread.call(partial(self._send, records, answers), timeout_s=self._send_s + MAX_BLOCK_MS / 1000)
        except TimeoutError:
            pass_by = "the client library hangs"
        else:
            pass_by = "no answer from the client library"
        now = time.monotonic_ns()
        unknown = SendOutcome(status="info", offset=None, error=pass_by, t1_ns=now)
        return [outcome if outcome is not None else unknown for outcome in answers.wait(0)]

    def _send(self, records: Sequence[Send], answers: _Answers) -> None:
        refused: BaseException | None = None
        first_refused = -1
        for place, record in enumerate(records):
            t0 = time.monotonic_ns()
            if refused is None:
                try:
                    if self._producer is None:
                        self._producer = self._open_producer()
                    future = self._producer.send(record.topic, value=record.value, partition=record.partition)
                except Exception as error:  # noqa: BLE001  # classed by the table, whatever it is
                    refused, first_refused = error, place
                else:
                    future.add_callback(partial(self._delivered, answers, place, t0))
                    future.add_errback(partial(self._not_delivered, answers, place, t0))
                    continue
            # After one refusal the rest is not tried (each would block for max_block_ms again), hence never sent.
            status = of_hand_over(refused) if first_refused == place else "fail"
            now = time.monotonic_ns()
            answers.put(
                place,
                SendOutcome(status=status, offset=None, error=_name(refused), code=_code(refused), t0_ns=t0, t1_ns=now),
            )
        answers.wait(self._send_s)

    def _delivered(self, answers: _Answers, place: int, t0: int, metadata: Any) -> None:
        now = time.monotonic_ns()
        if self._settings.acks == "0":
            outcome = SendOutcome(status="info", offset=None, error=None, t0_ns=t0, t1_ns=now)
        elif metadata.offset < 0:
            # DUPLICATE_SEQUENCE_NUMBER counts as delivered but comes without an offset: it cannot be accounted for.
            outcome = SendOutcome(status="info", offset=None, error="acknowledged without offset", t0_ns=t0, t1_ns=now)
        else:
            outcome = SendOutcome(status="ok", offset=metadata.offset, error=None, code=0, t0_ns=t0, t1_ns=now)
        answers.put(place, outcome)

    def _not_delivered(self, answers: _Answers, place: int, t0: int, error: BaseException) -> None:
        now = time.monotonic_ns()
        status = of_delivery(error, retried=self._retried)
        answers.put(
            place,
            SendOutcome(status=status, offset=None, error=_name(error), code=_code(error), t0_ns=t0, t1_ns=now),
        )

    # -- consuming ----------------------------------------

    def _open_consumer(self) -> Any:
        if self._consumer is None:
            self._consumer = KafkaConsumer(
                bootstrap_servers=self._bootstrap,
                group_id=None,
                enable_auto_commit=False,
                # A position that is gone (truncation) is told, not silently replaced: the owner starts a new client.
                auto_offset_reset="none",
                fetch_max_wait_ms=250,
                max_partition_fetch_bytes=4 << 20,
                request_timeout_ms=max(self._settings.request_timeout_ms, 1000),
                bootstrap_timeout_ms=MAX_BLOCK_MS,
                allow_auto_create_topics=False,
                metadata_max_age_ms=METADATA_MAX_AGE_MS,
                reconnect_backoff_ms=50,
                reconnect_backoff_max_ms=500,
                metrics_enabled=False,
            )
        return self._consumer

    def _read_s(self, timeout_s: float) -> float:
        return timeout_s + (MAX_BLOCK_MS + max(self._settings.request_timeout_ms, 1000)) / 1000 + _GRACE_S

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        wanted = [KafkaTopicPartition(partition.topic, partition.partition) for partition in partitions]

        def assign() -> None:
            consumer = self._open_consumer()
            consumer.assign(wanted)
            if from_beginning:
                consumer.seek_to_beginning(*wanted)
            else:
                consumer.seek_to_end(*wanted)

        await self._thread.call(assign, timeout_s=self._read_s(0))

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        def poll() -> list[ReadRecord]:
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

        return await self._thread.call(poll, timeout_s=self._read_s(timeout_s))

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        wanted = {KafkaTopicPartition(partition.topic, partition.partition): partition for partition in partitions}
        timeout_ms = max(self._settings.request_timeout_ms, 1000)

        def ask() -> dict[TopicPartition, int]:
            answer = self._open_consumer().end_offsets(list(wanted), timeout_ms=timeout_ms)
            return {wanted[partition]: offset for partition, offset in answer.items()}

        return await self._thread.call(ask, timeout_s=self._read_s(0))

    async def close(self) -> None:
        try:
            await self._thread.call(self._close, timeout_s=CLOSE_S)
        except Exception:  # noqa: BLE001  # a client that cannot be closed in time is left to its daemon threads
            self._abandon()
        self._thread.end()

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


def _code(error: BaseException | None) -> int | None:
    """Kafka's error number when a broker answered with one; the library's own errors have none, or the system's."""
    code = None if isinstance(error, OSError) else getattr(error, "errno", None)
    return code if isinstance(code, int) else None


def _name(error: BaseException) -> str:
    code = _code(error)
    name = type(error).__name__
    return name if code is None else f"{name} {code}"


def make_client(*, bootstrap: str, settings: WorkloadSpec) -> Client:
    """The ClientMaker of the catalogue."""
    return KafkaPythonClient(bootstrap=bootstrap, settings=settings)
