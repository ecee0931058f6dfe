"""The records of __transaction_state in Kafka's binary format: one transactional id, its producer and its transaction.

Key and value begin with their version. A value is written in version 0, which every Kafka since 0.11 reads, unless it
says what version 0 cannot: that the producer has an epoch for each transaction (KIP-890). Version 1 is flexible, and
keeps that in tagged fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reference_impl.wire.key_values import KeyValue
from reference_impl.wire.record_fields import Reader, UnreadableRecord, Writer

EMPTY_STATE = 0  # without partitions: the array is null
NO_PRODUCER_ID = -1
_KEY_VERSION = 0
_PLAIN, _FLEXIBLE = 0, 1
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION = 0, 1, 2  # tags of version 1


@dataclass(frozen=True, kw_only=True)
class StoredTransaction:
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: int  # its number in Kafka's TransactionState
    partitions: Mapping[str, Sequence[int]]  # by topic
    updated_ms: int
    started_ms: int
    previous_id: int = NO_PRODUCER_ID  # whose epochs were used up by the last transaction
    next_id: int = NO_PRODUCER_ID  # who goes on when this transaction has ended
    client_version: int = 0  # the transaction.version that the producer spoke last

    @property
    def is_plain(self) -> bool:
        return (self.previous_id, self.next_id, self.client_version) == (NO_PRODUCER_ID, NO_PRODUCER_ID, 0)


def transaction_record(transactional_id: str, value: StoredTransaction | None) -> KeyValue:
    key = Writer().int16(_KEY_VERSION).string(transactional_id).content
    if value is None:
        return KeyValue(key, None)
    return KeyValue(key, _plain(value) if value.is_plain else _flexible(value))


def _begun(value: StoredTransaction, version: int) -> Writer:
    writer = Writer().int16(version).int64(value.producer_id).int16(value.producer_epoch).int32(value.timeout_ms)
    return writer.int8(value.state)


def _plain(value: StoredTransaction) -> bytes:
    writer = _begun(value, _PLAIN)
    if value.state == EMPTY_STATE:
        writer.int32(-1)
    else:
        writer.int32(len(value.partitions))
        for topic, numbers in value.partitions.items():
            writer.string(topic).int32(len(numbers))
            for number in numbers:
                writer.int32(number)
    return writer.int64(value.updated_ms).int64(value.started_ms).content


def _flexible(value: StoredTransaction) -> bytes:
    writer = _begun(value, _FLEXIBLE)
    if value.state == EMPTY_STATE:
        writer.varint(0)
    else:
        writer.varint(len(value.partitions) + 1)
        for topic, numbers in value.partitions.items():
            writer.compact_string(topic).varint(len(numbers) + 1)
            for number in numbers:
                writer.int32(number)
            writer.tags({})
    tags = {_CLIENT_VERSION: Writer().int16(value.client_version).content}
    for tag, producer_id in ((_PREVIOUS_ID, value.previous_id), (_NEXT_ID, value.next_id)):
        if producer_id != NO_PRODUCER_ID:
            tags[tag] = Writer().int64(producer_id).content
    return writer.int64(value.updated_ms).int64(value.started_ms).tags(tags).content


def decode(key: bytes | None, value: bytes | None) -> tuple[str, StoredTransaction | None]:
    """Raises UnreadableRecord; a value of None is a tombstone."""
    reader = Reader(key or b"")
    version = reader.int16()
    if version != _KEY_VERSION:
        raise UnreadableRecord(f"a transaction's key of version {version}")
    transactional_id = reader.string()
    return transactional_id, None if value is None else _read(Reader(value))


def _read(reader: Reader) -> StoredTransaction:
    version = reader.int16()
    if version not in (_PLAIN, _FLEXIBLE):
        raise UnreadableRecord(f"a transaction of version {version}")
    is_flexible = version == _FLEXIBLE
    producer_id, producer_epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    state = reader.int8()
    partitions = _flexible_partitions(reader) if is_flexible else _plain_partitions(reader)
    updated_ms, started_ms = reader.int64(), reader.int64()
    tags = reader.tags() if is_flexible else {}
    return StoredTransaction(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        updated_ms=updated_ms,
        started_ms=started_ms,
        previous_id=Reader(tags[_PREVIOUS_ID]).int64() if _PREVIOUS_ID in tags else NO_PRODUCER_ID,
        next_id=Reader(tags[_NEXT_ID]).int64() if _NEXT_ID in tags else NO_PRODUCER_ID,
        client_version=Reader(tags[_CLIENT_VERSION]).int16() if _CLIENT_VERSION in tags else 0,
    )


def _plain_partitions(reader: Reader) -> dict[str, Sequence[int]]:
    partitions: dict[str, Sequence[int]] = {}
    for _ in range(reader.nullable_count()):
        topic = reader.string()
        partitions[topic] = tuple(reader.int32() for _ in range(reader.count()))
    return partitions


def _flexible_partitions(reader: Reader) -> dict[str, Sequence[int]]:
    partitions: dict[str, Sequence[int]] = {}
    for _ in range(reader.compact_count()):
        topic = reader.compact_string()
        partitions[topic] = tuple(reader.int32() for _ in range(reader.compact_count()))
        reader.tags()
    return partitions
