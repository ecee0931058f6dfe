"""For a system: entry point `kafka_chaos.systems`, a SystemKind, which makes a System of a scenario's [cluster]."""

from harness.cluster.books.observing import Observation
from harness.cluster.brokers.kafka_kraft import KraftKafka
from harness.cluster.brokers.reference import ReferenceSystem
from harness.cluster.brokers.system import (
    HasImage,
    NodeEnvironment,
    NodeFolders,
    System,
    SystemKind,
    host_name,
    hosts_of,
    listeners_of,
    write_properties,
)
from harness.errors import UsageError
from harness.host.clock import Anchor, Clock
from harness.ports.cluster import COORDINATION, ClientId, ClusterHistory, Node, NodeId, TopicDefinition
from harness.scenario.model import ClusterSpec, Traits

__all__ = [
    "COORDINATION",
    "Anchor",
    "ClientId",
    "Clock",
    "ClusterHistory",
    "ClusterSpec",
    "HasImage",
    "KraftKafka",
    "Node",
    "NodeEnvironment",
    "NodeFolders",
    "NodeId",
    "Observation",
    "ReferenceSystem",
    "System",
    "SystemKind",
    "TopicDefinition",
    "Traits",
    "UsageError",
    "host_name",
    "hosts_of",
    "listeners_of",
    "write_properties",
]
