"""What befalls a cluster: storylines by name. Each draws its moments and victims from the world's own chance."""

from collections.abc import Callable
from functools import partial

from tests.world import faults
from tests.world.chronicle import Node, Partition
from tests.world.world import CONTROLLER, S, World

Storyline = Callable[[World], None]
Span = tuple[float, float]  # in seconds: a moment is drawn between them


def _when(world: World, low_s: float, high_s: float, act: Callable[[], object]) -> None:
    world.after(int(world.random.uniform(low_s, high_s) * S), lambda: _done(act()))


def _done(_: object) -> None:
    """What a fault answers is of no use to a clock."""


def _leader(world: World, partition: Partition) -> Node:
    leader = world.controller.states[partition].leader
    return leader if leader >= 0 else world.replicas(partition)[0]


def _some(world: World) -> Partition:
    return world.random.choice(world.hosted())


def calm(world: World) -> None:
    """Nothing at all."""


def leader_dies(world: World) -> None:
    """Killed, and back after a while; often twice."""
    for begin in (1.5, 5.0)[: world.random.choice((1, 2))]:

        def now() -> None:
            node = _leader(world, _some(world))
            if faults.kill(world, node):
                _when(world, 0.4, 3.2, lambda: faults.start(world, node))

        _when(world, begin, begin + 1.5, now)


def followers_die(world: World) -> None:
    def now() -> None:
        partition = _some(world)
        for node in world.replicas(partition):
            if node != _leader(world, partition) and world.random.random() < 0.8 and faults.kill(world, node):
                _when(world, 0.5, 4.0, partial(faults.start, world, node))

    _when(world, 1.5, 3.0, now)


def alone_then_dies(world: World) -> None:
    """The leader is cut from its followers, goes on alone, and dies: only an unclean election brings a leader soon."""
    _cut_off_and_dies(world, cut=(1.0, 2.0), dies=(2.0, 3.2), starts=(2.6, 4.0), heals=(0.2, 2.4))


def cut_short_then_dies(world: World) -> None:
    """The followers lag for less than they would need to leave the ISR, and the leader dies meanwhile."""
    _cut_off_and_dies(world, cut=(1.0, 3.0), dies=(0.2, 1.2), starts=(2.2, 3.5), heals=(0.1, 0.5))


def _cut_off_and_dies(world: World, *, cut: Span, dies: Span, starts: Span, heals: Span) -> None:
    """The leader is cut from its followers and dies; each time is counted from the one before, the last two from its
    death."""
    partition = _some(world)

    def cut_off() -> None:
        node = _leader(world, partition)
        fault = faults.cut(world, [(peer, node) for peer in world.replicas(partition) if peer != node])

        def die() -> None:
            if faults.kill(world, node):
                _when(world, *starts, lambda: faults.start(world, node))
            _when(world, *heals, lambda: faults.heal(world, fault))

        _when(world, *dies, die)

    _when(world, *cut, cut_off)


def zombie(world: World) -> None:
    """The leader loses its peers and the controller, but not its clients; a successor is elected meanwhile."""

    def now() -> None:
        node = _leader(world, _some(world))
        fault = faults.cut(world, faults.isolating(world, node, controller=True))
        _when(world, 1.5, 4.5, lambda: faults.heal(world, fault))

    _when(world, 1.5, 3.0, now)


def paused(world: World) -> None:
    def now() -> None:
        fault = faults.pause(world, _leader(world, _some(world)))
        if fault is not None:
            _when(world, 0.8, 4.0, lambda: faults.resume(world, fault))

    _when(world, 1.5, 4.0, now)


def one_disk(world: World) -> None:
    """One broker loses its disk, and returns before or after its session ends."""

    def now() -> None:
        node = world.random.choice(list(world.brokers))
        if faults.kill(world, node):
            _when(world, 0.05, 0.3, lambda: faults.wipe(world, node))
            _when(world, 0.4, 3.2, lambda: faults.start(world, node))

    _when(world, 1.5, 3.5, now)


