"""From a seed to a history: what cluster, which plot, which flaw; then the whole run as the harness would do it."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tests.world import faults
from tests.world.brokers import new_broker
from tests.world.chronicle import Assigned, Cause, Chronicle, FinalState, Node, Partition, Poll, Read
from tests.world.clients import Consumer, Metadata, Processes, Producer
from tests.world.controller import Controller
from tests.world.plots import PLOTS
from tests.world.world import MS, Setup, Topic, World

# A flaw, and the plots in which it can show.
FLAWS: dict[str, tuple[str, ...]] = {
    "acknowledge-early": ("cut-short-then-dies", "leader-dies", "zombie", "alone-then-dies", "mixed"),
    "high-watermark-early": ("cut-short-then-dies", "leader-dies", "alone-then-dies"),
    "join-early": ("followers-die", "alone-then-dies", "everyone-dies", "survives-unclean", "one-disk"),
    "truncate-to-high-watermark": ("leader-dies", "everyone-dies", "quick-restart", "survives-unclean", "mixed"),
    "truncate-at-start": ("leader-dies", "everyone-dies", "quick-restart", "mixed"),
    "drop-at-start": ("leader-dies", "everyone-dies", "quick-restart", "one-disk", "survives-unclean", "mixed"),
    "drop-while-leading": (
        "calm", "leader-dies", "one-disk", "alone-then-dies", "survives-unclean", "zombie", "power", "retried",
        "last-in-sync-disk", "removal",
    ),
    "unclean-forbidden": ("alone-then-dies", "everyone-dies", "last-in-sync-disk", "mixed"),
    "unclean-needlessly": ("followers-die", "leader-dies", "alone-then-dies", "survives-unclean"),
    "two-leaders": ("zombie", "paused", "cut-from-controller"),
    "acknowledge-below-minimum": ("followers-die", "alone-then-dies", "everyone-dies"),
    "directory-not-noticed": ("quick-restart", "disks-in-turn", "one-disk"),
    "damage-takes-neighbour": ("one-batch", "last-in-sync-disk"),
}  # fmt: skip


def drawn(seed: int) -> Setup:
    """Four in ten histories are of a sound system."""
    random = Random(seed)
    flaw = random.choice(tuple(FLAWS)) if random.random() < 0.6 else None
    plot = random.choice(tuple(PLOTS) if flaw is None else FLAWS[flaw])
    brokers = tuple(range(1, 1 + random.choice((2, 3, 3, 3, 4, 5))))
    topics = []
    for place in range(random.choice((1, 1, 1, 2))):
        layout = []
        for _ in range(random.choice((1, 1, 2, 3) if place == 0 else (1,))):
            count = min(len(brokers), random.choice((2, 3, 3)))
            layout.append(tuple(random.sample(brokers, count)))
        topics.append(
            Topic(
                name=("orders", "other")[place], layout=tuple(layout), min_in_sync=random.choice((1, 1, 2)),
                unclean_allowed=random.random() < (0.1 if flaw == "unclean-forbidden" else 0.45),
            )
        )  # fmt: skip
    acks = tuple(random.choice((-1, -1, -1, 1, 1, 0)) for _ in range(random.choice((1, 2, 2))))
    sure = all(each == -1 for each in acks)  # idempotence needs acks=all
    return Setup(
        seed=seed, plot=plot, brokers=brokers, topics=tuple(topics), flaws=frozenset({flaw} if flaw else ()),
        bad_answers=random.choice((0.0, 0.0, 0.05, 0.25)), retries=random.random() < 0.8,
        acks=acks,
        tick_ms=random.choice(((60, 150), (60, 150), (150, 400))), idempotent=sure and random.random() < 0.7,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class History:
    """One run of the world that is over."""

    setup: Setup
    chronicle: Chronicle
    processes: Processes
    partitions: tuple[Partition, ...]
    replicas: Mapping[Partition, tuple[Node, ...]]

    @property
    def sound(self) -> bool:
        """No planted flaw ever did anything."""
        return not self.chronicle.flaws_acted


def history(seed: int) -> History:
    setup = drawn(seed)
    world, processes = played(setup)
    partitions = tuple(world.partitions())
    return History(
        setup=setup, chronicle=world.chronicle, processes=processes, partitions=partitions,
        replicas={partition: world.replicas(partition) for partition in partitions},
    )  # fmt: skip


def played(setup: Setup) -> tuple[World, Processes]:
    world = World(setup=setup, random=Random(setup.seed * 2 + 1))
    processes = Processes()
    world.controller = Controller(world=world)
    for node in setup.brokers:
        world.brokers[node] = new_broker(world, node)
    world.controller.create()
    for broker in world.brokers.values():
        broker.tick(broker.incarnation)
    world.run_until(world.now + 500 * MS)
    world.loading = True
    for place, acks in enumerate(setup.acks):
        idempotent = setup.idempotent and acks == -1
        process = processes.new(f"producer-{place + 1}", acks=acks, idempotent=idempotent)
        Producer(world=world, process=process, acks=acks, idempotent=idempotent, metadata=Metadata(world=world)).next()
    for place in range(world.random.choice((0, 1, 1, 2))):
        consumer = Consumer(
            world=world, processes=processes, name=f"consumer-{place + 1}", metadata=Metadata(world=world)
        )
        world.after(world.some(50, 400), consumer.poll)
    if "drop-while-leading" in setup.flaws:
        for _ in range(world.random.choice((1, 1, 2))):
            world.after(world.some(2_000, 9_000), lambda: _drop(world))
    if setup.bad_answers:
        world.after(world.some(200, 3_000), lambda: faults.lose_answers(world, setup.bad_answers))
    PLOTS[setup.plot](world)
    world.run_until(world.now + setup.load_ns)
    world.loading = False
    _recover(world)
    _final_read(world, processes)
    for broker in world.brokers.values():
        world.now += 4 * MS
        broker.snapshot("end")
    return world, processes


def _drop(world: World) -> None:
    """A leader loses the end of its log, or all replicas do: for no reason."""
    partition = world.random.choice(world.partitions())
    state = world.controller.states[partition]
    if state.leader < 0 or not world.brokers[state.leader].running:
        return
    broker = world.brokers[state.leader]
    replica = broker.replicas[partition]
    if not replica.leading or replica.end - replica.start < 3 or not world.flawed("drop-while-leading"):
        return
    to = world.random.randrange(max(replica.start, replica.high_watermark - 8, 0), replica.end)
    journalled = world.random.random() < 0.4
    for node in world.replicas(partition):
        other = world.brokers[node]
        if node == state.leader or other.running:
            mine = other.replicas[partition]
            if mine.end > to:
                other.cut(mine, max(to, mine.start), Cause.DROPPED, journalled=journalled)
    for remote in replica.remotes.values():
        remote.log_end = min(remote.log_end, to)


def _recover(world: World) -> None:
    """Heals all, starts all, and waits until every replica has caught up; sends that are under way end meanwhile."""
    world.run_until(world.now + 3_700 * MS)
    for fault in list(world.chronicle.faults):
        if fault.end_ns is None and fault.kind == "cut":
            faults.heal(world, fault)
        elif fault.end_ns is None and fault.kind == "pause":
            faults.resume(world, fault)
    for node in world.brokers:
        if node not in world.stays_down:
            faults.start(world, node)
    world.run_until(world.now + 4_500 * MS)


def _final_read(world: World, processes: Processes) -> None:
    process = processes.new("final-read")
    world.chronicle.assigned.append(Assigned(process=process, time_ns=world.now, count=len(world.partitions())))
    for partition in world.partitions():
        state = world.controller.states[partition]
        world.now += 2 * MS
        leader = world.brokers.get(state.leader)
        if leader is None or not leader.running or not leader.replicas[partition].leading:
            world.chronicle.final[partition] = FinalState(
                partition=partition, read_to_end=False, end=None, log_start=None, unread=()
            )
            continue
        replica = leader.replicas[partition]
        end = max(replica.high_watermark, replica.start)
        read = Read(
            partition=partition, node=leader.node, leader_epoch=state.epoch, first=replica.start,
            entries=list(replica.slice(replica.start, end)),
        )  # fmt: skip
        t0 = world.now
        world.now += 3 * MS
        if read.entries:
            poll = Poll(process=process, assignment=1, final=True, invoked_ns=t0, completed_ns=world.now, reads=[read])
            world.chronicle.polls.append(poll)
        world.chronicle.final[partition] = FinalState(
            partition=partition, read_to_end=True, end=end, log_start=replica.start,
            unread=list(replica.slice(end, replica.end)),
        )  # fmt: skip


def unfinished(world: World) -> list[Partition]:
    """Partitions in which somebody has not caught up at the end: of use to the tests of the world itself."""
    behind = []
    for partition in world.partitions():
        ends = {world.brokers[node].replicas[partition].end for node in world.replicas(partition)}
        if len(ends) > 1:
            behind.append(partition)
    return behind
