"""The records of __transaction_state in Kafka's binary format: one transactional id, its producer and its transaction.

Key and value begin with their version. Written and read is version 0 of both, which every Kafka since 0.11 reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reference_impl.wire.key_values import KeyValue
from reference_impl.wire.plain_fields import Reader, UnreadableRecord, Writer

EMPTY_STATE = 0  # without partitions: the array is null
_VERSION = 0


@dataclass(frozen=True, kw_only=True)
class StoredTransaction:
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: int  # its number in Kafka's TransactionState
    partitions: Mapping[str, Sequence[int]]  # by topic
    updated_ms: int
    started_ms: int


def transaction_record(transactional_id: str, value: StoredTransaction | None) -> KeyValue:
    key = Writer().int16(_VERSION).string(transactional_id).content
    return KeyValue(key, None if value is None else _value(value))


def _value(value: StoredTransaction) -> bytes:
    writer = Writer().int16(_VERSION).int64(value.producer_id).int16(value.producer_epoch).int32(value.timeout_ms)
    writer.int8(value.state)
    if value.state == EMPTY_STATE:
        writer.int32(-1)
    else:
        writer.int32(len(value.partitions))
        for topic, numbers in value.partitions.items():
            writer.string(topic).int32(len(numbers))
            for number in numbers:
                writer.int32(number)
    return writer.int64(value.updated_ms).int64(value.started_ms).content


def decode(key: bytes | None, value: bytes | None) -> tuple[str, StoredTransaction | None]:
    """Raises UnreadableRecord; a value of None is a tombstone."""
    reader = Reader(key or b"")
    _expect_version(reader)
    transactional_id = reader.string()
    return transactional_id, None if value is None else _read(Reader(value))


def _read(reader: Reader) -> StoredTransaction:
    _expect_version(reader)
    producer_id, producer_epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    state = reader.int8()
    topics = reader.nullable_count()
    partitions = {}
    for _ in range(topics):
        topic = reader.string()
        partitions[topic] = tuple(reader.int32() for _ in range(reader.count()))
    return StoredTransaction(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        updated_ms=reader.int64(),
        started_ms=reader.int64(),
    )


def _expect_version(reader: Reader) -> None:
    version = reader.int16()
    if version != _VERSION:
        raise UnreadableRecord(f"a transaction of version {version}")
