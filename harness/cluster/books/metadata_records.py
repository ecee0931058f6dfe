"""Decodes one record of KRaft's metadata log: its type, and the fields that belong to the cluster's history.

A value is three varints (frame, record type, record version) and then the fields in Kafka's flexible encoding. Only
types about leaders, ISRs, brokers, controllers and settings are decoded; others return None. A needed record with
unexpected trailing bytes is newer than this reader and is refused, because the history must be exact.
"""

import base64
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

_FRAME_VERSION = 1
_INT8, _INT16, _INT32, _INT64 = (struct.Struct(form) for form in (">b", ">h", ">i", ">q"))
_Value = TypeVar("_Value")
Ids = tuple[int, ...]


class UndecodableError(ValueError):
    """The bytes are not a known record; the message names type, version and reason."""


@dataclass(frozen=True, kw_only=True)
class BrokerRegistered:
    broker: int
    broker_epoch: int
    incarnation: str
    fenced: bool
    log_directories: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BrokerUnregistered:
    broker: int
    broker_epoch: int


@dataclass(frozen=True, kw_only=True)
class BrokerChanged:
    """fenced None: unchanged."""

    broker: int
    broker_epoch: int
    fenced: bool | None
    in_controlled_shutdown: bool


@dataclass(frozen=True, kw_only=True)
class TopicCreated:
    name: str
    topic_id: str


@dataclass(frozen=True, kw_only=True)
class TopicRemoved:
    topic_id: str


@dataclass(frozen=True, kw_only=True)
class PartitionWritten:
    """A partition's whole state: it was created, or a snapshot contains it."""

    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: Ids
    replicas: Ids
    recovering: bool
    elr: Ids
    last_known_elr: Ids


@dataclass(frozen=True, kw_only=True)
class PartitionChanged:
    """None: unchanged. A named leader raises the leader epoch, even if it is the same one."""

    topic_id: str
    partition: int
    leader: int | None
    isr: Ids | None
    replicas: Ids | None
    recovering: bool | None
    elr: Ids | None
    last_known_elr: Ids | None


@dataclass(frozen=True, kw_only=True)
class ElrCleared:
    """For one topic; for all topics if the name is empty."""

    topic: str


@dataclass(frozen=True, kw_only=True)
class ConfigWritten:
    """value None: the key was removed."""

    resource_type: int
    resource: str
    key: str
    value: str | None


@dataclass(frozen=True, kw_only=True)
class FeatureWritten:
    name: str
    level: int


@dataclass(frozen=True, kw_only=True)
class TransactionMark:
    """A mark of the metadata log's own transactions: records between a begin and an abort have no effect."""

    mark: str  # "begin" | "end" | "abort"


@dataclass(frozen=True, kw_only=True)
class QuorumLeader:
    """A control record: from this epoch on the node leads the quorum, so it is the active controller."""

    node: int


@dataclass(frozen=True, kw_only=True)
class SnapshotHeader:
    """A control record: the append time of the last log record that the snapshot includes."""

    last_wall_ms: int


Record = (
    BrokerRegistered | BrokerUnregistered | BrokerChanged | TopicCreated | TopicRemoved | PartitionWritten
    | PartitionChanged | ElrCleared | ConfigWritten | FeatureWritten | TransactionMark | QuorumLeader | SnapshotHeader
)  # fmt: skip


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


