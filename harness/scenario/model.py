"""A scenario as frozen data: the cluster, the topics, the load, the faults or steps, and the expected outcome.

`load` (file.py) reads it strictly from TOML; docs/scenarios.md describes every key, and a test compares the two. Every
run folder contains its written-out scenario (written.py), so that a run is itself a scenario.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from faults import triggers
from faults.catalogue import make
from faults.planned import PlannedFault
from faults.targets import Target
from faults.triggers import Trigger
from harness.errors import Place, UsageError
from harness.history.facts.releases import release_of
from harness.ports.cluster import TopicDefinition, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.own_names import PREFIX
from harness.ports.security import SecuritySpec
from harness.scenario.places import Places

SIMULATED = "simulated"  # the world in which all of a run is one loop
ON_A_LOOP = "aiokafka"  # the client library that can be in it: the others have threads
ATTACHED, COMPOSE = "attached", "compose:"  # systems run by somebody else: given by addresses, or by a compose file
COMMANDS = (
    "kill",
    "start",
    "stop",
    "pause",
    "resume",
    "cut",
    "heal",
    "isolate",
    "rejoin",
    "slow",
    "wipe",
    "read_log",
)
DEFAULT_REPLICAS = 3  # or as many as there are brokers
ANSWER_THEIR_VERSION_SINCE = (0, 10)  # Kafka's brokers, asked by ApiVersions
_ENDS_FAULTS_OF = ("start", "resume", "free")  # acts that name nodes


@dataclass(frozen=True, kw_only=True)
class AttachedSpec:
    """How faults begin and end on somebody else's cluster: by commands ("attached"), or as containers (compose)."""

    nodes: Mapping[str, str] = field(default_factory=dict)  # broker id -> host:port, if not as registered
    front_ends: bool = False  # the addresses are front ends of one node, and numbered from 1 in their order
    kill: str = ""
    start: str = ""
    stop: str = ""
    pause: str = ""
    resume: str = ""
    cut: str = ""
    heal: str = ""
    isolate: str = ""
    rejoin: str = ""
    slow: str = ""
    wipe: str = ""
    read_log: str = ""
    command_timeout_s: float = 30.0
    prefix: str = PREFIX  # of what the run's topics, groups and transactional ids are called there; empty: as written
    delete_topics: bool = True  # and groups: those that the run has made
    services: Mapping[str, str] = field(default_factory=dict)  # node id -> service of the compose file
    project: str = ""  # the compose project, if the file was started under several names
    data: str = ""  # the brokers' data directory in their containers, to read their logs from
    security: SecuritySpec | None = None  # None: its listeners ask for nothing

    @property
    def commands(self) -> Mapping[str, str]:
        return {name: getattr(self, name) for name in COMMANDS if getattr(self, name)}


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """brokers: ids in start order (the first becomes controller). settings: Kafka's own keys, for every broker."""

    brokers: tuple[int, ...] = (1, 2, 3)
    settings: Mapping[str, str] = field(default_factory=dict)
    flaws: tuple[str, ...] = ()
    system: str = "reference"
    world: str = "local"
    layout: str = ""  # how real Kafka's nodes are arranged; empty: the version's default
    image: str = ""  # containers: an existing image of that Kafka, such as the official one; empty: built from its jars
    features: Mapping[str, str] = field(default_factory=dict)  # Kafka's feature levels, given when storage is formatted
    disk_bytes: int = 0  # of each node's data directory; 0: without a limit
    network: Literal["internal", "open"] = "internal"  # containers: "internal": reaches this machine only
    bootstrap: str = ""  # of a cluster that already runs: "host:port,host:port"
    attached: AttachedSpec = AttachedSpec()

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else runs the cluster, and others may use it."""
        return self.system == ATTACHED or self.is_compose

    @property
    def is_compose(self) -> bool:
        return self.system.startswith(COMPOSE)

    @property
    def where(self) -> str:
        """The world, as people are told it: somebody else's cluster is in none of ours."""
        return "compose" if self.is_compose else ATTACHED if self.system == ATTACHED else self.world

    @property
    def is_kafka(self) -> bool:
        """Whether the harness runs Kafka itself, of whatever release."""
        return self.system.startswith("kafka:")

    @property
    def release(self) -> tuple[int, ...] | None:
        """Kafka's release, (4, 3, 1) of "kafka:4.3.1"; None of another system, and where its name does not say it."""
        return release_of(self.system)


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The properties of a system that `on` can name. version: () for a system without one."""

    kind: str = "reference"
    coordination: str = "zookeeper"
    world: str = "local"
    version: tuple[int, ...] = ()
    eligible_leader_replicas: bool = False  # KIP-966
    groups: bool = True  # supports consumer groups
    transactions: bool = True  # supports transactions, which need groups for their offsets
    brokers: tuple[int, ...] = ()  # of somebody else's cluster that has told who they are

    @property
    def names(self) -> frozenset[str]:
        return frozenset(
            {self.kind, self.coordination, self.world, *(["elr"] if self.eligible_leader_replicas else [])}
        )

    @property
    def silent_version(self) -> tuple[int, ...]:
        """The version of brokers that cannot be asked for it; empty if they can."""
        return self.version if self.version and self.version < ANSWER_THEIR_VERSION_SINCE else ()


@dataclass(frozen=True, kw_only=True)
class TopicSpec:
    """An explicit assignment (one list of replicas per partition, AR order), or partitions and replication_factor."""

    name: str
    partitions: int = 1
    replication_factor: int | None = None  # None: it is not known yet how many brokers there are
    assignment: tuple[tuple[int, ...], ...] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def definition(self) -> TopicDefinition:
        return TopicDefinition(
            name=self.name,
            partitions=None if self.assignment else self.partitions,
            replication_factor=None if self.assignment else self.replicas,
            assignment=self.assignment,
            settings=self.settings,
        )

    @property
    def replicas(self) -> int:
        """Of each partition."""
        return len(self.assignment[0]) if self.assignment else self.replication_factor or DEFAULT_REPLICAS

    @property
    def partition_count(self) -> int:
        """When it is created."""
        return len(self.assignment) if self.assignment else self.partitions


@dataclass(frozen=True, kw_only=True)
class FaultSpec:
    """A timed, random or triggered fault. Exactly one of at_s, every_s, when is given.

    kind: a name of the fault catalogue. target: a role expression (faults/targets.py), e.g. "leader(orders/0)".
    when: a trigger, e.g. "acks >= 500" or "new_leader(orders/0) then acks >= +5". times: how often it may begin; each
    time its trigger is waited for anew.
    """

    kind: str
    target: str = ""
    at_s: float | None = None
    every_s: float | None = None
    when: str | None = None
    delay_s: float = 0.0  # after the trigger
    times: int = 1
    for_s: float | None = None  # None: until the end of the plan
    options: Mapping[str, Any] = field(default_factory=dict)  # mode, delay_ms, probability ...

    @cached_property
    def planned(self) -> PlannedFault:
        """Raises UsageError, as for a fault of a package that is not installed here."""
        fault, given = make(self.kind, self.options)
        return PlannedFault(fault=fault, target=self.target or "all", for_s=self.for_s, given=given)

    @cached_property
    def trigger(self) -> tuple[Trigger, ...]:
        """What has to be seen before it begins, one after the other. Raises UsageError."""
        return () if self.when is None else triggers.parse(self.when)


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """One ordered step: exactly one of act, wait, expect; `within_s` bounds a wait or an expectation."""

    kind: Literal["act", "wait", "expect"]
    body: Mapping[str, Any]
    within_s: float
    line: int  # in the scenario file
    text: str  # the act or condition in words

    @property
    def wording(self) -> str:
        return self.text if self.kind == "act" else f"{self.kind} {self.text}"

    @cached_property
    def planned(self) -> PlannedFault | None:
        """The fault that it begins; None if it does something else. Raises UsageError."""
        return PlannedFault.of_act(self.body) if self.kind == "act" else None

    @cached_property
    def victims(self) -> Target | None:
        """Whose faults it begins or ends; None if it says no nodes. Raises UsageError."""
        if self.planned is not None:
            return self.planned.victims
        word, value = next(iter(self.body.items()))
        return Target.parse(value) if self.kind == "act" and word in _ENDS_FAULTS_OF else None


@dataclass(frozen=True, kw_only=True)
class FindingPattern:
    """Matches findings; None matches anything. count: exact; at_least/at_most: bounds on the summed record counts."""

    check: str | None = None
    classification: str | None = None  # "class" in the file
    count: int | None = None
    at_least: int | None = None
    at_most: int | None = None


@dataclass(frozen=True, kw_only=True)
class ExpectSpec:
    """The stated outcome. bounds: for observations, e.g. {"availability_gap_s": 8.0}."""

    verdict: str = "pass"
    required: tuple[FindingPattern, ...] = ()
    forbidden: tuple[FindingPattern, ...] = ()
    bounds: Mapping[str, float] = field(default_factory=dict)
    unreadable: bool = False  # the scenario expects a partition that cannot be read to its end


@dataclass(frozen=True, kw_only=True)
class Given:
    """How the user named a scenario: its name, file or run folder, and KEY=VALUE overrides. file: not of a run's."""

    reference: str
    file: Path | None = None
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    story: str  # the comment at the start of the file: what happens and why
    source: str  # the file's text
    cluster: ClusterSpec
    topics: tuple[TopicSpec, ...]
    workload: WorkloadSpec
    faults: tuple[FaultSpec, ...]
    steps: tuple[StepSpec, ...]
    expect: ExpectSpec
    coverage: Mapping[str, str]  # condition -> "3" (at least), "= 0" (exactly), "<= 2"
    read_every_replica: bool = False
    recovery_timeout_s: float = 30.0
    read_again_after_s: float = 2.0  # when the final read asks once more for what it lacks
    seed: int | None = None
    places: Places = field(default_factory=Places, compare=False, repr=False)
    given: Given | None = field(default=None, compare=False)  # None: read from a text
    traits: Traits = field(default=Traits(), compare=False)  # of the system it was read for; of a stored run nobody's
    roles: Mapping[int, int] = field(
        default_factory=dict, compare=False
    )  # broker of the file -> the cluster's (recast)
    not_here: str = ""  # why it is not for the system it was loaded for; empty: it is
    not_possible: str = ""  # why this machine cannot run it, where that was looked at; empty: it can

    @property
    def is_an_applications(self) -> bool:
        """Whether an application is the load, whose own clients may ask the cluster for anything: no part of it is
        ours."""
        return self.workload.name == WorkloadSpec.name and not self.steps

    def planned(self) -> Iterator[tuple[Place, str, PlannedFault]]:
        """Every fault of its plan, with its place and what it is called there; but those that are wrong on any cluster,
        which preflight tells."""
        for number, spec in enumerate(self.faults):
            with suppress(UsageError):
                yield self.places.fault(number, "kind"), f"fault {spec.kind!r}", spec.planned
        for number, step in enumerate(self.steps, 1):
            with suppress(UsageError):
                if step.planned is not None:
                    yield self.places.step(step.line, step.kind), f"step {number}, {step.wording!r}", step.planned

    def options_of(self, scheduled: int | None, step: int | None) -> Mapping[str, Any] | None:
        """The options of the fault that the plan begins there; None: there is none."""
        if scheduled is not None and scheduled < len(self.faults):
            return self.faults[scheduled].options
        return self.steps[step].body if step is not None and step < len(self.steps) else None

    def partitions(self, topics: Sequence[str] = ()) -> list[TopicPartition]:
        """All partitions of the scenario's topics, or of the named ones."""
        return [
            TopicPartition(topic=topic.name, partition=partition)
            for topic in self.topics
            if not topics or topic.name in topics
            for partition in range(topic.partition_count)
        ]

    @property
    def topic_names(self) -> frozenset[str]:
        """The topics of the scenario. Other topics, created by Kafka or by a step, are neither watched nor judged."""
        return frozenset(topic.name for topic in self.topics)
