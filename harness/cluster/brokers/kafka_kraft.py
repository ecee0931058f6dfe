"""Real Kafka by KRaft. Layouts: one controller apart from the brokers, three apart, or brokers that control too.

The controller's listener is advertised by node name: otherwise its literal address goes into raft responses, and
brokers open connections past the links. One controller apart is the default: killing or cutting a broker
never touches the quorum then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.clock import Anchor, Clock
from harness.cluster.brokers.kafka import SHOWN, KafkaSystem
from harness.cluster.brokers.kafka_storage import formatted, give
from harness.cluster.brokers.system import Ground, NodeFolders, host_name, hosts_of, write_properties
from harness.cluster.metadata_history import history_of
from harness.cluster.metadata_log import longest, read_log
from harness.cluster.observing import Observation
from harness.cluster.observing_quorum import QuorumObservation
from harness.errors import HarnessError
from harness.interfaces import COORDINATION, ClusterHistory, Node, NodeId

LAYOUTS = ("kraft", "kraft-quorum", "kraft-combined")
_LAYOUT_WORDS = {"kraft": "KRaft", "kraft-quorum": "KRaft, three controllers", "kraft-combined": "KRaft, combined"}
_METADATA = "__cluster_metadata-0"
_TEST_SETTINGS: Mapping[str, str] = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1500",
    "controller.quorum.request.timeout.ms": "1500",
    # Otherwise an unclean election that was just allowed is tried after five minutes.
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
    def stages(self) -> Sequence[Sequence[NodeId]]:
        return [self.start_order] if self.is_combined else [self.controllers, self.start_order]

    @property
    def first_is_controller(self) -> bool:
        return False

    @property
    def refuses_early_restarts(self) -> bool:
        return False

    def peer_ports(self, node: NodeId, ground: Ground) -> Sequence[int]:
        return [ground.internal_port, ground.controller_port] if self.is_combined else [ground.internal_port]

    def _controller_port(self, ground: Ground) -> int:
        return ground.controller_port if self.is_combined else ground.internal_port

    async def prepare(self, ground: Ground) -> None:
        template = await formatted(self.home, self.spec.features)
        for node in self.nodes:
            config = ground.here(node.node).config
            self.write_log_configuration(node.node, ground)
            settings = self._broker(node.node, ground) if node.role == "broker" else self._controller(node.node, ground)
            write_properties(config / "server.properties", settings)
            (config / "hosts").write_text(hosts_of(node.node, self.nodes, ground), encoding="utf-8")
            give(node.node, template, ground.here(node.node).data)
        await self.archive_classes(ground)

    async def restore(self, node: NodeId, ground: Ground) -> None:
        """An operator who replaces a disk formats the new one."""
        give(node, await formatted(self.home, self.spec.features), ground.here(node).data)

    def command(self, node: NodeId, ground: Ground) -> Sequence[str]:
        return self.java(node, ground, "kafka.Kafka", "server.properties")

    def observation(self, ground: Ground, *, is_running: Callable[[NodeId], bool], clock: Clock) -> Observation:
        brokers = {node.node: (ground.harness_reaches(node.node), ground.admin_port) for node in self.broker_nodes}
        port = self._controller_port(ground)
        controllers = {node: (ground.harness_reaches(node), port) for node in self.controllers}
        return QuorumObservation(brokers, controllers=controllers, is_running=is_running, clock=clock)

    def history(self, folders: Callable[[NodeId], NodeFolders], anchor: Anchor) -> ClusterHistory:
        """From the metadata log of the controller that has most of it, and the brokers' log lines."""
        metadata = longest(folders(node).data / _METADATA for node in self.controllers)
        if metadata is None:
            raise HarnessError("no controller has begun its metadata log; see the nodes' logs in the run folder")
        return self.with_events(history_of(read_log(metadata).entries, anchor), folders, anchor)

    def shown(self) -> Mapping[str, str]:
        told = {"system": self.title, "coordination": "kraft"}
        told |= {"brokers": " ".join(str(broker) for broker in sorted(self.spec.brokers))}
        told |= {"broker.session.timeout.ms": self._session_timeout_ms}
        told |= {key: value for key in SHOWN if (value := self.setting(key))}
        return told | {f"feature {name}": level for name, level in self.spec.features.items()}

    @property
    def _session_timeout_ms(self) -> str:
        """A scenario that asks for a session time in ZooKeeper's key means the brokers' session here."""
        asked = self.spec.settings.get(
            "broker.session.timeout.ms", self.spec.settings.get("zookeeper.session.timeout.ms")
        )
        return asked or _TEST_SETTINGS["broker.session.timeout.ms"]

    def _quorum(self, node: NodeId, ground: Ground) -> dict[str, str]:
        port = self._controller_port(ground)
        voters = ",".join(f"{each}@{host_name(each)}:{port}" for each in self.controllers)
        return {"node.id": str(node), "controller.quorum.voters": voters, "controller.listener.names": "CONTROLLER"}

    def _controller(self, node: NodeId, ground: Ground) -> dict[str, str]:
        port = self._controller_port(ground)
        own = {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{ground.listens_at(node)}:{port}",
            "advertised.listeners": f"CONTROLLER://{host_name(node)}:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": str(ground.there(node).data),
        }
        return {**_TEST_SETTINGS, **self._asked(), **own, **self._quorum(node, ground)}

    def _broker(self, node: NodeId, ground: Ground) -> dict[str, str]:
        settings = {**_TEST_SETTINGS, **self.broker_settings(node, ground), **self._asked()}
        settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        settings["process.roles"] = "broker"
        if self.is_combined:
            settings["process.roles"] = "broker,controller"
            port = self._controller_port(ground)
            settings["listeners"] += f",CONTROLLER://{ground.listens_at(node)}:{port}"
            settings["advertised.listeners"] += f",CONTROLLER://{host_name(node)}:{port}"
        return {**settings, **self._quorum(node, ground)}

    def _asked(self) -> dict[str, str]:
        """The scenario's own settings, without those of the ZooKeeper era."""
        kept = {key: value for key, value in self.spec.settings.items() if not key.startswith("zookeeper.")}
        return {**kept, "broker.session.timeout.ms": self._session_timeout_ms}
