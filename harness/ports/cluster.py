"""The interfaces of the harness on one page: what a cluster, a client, a workload and a fault must support.

All are asynchronous and take the time from the loop, so the same controller, workloads and faults run on a real and on
a virtual loop. A cluster has a small core; everything more is a capability of its own, tested with `isinstance` (the
protocols are runtime-checkable), so that a fault that the cluster does not support is refused before a run.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NewType, Protocol, runtime_checkable

from harness.history.facts.disk_facts import DiskEvent
from harness.history.facts.incarnations import TopicLife
from harness.history.schema.cluster_rows import EndReason
from harness.ports.clients import ClientUse
from harness.ports.load import WorkloadSpec

NodeId = NewType("NodeId", int)
ClientId = NewType("ClientId", int)  # number of a client link, from 1; probes and the observer have none
BEHIND_FRONT_ENDS = NodeId(0)  # who leads where all addresses answer with one id; front ends are numbered from 1
COORDINATION = NodeId(100)  # node id; the coordination service is a node too, and a broker may be number 0
_LINK = re.compile(r"\s*(c(?P<client>[0-9]+)|n?(?P<source>[0-9]+))\s*>\s*n?(?P<target>[0-9]+)\s*")


@dataclass(frozen=True, kw_only=True)
class Node:
    node: NodeId
    role: Literal["broker", "coordination", "controller"]
    name: str


@dataclass(frozen=True, kw_only=True)
class Link:
    """The connections that a node (`source`) or a client (`client`) opens to the node `target`, in both directions."""

    source: NodeId | None = None  # exactly one of the two is set
    client: ClientId | None = None
    target: NodeId

    def __post_init__(self) -> None:
        assert (self.source is None) != (self.client is None), "one node or one client opens the connections"

    def __str__(self) -> str:
        """The form in journals and rules: "n2>n1", "c1>n1"."""
        return f"n{self.source}>n{self.target}" if self.client is None else f"c{self.client}>n{self.target}"

    @property
    def short_name(self) -> str:
        """The form for people and scenarios: "2>1", "c1>1"."""
        return f"{self.source}>{self.target}" if self.client is None else f"c{self.client}>{self.target}"

    @classmethod
    def parse(cls, name: str) -> "Link":
        """Parses either form. Raises ValueError for anything else."""
        ends = _LINK.fullmatch(name)
        if ends is None:
            raise ValueError(f'{name!r} names no link: write "2>1" (what node 2 opens to node 1) or "c1>1" (client 1)')
        target = NodeId(int(ends["target"]))
        if ends["client"] is not None:
            return cls(client=ClientId(int(ends["client"])), target=target)
        return cls(source=NodeId(int(ends["source"])), target=target)


@dataclass(frozen=True, kw_only=True)
class TopicPartition:
    topic: str
    partition: int


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """One observer's view of a partition at one moment. exact: from the coordination log (observer -1)."""

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
    elr: tuple[int, ...] | None = None  # eligible leader replicas (KIP-966); None if the system has none
    topic_id: str | None = None
    last_known_leader: int | None = None  # may still lead when no replica is in sync or eligible (KIP-966)
    # eligible ones removed by this change, because they returned from an unclean shutdown
    elr_dropped: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LogRecord:
    offset: int
    epoch: int
    value: bytes


@dataclass(frozen=True, kw_only=True)
class OpenTransaction:
    """A transaction of which a log has records and no end: no marker of its producer follows them.

    first_offset, last_offset: of its records' batches. wall_ms: the timestamp of its first batch.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    wall_ms: int


@dataclass(frozen=True, kw_only=True)
class StoredLog:
    """What a replica's files say of its log beside the records."""

    node: NodeId
    topic: str
    partition: int
    t_ns: int
    log_start: int
    high_watermark: int | None  # from replication-offset-checkpoint
    log_end: int
    epochs: tuple[tuple[int, int], ...]  # leader-epoch-checkpoint: (epoch, start offset)
    topic_id: str | None = None  # by its partition.metadata


