"""Invariants of replication, watched from outside at every replica of a simulated run after each step of the loop.

They hold of Kafka's replication whatever clients see of it (docs/replication.md: R5, R9, R11 to R14, R20 to R24): one
leader an epoch; a leader's high watermark never goes back within its epoch and never lies above its log's end; below
its high watermark a replica has the leader's batches; the leader, and every other member of the ISR, has all that was
committed; and what acks=all was answered for.

A disk that loses records, and an election of a replica outside the ISR, take committed records lawfully: of the
partitions that they touch only what no loss excuses is watched from then on. Compacted logs differ lawfully, too. What
a node that is down has, nobody looks at.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.cluster.simulated.coordinator_invariants import (
    COORDINATED,
    GENERATION,
    PRODUCER_EPOCH,
    TRANSACTION_MOVES,
    CoordinatorStates,
)
from harness.host.clock import Clock
from harness.ports.cluster import NodeId
from reference_impl.core.identifiers import TopicPartition
from reference_impl.core.partition import Partition
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.wire.record_batches import parse_headers

ONE_LEADER = "one-leader-an-epoch"
MONOTONIC = "high-watermark-monotonic"
WITHIN_LOG = "high-watermark-within-log"
MATCHING = "log-matching"
COMMITTED = "committed-on-isr"
ACKNOWLEDGED = "acknowledged-on-isr"
INVARIANTS = (
    *(ONE_LEADER, MONOTONIC, WITHIN_LOG, MATCHING, COMMITTED, ACKNOWLEDGED),
    *(TRANSACTION_MOVES, PRODUCER_EPOCH, GENERATION),
)

_EVENTS_KEPT = 40
_READ_BYTES = 1 << 20
_Batch = tuple[int, int, int, int]  # base offset, next offset, leader epoch, checksum


@dataclass(frozen=True, kw_only=True)
class Broken:
    """at_ns: on the run's clock. wanted, seen: offsets; node numbers, states, epochs or generations. events: the newest
    changes of the partition's replicas, oldest first."""

    invariant: str
    topic: str
    partition: int
    node: int
    leader_epoch: int
    wanted: int
    seen: int
    at_ns: int
    events: tuple[dict[str, Any], ...]


@dataclass(kw_only=True)
class _Known:
    """What is known of one partition of one topic. leader_epoch: the newest that any replica knows. may_join: who was
    in the ISR of its newest leader, or was about to be. may_have_lost: something took committed records lawfully."""

    committed_end: int = 0
    batches: dict[int, _Batch] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)  # of an epoch
    leader_epoch: int = -1
    may_join: frozenset[int] = frozenset()
    may_have_lost: bool = False
    high_watermarks: dict[tuple[int, int], int] = field(default_factory=dict)  # of a node as leader of an epoch
    matching_to: dict[int, int] = field(default_factory=dict)  # of a node
    coordinated: CoordinatorStates = field(default_factory=CoordinatorStates)
    events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_EVENTS_KEPT))


