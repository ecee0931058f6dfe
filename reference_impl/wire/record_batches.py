"""Record batch headers: what a broker needs to know of records without decoding one.

A batch of magic 2 is 61 bytes of header and then the records, perhaps compressed. Base offset and partition leader
epoch are not covered by the CRC, so a leader can set them in place. A run of batches may end in a torn one (a crash, a
read limit): `scan` and `parse_headers` stop before it, `validate` rejects it.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import crc32c

Buffer = bytes | bytearray | memoryview

LENGTH_PREFIX_SIZE = 12  # bytes of base offset and batch length, which the batch length does not include
HEADER_SIZE = 61
MAGIC = 2
NO_PRODUCER_ID = -1

_MAGIC_POSITION = 16
_LAST_OFFSET_DELTA_POSITION = 23
_CRC_START = 21  # the CRC covers attributes to end
_HEADER = struct.Struct(">qiibIhiqqqhii")
_OUTLINE = struct.Struct(">qiib6xi8xq")  # the same without the fields that only some callers need
_LENGTH_PREFIX = struct.Struct(">qi")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LAST_OFFSET_DELTA = struct.Struct(">i")

COMPRESSION_MASK, _TIMESTAMP_TYPE_BIT = 0x07, 0x08
TRANSACTIONAL_BIT, CONTROL_BIT = 0x10, 0x20


class CorruptBatch(ValueError):
    """The bytes are not a run of whole, valid batches of magic 2; `position` is where the first bad one begins."""

    def __init__(self, reason: str, *, position: int) -> None:
        super().__init__(f"batch at byte {position}: {reason}")
        self.reason = reason
        self.position = position


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchHeader:
    position: int  # in the buffer it was read from
    length: int  # in bytes, header included
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
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def has_log_append_time(self) -> bool:
        return bool(self.attributes & _TIMESTAMP_TYPE_BIT)


def read_header(data: Buffer, position: int) -> BatchHeader:
    """Decodes the header at `position`; all HEADER_SIZE bytes must be there. Its values are not checked."""
    (
        base_offset,
        batch_length,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = _HEADER.unpack_from(data, position)
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


def crc_holds(data: Buffer, header: BatchHeader) -> bool:
    with memoryview(data) as view, view[header.position + _CRC_START : header.end_position] as covered:
        computed: int = crc32c.crc32c(covered)
    return computed == header.crc


class BatchBounds(NamedTuple):
    """The position and offsets of a batch, for callers that need nothing else of many batches."""

    position: int
    end_position: int
    base_offset: int
    next_offset: int


def bounds(data: Buffer, start: int = 0) -> Iterator[BatchBounds]:
    """Returns the bounds of the whole batches from byte `start`; like `scan`, at a tenth of the cost."""
    position, size = start, len(data)
    while size - position >= HEADER_SIZE:
        base_offset, batch_length = _LENGTH_PREFIX.unpack_from(data, position)
        end_position = position + LENGTH_PREFIX_SIZE + batch_length
        if end_position - position < HEADER_SIZE or end_position > size:
            return
        last_offset_delta: int = _LAST_OFFSET_DELTA.unpack_from(data, position + _LAST_OFFSET_DELTA_POSITION)[0]
        yield BatchBounds(position, end_position, base_offset, base_offset + last_offset_delta + 1)
        position = end_position


class BatchOutline(NamedTuple):
    """The fields needed to open a log: a batch's position, and how it continues the previous batch."""

    position: int  # in the buffer it was read from
    length: int
    base_offset: int
    next_offset: int
    leader_epoch: int
    magic: int
    max_timestamp: int

    @property
    def last_offset(self) -> int:
        return self.next_offset - 1


def outline(data: Buffer, position: int) -> BatchOutline:
    """Decodes the outline of the batch at `position`; all HEADER_SIZE bytes must be there. Its values are
    not checked."""
    base_offset, length, leader_epoch, magic, last_offset_delta, max_timestamp = _OUTLINE.unpack_from(data, position)
    return BatchOutline(
        position,
        LENGTH_PREFIX_SIZE + length,
        base_offset,
        base_offset + last_offset_delta + 1,
        leader_epoch,
        magic,
        max_timestamp,
    )


def batch_length(data: Buffer, position: int = 0) -> int:
    """Returns the length in bytes of the batch at `position`; its first 12 bytes must be there."""
    length: int = _LENGTH_PREFIX.unpack_from(data, position)[1]
    return LENGTH_PREFIX_SIZE + length


def scan(data: Buffer, start: int = 0) -> tuple[list[BatchHeader], int]:
    """Returns (the headers of the whole batches from byte `start`, the byte after the last of them).

    Stops at the first batch that is not whole: cut short, or with an impossible length (a tail of zeros). Checks
    neither magic nor CRC: `validate` does.
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
    """Returns the headers of the whole batches in `data`."""
    return scan(data)[0]


def check(data: Buffer, header: BatchHeader) -> None:
    """Raises CorruptBatch unless the batch has magic 2, a matching CRC and consistent counts."""
    with memoryview(data) as view, view[header.position : header.end_position] as batch:
        check_pieces(header, [batch])


def check_pieces(header: BatchHeader, pieces: Iterable[Buffer]) -> None:
    """`check` for a batch that comes in pieces; the first piece contains the whole header."""
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic}, not {MAGIC}", position=header.position)
    if not 0 <= header.record_count <= header.last_offset_delta + 1:  # compaction takes records out
        reason = f"{header.record_count} records, but the last offset delta is {header.last_offset_delta}"
        raise CorruptBatch(reason, position=header.position)
    computed, skipped = 0, _CRC_START
    for piece in pieces:
        with memoryview(piece) as view, view[skipped:] as covered:
            computed = crc32c.crc32c(covered, computed)
        skipped = 0
    if computed != header.crc:
        reason = f"CRC is {computed:#010x}, the header says {header.crc:#010x}"
        raise CorruptBatch(reason, position=header.position)


def validate(data: Buffer) -> None:
    """Raises CorruptBatch unless `data` consists of whole, valid batches of magic 2 (or is empty)."""
    headers, valid_bytes = scan(data)
    for header in headers:
        check(data, header)
    if valid_bytes != len(data):
        # An old message set may be shorter than a magic 2 header: report it as such.
        if len(data) - valid_bytes > _MAGIC_POSITION and data[valid_bytes + _MAGIC_POSITION] != MAGIC:
            raise CorruptBatch(f"magic {data[valid_bytes + _MAGIC_POSITION]}, not {MAGIC}", position=valid_bytes)
        raise CorruptBatch(f"{len(data) - valid_bytes} bytes are no whole batch", position=valid_bytes)


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Writes offset and epoch into the batch at `position`, in place; the CRC covers neither."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LENGTH_PREFIX_SIZE, leader_epoch)
