"""The times of the records in a batch: what is said of them in its header, and the rare look at each one.

A batch with the LogAppendTime bit has one time for all its records: its largest timestamp, which the leader wrote there
when it appended the batch. Otherwise every record has its producer's, and only decoding the batch tells them.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import crc32c
from kafka.record import MemoryRecords

from reference_impl.wire.record_batches import BatchHeader, Buffer

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
    """All records of the batch get this time, whatever their producer said; attributes and largest timestamp change,
    and so does the CRC, which covers both."""
    _ATTRIBUTES.pack_into(batches, header.position + _ATTRIBUTES_POSITION, header.attributes | _TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(batches, header.position + _MAX_TIMESTAMP_POSITION, append_time_ms)
    with memoryview(batches) as view, view[header.position + _ATTRIBUTES_POSITION : header.end_position] as covered:
        computed = crc32c.crc32c(covered)
    _CRC.pack_into(batches, header.position + _CRC_POSITION, computed)


def record_times(batches: Buffer, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of every record of the batch."""
    if header.has_log_append_time:
        for offset in range(header.base_offset, header.next_offset):
            yield offset, header.max_timestamp
        return
    batch = MemoryRecords(bytes(batches[header.position : header.end_position])).next_batch()
    for record in batch or ():
        yield record.offset, record.timestamp


def first_at_or_after(
    batches: Buffer, headers: Sequence[BatchHeader], timestamp: int, *, from_offset: int = 0
) -> TimedOffset | None:
    """The first record at `from_offset` or behind it that is as young as `timestamp`."""
    for header in headers:
        if header.max_timestamp < timestamp or header.next_offset <= from_offset:
            continue
        for offset, found in record_times(batches, header):
            if found >= timestamp and offset >= from_offset:
                return TimedOffset(offset, found, header.leader_epoch)
    return None
