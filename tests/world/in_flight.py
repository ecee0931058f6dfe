"""Producers with several sends under way: of one task or of several, of a workload's operations or an application's.

A call hands its record over and returns, mostly long before the answer. What was handed over for a partition goes out
in that order, at most `depth` batches at once, on a connection whose answers keep their order. What fails is sent
again: by an idempotent producer in the order of its numbers, by another before what has not gone out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.history.facts.values import number
from tests.world.brokers import NOT_ENOUGH, OUT_OF_ORDER, Broker, Standing
from tests.world.chronicle import Failed, Partition, Send, Sequenced
from tests.world.clients import DELIVERY_NS, FAIL, INFO, OK, REQUEST_NS, Metadata, acknowledged
from tests.world.world import MS, InFlight, World

SPOILED = "CorruptRecordError 2"
DISCONNECTED = "KafkaConnectionError"
NO_ANSWER = "RequestTimedOutError"
_REFUSED = (NOT_ENOUGH, OUT_OF_ORDER, SPOILED)  # before the append, for certain
UNANSWERED_MAX = 8


@dataclass(kw_only=True, eq=False)
class Batch:
    send: Send
    number: int | None = None  # within its producer's epoch, once it has gone out
    live: int = 0  # the attempt that counts
    not_before: int = 0
    perhaps_there: bool = False

    @property
    def tried(self) -> bool:
        return self.live > 0


@dataclass(kw_only=True)
class Lane:
    """What one producer has under way to one partition."""

    world: World
    metadata: Metadata
    partition: Partition
    idempotent: bool
    depth: int
    over: Callable[[Send], None]
    waiting: list[Batch] = field(default_factory=list)  # in the order in which they go out
    under_way: list[Batch] = field(default_factory=list)
    epoch: int = 0
    next_number: int = 0
    acknowledged_to: int = -1
    anew: bool = False  # the numbers begin anew: of one that was given up nobody knows whether it is there
    broken: bool = False  # the connection, and nobody has noticed yet
    arrives_ns: int = 0
    answers_ns: int = 0

    def take(self, send: Send) -> None:
        self.waiting.append(Batch(send=send))
        self.go()

    def go(self) -> None:
        world = self.world
        while self.waiting and len(self.under_way) < self.depth:
            batch = self.waiting[0]
            if self.anew and batch.number is None:
                if self.under_way:
                    return
                # KIP-360: in a new epoch, once no number of the old one is left.
                self.anew, self.epoch, self.next_number, self.acknowledged_to = False, self.epoch + 1, 0, -1
            if world.now - batch.send.invoked_ns > DELIVERY_NS:
                del self.waiting[0]
                self._gives_up(batch, "KafkaTimeoutError")
                continue
            if batch.not_before > world.now:
                world.after(batch.not_before - world.now, self.go)
                return
            broker = self.metadata.leader(self.partition)
            if broker is None or not broker.alive:
                self.metadata.ask_again(self.partition)
                world.after(150 * MS, self.go)
                return
            del self.waiting[0]
            self.under_way.append(batch)
            self._goes_out(batch, broker)

    def _goes_out(self, batch: Batch, broker: Broker) -> None:
        world = self.world
        if batch.number is None:
            batch.number, self.next_number = self.next_number, self.next_number + 1
        batch.live += 1
        live = batch.live
        self.arrives_ns = max(self.arrives_ns + 1_000, world.now + world.some(0.2, 2))
        held_up = world.some(15, 60) if world.flawed("requests-swapped", 0.1) else 0
        world.after(self.arrives_ns + held_up - world.now, lambda: self._arrives(batch, broker, live))
        world.after(REQUEST_NS, lambda: self._breaks(batch, live, NO_ANSWER))

    def _arrives(self, batch: Batch, broker: Broker, live: int) -> None:
        world, send, spec = self.world, batch.send, self.world.setup.in_flight
        assert spec is not None
        assert batch.number is not None
        if batch.live != live or batch not in self.under_way:
            return
        if not broker.alive:
            self._breaks(batch, live, DISCONNECTED)
            return
        batch.perhaps_there |= broker.paused
        if broker.paused:
            return
        taken: list[Standing] = []

        def answer(error: str | None, base: int | None) -> None:
            if self.broken:
                return
            if error is None and world.random.random() < world.answers_lost:
                self.broken = True
                world.after(150 * MS, lambda: self._breaks(batch, live, DISCONNECTED))
                return
            standing = taken[0] if taken else broker.standing(self.partition) if error is None else None
            self.answers_ns = max(self.answers_ns + 1_000, world.now + world.some(0.2, 3))
            world.after(self.answers_ns - world.now, lambda: self._answered(batch, live, broker, error, base, standing))

        if world.random.random() < spec.spoiled:
            answer(SPOILED, None)
            return
        sequenced = Sequenced(send.process, self.epoch, batch.number) if self.idempotent else None
        accepted = broker.produce(
            self.partition,
            send.values,
            acks=send.acks,
            idempotent=self.idempotent,
            answer=answer,
            sequenced=sequenced,
        )
        if accepted is not None:
            taken.append(accepted)
            batch.perhaps_there = True

    def _answered(
        self, batch: Batch, live: int, broker: Broker, error: str | None, base: int | None, standing: Standing | None
    ) -> None:
        if batch.live != live or batch not in self.under_way:
            return
        assert batch.number is not None
        send = batch.send
        self.under_way.remove(batch)
        if error is None:
            assert standing is not None
            acknowledged(self.world, send, broker.node, standing)
            self.acknowledged_to = max(self.acknowledged_to, batch.number)
            self._ends(send, OK, base=base)
        else:
            send.failed.append(Failed(self.world.now, error in _REFUSED, error))
            self.metadata.ask_again(self.partition)
            if error == OUT_OF_ORDER and (self.anew or batch.number <= self.acknowledged_to + 1):
                self._gives_up(batch, error)  # nothing is missing before it that could still come
            else:
                self._again(batch)
        self.go()

    def _breaks(self, batch: Batch, live: int, error: str) -> None:
        """The connection, with all that is under way on it."""
        if batch.live != live or batch not in self.under_way:
            return
        self.broken = False
        self.metadata.ask_again(self.partition)
        those, self.under_way = self.under_way, []
        for each in those:
            each.perhaps_there = True
            each.send.failed.append(Failed(self.world.now, refused=False, error=error))
            self._again(each)
        self.go()

    def _again(self, batch: Batch) -> None:
        batch.not_before = self.world.now + self.world.some(50, 130)
        place = 0
        if self.idempotent and batch.number is not None:
            place = sum(each.number is not None and each.number < batch.number for each in self.waiting)
        self.waiting.insert(place, batch)

    def _gives_up(self, batch: Batch, error: str) -> None:
        self.anew |= self.idempotent and batch.tried
        self._ends(batch.send, INFO if batch.perhaps_there else FAIL, error=error)

    def _ends(self, send: Send, status: int, *, base: int | None = None, error: str | None = None) -> None:
        send.status, send.base, send.error, send.completed_ns = status, base, error, self.world.now
        self.over(send)


@dataclass(kw_only=True)
class PipelinedProducer:
    """One process. Its tasks call it, or one task does in operations of several records."""

    world: World
    process: int
    acks: int
    idempotent: bool
    spec: InFlight
    lanes: dict[Partition, Lane] = field(default_factory=dict)
    sequence: int = 0
    unanswered: int = 0
    operations: int = 0
    left: int = 0  # of an operation: not answered yet

    def begin(self, metadata: Metadata) -> None:
        for partition in self.world.partitions():
            self.lanes[partition] = Lane(
                world=self.world,
                metadata=metadata,
                partition=partition,
                idempotent=self.idempotent,
                depth=self.spec.depth,
                over=self._over,
            )
        for _ in range(self.spec.tasks):
            self.world.after(self.world.some(20, 200), self._work)
        if not self.spec.tasks:
            self.world.after(self.world.some(20, 200), self._operate)

    # -- tasks of an application --------------------------------------------------------------------------------------

    def _work(self) -> None:
        if self.world.loading:
            send = self._send()
            self._call(send, lambda: self.world.after(self.world.some(10, 160), self._work))

    # -- operations of a workload -------------------------------------------------------------------------------------

    def _operate(self) -> None:
        if not self.world.loading:
            return
        self.operations += 1
        self.left = self.world.random.randint(2, 6)
        self._next_of_operation(self.left)

    def _next_of_operation(self, more: int) -> None:
        if more:
            send = self._send(operation=self.operations)
            self._call(send, lambda: self.world.after(5_000, lambda: self._next_of_operation(more - 1)))

    # -- calls --------------------------------------------------------------------------------------------------------

    def _send(self, operation: int | None = None) -> Send:
        world = self.world
        send = Send(
            process=self.process,
            partition=world.random.choice(world.partitions()),
            values=[number(self.process, self.sequence)],
            acks=self.acks,
            idempotent=self.idempotent,
            invoked_ns=world.now,
            operation=operation,
        )
        self.sequence += 1
        world.chronicle.sends.append(send)
        return send

    def _call(self, send: Send, then: Callable[[], None]) -> None:
        """A record is handed over at some moment within its call."""
        world = self.world
        slow = world.random.random() < 0.15
        before, after = (world.some(0.5, 30), world.some(0.5, 30)) if slow else (world.some(0.01, 0.3), 50_000)

        def returns() -> None:
            send.returned_ns = world.now
            then()

        def hands_over() -> None:
            if self.unanswered >= UNANSWERED_MAX:
                world.after(5 * MS, hands_over)
                return
            self.unanswered += 1
            self.lanes[send.partition].take(send)
            world.after(after, returns)

        world.after(before, hands_over)

    def _over(self, send: Send) -> None:
        self.unanswered -= 1
        if send.operation is not None:
            self.left -= 1
            if not self.left:
                self.world.after(self.world.some(30, 200), self._operate)
