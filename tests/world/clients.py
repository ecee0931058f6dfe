"""Producers and consumers: one operation at a time each, with the retries and the ignorance of real clients."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.history.facts.values import number
from tests.world.brokers import FENCED, NOT_ENOUGH, Broker, Standing
from tests.world.chronicle import Assigned, Entry, Node, Partition, Poll, Read, Send
from tests.world.replica import Replica
from tests.world.stability import served
from tests.world.world import MS, World

DELIVERY_NS = 3_500 * MS
REQUEST_NS = 1_200 * MS
OK, FAIL, INFO = 0, 1, 2
_DEFINITE = (NOT_ENOUGH,)


class Processes:
    """Numbers of clients, in order of their start."""

    def __init__(self) -> None:
        self.names: list[tuple[str, bool, int | None, bool | None]] = []  # client, produces, acks, idempotent
        self.isolation: dict[int, str] = {}  # of those that are not read_uncommitted
        self.transactional_ids: dict[int, str] = {}
        self.groups: dict[int, str] = {}
        self.tells_attempts: set[int] = set()

    def new(
        self,
        name: str,
        *,
        acks: int | None = None,
        idempotent: bool | None = None,
        isolation: str = "read_uncommitted",
        transactional_id: str | None = None,
        group: str | None = None,
    ) -> int:
        self.names.append((name, acks is not None, acks, idempotent))
        number = len(self.names) - 1
        if isolation != "read_uncommitted":
            self.isolation[number] = isolation
        if transactional_id is not None:
            self.transactional_ids[number] = transactional_id
        if group is not None:
            self.groups[number] = group
        return len(self.names) - 1


@dataclass(kw_only=True)
class Metadata:
    """Whom a client takes for the leader; asked again only when that broker does not answer well."""

    world: World
    leaders: dict[Partition, Node] = field(default_factory=dict)

    def leader(self, partition: Partition) -> Broker | None:
        node = self.leaders.get(partition, -1)
        if node < 0:
            node = self.world.controller.states[partition].leader
            self.leaders[partition] = node
        return self.world.brokers.get(node)

    def ask_again(self, partition: Partition) -> None:
        self.leaders.pop(partition, None)


def acknowledged(world: World, send: Send, node: Node, standing: Standing) -> None:
    """By whom, and what that broker knew then."""
    send.acknowledged_by, send.acknowledged_in, send.in_sync = node, standing.epoch, standing.in_sync
    known = send.invoked_ns > standing.since and not standing.expanding
    send.below_minimum = send.acks == -1 and standing.in_sync < world.least_in_sync(send.partition) and known
    # Who sees that the minimum was raised, or the ISR smaller, may not call it certain that its leader had heard.
    below = send.acks == -1 and standing.in_sync < world.enough_in_sync(send.partition)
    send.perhaps_below = below and not send.below_minimum


class Sender(Protocol):
    """Who has one batch on its way at a time."""

    def next(self) -> None: ...


@dataclass(kw_only=True)
class Attempts:
    """One batch on its way: sent, perhaps sent again, until it is answered or given up."""

    world: World
    metadata: Metadata
    send: Send
    then: "Sender"
    producer: tuple[int, int] | None = None  # id and epoch, in a transaction
    tries: int = 0
    over: bool = False
    perhaps_there: bool = False  # an attempt before may have been appended

    def go(self) -> None:
        world, send = self.world, self.send
        if self.over:
            return
        if world.now - send.invoked_ns > DELIVERY_NS or (self.tries and not world.setup.retries):
            self._end(INFO, error="KafkaTimeoutError" if self.tries else "NodeNotReadyError")
            return
        self.tries += 1
        current = self.tries
        broker = self.metadata.leader(send.partition)
        if broker is None or not broker.alive:
            self._again(current, 150)
            return
        if broker.paused:
            self.perhaps_there = True  # its kernel took the bytes; it may read them when it runs again
            world.after(REQUEST_NS, lambda: self._again(current, 50))
            return
        self._ask(broker, current)

    def _ask(self, broker: Broker, current: int) -> None:
        world, send = self.world, self.send
        lost = world.random.random() < world.answers_lost
        taken: list[Standing] = []

        def answer(error: str | None, base: int | None) -> None:
            if lost and error is None:
                return  # appended, and the connection broke before the answer came
            if error is None:
                # The answer is on its way; what the broker knew is fixed by now.
                standing = taken[0] if taken else broker.standing(send.partition)
                world.after(world.some(0.2, 3), lambda: self._done(current, broker.node, base, standing))
            else:
                world.after(world.some(0.2, 3), lambda: self._refused(current, error))

        accepted = broker.produce(
            send.partition,
            send.values,
            acks=send.acks,
            idempotent=send.idempotent,
            answer=answer,
            producer=self.producer,
        )
        if accepted is not None:
            taken.append(accepted)
            self.perhaps_there = True
            if send.appended_at is None:
                send.appended_at = world.now
        world.after(REQUEST_NS if not lost else 150 * MS, lambda: self._again(current, 50))

    def _done(self, current: int, node: Node, base: int | None, standing: Standing) -> None:
        if self.over or current != self.tries:
            return
        acknowledged(self.world, self.send, node, standing)
        if self.send.acks == 0:
            self._end(INFO)
        else:
            self._end(OK, base=base)

    def _refused(self, current: int, error: str) -> None:
        if self.over or current != self.tries:
            return
        self.metadata.ask_again(self.send.partition)
        if error == FENCED:
            self._end(INFO if self.perhaps_there else FAIL, error=error)
        elif not self.world.setup.retries:
            definite = error in _DEFINITE and not self.perhaps_there
            self._end(FAIL if definite else INFO, error=error)
        else:
            self._again(current, 120)

    def _again(self, current: int, wait_ms: int) -> None:
        if self.over or current != self.tries:
            return
        self.metadata.ask_again(self.send.partition)
        self.world.after(wait_ms * MS, self.go)

    def _end(self, status: int, *, base: int | None = None, error: str | None = None) -> None:
        self.over = True
        self.send.status, self.send.base, self.send.error, self.send.completed_ns = status, base, error, self.world.now
        self.then.next()


@dataclass(kw_only=True)
class Producer:
    world: World
    process: int
    acks: int
    idempotent: bool
    metadata: Metadata
    pace_ms: tuple[float, float] = (60, 260)
    sequence: int = 0

    def next(self) -> None:
        self.world.after(self.world.some(*self.pace_ms), self.produce)

    def produce(self) -> None:
        world = self.world
        if not world.loading:
            return
        inputs = [each for each in world.partitions() if world.setup.processing is None or each[0] == "orders"]
        partition = world.random.choice(inputs)
        count = world.random.choice((1, 1, 2, 3))
        values = [number(self.process, self.sequence + place) for place in range(count)]
        self.sequence += count
        if world.setup.policies:
            world.chronicle.keys |= {value: world.random.randrange(7) for value in values}
        send = Send(
            process=self.process,
            partition=partition,
            values=values,
            acks=self.acks,
            idempotent=self.idempotent,
            invoked_ns=world.now,
        )
        world.chronicle.sends.append(send)
        Attempts(world=world, metadata=self.metadata, send=send, then=self).go()


@dataclass(kw_only=True)
class Consumer:
    world: World
    processes: Processes
    name: str
    metadata: Metadata
    isolation: str = "read_uncommitted"
    process: int = -1
    positions: dict[Partition, int] = field(default_factory=dict)
    epochs: dict[Partition, int] = field(default_factory=dict)  # of the record before the position

    def begin(self) -> None:
        """A client of its own from the beginning of every partition."""
        world = self.world
        self.process = self.processes.new(self.name, isolation=self.isolation)
        self.positions, self.epochs = {}, {}
        for partition in world.partitions():
            leader = self.metadata.leader(partition)
            self.positions[partition] = leader.replicas[partition].start if leader is not None else 0
        world.chronicle.assigned.append(Assigned(process=self.process, time_ns=world.now, count=len(self.positions)))

    def poll(self) -> None:
        world = self.world
        if not world.loading:
            return
        if self.process < 0:
            self.begin()
        t0 = world.now
        reads, wrong = [], None
        for partition in world.partitions():
            read = self._read(partition)
            if isinstance(read, str):
                wrong = read
            elif read is not None:
                reads.append(read)
        poll = Poll(process=self.process, assignment=1, final=False, invoked_ns=t0, completed_ns=t0, reads=reads)
        if wrong is not None:
            poll.reads, poll.error = (), wrong

        def answered() -> None:
            poll.completed_ns = world.now

        world.after(world.some(0.2, 2), answered)
        world.chronicle.polls.append(poll)
        if wrong is not None:
            self.process = -1
        world.after(world.some(90, 330), self.poll)

    def _read(self, partition: Partition) -> Read | str | None:
        broker = self.metadata.leader(partition)
        if broker is None or not broker.running or not broker.replicas[partition].leading:
            self.metadata.ask_again(partition)
            return None
        replica, position = broker.replicas[partition], self.positions[partition]
        assert replica.state is not None
        before = replica.at(position - 1)
        if position > replica.end or (
            before is not None and partition in self.epochs and before.epoch != self.epochs[partition]
        ):
            return "LogTruncationError"
        if position < replica.start:
            return "OffsetOutOfRangeError"
        if self.world.setup.transactional_ids or self.world.setup.policies:
            return self._read_between_markers(partition, broker.node, replica)
        entries: Sequence[Entry] = replica.slice(position, min(replica.high_watermark, position + 15))
        if not entries:
            return None
        self.positions[partition] = position + len(entries)
        self.epochs[partition] = entries[-1].epoch
        epoch = replica.state.epoch
        return Read(partition=partition, node=broker.node, leader_epoch=epoch, first=position, entries=list(entries))

    def _read_between_markers(self, partition: Partition, node: Node, replica: Replica) -> Read | None:
        position = self.positions[partition]
        fetched = served(self.world, replica, position, position + 15, isolation=self.isolation)
        if fetched.next > position:
            self.positions[partition] = fetched.next
            self.epochs[partition] = replica.log[fetched.next - 1 - replica.start].epoch
        if not fetched.entries:
            return None
        assert replica.state is not None
        return Read(
            partition=partition,
            node=node,
            leader_epoch=replica.state.epoch,
            first=fetched.offsets[0],
            entries=fetched.entries,
            offsets=fetched.offsets,
        )
