"""aiokafka as a Client, on its owner's event loop.

Known behaviour: aiokafka gives up a batch after the request timeout, an idempotent producer never does; so this adapter
enforces the delivery timeout by calling the outcome unknown. It always retries. It raises some of Kafka's errors
itself, returns invented offsets for a batch that the broker had already, and gives all records of a batch the timestamp
of the first.

Its failed attempts and connections are recorded by hooks into its connections: each produce request passes them. It
only retries a batch because of Kafka's answer or a missing answer, so the hooks see every failed attempt.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import aiokafka
from aiokafka import errors
from aiokafka.conn import CloseReason

from harness.clients import answers as common
from harness.clients.answers import Answers, may_be_idempotent
from harness.clients.client_log import ClientLog
from harness.clients.kept_order import keep_order
from harness.clients.outcomes import LibraryError, library_error_of
from harness.clients.secured import aiokafka_settings
from harness.host.clock import Clock, SystemClock
from harness.ports.clients import PLAIN, ClientEvent, ClientUse, Kind
from harness.ports.cluster import Client, ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.security import SecuritySpec

_CODES_END = 200  # the newest release has 133
_PRODUCE = 0  # its API key
_LOST: dict[CloseReason, Kind] = {
    CloseReason.CONNECTION_BROKEN: "disconnect",
    CloseReason.OUT_OF_SYNC: "disconnect",
    CloseReason.CONNECTION_TIMEOUT: "timeout",
}  # the others are aiokafka's own closes


def watch(client: Any, log: ClientLog, library_error_of: Callable[[BaseException], LibraryError]) -> None:
    """`client`: the AIOKafkaClient of a producer or consumer, before it has connected to a broker by its id."""
    _watch_requests(client, log, library_error_of)
    _watch_connections(client, log)

    def metadata_changed(cluster: Any) -> None:
        log.leaders(
            (topic, number, part.leader, None)  # it does not request leader epochs
            for topic, parts in cluster._partitions.items()
            for number, part in parts.items()
        )

    client.cluster.add_listener(metadata_changed)


def _watch_requests(client: Any, log: ClientLog, library_error_of: Callable[[BaseException], LibraryError]) -> None:
    send = client.send

    async def watched(node: int, request: Any, **more: Any) -> Any:
        if getattr(request, "API_KEY", None) != _PRODUCE:
            return await send(node, request, **more)
        try:
            answer = await send(node, request, **more)
        except errors.KafkaError as error:
            for topic, partitions in _topics(request):
                for partition, _ in partitions:
                    log.failed(topic, partition, error, node=node, library_error=library_error_of(error))
            raise
        if request.required_acks != 0:
            for topic, partitions in answer.topics:
                for partition, code, *_ in partitions:
                    kind = errors.for_code(code)
                    if kind not in (errors.NoError, errors.DuplicateSequenceNumber):
                        log.failed(topic, partition, kind(), node=node)
        return answer

    client.send = watched


def _topics(request: Any) -> Any:
    """Before aiokafka 0.13 a request is the structure that is sent, not an object that builds it."""
    return request._topics if hasattr(request, "_topics") else request.topics


def _watch_connections(client: Any, log: ClientLog) -> None:
    connect, closed = client._get_conn, client._on_connection_closed

    async def connected(node: int | str, **more: Any) -> Any:
        known = set(client._conns.values())
        connection = await connect(node, **more)
        if not isinstance(node, int):  # "bootstrap", when it knows no broker that answers
            return connection
        if connection is None:
            log.connection("disconnect", node)
        elif connection not in known:
            log.connection("connect", node)
        return connection

    def lost(connection: Any, reason: CloseReason) -> None:
        node = next((node for (node, _), known in client._conns.items() if known is connection), None)
        if isinstance(node, int) and reason in _LOST:
            log.connection(_LOST[reason], node)
        closed(connection, reason)

    client._get_conn, client._on_connection_closed = connected, lost


LOG_APPEND_TIME = 1  # ConsumerRecord.timestamp_type
# aiokafka also raises these itself: for an unknown leader, and for an answer that did not come in time.
_RAISED_WITHOUT_A_BROKER = frozenset({5, 6, 7})


class AioClient:
    """Implements harness.ports.cluster.Client, ReportsEvents, KnowsPositions and StartsAnywhere.

    `use`: but for groups and transactions (aio_member.py). `repeats`: on a loop that gives the same run again, where
    nothing may hang on addresses or on what ran before in this process.
    """

    tells_attempts = True

    def __init__(
        self,
        *,
        bootstrap: str,
        settings: WorkloadSpec,
        security: SecuritySpec | None = None,
        use: ClientUse | None = None,
        clock: Clock | None = None,
        repeats: bool = False,
    ) -> None:
        self._servers: dict[str, Any] = {"bootstrap_servers": bootstrap, **aiokafka_settings(security)}
        if repeats:
            self._servers["client_id"] = "kafka-chaos"
        self._settings = settings
        self._use = use or PLAIN
        self._clock = clock or SystemClock()
        self._repeats = repeats
        self._read_timeout_ms = max(settings.request_timeout_ms, 1000)
        self._producer: Any = None
        self._consumer: Any = None
        self._log = ClientLog(self._clock)

    # -- producing ----------------------------------------

    def _producer_settings(self) -> dict[str, Any]:
        """Additional settings of a subclass."""
        return {}

    def _consumer_settings(self) -> dict[str, Any]:
        """Of the group, if there is one."""
        return {"group_id": None}

    async def _open_producer(self) -> Any:
        settings = self._settings
        idempotence = may_be_idempotent(settings)
        producer = aiokafka.AIOKafkaProducer(
            **self._servers,
            acks=settings.acks if settings.acks == "all" else int(settings.acks),
            enable_idempotence=idempotence,
            linger_ms=settings.linger_ms,
            request_timeout_ms=settings.request_timeout_ms,
            metadata_max_age_ms=common.METADATA_MAX_AGE_MS,
            **self._producer_settings(),
        )
        if self._repeats:
            keep_order(producer.client, producer._message_accumulator)
        watch(producer.client, self._log, _library_error_of)
        try:
            async with asyncio.timeout(common.MAX_BLOCK_MS / 1000):
                await producer.start()
        except BaseException as error:
            await _end_producer(producer)
            if isinstance(error, TimeoutError):  # an idempotent one requests its producer id for ever
                raise errors.KafkaTimeoutError("the producer did not start") from error
            raise
        return producer

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        settings = self._settings
        answers = Answers(records, acks=settings.acks, retried=True, clock=self._clock)
        answered: list[asyncio.Future[Any]] = []
        hand_over_s = common.MAX_BLOCK_MS / 1000 + common.GRACE_S
        for place, record in enumerate(records):
            answers.begin(place)
            created_ms = self._clock.wall_ns() // 1_000_000
            try:
                if self._producer is None:
                    self._producer = await self._open_producer()
                # A hanging send is unknown, like every TimeoutError: the record may have been accepted at that moment.
                key = {} if record.key is None else {"key": record.key}
                async with asyncio.timeout(hand_over_s):
                    future = await self._producer.send(
                        record.topic, value=record.value, partition=record.partition, timestamp_ms=created_ms, **key
                    )
            except Exception as error:  # noqa: BLE001  # classed by the table, whatever it is
                answers.refused(place, error)
                break
            answers.returned(place)
            future.add_done_callback(partial(_answered, answers, place, created_ms))
            answered.append(future)
        if answered:
            await asyncio.wait(answered, timeout=(settings.delivery_timeout_ms + settings.linger_ms) / 1000)
            await asyncio.sleep(0)  # the callbacks of the last answers
        return answers.outcomes(missing=f"no answer within {settings.delivery_timeout_ms} ms")

    # -- consuming ----------------------------------------

    async def _open_consumer(self) -> Any:
        if self._consumer is None:
            consumer = aiokafka.AIOKafkaConsumer(
                **self._servers,
                enable_auto_commit=False,
                isolation_level=self._use.isolation,
                # A position that no longer exists (truncation) is an error, not silently reset: the owner starts a new
                # client.
                auto_offset_reset=self._use.offset_reset,
                fetch_max_wait_ms=common.FETCH_WAIT_MS,
                max_partition_fetch_bytes=common.FETCH_BYTES,
                request_timeout_ms=self._read_timeout_ms,
                metadata_max_age_ms=common.METADATA_MAX_AGE_MS,
                **self._consumer_settings(),
            )
            if self._repeats:
                keep_order(consumer._client)
            watch(consumer._client, self._log, _library_error_of)
            try:
                async with asyncio.timeout(common.MAX_BLOCK_MS / 1000):
                    await consumer.start()
            except BaseException:
                await _end_consumer(consumer)
                raise
            self._consumer = consumer
        return self._consumer

    def _read_s(self, timeout_s: float) -> float:
        return timeout_s + self._read_timeout_ms / 1000 + common.GRACE_S

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        wanted = theirs(partitions)
        consumer = await self._open_consumer()
        async with asyncio.timeout(self._read_s(0)):
            consumer.assign(list(wanted))
            seek = consumer.seek_to_beginning if from_beginning else consumer.seek_to_end
            if not await seek(*wanted):
                raise errors.KafkaTimeoutError("the positions were not found in time")

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        consumer = await self._open_consumer()
        async with asyncio.timeout(self._read_s(timeout_s)):
            answer = await consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=limit)
        return [
            # aiokafka does not report the leader epoch of records.
            ReadRecord(
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                epoch=None,
                value=record.value or b"",
                key=record.key,
                timestamp_ms=record.timestamp,
                log_append=record.timestamp_type == LOG_APPEND_TIME,
            )
            for records in answer.values()
            for record in records
        ]

    async def assign_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        wanted = theirs(list(offsets))
        consumer = await self._open_consumer()
        consumer.assign(list(wanted))
        for partition, ours in wanted.items():
            consumer.seek(partition, offsets[ours])

    def out_of_range(self, error: BaseException) -> frozenset[TopicPartition]:
        """Without a reset the library raises the error with the partitions and their offsets."""
        if not isinstance(error, errors.OffsetOutOfRangeError) or not error.args:
            return frozenset()
        found = error.args[0]
        return frozenset(TopicPartition(topic=each.topic, partition=each.partition) for each in found)

    async def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        wanted = theirs(partitions)
        consumer = await self._open_consumer()
        async with asyncio.timeout(self._read_s(0)):
            answer = await consumer.beginning_offsets(list(wanted))
        return {wanted[partition]: offset for partition, offset in answer.items()}

    async def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        consumer = await self._open_consumer()
        async with asyncio.timeout(self._read_s(0)):
            return {ours: await consumer.position(partition) for partition, ours in theirs(partitions).items()}

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        wanted = theirs(partitions)
        consumer = await self._open_consumer()
        async with asyncio.timeout(self._read_s(0)):
            answer = await consumer.end_offsets(list(wanted))
        return {wanted[partition]: offset for partition, offset in answer.items()}

    def take_events(self) -> Sequence[ClientEvent]:
        return self._log.take()

    async def close(self) -> None:
        self._log.close()
        consumer, self._consumer = self._consumer, None
        producer, self._producer = self._producer, None
        if consumer is not None:
            await _end_consumer(consumer)
        if producer is not None:
            await _end_producer(producer)


def theirs(partitions: Sequence[TopicPartition]) -> dict[Any, TopicPartition]:
    return {aiokafka.TopicPartition(each.topic, each.partition): each for each in partitions}


def _answered(answers: Answers, place: int, created_ms: int, future: "asyncio.Future[Any]") -> None:
    error = None if future.cancelled() else future.exception()
    if future.cancelled():
        answers.failed(place, errors.Cancelled())
    elif error is not None:
        answers.failed(place, error, _library_error_of(error))
    else:
        metadata = future.result()
        # For a duplicate batch the broker answers a timestamp as if it had stamped it: only the client's own is
        # certain.
        known = metadata is not None and metadata.timestamp_type != LOG_APPEND_TIME and (metadata.timestamp or -1) >= 0
        answers.delivered(place, _offset(metadata), timestamp_ms=created_ms if known else None)


def _offset(metadata: Any) -> int | None:
    """None for acks=0, and for a duplicate batch: aiokafka counts its offsets up from -1.

    An answer with an error has no log start offset; neither has an answer to an old request version.
    """
    if metadata is None or metadata.offset < 0 or metadata.log_start_offset == -1:
        return None
    return int(metadata.offset)


def _keep_all_numbers() -> None:
    """aiokafka takes every error that it does not know for UNKNOWN_SERVER_ERROR, and the number is gone. It treats a
    subclass of that one alike."""
    for code in set(range(1, _CODES_END)) - errors.kafka_errors.keys():
        errors.kafka_errors[code] = type(f"Error{code}", (errors.UnknownError,), {"errno": code})


_keep_all_numbers()


def _library_error_of(error: BaseException) -> LibraryError:
    found = library_error_of(error)
    return LibraryError(name=found.name, code=None) if found.code in _RAISED_WITHOUT_A_BROKER else found


async def _end_producer(producer: Any) -> None:
    """Closes the producer without sending what is left: its outcome is unknown already, and a flush may never end."""
    task = producer._sender.sender_task
    if task is not None:
        task.cancel()
    # Close the connections first: a request in flight would delay the sender for its whole timeout.
    await _bounded(producer.client.close())
    await _bounded(producer.stop())


async def _end_consumer(consumer: Any) -> None:
    await _bounded(consumer.stop())


async def _bounded(ending: Coroutine[Any, Any, Any]) -> None:
    """Runs it in a task of its own: closing may be cancelled from inside, and its exceptions change no outcome."""
    task = asyncio.create_task(ending)
    await asyncio.wait({task}, timeout=common.CLOSE_S / 2)
    task.cancel()
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


def limits(settings: WorkloadSpec) -> list[str]:
    """How this library deviates from the workload's settings."""
    limitations = [
        f"a consumer reports no leader epochs; delivery_timeout_ms = {settings.delivery_timeout_ms} is the harness's"
    ]
    if settings.retries is not None:
        limitations.append(f"retries = {settings.retries} cannot be set: it retries until it gives a batch up")
    if not may_be_idempotent(settings):
        limitations.append(f"a batch is given up after request_timeout_ms = {settings.request_timeout_ms} already")
    return limitations


def make_client(
    *,
    bootstrap: str,
    settings: WorkloadSpec,
    use: ClientUse | None = None,
    security: SecuritySpec | None = None,
) -> Client:
    """The ClientMaker of the catalogue."""
    return AioClient(bootstrap=bootstrap, settings=settings, use=use, security=security)
