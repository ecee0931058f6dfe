"""Three replicas and an all-knowing controller in one process: what the stories of replication are told with.

Nothing happens by itself. Logs are the disks: they survive `kill`, which takes only the memory (SIGKILL, not power).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from reference_impl.core.identifiers import NO_LEADER, ErrorCode, TopicPartition
from reference_impl.core.leader_epochs import LeaderEpochCache
from reference_impl.core.partition import (
    AppendResult,
    Applied,
    FetchedPartition,
    FetchPosition,
    Partition,
    PartitionSettings,
    ReadResult,
)
from reference_impl.core.retention import SegmentView
from reference_impl.core.rules import Rules, sound
from reference_impl.core.state import IsrProposal, PartitionState
from reference_impl.wire.record_batches import parse_headers
from reference_impl.wire.record_timestamps import TimedOffset, record_times

TP = TopicPartition("t", 0)
LAG_MS = 1000
BATCH_TIME_MS = 1000  # what clients write into their records unless told otherwise
EVERYTHING = 1 << 30

Record = tuple[int, int, str]  # offset, epoch, value


def batch(
    *values: str,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    timestamp: int = BATCH_TIME_MS,
) -> bytearray:
    """One produce's batch as a client sends it: base offset 0, no leader epoch."""
    builder = DefaultRecordBatchBuilder(2, 0, False, producer_id, producer_epoch, sequence, EVERYTHING)
    for offset, value in enumerate(values):
        builder.append(offset, timestamp, None, value.encode(), [])
    return bytearray(builder.build())


def records_in(batches: bytes) -> list[Record]:
    found: list[Record] = []
    for header in parse_headers(batches):
        one = MemoryRecords(bytes(batches[header.position : header.position + header.length])).next_batch()
        found += [(record.offset, header.leader_epoch, record.value.decode()) for record in one]
    return found


