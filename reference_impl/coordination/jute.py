"""Jute, ZooKeeper's serialisation format: big-endian numbers, length-prefixed bytes, counted vectors.

The reader checks every length against the bytes that remain, so a malformed frame never costs more memory than its
size.
"""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")

_INT = struct.Struct("!i")
_LONG = struct.Struct("!q")
NULL_LENGTH = -1


class MalformedRecord(ValueError):
    """The bytes are not a valid record of the expected type."""


class JuteWriter:
    """Appends values to a buffer; `data` is the encoded result."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def data(self) -> bytes:
        return bytes(self._buffer)

    def integer(self, value: int) -> None:
        self._buffer += _INT.pack(value)

    def long(self, value: int) -> None:
        self._buffer += _LONG.pack(value)

    def boolean(self, value: bool) -> None:
        self._buffer.append(1 if value else 0)

    def buffer(self, value: bytes | None) -> None:
        if value is None:
            self.integer(NULL_LENGTH)
            return
        self.integer(len(value))
        self._buffer += value

    def string(self, value: str) -> None:
        self.buffer(value.encode("utf-8"))

    def vector(self, values: Iterable[Item], write_item: Callable[[Item], None]) -> None:
        items = list(values)
        self.integer(len(items))
        for item in items:
            write_item(item)

    def raw(self, value: bytes) -> None:
        self._buffer += value


class JuteReader:
    """Reads values from the front of a buffer. Raises MalformedRecord if the bytes do not fit."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    @property
    def remaining(self) -> int:
        return len(self._data) - self._position

    def raw(self, length: int) -> bytes:
        if length < 0 or length > self.remaining:
            raise MalformedRecord(f"{length} bytes announced at {self._position}, {self.remaining} left")
        start = self._position
        self._position += length
        return self._data[start : self._position]

    def structure(self, layout: struct.Struct) -> tuple[int, ...]:
        return layout.unpack(self.raw(layout.size))

    def integer(self) -> int:
        return self.structure(_INT)[0]

    def long(self) -> int:
        return self.structure(_LONG)[0]

    def boolean(self) -> bool:
        return self.raw(1) != b"\0"

    def buffer(self) -> bytes | None:
        length = self.integer()
        return None if length == NULL_LENGTH else self.raw(length)

    def string(self) -> str:
        """Reads a string. A null string becomes the empty string, because clients write either."""
        try:
            return (self.buffer() or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRecord(f"not UTF-8: {error}") from error

    def vector(self, read_item: Callable[[], Item]) -> list[Item]:
        count = self.integer()
        # Every item takes at least one byte, so a larger count is invalid; it is rejected before memory is allocated.
        if count > self.remaining:
            raise MalformedRecord(f"{count} items announced, {self.remaining} bytes left")
        return [read_item() for _ in range(max(count, 0))]
