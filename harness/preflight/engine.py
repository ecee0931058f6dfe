"""Checks what a run in containers needs of the Docker engine: that it answers, its images, and netem in its kernel.

Nothing is started, built or pulled. The engine's libraries load slowly, so they are imported only when asked for.
"""

from functools import cache

from harness.cluster.brokers.system import System
from harness.errors import HarnessError
from harness.ports.capabilities import CanImpairPackets
from harness.ports.cluster import CanSlowLinks
from harness.scenario.model import ClusterSpec

_NEED_NETEM = (CanSlowLinks, CanImpairPackets)


@cache
def find_engine() -> bool:
    """True. Looks once per process, for any number of scenarios. Raises HarnessError if no engine answers."""
    from harness.cluster.docker.engine import connect

    connect().close()
    return True


def check_images(system: System) -> None:
    """Raises HarnessError if an image that the system's nodes need is not at the engine and cannot be pulled."""
    from harness.cluster.docker import engine, system_images

    connected = engine.connect()
    try:
        system_images.check_images(connected, system)
    finally:
        connected.close()


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
    from harness.cluster.docker import engine, kernel

    try:
        connected = engine.connect()
    except HarnessError:  # target.py reports it
        return ""
    try:
        missing = kernel.missing_options(connected)
    finally:
        connected.close()
    if not missing:
        return ""
    return f"the Docker engine's kernel {connected.kernel} has no netem (built without {', '.join(missing)})"
