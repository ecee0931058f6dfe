"""What a fault is. One file declares all of it: how it is called, which options it takes, what it needs of a cluster,
whom it may hit, what it destroys, how it begins and ends, how chance chooses it and how it is counted. Its proof is the
Evidence of the cluster's methods that it calls: each world sees for itself that a process stopped or a link is cut.

Schedules, steps and preflight read it from there, and none of them knows a fault by name. An instance is one
fault with its options: a frozen dataclass whose fields are the options, read by their types (harness/values.py). It
keeps nothing else: what it struck is handed to it again when it is to end.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from harness.errors import HarnessError
from harness.host.clock import Clock, SystemClock
from harness.ports.cluster import Cluster, Evidence, Link, NodeId
from harness.verdict import coverage_of_kind

Role = Literal["broker", "coordination", "controller"]
State = Literal["up", "down", "paused"]
Undo = Literal["start", "resume", "free", "heal"]
Destroys = Literal["nothing", "tail", "batch", "disk"]
# clients: links of clients are struck. coordination: those to the coordination service. pairs: some of a broker's links
# to its peers and not all of them.
LinksApart = Literal["clients", "coordination", "pairs"]
Aliases = Mapping[str, Mapping[str, Any]]
# Acts of a step that are no faults, each with its options (harness/scenario/steps.py). No fault has such a name.
ACTS: Mapping[str, tuple[str, ...]] = {
    "produce": ("topic", "partition", "acks", "timeout"),
    "start": (),
    "resume": (),
    "free": (),
    "heal": (),
    "configure": ("topic",),
    "elect": ("topic", "partition"),
    "delete_topic": (),
    "create_topic": (),
}


@dataclass(frozen=True, kw_only=True)
class Struck:
    """Whom a fault strikes. named: the links in the scenario's words, if that names them. topics: the scenario's.
    clock: the run's, for proofs that no method of the cluster stamps."""

    nodes: tuple[NodeId, ...]
    links: tuple[Link, ...] = ()
    named: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    clock: Clock = field(default_factory=SystemClock, compare=False)

    def seen(self, sentence: str) -> Evidence:
        return Evidence(t_ns=self.clock.monotonic_ns(), sentence=sentence)


class NothingToStrike(HarnessError):
    """The victim is there and has not what the fault would harm. A schedule skips it, and it costs no verdict."""


class AlreadyDown(NothingToStrike):
    """The victim has ended before the fault could strike it, and not by this run: its end is a finding of its own."""


class Fault(ABC):
    """One kind of harm. Whatever is set here holds unless a fault says otherwise."""

    name: ClassVar[str]
    says: ClassVar[str]  # what it does, in a few words
    kind: ClassVar[str]  # what the tables call it; several faults may be of one kind
    needs: ClassVar[tuple[type, ...]]  # capabilities: a cluster without them is refused before the run begins
    aliases: ClassVar[Aliases] = {}  # other names in files, and the options each stands for
    may_hit: ClassVar[tuple[Role, ...]] = ("broker", "coordination", "controller")  # (): links alone
    each_apart: ClassVar[bool] = True  # every victim suffers a fault of its own, with its own proof; else one for all
    in_turn: ClassVar[bool] = False  # victims are struck one after the other, not together
    destroys: ClassVar[Destroys] = "nothing"  # of the victims' disks; how much, its evidence says (disk_facts.py)
    undone_by: ClassVar[Undo] = "heal"  # the step that ends it; `for`, the plan's end and the run end it too
    weight: ClassVar[float] = 1.0  # how often it is drawn beside others; 0: never
    lasting_s: ClassVar[tuple[float, float]] = (2.0, 10.0)  # between which lengths it is drawn
    drawn_where: ClassVar[Mapping[str, str]] = {}  # settings of the topic without which it is not drawn

    @classmethod
    def coverage(cls) -> str:
        """The coverage condition that counts it."""
        return coverage_of_kind(cls.kind)

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        """Options for a drawn schedule, as a scenario file writes them."""
        return {}

    @property
    def not_while(self) -> tuple[State, ...]:
        """It cannot begin on a node that another fault has in such a state."""
        return ()

    @property
    def alone(self) -> bool:
        """A schedule begins it only while no other fault harms brokers, and others only when its victims are back."""
        return False

    @property
    def harms_replicas(self) -> bool:
        """Whether no fault that is to be alone begins beside it, where it strikes brokers or links between them."""
        return True

    @property
    def leaves(self) -> State:
        """What a victim is while it is in force."""
        return "up"

    @property
    def lasts_s(self) -> float | None:
        """How long it lasts by itself, and is ended then; None: until something ends it."""
        return None

    def links_apart(self) -> frozenset[LinksApart]:
        """What a cluster must be able to tell links apart by."""
        return frozenset()

    def strikes(self, cluster: Cluster, victims: Sequence[NodeId]) -> Struck:
        """Whom it will strike. Raises UsageError for links that are not there."""
        return Struck(nodes=tuple(victims))

    @abstractmethod
    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        """Returns when the harm was seen on the victims."""

    @abstractmethod
    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        """Returns when they were seen to be well. Is called whatever happened, after a begin that failed too."""


def joined(proofs: Sequence[Evidence]) -> Evidence:
    """Of several proofs one: a fault on many victims is in force when the last of them shows it."""
    assert proofs, "a fault without a victim has no proof; the plan refuses it before it begins"
    return Evidence(
        t_ns=max(proof.t_ns for proof in proofs),
        sentence="; ".join(proof.sentence for proof in proofs),
        destroyed=tuple(event for proof in proofs for event in proof.destroyed),
    )
