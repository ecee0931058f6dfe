"""What this machine has for runs: Kafka's jars in the user's cache, Java, addresses, Docker."""

import platform
import sys
from collections.abc import Callable, Sequence

from harness import extensions
from harness.cluster.brokers import kafka_jars
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.cluster.brokers.system import SystemKind
from harness.cluster.local.addresses import AddressBlock
from harness.errors import HarnessError
from harness.host.java import java_home, java_version
from harness.ports.cluster import COORDINATION
from harness.ports.faults import Fault
from harness.ports.load import WorkloadSpec
from harness.systems import docker_health


def fetch_kafka(versions: Sequence[str], *, tell: Callable[[str], None]) -> None:
    """Gets these versions' jars into the user's cache. Raises UsageError before anything is fetched."""
    for wanted in [resolve_version(text) for text in versions]:
        kafka_jars.fetch(wanted, progress=tell)


def health() -> list[tuple[str, bool, str]]:
    """(what, whether it is there, what was found or what to do)."""
    linux = platform.system() == "Linux"
    found = [
        ("Python", sys.version_info >= (3, 11), platform.python_version()),
        ("Linux", linux, "processes, links and faults of the local world" if linux else "the local world needs Linux"),
    ]
    try:
        home = java_home()
        found.append(("Java", True, f"{java_version(home)} at {home}, for the checks and for Kafka"))
    except HarnessError as error:
        found.append(("Java", False, str(error)))
    found.extend(kafka_jars.kafka_health())
    found.append(docker_health())
    from harness.checks.family import Family  # its libraries take a while to load

    packages = extensions.health(
        {extensions.CHECKS: Family, extensions.SYSTEMS: SystemKind},
        {extensions.FAULTS: Fault, extensions.WORKLOADS: WorkloadSpec},
    )
    found.extend(packages)
    if all(sound for _, sound, _ in packages):
        found.extend(_health_of(kind) for kind in extensions.load(extensions.SYSTEMS, SystemKind))
    try:
        with AddressBlock([COORDINATION], client_links=1) as block:
            found.append(("addresses", True, f"127.{block.block}.0.0/16 is free, ports from {block.port}"))
    except (HarnessError, OSError) as error:
        found.append(("addresses", False, str(error)))
    return found


def _health_of(kind: SystemKind) -> tuple[str, bool, str]:
    try:
        lacks = kind.lacks()
    except Exception as error:  # noqa: BLE001  # whatever a stranger's code raises costs its own line
        package = extensions.package_of(extensions.SYSTEMS, kind.name)
        lacks = f"package {package}: what it lacks here cannot be told ({type(error).__name__}: {error})"
    return f"system {kind.name}", not lacks, lacks or "runs here"
