"""Three replicas under random schedules (Hypothesis) of late, lost and repeated messages, deaths and elections:
committed records stay on every in-sync replica, and no reader sees any other record."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reference_impl.core.identifiers import NO_LEADER, ErrorCode
from reference_impl.core.partition import AppendResult, Partition
from reference_impl.core.state import IsrProposal, PartitionState
from tests.reference_impl.core.memory_log import Record
from tests.reference_impl.core.replication_world import LAG_MS, Fetch, World

BROKERS = st.sampled_from([1, 2, 3])
Answer = tuple[Partition, IsrProposal, ErrorCode, PartitionState | None]


class Replication(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.written = 0
        self.waiting: list[tuple[Partition, AppendResult, str]] = []
        self.fetches: list[Fetch] = []
        self.proposals: list[tuple[Partition, IsrProposal]] = []
        self.answers: list[Answer] = []
        self.committed: dict[int, Record] = {}
        self.acknowledged: dict[int, str] = {}
        self.leader_marks: dict[tuple[Partition, int], int] = {}

    # Clients

    @rule(broker=BROKERS, acks=st.sampled_from([-1, -1, 1]))
    def write(self, broker: int, acks: int) -> None:
        if broker not in self.world.partitions:
            return
        value = f"v{self.written}"
        self.written += 1
        result = self.world.write(value, at=broker, acks=acks)
        if result.error is ErrorCode.NONE and acks == -1:
            self.waiting.append((self.world.partitions[broker], result, value))

    # Replication, with answers that come late, never, or out of order

    @rule(broker=BROKERS)
    def fetch(self, broker: int) -> None:
        if broker in self.world.partitions:
            fetch = self.world.ask(broker)
            if fetch is not None:
                self.world.deliver(fetch)

    @rule(broker=BROKERS)
    def ask(self, broker: int) -> None:
        if broker in self.world.partitions:
            fetch = self.world.ask(broker)
            if fetch is not None:
                self.fetches.append(fetch)

    @precondition(lambda self: self.fetches)
    @rule(data=st.data(), keep=st.booleans())
    def deliver(self, data: st.DataObject, keep: bool) -> None:
        index = data.draw(st.integers(0, len(self.fetches) - 1))
        fetch = self.fetches[index] if keep else self.fetches.pop(index)
        self.world.deliver(fetch)

    # In-sync replicas

    @rule(milliseconds=st.sampled_from([1, LAG_MS // 2, 2 * LAG_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.world.now_ms += milliseconds

    @rule(broker=BROKERS)
    def propose(self, broker: int) -> None:
        partition = self.world.partitions.get(broker)
        if partition is None:
            return
        partition.check_shrink(now_ms=self.world.now_ms)
        proposal = partition.isr_proposal(now_ms=self.world.now_ms)
        if proposal is not None:
            self.proposals.append((partition, proposal))

    @precondition(lambda self: self.proposals)
    @rule(data=st.data(), fate=st.sampled_from(["answered", "late", "lost before", "lost after"]))
    def alter_partition(self, data: st.DataObject, fate: str) -> None:
        partition, proposal = self.proposals.pop(data.draw(st.integers(0, len(self.proposals) - 1)))
        error, state = ErrorCode.REQUEST_TIMED_OUT, None
        if fate != "lost before":
            error, state = self.world.alter_partition(proposal)
        if fate == "lost after":
            error, state = ErrorCode.REQUEST_TIMED_OUT, None
        if fate == "late":
            self.answers.append((partition, proposal, error, state))
        else:
            partition.isr_answered(proposal, error, state)

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        partition, proposal, error, state = self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1)))
        partition.isr_answered(proposal, error, state)

    # Controller and deaths. A broker without an update goes on: a leader becomes a zombie.

    @rule(broker=BROKERS)
    def tell(self, broker: int) -> None:
        if broker in self.world.partitions:
            self.world.tell(broker)

    @rule()
    def tell_all(self) -> None:
        self.world.tell()

    @rule(broker=BROKERS)
    def elect(self, broker: int) -> None:
        if broker in self.world.broker_epochs and broker in self.world.state.isr:
            self.world.elect(broker)

    @rule(broker=BROKERS)
    def kill(self, broker: int) -> None:
        if broker in self.world.partitions:
            self.world.kill(broker)

    @rule()
    def notice_deaths(self) -> None:
        self.world.notice_deaths()

    @rule(broker=BROKERS)
    def start(self, broker: int) -> None:
        if broker not in self.world.partitions:
            self.world.start(broker)

    @rule(broker=BROKERS)
    def checkpoint(self, broker: int) -> None:
        if broker in self.world.partitions:
            self.world.checkpoint(broker)

    # Sequences of several steps, so that a short run makes progress

    @rule(brokers=st.sets(BROKERS, min_size=1), rounds=st.integers(1, 3), acks=st.sampled_from([-1, 1]))
    def write_and_replicate(self, brokers: set[int], rounds: int, acks: int) -> None:
        self.write(self.world.state.leader, acks)
        for _ in range(rounds):
            for broker in sorted(brokers):
                self.fetch(broker)

    @rule(slow=BROKERS)
    def one_falls_behind(self, slow: int) -> None:
        self.write(self.world.state.leader, 1)
        self.world.now_ms += 2 * LAG_MS
        for broker in sorted(self.world.partitions.keys() - {slow}):
            self.fetch(broker)
            self.fetch(broker)
        self.settle_isr()

    @rule()
    def settle_isr(self) -> None:
        leader = self.world.partitions.get(self.world.state.leader)
        if leader is not None:
            leader.check_shrink(now_ms=self.world.now_ms)
            proposal = leader.isr_proposal(now_ms=self.world.now_ms)
            if proposal is not None:
                leader.isr_answered(proposal, *self.world.alter_partition(proposal))

    @rule(broker=BROKERS)
    def ask_and_settle_isr(self, broker: int) -> None:
        """An expansion may be committed before the fetch that proved the newcomer is even answered."""
        self.ask(broker)
        self.settle_isr()

    @rule(broker=BROKERS, all_hear=st.booleans())
    def fail_over(self, broker: int, all_hear: bool) -> None:
        self.kill(broker)
        self.world.notice_deaths()
        self.world.tell(*self.world.partitions.keys() & ({1, 2, 3} if all_hear else {self.world.state.leader}))

    @rule(broker=BROKERS)
    def come_back(self, broker: int) -> None:
        self.start(broker)
        self.world.tell()

    @rule(broker=BROKERS)
    def move_leadership(self, broker: int) -> None:
        self.elect(broker)
        self.world.tell()

    @invariant()
    def all_promises_hold(self) -> None:
        self.what_is_committed_is_so_for_ever()
        self.an_acknowledged_write_is_committed()
        self.every_in_sync_replica_holds_all_that_is_committed()
        self.nothing_below_a_high_watermark_is_uncommitted()
        self.epochs_never_fall_along_a_log()
        self.a_leaders_high_watermark_never_falls()
        self.the_leaders_maximal_isr_holds_the_controllers()

    # Invariants, checked in this order after every step

    def what_is_committed_is_so_for_ever(self) -> None:
        """Leaders commit; no two of them ever commit different records at one offset."""
        for broker, partition in self.world.partitions.items():
            if partition.is_leader:
                for record in self.below_high_watermark(broker):
                    assert self.committed.setdefault(record[0], record) == record

    def an_acknowledged_write_is_committed(self) -> None:
        still_waiting = []
        for partition, result, value in self.waiting:
            outcome = partition.produce_outcome(result.required_offset, result.leader_epoch)
            if outcome is None:
                still_waiting.append((partition, result, value))
            elif outcome is ErrorCode.NONE and partition in self.world.partitions.values():
                self.acknowledged[result.base_offset] = value
        self.waiting = still_waiting
        for offset, value in self.acknowledged.items():
            assert self.committed[offset][2] == value

    def every_in_sync_replica_holds_all_that_is_committed(self) -> None:
        for broker in self.world.state.isr:
            held = {record[0]: record for record in self.world.logs[broker].records}
            start = self.world.logs[broker].log_start_offset  # 0, unless retention has moved it
            kept = {offset: record for offset, record in self.committed.items() if offset >= start}
            assert {offset: held.get(offset) for offset in kept} == kept

    def nothing_below_a_high_watermark_is_uncommitted(self) -> None:
        """So any two logs agree below their high watermarks, and no reader sees what later vanishes."""
        for broker in self.world.partitions:
            for record in self.below_high_watermark(broker):
                assert self.committed.get(record[0]) == record

    def below_high_watermark(self, broker: int) -> list[Record]:
        high_watermark = self.world.partitions[broker].high_watermark
        return [record for record in self.world.logs[broker].records if record[0] < high_watermark]

    def epochs_never_fall_along_a_log(self) -> None:
        for log in self.world.logs.values():
            epochs = [epoch for _, epoch, _ in log.records]
            assert epochs == sorted(epochs)

    def a_leaders_high_watermark_never_falls(self) -> None:
        for partition in self.world.partitions.values():
            if partition.is_leader:
                key = (partition, partition.leader_epoch)
                assert partition.high_watermark >= self.leader_marks.get(key, 0)
                self.leader_marks[key] = partition.high_watermark

    def the_leaders_maximal_isr_holds_the_controllers(self) -> None:
        """ReplicationQuorumSuperset (KIP-966's TLA+ model), for the leader of the controller's epoch. A member the
        controller has dropped may be in it still; none that it counts on may be missing."""
        state = self.world.state
        leader = self.world.partitions.get(state.leader) if state.leader != NO_LEADER else None
        if leader is not None and leader.is_leader and leader.leader_epoch == state.leader_epoch:
            assert leader.isr_state.maximal_isr >= set(state.isr)


Replication.TestCase.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestReplication = Replication.TestCase
