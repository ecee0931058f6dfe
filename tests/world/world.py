"""The world's clock, chance, network and parts. Everything happens in one queue, in order of virtual time."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from harness.history.facts.values import NAMED_FROM
from tests.world.chronicle import Chronicle, Destroyed, Fault, Node, Partition

if TYPE_CHECKING:
    from tests.world.brokers import Broker
    from tests.world.controller import Controller
    from tests.world.replica import Replica

MS = 1_000_000
S = 1_000 * MS
CONTROLLER: Node = 100  # its place in the network
BEGIN = 500 * S


@dataclass(frozen=True, kw_only=True)
class Topic:
    name: str
    layout: tuple[tuple[Node, ...], ...]  # the replicas of each partition
    min_in_sync: int = 1
    unclean_allowed: bool = False
    internal: bool = False  # a coordinator's: no client writes or reads it
    unclean_stated: bool | None = (
        None  # by the topic; None: only where it is allowed, all else is its release's default
    )

    def partitions(self) -> list[Partition]:
        return [(self.name, number) for number in range(len(self.layout))]


@dataclass(frozen=True, kw_only=True)
class InFlight:
    """How producers have several sends under way. tasks: that call, each for itself, one record at a time, as those of
    an application do; none: one task in operations of several records, as a workload of the harness does."""

    tasks: int
    depth: int = 5  # max.in.flight.requests.per.connection
    spoiled: float = 0.0  # share of requests that arrive damaged, and are refused (CORRUPT_MESSAGE)


@dataclass(frozen=True, kw_only=True)
class Processing:
    """How offsets are sent to transactions. stable: fetches ask for stable ones (KIP-447); applied_late: markers are
    acknowledged before the offsets count (until KAFKA-17507); plain: by an application that also commits plainly."""

    stable: bool
    applied_late: bool
    plain: bool
    markers_wait: float = 0.0  # share of transactions whose markers come much later than their end


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a history is drawn as. `flaws`: what this system does although no Kafka must, by name (brokers.py)."""

    seed: int
    storyline: str
    brokers: tuple[Node, ...]
    topics: tuple[Topic, ...]
    flaws: frozenset[str] = frozenset()
    session_ns: int = 2 * S
    lag_ns: int = 1_500 * MS
    load_ns: int = 9 * S
    tick_ms: tuple[float, float] = (60, 150)  # how often a broker fetches
    bad_answers: float = 0.0  # share of answers to producers that are lost while their links are cut now and then
    acks: tuple[int, ...] = (-1, -1)  # of each producer
    idempotent: bool = True
    retries: bool = True
    release: str = ""  # of Kafka, "0.10.2.2"; empty: the reference system
    settings_change: bool = False
    policies: tuple[str, ...] = ()  # cleanup.policy over time; empty: it is never spoken of, and records have no keys
    transactional_ids: tuple[str, ...] = ()
    members: int = 0  # of a group, at a time
    consumers: tuple[str, ...] | None = None  # the isolation of each; None: by the world's own chance
    ends: str = ""  # how a node ends by itself (ends.py); empty: none does
    processing: Processing | None = None  # of the transactional ids; None: they only write
    in_flight: InFlight | None = None  # None: each producer waits for its answer before it sends on


@dataclass(kw_only=True)
class World:
    setup: Setup
    random: Random
    chronicle: Chronicle = field(default_factory=Chronicle)
    now: int = BEGIN
    cuts: dict[int, frozenset[tuple[Node, Node]]] = field(default_factory=dict)  # by fault
    brokers: dict[Node, "Broker"] = field(default_factory=dict)
    controller: "Controller" = field(init=False)
    loading: bool = False  # clients are at work
    cleaner: "Callable[[World, Broker, Replica], None] | None" = None  # of replicas' logs, where policies change
    answers_lost: float = 0.0  # share, now
    stays_down: set[Node] = field(default_factory=set)  # to the end
    _queue: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0
    _serial: int = 0

    def __post_init__(self) -> None:
        self.min_in_sync = {topic.name: [topic.min_in_sync] for topic in self.setup.topics}  # over time
        self.retention_ns: dict[str, int | None] = {}  # now; None: it keeps all
        # Now, and before: since when each holds; the first one from the beginning.
        self.policies = {
            topic.name: [(0, self.setup.policies[0])] for topic in self.setup.topics if self.setup.policies
        }
        self._topics = {topic.name: topic for topic in self.setup.topics}
        self._hosted = [partition for topic in self.setup.topics for partition in topic.partitions()]
        self._partitions = [partition for partition in self._hosted if not self._topics[partition[0]].internal]

    def topic(self, partition: Partition) -> Topic:
        return self._topics[partition[0]]

    def replicas(self, partition: Partition) -> tuple[Node, ...]:
        return self._topics[partition[0]].layout[partition[1]]

    def partitions(self) -> list[Partition]:
        """Those that clients write and read."""
        return self._partitions

    def hosted(self) -> list[Partition]:
        """With those of coordinators."""
        return self._hosted

    def serial(self) -> int:
        """The value of the next record that no client wrote."""
        self._serial += 1
        return NAMED_FROM + self._serial

    def enough_in_sync(self, partition: Partition) -> int:
        """By min.insync.replicas as it is now."""
        return min(self.min_in_sync[partition[0]][-1], len(self.replicas(partition)))

    def least_in_sync(self, partition: Partition) -> int:
        """By the least value that it ever had: what is said for certain is said by that."""
        return min(*self.min_in_sync[partition[0]], len(self.replicas(partition)))

    def flawed(self, flaw: str, chance: float = 1.0) -> bool:
        """Whether a planted flaw acts now; it is noted that it did."""
        if flaw not in self.setup.flaws or (chance < 1 and self.random.random() >= chance):
            return False
        self.chronicle.flaws_acted.add(flaw)
        return True

    # -- time ---------------------------------------------------------------------------------------------------------

    def after(self, delay: int, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + max(delay, 1), self._count, act))

    def some(self, low_ms: float, high_ms: float) -> int:
        return int(self.random.uniform(low_ms, high_ms) * MS)

    def run_until(self, time_ns: int) -> None:
        while self._queue and self._queue[0][0] <= time_ns:
            moment, _, act = heapq.heappop(self._queue)
            # No two things happen at one moment: evidence is ordered by time.
            self.now = max(moment, self.now + 1_000)
            act()
        self.now = max(time_ns, self.now)

    # -- network ------------------------------------------------------------------------------------------------------

    def linked(self, a: Node, b: Node) -> bool:
        """Whether a's requests reach b and are answered."""
        return not any((a, b) in cut for cut in self.cuts.values())

    # -- faults -------------------------------------------------------------------------------------------------------

    def fault(
        self,
        kind: str,
        label: str,
        nodes: tuple[Node, ...],
        proof: str,
        *,
        links: Sequence[Mapping[str, int]] = (),
        destroyed: Sequence[Destroyed] = (),
    ) -> Fault:
        reported = Fault(
            number=len(self.chronicle.faults),
            kind=kind,
            label=label,
            nodes=nodes,
            links=links,
            destroyed=destroyed,
            begin_ns=self.now,
            proof=proof,
        )
        self.chronicle.faults.append(reported)
        return reported

    def healed(self, fault: Fault, proof: str) -> None:
        fault.end_ns, fault.healed_proof = self.now, proof