class _Fields:
    """Kafka's flexible encoding: lengths are varints plus one, 0 is null; tagged fields come last."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._at = position

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
        length = self.varint()
        return None if length == 0 else self._take(length - 1).decode("utf-8", errors="replace")

    def string(self) -> str:
        return self.nullable_string() or ""

    def array(self, element: Callable[[], _Value]) -> tuple[_Value, ...]:
        """A null array becomes an empty one: none of the fields read here distinguishes them."""
        return tuple(element() for _ in range(max(self.varint() - 1, 0)))

    def ids(self) -> Ids:
        return self.array(self.int32)

    def identifiers(self) -> tuple[str, ...]:
        return self.array(self.identifier)

    def tagged(self, **readers: tuple[int, Callable[["_Fields"], Any]]) -> dict[str, Any]:
        """Returns the wanted tagged fields that are present, by name; skips others."""
        wanted = {tag: (name, reader) for name, (tag, reader) in readers.items()}
        found: dict[str, Any] = {}
        for _ in range(self.varint()):
            tag = self.varint()
            content = _Fields(self._take(self.varint()))
            if tag in wanted:
                name, reader = wanted[tag]
                found[name] = reader(content)
        return found


def _broker_registered(fields: _Fields, version: int) -> Record:
    broker = fields.int32()
    if version >= 2:
        fields.boolean()  # migrates from ZooKeeper
    incarnation, broker_epoch = fields.identifier(), fields.int64()
    fields.array(
        lambda: (fields.string(), fields.string(), fields.int16(), fields.int16(), fields.tagged())
    )  # listeners
    fields.array(lambda: (fields.string(), fields.int16(), fields.int16(), fields.tagged()))  # features
    fields.nullable_string()  # rack
    fenced = fields.boolean()
    if version >= 1:
        fields.boolean()  # in controlled shutdown
    directories = fields.tagged(log_directories=(0, _Fields.identifiers)).get("log_directories", ())
    return BrokerRegistered(
        broker=broker,
        broker_epoch=broker_epoch,
        incarnation=incarnation,
        fenced=fenced,
        log_directories=directories,
    )


def _broker_changed(fields: _Fields, version: int) -> Record:
    broker, broker_epoch = fields.int32(), fields.int64()
    tagged = fields.tagged(fenced=(0, _Fields.int8), shutdown=(1, _Fields.int8))
    return BrokerChanged(
        broker=broker,
        broker_epoch=broker_epoch,
        fenced={1: True, -1: False}.get(tagged.get("fenced", 0)),
        in_controlled_shutdown=tagged.get("shutdown", 0) == 1,
    )


def _partition_written(fields: _Fields, version: int) -> Record:
    partition, topic_id = fields.int32(), fields.identifier()
    replicas, isr = fields.ids(), fields.ids()
    fields.ids()  # being removed
    fields.ids()  # being added
    leader, leader_epoch, partition_epoch = fields.int32(), fields.int32(), fields.int32()
    if version >= 1:
        fields.identifiers()  # the log directory of each replica
    tagged = fields.tagged(recovery=(0, _Fields.int8), elr=(1, _Fields.ids), last_known_elr=(2, _Fields.ids))
    return PartitionWritten(
        topic_id=topic_id,
        partition=partition,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        isr=isr,
        replicas=replicas,
        recovering=tagged.get("recovery", 0) == 1,
        elr=tagged.get("elr", ()),
        last_known_elr=tagged.get("last_known_elr", ()),
    )


def _partition_changed(fields: _Fields, version: int) -> Record:
    partition, topic_id = fields.int32(), fields.identifier()
    tagged = fields.tagged(
        isr=(0, _Fields.ids),
        leader=(1, _Fields.int32),
        replicas=(2, _Fields.ids),
        recovering=(5, lambda content: content.int8() == 1),
        elr=(6, _Fields.ids),
        last_known_elr=(7, _Fields.ids),
    )
    names = ("isr", "leader", "replicas", "recovering", "elr", "last_known_elr")
    return PartitionChanged(topic_id=topic_id, partition=partition, **{name: tagged.get(name) for name in names})


def _config_written(fields: _Fields) -> Record:
    resource_type, resource, key = fields.int8(), fields.string(), fields.string()
    return ConfigWritten(resource_type=resource_type, resource=resource, key=key, value=fields.nullable_string())


def _fencing(fields: _Fields, *, fenced: bool) -> Record:
    """Kafka before 3.3 has separate record types for fencing."""
    broker, broker_epoch = fields.int32(), fields.int64()
    return BrokerChanged(broker=broker, broker_epoch=broker_epoch, fenced=fenced, in_controlled_shutdown=False)


# Record types with needed tagged fields, or with fields added in later versions.
_VERSIONED: Mapping[int, Callable[[_Fields, int], Record]] = {
    0: _broker_registered,
    3: _partition_written,
    5: _partition_changed,
    17: _broker_changed,
}
_PLAIN: Mapping[int, Callable[[_Fields], Record]] = {
    1: lambda fields: BrokerUnregistered(broker=fields.int32(), broker_epoch=fields.int64()),
    2: lambda fields: TopicCreated(name=fields.string(), topic_id=fields.identifier()),
    4: _config_written,
    7: lambda fields: _fencing(fields, fenced=True),
    8: lambda fields: _fencing(fields, fenced=False),
    9: lambda fields: TopicRemoved(topic_id=fields.identifier()),
    12: lambda fields: FeatureWritten(name=fields.string(), level=fields.int16()),
    23: lambda fields: TransactionMark(mark="begin"),
    24: lambda fields: TransactionMark(mark="end"),
    25: lambda fields: TransactionMark(mark="abort"),
    28: lambda fields: ElrCleared(topic=fields.string()),
}
_LEADER_CHANGE, _SNAPSHOT_HEADER = 2, 3


def record_type(value: bytes) -> int:
    frame, position = unsigned_varint(value, 0)
    if frame != _FRAME_VERSION:
        raise UndecodableError(f"frame version {frame}, known is {_FRAME_VERSION}")
    return unsigned_varint(value, position)[0]


def decode(value: bytes) -> Record | None:
    """Returns None for a type that is not needed. Raises UndecodableError."""
    kind = record_type(value)
    if kind not in _VERSIONED and kind not in _PLAIN:
        return None
    fields = _Fields(value)
    fields.varint()
    fields.varint()
    version = fields.varint()
    try:
        if kind in _VERSIONED:
            record = _VERSIONED[kind](fields, version)
        else:
            record = _PLAIN[kind](fields)
            fields.tagged()
    except UndecodableError as error:
        raise UndecodableError(f"record type {kind} version {version}: {error}") from error
    if not fields.at_end:
        raise UndecodableError(f"record type {kind} version {version} has more fields than are known")
    return record


def decode_control(kind: int, value: bytes) -> Record | None:
    """Control records have their type in the record's key and a plain value."""
    fields = _Fields(value)
    if kind == _LEADER_CHANGE:
        fields.int16()
        return QuorumLeader(node=fields.int32())
    if kind == _SNAPSHOT_HEADER:
        fields.int16()
        return SnapshotHeader(last_wall_ms=fields.int64())
    return None
