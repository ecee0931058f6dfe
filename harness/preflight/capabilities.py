"""Finds what a scenario needs and its system cannot do, with the remedy: faults, steps, settings, clients.

A broker takes a key that it does not know without a word. What one release lacks and another has is no mistake: a
scenario may be for many (`ignored` says what has no effect).
"""

import contextlib
from collections.abc import Iterator, Mapping

from harness.clients import catalogue as clients
from harness.cluster.brokers.kafka_versions import KAFKA_VERSIONS, numbers_of
from harness.cluster.brokers.kafka_zookeeper import NAMED_LISTENERS_SINCE
from harness.cluster.brokers.known_settings import OF_THE_HARNESS, Scope, known_settings, unfit_value
from harness.cluster.catalogue import remedy_for
from harness.cluster.local.addresses import CLIENT_LINKS_MAX
from harness.cluster.simulated.planted import planted_flaws
from harness.errors import Place, Problem, UsageError, nearest
from harness.ports.capabilities import AnswersQuestions, CanDeleteTopics, CanFillDisks, CanImpairPackets
from harness.ports.cluster import (
    COORDINATION,
    CanCutLinks,
    CanPause,
    CanReconfigure,
    CanSlowLinks,
    CanStop,
    ShowsLogs,
)
from harness.ports.faults import Fault
from harness.ports.requests import CanHoldRequests
from harness.preflight import machine
from harness.preflight.plan import Wrong
from harness.scenario.model import ON_A_LOOP, SIMULATED, FaultSpec, Scenario, StepSpec, Traits
from harness.values import is_number

_ACTS: Mapping[str, type] = {
    "heal": CanCutLinks,
    "resume": CanPause,
    "free": CanFillDisks,
    "configure": CanReconfigure,
    "elect": CanReconfigure,
    "delete_topic": CanDeleteTopics,
}
_CONDITIONS: Mapping[str, type] = {
    **dict.fromkeys(("log_end", "high_watermark", "epoch_file"), ShowsLogs),
    **dict.fromkeys(
        ("registered", "fetch", "epoch_end", "config_default", "configure", "create_topic"), AnswersQuestions
    ),
}
# Coverage conditions that only the brokers' own journals and logs can meet.
_FROM_BOOKS = ("truncations", "truncated_records", "broker_starts", "deaths_and_births_in_one_event")
_ANOTHER_KERNEL = "run the engine on a kernel with CONFIG_NET_SCH_NETEM"
_NETEM_REMEDY: Mapping[type, str] = {
    CanSlowLinks: f"use --world local, or {_ANOTHER_KERNEL}",
    CanImpairPackets: f"leave it out, or {_ANOTHER_KERNEL}",
}
_NO_CLIENT_LINKS = "somebody else's cluster has no links of its clients that could be cut"
_OWN_NETWORKS = "give each node a network of its own, where they reach each other by the names of their services"


def problems(scenario: Scenario, kind: type) -> Iterator[Problem]:
    """`kind`: the class of the scenario's cluster (target.py)."""
    on, places = scenario.cluster, scenario.places
    is_simulated = on.world == SIMULATED  # what it lacks, the same scenario has elsewhere
    try:
        check_workload(scenario)
    except UsageError as error:
        yield Problem(place=places.key("workload", "name"), what=str(error), of_machine=is_simulated)
    if is_simulated and scenario.workload.client != ON_A_LOOP:
        threads = f"client {scenario.workload.client!r} has threads, and the simulated world has none"
        yield Problem(
            place=places.key("workload", "client"),
            what=threads,
            remedy=f"leave it out: {ON_A_LOOP} is there",
            of_machine=True,
        )
    for place, what, need in _needs(scenario):
        if not issubclass(kind, need):
            cannot = f"{what}: {_of(scenario)} cannot do that ({need.__name__})"
            here = is_simulated or on.is_foreign
            yield Problem(place=place, what=cannot, remedy=remedy_for(on, need), of_machine=here)
        elif need is CanFillDisks and not on.disk_bytes:
            yield Problem(
                place=place, what=f"{what}: these disks have no limit", remedy="give disk_bytes = 67108864 in [cluster]"
            )
        elif need is CanCutLinks and on.is_compose and (shared := machine.why_no_cut(on)):
            yield Problem(place=place, what=f"{what}: {shared}", remedy=_OWN_NETWORKS)
        elif on.world == "docker" and not on.is_foreign and (missing := machine.why_missing(need)):
            yield Problem(place=place, what=f"{what}: {missing}", remedy=_NETEM_REMEDY[need], of_machine=True)
    if on.disk_bytes and not issubclass(kind, CanFillDisks):
        cannot = f"[cluster] disk_bytes: {_of(scenario)} cannot limit its disks"
        remedy = remedy_for(on, CanFillDisks)
        yield Problem(place=places.key("cluster", "disk_bytes"), what=cannot, remedy=remedy)
    if on.network != "internal" and (on.is_foreign or on.world != "docker"):
        cannot = f"[cluster] network: {_of(scenario)} has no network of its own"
        yield Problem(place=places.key("cluster", "network"), what=cannot, remedy="only --world docker has one")
    clients_count = scenario.workload.workers
    if on.world == "local" and not on.is_foreign and clients_count > CLIENT_LINKS_MAX:
        cannot = f"{clients_count} clients: a local run has addresses for at most {CLIENT_LINKS_MAX}"
        yield Problem(place=places.section("workload"), what=cannot, remedy="start fewer producers and consumers")
    if on.is_foreign:
        for place, what, refused in _on_somebody_elses(scenario):
            yield Problem(place=place, what=f"{what}: {refused}", of_machine=True)
    yield from _of_settings(scenario)
    yield from _of_old_brokers(scenario)