def disks_in_turn(world: World) -> None:
    """Each broker loses its disk, one after another; whether each has caught up before the next, chance decides."""
    pace = world.random.choice((1.0, 2.0, 2.6))
    for turn, node in enumerate(world.random.sample(list(world.brokers), len(world.brokers))):

        def now(node: Node = node) -> None:
            if faults.kill(world, node):
                _when(world, 0.05, 0.2, lambda: faults.wipe(world, node))
                _when(world, 0.3, 1.2, lambda: faults.start(world, node))

        _when(world, 1.5 + pace * turn, 2.0 + pace * turn, now)


def last_in_sync_disk(world: World) -> None:
    """The ISR shrinks to the leader, and the leader loses its disk: or only its tail, or a batch of it."""
    partition = _some(world)
    harm = world.random.choice(("wipe", "tail", "damage", "wipe"))

    def cut() -> None:
        node = _leader(world, partition)
        fault = faults.cut(world, [(peer, node) for peer in world.replicas(partition) if peer != node])

        def dies() -> None:
            if not faults.kill(world, node):
                return
            if harm == "wipe":
                faults.wipe(world, node)
            elif harm == "tail":
                faults.lose_tail(world, node, partition, world.random.randint(1, 12))
            else:
                faults.damage(world, node, partition)
            _when(world, 0.3, 3.0, lambda: faults.start(world, node))
            _when(world, 0.1, 2.0, lambda: faults.heal(world, fault))

        _when(world, 1.0, 3.0, dies)

    _when(world, 1.0, 2.0, cut)


def power(world: World) -> None:
    """Some or all brokers lose what was not flushed, all at once."""

    def now() -> None:
        victims = world.random.sample(list(world.brokers), world.random.randint(1, len(world.brokers)))
        for node in victims:
            if faults.kill(world, node):
                for partition in world.brokers[node].replicas:
                    if world.random.random() < 0.8:
                        faults.lose_tail(world, node, partition, world.random.randint(1, 8))
        for node in victims:
            _when(world, 0.4, 3.0, partial(faults.start, world, node))

    _when(world, 2.0, 4.0, now)


def one_batch(world: World) -> None:
    """A batch of one replica is damaged while its broker is down."""

    def now() -> None:
        partition = _some(world)
        node = world.random.choice(world.replicas(partition))
        if faults.kill(world, node):
            faults.damage(world, node, partition)
            _when(world, 0.4, 3.0, lambda: faults.start(world, node))

    _when(world, 2.0, 4.0, now)


def survives_unclean(world: World) -> None:
    """An unclean election that costs little or nothing, and a clean one later."""
    alone_then_dies(world)

    def again() -> None:
        node = _leader(world, _some(world))
        if faults.kill(world, node):
            _when(world, 0.5, 2.5, lambda: faults.start(world, node))

    _when(world, 7.0, 8.2, again)


def everyone_dies(world: World) -> None:
    """All are killed, one by one or together, and return in another order."""

    def now() -> None:
        for node in world.random.sample(list(world.brokers), len(world.brokers)):
            _when(world, 0.0, 2.6, partial(faults.kill, world, node))
            _when(world, 3.0, 5.0, partial(faults.start, world, node))

    _when(world, 1.5, 2.5, now)


def allowed_for_a_while(world: World) -> None:
    """Unclean elections are switched on while somebody is cut off, and off again."""
    alone_then_dies(world)
    topic = world.setup.topics[0].name

    def switch(allowed: bool) -> None:
        world.controller.set_unclean(topic, allowed)
        if allowed:
            for partition in world.partitions():
                if partition[0] == topic:
                    world.controller.elect_unclean(partition)

    _when(world, 3.0, 6.5, lambda: switch(True))
    _when(world, 6.6, 7.5, lambda: switch(False))


