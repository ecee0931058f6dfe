"""Three replicas and a controller without failures in one process, for tests of replication.

Nothing happens without a call. Logs are the disks: they survive `kill`, which removes only the memory (SIGKILL, not
power loss).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from reference_impl.core.identifiers import NO_LEADER, ErrorCode, TopicPartition
from reference_impl.core.partition import (
    AppendResult,
    Applied,
    FetchedPartition,
    FetchPosition,
    Partition,
    PartitionSettings,
    ReadResult,
)
from reference_impl.core.rules import Rules, sound
from reference_impl.core.state import IsrProposal, PartitionState
from tests.reference_impl.core.memory_log import BATCH_TIME_MS, EVERYTHING, MemoryLog, batch, records_in

TP = TopicPartition("t", 0)
LAG_MS = 1000


@dataclass(frozen=True, kw_only=True)
class Truncation:
    from_offset: int
    to_offset: int
    epoch: int
    reason: str
    cut: tuple[str, ...]


class Evidence:
    def __init__(self) -> None:
        self.truncations: list[Truncation] = []
        self.leaderships: list[tuple[str, int, int]] = []
        self.deletions: list[tuple[int, int]] = []  # epoch, to
        self.learned: list[tuple[int, int, int]] = []  # epoch, partition epoch, high watermark
        self.asked_for: list[tuple[int, int]] = []  # epoch, who is to join the ISR
        self.log_starts: list[tuple[int, int, int, str]] = []  # from, to, segments deleted, reason

    def truncated(
        self, topic_partition: TopicPartition, *, from_offset: int, to_offset: int, epoch: int, reason: str, cut: bytes
    ) -> None:
        values = tuple(value for _, _, value in records_in(cut))
        self.truncations.append(
            Truncation(from_offset=from_offset, to_offset=to_offset, epoch=epoch, reason=reason, cut=values)
        )

    def log_start_advanced(
        self, topic_partition: TopicPartition, *, from_offset: int, to_offset: int, segments: int, reason: str
    ) -> None:
        self.log_starts.append((from_offset, to_offset, segments, reason))

    def records_deleted(self, topic_partition: TopicPartition, *, epoch: int, to_offset: int) -> None:
        self.deletions.append((epoch, to_offset))

    def isr_learned(
        self, topic_partition: TopicPartition, *, epoch: int, partition_epoch: int, high_watermark: int
    ) -> None:
        self.learned.append((epoch, partition_epoch, high_watermark))

    def isr_expand_asked(self, topic_partition: TopicPartition, *, epoch: int, joining: int) -> None:
        self.asked_for.append((epoch, joining))

    def leadership_started(self, topic_partition: TopicPartition, *, epoch: int, log_end_offset: int) -> None:
        self.leaderships.append(("start", epoch, log_end_offset))

    def leadership_ended(self, topic_partition: TopicPartition, *, epoch: int, log_end_offset: int) -> None:
        self.leaderships.append(("end", epoch, log_end_offset))


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """A fetch in flight: the follower's request and, once the leader has handled it, the answer."""

    follower: int
    incarnation: int
    position: FetchPosition
    answer: FetchedPartition


def as_fetched(read: ReadResult) -> FetchedPartition:
    return FetchedPartition(
        error=read.error,
        records=read.records,
        high_watermark=read.high_watermark,
        log_start_offset=read.log_start_offset,
        diverging=read.diverging,
    )


