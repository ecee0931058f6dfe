"""Converts a KRaft metadata log to the exact history of the cluster: leaders, epochs, ISRs, ELRs, controllers,
settings.

Times are the active controller's wall clock in ms, placed on the run's time axis by its clock anchor; accurate to 1 ms.
"""

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Literal

from harness.cluster.books.metadata_log import MetadataEntry
from harness.cluster.books.metadata_records import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigWritten,
    ElrCleared,
    FeatureWritten,
    PartitionChanged,
    PartitionWritten,
    QuorumLeader,
    TopicCreated,
    TopicRemoved,
)
from harness.cluster.books.record_fields import Ids
from harness.history.facts.incarnations import TopicLife
from harness.host.clock import Anchor
from harness.ports.cluster import (
    BrokerEvent,
    ClusterHistory,
    ConfigurationChange,
    ControllerState,
    NodeId,
    PartitionState,
)
from harness.values import is_number

UNCERTAINTY_NS = 1_000_000
EXACT = -1  # the observer column of rows from the system's own records
_ELR_FEATURE = "eligible.leader.replicas.version"
_TOPIC, _BROKER = 2, 4  # Kafka's numbers for kinds of configured resources


_CHANGEABLE = ("leader", "isr", "replicas", "elr", "last_known_elr")


def _after(before: PartitionWritten, change: PartitionChanged) -> PartitionWritten:
    """Each record raises the partition epoch by one. The leader epoch rises whenever a record names a leader, even the
    same one: Kafka fences earlier requests this way."""
    named = {name: value for name in _CHANGEABLE if (value := getattr(change, name)) is not None}
    return replace(
        before,
        **named,
        leader_epoch=before.leader_epoch + (change.leader is not None),
        partition_epoch=before.partition_epoch + 1,
    )


