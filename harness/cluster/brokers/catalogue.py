"""The systems by name: "reference", "kafka:4.3.1", "kafka:/opt/kafka", and those of installed packages."""

from harness import extensions
from harness.cluster.brokers import kafka_kraft, kafka_one_listener, kafka_zookeeper
from harness.cluster.brokers.kafka import PREFIX, version_of
from harness.cluster.brokers.kafka_versions import KafkaVersion
from harness.cluster.brokers.reference import ReferenceSystem
from harness.cluster.brokers.system import System, SystemKind
from harness.errors import UsageError
from harness.scenario.model import ATTACHED, COMPOSE, ClusterSpec
from harness.scenario.variants import Traits

ELR_FEATURE = "eligible.leader.replicas.version"
_OWN = ("reference", PREFIX.rstrip(":"), ATTACHED, COMPOSE.rstrip(":"))
EXAMPLES = ("reference", "kafka:4.3.1", "kafka:/path/of/a/distribution")


def system_of(spec: ClusterSpec) -> System:
    """Raises UsageError for an unknown system, or if it does not have the scenario's layout."""
    if spec.system == "reference":
        if spec.layout:
            raise UsageError(f"layout {spec.layout!r}: the reference cluster has one layout; leave it out")
        return ReferenceSystem(spec=spec)
    if (kind := added_kind(spec)) is not None:
        if spec.world not in kind.worlds:
            raise UsageError(f"--world {spec.world}: system {kind.name!r} runs in --world {' or '.join(kind.worlds)}")
        return kind.make(spec)
    if not spec.system.startswith(PREFIX):
        known = ", ".join([*EXAMPLES, *extensions.names(extensions.SYSTEMS)])
        raise UsageError(f"unknown system {spec.system!r}; for example {known}")
    version = version_of(spec.system)
    layouts = layouts_of(version)
    layout = spec.layout or layouts[0]
    if layout not in layouts:
        raise UsageError(f"layout {layout!r}: Kafka {version} has {', '.join(layouts)}")
    if layout not in kafka_zookeeper.LAYOUTS:
        return kafka_kraft.KraftKafka(spec)
    if version.numbers >= kafka_one_listener.NAMED_LISTENERS_SINCE:
        return kafka_zookeeper.ZookeeperKafka(spec)
    if spec.world != "local":
        raise UsageError(
            f"--world {spec.world}: Kafka {version} has one listener for all clients, whose links only --world local "
            "can tell apart"
        )
    return kafka_one_listener.OneListenerKafka(spec)


def added_kind(spec: ClusterSpec) -> SystemKind | None:
    """The kind of an installed package, if the system is of one. Raises HarnessError for a broken package."""
    name = spec.system.partition(":")[0]
    return None if name in _OWN else extensions.named(extensions.SYSTEMS, name, SystemKind, own=_OWN)


def traits_of(spec: ClusterSpec) -> Traits:
    """The system's properties that `[[on]]` tables of scenarios refer to. Raises UsageError."""
    if (kind := added_kind(spec)) is not None:
        return kind.traits(spec)
    if not spec.system.startswith(PREFIX):
        return Traits(kind=spec.system, coordination="zookeeper", world=spec.world)
    version = version_of(spec.system)
    layout = spec.layout or layouts_of(version)[0]
    return Traits(
        kind="kafka",
        coordination="zookeeper" if layout in kafka_zookeeper.LAYOUTS else "kraft",
        world=spec.world,
        version=version.numbers,
        # KIP-966: on by default where storage is formatted by 4.1 or newer.
        eligible_leader_replicas=version.numbers >= (4, 1) and spec.features.get(ELR_FEATURE, "1") != "0",
    )


def layouts_of(version: KafkaVersion) -> list[str]:
    """The layouts that brokers of that version support; the first is the default."""
    return [
        *(kafka_zookeeper.LAYOUTS if "zookeeper" in version.modes else ()),
        *(kafka_kraft.LAYOUTS if "kraft" in version.modes else ()),
    ]
