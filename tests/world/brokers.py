"""What a broker does: take writes, replicate, truncate, raise the high watermark, change the ISR.

The rules are those of docs/replication.md. Flaws, by name, are what it does although no Kafka must; each is one line
where the rule stands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from tests.world.chronicle import (
    Appended,
    Cause,
    Checkpointed,
    Cut,
    Entry,
    Kept,
    Learned,
    Led,
    Node,
    Partition,
    Removed,
    Reported,
    Send,
    Sequenced,
    Snapshot,
    State,
)
from tests.world.replica import Remote, Replica, Waiting
from tests.world.sequences import follows
from tests.world.world import CONTROLLER, World

Answer = Callable[[str | None, int | None], None]  # error, or the base offset
NOT_LEADER = "NotLeaderForPartitionError 6"
NOT_ENOUGH = "NotEnoughReplicasError 19"
FENCED = "ProducerFencedError 90"
NOT_ENOUGH_AFTER = "NotEnoughReplicasAfterAppendError 20"
OUT_OF_ORDER = "OutOfOrderSequenceNumberError 45"
S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a leader takes for granted. `in_sync`: members of the ISR, known `since` then."""

    epoch: int
    in_sync: int
    since: int
    expanding: bool


class Service(Protocol):
    """What a broker does besides: a coordinator's work."""

    def tick(self) -> None: ...