class MemoryLog:
    """PartitionLog in memory. Batches are kept whole, as on disk; a segment has a fixed number of them."""

    def __init__(self, *, batches_per_segment: int = 3) -> None:
        self._batches: list[tuple[int, int, bytes]] = []  # base offset, next offset, bytes
        self._start = 0
        self._batches_per_segment = batches_per_segment
        self._active = 0  # base offset of a segment that was rolled although it was not full
        self.leader_epochs = LeaderEpochCache([], lambda entries, sync: None)

    @property
    def log_start_offset(self) -> int:
        return self._start

    @property
    def log_end_offset(self) -> int:
        return self._batches[-1][1] if self._batches else self._start

    def append(self, batches: bytes | bytearray | memoryview, next_offset: int) -> None:
        data = bytes(batches)
        for header in parse_headers(data):
            assert header.base_offset >= self.log_end_offset
            body = data[header.position : header.position + header.length]
            self._batches.append((header.base_offset, header.next_offset, body))
        assert self.log_end_offset == next_offset

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        found = b""
        for _, next_offset, body in self._batches:
            if next_offset <= offset:
                continue
            if next_offset > end_offset or (found and len(found) + len(body) > max_bytes):
                break
            found += body
        return found

    def truncate_to(self, offset: int) -> bytes:
        cut = [entry for entry in self._batches if entry[1] > offset]
        self._batches = [entry for entry in self._batches if entry[1] <= offset]
        self.leader_epochs.truncate_from_end(offset)
        return b"".join(body for _, _, body in cut)

    def truncate_fully_and_start_at(self, offset: int) -> bytes:
        cut = self.all_batches()
        self._batches, self._start, self._active = [], offset, offset
        self.leader_epochs.truncate_from_end(0)
        return cut

    def _runs(self) -> list[list[tuple[int, int, bytes]]]:
        """The batches of each segment; an empty active one is not among them."""
        runs: list[list[tuple[int, int, bytes]]] = []
        for entry in self._batches:
            full = not runs or len(runs[-1]) == self._batches_per_segment
            if full or runs[-1][0][0] < self._active <= entry[0]:
                runs.append([])
            runs[-1].append(entry)
        return runs

    @property
    def segments(self) -> list[SegmentView]:
        found = [
            SegmentView(
                base_offset=run[0][0],
                next_offset=run[-1][1],
                size=sum(len(body) for _, _, body in run),
                largest_timestamp_ms=max(header.max_timestamp for _, _, body in run for header in parse_headers(body)),
            )
            for run in self._runs()
        ]
        if not found or self._active == self.log_end_offset:
            end = self.log_end_offset
            found.append(SegmentView(base_offset=end, next_offset=end, size=0, largest_timestamp_ms=0))
        return found

    def advance_log_start(self, offset: int) -> None:
        assert self._start <= offset <= self.log_end_offset
        self._start = offset
        self.leader_epochs.truncate_from_start(offset)

    def delete_segments(self, count: int) -> None:
        segments = self.segments
        if count == len(segments):
            self._active = self.log_end_offset
        begins = segments[count].base_offset if count < len(segments) else self._active
        start = max(self._start, begins)
        self._batches = [entry for entry in self._batches if entry[0] >= begins]
        self._start = start
        self.leader_epochs.truncate_from_start(start)

    def first_at_or_after(self, timestamp: int, end_offset: int) -> TimedOffset | None:
        found = (entry for entry in self._times(end_offset) if entry.timestamp >= timestamp)
        return next(found, None)

    def latest_timestamp(self, end_offset: int) -> TimedOffset | None:
        return max(self._times(end_offset), key=lambda entry: entry.timestamp, default=None)

    def _times(self, end_offset: int) -> list[TimedOffset]:
        data = self.all_batches()
        return [
            TimedOffset(offset, timestamp, header.leader_epoch)
            for header in parse_headers(data)
            for offset, timestamp in record_times(data, header)
            if self._start <= offset < end_offset
        ]

    def all_batches(self, from_offset: int = 0) -> bytes:
        return b"".join(body for _, next_offset, body in self._batches if next_offset > from_offset)

    @property
    def records(self) -> list[Record]:
        return records_in(self.all_batches())

    @property
    def values(self) -> list[str]:
        return [value for _, _, value in self.records]


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

    def leadership_started(self, topic_partition: TopicPartition, *, epoch: int, log_end_offset: int) -> None:
        self.leaderships.append(("start", epoch, log_end_offset))

    def leadership_ended(self, topic_partition: TopicPartition, *, epoch: int, log_end_offset: int) -> None:
        self.leaderships.append(("end", epoch, log_end_offset))


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """A fetch on its way: the follower's request and, once the leader has seen it, the answer."""

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
    """Brokers, disks, and the controller's state. `tell` is the controller's push; before it a broker knows nothing."""

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
        """A new incarnation registers only when the old session is gone, so its death is noticed first (1.18)."""
        self.notice_deaths()
        self._open(broker)
        self.notice_deaths()

    def checkpoint(self, *brokers: int) -> None:
        for broker in brokers or tuple(self.partitions):
            self.checkpoints[broker] = self.partitions[broker].high_watermark

    # The controller

    def notice_deaths(self) -> None:
        """1.9 with 1.18: an update never removes an ISR member unless a live leader remains."""
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
        """1.8, the controller's checks that can fail here."""
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
        """The request reaches the leader the follower believes in, and is answered; the answer is still on its way."""
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
        )
        incarnation = self.broker_epochs[follower]
        return Fetch(follower=follower, incarnation=incarnation, position=position, answer=as_fetched(read))

    def deliver(self, fetch: Fetch) -> Applied:
        """A broker that died meanwhile does not hear the answer."""
        if self.broker_epochs.get(fetch.follower) != fetch.incarnation:
            return Applied.STALE
        return self.partitions[fetch.follower].apply_fetched(fetch.position, fetch.answer, now_ms=self.now_ms)

    def fetch(self, *followers: int, rounds: int = 1) -> Applied:
        """Whole round trips, in the order given; answers what became of the last one."""
        applied = Applied.NOTHING
        for _ in range(rounds):
            for follower in followers:
                fetch = self.ask(follower)
                assert fetch is not None, f"{follower} has nobody to fetch from"
                applied = self.deliver(fetch)
        return applied

    def settle_isr(self) -> ErrorCode | None:
        """The leader's pending proposal goes to the controller and back."""
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
    """What a consumer reads from here."""
    read = partition.read_for_consumer(fetch_offset, max_bytes=EVERYTHING, current_leader_epoch=-1)
    assert read.error is ErrorCode.NONE
    return [value for _, _, value in records_in(read.records)]


def lost(world: World, acknowledged: Iterable[str]) -> list[str]:
    """Acknowledged values that the present leader does not hold."""
    return [value for value in acknowledged if value not in world.values(world.state.leader)]