class World:
    """Brokers, disks and the controller's state. `tell` sends the controller's update; before it a broker knows
    nothing."""

    def __init__(
        self,
        *,
        rules: Rules | None = None,
        min_isr: int = 2,
        replicas: tuple[int, ...] = (1, 2, 3),
        lag_ms: int = LAG_MS,
    ) -> None:
        self.rules = sound() if rules is None else rules
        self.settings = PartitionSettings(
            min_insync_replicas=min_isr,
            replica_lag_time_max_ms=LAG_MS,
            unclean_leader_election_enable=False,
            max_message_bytes=1 << 20,
        )
        self.now_ms = 1_000_000.0
        self.wall_clock_ms = BATCH_TIME_MS
        self.logs = {broker: MemoryLog() for broker in replicas}
        self.checkpoints = dict.fromkeys(replicas, 0)
        self.evidence = {broker: Evidence() for broker in replicas}
        self.broker_epochs: dict[int, int] = {}  # of the live ones, as the controller knows them
        self.partitions: dict[int, Partition] = {}
        self._next_broker_epoch = 100
        self.state = PartitionState(
            topic_partition=TP,
            replicas=replicas,
            leader=replicas[0],
            isr=replicas,
            leader_epoch=0,
            partition_epoch=0,
            controller_epoch=1,
        )
        for broker in replicas:
            self._open(broker)
        self.tell()

    # Brokers

    def _open(self, broker: int) -> None:
        self._next_broker_epoch += 1
        self.broker_epochs[broker] = self._next_broker_epoch
        self.partitions[broker] = Partition(
            topic_partition=TP,
            broker_id=broker,
            log=self.logs[broker],
            settings=self.settings,
            rules=self.rules,
            evidence=self.evidence[broker],
            checkpointed_high_watermark=self.checkpoints[broker],
        )

    def kill(self, broker: int) -> None:
        del self.partitions[broker], self.broker_epochs[broker]

    def start(self, broker: int) -> None:
        """A new incarnation registers only when the old session is gone, so its death is noticed first (R42)."""
        self.notice_deaths()
        self._open(broker)
        self.notice_deaths()

    def checkpoint(self, *brokers: int) -> None:
        for broker in brokers or tuple(self.partitions):
            self.checkpoints[broker] = self.partitions[broker].high_watermark

    # The controller

    def notice_deaths(self) -> None:
        """R33: an update never removes an ISR member unless a live leader remains."""
        state, live = self.state, self.broker_epochs
        if state.leader in live:
            self._set_isr(tuple(member for member in state.isr if member in live))
            return
        candidate = next((r for r in state.replicas if r in state.isr and r in live), NO_LEADER)
        if candidate != NO_LEADER:
            self.elect(candidate)
        elif state.leader != NO_LEADER:
            self._lead(NO_LEADER, state.isr)

    def elect(self, leader: int) -> None:
        assert leader in self.state.isr
        self._lead(leader, tuple(member for member in self.state.isr if member in self.broker_epochs))

    def elect_uncleanly(self, leader: int) -> None:
        self._lead(leader, (leader,))

    def _lead(self, leader: int, isr: tuple[int, ...]) -> None:
        self.state = replace(
            self.state,
            leader=leader,
            isr=isr,
            leader_epoch=self.state.leader_epoch + 1,
            partition_epoch=self.state.partition_epoch + 1,
        )

    def _set_isr(self, isr: tuple[int, ...]) -> None:
        if isr != self.state.isr:
            self.state = replace(self.state, isr=isr, partition_epoch=self.state.partition_epoch + 1)

    def tell(self, *brokers: int) -> None:
        for broker in brokers or tuple(self.partitions):
            partition = self.partitions[broker]
            partition.update_live_brokers(self.broker_epochs)
            if self.state.leader == broker:
                partition.become_leader(self.state, now_ms=self.now_ms)
            else:
                partition.become_follower(self.state, now_ms=self.now_ms)

    def alter_partition(self, proposal: IsrProposal) -> tuple[ErrorCode, PartitionState | None]:
        """R31, the controller's checks that can fail here."""
        if proposal.leader_epoch < self.state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, None
        if proposal.partition_epoch < self.state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION, None
        for broker, broker_epoch in proposal.isr:
            if self.broker_epochs.get(broker) != broker_epoch:
                return ErrorCode.INELIGIBLE_REPLICA, None
        self._set_isr(tuple(broker for broker, _ in proposal.isr))
        return ErrorCode.NONE, self.state

    # What brokers and clients do

    @property
    def leader(self) -> Partition:
        return self.partitions[self.state.leader]

    def write(self, *values: str, at: int | None = None, acks: int = -1) -> AppendResult:
        broker = self.state.leader if at is None else at
        return self.partitions[broker].append(
            batch(*values, timestamp=self.wall_clock_ms),
            acks=acks,
            now_ms=self.now_ms,
            wall_clock_ms=self.wall_clock_ms,
        )

    def outcome(self, result: AppendResult, *, at: int | None = None) -> ErrorCode | None:
        broker = self.state.leader if at is None else at
        return self.partitions[broker].produce_outcome(result.required_offset, result.leader_epoch)

    def ask(self, follower: int) -> Fetch | None:
        """The request reaches the broker that the follower believes to be the leader; the answer is still in flight."""
        partition = self.partitions[follower]
        leader = None if partition.state is None else self.partitions.get(partition.state.leader)
        if leader is None or partition.is_leader:
            return None
        position = partition.fetch_position()
        read = leader.read_for_follower(
            follower,
            self.broker_epochs[follower],
            position.fetch_offset,
            last_fetched_epoch=position.last_fetched_epoch,
            current_leader_epoch=position.current_leader_epoch,
            max_bytes=EVERYTHING,
            now_ms=self.now_ms,
            log_start_offset=partition.log.log_start_offset,
        )
        incarnation = self.broker_epochs[follower]
        return Fetch(follower=follower, incarnation=incarnation, position=position, answer=as_fetched(read))

    def deliver(self, fetch: Fetch) -> Applied:
        """A broker that died meanwhile does not get the answer."""
        if self.broker_epochs.get(fetch.follower) != fetch.incarnation:
            return Applied.STALE
        return self.partitions[fetch.follower].apply_fetched(fetch.position, fetch.answer, now_ms=self.now_ms)

    def fetch(self, *followers: int, rounds: int = 1) -> Applied:
        """Complete round trips in the given order; returns the result of the last one."""
        applied = Applied.NOTHING
        for _ in range(rounds):
            for follower in followers:
                fetch = self.ask(follower)
                assert fetch is not None, f"{follower} has nobody to fetch from"
                applied = self.deliver(fetch)
        return applied

    def settle_isr(self) -> ErrorCode | None:
        """Sends the leader's pending proposal to the controller and its answer back."""
        proposal = self.leader.isr_proposal(now_ms=self.now_ms)
        if proposal is None:
            return None
        error, state = self.alter_partition(proposal)
        self.leader.isr_answered(proposal, error, state)
        return error

    def shrink(self) -> ErrorCode | None:
        self.leader.check_shrink(now_ms=self.now_ms)
        return self.settle_isr()

    def values(self, broker: int) -> list[str]:
        return self.logs[broker].values


def visible(partition: Partition, fetch_offset: int = 0) -> list[str]:
    """What a consumer can read from this broker."""
    read = partition.read_for_consumer(fetch_offset, max_bytes=EVERYTHING, current_leader_epoch=-1)
    assert read.error is ErrorCode.NONE
    return [value for _, _, value in records_in(read.records)]


def lost(world: World, acknowledged: Iterable[str]) -> list[str]:
    """Acknowledged values that the current leader does not hold."""
    return [value for value in acknowledged if value not in world.values(world.state.leader)]
