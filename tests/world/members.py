"""Members of a group: they join, read from the committed offset on, and commit what they have read.

One may leave, crash, or be paused for longer than its session: it is replaced meanwhile, and when it wakes it commits
what it had read, in its old generation. What a client tells of its group is recorded as the harness does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.world.chronicle import GroupEvent, Partition, Poll, Read
from tests.world.clients import Metadata, Processes
from tests.world.group_coordinator import REBALANCE, Answered, GroupCoordinator
from tests.world.requests import OFFSETS, TIMED_OUT, Done, Reply, Request
from tests.world.world import World

OK, FAIL, INFO = 0, 1, 2
Asking = Callable[[GroupCoordinator, Reply], None]


def read_on(
    world: World, metadata: Metadata, positions: dict[Partition, int], partition: Partition, most: int
) -> Read | None:
    """What a poll gets from its position on, at most so many records, and moves that; from the start of the log
    where the position does not exist (auto.offset.reset=earliest)."""
    broker = metadata.leader(partition)
    if broker is None or not broker.running or not broker.replicas[partition].leading:
        metadata.ask_again(partition)
        return None
    replica, position = broker.replicas[partition], positions[partition]
    if position > replica.end or position < replica.start:
        positions[partition] = position = replica.start
        world.chronicle.reset.add(partition)
    entries = list(replica.slice(position, min(replica.high_watermark, position + most)))
    if not entries or replica.state is None:
        return None
    positions[partition] = position + len(entries)
    return Read(
        partition=partition, node=broker.node, leader_epoch=replica.state.epoch, first=position, entries=entries
    )


@dataclass(kw_only=True)
class Place:
    """One member after another, in one worker."""

    world: World
    processes: Processes
    name: str
    group: str
    metadata: Metadata

    def begin(self) -> None:
        if self.world.loading:
            process = self.processes.new(self.name, group=self.group)
            Member(world=self.world, place=self, process=process, name=f"{self.name}-{process}").join()

    def replace(self, low_ms: float, high_ms: float) -> None:
        self.world.after(self.world.some(low_ms, high_ms), self.begin)


@dataclass(kw_only=True)
class Member:
    world: World
    place: Place
    process: int
    name: str
    generation: int = -1
    positions: dict[Partition, int] = field(default_factory=dict)
    gained: int = 0
    over: bool = False

    # -- membership ---------------------------------------------------------------------------------------------------

    def join(self) -> None:
        begun_ns = self.world.now

        def joined(error: str | None, answer: tuple[int, Sequence[Partition]] | None, _: bool) -> None:
            if error is not None or answer is None:
                self._ends(100, 500)
                return
            self.generation, owned = answer
            self.gained += 1
            self._tell("assigned", dict.fromkeys(owned), begun_ns)
            self._fetch(owned)

        self._ask(lambda coordinator, reply: coordinator.join(self.name, reply), joined)

    def _fetch(self, owned: Sequence[Partition]) -> None:
        begun_ns = self.world.now

        def fetched(error: str | None, answer: Mapping[Partition, Answered] | None, _: bool) -> None:
            if error is not None or answer is None:
                self._ends(100, 500)
                return
            offsets = {partition: each.offset for partition, each in answer.items()}
            sources = {partition: each.source for partition, each in answer.items()}
            deposed = any(each.deposed for each in answer.values())
            self._tell("fetched", offsets, begun_ns, sources=sources, deposed=deposed)
            self.positions = {
                partition: offset if offset >= 0 else self._start(partition) for partition, offset in offsets.items()
            }
            if not self.over:
                self._beat()

        if owned:
            self._ask(lambda coordinator, reply: coordinator.fetch(owned, reply), fetched)
        else:
            self._beat()

    def fetch_once(self, partitions: Sequence[Partition]) -> None:
        self.over = True
        self._fetch(partitions)

    def _start(self, partition: Partition) -> int:
        leader = self.place.metadata.leader(partition)
        return leader.replicas[partition].start if leader is not None else 0

    def _beat(self) -> None:
        """Whether it is still wanted; then it reads."""

        def answer(error: str | None, _: object, __: bool) -> None:
            if not self.world.loading or self.over:
                return
            if error is None:
                self._poll()
            elif error == REBALANCE:
                self._gives_up("revoked")
                self.join()
            else:
                self._gives_up("lost")
                self._ends(50, 300)

        self._ask(lambda coordinator, reply: coordinator.heartbeat(self.name, self.generation, reply), answer)

    def _gives_up(self, event: str) -> None:
        if self.positions:
            self._tell(event, dict.fromkeys(self.positions), self.world.now)
        self.positions = {}

    # -- work ---------------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        world = self.world
        reads = [
            read
            for partition in self.positions
            if (read := read_on(self.world, self.place.metadata, self.positions, partition, 15)) is not None
        ]
        poll = Poll(
            process=self.process,
            assignment=self.gained,
            final=False,
            invoked_ns=world.now,
            completed_ns=world.now,
            reads=reads,
        )
        world.chronicle.polls.append(poll)
        chance = world.random.random()
        if chance < 0.02:
            self.over = True  # it crashes: nobody is told, and its session ends
            world.chronicle.crashed[self.process] = world.now
            self.place.replace(100, 3_000)
        elif chance < 0.04:
            self._leaves()
        elif chance < 0.07:
            self.place.replace(100, 1_000)  # taken for dead, and paused
            world.after(world.some(1_800, 4_000), lambda: self._commit(last=True))
        elif reads and chance < 0.8:
            world.after(world.some(5, 60), self._commit)
        else:
            world.after(world.some(60, 220), self._beat)

    def _commit(self, *, last: bool = False) -> None:
        if self.over or not self.positions or not self.world.loading:
            return
        begun_ns, offsets, generation = self.world.now, dict(self.positions), self.generation

        def committed(error: str | None, source: int | None, perhaps_done: bool) -> None:
            unknown = error == TIMED_OUT or perhaps_done
            status = OK if error is None else INFO if unknown else FAIL
            sources = dict.fromkeys(offsets, source)
            self._tell("committed", offsets, begun_ns, status=status, error=error, sources=sources)
            if last and error is not None:
                self._gives_up("lost")
                self.over = True
            else:
                self.world.after(self.world.some(60, 220), self._beat)

        self._ask(lambda coordinator, reply: coordinator.commit(self.name, generation, offsets, reply), committed)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _leaves(self) -> None:
        self._gives_up("revoked")
        self._ask(lambda coordinator, reply: coordinator.leave(self.name, reply), lambda *_: None)
        self._ends(100, 2_000)

    def _ends(self, low_ms: float, high_ms: float) -> None:
        if not self.over:
            self.over = True
            self.place.replace(low_ms, high_ms)

    def _tell(
        self,
        event: str,
        offsets: Mapping[Partition, int | None],
        begun_ns: int,
        *,
        status: int = OK,
        error: str | None = None,
        sources: Mapping[Partition, int | None] | None = None,
        deposed: bool = False,
    ) -> None:
        self.world.chronicle.group_events += [
            GroupEvent(
                process=self.process,
                event=event,
                generation=self.generation,
                member=self.name,
                partition=partition,
                offset=offset,
                status=status,
                invoked_ns=begun_ns,
                completed_ns=self.world.now,
                error=error,
                source=(sources or {}).get(partition),
                deposed=deposed,
            )
            for partition, offset in offsets.items()
        ]

    def _ask(self, ask: Asking, done: Done) -> None:
        Request(
            world=self.world,
            metadata=self.place.metadata,
            partition=OFFSETS,
            ask=lambda broker, reply: ask(broker.service(GroupCoordinator), reply),
            done=done,
        ).go()
