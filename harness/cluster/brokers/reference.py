"""The reference cluster: Python brokers and a coordination service, configured with Kafka's own keys."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.books.observing import Observation
from harness.cluster.books.znode_history import history_of
from harness.cluster.books.zookeeper_log import read_changes
from harness.cluster.brokers.system import (
    NodeEnvironment,
    NodeFolders,
    host_name,
    hosts_of,
    listeners_of,
    write_properties,
)
from harness.cluster.replica_logs import read_events
from harness.errors import HarnessError
from harness.host.clock import Anchor, Clock
from harness.ports.cluster import COORDINATION, ClusterHistory, Node, NodeId, TopicDefinition
from harness.scenario.model import ClusterSpec

# Timeouts scaled for tests: session 2.5 s, replica lag 3 s.
TEST_SETTINGS: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": "2500",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "controller.socket.timeout.ms": "3000",
    "request.timeout.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "log.segment.bytes": "16777216",
}
_SHOWN = ("zookeeper.session.timeout.ms", "replica.lag.time.max.ms", "replica.fetch.wait.max.ms")
TICK_MS = 500
_SECRET = "cluster-secret"
_TRANSACTION_VERSION = "transaction.version"  # a feature of Kafka; the reference is told it as a setting


@dataclass(frozen=True, kw_only=True)
class ReferenceSystem:
    spec: ClusterSpec

    def __post_init__(self) -> None:
        if COORDINATION in self.spec.brokers:
            raise HarnessError(f"broker id {COORDINATION} is the coordination service's; choose another one")

    @property
    def title(self) -> str:
        return "reference cluster"

    @property
    def nodes(self) -> Sequence[Node]:
        brokers = [Node(node=NodeId(each), role="broker", name=f"broker {each}") for each in sorted(self.spec.brokers)]
        return [Node(node=COORDINATION, role="coordination", name="coordination service"), *brokers]

    @property
    def stages(self) -> Sequence[Sequence[NodeId]]:
        first, *others = (NodeId(broker) for broker in self.spec.brokers)
        return [[COORDINATION], [first], others]

    @property
    def first_is_controller(self) -> bool:
        return True

    @property
    def has_one_listener(self) -> bool:
        return False

    def topic_command(self, topic: TopicDefinition, environment: NodeEnvironment) -> Sequence[str]:
        return ()

    @property
    def refuses_early_restarts(self) -> bool:
        return False

    def peer_ports(self, node: NodeId, environment: NodeEnvironment) -> Sequence[int]:
        return [environment.internal_port]

    async def prepare(self, environment: NodeEnvironment) -> None:
        session_timeout_ms = self.setting("zookeeper.session.timeout.ms")
        secret = environment.secret()
        for node in self.nodes:
            config = environment.here(node.node).config
            if node.node == COORDINATION:
                write_properties(config / "zoo.cfg", coordination_settings(session_timeout_ms, environment))
            else:
                write_properties(config / "server.properties", self._broker(node.node, environment))
                _write_secret(config / _SECRET, secret)
            (config / "hosts").write_text(hosts_of(node.node, self.nodes, environment), encoding="utf-8")

    async def restore(self, node: NodeId, environment: NodeEnvironment) -> None:
        """Does nothing: a reference broker creates its own data directory."""

    def command(self, node: NodeId, environment: NodeEnvironment) -> Sequence[str]:
        config = environment.there(node).config
        module = [*environment.python(), "-m", "reference_impl"]
        if node == COORDINATION:
            return [*module, "coordination", "--config", str(config / "zoo.cfg")]
        return [*module, "broker", "--config", str(config / "server.properties"), "--hosts", str(config / "hosts")]

    def observation(
        self, environment: NodeEnvironment, *, is_running: Callable[[NodeId], bool], clock: Clock
    ) -> Observation:
        brokers = [node.node for node in self.nodes if node.role == "broker"]
        addresses = {broker: (environment.harness_reaches(broker), environment.admin_port) for broker in brokers}
        return Observation(addresses, is_running=is_running, clock=clock)

    def history(self, folders: Callable[[NodeId], NodeFolders], anchor: Anchor) -> ClusterHistory:
        """Read from the coordination log and the brokers' evidence journals."""
        books = history_of(read_changes(folders(COORDINATION).data / "version-2"), anchor)
        events = list(books.broker_events)
        for broker in sorted(self.spec.brokers):
            events.extend(read_events(NodeId(broker), folders(NodeId(broker)).evidence))
        return ClusterHistory(
            partition_states=books.partition_states,
            controllers=books.controllers,
            broker_events=sorted(events, key=lambda event: event.t_ns),
            configuration=books.configuration,
            topics=books.topics,
        )

    def shown(self) -> Mapping[str, str]:
        shown = {"system": self.title, "coordination": "own"}
        shown |= {"start order": " ".join(str(broker) for broker in self.spec.brokers)}
        shown |= {key: self.setting(key) for key in _SHOWN}
        if self.spec.flaws:
            shown["planted flaws"] = ", ".join(self.spec.flaws)
        return shown

    def setting(self, key: str) -> str:
        return str(self.spec.settings.get(key, TEST_SETTINGS.get(key, "")))

    def _broker(self, node: NodeId, environment: NodeEnvironment) -> dict[str, str]:
        listeners, advertised = listeners_of(node, environment)
        own = {
            "broker.id": str(node),
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": str(environment.there(node).data),
            "zookeeper.connect": f"{host_name(COORDINATION)}:{environment.internal_port}",
            "chaos.evidence.dir": str(environment.there(node).evidence),
            "chaos.cluster.secret.file": str(environment.there(node).config / _SECRET),
        }
        replicas = str(min(3, len(self.spec.brokers)))
        kept = {"offsets.topic.replication.factor": replicas, "transaction.state.log.replication.factor": replicas}
        flaws = {"chaos.flaws": ",".join(self.spec.flaws)} if self.spec.flaws else {}
        level = self.spec.features.get(_TRANSACTION_VERSION)
        features = {} if level is None else {f"reference.{_TRANSACTION_VERSION}": level}
        return {**TEST_SETTINGS, **kept, **features, **self.spec.settings, **own, **flaws}


def _write_secret(path: Path, secret: str) -> None:
    """The secret with which brokers authenticate each other. Never readable by other users, not even while it is
    written."""
    path.touch(mode=0o600)
    path.write_text(f"{secret}\n", encoding="ascii")


def coordination_settings(session_timeout_ms: str, environment: NodeEnvironment) -> dict[str, str]:
    """ZooKeeper's own keys; the session limits allow the brokers' session timeout."""
    session_ms = int(session_timeout_ms)
    return {
        "clientPort": str(environment.internal_port),
        "clientPortAddress": environment.listens_at(COORDINATION),
        "dataDir": str(environment.there(COORDINATION).data),
        "tickTime": str(TICK_MS),
        "minSessionTimeout": str(min(session_ms, TICK_MS * 2)),
        "maxSessionTimeout": str(max(session_ms, TICK_MS * 20)),
    }
