"""From a seed to a history: what cluster, which storyline and flaw; then the whole run as the harness would do it."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tests.world import faults
from tests.world.brokers import new_broker
from tests.world.chronicle import Assigned, Cause, Chronicle, FinalState, Node, Partition, Poll, Read
from tests.world.cleaning import tidy
from tests.world.clients import Consumer, Metadata, Processes, Producer
from tests.world.controller import Controller
from tests.world.drawing import DRAWN, RECORDS
from tests.world.ends import one_ends
from tests.world.group_coordinator import GROUP, GroupCoordinator
from tests.world.in_flight import PipelinedProducer
from tests.world.members import Member, Place
from tests.world.offsets_coordinator import OffsetsCoordinator
from tests.world.processing import processors, watch
from tests.world.stability import served, stability_of
from tests.world.storylines import STORYLINES, policies_change, settings_change
from tests.world.transaction_coordinator import TransactionCoordinator
from tests.world.transactional import TransactionalId
from tests.world.world import MS, Setup, World


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


def history(seed: int, world_name: str = RECORDS) -> History:
    setup = DRAWN[world_name](seed)
    world, processes = played(setup)
    partitions = tuple(world.partitions())
    return History(
        setup=setup,
        chronicle=world.chronicle,
        processes=processes,
        partitions=partitions,
        replicas={partition: world.replicas(partition) for partition in partitions},
    )


def played(setup: Setup) -> tuple[World, Processes]:
    world = World(setup=setup, random=Random(setup.seed * 2 + 1))
    processes = Processes()
    world.cleaner = tidy if setup.policies or setup.settings_change else None
    world.controller = Controller(world=world)
    for node in setup.brokers:
        world.brokers[node] = new_broker(world, node)
        if setup.transactional_ids:
            world.brokers[node].services.append(TransactionCoordinator(world=world, broker=world.brokers[node]))
        if setup.processing is not None:
            world.brokers[node].services.append(OffsetsCoordinator(world=world, broker=world.brokers[node]))
        if setup.members:
            world.brokers[node].services.append(GroupCoordinator(world=world, broker=world.brokers[node]))
    world.controller.create()
    for broker in world.brokers.values():
        broker.tick(broker.incarnation)
    world.run_until(world.now + 500 * MS)
    world.loading = True
    _begin_load(world, processes)
    if "drop-while-leading" in setup.flaws:
        for _ in range(world.random.choice((1, 1, 2))):
            world.after(world.some(2_000, 9_000), lambda: _drop(world))
    if setup.bad_answers:
        world.after(world.some(200, 3_000), lambda: faults.lose_answers(world, setup.bad_answers))
    STORYLINES[setup.storyline](world)
    if setup.ends:
        one_ends(world)
    if setup.settings_change:
        settings_change(world)
    if setup.policies:
        policies_change(world)
    world.run_until(world.now + setup.load_ns)
    world.loading = False
    _recover(world)
    if setup.transactional_ids:
        _final_read(world, processes, "final-read-uncommitted", final=False)
        _final_read(world, processes, "final-read", isolation="read_committed")
    else:
        _final_read(world, processes, "final-read")
    if setup.members:
        _final_offsets(world, processes)
    if setup.processing is not None:
        watch(world, processes)
        world.run_until(world.now + 500 * MS)
    for partition in set(world.hosted()) - set(world.partitions()):
        last = world.brokers.get(world.controller.states[partition].leader)
        if last is not None and last.running and last.replicas[partition].leading:
            world.chronicle.last_logs[partition] = list(last.replicas[partition].log)
    for broker in world.brokers.values():
        world.now += 4 * MS
        broker.snapshot("end")
    return world, processes


def _begin_load(world: World, processes: Processes) -> None:
    """All clients, each with a number in the order in which they are named here."""
    setup = world.setup
    for place, acks in enumerate(setup.acks):
        idempotent = setup.idempotent and acks == -1
        process = processes.new(f"producer-{place + 1}", acks=acks, idempotent=idempotent)
        if setup.in_flight is not None:
            processes.tells_attempts.add(process)
            PipelinedProducer(
                world=world, process=process, acks=acks, idempotent=idempotent, spec=setup.in_flight
            ).begin(Metadata(world=world))
            continue
        Producer(world=world, process=process, acks=acks, idempotent=idempotent, metadata=Metadata(world=world)).next()
    for processor in processors(world, processes) if setup.processing is not None else ():
        world.after(world.some(20, 300), processor.begin)
    if setup.processing is not None:
        watch(world, processes)
    for name in setup.transactional_ids if setup.processing is None else ():
        mine = TransactionalId(world=world, processes=processes, name=name, metadata=Metadata(world=world))
        world.after(world.some(20, 300), mine.begin)
    for number in range(setup.members):
        worker = Place(
            world=world, processes=processes, name=f"member-{number + 1}", group=GROUP, metadata=Metadata(world=world)
        )
        world.after(world.some(20, 2_000), worker.begin)
    consumers = (
        setup.consumers if setup.consumers is not None else ("read_uncommitted",) * world.random.choice((0, 1, 1, 2))
    )
    for place, isolation in enumerate(consumers):
        consumer = Consumer(
            world=world,
            processes=processes,
            name=f"consumer-{place + 1}",
            metadata=Metadata(world=world),
            isolation=isolation,
        )
        world.after(world.some(50, 400), consumer.poll)


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


def _final_read(
    world: World, processes: Processes, name: str, *, final: bool = True, isolation: str = "read_uncommitted"
) -> None:
    """As the harness reads: with transactions once to the high watermark, and then what is committed."""
    process = processes.new(name, isolation=isolation)
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
        if replica.high_watermark < replica.epoch_start:
            # OFFSET_NOT_AVAILABLE (KIP-207): it does not know yet what was committed before it led.
            world.chronicle.final[partition] = FinalState(
                partition=partition, read_to_end=False, end=None, log_start=None, unread=()
            )
            continue
        end = max(replica.high_watermark, replica.start)
        fetched = served(world, replica, replica.start, end, isolation=isolation)
        read = Read(
            partition=partition,
            node=leader.node,
            leader_epoch=state.epoch,
            first=replica.start,
            entries=fetched.entries,
            offsets=fetched.offsets,
        )
        t0 = world.now
        world.now += 3 * MS
        if read.entries:
            poll = Poll(process=process, assignment=1, final=final, invoked_ns=t0, completed_ns=world.now, reads=[read])
            world.chronicle.polls.append(poll)
        # What the last leader holds is there, whether or not somebody is given it.
        stable = stability_of(replica).stable if world.setup.transactional_ids else None
        world.chronicle.final[partition] = FinalState(
            partition=partition,
            read_to_end=stable in (None, end),
            end=end,
            log_start=replica.start,
            unread=list(replica.log if stable is not None else replica.slice(end, replica.end)),
            stable=stable,
        )


def _final_offsets(world: World, processes: Processes) -> None:
    """The group's offsets are fetched at the end, by a client that is no member."""
    place = Place(world=world, processes=processes, name="final-offsets", group=GROUP, metadata=Metadata(world=world))
    process = processes.new("final-offsets", group=GROUP)
    Member(world=world, place=place, process=process, name="final-offsets").fetch_once(world.partitions())
    world.run_until(world.now + 500 * MS)


def unfinished(world: World) -> list[Partition]:
    """Partitions in which somebody has not caught up at the end: of use to the tests of the world itself."""
    behind = []
    for partition in world.partitions():
        ends = {world.brokers[node].replicas[partition].end for node in world.replicas(partition)}
        if len(ends) > 1:
            behind.append(partition)
    return behind