def check_workload(scenario: Scenario) -> None:
    """Raises UsageError if the load needs groups or transactions and the system has none."""
    workload = scenario.workload
    facts, traits = workload.facts, scenario.traits
    if not (facts.group or facts.outputs):
        return
    missing = "" if traits.groups or not facts.group else "groups"
    missing = missing or ("" if traits.transactions or not facts.outputs else "transactions")
    if missing:
        kind = "the reference" if scenario.cluster.system == "reference" else f"system {scenario.cluster.system!r}"
        raise UsageError(f"workload {workload.name!r}: {kind} has no {missing} yet; use --system kafka")
    clients.check_group_protocol(workload.client, facts.group_protocol)
    if facts.group_protocol == "consumer" and not _has_consumer_protocol(traits):
        raise UsageError(
            f"workload {workload.name!r}: group_protocol 'consumer' (KIP-848) needs Kafka 4.0 or newer; "
            f'use --system kafka:4, or group_protocol = "classic"'
        )
    if facts.group and facts.outputs:
        clients.check_processors(workload.client, facts.clients.get("processor", 0))


def _has_consumer_protocol(traits: Traits) -> bool:
    """Of a system that somebody else runs it is not known beforehand: its members are refused then."""
    return traits.kind != "reference" and not (traits.kind == "kafka" and traits.version < _CONSUMER_PROTOCOL_SINCE)


def notes(scenario: Scenario) -> list[str]:
    """What a run of it is told beforehand: what will have no effect, and what its client library cannot do."""
    lines = ignored(scenario)
    if scenario.workload.workers and (limits := clients.limits(scenario.workload)):
        lines.append(limits)
    return lines


def ignored(scenario: Scenario) -> list[str]:
    """One line for each part of a scenario that has no effect: on a cluster that already runs, or on that release."""
    if not scenario.cluster.is_foreign:
        return _without_effect(scenario)
    lines = []
    if scenario.cluster.settings:
        names = ", ".join(sorted(scenario.cluster.settings))
        lines.append(f"{_of(scenario)} runs already: the scenario's broker settings are not applied ({names})")
    unseen = [name for name in scenario.coverage if name in _FROM_BOOKS]
    if unseen:
        lines.append(
            f"{_of(scenario)} gives no access to its logs: the coverage conditions {', '.join(unseen)} will not be met"
        )
    if scenario.roles:
        stand = ", ".join(f"{named} is {there}" for named, there in scenario.roles.items())
        lines.append(f"{_of(scenario)} has other brokers than the scenario names: {stand}")
    return lines


def _of(scenario: Scenario) -> str:
    cluster = scenario.cluster
    return f"the {cluster.system} cluster" if cluster.is_foreign else f"a {cluster.world} cluster"


def _needs(scenario: Scenario) -> Iterator[tuple[Place, str, type]]:
    """(place, the part of the scenario, the capability that it needs)."""
    places = scenario.places
    for place, what, planned in scenario.planned():
        for need in planned.fault.needs:
            yield place, what, need
    for number, spec in enumerate(scenario.faults):
        with contextlib.suppress(UsageError):  # plan.py tells
            if any(part.kind == "request" for part in spec.trigger):
                yield places.fault(number, "when"), f"fault {spec.kind!r}, trigger {spec.when!r}", CanHoldRequests
    for number, step in enumerate(scenario.steps, 1):
        place = places.step(step.line, step.kind)
        word = next(iter(step.body))
        asked = (_ACTS if step.kind == "act" else _CONDITIONS).get(word)
        if asked is not None:
            yield place, f"step {number}, {step.wording!r}", asked
        if "to" in step.body:
            yield place, f"step {number}, 'to'", AnswersQuestions
        if "log_end_unchanged_on" in step.body:
            yield place, f"step {number}, 'log_end_unchanged_on'", ShowsLogs
    if scenario.read_every_replica:
        yield places.key("run", "read_every_replica"), "read_every_replica", CanStop