@dataclass(frozen=True, kw_only=True)
class ReplicaLog(StoredLog):
    """One replica's log as read from its disk. `records` has data records only, in offset order.

    open_transactions: at its end; None: it was not read for them.
    """

    records: tuple[LogRecord, ...]
    open_transactions: tuple[OpenTransaction, ...] | None = None


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
    cut: tuple[LogRecord, ...] = ()  # truncations: the removed records


@dataclass(frozen=True, kw_only=True)
class ConfigurationChange:
    t_ns: int
    scope: Literal["topic", "broker", "cluster", "feature"]  # feature: a finalized level (KIP-584)
    name: str
    node: int
    key: str
    value: str
    source: str | None = None  # "start": what a broker said at its start that it uses; None: a change in the books


@dataclass(frozen=True, kw_only=True)
class ControllerState:
    t_ns: int
    uncertainty_ns: int
    node: int  # -1: none
    controller_epoch: int | None


@dataclass(frozen=True, kw_only=True)
class ClusterHistory:
    """The cluster's own records after a run: exact if the system keeps them."""

    partition_states: Sequence[PartitionState]
    controllers: Sequence[ControllerState]
    broker_events: Sequence[BrokerEvent]
    configuration: Sequence[ConfigurationChange]
    topics: Sequence[TopicLife] = ()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A proof of effect: what was observed on the victim, as a sentence; destroyed: what was taken from disks.

    only: the kind of fault that it remained, where a fault did not do all that its own kind does; "": it did.
    """

    t_ns: int
    sentence: str
    destroyed: tuple[DiskEvent, ...] = ()
    only: str = ""


@dataclass(frozen=True, kw_only=True)
class NodeEnd:
    """The end of a node that the harness had not ended. t_ns: when it was seen; it was at most `uncertainty_ns` before.

    exit_status, signal: of its process; both None: not known. reason, line: what it logged last; reason None: not
    known. back_ns: when it ran again. fresh: whether the cluster was started for this run; None: not known.
    """

    node: NodeId
    t_ns: int
    uncertainty_ns: int = 0
    exit_status: int | None = None
    signal: int | None = None
    reason: EndReason | None = None
    line: str = ""
    back_ns: int | None = None
    fresh: bool | None = None


@dataclass(frozen=True, kw_only=True)
class TopicDefinition:
    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignment: tuple[tuple[int, ...], ...] | None = None  # one tuple of replicas per partition, in assignment order
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def partition_count(self) -> int:
        return len(self.assignment or ()) or self.partitions or 1


@runtime_checkable
class Cluster(Protocol):
    """What every system under test must support; nothing more."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    async def start(self) -> None:
        """Starts every node and returns when all brokers are registered. Raises HarnessError with the path of
        the log."""

    async def stop(self) -> None:
        """Ends every process that it started. Idempotent; never raises for a node that has already ended."""

    def bootstrap(self, client: ClientId | None) -> str:
        """host:port list: through that client's own links, or (None) the nodes' real addresses, which are never cut."""

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        """Asks each broker once, over connections that are never cut; a broker without an answer is missing."""

    async def controller(self) -> int:
        """The active controller's node id, -1 if there is none."""

    async def create_topics(self, topics: Sequence[TopicDefinition]) -> None: ...

    def collect(self) -> ClusterHistory:
        """Reads the cluster's own records from disk; works after the nodes have stopped."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Versions and settings for the report."""
        ...


@runtime_checkable
class AdvertisesNames(Protocol):
    def names_for(self, client: ClientId | None) -> Mapping[str, str]:
        """The addresses of broker names for that client; empty if brokers advertise addresses."""
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
    def links(self) -> Sequence[Link]: ...  # every directed link, including those of clients

    async def cut(self, links: Sequence[Link], *, mode: Literal["hang", "reset"] = "hang") -> Evidence: ...

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence: ...


@runtime_checkable
class CanSlowLinks(Protocol):
    async def slow(self, links: Sequence[Link], *, delay_ms: float) -> Evidence: ...  # 0 ends the delay


