"""Faults, as the harness does and records them: asked, seen, undone, with snapshots of the disks it may change."""

from collections.abc import Sequence

from tests.world.chronicle import Cause, Cut, Destroyed, Fault, Node, Partition
from tests.world.world import CONTROLLER, World


def kill(world: World, node: Node) -> Fault | None:
    broker = world.brokers[node]
    if not broker.alive:
        return None
    broker.stop()
    proof = f"process {20_000 + node} of broker {node} is gone after SIGKILL"
    fault = world.fault("kill", f"kill broker {node}", (node,), proof)
    broker.snapshot("kill")
    return fault


def wipe(world: World, node: Node) -> None:
    """Of a broker that is down."""
    broker = world.brokers[node]
    assert not broker.alive
    for replica in broker.replicas.values():
        broker.cut(replica, 0, Cause.WIPED, journalled=False)
    broker.directory += 1
    proof = f"data directory of broker {node} is empty, 28956 bytes removed"
    world.fault("wipe", f"disk of broker {node} lost", (node,), proof, destroyed=[Destroyed(node=node, extent="disk")])


def lose_tail(world: World, node: Node, partition: Partition, records: int) -> None:
    """What was never flushed, of a broker that is down: so many records, and what else is in the batch of the first.

    A log is recovered batch by batch: one of which a part is missing goes as a whole.
    """
    broker = world.brokers[node]
    assert not broker.alive
    replica = broker.replicas[partition]
    end = replica.end
    to = max((first for first in replica.batches if first <= end - records), default=replica.start)
    broker.cut(replica, to, Cause.POWER, journalled=False)
    proof = (
        f"the log of {partition[0]}-{partition[1]} on broker {node} ends at {to} and no longer at {end}: "
        f"{(end - to) * 80} bytes never reached the disk"
    )
    tail = Destroyed(node=node, extent="tail", partition=partition, from_offset=to, to_offset=end)
    world.fault("power-loss", f"unflushed records of broker {node} lost", (node,), proof, destroyed=[tail])


def damage(world: World, node: Node, partition: Partition) -> None:
    """Bits of one batch flipped, of a broker that is down; it finds out when it starts."""
    broker = world.brokers[node]
    assert not broker.alive
    replica = broker.replicas[partition]
    if not replica.batches:
        return
    place = world.random.choice((-1, len(replica.batches) // 2))
    first = replica.batches[place]
    after = [*[batch for batch in replica.batches if batch > first], replica.end][0]
    replica.damaged_from = first
    # It is gone by now, with all that stands above it, whatever comes to pass before the broker finds out.
    world.chronicle.happenings.append(
        Cut(
            time_ns=world.now,
            partition=partition,
            node=node,
            to=first,
            end=replica.end,
            entries=list(replica.slice(first, replica.end)),
            cause=Cause.DAMAGED,
            journalled=False,
        )
    )
    proof = (
        f"the log of {partition[0]}-{partition[1]} on broker {node} is damaged: bits of bytes 100 to 107 of "
        f"00000000000000000000.log are flipped, and the checksum of the batch with offsets {first} to {after - 1} "
        "does not hold any more"
    )
    batch = Destroyed(node=node, extent="batch", partition=partition, from_offset=first, to_offset=after)
    label = f"log of {partition[0]}-{partition[1]} on broker {node} damaged"
    world.fault("damage", label, (node,), proof, destroyed=[batch])


def start(world: World, node: Node) -> None:
    """Ends whatever took the broker down."""
    broker = world.brokers[node]
    if broker.alive:
        return
    broker.start()
    world.now += 1_000
    for end in world.chronicle.node_ends:
        if end.node == node and end.back_ns is None:
            end.back_ns = world.now
    for fault in world.chronicle.faults:
        if fault.end_ns is None and fault.nodes == (node,) and fault.kind in ("kill", "wipe", "power-loss", "damage"):
            world.healed(fault, f"broker {node} runs as process {21_000 + node} and listens")


def pause(world: World, node: Node) -> Fault | None:
    broker = world.brokers[node]
    if not broker.running:
        return None
    broker.paused, broker.silent_since = True, world.now
    world.controller.watch(node)
    return world.fault("pause", f"pause broker {node}", (node,), f"process {20_000 + node} of broker {node} is stopped")


def resume(world: World, fault: Fault) -> None:
    if fault.end_ns is not None:
        return
    node = fault.nodes[0]
    broker = world.brokers[node]
    broker.snapshot("heal")
    broker.paused = False
    world.healed(fault, f"process {20_000 + node} of broker {node} runs again")
    _reconnect(world, node)


def cut(world: World, links: Sequence[tuple[Node, Node]]) -> Fault:
    pairs = frozenset(links)
    nodes = tuple(sorted({node for pair in pairs for node in pair if node in world.brokers}))
    short = " ".join(f"{a}>{b}" for a, b in sorted(pairs))
    fault = world.fault(
        "cut",
        f"cut {short}",
        nodes,
        f"links {short} cut, bytes wait, {len(pairs)} connections held",
        links=[{"source": a, "target": b} for a, b in sorted(pairs)],
    )
    world.cuts[fault.number] = pairs
    for node, broker in world.brokers.items():
        if (node, CONTROLLER) in pairs:
            broker.silent_since = world.now
            world.controller.watch(node)
    return fault


def heal(world: World, fault: Fault) -> None:
    if fault.number not in world.cuts:
        return
    for node in fault.nodes:
        world.brokers[node].snapshot("heal")
    pairs = world.cuts.pop(fault.number)
    world.healed(fault, "links pass again (resume), 0 bytes so far")
    for node, _ in pairs:
        if node in world.brokers:
            _reconnect(world, node)


def _reconnect(world: World, node: Node) -> None:
    """Its session may have ended meanwhile; it hears what it missed, a little later."""
    broker = world.brokers[node]
    broker.silent_since = world.now
    incarnation = broker.incarnation

    def again() -> None:
        if broker.incarnation == incarnation and not broker.silent:
            world.controller.register(node)
            world.controller.push_all(node)

    world.after(world.some(30, 400), again)


def isolating(world: World, node: Node, *, controller: bool) -> list[tuple[Node, Node]]:
    """Links to and from its peers; clients still reach it."""
    peers = [other for other in world.brokers if other != node]
    links = [(node, peer) for peer in peers] + [(peer, node) for peer in peers]
    return links + ([(node, CONTROLLER)] if controller else [])


def lose_answers(world: World, share: float) -> None:
    """The producers' connections break now and then: what was sent may have been appended, and nobody hears of it."""
    clients = range(1, 1 + len(world.setup.acks))
    named = " ".join(f"c{client}>n{node}" for client in clients for node in world.brokers)
    proof = f"links {named} cut, connections reset"
    links = [{"client": client, "target": node} for client in clients for node in world.brokers]
    fault = world.fault("cut", "cut clients now and then", tuple(world.brokers), proof, links=links)
    world.answers_lost = share

    def over() -> None:
        world.answers_lost = 0.0
        world.healed(fault, "links pass again")

    world.after(world.some(1_000, 5_000), over)
