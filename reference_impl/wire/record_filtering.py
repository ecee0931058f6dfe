"""Records with their keys, and a batch from which records were taken out.

What is left of a batch keeps its offsets, its producer and its sequence numbers: base offset and last offset delta
stay, so that it spans what it spanned, be it without any record. It is stored uncompressed. A delete horizon (KIP-534)
is the time from which on its tombstones, or its marker, may go: the header then has a bit for it, and the horizon in
the place of the base timestamp, to which the records' timestamps are relative.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import crc32c

from reference_impl.wire.compression import NONE, decompress
from reference_impl.wire.key_values import as_varint
from reference_impl.wire.record_batches import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    BatchHeader,
    Buffer,
)
from reference_impl.wire.record_contents import UnsoundRecords, varint

HORIZON_BIT = 0x40
_BEFORE_CRC = struct.Struct(">qiib")
_CRC = struct.Struct(">I")
_BEHIND_CRC = struct.Struct(">hiqqqhii")


class KeyedRecord(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool
    attributes: int
    rest: bytes  # key, value and headers as they are stored


def keyed_records(batch: Buffer, header: BatchHeader) -> Iterator[KeyedRecord]:
    """Yields the records of a batch that begins at byte 0. Raises UnreadableRecords."""
    stored = bytes(batch[HEADER_SIZE : header.length])
    content = stored if header.compression == NONE else bytes(decompress(header.compression, stored))
    position = 0
    try:
        for _ in range(header.record_count):
            length, position = varint(content, position)
            end = position + length
            attributes = content[position]
            timestamp_delta, position = varint(content, position + 1)
            offset_delta, begin = varint(content, position)
            key_length, position = varint(content, begin)
            key = None if key_length < 0 else content[position : position + key_length]
            value_length, position = varint(content, position + max(key_length, 0))
            if not position + max(value_length, 0) < end <= len(content):
                raise UnsoundRecords(f"a record that ends at byte {end} of {len(content)}")
            yield KeyedRecord(
                offset=header.base_offset + offset_delta,
                timestamp=header.max_timestamp
                if header.has_log_append_time
                else header.base_timestamp + timestamp_delta,
                key=key,
                has_value=value_length >= 0,
                attributes=attributes,
                rest=content[begin:end],
            )
            position = end
    except IndexError:
        raise UnsoundRecords(f"fewer than {header.record_count} records") from None


def delete_horizon(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & HORIZON_BIT else None


def filtered_batch(header: BatchHeader, records: Sequence[KeyedRecord], horizon: int | None) -> bytes:
    """Returns the batch with these records alone; without any, its header. An empty one keeps its largest timestamp."""
    base_timestamp = header.base_timestamp if horizon is None else horizon
    times = [record.timestamp for record in records]
    max_timestamp = header.max_timestamp if header.has_log_append_time or not times else max(times)
    content = b"".join(_stored(record, header.base_offset, base_timestamp) for record in records)
    attributes = header.attributes & ~COMPRESSION_MASK | (0 if horizon is None else HORIZON_BIT)
    covered = (
        _BEHIND_CRC.pack(
            attributes,
            header.last_offset_delta,
            base_timestamp,
            max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            len(records),
        )
        + content
    )
    length = HEADER_SIZE + len(content) - LENGTH_PREFIX_SIZE
    before = _BEFORE_CRC.pack(header.base_offset, length, header.leader_epoch, header.magic)
    return before + _CRC.pack(crc32c.crc32c(covered)) + covered


def _stored(record: KeyedRecord, base_offset: int, base_timestamp: int) -> bytes:
    body = b"".join(
        (
            bytes([record.attributes]),
            as_varint(record.timestamp - base_timestamp),
            as_varint(record.offset - base_offset),
            record.rest,
        )
    )
    return as_varint(len(body)) + body
