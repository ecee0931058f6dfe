"""Batches of keys and values, as a coordinator writes them into an internal topic and reads them again.

Such a batch is not compressed and has one timestamp; it has a producer if it belongs to a transaction. A null value
deletes what was stored for its key (a tombstone).
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import crc32c

from reference_impl.wire.record_batches import (
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from reference_impl.wire.record_contents import UnsoundRecords, varint

_BEHIND_CRC = struct.Struct(">hiqqqhii")
_BEFORE_CRC = struct.Struct(">qiib")
_CRC = struct.Struct(">I")
_NULL = -1


class KeyValue(NamedTuple):
    key: bytes
    value: bytes | None


class StoredKeyValue(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


class Producer(NamedTuple):
    """Whose transaction a coordinator writes to. What it writes has no place in the producer's sequence: data has
    number 0, as in Kafka, and a marker none."""

    producer_id: int
    producer_epoch: int
    is_control: bool = False

    @property
    def attributes(self) -> int:
        return TRANSACTIONAL_BIT | (CONTROL_BIT if self.is_control else 0)

    @property
    def sequence(self) -> int:
        return -1 if self.is_control else 0


def key_value_batch(records: Sequence[KeyValue], timestamp_ms: int, producer: Producer | None = None) -> bytearray:
    """Returns one batch with base offset 0 and no leader epoch: the log stamps both."""
    assert records, "a batch has at least one record"
    content = b"".join(_record(number, *record) for number, record in enumerate(records))
    last = len(records) - 1
    named = (NO_PRODUCER_ID, -1, -1) if producer is None else (*producer[:2], producer.sequence)
    attributes = 0 if producer is None else producer.attributes
    covered = _BEHIND_CRC.pack(attributes, last, timestamp_ms, timestamp_ms, *named, len(records)) + content
    length = HEADER_SIZE + len(content) - LENGTH_PREFIX_SIZE
    return bytearray(_BEFORE_CRC.pack(0, length, -1, MAGIC) + _CRC.pack(crc32c.crc32c(covered)) + covered)


def records_of(batches: bytes, header: BatchHeader) -> Iterator[StoredKeyValue]:
    """Yields the records of one batch, data or control. Raises UnreadableRecords."""
    if header.compression:
        raise UnsoundRecords(f"codec {header.compression} in a coordinator's batch")
    position = header.position + HEADER_SIZE
    try:
        for _ in range(header.record_count):
            length, position = varint(batches, position)
            end = position + length
            _, position = varint(batches, position + 1)
            offset_delta, position = varint(batches, position)
            key, position = _field(batches, position)
            value, position = _field(batches, position)
            if not position < end <= header.end_position:
                raise UnsoundRecords(f"a record that ends at byte {end} of a batch up to {header.end_position}")
            yield StoredKeyValue(header.base_offset + offset_delta, key, value)
            position = end
    except IndexError:
        raise UnsoundRecords(f"fewer than {header.record_count} records") from None


def _field(content: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = varint(content, position)
    if length < 0:
        return None, position
    return content[position : position + length], position + length


def _record(number: int, key: bytes, value: bytes | None) -> bytes:
    body = b"".join(
        (
            b"\x00",  # attributes, which have no meaning
            as_varint(0),  # every record has the batch's timestamp
            as_varint(number),
            as_varint(len(key)),
            key,
            as_varint(_NULL if value is None else len(value)),
            value or b"",
            as_varint(0),  # headers
        )
    )
    return as_varint(len(body)) + body


def as_varint(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest >= 0x80:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)
