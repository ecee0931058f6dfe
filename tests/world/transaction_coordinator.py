"""The coordinator of transactions (KIP-98): whoever leads the partition of their states, which it reads when it begins.

What it decides it writes first, and answers once all in sync have that. Markers follow, in every partition of the
transaction, and then its completion. A producer of an older epoch is refused; one that begins anew, and a timeout, end
what was open in the next epoch. Flaws, by name, are what it does although no Kafka must.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.world.brokers import FENCED, NOT_ENOUGH, NOT_LEADER, Broker
from tests.world.chronicle import Entry, Partition
from tests.world.offsets_coordinator import OffsetsCoordinator
from tests.world.requests import CONCURRENT, OFFSETS, TRANSACTIONS, Reply
from tests.world.world import World

INVALID = "InvalidTxnStateError 48"
UNKNOWN_ID = "InvalidProducerIdMapping 49"
TIMEOUT_MS = 2_500


@dataclass(frozen=True, kw_only=True)
class TransactionState:
    """state: as Kafka calls it."""

    transactional_id: str
    producer: tuple[int, int]
    state: str = "Empty"
    begun_ns: int = -1
    partitions: tuple[Partition, ...] = ()

    @property
    def ending(self) -> bool:
        return self.state in ("PrepareCommit", "PrepareAbort")


@dataclass(kw_only=True)
class TransactionCoordinator:
    """Of one broker. loaded: the epoch in which it leads and has read its states."""

    world: World
    broker: Broker
    loaded: int = -1
    states: dict[str, TransactionState] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)  # something of it is being written
    marked: dict[str, set[Partition]] = field(default_factory=dict)
    marking: set[tuple[str, Partition]] = field(default_factory=set)
    held_up: dict[str, int] = field(default_factory=dict)  # until when no marker of an id goes out

    def ready(self) -> bool:
        hosted = self.broker.replicas.get(TRANSACTIONS)
        if hosted is None or not hosted.leading or hosted.state is None:
            self.loaded = -1
            return False
        if self.loaded != hosted.state.epoch:
            self.loaded = hosted.state.epoch
            self.states, self.pending, self.marked, self.marking = {}, set(), {}, set()
            for entry in hosted.log:
                if isinstance(entry.kept, TransactionState):
                    self.states[entry.kept.transactional_id] = entry.kept
        return True

    # -- what producers ask -------------------------------------------------------------------------------------------

    def begin_producer(self, name: str, reply: Reply) -> None:
        """InitProducerId."""
        if not self.ready():
            reply(NOT_LEADER, None)
            return
        known = self.states.get(name)
        if known is None:
            known = TransactionState(transactional_id=name, producer=(self.world.serial(), -1))
        identity, epoch = known.producer
        if name in self.pending or known.ending:
            reply(CONCURRENT, None)
        elif known.state == "Ongoing":
            self._end(known, commit=False, bump=True)
            reply(CONCURRENT, None)
        else:
            fresh = replace(known, producer=(identity, epoch + 1), state="Empty", partitions=())
            self._write(fresh, lambda error: reply(error, fresh.producer))

    def add_partition(self, name: str, producer: tuple[int, int], partition: Partition, reply: Reply) -> None:
        known = self._current(name, producer, reply)
        if known is None:
            return
        if known.ending:
            reply(CONCURRENT, None)
        elif known.state == "Ongoing" and partition in known.partitions:
            reply(None, None)
        else:
            ongoing = known.state == "Ongoing"
            begun = replace(
                known,
                state="Ongoing",
                begun_ns=known.begun_ns if ongoing else self.world.now,
                partitions=(*(known.partitions if ongoing else ()), partition),
            )
            self._write(begun, lambda error: reply(error, None))

    def end_transaction(self, name: str, producer: tuple[int, int], *, commit: bool, reply: Reply) -> None:
        known = self._current(name, producer, reply, ends=True, commit=commit)
        if known is None:
            return
        ends = "Commit" if commit else "Abort"
        if known.state == f"Complete{ends}":
            reply(None, None)
        elif known.state == f"Prepare{ends}":
            reply(CONCURRENT, None)
        elif known.state == "Ongoing":
            self._end(known, commit=commit, reply=reply)
        else:
            reply(INVALID, None)

    def _current(
        self, name: str, producer: tuple[int, int], reply: Reply, *, ends: bool = False, commit: bool = False
    ) -> TransactionState | None:
        """The state of whoever asks, if it may go on; otherwise it is answered."""
        if not self.ready():
            reply(NOT_LEADER, None)
            return None
        known = self.states.get(name)
        error = None
        if known is None or known.producer[0] != producer[0]:
            error = UNKNOWN_ID
        elif name in self.pending:
            error = CONCURRENT
        elif producer[1] != known.producer[1]:
            aborted = known.state in ("PrepareAbort", "CompleteAbort") and known.producer[1] == producer[1] + 1
            if ends and commit and aborted and self.world.flawed("commit-after-timeout"):
                reply(None, None)
                return None
            if not self.world.flawed("fencing-forgotten"):
                error = FENCED
        if error is not None:
            reply(error, None)
            return None
        return known

    # -- how transactions end -----------------------------------------------------------------------------------------

    def _end(self, known: TransactionState, *, commit: bool, bump: bool = False, reply: Reply | None = None) -> None:
        producer = (known.producer[0], known.producer[1] + bump)
        decided = replace(known, state="PrepareCommit" if commit else "PrepareAbort", producer=producer)

        def written(error: str | None) -> None:
            if reply is not None:
                reply(error, None)
            if error is None:
                self.marked[known.transactional_id] = set()
                spec = self.world.setup.processing
                if spec is not None and self.world.random.random() < spec.markers_wait:
                    self.held_up[known.transactional_id] = self.world.now + self.world.some(200, 1_500)
                self._mark(decided)

        self._write(decided, written)

    def tick(self) -> None:
        if not self.ready():
            return
        for known in list(self.states.values()):
            if known.transactional_id in self.pending:
                continue
            late = self.world.now - known.begun_ns > TIMEOUT_MS * 1_000_000
            if known.state == "Ongoing" and late:
                self._end(known, commit=False, bump=True)
            elif known.ending:
                self._mark(known)

    def _mark(self, known: TransactionState) -> None:
        name, commits = known.transactional_id, known.state == "PrepareCommit"
        if self.world.now < self.held_up.get(name, 0):
            return
        marked = self.marked.setdefault(name, set())
        for partition in known.partitions:
            if partition not in marked and (name, partition) not in self.marking:
                if self.world.flawed("marker-forgotten", 0.3):
                    marked.add(partition)
                    continue
                reversed_too = commits and self.world.flawed("marker-reversed", 0.3)
                self._mark_in(known, partition, commits=commits and not reversed_too)
        if marked >= set(known.partitions) and name not in self.pending:
            done = replace(known, state="CompleteCommit" if commits else "CompleteAbort", partitions=())
            self._write(done, lambda _: None)

    def _mark_in(self, known: TransactionState, partition: Partition, *, commits: bool) -> None:
        world, name, epoch = self.world, known.transactional_id, self.loaded
        leader = world.brokers.get(world.controller.states[partition].leader)
        reached = leader is not None and leader.running and world.linked(self.broker.node, leader.node)
        if leader is None or (leader is not self.broker and not reached):
            return
        self.marking.add((name, partition))

        def written(error: str | None, _: int | None) -> None:
            if not self.ready() or self.loaded != epoch:
                return
            self.marking.discard((name, partition))
            if error is None and self.states.get(name) is known:
                self.marked[name].add(partition)
                if self.marked[name] >= set(known.partitions):
                    self._mark(known)

        mark(leader, partition, producer=known.producer, commits=commits, by=epoch, answer=written)

    def _write(self, fresh: TransactionState, then: Callable[[str | None], None]) -> None:
        """Nothing else of that id is decided until it is replicated."""
        name, epoch = fresh.transactional_id, self.loaded
        self.pending.add(name)
        entry = Entry(self.world.serial(), epoch, kept=fresh)

        def written(error: str | None, _: int | None) -> None:
            if self.ready() and self.loaded == epoch:
                self.pending.discard(name)
                if error is None:
                    self.states[name] = fresh
            then(error)

        self.broker.write(TRANSACTIONS, entry, written)


def mark(
    leader: Broker,
    partition: Partition,
    *,
    producer: tuple[int, int],
    commits: bool,
    by: int,
    answer: Callable[[str | None, int | None], None],
) -> None:
    """WriteTxnMarkers: refused from a coordinator that a newer one has replaced."""
    replica = leader.replicas[partition]
    state = replica.state
    if state is None or not replica.leading:
        answer(NOT_LEADER, None)
        return
    seen = [e for e in replica.log if e.producer and e.producer[0] == producer[0]]
    newest = max((e.kept for e in seen if e.marks is not None and isinstance(e.kept, int)), default=-1)
    if newest > by:
        answer(NOT_ENOUGH, None)
        return
    entry = Entry(leader.world.serial(), state.epoch, producer, commits, by)

    def written(error: str | None, offset: int | None) -> None:
        if error is None and partition == OFFSETS:
            offsets = leader.service(OffsetsCoordinator)
            offsets.marked(producer, commits=commits, then=lambda: answer(None, offset))
        else:
            answer(error, offset)

    leader.write(partition, entry, written)
