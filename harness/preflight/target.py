"""Checks what the target needs on this machine: a known system, its jars, Java, a container engine, node addresses."""

import asyncio
import platform
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from harness.clients import catalogue as clients
from harness.cluster.attached.administration import ADDRESS, addresses_of
from harness.cluster.attached.authorizations import Lacking, Wanted, lacking
from harness.cluster.attached.listener import refusal_of
from harness.cluster.broker_requests import Connect, connections
from harness.cluster.brokers.kafka import KafkaSystem
from harness.cluster.catalogue import WORLDS, added_kind, cluster_kind, system_of
from harness.cluster.local.addresses import NODES_MAX
from harness.conform.asking import READING_ROWS, results
from harness.conform.probe import probing_each, views
from harness.conform.row import State
from harness.errors import HarnessError, Place, Problem
from harness.host.clock import SystemClock
from harness.host.java import java_home, java_version
from harness.host.user_folders import state_directory
from harness.ports.cluster import COORDINATION
from harness.ports.own_names import OwnNames
from harness.ports.security import SecuritySpec
from harness.preflight import machine
from harness.scenario.model import ATTACHED, ClusterSpec, Scenario
from harness.scenario.places import Places

_CONNECT_S = 5.0
_Found = TypeVar("_Found")


def kind_of(on: ClusterSpec) -> type | None:
    """The class whose capabilities say what it can do. None if that is not known; then `problems` says why."""
    try:
        kind = cluster_kind(on)
        if not on.is_foreign:
            system_of(on)
    except HarnessError:
        return None
    return kind


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
        by_docker = kind is not None and on.system != ATTACHED
        if by_docker and _tried(found, system, machine.find_engine, of_machine=True):
            _tried(found, system, lambda: _find_containers(on))
        listener = None
        if kind is not None and on.bootstrap:
            listener = _tried(found, places.key("cluster", "bootstrap"), lambda: _find_listener(on.bootstrap))
        return [*found, *refused_access(scenario, on.attached.security, listener, places)]
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
        answers = _tried(found, world, machine.find_engine, of_machine=True)
        if answers and brokers is not None and has_jars:
            _tried(found, world, lambda: machine.check_images(brokers))
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


# ---- access ---------------------------------------------------------------------------------------------------------


def refused_access(
    scenario: Scenario | None, security: SecuritySpec | None, listener: ADDRESS | None, places: Places
) -> list[Problem]:
    """Why the clients will not be let in, or may not do what the run does. The listeners are asked, nothing is changed.

    `listener`: one where somebody listens; None: nobody does, or only the run finds out where. Authorizations are asked
    for where users are told apart.
    """
    if security is not None:
        found = [
            Problem(place=places.security(key), what=what, remedy=remedy)
            for key, what, remedy in security.contradictions()
        ]
        found = found or [Problem(place=places.security(lack.key), what=str(lack)) for lack in security.check()]
        if found:
            return found
    if listener is None:
        return []
    refused = asyncio.run(refusal_of(listener, security))
    if refused is not None:
        place = places.key("cluster", "bootstrap") if security is None else places.security(refused.key)
        return [Problem(place=place, what=refused.what, remedy=refused.remedy)]
    if security is None or scenario is None:
        return []
    prefix = scenario.cluster.attached.prefix
    remedy = "have it granted by an ACL" + (f", for all names that begin with {prefix}-" if prefix else "")
    return [
        Problem(place=places.security(), what=f"{_user(security)} lacks {lack}", remedy=remedy)
        for lack in asyncio.run(_lacking(security, listener, _wanted(scenario)))
    ]


def _user(security: SecuritySpec) -> str:
    return f"user {security.user}" if security.user else "the user of this certificate or token"


async def _lacking(security: SecuritySpec, listener: ADDRESS, wanted: Wanted) -> list[Lacking]:
    connection = connections(security)(*listener)
    try:
        return await lacking(connection, wanted)
    except (OSError, TimeoutError):
        return []  # which the run will say
    finally:
        connection.close()


def _wanted(scenario: Scenario) -> Wanted:
    """Its names are those that a run would have there, but for the mark."""
    workload, facts, prefix = scenario.workload, scenario.workload.facts, scenario.cluster.attached.prefix
    names = OwnNames(f"{prefix}-" if prefix else "")
    acts = [next(iter(step.body)) for step in scenario.steps if step.kind == "act"]
    return Wanted(
        topics=[replace(topic.definition, name=names.there(topic.name)) for topic in scenario.topics],
        group=names.there(facts.group) if facts.group else "",
        looked_up_group=clients.looked_up_group(workload.client) if facts.clients.get("consumer") else "",
        transactional_ids=[names.there(identity) for identity in facts.transactional_ids],
        idempotent=workload.idempotent and workload.workers > 0,
        elects="elect" in acts,
        configures="configure" in acts,
    )


# ---- somebody else's cluster ----------------------------------------------------------------------------------------


_WITHIN_S = 30.0


def notes(on: ClusterSpec) -> Sequence[str]:
    """A line for each row of `kafka-chaos conform` that is broken or could not be asked, of those that merely read.

    None of them is a reason not to run: what a cluster promises otherwise is what a run may be about.
    """
    if not (on.is_foreign and on.bootstrap):
        return ()
    return asyncio.run(_broken_rows(on.bootstrap, connections(on.attached.security)))


async def _broken_rows(bootstrap: str, connect: Connect) -> list[str]:
    try:
        seen, _ = await views(addresses_of(bootstrap, "bootstrap"), connect=connect)
        async with probing_each(seen, connect=connect, clock=SystemClock()) as probes:
            found = [each async for each in results(probes, READING_ROWS, all_s=_WITHIN_S)]
    except HarnessError as error:
        return [f"conform: not asked: {error}"]
    unfit = (State.VIOLATES, State.UNDECIDED)
    return [f"conform: {each.row.name} {each.state.value}: {each.seen}" for each in found if each.state in unfit]