@dataclass(kw_only=True)
class Broker:
    world: World
    node: Node
    replicas: dict[Partition, Replica]
    directory: int = 0
    incarnation: int = 0
    registered_incarnation: int = 0
    alive: bool = True
    paused: bool = False
    silent_since: int = 0
    ticks: int = 0
    kept_checkpoints: dict[Partition, int] = field(default_factory=dict)
    services: list["Service"] = field(default_factory=list)
    policies: dict[str, str] = field(default_factory=dict)  # cleanup.policy as it has heard of it, by topic

    @property
    def running(self) -> bool:
        return self.alive and not self.paused

    @property
    def silent(self) -> bool:
        return not self.running or not self.world.linked(self.node, CONTROLLER)

    def service(self, kind: type[S]) -> S:
        """The coordinator of that kind which it runs."""
        return next(each for each in self.services if isinstance(each, kind))

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The process runs; it looks at its logs, then it registers."""
        world = self.world
        self.alive, self.paused = True, False
        self.incarnation += 1
        world.chronicle.happenings.append(Reported(time_ns=world.now, node=self.node, event="broker_start"))
        for replica in self.replicas.values():
            self._recover(replica)
        self.tick(self.incarnation)
        incarnation = self.incarnation

        def registers() -> None:
            if self.incarnation == incarnation and not self.silent:
                world.controller.register(self.node)

        world.after(world.some(20, 120), registers)

    def _recover(self, replica: Replica) -> None:
        world = self.world
        if replica.damaged_from is not None:
            self.cut(replica, replica.damaged_from, Cause.DAMAGED)
            if world.flawed("damage-takes-neighbour"):
                other = world.random.choice(list(self.replicas.values()))
                if other is not replica and other.end - other.start > 1:
                    self.cut(other, world.random.randrange(other.start, other.end), Cause.DROPPED, journalled=False)
        replica.high_watermark = min(replica.checkpoint or replica.start, replica.end)
        if world.flawed("truncate-at-start") and replica.end > replica.high_watermark:
            self.cut(replica, replica.high_watermark, Cause.HIGH_WATERMARK)
        if world.topic(replica.partition).internal and replica.end > 4 and world.flawed("coordinator-drops", 0.7):
            to = world.random.randrange(max(replica.start, replica.end - 6), replica.end)
            self.cut(replica, to, Cause.DROPPED, journalled=False)
        if replica.end - replica.start > 2 and world.flawed("drop-at-start", 0.7):
            to = world.random.randrange(max(replica.start, replica.end - 12), replica.end)
            self.cut(replica, to, Cause.DROPPED, journalled=world.random.random() < 0.5)

    def stop(self) -> None:
        """SIGKILL: the page cache survives, nothing that was only in memory does."""
        self.alive, self.paused = False, False
        self.silent_since = self.world.now
        for replica in self.replicas.values():
            self._hang_up(replica)
            replica.forget_role()
        self.world.controller.watch(self.node)

    def _hang_up(self, replica: Replica) -> None:
        waiting, replica.waiting = replica.waiting, []
        for each in waiting:
            each.answer(NOT_LEADER if self.alive else "KafkaConnectionError")

    def tick(self, incarnation: int) -> None:
        """The broker's own clockwork: fetches, the check of the ISR, checkpoints."""
        if not self.alive or incarnation != self.incarnation:
            return
        world = self.world
        if not self.paused:
            self.ticks += 1
            for replica in self.replicas.values():
                if replica.state is None:
                    continue
                if replica.leading:
                    self._shrink(replica)
                elif replica.state.leader not in (-1, self.node):
                    self._fetch(replica, replica.state)
                if world.cleaner is not None and self.ticks % 4 == 0:
                    world.cleaner(world, self, replica)
            for service in self.services:
                service.tick()
            if self.ticks % 4 == 0:
                self._checkpoint()
        world.after(world.some(*world.setup.tick_ms), lambda: self.tick(incarnation))

    def _checkpoint(self) -> None:
        for partition, replica in self.replicas.items():
            replica.flushed = max(replica.flushed, replica.high_watermark - 6)
            if replica.state is not None and replica.checkpoint != replica.high_watermark:
                replica.checkpoint = replica.high_watermark
                self.world.chronicle.happenings.append(
                    Checkpointed(
                        time_ns=self.world.now,
                        partition=partition,
                        node=self.node,
                        high_watermark=replica.high_watermark,
                    )
                )

    def snapshot(self, reason: str) -> None:
        """The harness reads the disk."""
        for partition, replica in self.replicas.items():
            readable = replica.slice(
                replica.start, replica.end if replica.damaged_from is None else replica.damaged_from
            )
            self.world.chronicle.snapshots.append(
                Snapshot(
                    time_ns=self.world.now,
                    partition=partition,
                    node=self.node,
                    reason=reason,
                    log_start=replica.start,
                    log_end=replica.end,
                    entries=list(readable),
                    high_watermark=replica.checkpoint,
                    epochs=list(replica.epochs),
                )
            )

    # -- roles --------------------------------------------------------------------------------------------------------

    def learn(self, partition: Partition, state: State) -> None:
        replica, world = self.replicas[partition], self.world
        known = replica.state
        if known is not None and state.partition_epoch <= known.partition_epoch:
            return
        newer = known is None or state.epoch > known.epoch or state.leader != known.leader
        replica.state, replica.known_since, replica.adding = state, world.now, None
        world.chronicle.happenings.append(Learned(time_ns=world.now, partition=partition, node=self.node, state=state))
        if state.leader == self.node:
            if newer or not replica.leading:
                self._leads(replica, state)
            for node in world.replicas(partition):
                if node != self.node and node not in replica.remotes:
                    replica.remotes[node] = Remote(caught_up_at=world.now)
            self._raise(replica)
        elif replica.leading:
            replica.leading = False
            self._hang_up(replica)

    def _leads(self, replica: Replica, state: State) -> None:
        world = self.world
        replica.leading, replica.epoch_start = True, replica.end
        replica.assign_epoch(state.epoch, replica.end)
        replica.remotes = {
            node: Remote(caught_up_at=world.now if node in state.isr else 0)
            for node in world.replicas(replica.partition)
            if node != self.node
        }
        world.chronicle.happenings.append(
            Led(time_ns=world.now, partition=replica.partition, node=self.node, epoch=state.epoch, start=replica.end)
        )

    # -- writes -------------------------------------------------------------------------------------------------------

    def produce(
        self,
        partition: Partition,
        values: Sequence[int],
        *,
        acks: int,
        idempotent: bool,
        answer: Answer,
        producer: tuple[int, int] | None = None,
        sequenced: Sequenced | None = None,
    ) -> Standing | None:
        """Answers now or later; returns how things stood when the batch was appended, if it was."""
        replica, world = self.replicas[partition], self.world
        state = replica.state
        if not replica.leading or state is None:
            answer(NOT_LEADER, None)
            return None
        if producer is not None and self._is_fenced(replica, producer):
            answer(FENCED, None)
            return None
        below = len(state.isr) < world.enough_in_sync(partition)
        if acks == -1 and below and not world.flawed("acknowledge-below-minimum"):
            answer(NOT_ENOUGH, None)
            return None
        known = self._duplicate(replica, values) if idempotent and sequenced is None else None
        if sequenced is not None:
            found = follows(world, replica, sequenced)
            if found is False:
                answer(OUT_OF_ORDER, None)
                return None
            known = None if found is True else found
        if known is None:
            entries = [Entry(value, state.epoch, producer, sequenced=sequenced) for value in values]
            first = self.append(replica, entries, by_leader=True)
        else:
            first = known
        standing = self.standing(partition)
        end = first + len(values)
        if acks != -1 or world.flawed("acknowledge-early", 0.6):
            answer(None, first)
        else:
            replica.waiting.append(Waiting(end=end, answer=lambda error: answer(error, first)))
        self._raise(replica)
        return standing

    def _is_fenced(self, replica: Replica, producer: tuple[int, int]) -> bool:
        """A newer epoch of that producer has written here, or a marker with it."""
        newest = max((e.producer[1] for e in replica.log if e.producer and e.producer[0] == producer[0]), default=-1)
        return newest > producer[1] and not self.world.flawed("fencing-forgotten")

    def write(self, partition: Partition, entry: Entry, answer: Answer) -> None:
        """What a coordinator writes: a state of its own, or a marker; answered once all in sync have it."""
        replica, world = self.replicas[partition], self.world
        state = replica.state
        if not replica.leading or state is None:
            answer(NOT_LEADER, None)
        elif len(state.isr) < world.enough_in_sync(partition):
            answer(NOT_ENOUGH, None)
        else:
            send = Send(
                process=-1,
                partition=partition,
                values=[entry.value],
                acks=-1,
                idempotent=False,
                invoked_ns=world.now,
                appended_at=world.now,
                in_sync=len(state.isr),
            )
            first = self.append(replica, [entry], by_leader=True)

            def replicated(error: str | None) -> None:
                if error is None:
                    send.status, send.base, send.completed_ns = 0, first, world.now
                    send.acknowledged_by, send.acknowledged_in = self.node, entry.epoch
                    world.chronicle.kept.append(Kept(send=send, what=entry))
                answer(error, first)

            replica.waiting.append(Waiting(end=replica.end, answer=replicated))
            self._raise(replica)

    def standing(self, partition: Partition) -> Standing:
        replica = self.replicas[partition]
        assert replica.state is not None
        return Standing(
            epoch=replica.state.epoch,
            in_sync=len(replica.state.isr),
            since=replica.known_since,
            expanding=replica.adding is not None,
        )

    def _duplicate(self, replica: Replica, values: Sequence[int]) -> int | None:
        for offset in range(replica.end - 1, max(replica.start, replica.end - 60) - 1, -1):
            if replica.log[offset - replica.start].value == values[0]:
                return offset
        return None

    def append(self, replica: Replica, entries: Sequence[Entry], *, by_leader: bool) -> int:
        first = replica.append(entries)
        if self.world.setup.settings_change:
            replica.times |= dict.fromkeys(range(first, replica.end), self.world.now)
        self.world.chronicle.happenings.append(
            Appended(
                time_ns=self.world.now,
                partition=replica.partition,
                node=self.node,
                offset=first,
                entries=entries,
                by_leader=by_leader,
            )
        )
        return first

    def cut(
        self, replica: Replica, to: int, cause: Cause, *, epoch: int | None = None, journalled: bool = True
    ) -> None:
        end = replica.end
        gone = replica.cut(to) if cause is not Cause.WIPED else replica.empty()
        if gone or cause is Cause.WIPED:
            self.world.chronicle.happenings.append(
                Cut(
                    time_ns=self.world.now,
                    partition=replica.partition,
                    node=self.node,
                    to=to,
                    end=end,
                    entries=gone,
                    cause=cause,
                    epoch=epoch,
                    journalled=journalled,
                )
            )

    def remove_below(self, partition: Partition, to: int, *, asked: bool = True) -> None:
        replica = self.replicas[partition]
        if to > replica.start:
            replica.remove_below(min(to, replica.end))
            world = self.world
            world.chronicle.happenings.append(
                Removed(time_ns=world.now, partition=partition, node=self.node, to=replica.start, asked=asked)
            )

    # -- the high watermark -------------------------------------------------------------------------------------------

    def _raise(self, replica: Replica) -> None:
        state, world = replica.state, self.world
        if state is None or not replica.leading or (replica.high_watermark == replica.end and not replica.waiting):
            return
        members = set(state.isr) | ({replica.adding} if replica.adding is not None else set())
        enough = len(members) >= world.enough_in_sync(replica.partition) or world.flawed("acknowledge-below-minimum")
        if enough:
            ends = [replica.remotes[node].log_end for node in members if node != self.node]
            raised = min([replica.end, *ends])
            if raised < replica.end and world.flawed("high-watermark-early", 0.3):
                raised = replica.end
            replica.high_watermark = max(replica.high_watermark, raised)
        done = [each for each in replica.waiting if each.end <= replica.high_watermark]
        replica.waiting = [each for each in replica.waiting if each.end > replica.high_watermark]
        for each in done:
            each.answer(None if enough else NOT_ENOUGH_AFTER)

    # -- replication --------------------------------------------------------------------------------------------------

    def _fetch(self, replica: Replica, state: State) -> None:
        world = self.world
        leader = world.brokers[state.leader]
        if not leader.running or not world.linked(self.node, leader.node):
            return
        source = leader.replicas[replica.partition]
        if not source.leading or source.state is None or source.state.epoch != state.epoch:
            return
        if "truncate-to-high-watermark" in world.setup.flaws and replica.checked_epoch != state.epoch:
            replica.checked_epoch = state.epoch
            if replica.end > replica.high_watermark and world.flawed("truncate-to-high-watermark"):
                self.cut(replica, replica.high_watermark, Cause.HIGH_WATERMARK, epoch=state.epoch)
        if self._diverges(replica, source, state.epoch):
            return
        reported = source.high_watermark  # read before this fetch's own progress counts
        leader.fetched(source, self.node, replica.end)
        entries = list(source.slice(replica.end, min(source.end, replica.end + 200)))
        if entries:
            self.append(replica, entries, by_leader=False)
        if source.start > replica.start:
            self.remove_below(replica.partition, source.start)
        replica.high_watermark = max(replica.start, min(reported, replica.end))

    def _diverges(self, replica: Replica, source: Replica, epoch: int) -> bool:
        """Truncates towards the leader's epochs; True when there was anything to truncate."""
        if replica.end < source.start:
            self.cut(replica, replica.start, Cause.FOLLOWED, epoch=epoch)
            replica.empty()
            replica.start = source.start
            return True
        if not replica.epochs:
            if replica.end > source.end:
                self.cut(replica, source.end, Cause.FOLLOWED, epoch=epoch)
                return True
            return False
        last = replica.epochs[-1][0]
        if replica.log:
            last = replica.log[-1].epoch
        found = source.end_of_epoch(last)
        if found is None:
            if replica.end > source.end:
                self.cut(replica, source.end, Cause.FOLLOWED, epoch=epoch)
                return True
            return False
        found_epoch, found_end = found
        if found_epoch >= last and found_end >= replica.end:
            return False
        own = replica.end_of_epoch(found_epoch)
        to = min(found_end, own[1] if own is not None else replica.end, replica.end)
        if own is None or own[0] != found_epoch:
            to = min(own[1] if own is not None else found_end, replica.end)
        before = replica.end
        self.cut(replica, max(to, replica.start), Cause.FOLLOWED, epoch=epoch)
        return replica.end < before

    def fetched(self, replica: Replica, node: Node, log_end: int) -> None:
        """The leader's side of a fetch: the follower's progress, the ISR, the high watermark."""
        world, state = self.world, replica.state
        assert state is not None
        remote = replica.remotes[node]
        if log_end >= replica.end:
            remote.caught_up_at = world.now
        elif log_end >= remote.leader_end_then and remote.fetched_at:
            remote.caught_up_at = max(remote.caught_up_at, remote.fetched_at)
        remote.log_end, remote.leader_end_then, remote.fetched_at = log_end, replica.end, world.now
        sound = log_end >= replica.high_watermark and log_end >= replica.epoch_start
        if node not in state.isr and replica.adding is None and (sound or world.flawed("join-early", 0.5)):
            self._propose(replica, (*state.isr, node), adding=node)
        self._raise(replica)

    # -- the ISR ------------------------------------------------------------------------------------------------------

    def _shrink(self, replica: Replica) -> None:
        state, world = replica.state, self.world
        assert state is not None
        late = [
            node
            for node in state.isr
            if node != self.node
            and replica.remotes[node].log_end != replica.end
            and world.now - replica.remotes[node].caught_up_at > world.setup.lag_ns
        ]
        if late and replica.adding is None:
            self._propose(replica, tuple(node for node in state.isr if node not in late))

    def _propose(self, replica: Replica, isr: tuple[Node, ...], adding: Node | None = None) -> None:
        world, state = self.world, replica.state
        assert state is not None
        if not world.linked(self.node, CONTROLLER):
            return
        replica.adding = adding
        epoch, version, incarnation = state.epoch, state.partition_epoch, self.incarnation

        def decide() -> None:
            reached = self.running and self.incarnation == incarnation and world.linked(self.node, CONTROLLER)
            done = reached and world.controller.proposed(replica.partition, self.node, epoch, version, isr)
            if not done and replica.adding == adding and replica.state is state:
                replica.adding = None

        world.after(world.some(2, 40), decide)


def new_broker(world: World, node: Node) -> Broker:
    hosted = {p: Replica(partition=p, node=node) for p in world.hosted() if node in world.replicas(p)}
    return Broker(world=world, node=node, replicas=hosted, silent_since=0)
