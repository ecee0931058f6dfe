"""The joints of the harness on one page: what a cluster, a client, a workload and a fault must be able to do.

All of it is asynchronous and takes its time from the loop, so the same controller, workloads and faults run on a real
loop and on a virtual one. A cluster offers a small core; everything more is a capability of its own, asked for with
`isinstance` (the protocols are runtime-checkable), so that a fault a cluster cannot suffer is refused before a run.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NewType, Protocol, runtime_checkable

from harness.client_use import ClientUse
from harness.history.disk_facts import DiskEvent
from harness.history.incarnations import TopicLife
from harness.scenario import WorkloadSpec

NodeId = NewType("NodeId", int)
ClientId = NewType("ClientId", int)  # the number of a client link, from 1; probes and the observer have none
COORDINATION = NodeId(100)  # the coordination service is a node too (a broker may well be number 0)


@dataclass(frozen=True, kw_only=True)
class Node:
    node: NodeId
    role: Literal["broker", "coordination", "controller"]
    name: str


@dataclass(frozen=True, kw_only=True)
class Link:
    """The connections that `source` opens to `target`, requests and answers (DESIGN 4)."""

    source: str  # "n2" for node 2, "c1" for client link 1
    target: str  # always a node: "n1"

    def __str__(self) -> str:
        return f"{self.source}>{self.target}"


@dataclass(frozen=True, kw_only=True)
class TopicPartition:
    topic: str
    partition: int


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """What one observer says of a partition at one moment. exact: from the coordination log (observer -1)."""

    topic: str
    partition: int
    t_ns: int
    uncertainty_ns: int
    exact: bool
    observer: int
    leader: int
    leader_epoch: int
    partition_epoch: int | None
    controller_epoch: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    elr: tuple[int, ...] | None = None  # eligible leader replicas (KIP-966); None where the system has none
    topic_id: str | None = None
    last_known_leader: int | None = None  # who may still lead when nobody is in sync or eligible any more (KIP-966)
    elr_dropped: tuple[int, ...] = ()  # eligible ones that this change took out, as they came back from an unclean end


@dataclass(frozen=True, kw_only=True)
class LogRecord:
    offset: int
    epoch: int
    value: bytes


@dataclass(frozen=True, kw_only=True)
class ReplicaLog:
    """One replica's log as read from its disk. `records` holds data records only, in offset order."""

    node: NodeId
    topic: str
    partition: int
    t_ns: int
    log_start: int
    high_watermark: int | None  # from replication-offset-checkpoint
    log_end: int
    epochs: tuple[tuple[int, int], ...]  # leader-epoch-checkpoint: (epoch, start offset)
    records: tuple[LogRecord, ...]
    topic_id: str | None = None  # by its partition.metadata


@dataclass(frozen=True, kw_only=True)
class BrokerEvent:
    node: NodeId
    t_ns: int
    event: str
    topic: str | None = None
    partition: int | None = None
    epoch: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    reason: str | None = None
    detail: str | None = None
    cut: tuple[LogRecord, ...] = ()  # truncations: the records that were cut


@dataclass(frozen=True, kw_only=True)
class ConfigurationChange:
    t_ns: int
    scope: Literal["topic", "broker", "cluster"]
    name: str
    node: int
    key: str
    value: str


@dataclass(frozen=True, kw_only=True)
class ControllerState:
    t_ns: int
    uncertainty_ns: int
    node: int  # -1: none
    controller_epoch: int | None


@dataclass(frozen=True, kw_only=True)
class ClusterHistory:
    """What the cluster's own books say after a run: exact where the system keeps them."""

    partition_states: Sequence[PartitionState]
    controllers: Sequence[ControllerState]
    broker_events: Sequence[BrokerEvent]
    configuration: Sequence[ConfigurationChange]
    topics: Sequence[TopicLife] = ()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A proof of effect, as seen on the victim, in a sentence for people; destroyed: what it took from disks."""

    t_ns: int
    sentence: str
    destroyed: tuple[DiskEvent, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TopicDefinition:
    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignment: tuple[tuple[int, ...], ...] | None = None  # one tuple of replicas per partition, AR order
    settings: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Cluster(Protocol):
    """What every system under test can do; nothing more."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    async def start(self) -> None:
        """Starts every node and returns when all brokers are registered. Raises HarnessError with the log's place."""

    async def stop(self) -> None:
        """Ends every process it started. Idempotent; never raises for a node that is already gone."""

    def bootstrap(self, client: ClientId | None) -> str:
        """host:port list: through that client's own links, or (None) the nodes' real addresses, never cut."""

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        """One round of asking each broker on a socket of its own, uncut; a silent broker is simply absent."""

    async def controller(self) -> int:
        """The active controller's node id, -1 when there is none."""

    async def create_topics(self, topics: Sequence[TopicDefinition]) -> None: ...

    def collect(self) -> ClusterHistory:
        """Reads the cluster's own books from disk; works after the nodes have stopped."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Versions and settings worth showing in a report."""
        ...


@runtime_checkable
class CanCrash(Protocol):
    async def kill(self, node: NodeId) -> Evidence: ...  # SIGKILL; returns when the process is gone

    async def start_node(self, node: NodeId) -> Evidence: ...  # returns when the process runs and listens

    def is_running(self, node: NodeId) -> bool: ...


@runtime_checkable
class CanStop(Protocol):
    async def shut_down(self, node: NodeId) -> Evidence: ...  # SIGTERM and a clean end

    async def start_node(self, node: NodeId) -> Evidence: ...

    def is_running(self, node: NodeId) -> bool: ...


