"""Checks what the target needs on this machine: a known system, its jars, Java, a container engine, node addresses."""

import platform
import socket
from collections.abc import Callable
from typing import TypeVar

from harness.cluster.attached.administration import ADDRESS, addresses_of
from harness.cluster.brokers.catalogue import added_kind, system_of
from harness.cluster.brokers.kafka import KafkaSystem
from harness.cluster.local.addresses import NODES_MAX
from harness.errors import HarnessError, Place, Problem
from harness.host.java import java_home, java_version
from harness.host.user_state import state_directory
from harness.ports.cluster import COORDINATION
from harness.preflight import access, engine
from harness.scenario.model import ATTACHED, ClusterSpec, Scenario
from harness.scenario.places import Places
from harness.scenario.variants import Traits
from harness.systems import WORLDS, cluster_kind, traits_of

_CONNECT_S = 5.0
_Found = TypeVar("_Found")


def known_traits(on: ClusterSpec) -> Traits | None:
    """None if the target's capabilities are not known; then `problems` says why."""
    try:
        cluster_kind(on)
        traits = traits_of(on)
        if not on.is_foreign:
            system_of(on)
    except HarnessError:
        return None
    return traits


def problems(
    on: ClusterSpec, places: Places, *, checks: bool = True, scenario: Scenario | None = None
) -> list[Problem]:
    """`checks`: whether the runs are judged on this machine. `scenario`: None for a cluster alone."""
    found: list[Problem] = []
    system, world = places.key("cluster", "system"), places.key("cluster", "world")
    kind = _tried(found, world if on.world not in WORLDS else system, lambda: cluster_kind(on))
    if checks:
        _tried(found, Place(), java_home)
    if on.is_foreign:
        if kind is not None and on.system != ATTACHED:
            _tried(found, system, lambda: _find_containers(on))
        listener = None
        if kind is not None and on.bootstrap:
            listener = _tried(found, places.key("cluster", "bootstrap"), lambda: _find_listener(on.bootstrap))
        return [*found, *access.problems(scenario, on.attached.security, listener, places)]
    unfit = _of_brokers(on, places)
    found += unfit
    brokers = None if unfit else _tried(found, system, lambda: system_of(on))
    if brokers is not None and on.world == "local" and len(brokers.nodes) > NODES_MAX:
        what = f"{len(brokers.nodes)} nodes: a local run has addresses for at most {NODES_MAX}"
        found.append(Problem(place=places.key("cluster", "brokers"), what=what, remedy="name fewer brokers"))
    has_jars = True
    if isinstance(brokers, KafkaSystem):
        home = _tried(found, system, lambda: brokers.home)
        has_jars = home is not None
        if home is not None and on.world == "local":
            _tried(found, Place(), lambda: _check_java(brokers))
    if brokers is not None and (added := added_kind(on)) is not None and (lack := added.lacks()):
        found.append(Problem(place=system, what=f"system {on.system!r}: {lack}"))
    if kind is not None and on.world == "docker":
        answers = _tried(found, world, engine.find_engine, of_machine=True)
        if answers and brokers is not None and has_jars:
            _tried(found, world, lambda: engine.check_images(brokers))
    if on.world == "local":
        _tried(found, Place(), state_directory)
    if on.world == "local" and platform.system() != "Linux":
        found.append(Problem(place=world, what="the local world needs Linux", remedy="use --world docker"))
    return list(dict.fromkeys(found))


def _tried(
    found: list[Problem], place: Place, look: Callable[[], _Found], *, of_machine: bool = False
) -> _Found | None:
    try:
        return look()
    except HarnessError as error:
        found.append(Problem(place=place, what=str(error), of_machine=of_machine))
        return None


def _of_brokers(on: ClusterSpec, places: Places) -> list[Problem]:
    place = places.key("cluster", "brokers")
    return [
        Problem(
            place=place,
            what=f"{broker} is no broker's id here",
            remedy=f"choose one from 0 to {COORDINATION - 1}: higher ids are for controllers",
        )
        for broker in on.brokers
        if not 0 <= broker < COORDINATION
    ]


def _check_java(brokers: KafkaSystem) -> None:
    version = java_version(java_home())
    if version < brokers.version.oldest_java:
        raise HarnessError(
            f"Kafka {brokers.version} needs Java {brokers.version.oldest_java} or newer, and JAVA_HOME is Java "
            f"{version}; point JAVA_HOME elsewhere"
        )


def _find_listener(bootstrap: str) -> ADDRESS:
    """One listening broker is enough: when the run begins, it names the others."""
    silent = []
    for host, port in addresses_of(bootstrap, "bootstrap"):
        try:
            socket.create_connection((host, port), timeout=_CONNECT_S).close()
        except OSError as error:
            silent.append(f"{host}:{port} {error.strerror or error}")
        else:
            return host, port
    raise HarnessError(f"nobody listens there ({'; '.join(silent)}); is the cluster up, and reached from here?")


def _find_containers(on: ClusterSpec) -> None:
    from harness.cluster.attached import compose_project

    engine, containers = compose_project.find(on)
    engine.close()
    if not on.bootstrap:
        compose_project.published(containers.values())