def _on_somebody_elses(scenario: Scenario) -> Iterator[tuple[Place, str, str]]:
    cluster, places = scenario.cluster, scenario.places
    if cluster.flaws:
        flaws = places.key("cluster", "flaws")
        yield flaws, "[cluster] flaws", "only the reference cluster can be told to follow a flaw"
    apart_only = "isolate" in cluster.attached.commands and "cut" not in cluster.attached.commands
    coordination = cluster.system != "attached" or any(
        is_number(node) and int(node) >= COORDINATION for node in cluster.attached.nodes
    )
    for number, spec in enumerate(scenario.faults):
        if _is_of_coordinators(spec):
            yield places.fault(number, "target"), f"fault {spec.kind!r}", _NO_COORDINATORS
    for place, what, planned in scenario.planned():
        refused = _fault_refused(planned.fault, apart_only=apart_only, coordination=coordination)
        if refused:
            yield place, what, refused
    for number, step in enumerate(scenario.steps, 1):
        place, what = places.step(step.line, step.kind), f"step {number}, {step.wording!r}"
        if step.kind == "expect" and "read" in step.body and "from" in step.body:
            yield place, what, _NO_CLIENT_LINKS
        if step.kind == "expect" and "configure" in step.body:
            yield place, what, _OF_A_BROKER
        if _is_of_coordinators(step):
            yield place, what, _NO_COORDINATORS


def _is_of_coordinators(strikes: FaultSpec | StepSpec) -> bool:
    with contextlib.suppress(UsageError):  # plan.py tells
        victims = strikes.planned.victims if isinstance(strikes, FaultSpec) else strikes.victims
        return victims is not None and any(word == "coordinator" for _, word, _ in victims.terms)
    return False


_NO_COORDINATORS = "who coordinates a group or a transactional id is not looked at there; name brokers, or a leader"
_OF_A_BROKER = (
    "it changes a setting of somebody else's whole broker where that is not refused, and nothing sets it back: "
    "leave it out"
)
_APART_ONLY = "the isolate command sets a broker apart from all others, nothing else; give cut and heal in [attached]"
_NO_COORDINATION = (
    'where its coordination service is, is unknown; name it as node 100: nodes = { 100 = "host:port" } in [attached]'
)


def _fault_refused(fault: Fault, *, apart_only: bool, coordination: bool) -> str:
    apart = fault.links_apart()
    if "clients" in apart:
        return _NO_CLIENT_LINKS
    if "coordination" in apart and not coordination:
        return _NO_COORDINATION
    return _APART_ONLY if apart_only and "pairs" in apart else ""


# ---- settings -------------------------------------------------------------------------------------------------------


_KINDS = ("reference", "kafka")  # whoever adds another kind of broker knows its keys
_PREFIXES = ("listener.name.", "confluent.")  # of one listener's own (KIP-103), and of a distribution
_TRANSLATED = "zookeeper."  # the session timeout is set by the key that KRaft has for it
_NEWEST = KAFKA_VERSIONS[0].numbers
_ONE_DIRECTORY = "a broker has one log directory here, on the disk that faults act on"


def _of_settings(scenario: Scenario) -> Iterator[Problem]:
    traits = scenario.traits
    if traits.kind not in _KINDS or scenario.cluster.is_foreign:
        return
    places, cluster = scenario.places, scenario.cluster
    for flaw in cluster.flaws if traits.kind == "reference" else ():
        if flaw not in (known := tuple(each.name for each in planted_flaws())):
            what = f"[cluster] flaws: the reference has no flaw {flaw!r}"
            yield Problem(place=places.key("cluster", "flaws"), what=what, remedy=nearest(flaw, known))
    for key, what, remedy in _wrong(cluster.settings, "broker", traits):
        yield Problem(place=places.setting("cluster", key), what=f"[cluster] settings, {key!r}: {what}", remedy=remedy)
    for index, topic in enumerate(scenario.topics):
        for key, what, remedy in _wrong(topic.settings, "topic", traits):
            place = places.setting("topics", key, index=index, topic=topic.name)
            yield Problem(place=place, what=f"topic {topic.name!r}, setting {key!r}: {what}", remedy=remedy)
    for index, spec in enumerate(scenario.faults):
        for given in ("settings", "afterwards"):
            table = spec.options.get(given)
            for key, what, remedy in _wrong(table, "topic", traits) if isinstance(table, Mapping) else ():
                what = f"fault {spec.kind!r}: {given}, {key!r}: {what}"
                yield Problem(place=places.fault(index, "options"), what=what, remedy=remedy)


