"""The controller's view of its cluster, and its decisions when brokers register and disappear.

A broker's incarnation (its broker epoch and directory ids) is stored beyond its session, so that the controller notices
a restart even if nobody watched it: a new incarnation counts as death, then birth (docs/replication.md R43;
KAFKA-7235).
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from reference_impl.core.controller.controller_rules import ControllerRules
from reference_impl.core.controller.election import after_lost_disk, settle
from reference_impl.core.identifiers import TopicPartition
from reference_impl.core.state import LiveBroker, PartitionState

_SOUND = ControllerRules()


@dataclass(frozen=True, kw_only=True)
class Topic:
    name: str
    topic_id: uuid.UUID
    configs: Mapping[str, str] = field(default_factory=dict)  # overrides only


@dataclass(frozen=True, kw_only=True)
class Incarnation:
    """The contents of /brokers/directories/N: the last registration of broker N that a controller acted on."""

    broker_epoch: int
    directory_ids: tuple[str, ...]
    # of the previous incarnation: the coordination log thereby shows a lost disk
    previous_directory_ids: tuple[str, ...] = ()
    version: int = -1  # version of the znode; -1: not written yet


@dataclass(kw_only=True)
class ClusterState:
    brokers: dict[int, LiveBroker] = field(default_factory=dict)
    incarnations: dict[int, Incarnation] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    unclean_by_default: bool = False
    rules: ControllerRules = _SOUND

    def eligible(self) -> frozenset[int]:
        """The live brokers that are not shutting down; only they may lead and join an ISR."""
        return _eligible(self.brokers)

    def topic_partitions(self, topic: str) -> list[PartitionState]:
        return [state for key, state in sorted(self.partitions.items()) if key.topic == topic]

    def topic_named_by(self, topic_id: uuid.UUID) -> Topic | None:
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def unclean_allowed(self, topic: str) -> bool:
        known = self.topics.get(topic)
        override = known.configs.get("unclean.leader.election.enable") if known is not None else None
        return self.unclean_by_default if override is None else override.strip().lower() == "true"


@dataclass(frozen=True, kw_only=True)
class BrokerChange:
    """The consequences of a new set of registrations: what to write, and which brokers need the full metadata."""

    brokers: Mapping[int, LiveBroker]
    born: frozenset[int]  # new, or returned as a new incarnation
    died: frozenset[int]  # gone, or replaced by a new incarnation
    lost_disks: frozenset[int]
    incarnations: Mapping[int, Incarnation]  # written together with the partitions
    partitions: tuple[PartitionState, ...]  # only changed partitions


def _eligible(brokers: Mapping[int, LiveBroker]) -> frozenset[int]:
    return frozenset(broker.broker_id for broker in brokers.values() if not broker.shutting_down)


def disk_was_lost(known: Incarnation, registered: LiveBroker) -> bool:
    """True if a directory id of the old registration changed or is missing: its replicas are lost."""
    return not set(known.directory_ids) <= set(registered.directory_ids)


def brokers_changed(state: ClusterState, registered: Mapping[int, LiveBroker]) -> BrokerChange:
    """Handles deaths first, then lost disks, then births, all in one step, so that each partition is written at most
    once."""
    assert all(broker_id == broker.broker_id for broker_id, broker in registered.items())
    brokers = {
        broker_id: state.brokers[broker_id] if _same_incarnation(state.brokers.get(broker_id), broker) else broker
        for broker_id, broker in registered.items()
    }
    renewed = {
        broker_id: broker
        for broker_id, broker in brokers.items()
        if broker_id in state.incarnations
        and state.rules.is_renewed(broker.broker_epoch, state.incarnations[broker_id].broker_epoch)
    }
    lost = {broker_id for broker_id, broker in renewed.items() if disk_was_lost(state.incarnations[broker_id], broker)}
    steady = {broker_id: broker for broker_id, broker in brokers.items() if broker_id not in renewed}
    changed = []
    for key, current in state.partitions.items():
        unclean = state.unclean_allowed(key.topic)
        # No unclean election while a new incarnation has not been started yet: it may be the in-sync replica.
        settled = settle(current, live=steady, eligible=_eligible(steady), rules=state.rules)
        for broker_id in sorted(lost):
            settled = after_lost_disk(settled, broker_id, eligible=_eligible(steady), rules=state.rules)
        settled = settle(settled, live=brokers, eligible=_eligible(brokers), unclean=unclean, rules=state.rules)
        if settled != current:
            changed.append(settled)
    return BrokerChange(
        brokers=brokers,
        born=frozenset(b for b, broker in brokers.items() if not _same_incarnation(state.brokers.get(b), broker)),
        died=frozenset(b for b, broker in state.brokers.items() if not _same_incarnation(broker, brokers.get(b))),
        lost_disks=frozenset(lost),
        incarnations=_incarnations(state, brokers),
        partitions=tuple(changed),
    )


def _same_incarnation(one: LiveBroker | None, other: LiveBroker | None) -> bool:
    return one is not None and other is not None and one.broker_epoch == other.broker_epoch


def _incarnations(state: ClusterState, brokers: Mapping[int, LiveBroker]) -> dict[int, Incarnation]:
    new = {}
    for broker_id, broker in brokers.items():
        known = state.incarnations.get(broker_id)
        if known is None or known.broker_epoch != broker.broker_epoch:
            new[broker_id] = Incarnation(
                broker_epoch=broker.broker_epoch,
                directory_ids=broker.directory_ids,
                previous_directory_ids=() if known is None else known.directory_ids,
                version=-1 if known is None else known.version,
            )
    return new


def leaderless_after(state: ClusterState, topic: str) -> list[PartitionState]:
    """Returns a topic's leaderless partitions that can get a leader now, for example because unclean election was
    allowed."""
    settled = [
        (
            current,
            settle(
                current,
                live=state.brokers,
                eligible=state.eligible(),
                unclean=state.unclean_allowed(topic),
                rules=state.rules,
            ),
        )
        for current in state.topic_partitions(topic)
    ]
    return [after for before, after in settled if after != before]


def shutting_down(state: ClusterState, broker_id: int) -> LiveBroker:
    assert broker_id in state.brokers
    return replace(state.brokers[broker_id], shutting_down=True)
