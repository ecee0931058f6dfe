"""Decompresses Kafka's four compressions with pyarrow, which is installed anyway; Kafka's Python reader needs one
package each.

Snappy comes raw or in the framing of the Java library (xerial); LZ4 from message format 0 has a wrong header checksum.
"""

import gzip
import io
import struct
import zlib

import pyarrow as pa

from harness.host import memory

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16  # magic bytes, a version, the oldest compatible version
_LZ4_MAGIC_BYTES = 4
_LZ4_HAS_CONTENT_SIZE = 0x08
_UINT32 = 0xFFFFFFFF


def decompress(codec: int, data: bytes, *, old_lz4: bool = False) -> bytes:
    """`codec`: the lowest three bits of a batch's attributes. `old_lz4`: in message format 0.

    Raises ValueError for data not in that format, HarnessError for data that takes more memory than allowed.
    """
    if codec == GZIP:
        return _gzip(data)
    if codec == SNAPPY:
        return _snappy(data)
    if codec == LZ4:
        return _stream("lz4", _with_right_checksum(data) if old_lz4 else data)
    if codec == ZSTD:
        return _stream("zstd", data)
    raise ValueError(f"compression {codec} is none of Kafka's")


def _most_bytes() -> int:
    """The allowed number of bytes plus one."""
    return (memory.allowed_mb() << 20) + 1


def _bounded(content: bytes) -> bytes:
    memory.check("a compressed batch of records", len(content))
    return content


def _gzip(data: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return _bounded(stream.read(_most_bytes()))
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"no sound gzip: {error}") from None


def _stream(name: str, data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
        content: bytes = stream.read(_most_bytes())
    return _bounded(content)


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return _snappy_block(data)
    blocks, position = [], _XERIAL_HEADER_BYTES
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        blocks.append(_snappy_block(data[position : position + length]))
        position += length
    return b"".join(blocks)


def _snappy_block(data: bytes) -> bytes:
    """The block begins with the length of its content as a varint."""
    size = shift = 0
    for byte in data:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    memory.check("a compressed batch of records", size)
    content: bytes = pa.decompress(data, size, "snappy", asbytes=True)
    return content


def _with_right_checksum(data: bytes) -> bytes:
    """Brokers and clients of 0.8 and 0.9 computed the header's checksum from the frame's magic on, not after it."""
    end = _LZ4_MAGIC_BYTES + (10 if data[_LZ4_MAGIC_BYTES] & _LZ4_HAS_CONTENT_SIZE else 2)
    checksum = _short_xxh32(data[_LZ4_MAGIC_BYTES:end]) >> 8 & 0xFF
    return data[:end] + bytes([checksum]) + data[end + 1 :]


def _short_xxh32(data: bytes) -> int:
    """xxHash of fewer than 16 bytes with seed 0."""
    assert len(data) < 16, "longer inputs go through four lanes first"
    value = 374761393 + len(data)
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = _rotated(value + word * 3266489917, 17) * 668265263 & _UINT32
    for byte in data[whole:]:
        value = _rotated(value + byte * 374761393, 11) * 2654435761 & _UINT32
    value = (value ^ value >> 15) * 2246822519 & _UINT32
    value = (value ^ value >> 13) * 3266489917 & _UINT32
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _UINT32
    return (value << bits | value >> 32 - bits) & _UINT32
