"""The common part of all real Kafka systems: one JVM per node, host names from our hosts file, settings for tests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.cluster.brokers import class_archive
from harness.cluster.brokers.kafka_jars import KafkaHome, home_from_distribution, installed
from harness.cluster.brokers.kafka_versions import KafkaVersion, resolve_version
from harness.cluster.brokers.system import NodeEnvironment, NodeFolders, listeners_of
from harness.cluster.kafka_log_configuration import log4j2_properties, log4j_properties
from harness.cluster.kafka_log_lines import read_log_lines
from harness.cluster.printed_configuration import read_printed
from harness.errors import HarnessError, UsageError
from harness.host.clock import Anchor
from harness.ports.cluster import COORDINATION, BrokerEvent, ClusterHistory, Node, NodeId, TopicDefinition
from harness.scenario.model import ClusterSpec

PREFIX = "kafka:"
# A small heap and only the C1 compiler: three brokers on two cores start in four seconds instead of seven.
_JVM_FLAGS = (
    "-Xmx256m",
    "-Xms64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
    "-Duser.timezone=UTC",
)
# Timeouts scaled for tests, as in the reference cluster; memory and threads for a laptop.
TEST_SETTINGS: Mapping[str, str] = {
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "controller.socket.timeout.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "log.segment.bytes": "16777216",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
}
SHOWN = ("replica.lag.time.max.ms", "replica.fetch.wait.max.ms", "min.insync.replicas")


@dataclass(frozen=True)
class KafkaSystem:
    """The common part of KRaft and ZooKeeper mode. Created from the scenario alone."""

    spec: ClusterSpec

    def __post_init__(self) -> None:
        if COORDINATION in self.spec.brokers:
            raise HarnessError(f"broker id {COORDINATION} is the controller's; choose another one")
        if self.spec.flaws:
            raise UsageError(f"flaws {', '.join(self.spec.flaws)}: only the reference cluster can be given flaws")

    @cached_property
    def version(self) -> KafkaVersion:
        return version_of(self.spec.system)

    @cached_property
    def home(self) -> KafkaHome:
        """Raises HarnessError if the jars are not on this machine, or differ from those that were fetched."""
        text = self.spec.system.removeprefix(PREFIX)
        if "/" in text:
            return home_from_distribution(Path(text))
        home = installed(self.version)
        if home is None:
            raise HarnessError(
                f"Kafka {self.version} is not on this machine; fetch it once: kafka-chaos fetch-kafka {self.version}"
            )
        return home

    @property
    def has_one_listener(self) -> bool:
        return False

    def topic_command(self, topic: TopicDefinition, environment: NodeEnvironment) -> Sequence[str]:
        return ()

    @property
    def broker_nodes(self) -> list[Node]:
        return [Node(node=NodeId(each), role="broker", name=f"broker {each}") for each in sorted(self.spec.brokers)]

    @property
    def start_order(self) -> list[NodeId]:
        return [NodeId(broker) for broker in self.spec.brokers]

    def java(self, node: NodeId, environment: NodeEnvironment, main: str, configuration: str) -> Sequence[str]:
        """The command of one node's JVM."""
        return self.jvm(node, environment, main, [str(environment.there(node).config / configuration)])

    def jvm(self, node: NodeId, environment: NodeEnvironment, main: str, arguments: Sequence[str]) -> Sequence[str]:
        """A JVM command in a node's environment: with its host names and its logging configuration."""
        config = environment.there(node).config
        return [
            environment.java(),
            *_JVM_FLAGS,
            *(self._archiving(environment).options() if self.spec.world == "local" else ()),
            f"-Djdk.net.hosts.file={config / 'hosts'}",
            f"-Dkafka.logs.dir={config}",
            self.version.log_option(config / self._log_configuration),
            "-cp",
            environment.jars(self.home.libs),
            main,
            *arguments,
        ]

    def _archiving(self, environment: NodeEnvironment) -> class_archive.Archiving:
        return class_archive.Archiving(home=self.home, java=environment.java(), flags=_JVM_FLAGS)

    async def archive_classes(self, environment: NodeEnvironment) -> None:
        """Creates the class archive, once for all runs. In a container Java and jars differ, and nodes start without an
        archive."""
        if self.spec.world != "local":
            return
        node = self.start_order[0]  # it uses the run's addresses, which are still idle
        at = environment.listens_at(node)
        await class_archive.ensure(
            self._archiving(environment),
            log_option=self.version.log_option(environment.here(node).config / self._log_configuration),
            listens=(at, environment.internal_port),
            controls=(at, environment.controller_port),
        )

    @property
    def _log_configuration(self) -> str:
        return "log4j2.properties" if self.version.log4j == 2 else "log4j.properties"

    def write_log_configuration(self, node: NodeId, environment: NodeEnvironment) -> None:
        config = environment.here(node).config
        config.mkdir(parents=True, exist_ok=True)
        # Up to 1.1 only state change messages at level TRACE show what a replica becomes.
        traced = self.version.numbers < (1, 2)
        text = log4j2_properties() if self.version.log4j == 2 else log4j_properties(traced_state_changes=traced)
        (config / self._log_configuration).write_text(text, encoding="utf-8")

    def setting(self, key: str) -> str:
        return str(self.spec.settings.get(key, TEST_SETTINGS.get(key, "")))

    def broker_settings(self, node: NodeId, environment: NodeEnvironment) -> dict[str, str]:
        """The broker settings of both modes. The scenario's own settings override the settings for tests."""
        listeners, advertised = listeners_of(node, environment)
        names = [listener.partition(":")[0] for listener in listeners]
        own = {
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": str(environment.there(node).data),
        }
        replicas = str(min(3, len(self.spec.brokers)))
        kept = {"offsets.topic.replication.factor": replicas, "transaction.state.log.replication.factor": replicas}
        return {**TEST_SETTINGS, **kept, **self.spec.settings, **own}

    def events(self, folders: Callable[[NodeId], NodeFolders], anchor: Anchor) -> list[BrokerEvent]:
        """The truncations, leadership changes and damage in the nodes' logs."""
        found: list[BrokerEvent] = []
        for node in self.broker_nodes:
            found.extend(read_log_lines(node.node, folders(node.node).log, anchor))
        return found

    @property
    def configured_nodes(self) -> Sequence[Node]:
        """The nodes that print their configuration at their start."""
        return self.broker_nodes

    def with_events(
        self, books: ClusterHistory, folders: Callable[[NodeId], NodeFolders], anchor: Anchor
    ) -> ClusterHistory:
        """The books with what the nodes' logs tell: events, and the configuration with which they started."""
        printed = [
            change
            for node in self.configured_nodes
            for change in read_printed(node.node, folders(node.node).log, anchor)
        ]
        events = [*books.broker_events, *self.events(folders, anchor)]
        return ClusterHistory(
            partition_states=books.partition_states,
            controllers=books.controllers,
            broker_events=sorted(events, key=lambda event: event.t_ns),
            configuration=sorted([*books.configuration, *printed], key=lambda change: change.t_ns),
            topics=books.topics,
        )


def version_of(system: str) -> KafkaVersion:
    """The version of "kafka:4.3" or "kafka:/opt/kafka". Raises UsageError."""
    text = system.removeprefix(PREFIX)
    return home_from_distribution(Path(text)).version if "/" in text else resolve_version(text)
