"""What this machine has for runs: Kafka's jars in the user's cache, Java, addresses, a Docker engine and its kernel.

Nothing is started, built or pulled. The engine's libraries load slowly, so they are imported only when asked for.
"""

import platform
import sys
from collections.abc import Callable, Sequence
from functools import cache

from harness import extensions
from harness.cluster.brokers import kafka_jars
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.cluster.brokers.system import System, SystemKind
from harness.cluster.docker.labels import engine_address
from harness.cluster.local.addresses import AddressBlock
from harness.errors import HarnessError
from harness.host.java import java_home, java_version
from harness.ports.capabilities import CanImpairPackets
from harness.ports.cluster import COORDINATION, CanSlowLinks
from harness.ports.faults import Fault
from harness.ports.load import WorkloadSpec
from harness.scenario.model import ClusterSpec


def fetch_kafka(versions: Sequence[str], *, tell: Callable[[str], None]) -> None:
    """Gets these versions' jars into the user's cache. Raises UsageError before anything is fetched."""
    for wanted in [resolve_version(text) for text in versions]:
        kafka_jars.fetch(wanted, progress=tell)


def health() -> list[tuple[str, bool | None, str]]:
    """(what, whether it is there, what was found or what to do); None: it is not, and only some runs need it."""
    linux = platform.system() == "Linux"
    found: list[tuple[str, bool | None, str]] = [
        ("Python", sys.version_info >= (3, 11), platform.python_version()),
        ("Linux", linux, "processes, links and faults of the local world" if linux else "the local world needs Linux"),
    ]
    try:
        home = java_home()
        found.append(("Java", True, f"{java_version(home)} at {home}, for the checks and for Kafka"))
    except HarnessError as error:
        found.append(("Java", False, str(error)))
    found.extend(kafka_jars.kafka_health())
    found.append(_docker_health())
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


# ---- the Docker engine ----------------------------------------------------------------------------------------------


_NEED_NETEM = (CanSlowLinks, CanImpairPackets)


def find_engine() -> bool:
    """True. Looks once per process, for any number of scenarios. Raises HarnessError if no engine answers."""
    if why := _why_no_engine(engine_address()):
        raise HarnessError(why)
    return True


@cache
def _why_no_engine(address: str) -> str:
    from harness.cluster.docker.engine import connect

    try:
        connect(address).close()
    except HarnessError as error:
        return str(error)
    return ""


def check_images(system: System) -> None:
    """Raises HarnessError if an image that the system's nodes need is not at the engine and cannot be pulled."""
    from harness.cluster.docker import engine, system_images

    connected = engine.connect()
    try:
        system_images.check_images(connected, system)
    finally:
        connected.close()


def _docker_health() -> tuple[str, bool | None, str]:
    from harness.cluster.docker.engine import connect
    from harness.cluster.docker.images import infra_recipe

    try:
        engine = connect()
    except HarnessError as error:
        return "Docker", None, f"for --world docker and compose:FILE alone: {error}"
    words = f"engine {engine.version} at {engine.address}; images are made from {infra_recipe().base}"
    engine.close()
    return "Docker", True, words


def why_missing(need: type) -> str:
    """Why the engine's kernel does not have this capability. Empty: it has it, or that is known only during a run."""
    return _why_no_netem() if need in _NEED_NETEM else ""


def why_no_cut(on: ClusterSpec) -> str:
    """Why links of a compose file's containers cannot be cut. Empty: they can, or they are not there (target.py)."""
    from harness.cluster.attached import by_docker

    try:
        return by_docker.why_no_cut(on)
    except HarnessError:
        return ""


@cache
def _why_no_netem() -> str:
    from harness.cluster.docker import engine, netem

    try:
        connected = engine.connect()
    except HarnessError:  # target.py reports it
        return ""
    try:
        missing = netem.missing_options(connected)
    finally:
        connected.close()
    if not missing:
        return ""
    return f"the Docker engine's kernel {connected.kernel} has no netem (built without {', '.join(missing)})"
