"""Real Kafka in KRaft mode. Layouts: one separate controller, three separate controllers, or brokers that are
controllers.

The controller's listener is advertised by node name: otherwise raft responses contain its literal address, and brokers
bypass the links. One separate controller is the default, because faults on brokers then never affect the quorum.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.cluster.books.metadata_history import history_of
from harness.cluster.books.metadata_log import longest, read_log
from harness.cluster.books.observing import Observation, QuorumObservation
from harness.cluster.brokers.kafka import SHOWN, KafkaSystem
from harness.cluster.brokers.kafka_storage import formatted, give
from harness.cluster.brokers.system import NodeEnvironment, NodeFolders, host_name, hosts_of, write_properties
from harness.errors import HarnessError
from harness.host.clock import Anchor, Clock
from harness.ports.cluster import COORDINATION, ClusterHistory, Node, NodeId

LAYOUTS = ("kraft", "kraft-quorum", "kraft-combined")
_LAYOUT_WORDS = {"kraft": "KRaft", "kraft-quorum": "KRaft, three controllers", "kraft-combined": "KRaft, combined"}
_METADATA = "__cluster_metadata-0"
_TEST_SETTINGS: Mapping[str, str] = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1500",
    "controller.quorum.request.timeout.ms": "1500",
    # Otherwise the controller waits five minutes before it uses a newly allowed unclean election.
    "unclean.leader.election.interval.ms": "1000",
}


@dataclass(frozen=True)
class KraftKafka(KafkaSystem):
    @property
    def layout(self) -> str:
        return self.spec.layout or LAYOUTS[0]

    @property
    def title(self) -> str:
        return f"Apache Kafka {self.version} ({_LAYOUT_WORDS[self.layout]})"

    @cached_property
    def controllers(self) -> Sequence[NodeId]:
        if self.layout == "kraft-combined":
            return [node.node for node in self.broker_nodes]
        return [NodeId(COORDINATION + number) for number in range(3 if self.layout == "kraft-quorum" else 1)]

    @property
    def is_combined(self) -> bool:
        return self.layout == "kraft-combined"

    @property
    def nodes(self) -> Sequence[Node]:
        apart = [] if self.is_combined else self.controllers
        named = [
            Node(node=node, role="controller", name="controller" if len(apart) == 1 else f"controller {node}")
            for node in apart
        ]
        return [*named, *self.broker_nodes]

    @property
    def configured_nodes(self) -> Sequence[Node]:
        return self.nodes  # a controller's own decide elections

    @property
    def stages(self) -> Sequence[Sequence[NodeId]]:
        return [self.start_order] if self.is_combined else [self.controllers, self.start_order]

    @property
    def first_is_controller(self) -> bool:
        return False

    @property
    def refuses_early_restarts(self) -> bool:
        return False

    def peer_ports(self, node: NodeId, environment: NodeEnvironment) -> Sequence[int]:
        return (
            [environment.internal_port, environment.controller_port]
            if self.is_combined
            else [environment.internal_port]
        )

    def _controller_port(self, environment: NodeEnvironment) -> int:
        return environment.controller_port if self.is_combined else environment.internal_port

    async def prepare(self, environment: NodeEnvironment) -> None:
        template = await formatted(self.home, self.spec.features)
        for node in self.nodes:
            config = environment.here(node.node).config
            self.write_log_configuration(node.node, environment)
            settings = (
                self._broker(node.node, environment)
                if node.role == "broker"
                else self._controller(node.node, environment)
            )
            write_properties(config / "server.properties", settings)
            (config / "hosts").write_text(hosts_of(node.node, self.nodes, environment), encoding="utf-8")
            give(node.node, template, environment.here(node.node).data)
        await self.archive_classes(environment)

    async def restore(self, node: NodeId, environment: NodeEnvironment) -> None:
        """Formats the new disk, as an operator would."""
        give(node, await formatted(self.home, self.spec.features), environment.here(node).data)

    def command(self, node: NodeId, environment: NodeEnvironment) -> Sequence[str]:
        return self.java(node, environment, "kafka.Kafka", "server.properties")

    def observation(
        self, environment: NodeEnvironment, *, is_running: Callable[[NodeId], bool], clock: Clock
    ) -> Observation:
        brokers = {
            node.node: (environment.harness_reaches(node.node), environment.admin_port) for node in self.broker_nodes
        }
        port = self._controller_port(environment)
        controllers = {node: (environment.harness_reaches(node), port) for node in self.controllers}
        return QuorumObservation(brokers, controllers=controllers, is_running=is_running, clock=clock)

    def history(self, folders: Callable[[NodeId], NodeFolders], anchor: Anchor) -> ClusterHistory:
        """Read from the longest metadata log of the controllers and the brokers' log lines."""
        metadata = longest(folders(node).data / _METADATA for node in self.controllers)
        if metadata is None:
            raise HarnessError("no controller has begun its metadata log; see the nodes' logs in the run folder")
        return self.with_events(history_of(read_log(metadata).entries, anchor), folders, anchor)

    def shown(self) -> Mapping[str, str]:
        shown = {"system": self.title, "coordination": "kraft"}
        shown |= {"brokers": " ".join(str(broker) for broker in sorted(self.spec.brokers))}
        shown |= {"broker.session.timeout.ms": self._session_timeout_ms}
        shown |= {key: value for key in SHOWN if (value := self.setting(key))}
        return shown | {f"feature {name}": level for name, level in self.spec.features.items()}

    @property
    def _session_timeout_ms(self) -> str:
        """A session timeout given by ZooKeeper's key sets the brokers' session timeout here."""
        asked = self.spec.settings.get(
            "broker.session.timeout.ms", self.spec.settings.get("zookeeper.session.timeout.ms")
        )
        return asked or _TEST_SETTINGS["broker.session.timeout.ms"]

    def _quorum(self, node: NodeId, environment: NodeEnvironment) -> dict[str, str]:
        port = self._controller_port(environment)
        voters = ",".join(f"{each}@{host_name(each)}:{port}" for each in self.controllers)
        return {"node.id": str(node), "controller.quorum.voters": voters, "controller.listener.names": "CONTROLLER"}

    def _controller(self, node: NodeId, environment: NodeEnvironment) -> dict[str, str]:
        port = self._controller_port(environment)
        own = {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{environment.listens_at(node)}:{port}",
            "advertised.listeners": f"CONTROLLER://{host_name(node)}:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": str(environment.there(node).data),
        }
        return {**_TEST_SETTINGS, **self._asked(), **own, **self._quorum(node, environment)}

    def _broker(self, node: NodeId, environment: NodeEnvironment) -> dict[str, str]:
        settings = {**_TEST_SETTINGS, **self.broker_settings(node, environment), **self._asked()}
        settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        settings["process.roles"] = "broker"
        if self.is_combined:
            settings["process.roles"] = "broker,controller"
            port = self._controller_port(environment)
            settings["listeners"] += f",CONTROLLER://{environment.listens_at(node)}:{port}"
            settings["advertised.listeners"] += f",CONTROLLER://{host_name(node)}:{port}"
        return {**settings, **self._quorum(node, environment)}

    def _asked(self) -> dict[str, str]:
        """The scenario's own settings, without ZooKeeper keys."""
        kept = {key: value for key, value in self.spec.settings.items() if not key.startswith("zookeeper.")}
        return {**kept, "broker.session.timeout.ms": self._session_timeout_ms}
