"""Kafka from before 0.10.2: one listener for brokers and clients alike (KIP-103 came then), advertised by name.

So every client has to resolve the brokers' names to its own links. Nor can these brokers be asked for topics (0.10.1
can) or for the controller (0.10 can): Kafka's own tool makes topics, and ZooKeeper's log tells the controller.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.clock import Clock
from harness.cluster.brokers.kafka_zookeeper import ZookeeperKafka
from harness.cluster.brokers.system import Ground, host_name
from harness.cluster.observing import Observation
from harness.cluster.observing_zookeeper import ZookeeperObservation
from harness.interfaces import COORDINATION, NodeId, TopicDefinition

NAMED_LISTENERS_SINCE = (0, 10, 2)
_TOPIC_TOOL = "kafka.admin.TopicCommand"


@dataclass(frozen=True)
class OneListenerKafka(ZookeeperKafka):
    @property
    def has_one_listener(self) -> bool:
        return True

    def broker_settings(self, node: NodeId, ground: Ground) -> dict[str, str]:
        settings = super().broker_settings(node, ground)
        for unknown in ("listener.security.protocol.map", "inter.broker.listener.name"):
            del settings[unknown]
        own = {
            "listeners": f"PLAINTEXT://{ground.listens_at(node)}:{ground.internal_port}",
            "advertised.listeners": f"PLAINTEXT://{host_name(node)}:{ground.internal_port}",
        }
        return {**settings, **own}

    def observation(self, ground: Ground, *, is_running: Callable[[NodeId], bool], clock: Clock) -> Observation:
        brokers = {node.node: (ground.harness_reaches(node.node), ground.admin_port) for node in self.broker_nodes}
        transactions = ground.here(COORDINATION).data / "version-2"
        return ZookeeperObservation(brokers, transactions=transactions, is_running=is_running, clock=clock)

    def topic_command(self, topic: TopicDefinition, ground: Ground) -> Sequence[str]:
        if topic.assignment:
            replicas = ",".join(":".join(str(broker) for broker in each) for each in topic.assignment)
            layout = ["--replica-assignment", replicas]
        else:
            factor = topic.replication_factor or min(3, len(self.spec.brokers))
            layout = ["--partitions", str(topic.partitions or 1), "--replication-factor", str(factor)]
        settings = [word for key, value in topic.settings.items() for word in ("--config", f"{key}={value}")]
        zookeeper = f"{host_name(COORDINATION)}:{ground.internal_port}"
        arguments = ["--create", "--zookeeper", zookeeper, "--topic", topic.name, *layout, *settings]
        # At ZooKeeper's place, whose names lead to ZooKeeper itself and not to somebody's link.
        return self.jvm(COORDINATION, ground, _TOPIC_TOOL, arguments)
