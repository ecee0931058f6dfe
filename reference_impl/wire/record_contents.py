"""Decodes the records of a batch one by one, as far as a broker needs them: offsets and timestamps.

This costs about a microsecond per record, so a broker decodes only where it must, never on its event loop
(runtime/decoding.py), and never more than RECORDS_MAX records or DECOMPRESSED_MAX_BYTES bytes of one batch.
"""

from collections.abc import Iterator

from reference_impl.wire.compression import NONE, TooMuchInside, UnreadableRecords, decompress
from reference_impl.wire.record_batches import HEADER_SIZE, BatchHeader, Buffer

RECORDS_MAX = 1_000_000
RECORD_SIZE_MIN = 7  # length, attributes, two deltas, no key, no value, no headers: a byte each

_VARINT_SIZE_MAX = 10
_TIMES = (-(2**63), 2**63 - 1)


class UnsoundRecords(UnreadableRecords):
    """The bytes are not records, or not those that the header describes."""


def records(batch: Buffer, header: BatchHeader) -> Iterator[tuple[int, int, bool]]:
    """Yields (offset, timestamp, whether it has a key) of every record. Raises UnreadableRecords at the first invalid
    one, possibly after some valid records."""
    if header.record_count > RECORDS_MAX:
        raise TooMuchInside(f"{header.record_count} records, of which at most {RECORDS_MAX} are looked at")
    with memoryview(batch) as whole, whole[header.position + HEADER_SIZE : header.end_position] as stored:
        content = bytes(stored) if header.compression == NONE else decompress(header.compression, stored)
    position = 0
    try:
        for _ in range(header.record_count):
            length, position = varint(content, position)
            end = position + length
            timestamp_delta, position = varint(content, position + 1)  # after the attributes, which have no meaning
            offset_delta, position = varint(content, position)
            has_key, position = _behind_fields(content, position, end)
            if position != end:
                raise UnsoundRecords(f"a record of {length} bytes that ends at another byte")
            timestamp = header.base_timestamp + timestamp_delta
            if not (0 <= offset_delta <= header.last_offset_delta and _TIMES[0] <= timestamp <= _TIMES[1]):
                raise UnsoundRecords(f"a record at offset +{offset_delta}, of time {timestamp}")
            yield header.base_offset + offset_delta, timestamp, has_key
    except IndexError:
        raise UnsoundRecords(f"fewer than {header.record_count} records") from None
    if position != len(content):
        raise UnsoundRecords(f"{len(content) - position} bytes behind the last of {header.record_count} records")


def _behind_fields(content: bytes | bytearray, position: int, end: int) -> tuple[bool, int]:
    """Skips key, value and headers; a negative length means null. Returns whether there is a key, and the next byte."""
    key_length, position = varint(content, position)
    if key_length > 0:
        position += key_length
    value_length, position = varint(content, position)
    if value_length > 0:
        position += value_length
    headers, position = varint(content, position)
    if headers < 0:
        raise UnsoundRecords(f"{headers} headers in a record")
    while headers:
        if position >= end:
            raise UnsoundRecords("a record with fewer headers than it says")
        name_length, position = varint(content, position)
        if name_length < 0:
            raise UnsoundRecords("a header without a name")
        value_length, position = varint(content, position + name_length)
        position += max(value_length, 0)
        headers -= 1
    return key_length >= 0, position


def varint(content: bytes | bytearray, position: int) -> tuple[int, int]:
    """Returns (the zigzag number at `position`, the byte after it)."""
    byte = content[position]
    if byte < 0x80:  # nearly all of them
        return byte >> 1 ^ -(byte & 1), position + 1
    value = byte & 0x7F
    for shift in range(7, 7 * _VARINT_SIZE_MAX, 7):
        position += 1
        byte = content[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), position + 1
    raise UnsoundRecords(f"a number of more than {_VARINT_SIZE_MAX} bytes")
