"""Producer and Consumer of confluent-kafka. A delivery is known when the application polls or flushes, as ever."""

from collections.abc import Iterable
from typing import Any

from kafka_chaos_pytest.clients.wrapped import Reading, RecordedProducer, Wrapped, as_bytes
from kafka_chaos_pytest.errors import ChaosError
from kafka_chaos_pytest.journal import Delivered, Journal

METADATA_S = 10.0
_ANY = -1  # PARTITION_UA
_NO_TIMESTAMP = 0
_NOWHERE_YET = (-2, -1000, -1001)  # OFFSET_BEGINNING, OFFSET_STORED, OFFSET_INVALID: what it is not moved by


def _refuse_conversions(client: Any, kind: str) -> None:
    """Raises ChaosError for a SerializingProducer and a DeserializingConsumer: what is in the log is not what the
    application gives and gets."""
    if any(getattr(client, f"_{which}_{kind}", None) is not None for which in ("key", "value")):
        raise ChaosError("bad-request", f"a client with a {kind} cannot be recorded", f"call the {kind} yourself")


class RecordedConfluentProducer(RecordedProducer):
    def __init__(self, client: Any, journal: Journal) -> None:
        _refuse_conversions(client, "serializer")
        super().__init__(client, journal)
        self._partitions: dict[str, list[int]] = {}

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = _ANY,
        on_delivery: Any = None,
        timestamp: int = _NO_TIMESTAMP,
        headers: Any = None,
        *,
        callback: Any = None,
    ) -> None:
        operation, partition = self._begun(topic, value, key, partition)
        delivered = self._delivery(operation, on_delivery or callback)
        more = {} if headers is None else {"headers": headers}
        try:
            self._client.produce(
                topic, value=value, key=key, partition=partition, on_delivery=delivered, timestamp=timestamp, **more
            )
        except Exception as error:
            self._journal.sent(operation, status="info", error=type(error).__name__)
            raise
        self._journal.handed_over(operation)

    def produce_batch(
        self, topic: str, messages: list[dict[str, Any]], partition: int = _ANY, on_delivery: Any = None
    ) -> int:
        """One call for each partition: the library goes by the call's alone (2.16), and does not tell what it chose.

        A message that it refused has no delivery, and nobody knows of it; nor of any if the call fails.
        """
        sent: dict[int, list[tuple[int, dict[str, Any], dict[str, Any]]]] = {}
        for message in messages:
            own = message.get("partition", partition)
            operation, chosen = self._begun(topic, message.get("value"), message.get("key"), own)
            delivered = self._delivery(operation, message.get("callback", on_delivery))
            sent.setdefault(chosen, []).append((operation, message, {**message, "callback": delivered}))
        count = 0
        for chosen, each in sent.items():
            count += self._client.produce_batch(topic, [given for _, _, given in each], partition=chosen)
            for operation, message, given in each:
                self._journal.handed_over(operation)
                if "_error" in given:
                    message["_error"] = given["_error"]
        return count

    def _begun(self, topic: str, value: Any, key: Any, partition: int) -> tuple[int, int]:
        """The operation, and the partition."""
        key_sent = None if key is None else as_bytes(key)
        if partition == _ANY:
            partition = self._partitioning.choose(self._of(topic), key_sent)
        transaction = self._transactions.open
        return self._journal.send(topic, partition, as_bytes(value), key_sent, transaction=transaction), partition

    def _delivery(self, operation: int, theirs: Any) -> Any:
        def delivered(error: Any, message: Any) -> None:
            if error is None and message.offset() is not None and message.offset() >= 0:
                self._journal.sent(operation, status="ok", offset=message.offset(), timestamp_ms=_stamp(message))
            else:
                self._journal.sent(operation, status="info", error=None if error is None else str(error.name()))
            if theirs is not None:
                theirs(error, message)

        return delivered

    def _of(self, topic: str) -> list[int]:
        if not self._partitions.get(topic):
            metadata = self._client.list_topics(topic, METADATA_S).topics[topic]
            self._partitions[topic] = list(metadata.partitions)
        return self._partitions[topic]

    def __len__(self) -> int:
        return len(self._client)


class RecordedConfluentConsumer(Wrapped):
    def __init__(self, client: Any, journal: Journal) -> None:
        _refuse_conversions(client, "deserializer")
        super().__init__(client, journal)
        self._reading = Reading(journal)

    def poll(self, timeout: float | None = None) -> Any:
        operation = self._journal.poll()
        message = self._client.poll() if timeout is None else self._client.poll(timeout)
        self._answered(operation, [] if message is None else [message])
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> Any:
        operation = self._journal.poll()
        messages = self._client.consume(num_messages, timeout)
        self._answered(operation, messages)
        return messages

    def _answered(self, operation: int, messages: list[Any]) -> None:
        error = next((str(each.error().name()) for each in messages if each.error() is not None), None)
        records = [_delivered(each) for each in messages if each.error() is None]
        self._reading.polled(operation, records, self._client.assignment(), error=None if records else error)

    def seek(self, partition: Any) -> Any:
        self._reading.sought(partition)
        return self._client.seek(partition)

    def assign(self, partitions: Any) -> Any:
        self._reading.sought(*_moved(partitions))
        return self._client.assign(partitions)

    def incremental_assign(self, partitions: Any) -> Any:
        self._reading.sought(*_moved(partitions))
        return self._client.incremental_assign(partitions)

    def unassign(self) -> Any:
        self._reading.sought()
        return self._client.unassign()

    def incremental_unassign(self, partitions: Any) -> Any:
        self._reading.sought()
        return self._client.incremental_unassign(partitions)

    def subscribe(self, topics: Any, on_assign: Any = None, on_revoke: Any = None, on_lost: Any = None) -> Any:
        """The application's callbacks get the recorded consumer, with which they may assign and seek.

        One of ours is there in any case: one poll may take a partition and give it again. What a callback of
        on_assign leaves to the library (2.16) is assigned as without one.
        """
        self._reading.sought()
        theirs = {"on_revoke": on_revoke, "on_lost": on_lost}
        given = {name: self._rebalanced(call) for name, call in theirs.items() if call is not None}
        return self._client.subscribe(topics, on_assign=self._rebalanced(on_assign), **given)

    def _rebalanced(self, theirs: Any) -> Any:
        def rebalanced(_: Any, partitions: Any) -> None:
            self._reading.sought()
            if theirs is not None:
                theirs(self, partitions)

        return rebalanced


def _moved(partitions: Iterable[Any]) -> list[Any]:
    """Those that are assigned from an offset, or from their end."""
    return [each for each in partitions if each.offset not in _NOWHERE_YET]


def _delivered(message: Any) -> Delivered:
    return Delivered(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        value=as_bytes(message.value()),
        key=None if message.key() is None else as_bytes(message.key()),
        timestamp_ms=_stamp(message),
    )


def _stamp(message: Any) -> int | None:
    kind, stamp = message.timestamp()
    return int(stamp) if kind else None
