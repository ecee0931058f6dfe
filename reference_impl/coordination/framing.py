"""Frames on a byte stream: a length of four bytes, then that many bytes. Used by server and client."""

import struct
from collections.abc import Iterator

from reference_impl.coordination.jute import MalformedRecord
from reference_impl.coordination.records import FRAME_LENGTH_MAX

_LENGTH = struct.Struct("!i")


def frame(payload: bytes) -> bytes:
    return _LENGTH.pack(len(payload)) + payload


class FrameBuffer:
    """Collects bytes and returns whole frames. A length above the limit is rejected before memory is
    allocated for it."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def starts_with(self) -> bytes:
        return bytes(self._buffer[: _LENGTH.size])

    def frames(self) -> Iterator[bytes]:
        """Yields whole frames and removes each from the buffer; iteration may stop and resume at any frame."""
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if not 0 <= length <= FRAME_LENGTH_MAX:
                raise MalformedRecord(f"a frame of {length} bytes (at most {FRAME_LENGTH_MAX})")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield payload
