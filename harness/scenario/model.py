"""A scenario as frozen data: the cluster, the topics, the load, the faults or steps, and the expected outcome.

`load` (file.py) reads it strictly from TOML; docs/scenarios.md describes every key, and a test compares the two. Every
run folder contains its written-out scenario (written.py), so that a run is itself a scenario.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from harness.history.facts.releases import release_of
from harness.scenario.places import Places
from harness.values import Acks, Seconds

ATTACHED, COMPOSE = "attached", "compose:"  # systems run by somebody else: given by addresses, or by a compose file
COMMANDS = (
    "kill", "start", "stop", "pause", "resume", "cut", "heal", "isolate", "rejoin", "slow", "wipe", "read_log",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AttachedSpec:
    """How faults begin and end on somebody else's cluster: by commands ("attached"), or as containers (compose)."""

    nodes: Mapping[str, str] = field(default_factory=dict)  # broker id -> host:port, if not as registered
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
    delete_topics: bool = False
    services: Mapping[str, str] = field(default_factory=dict)  # node id -> service of the compose file
    project: str = ""  # the compose project, if the file was started under several names
    data: str = ""  # the brokers' data directory in their containers, to read their logs from

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
        return self.system == ATTACHED or self.system.startswith(COMPOSE)

    @property
    def release(self) -> tuple[int, ...] | None:
        """Kafka's release, (4, 3, 1) of "kafka:4.3.1"; None of another system, and where its name does not say it."""
        return release_of(self.system)


@dataclass(frozen=True, kw_only=True)
class TopicSpec:
    """An explicit assignment (one list of replicas per partition, AR order), or partitions and replication_factor."""

    name: str
    partitions: int = 1
    replication_factor: int = 3
    assignment: tuple[tuple[int, ...], ...] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LoadFacts:
    """What other modules must know about a load. Its workload states it; it is never derived from the workload's name.

    clients: role -> number of clients; each is a separate process on its own link. group: the consumer group of the
    clients; its committed offsets are fetched after the run. outputs: topics written only by transactions; if there is
    one, the final log is what read_committed reads. transactional_ids: of its clients. value_bytes: approximate length
    of a record's value. in_flight: the number of records, over all partitions, that a producer sends at once before it
    waits for all answers.
    """

    clients: Mapping[str, int] = field(default_factory=dict)
    group: str = ""
    outputs: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    value_bytes: int = 32
    in_flight: int = 1


@dataclass(frozen=True, kw_only=True)
class WorkloadSpec:
    """The settings that every load has. Used directly it is the workload "none": only the probes of the steps use the
    cluster. A workload adds its own settings (harness/ports/workload.py)."""

    name: ClassVar[str] = "none"

    topics: tuple[str, ...] = ()  # empty: all topics
    duration_s: Seconds = 20.0  # a run with [[steps]] ends with the last step instead
    warm_up_s: Seconds = 1.0
    client: str = "kafka-python"
    stuck_after_s: Seconds = 10.0  # time without an acknowledgement on a healthy cluster
    # ---- settings of every client library
    acks: Acks = "all"
    idempotence: bool = True
    linger_ms: int = 0
    request_timeout_ms: int = 3000
    delivery_timeout_ms: int = 6000
    retries: int | None = None  # None: the client library's own default

    @property
    def facts(self) -> LoadFacts:
        return LoadFacts()

    def check(self, topics: Sequence[str]) -> None:
        """Raises ValueError, with the remedy, if these settings contradict each other or the scenario's topics."""

    @property
    def workers(self) -> int:
        """The number of clients."""
        return sum(self.facts.clients.values())

    @property
    def idempotent(self) -> bool:
        """Whether producers are idempotent: every library refuses that without acks=all, or without retries."""
        return self.idempotence and self.acks == "all" and self.retries != 0


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


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """One ordered step: exactly one of act, wait, expect; `within_s` bounds a wait or an expectation."""

    kind: Literal["act", "wait", "expect"]
    body: Mapping[str, Any]
    within_s: float
    line: int  # in the scenario file
    text: str  # the act or condition in words

    @property
    def said(self) -> str:
        return self.text if self.kind == "act" else f"{self.kind} {self.text}"


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
    """How the user named a scenario: its name, file or run folder, and KEY=VALUE overrides."""

    reference: str
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
    not_here: str = ""  # why it is not for the system it was loaded for, or for this machine; empty: it is

    @property
    def topic_names(self) -> frozenset[str]:
        """The topics of the scenario. Other topics, created by Kafka or by a step, are neither watched nor judged."""
        return frozenset(topic.name for topic in self.topics)
