"""Timestamps of the records in a batch: from its header, and rarely by decoding each record.

A batch with the LogAppendTime bit has one timestamp for all its records: its largest timestamp, which the leader set
when it appended the batch. Otherwise every record has its producer's timestamp, which only decoding shows.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import crc32c

from reference_impl.wire.record_batches import BatchHeader, Buffer, parse_headers
from reference_impl.wire.record_contents import records

NO_TIMESTAMP = -1

_CRC_POSITION, _ATTRIBUTES_POSITION, _MAX_TIMESTAMP_POSITION = 17, 21, 35
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_TIMESTAMP_TYPE_BIT = 0x08


class TimedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def stamp_append_time(batches: bytearray, header: BatchHeader, append_time_ms: int) -> None:
    """Gives all records of the batch this timestamp; changes the attributes and the largest timestamp."""
    _ATTRIBUTES.pack_into(batches, header.position + _ATTRIBUTES_POSITION, header.attributes | _TIMESTAMP_TYPE_BIT)
    stamp_max_timestamp(batches, header, append_time_ms)


def stamp_max_timestamp(batches: bytearray, header: BatchHeader, max_timestamp: int) -> None:
    """Sets the largest timestamp and recomputes the CRC, which covers it."""
    _MAX_TIMESTAMP.pack_into(batches, header.position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    with memoryview(batches) as view, view[header.position + _ATTRIBUTES_POSITION : header.end_position] as covered:
        computed = crc32c.crc32c(covered)
    _CRC.pack_into(batches, header.position + _CRC_POSITION, computed)


def record_times(batches: Buffer, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yields (offset, timestamp) of every record of the batch. Raises UnreadableRecords."""
    if header.has_log_append_time:
        for offset in range(header.base_offset, header.next_offset):
            yield offset, header.max_timestamp
        return
    for offset, timestamp, _ in records(batches, header):
        yield offset, timestamp


def first_at_or_after(batch: Buffer, timestamp: int, *, from_offset: int = 0) -> TimedOffset | None:
    """Returns the batch's first record at or after `from_offset` whose timestamp is at least `timestamp`."""
    (header,) = parse_headers(batch)
    for offset, found in record_times(batch, header):
        if found >= timestamp and offset >= from_offset:
            return TimedOffset(offset, found, header.leader_epoch)
    return None


def youngest(batch: Buffer, *, from_offset: int = 0) -> TimedOffset | None:
    """Returns the first record with the batch's largest timestamp at or after `from_offset`."""
    (header,) = parse_headers(batch)
    found = max(
        (entry for entry in record_times(batch, header) if entry[0] >= from_offset),
        key=lambda entry: entry[1],
        default=None,
    )
    return None if found is None else TimedOffset(*found, header.leader_epoch)
