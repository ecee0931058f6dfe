"""The records of __consumer_offsets in Kafka's binary format: committed offsets and groups.

Key and value begin with their version. Written are the versions that every Kafka since 2.3 reads: OffsetCommitKey 1,
GroupMetadataKey 2, and version 3 of both values; an offset with a time of expiry of its own (OffsetCommit before
version 5) gets OffsetCommitValue 1, which alone has that field. Read are all versions below those, too.
"""

from dataclasses import dataclass

from reference_impl.wire.key_values import KeyValue
from reference_impl.wire.record_fields import Reader, UnreadableRecord, Writer

NO_TIME = -1
NO_EPOCH = -1

_OFFSET_KEYS = (0, 1)
_GROUP_KEY = 2
_OFFSET_VALUE, _OFFSET_VALUE_EXPIRING, _OFFSET_VALUE_MAX = 3, 1, 3
_GROUP_VALUE, _GROUP_VALUE_MAX = 3, 3


@dataclass(frozen=True, kw_only=True)
class OffsetKey:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, kw_only=True)
class GroupKey:
    group_id: str


@dataclass(frozen=True, kw_only=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    committed_ms: int = NO_TIME
    expires_ms: int = NO_TIME  # only if the request asked for it


@dataclass(frozen=True, kw_only=True)
class StoredMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, kw_only=True)
class StoredGroup:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since_ms: int
    members: tuple[StoredMember, ...]


def offset_record(key: OffsetKey, value: CommittedOffset | None) -> KeyValue:
    written = Writer().int16(_OFFSET_KEYS[-1]).string(key.group_id).string(key.topic).int32(key.partition).content
    return KeyValue(written, None if value is None else _offset_value(value))


def group_record(key: GroupKey, value: StoredGroup | None) -> KeyValue:
    written = Writer().int16(_GROUP_KEY).string(key.group_id).content
    return KeyValue(written, None if value is None else _group_value(value))


def _offset_value(value: CommittedOffset) -> bytes:
    if value.expires_ms != NO_TIME:
        writer = Writer().int16(_OFFSET_VALUE_EXPIRING).int64(value.offset).string(value.metadata)
        return writer.int64(value.committed_ms).int64(value.expires_ms).content
    writer = Writer().int16(_OFFSET_VALUE).int64(value.offset).int32(value.leader_epoch)
    return writer.string(value.metadata).int64(value.committed_ms).content


def _group_value(value: StoredGroup) -> bytes:
    writer = Writer().int16(_GROUP_VALUE).string(value.protocol_type).int32(value.generation)
    writer.nullable(value.protocol).nullable(value.leader).int64(value.state_since_ms).int32(len(value.members))
    for member in value.members:
        writer.string(member.member_id).nullable(member.instance_id).string(member.client_id)
        writer.string(member.client_host).int32(member.rebalance_timeout_ms).int32(member.session_timeout_ms)
        writer.octets(member.subscription).octets(member.assignment)
    return writer.content


Decoded = tuple[OffsetKey, CommittedOffset | None] | tuple[GroupKey, StoredGroup | None]


def decode(key: bytes | None, value: bytes | None) -> Decoded:
    """Raises UnreadableRecord; a value of None is a tombstone."""
    reader = Reader(key or b"")
    version = reader.int16()
    if version in _OFFSET_KEYS:
        offset_key = OffsetKey(group_id=reader.string(), topic=reader.string(), partition=reader.int32())
        return offset_key, None if value is None else _read_offset(Reader(value))
    if version == _GROUP_KEY:
        return GroupKey(group_id=reader.string()), None if value is None else _read_group(Reader(value))
    raise UnreadableRecord(f"a key of version {version}")


def _read_offset(reader: Reader) -> CommittedOffset:
    version = reader.int16()
    if not 0 <= version <= _OFFSET_VALUE_MAX:
        raise UnreadableRecord(f"an offset of version {version}")
    return CommittedOffset(
        offset=reader.int64(),
        leader_epoch=reader.int32() if version >= 3 else NO_EPOCH,
        metadata=reader.string(),
        committed_ms=reader.int64(),
        expires_ms=reader.int64() if version == _OFFSET_VALUE_EXPIRING else NO_TIME,
    )


def _read_group(reader: Reader) -> StoredGroup:
    version = reader.int16()
    if not 0 <= version <= _GROUP_VALUE_MAX:
        raise UnreadableRecord(f"a group of version {version}")
    return StoredGroup(
        protocol_type=reader.string(),
        generation=reader.int32(),
        protocol=reader.nullable(),
        leader=reader.nullable(),
        state_since_ms=reader.int64() if version >= 2 else NO_TIME,
        members=tuple(_read_member(reader, version) for _ in range(reader.count())),
    )


def _read_member(reader: Reader, version: int) -> StoredMember:
    member_id = reader.string()
    instance_id = reader.nullable() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else None
    session_timeout_ms = reader.int32()
    return StoredMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=reader.octets(),
        assignment=reader.octets(),
    )
