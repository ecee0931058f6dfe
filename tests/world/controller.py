"""The controller: who lives, who leads, who is in sync (docs/replication.md R31 to R36). Its word is the truth."""

from dataclasses import dataclass, field

from tests.world.chronicle import Committed, Node, Partition, Reported, State
from tests.world.world import MS, World

MARGIN_NS = 2_000 * MS


@dataclass(kw_only=True)
class Controller:
    world: World
    states: dict[Partition, State] = field(default_factory=dict)
    alive: set[Node] = field(default_factory=set)  # with a session
    directories: dict[Node, int] = field(default_factory=dict)
    unclean_allowed: dict[str, bool] = field(default_factory=dict)

    def create(self) -> None:
        world = self.world
        self.alive = set(world.brokers)
        for node, broker in world.brokers.items():
            self.directories[node] = broker.directory
            world.chronicle.happenings.append(Reported(time_ns=world.now, node=node, event="broker_registered"))
        for topic in world.setup.topics:
            stated = topic.unclean_stated if topic.unclean_stated is not None else topic.unclean_allowed
            self.set_unclean(topic.name, topic.unclean_allowed, always=stated)
            settings = (world.now, topic.name, "min.insync.replicas", str(topic.min_in_sync))
            world.chronicle.configuration.append(settings)
            if world.setup.policies:
                self._says(topic.name, "cleanup.policy", world.setup.policies[0])
            for partition in topic.partitions():
                isr = world.replicas(partition)
                self._commit(partition, State(leader=isr[0], epoch=0, partition_epoch=0, isr=isr))

    def set_unclean(self, topic: str, allowed: bool, *, always: bool = True) -> None:
        self.unclean_allowed[topic] = allowed
        if always:
            row = (self.world.now, topic, "unclean.leader.election.enable", str(allowed).lower())
            self.world.chronicle.configuration.append(row)

    def set_min_in_sync(self, topic: str, least: int) -> None:
        values, now = self.world.min_in_sync[topic], self.world.now
        for send in self.world.chronicle.sends if least < values[-1] else ():
            # Who sees the change a little later than brokers do may not call it certain.
            if send.partition[0] == topic and now - send.completed_ns < MARGIN_NS and send.below_minimum:
                send.below_minimum, send.perhaps_below = False, True
        values.append(least)
        self._says(topic, "min.insync.replicas", str(least))

    def set_retention(self, topic: str, retention_ms: int | None) -> None:
        """None: the topic's own value is removed, and the default of a week counts again."""
        self.world.retention_ns[topic] = None if retention_ms is None else retention_ms * MS
        self._says(topic, "retention.ms", "" if retention_ms is None else str(retention_ms))

    def set_policy(self, topic: str, policy: str) -> None:
        self.world.policies[topic].append((self.world.now, policy))
        self._says(topic, "cleanup.policy", policy)

    def _says(self, topic: str, key: str, value: str) -> None:
        self.world.chronicle.configuration.append((self.world.now, topic, key, value))

    # -- sessions -----------------------------------------------------------------------------------------------------

    def watch(self, node: Node) -> None:
        """It may have gone silent: if it is still so when its session ends, the session ends."""
        silent_since = self.world.brokers[node].silent_since

        def look() -> None:
            broker = self.world.brokers[node]
            if node in self.alive and broker.silent and broker.silent_since == silent_since:
                self.expire(node)

        self.world.after(self.world.setup.session_ns + self.world.some(0, 300), look)

    def expire(self, node: Node) -> None:
        self.alive.discard(node)
        self.world.chronicle.happenings.append(Reported(time_ns=self.world.now, node=node, event="broker_gone"))
        for partition, state in self.states.items():
            if state.leader == node:
                self._elect(partition)
            elif node in state.isr and state.leader >= 0:
                self._leaves(partition, node)

    def register(self, node: Node) -> None:
        """A broker is back, or another incarnation of it."""
        world, broker = self.world, self.world.brokers[node]
        restarted = broker.registered_incarnation != broker.incarnation
        if not restarted and node in self.alive:
            return
        lost = self.directories[node] != broker.directory
        unnoticed = node in self.alive  # death, then birth, within one session
        if lost and world.flawed("directory-not-noticed"):
            lost = False
        if unnoticed and restarted:
            self.alive.discard(node)
            for partition, state in list(self.states.items()):
                if state.leader == node and not self._returns_as_leader(lost):
                    self._elect(partition)
                elif node in state.isr and state.leader not in (-1, node):
                    self._leaves(partition, node)
        self.alive.add(node)
        broker.registered_incarnation = broker.incarnation
        world.chronicle.happenings.append(Reported(time_ns=world.now, node=node, event="broker_registered"))
        if lost:
            self.directories[node] = broker.directory
            detail = f"registered with directory ['{broker.directory}'], before it was another one"
            world.chronicle.happenings.append(
                Reported(time_ns=world.now, node=node, event="directory_lost", detail=detail)
            )
            for partition, state in list(self.states.items()):
                if node in state.isr and len(state.isr) > 1:
                    self._leaves(partition, node)
        for partition, state in list(self.states.items()):
            if state.leader < 0:
                self._elect(partition)
            elif state.leader == node and restarted:
                self._commit(partition, self._next(state, leader=node, isr=state.isr))
        self.push_all(node)

    def _returns_as_leader(self, lost: bool) -> bool:
        return not lost and self.world.flawed("directory-not-noticed")

    # -- elections ----------------------------------------------------------------------------------------------------

    def _elect(self, partition: Partition) -> None:
        """The first live member of the ISR in order of assignment; else, where allowed, any live replica; else none."""
        world, state = self.world, self.states[partition]
        live = [node for node in world.replicas(partition) if node in self.alive]
        chosen = next((node for node in live if node in state.isr), None)
        outside = [node for node in live if node not in state.isr]
        if outside and chosen is not None and world.flawed("unclean-needlessly", 0.7):
            chosen = None
        if chosen is not None:
            isr = tuple(node for node in state.isr if node in self.alive)
            self._commit(partition, self._next(state, leader=chosen, isr=isr))
        elif outside and (self.unclean_allowed[partition[0]] or world.flawed("unclean-forbidden")):
            self._commit(partition, self._next(state, leader=outside[0], isr=(outside[0],)))
        elif state.leader >= 0:
            self._commit(partition, self._next(state, leader=-1, isr=state.isr))

    def elect_unclean(self, partition: Partition) -> None:
        if self.states[partition].leader < 0:
            self._elect(partition)

    def preferred(self, partition: Partition) -> None:
        first, state = self.world.replicas(partition)[0], self.states[partition]
        if first in self.alive and first in state.isr and state.leader not in (-1, first):
            self._commit(partition, self._next(state, leader=first, isr=state.isr))

    def _next(self, state: State, *, leader: Node, isr: tuple[Node, ...]) -> State:
        bump = self.world.random.choice((1, 1, 1, 2))
        if leader >= 0 and leader != state.leader and self.world.flawed("two-leaders", 0.8):
            bump = 0
        return State(leader=leader, epoch=state.epoch + bump, partition_epoch=state.partition_epoch + 1, isr=isr)

    # -- in-sync replicas ---------------------------------------------------------------------------------------------

    def _leaves(self, partition: Partition, node: Node) -> None:
        state = self.states[partition]
        if state.leader == node:
            self._elect(partition)
            state = self.states[partition]
        if state.leader == node or node not in state.isr:
            return
        isr = tuple(member for member in state.isr if member != node)
        if isr:
            self.alter(partition, isr)

    def alter(self, partition: Partition, isr: tuple[Node, ...]) -> None:
        state = self.states[partition]
        kept = State(leader=state.leader, epoch=state.epoch, partition_epoch=state.partition_epoch + 1, isr=isr)
        self._commit(partition, kept)

    def proposed(self, partition: Partition, by: Node, epoch: int, partition_epoch: int, isr: tuple[Node, ...]) -> bool:
        """AlterPartition: by the leader, from the newest state, of members with a session."""
        state = self.states[partition]
        sound = state.leader == by and (state.epoch, state.partition_epoch) == (epoch, partition_epoch)
        if not sound or not all(node in self.alive for node in isr):
            return False
        self.alter(partition, isr)
        return True

    # -- telling ------------------------------------------------------------------------------------------------------

    def _commit(self, partition: Partition, state: State) -> None:
        world, before = self.world, self.states.get(partition)
        world.now += 1_000
        chosen = before is not None and state.leader >= 0 and state.leader != before.leader
        unclean = chosen and before is not None and state.leader not in before.isr
        self.states[partition] = state
        world.chronicle.happenings.append(
            Committed(
                time_ns=world.now,
                partition=partition,
                before=before,
                state=state,
                unclean=unclean,
                allowed=self.unclean_allowed[partition[0]],
            )
        )
        for node in world.replicas(partition):
            self._push(node, partition)

    def push_all(self, node: Node) -> None:
        for partition in self.states:
            if node in self.world.replicas(partition):
                self._push(node, partition)

    def _push(self, node: Node, partition: Partition) -> None:
        def arrives() -> None:
            broker = self.world.brokers[node]
            known = broker.registered_incarnation == broker.incarnation
            if known and not broker.silent:
                broker.learn(partition, self.states[partition])

        self.world.after(self.world.some(3, 70), arrives)
