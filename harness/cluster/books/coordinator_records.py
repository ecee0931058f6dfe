"""Decodes the records of coordinators: of __consumer_offsets (committed offsets, generations, markers) and of
__transaction_state (a transactional id, its producer and the state of its transaction, KIP-98).

Key and value begin with a version. Of groups, keys 0 and 1 are committed offsets, 2 is a group of the classic protocol;
3, 6 and 8 are epochs of KIP-848. A record without a value is a tombstone. What is not known here is of kind "other",
since a release may add kinds and versions.

Ending a transaction is decided by the record in PrepareCommit or PrepareAbort. A record in CompleteCommit or
CompleteAbort follows once the markers are in all its partitions.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from harness.cluster.books.record_fields import Fields, UndecodableError
from harness.history.schema.internal_rows import TransactionState
from harness.ports.coordinator_logs import OffsetsRecord, TransactionRecord

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


# ---- __transaction_state --------------------------------------------------------------------------------------------


_STATES: Mapping[int, TransactionState] = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
UNKNOWN = TransactionRecord(transactional_id=None)


def decode_transaction(key: bytes | None, value: bytes | None) -> TransactionRecord:
    """Key version 0; value version 0, or 1, which is flexible (KIP-890)."""
    try:
        fields = Fields(key or b"", flexible=False)
        if fields.int16() != 0:
            return UNKNOWN
        transactional_id = fields.string()
        if value is None:
            return TransactionRecord(transactional_id=transactional_id, removed=True)
        return _value(transactional_id, value)
    except UndecodableError:
        return UNKNOWN


def _value(transactional_id: str, value: bytes) -> TransactionRecord:
    version = Fields(value, flexible=False).int16()
    if version > 1:
        return TransactionRecord(transactional_id=transactional_id)
    fields = Fields(value, 2, flexible=version == 1)
    producer_id, producer_epoch, timeout_ms = fields.int64(), fields.int16(), fields.int32()
    state = _STATES.get(fields.int8())

    def partitions() -> tuple[tuple[str, int], ...]:
        topic, numbers = fields.string(), fields.ids()
        fields.tagged()
        return tuple((topic, number) for number in numbers)

    places = tuple(place for topic in fields.array(partitions) for place in topic)
    fields.int64()  # when it was written
    begun_ms = fields.int64()
    return TransactionRecord(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        state=state,
        timeout_ms=timeout_ms,
        begun_wall_ms=None if begun_ms == -1 else begun_ms,
        partitions=places,
    )
