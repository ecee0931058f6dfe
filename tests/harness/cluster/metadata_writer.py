"""Writes metadata logs byte by byte, independently of the reader under test."""

import base64
import struct
from collections.abc import Mapping, Sequence

import crc32c


def uuid_of(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def uuid_text(name: str) -> str:
    return base64.urlsafe_b64encode(uuid_of(name)).decode().rstrip("=")


def unsigned(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def zigzag(value: int) -> bytes:
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value: str | None) -> bytes:
    return b"\0" if value is None else unsigned(len(value.encode()) + 1) + value.encode()


def ids(values: Sequence[int]) -> bytes:
    return unsigned(len(values) + 1) + b"".join(struct.pack(">i", value) for value in values)


def uuids(names: Sequence[str]) -> bytes:
    return unsigned(len(names) + 1) + b"".join(map(uuid_of, names))


def tagged(fields: Mapping[int, bytes]) -> bytes:
    return unsigned(len(fields)) + b"".join(
        unsigned(tag) + unsigned(len(fields[tag])) + fields[tag] for tag in sorted(fields)
    )


def record(kind: int, version: int, fields: bytes, tags: Mapping[int, bytes] | None = None) -> bytes:
    return unsigned(1) + unsigned(kind) + unsigned(version) + fields + tagged(tags or {})


def topic(name: str) -> bytes:
    return record(2, 0, text(name) + uuid_of(name))


def partition(
    topic_name: str,
    *,
    leader: int,
    isr: Sequence[int],
    replicas: Sequence[int],
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    elr: Sequence[int] | None = None,
) -> bytes:
    fields = struct.pack(">i", 0) + uuid_of(topic_name) + ids(replicas) + ids(isr) + ids(()) + ids(())
    fields += struct.pack(">iii", leader, leader_epoch, partition_epoch) + uuids(["d"] * len(replicas))
    return record(3, 2, fields, {} if elr is None else {1: ids(elr)})


def change(topic_name: str, **fields: int | Sequence[int]) -> bytes:
    tags = {"isr": 0, "leader": 1, "replicas": 2, "recovery": 5, "elr": 6, "last_known_elr": 7}
    encoded = {}
    for name, value in fields.items():
        if isinstance(value, int):
            encoded[tags[name]] = struct.pack(">b" if name == "recovery" else ">i", value)
        else:
            encoded[tags[name]] = ids(value)
    return record(5, 2, struct.pack(">i", 0) + uuid_of(topic_name), encoded)


def registration(broker: int, *directories: str, fenced: bool = True) -> bytes:
    listener = text("INTERNAL") + text("node1") + struct.pack(">Hh", 9092, 0) + tagged({})
    feature = text("kraft.version") + struct.pack(">hh", 0, 1) + tagged({})
    fields = struct.pack(">ib", broker, 0) + uuid_of("incarnation") + struct.pack(">q", 7)
    fields += unsigned(2) + listener + unsigned(2) + feature + text(None) + struct.pack(">bb", fenced, 0)
    return record(0, 3, fields, {0: uuids(directories)} if directories else {})


def registration_change(broker: int, tags: Mapping[int, bytes]) -> bytes:
    return record(17, 2, struct.pack(">iq", broker, 7), tags)


def unregistration(broker: int) -> bytes:
    return record(1, 0, struct.pack(">iq", broker, 7))


def config(resource_type: int, resource: str, key: str, value: str | None) -> bytes:
    return record(4, 0, struct.pack(">b", resource_type) + text(resource) + text(key) + text(value))


def feature(name: str, level: int) -> bytes:
    return record(12, 0, text(name) + struct.pack(">h", level))


ELR_ON = feature("eligible.leader.replicas.version", 1)
NO_OP, BEGIN, END, ABORT = (record(kind, 0, b"") for kind in (20, 23, 24, 25))
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 2, 3, 4


def leader_change(node: int) -> bytes:
    return struct.pack(">hi", 0, node) + ids((node,)) + ids((node,)) + tagged({})


def snapshot_header(last_wall_ms: int) -> bytes:
    return struct.pack(">hq", 0, last_wall_ms) + tagged({})


def batch(
    base_offset: int,
    values: Sequence[bytes],
    *,
    epoch: int = 1,
    wall_ms: int = 1000,
    delta_ms: int = 0,
    control: int | None = None,
) -> bytes:
    """One version 2 batch; the records' times are wall_ms, wall_ms + delta_ms, ..."""
    records = b""
    for number, value in enumerate(values):
        key = zigzag(-1) if control is None else zigzag(4) + struct.pack(">hh", 0, control)
        content = b"\0" + zigzag(number * delta_ms) + zigzag(number) + key + zigzag(len(value)) + value + zigzag(0)
        records += zigzag(len(content)) + content
    last = len(values) - 1
    body = struct.pack(
        ">hiqqqhii", 0 if control is None else 0x20, last, wall_ms, wall_ms + last * delta_ms, -1, -1, -1, len(values)
    )
    checked = body + records
    return struct.pack(">qiibI", base_offset, 9 + len(checked), epoch, 2, crc32c.crc32c(checked)) + checked
