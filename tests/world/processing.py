"""Processors: they read, write, and send the offsets of what they read to the same transaction.

Each transactional id has partitions of the input for its own, and whoever takes it over goes on from the offsets that
were committed. Those of an application commit their place plainly too, now and then, also while their transaction is
open; what they write does not tell its input. Those of the harness's workload do neither.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.history.facts.values import number
from tests.world.chronicle import GroupEvent, Partition, Poll, Transaction
from tests.world.clients import FAIL, INFO, OK, Metadata, Processes
from tests.world.group_coordinator import GROUP, Answered
from tests.world.members import read_on
from tests.world.offsets_coordinator import NOBODY, OffsetsCoordinator
from tests.world.requests import OFFSETS, TIMED_OUT, Done, Reply, Request
from tests.world.transactional import ABORTED, ON_PURPOSE, TransactionalId, TransactionalProducer
from tests.world.world import World

INPUT, OUTPUT = "orders", "results"
NEVER_BEGUN = 3
Asking = Callable[[OffsetsCoordinator, Reply], None]
Fetched = Callable[[Mapping[Partition, Answered] | None], None]


@dataclass(kw_only=True)
class ProcessorPlace(TransactionalId):
    """One processor after the other, of the same partitions."""

    group: str
    owned: tuple[Partition, ...]

    def begin(self) -> None:
        if not self.world.loading:
            return
        process = self.processes.new(
            self.name,
            acks=-1,
            idempotent=True,
            isolation="read_committed",
            transactional_id=self.name,
            group=self.group,
        )
        Processor(world=self.world, of=self, process=process, metadata=self.metadata, place=self).begin()


@dataclass(kw_only=True)
class Processor(TransactionalProducer):
    place: ProcessorPlace
    positions: dict[Partition, int] = field(default_factory=dict)
    before: dict[Partition, int] = field(default_factory=dict)  # where the transaction began
    inputs: dict[Partition, list[tuple[Partition, int]]] = field(
        default_factory=dict
    )  # what is to be written, by output
    sent: bool = False  # the offsets
    written: int = 0
    over: bool = False
    gained: int = 1

    def transact(self) -> None:
        """The first time it asks where to go on."""
        if self.over:
            return
        if not self.positions:
            fetch_offsets(self.world, self.metadata, self.process, self.place.owned, self._begins_at)
        elif self.world.loading:
            world = self.world
            self.transaction = Transaction(
                number=len(world.chronicle.transactions),
                process=self.process,
                transactional_id=self.of.name,
                producer=self.producer,
                begun_ns=world.now,
                group=self.place.group,
            )
            world.chronicle.transactions.append(self.transaction)
            self.added, self.failed, self.send, self.sent = set(), False, None, False
            self.before = dict(self.positions)
            self._poll()

    def _begins_at(self, answer: Mapping[Partition, Answered] | None) -> None:
        if answer is None:
            self._replace()
            return
        self.positions = {partition: max(each.offset, 0) for partition, each in answer.items()}
        self._tell("assigned", dict.fromkeys(self.positions), self.world.now)
        self.transact()

    # -- reading ------------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        world, transaction = self.world, self.transaction
        assert transaction is not None
        if not world.loading:
            transaction.outcome, transaction.ended_ns = NEVER_BEGUN, world.now
            return
        reads = [
            read
            for partition in self.positions
            if (read := read_on(self.world, self.metadata, self.positions, partition, 6)) is not None
        ]
        world.chronicle.polls.append(
            Poll(
                process=self.process,
                assignment=self.gained,
                final=False,
                invoked_ns=world.now,
                completed_ns=world.now,
                reads=reads,
                transaction=transaction.number,
            )
        )
        if not reads:
            world.after(world.some(40, 150), self._poll)
            return
        outputs = [partition for partition in world.partitions() if partition[0] == OUTPUT]
        self.inputs = {}
        for read in reads:
            output = outputs[read.partition[1] % len(outputs)]
            self.inputs.setdefault(output, []).extend((read.partition, offset) for offset, _ in read.placed())
        self.left = [(output, len(those)) for output, those in self.inputs.items()]
        world.after(world.some(2, 60), self.next)

    def _values(self, partition: Partition, count: int) -> list[int]:
        spec, world = self.world.setup.processing, self.world
        assert spec is not None
        self.written += count
        if spec.plain:
            return [number(self.process, self.written - count + place) for place in range(count)]
        values = []
        for place, ((topic, part), offset) in enumerate(self.inputs[partition]):
            value = world.serial()
            world.chronicle.names[value] = f"{topic}-{part}-{offset}/{self.process}.{self.written - count + place + 1}"
            values.append(value)
        return values

    # -- offsets ------------------------------------------------------------------------------------------------------

    def _end(self, *, commit: bool) -> None:
        if self.failed or self.sent or not self.world.loading:
            super()._end(commit=commit and self.sent)
            return

        def added(error: str | None, _: object, __: bool) -> None:
            if error is None:
                self._send_offsets(commit=commit)
            elif error == TIMED_OUT:
                self.failed = True
                super(Processor, self)._end(commit=False)
            else:
                self._over(ABORTED, error)

        self._ask(
            lambda coordinator, reply: coordinator.add_partition(self.of.name, self.producer, OFFSETS, reply), added
        )

    def _send_offsets(self, *, commit: bool) -> None:
        offsets = {each: at for each, at in self.positions.items() if at != self.before[each]} or dict(self.positions)
        begun_ns, transaction = self.world.now, self.transaction
        assert transaction is not None

        def committed(error: str | None, source: int | None, perhaps_done: bool) -> None:
            unknown = error == TIMED_OUT or perhaps_done
            status = OK if error is None else INFO if unknown else FAIL
            self._tell("committed", offsets, begun_ns, status=status, error=error, source=source, of=transaction)
            self.sent, self.failed = error is None, error is not None
            self._beside()
            super(Processor, self)._end(commit=commit and self.sent)

        def ask(coordinator: OffsetsCoordinator, reply: Reply) -> None:
            coordinator.commit(offsets, reply, producer=self.producer)

        _ask_offsets(self.world, self.metadata, ask, committed)

    def _beside(self) -> None:
        """A plain commit of where the transaction began, or of where it is: the last record in the log holds."""
        spec = self.world.setup.processing
        assert spec is not None
        if not spec.plain or self.world.random.random() > 0.35:
            return
        offsets = dict(self.before)
        begun_ns = self.world.now + 1  # after its last answer: at one time nobody could tell which came first

        def committed(error: str | None, source: int | None, perhaps_done: bool) -> None:
            unknown = error == TIMED_OUT or perhaps_done
            status = OK if error is None else INFO if unknown else FAIL
            self._tell("committed", offsets, begun_ns, status=status, error=error, source=source)

        _ask_offsets(
            self.world, self.metadata, lambda coordinator, reply: coordinator.commit(offsets, reply), committed
        )

    def _over(self, outcome: int, error: str | None) -> None:
        if error == ON_PURPOSE:
            self.positions = dict(self.before)
            self.gained += 1
            self._tell("seek", self.positions, self.world.now)
        super()._over(outcome, error)
        if self.world.random.random() < 0.2:
            self.over = True  # it is started anew
            self._replace(50, 400)

    def _tell(
        self,
        event: str,
        offsets: Mapping[Partition, int | None],
        begun_ns: int,
        *,
        status: int = OK,
        error: str | None = None,
        source: int | None = None,
        of: Transaction | None = None,
    ) -> None:
        self.world.chronicle.group_events += [
            GroupEvent(
                process=self.process,
                event=event,
                generation=-1,
                member=NOBODY,
                partition=partition,
                offset=offset,
                status=status,
                invoked_ns=begun_ns,
                completed_ns=self.world.now,
                error=error,
                source=source,
                transaction=None if of is None else of.number,
            )
            for partition, offset in offsets.items()
        ]


def _ask_offsets(world: World, metadata: Metadata, ask: Asking, done: Done) -> None:
    Request(
        world=world,
        metadata=metadata,
        partition=OFFSETS,
        ask=lambda broker, reply: ask(broker.service(OffsetsCoordinator), reply),
        done=done,
    ).go()


def fetch_offsets(
    world: World, metadata: Metadata, process: int, partitions: Sequence[Partition], then: Fetched
) -> None:
    """What the group has committed, told as that process tells it; None: nobody could say."""
    begun_ns, spec = world.now, world.setup.processing
    assert spec is not None

    def fetched(error: str | None, answer: Mapping[Partition, Answered] | None, _: bool) -> None:
        if error is not None or answer is None:
            then(None)
            return
        world.chronicle.group_events += [
            GroupEvent(
                process=process,
                event="fetched",
                generation=-1,
                member=NOBODY,
                partition=partition,
                offset=each.offset,
                status=OK,
                invoked_ns=begun_ns,
                completed_ns=world.now,
                source=each.source,
                deposed=each.deposed,
                require_stable=spec.stable,
            )
            for partition, each in answer.items()
        ]
        then(answer)

    _ask_offsets(
        world, metadata, lambda coordinator, reply: coordinator.fetch(partitions, reply, stable=spec.stable), fetched
    )


def watch(world: World, processes: Processes) -> None:
    """A client that is no member asks for the group's offsets again and again, and once more at the end."""
    process = processes.new("final-offsets", group=GROUP)
    inputs = [partition for partition in world.partitions() if partition[0] == INPUT]
    metadata = Metadata(world=world)

    def again(_: object = None) -> None:
        if world.loading:
            world.after(world.some(150, 900), ask)

    def ask() -> None:
        fetch_offsets(world, metadata, process, inputs, again)

    ask()


def processors(world: World, processes: Processes) -> Iterator[ProcessorPlace]:
    """As many as there are transactional ids; the partitions of the input are shared out."""
    inputs = [partition for partition in world.partitions() if partition[0] == INPUT]
    names = world.setup.transactional_ids
    for place, name in enumerate(names):
        yield ProcessorPlace(
            world=world,
            processes=processes,
            name=name,
            metadata=Metadata(world=world),
            group=GROUP,
            owned=tuple(inputs[place :: len(names)]),
        )