class _Reader:
    """Processes the entries in order; the meaning of a change depends on the state at that moment."""

    def __init__(self, anchor: Anchor, registered: Set[tuple[int, int]]) -> None:
        """registered: (batch, broker) of every registration in the log."""
        self._anchor = anchor
        self._registered = registered
        self._topics: dict[str, str] = {}  # id -> name
        self._partitions: dict[tuple[str, int], PartitionWritten] = {}
        self._directories: dict[int, tuple[str, ...]] = {}
        self._fenced: dict[int, bool] = {}
        self._elr_in_use = False
        self.states: list[PartitionState] = []
        self.controllers: list[ControllerState] = []
        self.events: list[BrokerEvent] = []
        self.configuration: list[ConfigurationChange] = []
        self.topics: dict[str, TopicLife] = {}  # by id

    def take(self, entry: MetadataEntry) -> None:
        t_ns = self._anchor.monotonic_from_wall(entry.wall_ms * 1_000_000)
        match entry.record:
            case PartitionChanged() as record:
                self._take_change(t_ns, entry, record)
            case PartitionWritten() as record:
                self._now(t_ns, entry.epoch, (record.topic_id, record.partition), record)
            case ElrCleared(topic=topic):
                self._take_cleared(t_ns, entry.epoch, topic)
            case TopicCreated(name=name, topic_id=topic_id):
                self._topics[topic_id] = name
                self.topics[topic_id] = TopicLife(
                    topic=name, topic_id=topic_id, created_ns=t_ns, deleted_ns=None, uncertainty_ns=UNCERTAINTY_NS
                )
            case TopicRemoved(topic_id=topic_id):
                self._topics.pop(topic_id, None)
                if topic_id in self.topics:
                    self.topics[topic_id] = replace(self.topics[topic_id], deleted_ns=t_ns)
                self._partitions = {key: state for key, state in self._partitions.items() if key[0] != topic_id}
            case QuorumLeader(node=node):
                self.controllers.append(
                    ControllerState(t_ns=t_ns, uncertainty_ns=UNCERTAINTY_NS, node=node, controller_epoch=entry.epoch)
                )
            case BrokerRegistered() as record:
                self._take_registration(t_ns, record, as_event=not entry.from_snapshot)
            case BrokerChanged(broker=broker, broker_epoch=broker_epoch, fenced=bool(fenced)):
                if self._fenced.get(broker) != fenced:  # a broker that is shutting down is fenced more than once
                    self._fenced[broker] = fenced
                    self._event(t_ns, broker, "broker_fenced" if fenced else "broker_unfenced", broker_epoch)
            case BrokerUnregistered(broker=broker, broker_epoch=broker_epoch):
                self._event(t_ns, broker, "broker_gone", broker_epoch)
            case FeatureWritten(name=name, level=level):
                self._elr_in_use = level > 0 if name == _ELR_FEATURE else self._elr_in_use
                self.configuration.append(
                    ConfigurationChange(t_ns=t_ns, scope="feature", name="", node=-1, key=name, value=str(level))
                )
            case ConfigWritten() as record:
                self._take_config(t_ns, record)
            case _:
                pass  # a controlled shutdown: not part of the history

    def _take_change(self, t_ns: int, entry: MetadataEntry, change: PartitionChanged) -> None:
        key = (change.topic_id, change.partition)
        before = self._partitions.get(key)
        if before is not None:
            now = _after(before, change)
            # What a registration after an unclean shutdown changes is in one batch with it, and stands before it.
            gone = [node for node in before.elr if node not in (*now.elr, now.leader)]
            dropped = tuple(node for node in gone if (entry.batch, node) in self._registered)
            self._now(t_ns, entry.epoch, key, now, dropped)
            if change.recovering and change.topic_id in self._topics:
                self.events.append(
                    BrokerEvent(
                        node=NodeId(now.leader),
                        t_ns=t_ns,
                        event="unclean_election_marked",
                        topic=self._topics[change.topic_id],
                        partition=change.partition,
                        epoch=now.leader_epoch,
                    )
                )

    def _take_cleared(self, t_ns: int, epoch: int, topic: str) -> None:
        """A partition without eligible leader replicas does not change."""
        for key, before in list(self._partitions.items()):
            if topic in ("", self._topics.get(key[0])) and (before.elr or before.last_known_elr):
                now = replace(before, elr=(), last_known_elr=(), partition_epoch=before.partition_epoch + 1)
                self._now(t_ns, epoch, key, now)

    def _now(self, t_ns: int, epoch: int, key: tuple[str, int], now: PartitionWritten, elr_dropped: Ids = ()) -> None:
        self._partitions[key] = now
        topic = self._topics.get(key[0])
        if topic is None:
            return  # it is being deleted
        self.states.append(
            PartitionState(
                topic=topic,
                partition=key[1],
                t_ns=t_ns,
                uncertainty_ns=UNCERTAINTY_NS,
                exact=True,
                observer=EXACT,
                leader=now.leader,
                leader_epoch=now.leader_epoch,
                partition_epoch=now.partition_epoch,
                controller_epoch=epoch,
                isr=now.isr,
                replicas=now.replicas,
                elr=now.elr if self._elr_in_use or now.elr else None,
                topic_id=key[0],
                last_known_leader=now.last_known_elr[0] if now.last_known_elr else None,
                elr_dropped=elr_dropped,
            )
        )

    def _event(self, t_ns: int, broker: int, event: str, broker_epoch: int) -> None:
        self.events.append(
            BrokerEvent(node=NodeId(broker), t_ns=t_ns, event=event, detail=f"broker epoch {broker_epoch}")
        )

    def _take_registration(self, t_ns: int, record: BrokerRegistered, *, as_event: bool) -> None:
        """Every start registers again; a directory id that is missing afterwards means a lost disk."""
        if as_event:
            self._event(t_ns, record.broker, "broker_registered", record.broker_epoch)
        self._fenced[record.broker] = record.fenced
        previous = self._directories.get(record.broker, ())
        self._directories[record.broker] = record.log_directories
        if record.log_directories and not set(previous) <= set(record.log_directories):
            detail = f"registered with directory {list(record.log_directories)}, before it was {list(previous)}"
            self.events.append(
                BrokerEvent(node=NodeId(record.broker), t_ns=t_ns, event="directory_lost", detail=detail)
            )

    def _take_config(self, t_ns: int, record: ConfigWritten) -> None:
        """A removed key has an empty value; an empty broker name means every broker."""
        scope: Literal["topic", "broker", "cluster"]
        if record.resource_type == _TOPIC:
            scope = "topic"
        elif record.resource_type == _BROKER:
            scope = "broker" if record.resource else "cluster"
        else:
            return  # settings of clients, groups, loggers
        node = int(record.resource) if scope == "broker" and is_number(record.resource) else -1
        self.configuration.append(
            ConfigurationChange(
                t_ns=t_ns, scope=scope, name=record.resource, node=node, key=record.key, value=record.value or ""
            )
        )


def history_of(entries: Sequence[MetadataEntry], anchor: Anchor) -> ClusterHistory:
    registered = {
        (entry.batch, entry.record.broker)
        for entry in entries
        if isinstance(entry.record, BrokerRegistered) and not entry.from_snapshot
    }
    reader = _Reader(anchor, registered)
    for entry in entries:
        reader.take(entry)
    return ClusterHistory(
        partition_states=reader.states,
        controllers=reader.controllers,
        broker_events=reader.events,
        configuration=reader.configuration,
        topics=list(reader.topics.values()),
    )