@runtime_checkable
class CanWipe(Protocol):
    async def wipe(self, node: NodeId) -> Evidence: ...  # the node must be down: its data directory is emptied


@runtime_checkable
class ShowsLogs(Protocol):
    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]: ...  # of a live or dead node, from its files

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None: ...  # reads batch headers only

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None: ...  # from the checkpoint file


@runtime_checkable
class CanLosePower(Protocol):
    async def lose_tail(self, node: NodeId, topic: str, partition: int, *, records: int) -> Evidence:
        """The node must be down: removes at least `records` records at the end of its replica, as if never flushed."""
        ...


@runtime_checkable
class CanReconfigure(Protocol):
    async def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None: ...

    async def elect(self, topic: str, partition: int, *, kind: Literal["preferred", "unclean"]) -> int:
        """Requests an election; returns Kafka's error code (0 done, 84 not needed, 80, 83 ...)."""
        ...


@runtime_checkable
class SeesNodesEnd(Protocol):
    def node_ends(self) -> Sequence[NodeEnd]:
        """Every end of a node that the harness did not bring about, since the cluster was started; in order."""
        ...


@runtime_checkable
class LeakCheck(Protocol):
    def leaks(self) -> Sequence[str]:
        """Connections of a node to another node's real address, one sentence each; empty if all use links."""
        ...


@dataclass(frozen=True, kw_only=True)
class Send:
    topic: str
    partition: int
    value: bytes
    key: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class SendOutcome:
    """ok: acknowledged (with acks=0 offset is None, and it never counts as ok). fail: definitely not appended. info:
    unknown."""

    status: Literal["ok", "fail", "info"]
    offset: int | None
    error: str | None
    end_ns: int
    code: int | None = None  # Kafka's error code; None if no broker answered with one
    begin_ns: int | None = None  # when this record was passed to the library; None: when the operation was invoked
    timestamp_ms: int | None = None  # ms; the broker's answer, otherwise what the client set
    returned_ns: int | None = None  # when the library's call had returned, or the answer if that came first


@dataclass(frozen=True, kw_only=True)
class ReadRecord:
    topic: str
    partition: int
    offset: int
    epoch: int | None
    value: bytes
    key: bytes | None = None
    timestamp_ms: int | None = None
    log_append: bool | None = None  # stamped by the broker (LogAppendTime); None: unknown


class Client(Protocol):
    """One library's client: at most one producer and one consumer. After an `info` outcome the owner replaces it."""

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        """Sends all records concurrently; returns one outcome each, in order. Never raises because of a broker's
        behaviour."""
        ...

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None: ...

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]: ...

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]: ...

    async def close(self) -> None: ...


class Journal(Protocol):
    """A worker's history, written without a buffer: one line before the first record of an operation is sent."""

    @property
    def process(self) -> int: ...  # number of the current client, unique in the run; part of its values

    def invoke(self, f: str, records: Sequence[Send] = ()) -> int: ...  # returns the journal's own operation number

    def complete_send(self, operation: int, outcomes: Sequence[SendOutcome]) -> None: ...

    def complete_poll(self, operation: int, records: Sequence[ReadRecord], *, error: str | None = None) -> None: ...

    def assigned(self, partitions: Sequence[TopicPartition]) -> None: ...  # begins a new assignment


class Workload(Protocol):
    """The actions of one client until `until` is set; one per worker process, or a task in simulation."""

    async def act(self, client: "ClientFactory", journal: Journal, chance: random.Random, until: "Event") -> None: ...


class Event(Protocol):
    def is_set(self) -> bool: ...

    async def wait(self) -> Any: ...


class ClientFactory(Protocol):
    """Creates a new client on the same link; each one is a new process number in the history."""

    def __call__(self, use: ClientUse | None = None) -> Client: ...


class ClientMaker(Protocol):
    """One client library: creates a client that bootstraps from `bootstrap` with these `settings`."""

    def __call__(self, *, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Client: ...
