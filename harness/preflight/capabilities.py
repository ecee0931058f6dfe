"""Finds what a scenario needs and its cluster cannot do, with the remedy: faults, steps, settings."""

from collections.abc import Iterator, Mapping

from harness.clients import catalogue as clients
from harness.cluster.local.addresses import CLIENT_LINKS_MAX
from harness.errors import Place, Problem, UsageError
from harness.ports.capabilities import CanDeleteTopics, CanFillDisks, CanImpairPackets
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
from harness.ports.questions import AnswersQuestions
from harness.preflight import engine, settings
from harness.scenario.model import Scenario
from harness.systems import cluster_kind, remedy, traits_of
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


def problems(scenario: Scenario) -> Iterator[Problem]:
    """For a scenario whose target is known (target.py)."""
    on, places = scenario.cluster, scenario.places
    try:
        check_workload(scenario)
    except UsageError as error:
        yield Problem(place=places.key("workload", "name"), what=str(error))
    kind = cluster_kind(on)
    in_containers = on.world == "docker" and not on.is_foreign
    for place, what, need in _needs(scenario):
        if not issubclass(kind, need):
            cannot = f"{what}: {_of(scenario)} cannot do that ({need.__name__})"
            yield Problem(place=place, what=cannot, remedy=remedy(on, need))
        elif need is CanFillDisks and not on.disk_bytes:
            yield Problem(
                place=place, what=f"{what}: these disks have no limit", remedy="give disk_bytes = 67108864 in [cluster]"
            )
        elif need is CanCutLinks and on.is_compose and (shared := engine.why_no_cut(on)):
            yield Problem(place=place, what=f"{what}: {shared}", remedy=_OWN_NETWORKS)
        elif in_containers and (missing := engine.why_missing(need)):
            yield Problem(place=place, what=f"{what}: {missing}", remedy=_NETEM_REMEDY[need], of_machine=True)
    if on.disk_bytes and not issubclass(kind, CanFillDisks):
        cannot = f"[cluster] disk_bytes: {_of(scenario)} cannot limit its disks"
        yield Problem(place=places.key("cluster", "disk_bytes"), what=cannot, remedy=remedy(on, CanFillDisks))
    if on.network != "internal" and (on.is_foreign or on.world != "docker"):
        cannot = f"[cluster] network: {_of(scenario)} has no network of its own"
        yield Problem(place=places.key("cluster", "network"), what=cannot, remedy="only --world docker has one")
    clients_count = scenario.workload.workers
    if on.world == "local" and not on.is_foreign and clients_count > CLIENT_LINKS_MAX:
        cannot = f"{clients_count} clients: a local run has addresses for at most {CLIENT_LINKS_MAX}"
        yield Problem(place=places.section("workload"), what=cannot, remedy="start fewer producers and consumers")
    if on.is_foreign:
        for place, what, refused in _on_somebody_elses(scenario):
            yield Problem(place=place, what=f"{what}: {refused}")


def check_workload(scenario: Scenario) -> None:
    """Raises UsageError if the load needs groups or transactions and the system has none."""
    workload = scenario.workload
    facts, traits = workload.facts, traits_of(scenario.cluster)
    if not (facts.group or facts.outputs):
        return
    missing = "" if traits.groups or not facts.group else "groups"
    missing = missing or ("" if traits.transactions or not facts.outputs else "transactions")
    if missing:
        kind = "the reference" if scenario.cluster.system == "reference" else f"system {scenario.cluster.system!r}"
        raise UsageError(f"workload {workload.name!r}: {kind} has no {missing} yet; use --system kafka")
    clients.check_groups(workload.client)


def notes(scenario: Scenario) -> list[str]:
    """What a run of it is told beforehand: what will have no effect, and what its client library cannot do."""
    lines = ignored(scenario)
    if scenario.workload.workers and (limits := clients.limits(scenario.workload)):
        lines.append(limits)
    return lines


def ignored(scenario: Scenario) -> list[str]:
    """One line for each part of a scenario that has no effect: on a cluster that already runs, or on that release."""
    if not scenario.cluster.is_foreign:
        return settings.without_effect(scenario, traits_of(scenario.cluster))
    lines = []
    if scenario.cluster.settings:
        names = ", ".join(sorted(scenario.cluster.settings))
        lines.append(f"{_of(scenario)} runs already: the scenario's broker settings are not applied ({names})")
    unseen = [name for name in scenario.coverage if name in _FROM_BOOKS]
    if unseen:
        lines.append(
            f"{_of(scenario)} gives no access to its logs: the coverage conditions {', '.join(unseen)} will not be met"
        )
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
    for number, step in enumerate(scenario.steps, 1):
        place = places.step(step.line, step.kind)
        word = next(iter(step.body))
        asked = (_ACTS if step.kind == "act" else _CONDITIONS).get(word)
        if asked is not None:
            yield place, f"step {number}, {step.said!r}", asked
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
    for place, what, planned in scenario.planned():
        refused = _fault_refused(planned.fault, apart_only=apart_only, coordination=coordination)
        if refused:
            yield place, what, refused
    for number, step in enumerate(scenario.steps, 1):
        if step.kind == "expect" and "read" in step.body and "from" in step.body:
            yield places.step(step.line, step.kind), f"step {number}, {step.said!r}", _NO_CLIENT_LINKS


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