def removal(world: World) -> None:
    """Records are deleted on request, up to below the high watermark, while a leader dies; of a coordinator's topic,
    which only compacts, brokers refuse that."""
    leader_dies(world)
    refused = {topic.name for topic in world.setup.topics if topic.internal}

    def now() -> None:
        partition = _some(world)
        broker = world.brokers[_leader(world, partition)]
        replica = broker.replicas[partition]
        may_go = partition[0] not in refused and replica.high_watermark > replica.start + 2
        if broker.running and replica.leading and may_go:
            broker.remove_below(partition, world.random.randrange(replica.start, replica.high_watermark))

    _when(world, 2.0, 7.0, now)


def leader_moves(world: World) -> None:
    """Preferred elections after a follower or leader died."""
    leader_dies(world)
    for _ in range(2):
        _when(world, 4.5, 8.5, lambda: world.controller.preferred(_some(world)))


def settings_change(world: World) -> None:
    """min.insync.replicas, and retention for a while, of topics; beside them whatever the storyline is."""
    for topic in world.setup.topics:
        least = 3 - topic.min_in_sync
        _when(world, 1.5, 6.0, partial(world.controller.set_min_in_sync, topic.name, least))
        if world.random.random() < 0.5 and "retention-unasked" not in world.setup.flaws:
            _when(
                world, 2.0, 5.0, partial(world.controller.set_retention, topic.name, world.random.randint(800, 2_500))
            )
            _when(world, 6.0, 9.0, partial(world.controller.set_retention, topic.name, None))


def policies_change(world: World) -> None:
    """cleanup.policy, one value after another; beside them whatever the storyline is."""
    for topic in world.setup.topics:
        for place, policy in enumerate(world.setup.policies[1:]):
            _when(world, 1.5 + 3 * place, 4.0 + 3 * place, partial(world.controller.set_policy, topic.name, policy))


def mixed(world: World) -> None:
    for storyline in world.random.sample(tuple(BASIC.values()), 2):
        storyline(world)


def cut_from_controller(world: World) -> None:
    def now() -> None:
        node = _leader(world, _some(world))
        fault = faults.cut(world, [(node, CONTROLLER)])
        _when(world, 1.0, 4.0, lambda: faults.heal(world, fault))

    _when(world, 1.5, 3.5, now)


def frozen(world: World) -> None:
    """Followers die and stay dead: below min.insync.replicas the high watermark stands still to the end."""
    partition = _some(world)

    def now() -> None:
        leader = _leader(world, partition)
        for node in world.replicas(partition):
            if node != leader and faults.kill(world, node):
                world.stays_down.add(node)

    _when(world, 4.0, 8.0, now)


def retried(world: World) -> None:
    """Answers are lost while the leader dies: what it appended is sent again to its successor, and acknowledged."""

    def now() -> None:
        node = _leader(world, _some(world))
        faults.lose_answers(world, 0.8)

        def dies() -> None:
            if faults.kill(world, node):
                _when(world, 2.2, 3.5, lambda: faults.start(world, node))

        _when(world, 0.3, 1.0, dies)

    _when(world, 1.0, 3.5, now)


def quick_restart(world: World) -> None:
    """A leader that is back before anybody noticed."""

    def now() -> None:
        node = _leader(world, _some(world))
        if faults.kill(world, node):
            if world.random.random() < 0.3:
                faults.wipe(world, node)
            world.after(world.some(50, 900), lambda: faults.start(world, node))

    for begin in (1.5, 4.0, 6.5)[: world.random.randint(1, 3)]:
        _when(world, begin, begin + 1.5, now)


BASIC: dict[str, Storyline] = {
    storyline.__name__.replace("_", "-"): storyline
    for storyline in (
        calm,
        leader_dies,
        followers_die,
        alone_then_dies,
        cut_short_then_dies,
        zombie,
        paused,
        one_disk,
        disks_in_turn,
        last_in_sync_disk,
        power,
        one_batch,
        everyone_dies,
        cut_from_controller,
        quick_restart,
        frozen,
        retried,
    )
}
STORYLINES: dict[str, Storyline] = BASIC | {
    storyline.__name__.replace("_", "-"): storyline
    for storyline in (survives_unclean, allowed_for_a_while, removal, leader_moves, mixed)
}