class Invariants:
    """`broken`: the first one, and nothing is watched after it. `on_broken` is called once, with it."""

    def __init__(self, clock: Clock) -> None:
        self.broken: Broken | None = None
        self.on_broken: Callable[[Broken], None] = lambda broken: None
        self._clock = clock
        self._running: dict[int, ReplicaManager] = {}
        self._known: dict[tuple[TopicPartition, object], _Known] = {}
        self._changed: dict[tuple[int, TopicPartition], None] = {}  # in the order of the changes

    # -- what the cluster tells ---------------------------------------------------------------------------------------

    def begins(self, node: NodeId, replicas: ReplicaManager) -> None:
        number = int(node)
        self._running[number] = replicas
        replicas.on_progress.append(lambda key: self._note(number, replicas, key))
        replicas.on_acknowledged.append(lambda key, end: self._acknowledged(number, replicas, key, end))
        for key in replicas.partitions:
            self._note(number, replicas, key)

    def ends(self, node: NodeId) -> None:
        number = int(node)
        self._running.pop(number, None)
        self._changed = {each: None for each in self._changed if each[0] != number}
        for known in self._known.values():
            known.matching_to.pop(number, None)

    def loses(self, node: NodeId) -> None:
        """Its disk has lost records, or will show others."""
        for known in self._known.values():
            known.may_have_lost = True
            known.events.append(self._event(int(node), "disk-loss"))

    def _note(self, node: int, replicas: ReplicaManager, key: TopicPartition) -> None:
        if self._running.get(node) is replicas:
            self._changed[node, key] = None

    # -- after a step of the loop -------------------------------------------------------------------------------------

    def look(self) -> None:
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        if self.broken is None:
            seen = [each for each in map(self._seen, changed) if each is not None]
            for node, key, partition, known in seen:
                self._note_state(node, key, partition, known)
            for node, key, partition, known in seen:
                self._look_at(node, key, partition, known)

    def _seen(self, changed: tuple[int, TopicPartition]) -> tuple[int, TopicPartition, Partition, _Known] | None:
        node, key = changed
        replicas = self._running.get(node)
        partition = None if replicas is None else replicas.partitions.get(key)
        known = None if replicas is None else self._known_of(replicas, key)
        return None if partition is None or known is None else (node, key, partition, known)

    def _known_of(self, replicas: ReplicaManager, key: TopicPartition) -> _Known | None:
        """None: nobody has said yet of which topic of its name it is."""
        topic_id = replicas.topic_id(key)
        return None if topic_id is None else self._known.setdefault((key, topic_id), _Known())

    def _note_state(self, node: int, key: TopicPartition, partition: Partition, known: _Known) -> None:
        known.events.append(self._event(node, "leader" if partition.is_leader else "follower", partition))
        epoch = partition.leader_epoch
        if partition.is_leader and epoch >= known.leader_epoch:
            is_another = known.leaders and epoch > max(known.leaders)
            if is_another and node not in known.may_join:  # an unclean election
                known.may_have_lost = True
            known.may_join = partition.isr_state.maximal_isr
        known.leader_epoch = max(known.leader_epoch, epoch)

    def _look_at(self, node: int, key: TopicPartition, partition: Partition, known: _Known) -> None:
        high_watermark, log_end = partition.high_watermark, partition.log.log_end_offset
        if high_watermark > log_end:
            self._breaks(WITHIN_LOG, node, key, partition, known, wanted=log_end, seen=high_watermark)
        if partition.is_leader:
            self._look_at_leader(node, key, partition, known)
        if not known.may_have_lost and partition.settings.compaction is None:
            self._match(node, key, partition, known)
        if not known.may_have_lost:
            self._look_at_members(key, known)
            if key.topic in COORDINATED and partition.is_leader and partition.leader_epoch == known.leader_epoch:
                self._look_at_coordinator(node, key, partition, known)

    def _look_at_leader(self, node: int, key: TopicPartition, partition: Partition, known: _Known) -> None:
        epoch, high_watermark = partition.leader_epoch, partition.high_watermark
        leader = known.leaders.setdefault(epoch, node)
        if leader != node:
            self._breaks(ONE_LEADER, node, key, partition, known, wanted=leader, seen=node)
        before = known.high_watermarks.get((node, epoch), high_watermark)
        if high_watermark < before:
            self._breaks(MONOTONIC, node, key, partition, known, wanted=before, seen=high_watermark)
        known.high_watermarks[node, epoch] = high_watermark

    def _look_at_coordinator(self, node: int, key: TopicPartition, partition: Partition, known: _Known) -> None:
        states = known.coordinated
        while states.read_to < partition.high_watermark:
            begin = max(states.read_to, partition.log.log_start_offset)
            content = partition.log.read(begin, _READ_BYTES, partition.high_watermark)
            headers = parse_headers(content)
            if not headers:  # what was there is compacted away
                states.read_to = partition.high_watermark
                return
            states.read_to = headers[-1].next_offset
            moved = states.take(key.topic, content)
            if moved is not None:
                self._breaks(moved.invariant, node, key, partition, known, wanted=moved.wanted, seen=moved.seen)

    def _match(self, node: int, key: TopicPartition, partition: Partition, known: _Known) -> None:
        """Reads what is committed since the last look; the newest leader says what the committed batches are."""
        says = partition.is_leader and partition.leader_epoch == known.leader_epoch
        end = partition.high_watermark if says else min(partition.high_watermark, known.committed_end)
        begin = max(min(known.matching_to.get(node, 0), end), partition.log.log_start_offset)
        for batch in _batches(partition, begin, end):
            base_offset = batch[0]
            if says and base_offset >= known.committed_end:
                known.batches[base_offset] = batch
                known.committed_end = batch[1]
            elif known.batches.get(base_offset, batch) != batch:
                self._breaks(MATCHING, node, key, partition, known, wanted=end, seen=base_offset)
        known.matching_to[node] = end

    def _look_at_members(self, key: TopicPartition, known: _Known) -> None:
        """The newest leader and its ISR have all that was ever committed."""
        leader = self._leader_of(key, known)
        if leader is None or leader.state is None:
            return
        end = known.committed_end = max(known.committed_end, leader.high_watermark)
        for node, partition in self._members(key, known, leader):
            if partition.log.log_end_offset < end:
                seen = partition.log.log_end_offset
                self._breaks(COMMITTED, node, key, partition, known, wanted=end, seen=seen)

    def _leader_of(self, key: TopicPartition, known: _Known) -> Partition | None:
        """That of the newest epoch, if it runs and has heard of it."""
        node = known.leaders.get(known.leader_epoch)
        replicas = None if node is None else self._running.get(node)
        partition = None if replicas is None else replicas.partitions.get(key)
        is_it = partition is not None and partition.is_leader and partition.leader_epoch == known.leader_epoch
        return partition if is_it else None

    def _members(self, key: TopicPartition, known: _Known, leader: Partition) -> Iterator[tuple[int, Partition]]:
        """The replicas of the ISR, as the leader knows it, that run and have opened their logs."""
        for node in () if leader.state is None else leader.state.isr:
            replicas = self._running.get(node)
            partition = None if replicas is None else replicas.partitions.get(key)
            if replicas is not None and partition is not None and self._known_of(replicas, key) is known:
                yield node, partition

    def _acknowledged(self, node: int, replicas: ReplicaManager, key: TopicPartition, end: int) -> None:
        """acks=all is about to be answered for the records below `end`."""
        leader, known = replicas.partitions.get(key), self._known_of(replicas, key)
        if self.broken is not None or leader is None or known is None or known.may_have_lost:
            return
        if leader.leader_epoch < known.leader_epoch:
            return  # whoever has a newer leader may have cut its log for it
        for member, partition in self._members(key, known, leader):
            if partition.log.log_end_offset < end:
                known.events.append(self._event(node, "acknowledges", leader))
                seen = partition.log.log_end_offset
                self._breaks(ACKNOWLEDGED, member, key, partition, known, wanted=end, seen=seen)

    def _event(self, node: int, what: str, partition: Partition | None = None) -> dict[str, Any]:
        event: dict[str, Any] = {"t_ns": self._clock.monotonic_ns(), "node": node, "event": what}
        if partition is not None:
            event |= {
                "leader_epoch": partition.leader_epoch,
                "high_watermark": partition.high_watermark,
                "log_end_offset": partition.log.log_end_offset,
                "isr": [] if partition.state is None else list(partition.state.isr),
            }
        return event

    def _breaks(
        self,
        invariant: str,
        node: int,
        key: TopicPartition,
        partition: Partition,
        known: _Known,
        *,
        wanted: int,
        seen: int,
    ) -> None:
        if self.broken is None:
            self.broken = Broken(
                invariant=invariant,
                topic=key.topic,
                partition=key.partition,
                node=node,
                leader_epoch=partition.leader_epoch,
                wanted=wanted,
                seen=seen,
                at_ns=self._clock.monotonic_ns(),
                events=tuple(known.events),
            )
            self.on_broken(self.broken)


def _batches(partition: Partition, begin: int, end: int) -> Iterator[_Batch]:
    while begin < end:
        headers = parse_headers(partition.log.read(begin, _READ_BYTES, end))
        if not headers:
            return
        for each in headers:
            if each.next_offset > begin:
                yield each.base_offset, each.next_offset, each.leader_epoch, each.crc
        begin = headers[-1].next_offset
