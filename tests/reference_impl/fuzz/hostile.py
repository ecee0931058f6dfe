"""Malformed and hostile requests from a seed: messages of every API with extreme values, then with flipped bits, cut
ends, false lengths and repeated parts.

Values are drawn so that a request that is valid by accident does no harm: it deletes and changes only what hostile
requests created.
"""

import struct
from collections.abc import Callable
from random import Random
from typing import Any

from reference_impl.coordination.jute import JuteWriter
from reference_impl.coordination.records import Acl, ConnectRequest, OpCode
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import INTERNAL_ONLY, SUPPORTED, encode_request, request_class
from tests.reference_impl.odd_batches import CASES

STRUCK, LOOKED_AT = "struck", "looked-at"  # the topics that produce, fetch and lookups aim at
PARTITIONS = 3  # of each of them, each led by another broker
_AIMED = (ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH)
_API_KEYS = (*SUPPORTED, *INTERNAL_ONLY)
_STRANGE_TEXTS = ("", ".", "..", "no-such", "a" * 249, "a" * 250, "\0", "../../etc", "x y", "\N{SNOWMAN}", "r" * 5000)
_LIMITS = {kind: 2 ** (bits - 1) for kind, bits in (("int8", 8), ("int16", 16), ("int32", 32), ("int64", 64))}
_SMALL = [case for case in CASES if len(case.data) < 5000]
_BATCHES = tuple(case.data for case in _SMALL + 3 * [case for case in _SMALL if not case.header])
_PATHS = (
    *("/fuzz", "/fuzz/a", "/fuzz/a/b", "/fuzz/b-", "/fuzz/" + "n" * 3000),
    *("/none/at/all", "", "//", "/fuzz/", "/fuzz/../fuzz", "fuzz", "/fuzz/\0"),
)
_FRAME_LENGTHS = (-1, 0, 1, 3, 2**31 - 1, -(2**31), 2**30)


