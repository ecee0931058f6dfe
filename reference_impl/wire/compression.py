"""Decompresses Kafka's four compressions within a size limit: a batch of 1 MB can contain, or claim to contain, 1 GB.

gzip, LZ4 and zstd use their own frame formats; snappy comes raw or in the blocks of the Java library (xerial).
"""

import struct
from collections.abc import Callable

import cramjam

from reference_impl.wire.record_batches import Buffer

DECOMPRESSED_MAX_BYTES = 64 << 20  # Kafka limits a compressed batch to one megabyte

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = frozenset((NONE, GZIP, SNAPPY, LZ4, ZSTD))

_FRAMED = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16  # magic bytes, a version, the oldest compatible version
_BLOCK_LENGTH = struct.Struct(">i")
_FULL = "failed to write whole buffer"
_GROWTH = 8
_LEAST_ROOM = 1 << 16


class UnreadableRecords(ValueError):
    """The batch does not contain what its header promises, or it cannot be decoded."""


class NotDecompressed(UnreadableRecords):
    """The bytes are not in the format of the batch's codec, or the codec is unknown."""


class TooMuchInside(UnreadableRecords):
    """The batch contains more bytes or records than the limit."""


def decompress(codec: int, data: Buffer) -> bytes | bytearray:
    """Returns the records of a batch, at most DECOMPRESSED_MAX_BYTES bytes; raises UnreadableRecords.

    It releases the interpreter lock for most of its time.
    """
    try:
        if codec in _FRAMED:
            return _from_frames(_FRAMED[codec].decompress_into, data)
        if codec == SNAPPY:
            return _from_snappy(bytes(data))
    except cramjam.DecompressionError as error:
        raise NotDecompressed(f"codec {codec}: {error}") from error
    raise NotDecompressed(f"codec {codec} is none of Kafka's")


def _from_frames(decompress_into: Callable[[Buffer, bytearray], int], data: Buffer) -> bytearray:
    """Decompresses into a buffer that grows with each attempt: most contents are a few times as long as
    their frames."""
    room = max(_LEAST_ROOM, _GROWTH * len(data))
    while True:
        content = bytearray(min(room, DECOMPRESSED_MAX_BYTES))
        try:
            size = decompress_into(data, content)
        except cramjam.DecompressionError as error:
            if str(error) != _FULL:
                raise
            if room >= DECOMPRESSED_MAX_BYTES:
                raise TooMuchInside(f"more than {DECOMPRESSED_MAX_BYTES} bytes after decompression") from None
            room *= _GROWTH
            continue
        del content[size:]
        return content


def _from_snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return _from_snappy_blocks([data])
    blocks, position = [], _XERIAL_HEADER_SIZE
    while position < len(data):
        if position + _BLOCK_LENGTH.size > len(data):
            raise NotDecompressed("a block of snappy without its length")
        end = position + _BLOCK_LENGTH.size + _BLOCK_LENGTH.unpack_from(data, position)[0]
        if not position + _BLOCK_LENGTH.size < end <= len(data):
            raise NotDecompressed("a block of snappy that ends behind the batch, or before it begins")
        blocks.append(data[position + _BLOCK_LENGTH.size : end])
        position = end
    return _from_snappy_blocks(blocks)


def _from_snappy_blocks(blocks: list[bytes]) -> bytes:
    """Each block begins with the length of its content."""
    if sum(map(cramjam.snappy.decompress_raw_len, blocks)) > DECOMPRESSED_MAX_BYTES:
        raise TooMuchInside(f"more than {DECOMPRESSED_MAX_BYTES} bytes after decompression")
    return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)
