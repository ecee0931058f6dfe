"""The fields of coordinators' records, in Kafka's plain encoding, and in the flexible one (KIP-482)."""

import struct
from collections.abc import Mapping

TEXT_BYTES_MAX = 2**15 - 1  # a text has its length in 16 bits


class UnreadableRecord(ValueError):
    """The bytes are no record of a coordinators' topic, or of a version that is not known here."""


class Writer:
    def __init__(self) -> None:
        self._content = bytearray()

    @property
    def content(self) -> bytes:
        return bytes(self._content)

    def _packed(self, form: str, *values: int) -> "Writer":
        self._content += struct.pack(form, *values)
        return self

    def int8(self, value: int) -> "Writer":
        return self._packed(">b", value)

    def int16(self, value: int) -> "Writer":
        return self._packed(">h", value)

    def int32(self, value: int) -> "Writer":
        return self._packed(">i", value)

    def int64(self, value: int) -> "Writer":
        return self._packed(">q", value)

    def string(self, value: str) -> "Writer":
        encoded = value.encode("utf-8")
        self.int16(len(encoded))
        self._content += encoded
        return self

    def nullable(self, value: str | None) -> "Writer":
        return self.int16(-1) if value is None else self.string(value)

    def octets(self, value: bytes) -> "Writer":
        self.int32(len(value))
        self._content += value
        return self

    # The flexible encoding: lengths are varints, one above the length, 0 for null

    def varint(self, value: int) -> "Writer":
        while value >= 0x80:
            self._content.append(value & 0x7F | 0x80)
            value >>= 7
        self._content.append(value)
        return self

    def compact_string(self, value: str) -> "Writer":
        encoded = value.encode("utf-8")
        self.varint(len(encoded) + 1)
        self._content += encoded
        return self

    def tags(self, values: Mapping[int, bytes]) -> "Writer":
        self.varint(len(values))
        for tag, value in sorted(values.items()):
            self.varint(tag).varint(len(value))
            self._content += value
        return self


class Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def _unpacked(self, form: str) -> int:
        try:
            value: int = struct.unpack_from(form, self._content, self._position)[0]
        except struct.error as error:
            raise UnreadableRecord(str(error)) from None
        self._position += struct.calcsize(form)
        return value

    def int8(self) -> int:
        return self._unpacked(">b")

    def int16(self) -> int:
        return self._unpacked(">h")

    def int32(self) -> int:
        return self._unpacked(">i")

    def int64(self) -> int:
        return self._unpacked(">q")

    def nullable_count(self) -> int:
        """Of an array; null has no elements either."""
        number = self.int32()
        return 0 if number == -1 else self._checked(number)

    def count(self) -> int:
        return self._checked(self.int32())

    def _checked(self, number: int) -> int:
        if not 0 <= number <= len(self._content):
            raise UnreadableRecord(f"an array of {number} elements in {len(self._content)} bytes")
        return number

    def string(self) -> str:
        found = self.nullable()
        if found is None:
            raise UnreadableRecord("a string is null")
        return found

    def nullable(self) -> str | None:
        length = self.int16()
        if length == -1:
            return None
        try:
            return self._taken(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnreadableRecord(str(error)) from None

    def octets(self) -> bytes:
        return self._taken(self.int32())

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._taken(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise UnreadableRecord("a varint of more than 5 bytes")

    def compact_count(self) -> int:
        """Of an array; null has no elements either."""
        return self._checked(max(0, self.varint() - 1))

    def compact_string(self) -> str:
        try:
            return self._taken(self.varint() - 1).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnreadableRecord(str(error)) from None

    def tags(self) -> dict[int, bytes]:
        return {self.varint(): self._taken(self.varint()) for _ in range(self._checked(self.varint()))}

    def _taken(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._content):
            raise UnreadableRecord(f"{length} bytes wanted of {len(self._content) - self._position}")
        taken = self._content[self._position : end]
        self._position = end
        return taken