class Hostile:
    """`bytes` to be written to a connection as they are, frame lengths and all."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def to_broker(self) -> bytes:
        return self._spoilt(self._kafka_request())

    def to_coordination(self) -> bytes:
        """For a connection that said nothing yet: a session first, most of the time."""
        random = self._random
        frames = [self._connect()] if random.random() < 0.9 else []
        frames += [self._operation() for _ in range(random.randrange(4))]
        return b"".join(self._spoilt(frame) if random.random() < 0.3 else frame for frame in frames)

    # Spoiling

    def _spoilt(self, frame: bytes) -> bytes:
        """The fewest are left as they are, and many are spoilt in one place, so that most of each is understood."""
        random = self._random
        spoil: Callable[[bytearray], None] = random.choices(
            (_leave, self._flip, self._cut, self._insert, self._repeat, self._overwrite, self._replace),
            weights=(25, 30, 10, 8, 7, 15, 5),
        )[0]
        content = bytearray(frame[4:])
        spoil(content)
        length = len(content) if random.random() < 0.95 else random.choice(_FRAME_LENGTHS)
        return struct.pack(">i", length) + content

    def _flip(self, content: bytearray) -> None:
        for _ in range(self._random.randint(1, 6)):
            if content:
                content[self._random.randrange(len(content))] ^= 1 << self._random.randrange(8)

    def _cut(self, content: bytearray) -> None:
        del content[self._random.randint(0, len(content)) :]

    def _insert(self, content: bytearray) -> None:
        at = self._random.randint(0, len(content))
        content[at:at] = self._random.randbytes(self._random.randint(1, 40))

    def _repeat(self, content: bytearray) -> None:
        start = self._random.randint(0, len(content))
        content += content[start:] * self._random.randint(1, 3)

    def _overwrite(self, content: bytearray) -> None:
        """A number, most likely a length or a count, becomes an extreme one."""
        number = self._random.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0" * 4, b"\xff\xff", b"\x7f"))
        at = self._random.randint(0, max(0, len(content) - len(number)))
        content[at : at + len(number)] = number

    def _replace(self, content: bytearray) -> None:
        content[:] = self._random.randbytes(self._random.randint(0, 300))

    # Kafka

    def _kafka_request(self) -> bytes:
        random = self._random
        api_key = random.choice(_AIMED if random.random() < 0.4 else _API_KEYS)
        version = random.choice({**SUPPORTED, **INTERNAL_ONLY}[api_key].versions)
        message_class = request_class(api_key)
        values = self._fields(message_class._struct, message_class, version, api_key)
        client = random.choice((None, "", "hostile", "c" * 1000))
        try:
            return encode_request(api_key, version, random.randint(-5, 5), client, message_class(**values))
        except (struct.error, TypeError, ValueError, AttributeError):  # a null where the encoder wants a value
            return encode_request(api_key, version, 1, client, message_class(**_without_nulls(values)))

    def _fields(self, schema: Any, data_class: Any, version: int, api_key: int) -> dict[str, Any]:
        return {
            field.name: self._value(field, version, api_key)
            for field in schema.fields.values()
            if field.for_version_q(version)
        }

    def _value(self, field: Any, version: int, api_key: int) -> Any:
        random = self._random
        if field.is_array():
            if field.nullable_for_version_q(version) and random.random() < 0.1:
                return None
            inner = field.array_of
            return [self._element(inner, version, api_key) for _ in range(random.choice((0, 1, 1, 1, 2, 3)))]
        return self._element(field, version, api_key)

    def _element(self, field: Any, version: int, api_key: int) -> Any:
        random = self._random
        if field.is_struct():
            return field.data_class(**self._fields(field, field.data_class, version, api_key))
        kind = field.type_str
        if kind in _LIMITS:
            return self._number(field.name, kind)
        if kind == "string":
            if field.nullable_for_version_q(version) and random.random() < 0.2:
                return None
            aimed = api_key in _AIMED and random.random() < 0.8
            return random.choice((STRUCK, LOOKED_AT) if aimed else _STRANGE_TEXTS)
        if kind in ("records", "bytes"):
            return random.choice(_BATCHES)
        if kind == "bool":
            return random.random() < 0.5
        if kind == "uuid":
            return None
        return random.choice((0, 1))

    def _number(self, name: str, kind: str) -> int:
        random, limit = self._random, _LIMITS[kind]
        if name in ("num_partitions", "count", "replication_factor"):
            return random.choice((-1, 0, 1))  # how many partitions a topic may have is no question of form
        if name in ("index", "partition", "partition_index") and random.random() < 0.9:
            return random.randrange(PARTITIONS)
        if name in ("acks", "replica_id", "current_leader_epoch", "session_id") and random.random() < 0.9:
            return random.choice((-1, 0, 1) if name == "acks" else (-1, 0))
        return random.choice((0, 0, 1, -1, 2, 100, limit - 1, -limit, random.randrange(-limit, limit)))

    # The coordination service

    def _connect(self) -> bytes:
        random, writer = self._random, JuteWriter()
        ConnectRequest(
            last_zxid_seen=random.choice((0, 0, 0, 0, 0, 0, 0, -1, -(2**63), 2**62)),
            timeout_ms=random.choice((0, 500, 1000, -1, -(2**31))),
            session_id=random.choice((0, 0, 0, 0, 0, 0, 0, 1, -1, 2**63 - 1)),
            password=random.choice((bytes(16), b"", random.randbytes(16))),
            read_only=random.choice((None, True, False)),
        ).write(writer)
        return _framed(writer)

    def _operation(self) -> bytes:
        random, writer = self._random, JuteWriter()
        code = random.choice((*OpCode, 0, 7, 10, 16, 17, 18, 19, 20, 103, 2**31 - 1, -(2**31)))
        writer.integer(random.choice((1, 2, -1, -2, -4, -8, 2**31 - 1)))
        writer.integer(code)
        if code == OpCode.MULTI:
            for _ in range(random.randrange(4)):
                inner = random.choice((OpCode.CREATE, OpCode.DELETE, OpCode.SET_DATA, OpCode.CHECK, OpCode.MULTI, 77))
                writer.integer(inner)
                writer.boolean(random.random() < 0.1)
                writer.integer(random.choice((-1, 0)))
                self._operands(writer, inner)
            writer.integer(-1)
            writer.boolean(True)
            writer.integer(-1)
        else:
            self._operands(writer, code)
        return _framed(writer)

    def _operands(self, writer: JuteWriter, code: int) -> None:
        random = self._random
        if code == OpCode.SET_WATCHES:
            writer.long(random.choice((0, -1, 2**62)))
            for _ in range(3):
                writer.vector([self._path() for _ in range(random.randrange(3))], writer.string)
            return
        writer.string(self._path())
        if code in (OpCode.CREATE, OpCode.CREATE2, OpCode.SET_DATA):
            writer.buffer(random.choice((None, b"", b"data", bytes(5000))))
        if code in (OpCode.CREATE, OpCode.CREATE2):
            acl = Acl(permissions=random.choice((31, 0, -1)), scheme=random.choice(("world", "")), identity="anyone")
            writer.vector((acl,) * random.randrange(3), lambda each: each.write(writer))
            writer.integer(random.choice((0, 1, 2, 3, 4, 7, -1, 2**31 - 1)))
        elif code in (OpCode.DELETE, OpCode.SET_DATA, OpCode.CHECK):
            writer.integer(random.choice((-1, 0, 5, -(2**31))))
        else:
            writer.boolean(random.random() < 0.5)

    def _path(self) -> str:
        return self._random.choice(_PATHS)


def _leave(content: bytearray) -> None:
    """As it is."""


def _framed(writer: JuteWriter) -> bytes:
    return struct.pack(">i", len(writer.data)) + writer.data


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
