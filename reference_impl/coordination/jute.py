"""Jute, ZooKeeper's serialisation format: big-endian numbers, length-prefixed bytes, counted vectors.

A record is a dataclass whose fields, in their order, are what is on the wire (`JuteRecord`). The reader checks every
length against the bytes that remain, so a malformed frame never costs more memory than its size.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

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


# ---- records --------------------------------------------------------------------------------------------------------

Int = Annotated[int, "32 bits"]
Long = Annotated[int, "64 bits"]
# The last field of a record, which older writers leave out: None.
Trailing = Annotated[bool | None, "trailing"]

_Write = Callable[[JuteWriter, Any], None]
_Read = Callable[[JuteReader], Any]


@dataclass(frozen=True, kw_only=True)
class JuteRecord:
    """A record of fields of these types: Int, Long, bool, str, bytes (None: null), an IntEnum (as Int), another record,
    and a list or tuple of one of them."""

    _fields: ClassVar[Mapping[str, tuple[_Write, _Read]]]

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True)
        cls._fields = {name: _codec(hint) for name, hint in hints.items() if get_origin(hint) is not ClassVar}

    def write(self, writer: JuteWriter) -> None:
        for name, (write, _) in self._fields.items():
            write(writer, getattr(self, name))

    @classmethod
    def read(cls, reader: JuteReader) -> Self:
        return cls(**{name: read(reader) for name, (_, read) in cls._fields.items()})


_CODECS: dict[Any, tuple[_Write, _Read]] = {
    Int: (JuteWriter.integer, JuteReader.integer),
    Long: (JuteWriter.long, JuteReader.long),
    bool: (JuteWriter.boolean, JuteReader.boolean),
    str: (JuteWriter.string, JuteReader.string),
    bytes | None: (JuteWriter.buffer, JuteReader.buffer),
    bytes: (JuteWriter.buffer, lambda reader: reader.buffer() or b""),
    Trailing: (
        lambda writer, value: None if value is None else writer.boolean(value),
        lambda reader: reader.boolean() if reader.remaining else None,
    ),
}


def _codec(hint: Any) -> tuple[_Write, _Read]:
    if hint in _CODECS:
        return _CODECS[hint]
    if (container := get_origin(hint)) in (list, tuple):
        write, read = _codec(get_args(hint)[0])
        return (
            lambda writer, values: writer.vector(values, lambda value: write(writer, value)),
            lambda reader: container(reader.vector(lambda: read(reader))),
        )
    assert isinstance(hint, type), f"no type of a field: {hint}"
    if issubclass(hint, IntEnum):
        return JuteWriter.integer, lambda reader: hint(reader.integer())
    assert issubclass(hint, JuteRecord), f"no type of a field: {hint}"
    return lambda writer, value: value.write(writer), hint.read
