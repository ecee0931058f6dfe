"""Systems and worlds by name: what runs ("reference", "kafka:4.3.1", "kafka:/opt/kafka", those of installed packages,
somebody else's), where it runs, and what a scenario may ask of it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import extensions
from harness.cluster.brokers import kafka_kraft, kafka_zookeeper
from harness.cluster.brokers.kafka import PREFIX, version_of
from harness.cluster.brokers.kafka_versions import KafkaVersion
from harness.cluster.brokers.reference import ReferenceSystem
from harness.cluster.brokers.system import System, SystemKind
from harness.cluster.local.cluster import LocalCluster
from harness.errors import UsageError, nearest
from harness.host.clock import SystemClock
from harness.ports.capabilities import CanCrashAtWrites, CanFailWrites, CanLoseUnsynced
from harness.ports.requests import CanHoldRequests
from harness.scenario.model import ATTACHED, COMPOSE, SIMULATED, AttachedSpec, ClusterSpec, Traits

if TYPE_CHECKING:
    from harness.cluster.attached.cluster import ForeignCluster
    from harness.cluster.docker.cluster import DockerCluster
    from harness.cluster.simulated.cluster import SimulatedCluster

_SIMULATED_ALONE = (CanHoldRequests, CanLoseUnsynced, CanCrashAtWrites, CanFailWrites)
WORLDS = ("local", "docker", SIMULATED)
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
    if version.numbers >= kafka_zookeeper.NAMED_LISTENERS_SINCE:
        return kafka_zookeeper.ZookeeperKafka(spec)
    if spec.world != "local":
        raise UsageError(
            f"--world {spec.world}: Kafka {version} has one listener for all clients, whose links only --world local "
            "can tell apart"
        )
    return kafka_zookeeper.OneListenerKafka(spec)


def added_kind(spec: ClusterSpec) -> SystemKind | None:
    """The kind of an installed package, if the system is of one. Raises HarnessError for a broken package."""
    name = spec.system.partition(":")[0]
    return None if name in _OWN else extensions.named(extensions.SYSTEMS, name, SystemKind, own=_OWN)


def traits_of(spec: ClusterSpec) -> Traits:
    """The system's properties that `[[on]]` tables of scenarios refer to. Raises UsageError."""
    if spec.is_foreign:
        return Traits(kind=ATTACHED, coordination="unknown", world=spec.where)
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


def cluster_kind(
    spec: ClusterSpec,
) -> "type[LocalCluster] | type[DockerCluster] | type[SimulatedCluster] | type[ForeignCluster]":
    """The class whose capabilities say what can be done. Raises UsageError for what nobody knows, or lacks."""
    if spec.world not in WORLDS:
        raise UsageError(f"unknown world {spec.world!r}; {nearest(spec.world, WORLDS)}")
    if spec.is_foreign:
        return _foreign_kind(spec)
    if spec.bootstrap or replace(spec.attached, front_ends=False) != AttachedSpec():
        raise UsageError(f"--bootstrap and [attached] are for --system attached and compose:FILE, not {spec.system}")
    if spec.world == SIMULATED:
        return _simulated_kind(spec)
    return LocalCluster if spec.world == "local" else _docker_kind()


def _simulated_kind(spec: ClusterSpec) -> "type[SimulatedCluster]":
    if spec.system != "reference":
        raise UsageError(f"--world {SIMULATED}: {spec.system} runs as processes; only the reference is simulated")
    from harness.cluster.simulated.cluster import SimulatedCluster  # with the reference's own code

    return SimulatedCluster


def _foreign_kind(spec: ClusterSpec) -> "type[ForeignCluster]":
    if spec.world != "local":
        raise UsageError(f"--world {spec.world}: a cluster that somebody else runs is where it is; leave it out")
    if spec.system == ATTACHED:
        from harness.cluster.attached.by_commands import cluster_by_commands

        return cluster_by_commands(spec)
    from harness.cluster.attached.by_docker import cluster_by_docker  # its libraries take a while to load

    return cluster_by_docker(spec)


def _docker_kind() -> "type[DockerCluster]":
    from harness.cluster.docker.cluster import DockerCluster

    return DockerCluster


def made(
    spec: ClusterSpec, folder: Path, *, client_links: int
) -> "LocalCluster | DockerCluster | SimulatedCluster | ForeignCluster":
    """The cluster of the run in that folder; nothing is started. Raises UsageError."""
    if spec.world != SIMULATED:
        return made_of_processes(spec, folder, client_links=client_links)
    kind, system = _simulated_kind(spec), system_of(spec)
    return kind(run_path=folder, system=system, client_links=client_links, clock=SystemClock())


def made_of_processes(
    spec: ClusterSpec, folder: Path, *, client_links: int
) -> "LocalCluster | DockerCluster | ForeignCluster":
    """The same for every world but the simulated one, which is no process's."""
    clock = SystemClock()
    if spec.is_foreign:
        return _foreign_kind(spec)(run_path=folder, spec=spec, clock=clock)
    system = system_of(spec)
    if spec.world == "local":
        return LocalCluster(run_path=folder, system=system, client_links=client_links, clock=clock)
    return _docker_kind()(
        run_path=folder,
        system=system,
        client_links=client_links,
        clock=clock,
        disk_bytes=spec.disk_bytes,
        is_internal=spec.network == "internal",
    )


def remedy_for(spec: ClusterSpec, need: type) -> str:
    """What somebody would have to give so that the cluster can do it."""
    if spec.system == ATTACHED:
        from harness.cluster.attached import by_commands

        return by_commands.remedy(need)
    if spec.is_foreign:
        from harness.cluster.attached import by_docker

        return by_docker.remedy(need)
    return f"use --world {SIMULATED}" if need in _SIMULATED_ALONE else "choose another --world"
