"""AIOKafkaProducer and AIOKafkaConsumer of aiokafka."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka_chaos_pytest.clients.kafka_python import delivered, stamp_of
from kafka_chaos_pytest.clients.wrapped import Partitioning, Reading, Transactions, Wrapped, as_bytes
from kafka_chaos_pytest.errors import ChaosError
from kafka_chaos_pytest.journal import Delivered, Journal


def _as_sent(maker: Any, key: Any, value: Any) -> tuple[bytes | None, bytes]:
    """What the serializers of a producer or of its batches make of them; they have no public names."""
    made = []
    for which, given in (("key", key), ("value", value)):
        serializer = getattr(maker, f"_{which}_serializer", None)
        made.append(given if serializer is None else serializer(given))
    return None if made[0] is None else as_bytes(made[0]), as_bytes(made[1])


class RecordedBatch:
    """aiokafka's builder of a batch, and what was appended to it: keys and values."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.appended: list[tuple[bytes | None, bytes]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.builder, name)

    def append(self, *, timestamp: Any, key: Any, value: Any, **more: Any) -> Any:
        sent = _as_sent(self.builder, key, value)
        metadata = self.builder.append(timestamp=timestamp, key=key, value=value, **more)
        if metadata is not None:  # None: it is full
            self.appended.append(sent)
        return metadata


class RecordedAioProducer(Wrapped):
    """What its serializers make of keys and values is recorded."""

    def __init__(self, client: Any, journal: Journal) -> None:
        super().__init__(client, journal)
        self._partitioning = Partitioning()
        self._transactions = Transactions(journal)

    @staticmethod
    def own_acks(client: Any) -> str | int | None:
        return getattr(getattr(client, "_sender", None), "_acks", None)  # it has no public name

    @staticmethod
    def own_idempotence(client: Any) -> bool | None:
        return client._txn_manager is not None if hasattr(client, "_txn_manager") else None

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> "asyncio.Future[Any]":
        key_sent, sent = _as_sent(self._client, key, value)
        if partition is None:
            partition = self._partitioning.choose(await self._client.partitions_for(topic), key_sent)
        operation = self._journal.send(topic, partition, sent, key_sent, transaction=self._transactions.open)
        try:
            future: asyncio.Future[Any] = await self._client.send(
                topic, value=value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        except Exception as error:
            self._journal.sent(operation, status="info", error=type(error).__name__)
            raise
        self._journal.handed_over(operation)
        future.add_done_callback(partial(self._done, [operation]))
        return future

    def _done(self, operations: Sequence[int], done: "asyncio.Future[Any]") -> None:
        """operations: of one batch, whose first offset is told; of a single record, its own."""
        error = "cancelled" if done.cancelled() else done.exception()
        metadata = None if error is not None else done.result()  # None with acks=0
        for place, operation in enumerate(operations):
            if error is not None:
                name = error if isinstance(error, str) else type(error).__name__
                self._journal.sent(operation, status="info", error=name)
            elif metadata is None or metadata.offset < 0:
                self._journal.sent(operation, status="info")
            else:
                stamp, offset = stamp_of(metadata), metadata.offset + place
                self._journal.sent(operation, status="ok", offset=offset, timestamp_ms=stamp)

    def create_batch(self) -> "RecordedBatch":
        return RecordedBatch(self._client.create_batch())

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> "asyncio.Future[Any]":
        """Raises ChaosError for a batch that another producer made: nobody can tell what is in it."""
        if not isinstance(batch, RecordedBatch):
            raise ChaosError("bad-request", "this batch is not recorded", "make it by create_batch of this producer")
        opened, send = self._transactions.open, self._journal.send
        operations = [send(topic, partition, value, key, transaction=opened) for key, value in batch.appended]
        try:
            future: asyncio.Future[Any] = await self._client.send_batch(batch.builder, topic, partition=partition)
        except Exception as error:
            for operation in operations:
                self._journal.sent(operation, status="info", error=type(error).__name__)
            raise
        for operation in operations:
            self._journal.handed_over(operation)
        future.add_done_callback(partial(self._done, operations))
        return future

    async def send_and_wait(self, topic: str, *arguments: Any, **named: Any) -> Any:
        return await (await self.send(topic, *arguments, **named))

    async def begin_transaction(self) -> None:
        await self._client.begin_transaction()
        self._transactions.begun()

    async def commit_transaction(self) -> None:
        try:
            await self._client.commit_transaction()
        except BaseException:
            self._transactions.commit_failed()
            raise
        self._transactions.committed()

    async def abort_transaction(self) -> None:
        await self._client.abort_transaction()
        self._transactions.aborted()

    def transaction(self) -> Any:
        """aiokafka's own context, which begins and ends transactions by this producer."""
        context = self._client.transaction()
        return type(context)(self)


class RecordedAioConsumer(Wrapped):
    def __init__(self, client: Any, journal: Journal) -> None:
        super().__init__(client, journal)
        self._reading = Reading(journal)

    @staticmethod
    def own_isolation(client: Any) -> str | None:
        return getattr(client, "_isolation_level", None)  # it has no public name

    @staticmethod
    def own_group(client: Any) -> str | None:
        return (client._group_id or "") if hasattr(client, "_group_id") else None  # likewise

    async def getone(self, *partitions: Any) -> Any:
        operation = self._journal.poll()
        try:
            record = await self._client.getone(*partitions)
        except Exception as error:
            self._reading.polled(operation, (), None, error=type(error).__name__)
            raise
        self._answered(operation, [delivered(record)])
        return record

    async def getmany(self, *partitions: Any, **named: Any) -> Any:
        operation = self._journal.poll()
        try:
            answer = await self._client.getmany(*partitions, **named)
        except Exception as error:
            self._reading.polled(operation, (), None, error=type(error).__name__)
            raise
        self._answered(operation, [delivered(record) for records in answer.values() for record in records])
        return answer

    def _answered(self, operation: int, records: list[Delivered]) -> None:
        subscription = getattr(getattr(self._client, "_subscription", None), "subscription", None)  # not public
        own = getattr(subscription, "assignment", None)
        self._reading.polled(operation, records, self._client.assignment(), states=lambda _: own)

    def __aiter__(self) -> "RecordedAioConsumer":
        return self

    async def __anext__(self) -> Any:
        """aiokafka's own, which ends when the consumer is stopped, and reads by this one."""
        return await type(self._client).__anext__(self)

    def seek(self, partition: Any, *arguments: Any, **named: Any) -> Any:
        self._reading.sought(partition)
        return self._client.seek(partition, *arguments, **named)

    async def seek_to_committed(self, *partitions: Any) -> Any:
        self._reading.sought(*(partitions or self._client.assignment()))
        return await self._client.seek_to_committed(*partitions)

    async def seek_to_beginning(self, *partitions: Any) -> Any:
        self._reading.sought()
        return await self._client.seek_to_beginning(*partitions)

    async def seek_to_end(self, *partitions: Any) -> Any:
        self._reading.sought(*(partitions or self._client.assignment()))
        return await self._client.seek_to_end(*partitions)
