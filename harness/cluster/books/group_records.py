"""Decodes a record of __consumer_offsets: offsets that groups committed, their generations, and markers.

Key and value begin with a version. Keys 0 and 1 are committed offsets, 2 is a group of the classic protocol; 3, 6 and
8 are epochs of KIP-848. A record without a value is a tombstone. What is not known here is of kind "other", since a
release may add kinds and versions.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from harness.cluster.books.record_fields import Fields, UndecodableError
from harness.ports.coordinator_logs import OffsetsRecord

_COMMIT = 1  # of a control record: KIP-98
_FLEXIBLE_FROM = 4  # of OffsetCommitValue and GroupMetadataValue
_NO_TIME = -1
OTHER = OffsetsRecord(kind="other")


def decode(key: bytes | None, value: bytes | None) -> OffsetsRecord:
    """Of a data record."""
    try:
        fields = Fields(key or b"", flexible=False)
        kind = fields.int16()
        if kind not in _KEYS:
            return OTHER
        known = _KEYS[kind](fields)
        if value is None:
            return replace(known, removed=True)
        return _VALUES[known.kind](known, value)
    except UndecodableError:
        return OTHER


def decode_marker(key: bytes | None) -> OffsetsRecord:
    """Of a control record: it ends a transaction."""
    try:
        fields = Fields(key or b"", flexible=False)
        fields.int16()
        return OffsetsRecord(kind="marker", commits=fields.int16() == _COMMIT)
    except UndecodableError:
        return OTHER


def _offset_key(fields: Fields) -> OffsetsRecord:
    group, topic, partition = fields.string(), fields.string(), fields.int32()
    return OffsetsRecord(kind="offset", group=group, topic=topic, topic_partition=partition)


_KEYS: Mapping[int, Callable[[Fields], OffsetsRecord]] = {
    0: _offset_key,
    1: _offset_key,
    2: lambda fields: OffsetsRecord(kind="group", group=fields.string()),
    3: lambda fields: OffsetsRecord(kind="group_epoch", group=fields.string()),
    6: lambda fields: OffsetsRecord(kind="assignment_epoch", group=fields.string()),
    8: lambda fields: OffsetsRecord(kind="member_epoch", group=fields.string(), member=fields.string()),
}


def _offset(known: OffsetsRecord, value: bytes) -> OffsetsRecord:
    """OffsetCommitValue 0 to 4: 1 alone has a time of expiry (KIP-211), 3 has the leader epoch (KIP-320)."""
    version, fields = _opened(value)
    if version > 4:
        return OTHER
    offset = fields.int64()
    epoch = fields.int32() if version >= 3 else None
    fields.string()  # metadata
    committed_ms = fields.int64()
    expires_ms = fields.int64() if version == 1 else _NO_TIME
    return replace(
        known,
        committed_offset=offset,
        committed_leader_epoch=epoch if epoch is not None and epoch >= 0 else None,
        commit_wall_ms=committed_ms if committed_ms >= 0 else None,
        expire_wall_ms=expires_ms if expires_ms >= 0 else None,
    )


def _group(known: OffsetsRecord, value: bytes) -> OffsetsRecord:
    """GroupMetadataValue 0 to 4."""
    version, fields = _opened(value)
    if version > 4:
        return OTHER
    fields.string()  # kind of protocol
    generation = fields.int32()
    fields.nullable_string()  # protocol
    fields.nullable_string()  # leader
    if version >= 2:
        fields.int64()  # since when it is in its state

    def member() -> str:
        name = fields.string()
        if version >= 3:
            fields.nullable_string()  # instance id
        fields.string()  # client id
        fields.string()  # host
        if version >= 1:
            fields.int32()  # rebalance time-out
        fields.int32()  # session time-out
        fields.octets()  # subscription
        fields.octets()  # assignment
        fields.tagged()
        return name

    return replace(known, generation=generation, members=fields.array(member))


def _epoch(known: OffsetsRecord, value: bytes) -> OffsetsRecord:
    """The values of KIP-848 begin with the epoch."""
    _, fields = _opened(value)
    return replace(known, generation=fields.int32())


def _opened(value: bytes) -> tuple[int, Fields]:
    version = Fields(value, flexible=False).int16()
    return version, Fields(value, 2, flexible=version >= _FLEXIBLE_FROM)


_VALUES: Mapping[str, Callable[[OffsetsRecord, bytes], OffsetsRecord]] = {
    "offset": _offset,
    "group": _group,
    "group_epoch": _epoch,
    "assignment_epoch": _epoch,
    "member_epoch": _epoch,
}
