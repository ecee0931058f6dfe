"""Real Kafka with its own ZooKeeper, up to 3.9; its history is read from ZooKeeper's transaction log.

Before 0.10.2 it has one listener for brokers and clients (KIP-103 is newer), advertised by name, so every client must
resolve the brokers' names to its own links. These brokers do not support creating topics by request (0.10.1 does) or
naming the controller (0.10 does): Kafka's own tool creates topics, and ZooKeeper's log shows the controller.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.cluster.books.observing import Observation, ZookeeperObservation
from harness.cluster.books.znode_history import history_of
from harness.cluster.books.zookeeper_log import read_changes
from harness.cluster.brokers.kafka import SHOWN, KafkaSystem
from harness.cluster.brokers.reference import coordination_settings
from harness.cluster.brokers.system import NodeEnvironment, NodeFolders, host_name, hosts_of, write_properties
from harness.host.clock import Anchor, Clock
from harness.ports.cluster import COORDINATION, ClusterHistory, Node, NodeId, TopicDefinition

LAYOUTS = ("zookeeper",)
_SESSION_TIMEOUT_MS = "2500"


@dataclass(frozen=True)
class ZookeeperKafka(KafkaSystem):
    @property
    def title(self) -> str:
        return f"Apache Kafka {self.version} (ZooKeeper)"

    @property
    def nodes(self) -> Sequence[Node]:
        return [Node(node=COORDINATION, role="coordination", name="ZooKeeper"), *self.broker_nodes]

    @property
    def stages(self) -> Sequence[Sequence[NodeId]]:
        first, *others = self.start_order
        return [[COORDINATION], [first], others]

    @property
    def first_is_controller(self) -> bool:
        return True

    @property
    def refuses_early_restarts(self) -> bool:
        return True

    def peer_ports(self, node: NodeId, environment: NodeEnvironment) -> Sequence[int]:
        return [environment.internal_port]

    async def prepare(self, environment: NodeEnvironment) -> None:
        for node in self.nodes:
            config = environment.here(node.node).config
            self.write_log_configuration(node.node, environment)
            if node.node == COORDINATION:
                zookeeper = coordination_settings(self._session_timeout_ms, environment)
                write_properties(config / "zoo.cfg", {**zookeeper, "admin.enableServer": "false"})
            else:
                write_properties(config / "server.properties", self._broker(node.node, environment))
            (config / "hosts").write_text(hosts_of(node.node, self.nodes, environment), encoding="utf-8")
            environment.here(node.node).data.mkdir(parents=True, exist_ok=True)

    async def restore(self, node: NodeId, environment: NodeEnvironment) -> None:
        """Does nothing: a broker creates what it needs in an empty directory."""

    def command(self, node: NodeId, environment: NodeEnvironment) -> Sequence[str]:
        if node == COORDINATION:
            return self.java(node, environment, self.version.zookeeper_main, "zoo.cfg")
        return self.java(node, environment, "kafka.Kafka", "server.properties")

    def observation(
        self, environment: NodeEnvironment, *, is_running: Callable[[NodeId], bool], clock: Clock
    ) -> Observation:
        brokers = {
            node.node: (environment.harness_reaches(node.node), environment.admin_port) for node in self.broker_nodes
        }
        return Observation(brokers, is_running=is_running, clock=clock)

    def history(self, folders: Callable[[NodeId], NodeFolders], anchor: Anchor) -> ClusterHistory:
        books = history_of(read_changes(folders(COORDINATION).data / "version-2"), anchor)
        return self.with_events(books, folders, anchor)

    def shown(self) -> Mapping[str, str]:
        shown = {"system": self.title, "coordination": "zookeeper"}
        shown |= {"start order": " ".join(str(broker) for broker in self.spec.brokers)}
        shown |= {"zookeeper.session.timeout.ms": self._session_timeout_ms}
        return shown | {key: value for key in SHOWN if (value := self.setting(key))}

    @property
    def _session_timeout_ms(self) -> str:
        return self.spec.settings.get("zookeeper.session.timeout.ms", _SESSION_TIMEOUT_MS)

    def _broker(self, node: NodeId, environment: NodeEnvironment) -> dict[str, str]:
        own = {
            "broker.id": str(node),
            "zookeeper.connect": f"{host_name(COORDINATION)}:{environment.internal_port}",
            "zookeeper.session.timeout.ms": self._session_timeout_ms,
        }
        return {**self.broker_settings(node, environment), **own}


NAMED_LISTENERS_SINCE = (0, 10, 2)
_TOPIC_TOOL = "kafka.admin.TopicCommand"


@dataclass(frozen=True)
class OneListenerKafka(ZookeeperKafka):
    @property
    def has_one_listener(self) -> bool:
        return True

    def broker_settings(self, node: NodeId, environment: NodeEnvironment) -> dict[str, str]:
        settings = super().broker_settings(node, environment)
        for unknown in ("listener.security.protocol.map", "inter.broker.listener.name"):
            del settings[unknown]
        own = {
            "listeners": f"PLAINTEXT://{environment.listens_at(node)}:{environment.internal_port}",
            "advertised.listeners": f"PLAINTEXT://{host_name(node)}:{environment.internal_port}",
        }
        return {**settings, **own}

    def observation(
        self, environment: NodeEnvironment, *, is_running: Callable[[NodeId], bool], clock: Clock
    ) -> Observation:
        brokers = {
            node.node: (environment.harness_reaches(node.node), environment.admin_port) for node in self.broker_nodes
        }
        transactions = environment.here(COORDINATION).data / "version-2"
        return ZookeeperObservation(brokers, transactions=transactions, is_running=is_running, clock=clock)

    def topic_command(self, topic: TopicDefinition, environment: NodeEnvironment) -> Sequence[str]:
        if topic.assignment:
            replicas = ",".join(":".join(str(broker) for broker in each) for each in topic.assignment)
            layout = ["--replica-assignment", replicas]
        else:
            factor = topic.replication_factor or min(3, len(self.spec.brokers))
            layout = ["--partitions", str(topic.partitions or 1), "--replication-factor", str(factor)]
        settings = [word for key, value in topic.settings.items() for word in ("--config", f"{key}={value}")]
        zookeeper = f"{host_name(COORDINATION)}:{environment.internal_port}"
        arguments = ["--create", "--zookeeper", zookeeper, "--topic", topic.name, *layout, *settings]
        # The tool runs in ZooKeeper's environment, whose names lead to ZooKeeper directly and to no link.
        return self.jvm(COORDINATION, environment, _TOPIC_TOOL, arguments)
