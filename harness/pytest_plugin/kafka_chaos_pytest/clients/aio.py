"""AIOKafkaProducer and AIOKafkaConsumer of aiokafka."""

import asyncio
from typing import Any

from kafka_chaos_pytest.clients.kafka_python import delivered, stamp_of
from kafka_chaos_pytest.clients.wrapped import Partitioning, Reading, Transactions, Wrapped, as_bytes
from kafka_chaos_pytest.journal import Journal


class RecordedAioProducer(Wrapped):
    """Of a producer without serializers: the application converts its values itself."""

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
        key_sent = None if key is None else as_bytes(key)
        if partition is None:
            partition = self._partitioning.choose(await self._client.partitions_for(topic), key_sent)
        operation = self._journal.send(topic, partition, as_bytes(value), key_sent, transaction=self._transactions.open)
        try:
            future: asyncio.Future[Any] = await self._client.send(
                topic, value=value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        except Exception as error:
            self._journal.sent(operation, status="info", error=type(error).__name__)
            raise
        self._journal.handed_over(operation)

        def answered(done: "asyncio.Future[Any]") -> None:
            if done.cancelled():
                self._journal.sent(operation, status="info", error="cancelled")
            elif (error := done.exception()) is not None:
                self._journal.sent(operation, status="info", error=type(error).__name__)
            else:
                metadata = done.result()  # None with acks=0
                offset = None if metadata is None or metadata.offset < 0 else metadata.offset
                status = "info" if offset is None else "ok"
                self._journal.sent(operation, status=status, offset=offset, timestamp_ms=stamp_of(metadata))

        future.add_done_callback(answered)
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

    async def __aenter__(self) -> "RecordedAioProducer":
        await self._client.start()
        return self

    async def __aexit__(self, *ending: object) -> None:
        await self._client.stop()


class RecordedAioConsumer(Wrapped):
    def __init__(self, client: Any, journal: Journal) -> None:
        super().__init__(client, journal)
        self._reading = Reading(journal)

    @staticmethod
    def own_isolation(client: Any) -> str | None:
        return getattr(client, "_isolation_level", None)  # it has no public name

    async def getone(self, *partitions: Any) -> Any:
        operation = self._journal.poll()
        try:
            record = await self._client.getone(*partitions)
        except Exception as error:
            self._reading.polled(operation, (), (), error=type(error).__name__)
            raise
        self._reading.polled(operation, [delivered(record)], self._client.assignment())
        return record

    async def getmany(self, *partitions: Any, **named: Any) -> Any:
        operation = self._journal.poll()
        try:
            answer = await self._client.getmany(*partitions, **named)
        except Exception as error:
            self._reading.polled(operation, (), (), error=type(error).__name__)
            raise
        records = [delivered(record) for records in answer.values() for record in records]
        self._reading.polled(operation, records, self._client.assignment())
        return answer

    def __aiter__(self) -> "RecordedAioConsumer":
        return self

    async def __anext__(self) -> Any:
        return await self.getone()

    def seek(self, *arguments: Any, **named: Any) -> Any:
        self._reading.sought()
        return self._client.seek(*arguments, **named)

    async def seek_to_beginning(self, *partitions: Any) -> Any:
        self._reading.sought()
        return await self._client.seek_to_beginning(*partitions)

    async def seek_to_end(self, *partitions: Any) -> Any:
        self._reading.sought()
        return await self._client.seek_to_end(*partitions)
