"""Kafka before 0.10.2: one listener for brokers and clients (KIP-103 is newer), advertised by name.

So every client must resolve the brokers' names to its own links. These brokers do not support creating topics by
request (0.10.1 does) or naming the controller (0.10 does): Kafka's own tool creates topics, and ZooKeeper's log shows
the controller.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.cluster.books.observing import Observation
from harness.cluster.books.observing_zookeeper import ZookeeperObservation
from harness.cluster.brokers.kafka_zookeeper import ZookeeperKafka
from harness.cluster.brokers.system import NodeEnvironment, host_name
from harness.host.clock import Clock
from harness.ports.cluster import COORDINATION, NodeId, TopicDefinition

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