def _wrong(settings: Mapping[str, object], scope: Scope, traits: Traits) -> Iterator[tuple[str, str, str]]:
    """(key, what is wrong, the remedy)."""
    known = known_settings(scope)
    for key, value in settings.items():
        if scope == "broker" and key in OF_THE_HARNESS:
            remedy = _ONE_DIRECTORY if key.startswith("log.dir") else "[cluster] brokers, layout and --world decide it"
            yield key, "the harness gives every node its own", f"leave it out: {remedy}"
        elif key in known:
            needed = unfit_value(known[key].type, str(value))
            if needed is not None:
                yield key, f"{needed} is needed ({known[key].type}), not {str(value)!r}", ""
        elif not key.startswith(_PREFIXES) and traits.version <= _NEWEST:
            yield key, *_unknown(key, scope)


def _unknown(key: str, scope: Scope) -> Wrong:
    other: Scope = "topic" if scope == "broker" else "broker"
    if key in known_settings(other):
        where = "[[topics]] settings" if other == "topic" else "[cluster.settings]"
        return f"no Kafka has it as a {scope}'s setting", f"it is a {other}'s: {where}"
    known = tuple(known_settings(scope))
    close = nearest(key, known)
    return f"no Kafka has such a {scope}'s setting", close if close.startswith("did") else ""


def _without_effect(scenario: Scenario) -> list[str]:
    """A line for the brokers' settings that this release of Kafka certainly does not have, and others do."""
    traits = scenario.traits
    if traits.kind != "kafka":
        return []
    asked = [row.numbers for row in KAFKA_VERSIONS]
    older = max((numbers for numbers in asked if numbers <= traits.version), default=())
    newer = min((numbers for numbers in asked if numbers >= traits.version), default=())
    unknown = []
    for key in sorted(scenario.cluster.settings):
        known = known_settings("broker").get(key)
        if known is not None and known.first and not key.startswith(_TRANSLATED):
            first, last = numbers_of(known.first), numbers_of(known.last)
            if (newer and newer < first) or (older and older > last):
                unknown.append(key)
    return [f"Kafka {'.'.join(map(str, traits.version))} has no {', '.join(unknown)}: no effect"] if unknown else []


# ---- old brokers ----------------------------------------------------------------------------------------------------


_IDEMPOTENCE_SINCE = (0, 11)
_CONSUMER_PROTOCOL_SINCE = (4, 0)  # KIP-848
_RESOLVE_IN_PYTHON = ("kafka-python", "aiokafka")
_TAKES_A_VERSION = ("kafka-python",)


def _of_old_brokers(scenario: Scenario) -> Iterator[Problem]:
    traits, workload, places = scenario.traits, scenario.workload, scenario.places
    version = traits.version
    if not version:
        return
    kafka = f"Kafka {'.'.join(str(number) for number in version)}"
    of_client = places.key("workload", "client")
    if workload.workers:
        if traits.silent_version and workload.client not in _TAKES_A_VERSION:
            asks = f"client {workload.client!r}: it asks brokers for their version, and {kafka} cannot answer that"
            yield Problem(place=of_client, what=asks, remedy=f"use {' or '.join(_TAKES_A_VERSION)}")
        elif version < NAMED_LISTENERS_SINCE and workload.client not in _RESOLVE_IN_PYTHON:
            named = f"client {workload.client!r}: {kafka} advertises itself by names, which this library cannot resolve"
            yield Problem(place=of_client, what=named, remedy=f"use {' or '.join(_RESOLVE_IN_PYTHON)}")
        if version < _IDEMPOTENCE_SINCE and workload.idempotent:
            yield Problem(
                place=places.key("workload", "idempotence"),
                what=f"scenario {scenario.name}: {kafka} has no idempotent producers, 0.11 is the first",
                remedy="--set workload.idempotence=false",
            )
    for number, step in enumerate(scenario.steps, 1):
        if version < NAMED_LISTENERS_SINCE and "read" in step.body and "from" in step.body:
            yield Problem(
                place=places.step(step.line, step.kind),
                what=f"step {number}, {step.wording!r}: {kafka} advertises itself by names, and a probe knows only "
                "where they lead for the harness",
                remedy="leave 'from' out",
            )
