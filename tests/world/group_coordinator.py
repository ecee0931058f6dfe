"""The coordinator of a group: who leads the partition of its offsets and generations, which it reads when it begins.

Members join, and are told of others by their heartbeats; a generation is written before anybody hears of it, a commit
before it is answered. A commit of another generation, or of nobody in it, is refused. Flaws, by name, are what it does
although no Kafka must.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.world.brokers import NOT_LEADER, Broker
from tests.world.chronicle import Entry, Partition
from tests.world.requests import OFFSETS, Reply
from tests.world.world import MS, S, World

GROUP = "readers"
SESSION_NS = 1_500 * MS
REBALANCE_NS = 700 * MS
ILLEGAL_GENERATION = "IllegalGenerationError 22"
UNKNOWN_MEMBER = "UnknownMemberIdError 25"
REBALANCE = "RebalanceInProgressError 27"


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A record of the group, with its members in order."""

    number: int
    members: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Commits:
    """A record for each partition, written together."""

    member: str
    generation: int
    offsets: tuple[tuple[Partition, int], ...]


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What a fetch is told: the offset, and the value of the record that it is from. deposed: by one that was so."""

    offset: int
    source: int | None
    deposed: bool = False


@dataclass(kw_only=True)
class GroupCoordinator:
    world: World
    broker: Broker
    loaded: int = -1
    generation: Generation = Generation(number=0, members=())
    offsets: dict[Partition, Answered] = field(default_factory=dict)
    before: dict[Partition, Answered] = field(default_factory=dict)  # of each, the one before
    heard: dict[str, int] = field(default_factory=dict)
    joining: dict[str, Reply] = field(default_factory=dict)
    since: int | None = None  # since when members are waited for
    writing: bool = False

    def ready(self) -> bool:
        hosted = self.broker.replicas.get(OFFSETS)
        if hosted is None or not hosted.leading or hosted.state is None:
            self.loaded = -1
            return False
        if self.loaded != hosted.state.epoch:
            self.loaded = hosted.state.epoch
            self._load([entry for entry in hosted.log if entry.kept is not None])
        return True

    def _load(self, log: Sequence[Entry]) -> None:
        if len(log) > 4 and self.world.flawed("offsets-forgotten", 0.7):
            log = [*log[: -self.world.random.randint(3, 8)]]  # it stopped reading early (KAFKA-5600)
        self.generation, self.offsets, self.before = Generation(number=0, members=()), {}, {}
        for entry in log:
            if isinstance(entry.kept, Generation):
                self.generation = entry.kept
            elif isinstance(entry.kept, Commits):
                self._take(entry.kept, entry.value)
        self.heard = dict.fromkeys(self.generation.members, self.world.now)
        self.joining, self.since, self.writing = {}, None, False

    def _take(self, commits: Commits, source: int) -> None:
        for partition, offset in commits.offsets:
            if partition in self.offsets:
                self.before[partition] = self.offsets[partition]
            self.offsets[partition] = Answered(offset=offset, source=source)

    # -- what members ask ---------------------------------------------------------------------------------------------

    def join(self, member: str, reply: Reply) -> None:
        """Answered with the generation and what this member owns in it."""
        if not self.ready():
            reply(NOT_LEADER, None)
            return
        self.joining[member], self.heard[member] = reply, self.world.now
        self._rebalance()

    def heartbeat(self, member: str, generation: int, reply: Reply) -> None:
        if not self.ready():
            reply(NOT_LEADER, None)
        elif member not in self.heard or generation != self.generation.number:
            reply(UNKNOWN_MEMBER, None)
        else:
            self.heard[member] = self.world.now
            reply(REBALANCE if self.since is not None else None, None)

    def leave(self, member: str, reply: Reply) -> None:
        if not self.ready():
            reply(NOT_LEADER, None)
            return
        if self.heard.pop(member, None) is not None:
            self._rebalance()
        reply(None, None)

    def commit(self, member: str, generation: int, offsets: Mapping[Partition, int], reply: Reply) -> None:
        if not self.ready():
            reply(NOT_LEADER, None)
            return
        error = None
        if generation != self.generation.number:
            error = ILLEGAL_GENERATION
        elif member not in self.generation.members or member not in self.heard:
            error = UNKNOWN_MEMBER
        if error is not None and not self.world.flawed("zombie-let-in"):
            reply(error, None)
            return
        commits = Commits(member=member, generation=generation, offsets=tuple(offsets.items()))
        entry, epoch = Entry(self.world.serial(), self.loaded, kept=commits), self.loaded

        def written(error: str | None, _: int | None) -> None:
            if error is None and self.ready() and self.loaded == epoch:
                self._take(commits, entry.value)
            reply(error, entry.value)

        self.broker.write(OFFSETS, entry, written)

    def fetch(self, partitions: Sequence[Partition], reply: Reply) -> None:
        if not self.ready():
            reply(NOT_LEADER, None)
            return
        nothing = Answered(offset=-1, source=None)
        answers = {partition: self.offsets.get(partition, nothing) for partition in partitions}
        if any(partition in self.before for partition in partitions) and self.world.flawed("fetch-stale", 0.4):
            answers |= {partition: self.before[partition] for partition in partitions if partition in self.before}
        state = self.world.controller.states[OFFSETS]
        deposed = (state.leader, state.epoch) != (self.broker.node, self.loaded)
        reply(None, {partition: replace(each, deposed=deposed) for partition, each in answers.items()})

    # -- generations --------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        if not self.ready():
            return
        now = self.world.now
        silent = [member for member, heard in self.heard.items() if now - heard > SESSION_NS]
        for member in silent:
            del self.heard[member]
            self.joining.pop(member, None)
        if silent:
            self._rebalance()
        if self.since is None or self.writing:
            return
        late = now - self.since > REBALANCE_NS
        if late or (self.joining.keys() >= self.heard.keys() and now - self.since > 200 * MS):
            self._begin()

    def _rebalance(self) -> None:
        if self.since is None:
            self.since = self.world.now

    def _begin(self) -> None:
        """Those who came are the next generation."""
        fresh = Generation(number=self.generation.number + 1, members=tuple(sorted(self.joining)))
        waiting, self.joining, self.writing, epoch = self.joining, {}, True, self.loaded

        def written(error: str | None, _: int | None) -> None:
            if not self.ready() or self.loaded != epoch:
                error = error or NOT_LEADER
            else:
                self.writing = False
            if error is not None:
                for reply in waiting.values():
                    reply(error, None)
                return
            self.generation, self.since = fresh, None if not self.joining else self.world.now
            self.heard = dict.fromkeys((*fresh.members, *self.joining), self.world.now)
            shares = self._shares(fresh.members)
            for member, reply in waiting.items():
                reply(None, (fresh.number, shares[member]))

        self.broker.write(OFFSETS, Entry(self.world.serial(), epoch, kept=fresh), written)

    def _shares(self, members: Sequence[str]) -> Mapping[str, Sequence[Partition]]:
        shares: dict[str, list[Partition]] = {member: [] for member in members}
        for place, partition in enumerate(self.world.partitions()):
            if members:
                shares[members[place % len(members)]].append(partition)
        if len(members) > 1 and self.world.flawed("two-owners", 0.5):
            second = shares[members[1]]
            second.extend(each for each in shares[members[0]][:1] if each not in second)
        return shares


assert SESSION_NS < S * 2  # a paused member of these histories is replaced
