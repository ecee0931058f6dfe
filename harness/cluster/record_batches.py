"""Record batches of brokers since 0.9 (magic 0, 1 and 2): their positions, and the records in them.

Batches are found by jumping from header to header, so a log's end and its records come from the same bytes. Kafka's own
reader decodes the contents, after the checksum was verified.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords

from harness.host.record_codecs import decompress
from harness.ports.cluster import LogRecord, OpenTransaction

_LENGTH_PREFIX_BYTES = 12  # bytes of offset and length, the same in every format and not included in the length
_LEAST_LENGTH = {0: 14, 1: 22, 2: 49}  # smallest size by magic: a record without key and value; a batch without records
_HEAD = struct.Struct(">qi4xb")  # offset, length, (epoch or checksum), magic
_LAST_DELTA_AT = 23  # magic 2: after magic, checksum and attributes
HEAD_BYTES = _LAST_DELTA_AT + 4
_HEADER_BYTES = 61  # magic 2
_ATTRIBUTES_AT = 21
_KEY_AT = {0: 18, 1: 26}
_CODEC, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_PRODUCER = struct.Struct(">h4xq8xqh")  # attributes, first timestamp, producer id and epoch
_NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Batch:
    """A whole batch with its position; in older formats a record or a compressed set of records."""

    start: int
    stop: int
    magic: int
    next_offset: int


@dataclass(frozen=True, kw_only=True)
class StoredRecord:
    """A record with all that its batch says of it; control: a transaction's marker.

    timestamp_ms: None before magic 1. producer_id, producer_epoch: None before magic 2, and without idempotence.
    """

    offset: int
    epoch: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    producer_id: int | None = None
    producer_epoch: int | None = None
    transactional: bool = False
    control: bool = False


def hops(size: int, head_at: Callable[[int], bytes]) -> Iterator[Batch]:
    """Yields the batches. `head_at` returns HEAD_BYTES from a position, fewer at the end. Stops at a torn batch or at
    the zeros of a preallocated segment."""
    position = 0
    while position + _LENGTH_PREFIX_BYTES + _LEAST_LENGTH[0] <= size:
        head = head_at(position)
        if len(head) < _HEAD.size:
            return  # a live broker truncated the file since its size was read
        offset, length, magic = _HEAD.unpack_from(head)
        stop = position + _LENGTH_PREFIX_BYTES + length
        if magic not in _LEAST_LENGTH or length < _LEAST_LENGTH[magic] or stop > size:
            return
        if magic == 2:
            if len(head) < HEAD_BYTES:
                return
            offset += struct.unpack_from(">i", head, _LAST_DELTA_AT)[0]
        # Before magic 2 the offset of a compressed set is that of its last record.
        yield Batch(start=position, stop=stop, magic=magic, next_offset=offset + 1)
        position = stop


def batches(data: bytes) -> Iterator[Batch]:
    return hops(len(data), lambda position: data[position : position + HEAD_BYTES])


def end_of(found: Iterator[Batch]) -> int | None:
    """Returns the offset after the last batch."""
    end = None
    for batch in found:
        end = batch.next_offset
    return end


def records_of(data: bytes) -> Iterator[LogRecord]:
    """Returns the data records of whole, intact batches; stops at the first other batch.

    Raises ValueError for a batch with a valid checksum and invalid records, which only a crafted batch has.
    """
    for content, magic in _intact(data):
        with _of_records():
            if magic < 2:
                for record in _old_records(content, magic):
                    yield LogRecord(offset=record.offset, epoch=_NO_EPOCH, value=record.value or b"")
            elif not (decoded := _decoded(content)).is_control_batch:
                for record in _decoded(_uncompressed(content)):
                    yield LogRecord(offset=record.offset, epoch=decoded.leader_epoch, value=bytes(record.value or b""))


def stored_records(data: bytes) -> Iterator[StoredRecord]:
    """Like `records_of`, with keys, times, producers, and the markers of transactions."""
    for content, magic in _intact(data):
        with _of_records():
            yield from _old_records(content, magic) if magic < 2 else _new_records(content)


def open_transactions(data: bytes) -> list[OpenTransaction]:
    """The transactions without a marker up to the last whole batch, by their first offsets; from headers alone."""
    found: dict[int, OpenTransaction] = {}
    for batch in batches(data):
        if batch.magic < 2:
            continue
        attributes, wall_ms, producer, epoch = _PRODUCER.unpack_from(data, batch.start + _ATTRIBUTES_AT)
        if attributes & _CONTROL:
            found.pop(producer, None)
        elif attributes & _TRANSACTIONAL:
            begun = found.get(producer)
            found[producer] = OpenTransaction(
                producer_id=producer,
                producer_epoch=epoch,
                first_offset=begun.first_offset if begun else _HEAD.unpack_from(data, batch.start)[0],
                last_offset=batch.next_offset - 1,
                wall_ms=begun.wall_ms if begun else wall_ms,
            )
    return sorted(found.values(), key=lambda each: each.first_offset)


def _intact(data: bytes) -> Iterator[tuple[bytes, int]]:
    """The bytes and magic of each whole batch before the first damaged one."""
    for batch in batches(data):
        content = data[batch.start : batch.stop]
        with _of_records():
            if not is_intact(content):
                return
        yield content, batch.magic


@contextmanager
def _of_records() -> Iterator[None]:
    try:
        yield
    except CorruptRecordError as error:
        raise ValueError(f"a batch holds no records, and its checksum does: {error}") from None


def _new_records(content: bytes) -> Iterator[StoredRecord]:
    batch = _decoded(content)
    has_producer = batch.producer_id >= 0
    for record in _decoded(_uncompressed(content)):
        yield StoredRecord(
            offset=record.offset,
            epoch=batch.leader_epoch,
            timestamp_ms=record.timestamp,
            key=None if record.key is None else bytes(record.key),
            value=None if record.value is None else bytes(record.value),
            producer_id=batch.producer_id if has_producer else None,
            producer_epoch=batch.producer_epoch if has_producer else None,
            transactional=batch.is_transactional,
            control=batch.is_control_batch,
        )


def is_intact(content: bytes) -> bool:
    """True if the checksum of one whole batch matches."""
    return bool(_decoded(content).validate_crc())


def records_begin(magic: int) -> int:
    """The position of a batch's records; before magic 2 that of the value's length."""
    return _HEADER_BYTES if magic == 2 else _KEY_AT[magic] + 4


def _decoded(content: bytes) -> Any:
    return MemoryRecords(content).next_batch()


def _uncompressed(content: bytes) -> bytes:
    """Returns the same magic 2 batch without compression; its checksum is then invalid."""
    (attributes,) = struct.unpack_from(">h", content, _ATTRIBUTES_AT)
    if not attributes & _CODEC:
        return content
    made = bytearray(content[:_HEADER_BYTES] + decompress(attributes & _CODEC, content[_HEADER_BYTES:]))
    struct.pack_into(">h", made, _ATTRIBUTES_AT, attributes & ~_CODEC)
    struct.pack_into(">i", made, 8, len(made) - _LENGTH_PREFIX_BYTES)
    return bytes(made)


def _old_records(content: bytes, magic: int) -> Iterator[StoredRecord]:
    """Decodes a record, or a record whose value is a compressed set of records."""
    codec = content[17] & _CODEC
    if not codec:
        for record in _decoded(content):
            yield StoredRecord(
                offset=record.offset,
                epoch=_NO_EPOCH,
                timestamp_ms=record.timestamp,
                key=None if record.key is None else bytes(record.key),
                value=None if record.value is None else bytes(record.value),
            )
        return
    unpacked = decompress(codec, _value(content, magic), old_lz4=magic == 0)
    inner = [record for each, own in _intact(unpacked) for record in _old_records(each, own)]
    # Magic 0 has absolute offsets inside; magic 1 has relative ones, and only the set's own offset, the last, is
    # absolute.
    shift = _HEAD.unpack_from(content)[0] - inner[-1].offset if inner and magic else 0
    for each in inner:
        yield replace(each, offset=each.offset + shift) if shift else each


def _value(content: bytes, magic: int) -> bytes:
    at = _KEY_AT[magic]
    (key_bytes,) = struct.unpack_from(">i", content, at)
    at += 4 + max(key_bytes, 0)
    (value_bytes,) = struct.unpack_from(">i", content, at)
    return content[at + 4 : at + 4 + value_bytes]
