"""Transactional producers: one transaction after another, under an id that outlives its clients.

A client may abort on purpose, crash within a transaction, or be paused there: then a successor takes its id over, and
the paused one goes on when it wakes, as a zombie. Whoever was fenced, or does not know what became of its transaction,
is replaced.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.history.facts.values import number
from tests.world.chronicle import Partition, Send, Transaction
from tests.world.clients import INFO, OK, Attempts, Metadata, Processes
from tests.world.requests import TIMED_OUT, TRANSACTIONS, Done, Reply, Request
from tests.world.transaction_coordinator import TransactionCoordinator
from tests.world.world import MS, World

ON_PURPOSE = "aborted on purpose"
COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
Asking = Callable[[TransactionCoordinator, Reply], None]


@dataclass(kw_only=True)
class TransactionalId:
    """One client after the other under one id."""

    world: World
    processes: Processes
    name: str
    metadata: Metadata

    def begin(self) -> None:
        if not self.world.loading:
            return
        process = self.processes.new(self.name, acks=-1, idempotent=True, transactional_id=self.name)
        TransactionalProducer(world=self.world, of=self, process=process, metadata=self.metadata).begin()

    def replace(self, low_ms: float = 100, high_ms: float = 600) -> None:
        self.world.after(self.world.some(low_ms, high_ms), self.begin)


@dataclass(kw_only=True)
class TransactionalProducer:
    world: World
    of: TransactionalId
    process: int
    metadata: Metadata
    producer: tuple[int, int] = (-1, -1)
    sequence: int = 0
    transaction: Transaction | None = None
    left: list[tuple[Partition, int]] = field(default_factory=list)  # batches: partition and how many records
    added: set[Partition] = field(default_factory=set)
    failed: bool = False
    send: Send | None = None
    replaced: bool = False

    def begin(self) -> None:
        def begun(error: str | None, producer: tuple[int, int] | None, _: bool) -> None:
            if error is None and producer is not None:
                self.producer = producer
                self.transact()
            else:
                self._replace()

        self._ask(lambda coordinator, reply: coordinator.begin_producer(self.of.name, reply), begun)

    def transact(self) -> None:
        world = self.world
        if not world.loading:
            return
        self.transaction = Transaction(
            number=len(world.chronicle.transactions),
            process=self.process,
            transactional_id=self.of.name,
            producer=self.producer,
            begun_ns=world.now,
        )
        world.chronicle.transactions.append(self.transaction)
        self.added, self.failed, self.send = set(), False, None
        self.left = [
            (world.random.choice(world.partitions()), world.random.choice((1, 1, 2, 3)))
            for _ in range(world.random.choice((1, 2, 2, 3, 4)))
        ]
        self.next()

    def next(self) -> None:
        """After each batch: the next one, an end of the transaction, or of this client."""
        world = self.world
        if self.send is not None and self.send.status != OK:
            self.failed = True
        chance = world.random.random()
        if self.send is not None and chance < 0.03:
            self._replace(100, 4_000)  # it crashed
        elif self.send is not None and chance < 0.08:
            self._replace(50, 300)  # it is paused, and taken for dead
            world.after(world.some(800, 4_000), self._go_on)
        else:
            world.after(world.some(20, 160), self._go_on)

    def _go_on(self) -> None:
        if self.failed or not self.left:
            self._end(commit=not self.failed and self.world.random.random() < 0.75)
            return
        partition, count = self.left.pop(0)
        if partition in self.added:
            self._send(partition, count)
            return

        def added(error: str | None, _: object, __: bool) -> None:
            if error is None:
                self.added.add(partition)
                self._send(partition, count)
            elif error == TIMED_OUT:
                self._end(commit=False)
            else:
                self._over(ABORTED, error)  # fenced: whoever fenced it ended its transaction

        self._ask(
            lambda coordinator, reply: coordinator.add_partition(self.of.name, self.producer, partition, reply), added
        )

    def _send(self, partition: Partition, count: int) -> None:
        world = self.world
        assert self.transaction is not None
        values = self._values(partition, count)
        self.send = Send(
            process=self.process,
            partition=partition,
            values=values,
            acks=-1,
            idempotent=True,
            invoked_ns=world.now,
            transaction=self.transaction.number,
        )
        world.chronicle.sends.append(self.send)
        if "late-produce" in world.setup.flaws and not self.left and world.random.random() < 0.3:
            self._is_held_up(self.send)
            return
        Attempts(world=world, metadata=self.metadata, send=self.send, then=self, producer=self.producer).go()

    def _values(self, partition: Partition, count: int) -> list[int]:
        """Of the next records there."""
        values = [number(self.process, self.sequence + place) for place in range(count)]
        self.sequence += count
        return values

    def _is_held_up(self, send: Send) -> None:
        """The request stays in the network until the transaction was aborted, and is appended then (KAFKA-14561)."""
        world, transaction, producer = self.world, self.transaction, self.producer
        send.status, send.error, send.completed_ns = INFO, TIMED_OUT, world.now + 5 * MS
        world.after(5 * MS, self.next)

        def arrives() -> None:
            assert transaction is not None
            leader = world.brokers.get(world.controller.states[send.partition].leader)
            if transaction.outcome != ABORTED or leader is None or not leader.running:
                return
            if leader.replicas[send.partition].leading and world.flawed("late-produce"):
                leader.produce(
                    send.partition, send.values, acks=-1, idempotent=True, answer=lambda *_: None, producer=producer
                )

        world.after(world.some(1_000, 2_500), arrives)

    def _end(self, *, commit: bool) -> None:
        def ended(error: str | None, _: object, perhaps_done: bool) -> None:
            if error is None:
                on_purpose = None if commit or self.failed else ON_PURPOSE
                self._over(COMMITTED if commit else ABORTED, on_purpose)
            else:
                # What was asked before and not answered may have been done, of a commit; an abort never commits.
                self._over(UNKNOWN if error == TIMED_OUT or perhaps_done else ABORTED, error)

        self._ask(
            lambda coordinator, reply: coordinator.end_transaction(
                self.of.name, self.producer, commit=commit, reply=reply
            ),
            ended,
        )

    def _over(self, outcome: int, error: str | None) -> None:
        transaction = self.transaction
        assert transaction is not None
        transaction.outcome, transaction.error, transaction.ended_ns = outcome, error, self.world.now
        if error in (None, ON_PURPOSE) and not self.failed:
            self.world.after(self.world.some(20, 250), self.transact)
        else:
            self._replace()

    def _replace(self, low_ms: float = 100, high_ms: float = 600) -> None:
        """Once: a zombie has its successor."""
        if not self.replaced:
            self.replaced = True
            self.of.replace(low_ms, high_ms)

    def _ask(self, ask: Asking, done: Done) -> None:
        Request(
            world=self.world,
            metadata=self.metadata,
            partition=TRANSACTIONS,
            ask=lambda broker, reply: ask(broker.service(TransactionCoordinator), reply),
            done=done,
        ).go()
