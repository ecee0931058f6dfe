"""KafkaProducer and KafkaConsumer of kafka-python."""

from collections.abc import Iterator
from typing import Any

from kafka_chaos_pytest.clients.wrapped import Reading, RecordedProducer, Wrapped, as_bytes
from kafka_chaos_pytest.journal import Delivered, Journal


class RecordedKafkaProducer(RecordedProducer):
    @staticmethod
    def own_acks(client: Any) -> str | int | None:
        return client.config.get("acks")  # type: ignore[no-any-return]

    @staticmethod
    def own_idempotence(client: Any) -> bool | None:
        return client.config.get("enable_idempotence")  # type: ignore[no-any-return]

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        sent = as_bytes(self._serialized("value_serializer", topic, value))
        key_sent = None if key is None else as_bytes(self._serialized("key_serializer", topic, key))
        if partition is None:
            partition = self._partitioning.choose(self._client.partitions_for(topic), key_sent)
        operation = self._journal.send(topic, partition, sent, key_sent, transaction=self._transactions.open)
        try:
            future = self._client.send(
                topic, value=value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )
        except Exception as error:
            self._journal.sent(operation, status="info", error=type(error).__name__)
            raise
        self._journal.handed_over(operation)
        future.add_callback(self._delivered, operation)
        future.add_errback(self._failed, operation)
        return future

    def _serialized(self, which: str, topic: str, data: Any) -> Any:
        serializer = self._client.config.get(which)
        if serializer is None or data is None:
            return data
        try:
            return serializer.serialize(topic, None, data)  # since kafka-python 3
        except TypeError:
            return serializer.serialize(topic, data)
        except AttributeError:
            return serializer(data)

    def _delivered(self, operation: int, metadata: Any) -> None:
        known = metadata.offset is not None and metadata.offset >= 0  # with acks=0 there is none
        self._journal.sent(
            operation,
            status="ok" if known else "info",
            offset=metadata.offset if known else None,
            timestamp_ms=stamp_of(metadata),
        )

    def _failed(self, operation: int, error: BaseException) -> None:
        self._journal.sent(operation, status="info", error=type(error).__name__)


class RecordedKafkaConsumer(Wrapped):
    def __init__(self, client: Any, journal: Journal) -> None:
        super().__init__(client, journal)
        self._reading = Reading(journal)

    @staticmethod
    def own_isolation(client: Any) -> str | None:
        return client.config.get("isolation_level")  # type: ignore[no-any-return]

    @staticmethod
    def own_group(client: Any) -> str | None:
        return client.config.get("group_id", "") or ""

    def poll(self, *arguments: Any, **named: Any) -> Any:
        operation = self._journal.poll()
        try:
            answer = self._client.poll(*arguments, **named)
        except Exception as error:
            self._reading.polled(operation, (), None, error=type(error).__name__)
            raise
        self._answered(operation, [delivered(record) for records in answer.values() for record in records])
        if not named.get("update_offsets", arguments[2] if len(arguments) > 2 else True):
            self._reading.sought()  # it stays where it was, and gets these again
        return answer

    def _answered(self, operation: int, records: list[Delivered]) -> None:
        own = getattr(getattr(self._client, "_subscription", None), "assignment", {})  # it has no public name
        self._reading.polled(operation, records, self._client.assignment(), states=own.get)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        operation = self._journal.poll()
        try:
            record = next(self._client)
        except StopIteration:
            self._answered(operation, [])
            raise
        except Exception as error:
            self._reading.polled(operation, (), None, error=type(error).__name__)
            raise
        self._answered(operation, [delivered(record)])
        return record

    def seek(self, partition: Any, *arguments: Any, **named: Any) -> Any:
        self._reading.sought(partition)
        return self._client.seek(partition, *arguments, **named)

    def seek_to_beginning(self, *partitions: Any) -> Any:
        self._reading.sought()
        return self._client.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: Any) -> Any:
        self._reading.sought(*(partitions or self._client.assignment()))
        return self._client.seek_to_end(*partitions)


def stamp_of(metadata: Any) -> int | None:
    """Of kafka-python and of aiokafka; -1 where the broker answered none."""
    stamp = getattr(metadata, "timestamp", None)
    return stamp if isinstance(stamp, int) and stamp >= 0 else None


def delivered(record: Any) -> Delivered:
    """Of kafka-python and of aiokafka, whose records have the same fields."""
    return Delivered(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        value=as_bytes(record.value),
        key=None if record.key is None else as_bytes(record.key),
        timestamp_ms=record.timestamp,
    )
