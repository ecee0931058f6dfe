"""Kafka's encoding of records in logs of its own: numbers, strings and arrays, in the flexible form and in the older.

In the flexible form (KIP-482) lengths are varints plus one, 0 is null, and tagged fields come last. Before, the length
of a string has 16 bits, that of an array 32, and -1 is null.
"""

import base64
import struct
from collections.abc import Callable
from typing import Any, TypeVar

_INT8, _INT16, _INT32, _INT64 = (struct.Struct(form) for form in (">b", ">h", ">i", ">q"))
_Value = TypeVar("_Value")
Ids = tuple[int, ...]


class UndecodableError(ValueError):
    """The bytes are not a known record; the message names type, version and reason."""


def directory_name(raw: bytes) -> str:
    """The id in the form that Kafka prints and meta.properties contains."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns (value, position after it)."""
    value = shift = 0
    while True:
        if position >= len(data) or shift > 28:
            raise UndecodableError(f"no varint at byte {position}")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


class Fields:
    """Reads one field after the other. flexible: lengths are varints plus one."""

    def __init__(self, data: bytes, position: int = 0, *, flexible: bool = True) -> None:
        self._data = data
        self._at = position
        self._flexible = flexible

    def _length(self, form: struct.Struct) -> int:
        """Of a string or an array; -1: null."""
        return self.varint() - 1 if self._flexible else self._number(form)

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    def varint(self) -> int:
        value, self._at = unsigned_varint(self._data, self._at)
        return value

    def _take(self, length: int) -> bytes:
        if length < 0 or self._at + length > len(self._data):
            raise UndecodableError(f"it ends within the {length} bytes at byte {self._at}")
        self._at += length
        return self._data[self._at - length : self._at]

    def _number(self, form: struct.Struct) -> int:
        return int(form.unpack(self._take(form.size))[0])

    def int8(self) -> int:
        return self._number(_INT8)

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def boolean(self) -> bool:
        return self.int8() != 0

    def identifier(self) -> str:
        return directory_name(self._take(16))

    def nullable_string(self) -> str | None:
        length = self._length(_INT16)
        return None if length == -1 else self._take(length).decode("utf-8", errors="replace")

    def string(self) -> str:
        return self.nullable_string() or ""

    def octets(self) -> bytes:
        length = self._length(_INT32)
        return b"" if length == -1 else self._take(length)

    def array(self, element: Callable[[], _Value]) -> tuple[_Value, ...]:
        """A null array becomes an empty one: none of the fields read here distinguishes them."""
        return tuple(element() for _ in range(max(self._length(_INT32), 0)))

    def ids(self) -> Ids:
        return self.array(self.int32)

    def identifiers(self) -> tuple[str, ...]:
        return self.array(self.identifier)

    def tagged(self, **readers: tuple[int, Callable[["Fields"], Any]]) -> dict[str, Any]:
        """Returns the wanted tagged fields that are present, by name; skips others. None before the flexible form."""
        if not self._flexible:
            return {}
        wanted = {tag: (name, reader) for name, (tag, reader) in readers.items()}
        found: dict[str, Any] = {}
        for _ in range(self.varint()):
            tag = self.varint()
            content = Fields(self._take(self.varint()))
            if tag in wanted:
                name, reader = wanted[tag]
                found[name] = reader(content)
        return found
