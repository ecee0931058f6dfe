"""The coordinator of offsets that are committed plainly and in transactions (KIP-98, KIP-447, KAFKA-5247).

What is sent to a transaction is a record of the offsets' log like any other; it counts once a marker behind it commits
it. Of two that count, the one whose record stands later holds, whenever its marker came. A fetch that asks for stable
offsets is put off while a transaction's are pending; any other is answered by what counts so far. Before KAFKA-17507 a
marker was acknowledged before what it decides was applied. Flaws, by name, are what it does although no Kafka must.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.world.brokers import FENCED, NOT_LEADER, Broker
from tests.world.chronicle import Entry, Partition
from tests.world.group_coordinator import Answered, Commits
from tests.world.requests import OFFSETS, UNSTABLE, Reply
from tests.world.world import World

NOBODY = ""  # commits without a member: lawful in a group that has none, and in a transaction always


@dataclass(frozen=True, kw_only=True)
class Held:
    """An offset, the value of its record, and where that stands in the log."""

    offset: int
    source: int
    place: int


@dataclass(kw_only=True)
class OffsetsCoordinator:
    world: World
    broker: Broker
    loaded: int = -1
    counts: dict[Partition, Held] = field(default_factory=dict)
    pending: dict[int, dict[Partition, Held]] = field(default_factory=dict)  # by producer id
    asked: list[tuple[int, Partition]] = field(default_factory=list)  # being written, by producer id

    def ready(self) -> bool:
        hosted = self.broker.replicas.get(OFFSETS)
        if hosted is None or not hosted.leading or hosted.state is None:
            self.loaded = -1
            return False
        if self.loaded != hosted.state.epoch:
            self.loaded = hosted.state.epoch
            self.counts, self.pending, self.asked = {}, {}, []
            for place, entry in enumerate(hosted.log, hosted.start):
                self._take(entry, place)
        return True

    def tick(self) -> None:
        self.ready()

    def _take(self, entry: Entry, place: int) -> None:
        if entry.marks is not None and entry.producer is not None:
            self._settle(entry.producer[0], commits=entry.marks)
        if not isinstance(entry.kept, Commits):
            return
        held = {
            partition: Held(offset=offset, source=entry.value, place=place) for partition, offset in entry.kept.offsets
        }
        if entry.producer is not None:
            self.pending.setdefault(entry.producer[0], {}).update(held)
        else:
            self._count(held)

    def _count(self, held: Mapping[Partition, Held], *, last: bool = False) -> None:
        for partition, each in held.items():
            before = self.counts.get(partition)
            if before is None or last or before.place < each.place:
                self.counts[partition] = each

    def _settle(self, identity: int, *, commits: bool) -> None:
        held = self.pending.pop(identity, {})
        if not held:
            return
        if commits and not self.world.flawed("offset-not-applied", 0.3):
            newer = any(p in self.counts and self.counts[p].place > each.place for p, each in held.items())
            self._count(held, last=newer and self.world.flawed("order-of-markers", 0.8))
        elif not commits and self.world.flawed("aborted-offset-applied", 0.5):
            self._count(held)

    # -- what clients ask ---------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[Partition, int], reply: Reply, producer: tuple[int, int] | None = None) -> None:
        """OffsetCommit, or TxnOffsetCommit of a producer."""
        if not self.ready():
            reply(NOT_LEADER, None)
            return
        hosted = self.broker.replicas[OFFSETS]
        newest = max(
            (e.producer[1] for e in hosted.log if e.producer and producer and e.producer[0] == producer[0]), default=-1
        )
        if producer is not None and newest > producer[1]:
            reply(FENCED, None)
            return
        kept = Commits(member=NOBODY, generation=-1, offsets=tuple(offsets.items()))
        entry, epoch = Entry(self.world.serial(), self.loaded, producer, kept=kept), self.loaded
        asked = [(producer[0], partition) for partition in offsets] if producer is not None else []
        self.asked += asked

        def written(error: str | None, place: int | None) -> None:
            if self.ready() and self.loaded == epoch:
                self.asked = [each for each in self.asked if each not in asked]
                if error is None and place is not None:
                    self._take(entry, place)
            reply(error, entry.value)

        self.broker.write(OFFSETS, entry, written)

    def marked(self, producer: tuple[int, int], *, commits: bool, then: Callable[[], None]) -> None:
        """Its marker is on all in-sync replicas. then: whoever wrote it is answered."""
        world, epoch, spec = self.world, self.loaded, self.world.setup.processing
        assert spec is not None

        def apply() -> None:
            if self.ready() and self.loaded == epoch:
                self._settle(producer[0], commits=commits)
            if not spec.applied_late:
                then()

        if not self.ready():
            then()
            return
        world.after(world.some(0.1, 90) if world.random.random() < 0.4 else 50_000, apply)
        if spec.applied_late:
            then()

    def fetch(self, partitions: Sequence[Partition], reply: Reply, *, stable: bool) -> None:
        if not self.ready():
            reply(NOT_LEADER, None)
            return
        open_ones = {partition for held in self.pending.values() for partition in held}
        open_ones |= {partition for _, partition in self.asked}
        if stable and open_ones & set(partitions) and not self.world.flawed("stable-ignored", 0.7):
            reply(UNSTABLE, None)
            return
        state = self.world.controller.states[OFFSETS]
        deposed = (state.leader, state.epoch) != (self.broker.node, self.loaded)
        answers = {}
        for partition in partitions:
            held = self.counts.get(partition)
            answers[partition] = Answered(
                offset=-1 if held is None else held.offset,
                source=None if held is None else held.source,
                deposed=deposed,
            )
        reply(None, answers)