@runtime_checkable
class CanPause(Protocol):
    async def pause(self, node: NodeId) -> Evidence: ...  # SIGSTOP, seen as state T

    async def resume(self, node: NodeId) -> Evidence: ...


@runtime_checkable
class CanCutLinks(Protocol):
    def links(self) -> Sequence[Link]: ...  # every directed link there is, those of clients included

    async def cut(self, links: Sequence[Link], *, mode: Literal["hang", "reset"] = "hang") -> Evidence: ...

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence: ...


@runtime_checkable
class CanSlowLinks(Protocol):
    async def slow(self, links: Sequence[Link], *, delay_ms: float) -> Evidence: ...  # 0 ends it


@runtime_checkable
class CanWipe(Protocol):
    async def wipe(self, node: NodeId) -> Evidence: ...  # the node must be down: its data directory is emptied


@runtime_checkable
class ShowsLogs(Protocol):
    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]: ...  # of a live or dead node, from its files

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None: ...  # cheap: headers only

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None: ...  # from the checkpoint file


@runtime_checkable
class CanLosePower(Protocol):
    async def lose_tail(self, node: NodeId, topic: str, partition: int, *, records: int) -> Evidence:
        """The node must be down: at least `records` records at the end of its replica never reached the disk."""
        ...


@runtime_checkable
class CanReconfigure(Protocol):
    async def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None: ...

    async def elect(self, topic: str, partition: int, *, kind: Literal["preferred", "unclean"]) -> int:
        """Asks for an election; returns Kafka's error code (0 done, 84 not needed, 80, 83 ...)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """One broker's answer to one fetch."""

    error: int
    values: tuple[str, ...]


class Questions(Protocol):
    """Kafka's own requests to one named broker, whoever leads. Raises OSError or TimeoutError where none answers."""

    async def registered(self) -> Sequence[int]: ...  # the live brokers, as most of them tell

    async def config_defaults(self, node: NodeId, keys: Sequence[str]) -> Mapping[str, str | None]: ...

    async def configure_broker(self, node: NodeId, settings: Mapping[str, str]) -> int: ...

    async def create_topic(self, topic: TopicDefinition) -> int: ...

    async def fetch(
        self, node: NodeId, partition: TopicPartition, offset: int, *, epoch: int, version: int
    ) -> Fetched: ...

    async def epoch_end(self, node: NodeId, partition: TopicPartition, epoch: int) -> tuple[int, int]: ...

    async def produce(
        self, node: NodeId, partition: TopicPartition, values: Sequence[bytes], *, acks: str, timeout_s: float
    ) -> tuple[int, int]:
        """(error, first offset); with acks=0 a TimeoutError is the rule and a ConnectionResetError an answer too."""
        ...


@runtime_checkable
class CanBeAsked(Protocol):
    def questions(self) -> Questions: ...


@runtime_checkable
class LeakCheck(Protocol):
    def leaks(self) -> Sequence[str]:
        """Connections of a node to another node's real address, one sentence each; empty when all goes by links."""
        ...


class Fault(Protocol):
    """One kind of harm. begin and end return what was seen on the victims; end is called whatever happens."""

    kind: ClassVar[str]
    needs: ClassVar[tuple[type, ...]]

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence: ...

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence: ...


@dataclass(frozen=True, kw_only=True)
class Send:
    topic: str
    partition: int
    value: bytes
    key: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class SendOutcome:
    """ok: acknowledged (offset None with acks=0 never counts as ok). fail: definitely not appended. info: unknown."""

    status: Literal["ok", "fail", "info"]
    offset: int | None
    error: str | None
    t1_ns: int
    code: int | None = None  # Kafka's error code; None when no broker answered with one
    t0_ns: int | None = None  # when this record was handed to the library; None: when the operation was invoked
    timestamp_ms: int | None = None  # the broker's answer, else what the client set


@dataclass(frozen=True, kw_only=True)
class ReadRecord:
    topic: str
    partition: int
    offset: int
    epoch: int | None
    value: bytes
    key: bytes | None = None
    timestamp_ms: int | None = None
    log_append: bool | None = None  # stamped by the broker (LogAppendTime); None: the library does not tell


class Client(Protocol):
    """One library's client: at most one producer and one consumer. After an `info` outcome the owner replaces it."""

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        """All records in flight at once; one outcome each, in order. Never raises for what a broker does."""
        ...

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None: ...

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]: ...

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]: ...

    async def close(self) -> None: ...


class Journal(Protocol):
    """A worker's history, written without a buffer: one line before the first record of an operation leaves."""

    @property
    def process(self) -> int: ...  # the number of the present client, unique over the run; values are made with it

    def invoke(self, f: str, records: Sequence[Send] = ()) -> int: ...  # returns the journal's own operation number

    def complete_send(self, operation: int, outcomes: Sequence[SendOutcome]) -> None: ...

    def complete_poll(self, operation: int, records: Sequence[ReadRecord], *, error: str | None = None) -> None: ...

    def assigned(self, partitions: Sequence[TopicPartition]) -> None: ...  # starts a new assignment


class Workload(Protocol):
    """What one client does, from now until `until` is set; one per worker process, or a task when simulated."""

    name: ClassVar[str]

    async def act(self, client: "ClientFactory", journal: Journal, chance: random.Random, until: "Event") -> None: ...


class Event(Protocol):
    def is_set(self) -> bool: ...

    async def wait(self) -> Any: ...


class ClientFactory(Protocol):
    """Makes a fresh client on the same link; each one is a new process number in the history."""

    def __call__(self, use: ClientUse | None = None) -> Client: ...


class ClientMaker(Protocol):
    """One client library: makes a client that bootstraps from `bootstrap`, set up as `settings` says."""

    def __call__(self, *, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Client: ...
