"""Decodes one record of KRaft's metadata log: its type, and the fields that belong to the cluster's history.

A value is three varints (frame, record type, record version) and then the fields in Kafka's flexible encoding. Only
types about leaders, ISRs, brokers, controllers and settings are decoded; others return None. A needed record with
unexpected trailing bytes is newer than this reader and is refused, because the history must be exact.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.cluster.books.record_fields import Fields, Ids, UndecodableError, unsigned_varint

_FRAME_VERSION = 1


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
    BrokerRegistered
    | BrokerUnregistered
    | BrokerChanged
    | TopicCreated
    | TopicRemoved
    | PartitionWritten
    | PartitionChanged
    | ElrCleared
    | ConfigWritten
    | FeatureWritten
    | TransactionMark
    | QuorumLeader
    | SnapshotHeader
)


def _broker_registered(fields: Fields, version: int) -> Record:
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
    directories = fields.tagged(log_directories=(0, Fields.identifiers)).get("log_directories", ())
    return BrokerRegistered(
        broker=broker,
        broker_epoch=broker_epoch,
        incarnation=incarnation,
        fenced=fenced,
        log_directories=directories,
    )


def _broker_changed(fields: Fields, version: int) -> Record:
    broker, broker_epoch = fields.int32(), fields.int64()
    tagged = fields.tagged(fenced=(0, Fields.int8), shutdown=(1, Fields.int8))
    return BrokerChanged(
        broker=broker,
        broker_epoch=broker_epoch,
        fenced={1: True, -1: False}.get(tagged.get("fenced", 0)),
        in_controlled_shutdown=tagged.get("shutdown", 0) == 1,
    )


def _partition_written(fields: Fields, version: int) -> Record:
    partition, topic_id = fields.int32(), fields.identifier()
    replicas, isr = fields.ids(), fields.ids()
    fields.ids()  # being removed
    fields.ids()  # being added
    leader, leader_epoch, partition_epoch = fields.int32(), fields.int32(), fields.int32()
    if version >= 1:
        fields.identifiers()  # the log directory of each replica
    tagged = fields.tagged(recovery=(0, Fields.int8), elr=(1, Fields.ids), last_known_elr=(2, Fields.ids))
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


def _partition_changed(fields: Fields, version: int) -> Record:
    partition, topic_id = fields.int32(), fields.identifier()
    tagged = fields.tagged(
        isr=(0, Fields.ids),
        leader=(1, Fields.int32),
        replicas=(2, Fields.ids),
        recovering=(5, lambda content: content.int8() == 1),
        elr=(6, Fields.ids),
        last_known_elr=(7, Fields.ids),
    )
    names = ("isr", "leader", "replicas", "recovering", "elr", "last_known_elr")
    return PartitionChanged(topic_id=topic_id, partition=partition, **{name: tagged.get(name) for name in names})


def _config_written(fields: Fields) -> Record:
    resource_type, resource, key = fields.int8(), fields.string(), fields.string()
    return ConfigWritten(resource_type=resource_type, resource=resource, key=key, value=fields.nullable_string())


def _fencing(fields: Fields, *, fenced: bool) -> Record:
    """Kafka before 3.3 has separate record types for fencing."""
    broker, broker_epoch = fields.int32(), fields.int64()
    return BrokerChanged(broker=broker, broker_epoch=broker_epoch, fenced=fenced, in_controlled_shutdown=False)


# Record types with needed tagged fields, or with fields added in later versions.
_VERSIONED: Mapping[int, Callable[[Fields, int], Record]] = {
    0: _broker_registered,
    3: _partition_written,
    5: _partition_changed,
    17: _broker_changed,
}
_PLAIN: Mapping[int, Callable[[Fields], Record]] = {
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
    fields = Fields(value)
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
    fields = Fields(value)
    if kind == _LEADER_CHANGE:
        fields.int16()
        return QuorumLeader(node=fields.int32())
    if kind == _SNAPSHOT_HEADER:
        fields.int16()
        return SnapshotHeader(last_wall_ms=fields.int64())
    return None
