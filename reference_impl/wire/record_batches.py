"""Record batches by their headers: what a broker needs to know of records without decoding one.

A batch of magic 2 is 61 bytes of header and then the records, perhaps compressed. Base offset and partition leader
epoch stand outside the CRC, so that a leader can stamp them in place. A run of batches may end in a torn one (a crash,
a read limit): `scan` and `parse_headers` stop before it, `validate` refuses it.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import crc32c

Buffer = bytes | bytearray | memoryview

LENGTH_PREFIX_SIZE = 12  # base offset and batch length: what the batch length does not count
HEADER_SIZE = 61
MAGIC = 2
NO_PRODUCER_ID = -1

_MAGIC_POSITION = 16
_LAST_OFFSET_DELTA_POSITION = 23
_CRC_START = 21  # the CRC covers attributes to end
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_PREFIX = struct.Struct(">qi")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LAST_OFFSET_DELTA = struct.Struct(">i")

_COMPRESSION_MASK, _TIMESTAMP_TYPE_BIT, _TRANSACTIONAL_BIT, _CONTROL_BIT = 0x07, 0x08, 0x10, 0x20


class CorruptBatch(ValueError):
    """Bytes that are not a run of whole, sound batches of magic 2; `position` is where the first bad one begins."""

    def __init__(self, reason: str, *, position: int) -> None:
        super().__init__(f"batch at byte {position}: {reason}")
        self.reason = reason
        self.position = position


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchHeader:
    position: int  # in the buffer it was read from
    length: int  # in bytes, all of it
    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def end_position(self) -> int:
        return self.position + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL_BIT)

    @property
    def compression(self) -> int:
        return self.attributes & _COMPRESSION_MASK

    @property
    def has_log_append_time(self) -> bool:
        return bool(self.attributes & _TIMESTAMP_TYPE_BIT)


def read_header(data: Buffer, position: int) -> BatchHeader:
    """The header at `position`, of which all HEADER_SIZE bytes must be there; its values are not judged."""
    (
        base_offset, batch_length, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp,
        max_timestamp, producer_id, producer_epoch, base_sequence, record_count,
    ) = _HEADER.unpack_from(data, position)  # fmt: skip
    return BatchHeader(
        position=position,
        length=LENGTH_PREFIX_SIZE + batch_length,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=record_count,
    )


class BatchBounds(NamedTuple):
    """Where a batch lies, for those who ask nothing else of many batches."""

    position: int
    end_position: int
    base_offset: int
    next_offset: int


def bounds(data: Buffer, start: int = 0) -> Iterator[BatchBounds]:
    """The bounds of the whole batches from byte `start`; as `scan`, at a tenth of the price."""
    position, size = start, len(data)
    while size - position >= HEADER_SIZE:
        base_offset, batch_length = _LENGTH_PREFIX.unpack_from(data, position)
        end_position = position + LENGTH_PREFIX_SIZE + batch_length
        if end_position - position < HEADER_SIZE or end_position > size:
            return
        last_offset_delta: int = _LAST_OFFSET_DELTA.unpack_from(data, position + _LAST_OFFSET_DELTA_POSITION)[0]
        yield BatchBounds(position, end_position, base_offset, base_offset + last_offset_delta + 1)
        position = end_position


def batch_length(data: Buffer, position: int = 0) -> int:
    """How long the batch that begins at `position` is; its first 12 bytes must be there."""
    length: int = _LENGTH_PREFIX.unpack_from(data, position)[1]
    return LENGTH_PREFIX_SIZE + length


def scan(data: Buffer, start: int = 0) -> tuple[list[BatchHeader], int]:
    """(the headers of the whole batches from byte `start`, the byte where they end).

    Stops at the first batch that is not whole: cut short, or with a length no batch can have (zero-filled tails).
    Checks neither magic nor CRC: `validate` does.
    """
    headers = []
    position, size = start, len(data)
    while size - position >= HEADER_SIZE:
        length = LENGTH_PREFIX_SIZE + _LENGTH_PREFIX.unpack_from(data, position)[1]
        if length < HEADER_SIZE or position + length > size:
            break
        headers.append(read_header(data, position))
        position += length
    return headers, position


def parse_headers(data: Buffer) -> list[BatchHeader]:
    """The headers of the whole batches in `data`."""
    return scan(data)[0]


def check(data: Buffer, header: BatchHeader) -> None:
    """Raises CorruptBatch unless the batch is of magic 2, its CRC holds and its counts agree."""
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic}, not {MAGIC}", position=header.position)
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        reason = f"{header.record_count} records, but the last offset delta is {header.last_offset_delta}"
        raise CorruptBatch(reason, position=header.position)
    with memoryview(data) as view, view[header.position + _CRC_START : header.end_position] as covered:
        computed = crc32c.crc32c(covered)
    if computed != header.crc:
        reason = f"CRC is {computed:#010x}, the header says {header.crc:#010x}"
        raise CorruptBatch(reason, position=header.position)


def validate(data: Buffer) -> None:
    """Raises CorruptBatch unless `data` is nothing but whole, sound batches of magic 2 (none is sound, too)."""
    headers, valid_bytes = scan(data)
    for header in headers:
        check(data, header)
    if valid_bytes != len(data):
        # An old message set is shorter than our header may be: name it for what it is.
        if len(data) - valid_bytes > _MAGIC_POSITION and data[valid_bytes + _MAGIC_POSITION] != MAGIC:
            raise CorruptBatch(f"magic {data[valid_bytes + _MAGIC_POSITION]}, not {MAGIC}", position=valid_bytes)
        raise CorruptBatch(f"{len(data) - valid_bytes} bytes are no whole batch", position=valid_bytes)


def sound_prefix(data: Buffer, start: int = 0) -> tuple[list[BatchHeader], int]:
    """As `scan`, but also stops at the first batch that `check` refuses, or whose offsets go back (recovery)."""
    headers, valid_bytes = scan(data, start)
    expected = headers[0].base_offset if headers else 0
    for index, header in enumerate(headers):
        try:
            check(data, header)
        except CorruptBatch:
            return headers[:index], header.position
        if header.base_offset < expected:
            return headers[:index], header.position
        expected = header.next_offset
    return headers, valid_bytes


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Writes offset and epoch into the batch at `position`, in place; the CRC covers neither."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LENGTH_PREFIX_SIZE, leader_epoch)


def batches_from(data: Buffer, offset: int, end_offset: int | None = None) -> memoryview:
    """The whole batches of `data` from the one that holds `offset` (or the next one) up to `end_offset`, exclusive."""
    first, end = len(data), 0
    for batch in bounds(data):
        if end_offset is not None and batch.next_offset > end_offset:
            break
        if batch.next_offset > offset:
            first = min(first, batch.position)
            end = batch.end_position
    return memoryview(data)[first:end] if end else memoryview(b"")
