"""The kinds of brokers by name: "reference", "kafka:4.3.1", "kafka:/opt/kafka"."""

from harness.cluster.brokers import kafka_kraft, kafka_one_listener, kafka_zookeeper
from harness.cluster.brokers.kafka import PREFIX, version_of
from harness.cluster.brokers.kafka_versions import KafkaVersion
from harness.cluster.brokers.reference import ReferenceSystem
from harness.cluster.brokers.system import System
from harness.errors import UsageError
from harness.scenario import ClusterSpec
from harness.scenario_variants import Traits

ELR_FEATURE = "eligible.leader.replicas.version"
EXAMPLES = ("reference", "kafka:4.3.1", "kafka:/path/of/a/distribution")


def system_of(spec: ClusterSpec) -> System:
    """Raises UsageError for a system that nobody knows, or that cannot be laid out as the scenario asks."""
    if spec.system == "reference":
        if spec.layout:
            raise UsageError(f"layout {spec.layout!r}: the reference cluster has one layout; leave it out")
        return ReferenceSystem(spec=spec)
    if not spec.system.startswith(PREFIX):
        raise UsageError(f"unknown system {spec.system!r}; for example {', '.join(EXAMPLES)}")
    version = version_of(spec.system)
    layouts = layouts_of(version)
    layout = spec.layout or layouts[0]
    if layout not in layouts:
        raise UsageError(f"layout {layout!r}: Kafka {version} has {', '.join(layouts)}")
    if layout not in kafka_zookeeper.LAYOUTS:
        return kafka_kraft.KraftKafka(spec)
    if numbers_of(version) >= kafka_one_listener.NAMED_LISTENERS_SINCE:
        return kafka_zookeeper.ZookeeperKafka(spec)
    if spec.world != "local":
        raise UsageError(
            f"--world {spec.world}: Kafka {version} has one listener for all clients, whose links only --world local "
            "can tell apart"
        )
    return kafka_one_listener.OneListenerKafka(spec)


def traits_of(spec: ClusterSpec) -> Traits:
    """What the system is like, for scenarios that differ from one to the other. Raises UsageError."""
    if not spec.system.startswith(PREFIX):
        return Traits(kind=spec.system, coordination="zookeeper", world=spec.world)
    version = version_of(spec.system)
    numbers = numbers_of(version)
    layout = spec.layout or layouts_of(version)[0]
    return Traits(
        kind="kafka",
        coordination="zookeeper" if layout in kafka_zookeeper.LAYOUTS else "kraft",
        world=spec.world,
        version=numbers,
        # KIP-966: on by default where storage is formatted by 4.1 or newer.
        eligible_leader_replicas=numbers >= (4, 1) and spec.features.get(ELR_FEATURE, "1") != "0",
    )


def numbers_of(version: KafkaVersion) -> tuple[int, ...]:
    return tuple(int(part) for part in version.version.partition("-")[0].split("."))


def layouts_of(version: KafkaVersion) -> list[str]:
    """How brokers of that version can be laid out; the first is its own way."""
    return [
        *(kafka_zookeeper.LAYOUTS if "zookeeper" in version.modes else ()),
        *(kafka_kraft.LAYOUTS if "kraft" in version.modes else ()),
    ]
