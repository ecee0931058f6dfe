"""What a scenario asks of a cluster that cannot do it, said before the run begins: faults, steps, settings."""

from collections.abc import Iterator, Mapping

import faults.catalogue
import faults.cut
from harness.clients import catalogue as clients
from harness.errors import UsageError
from harness.harms import CanDamageDisks, CanDeleteTopics, CanFillDisks, CanImpairPackets
from harness.interfaces import (
    COORDINATION,
    CanBeAsked,
    CanCrash,
    CanCutLinks,
    CanLosePower,
    CanPause,
    CanReconfigure,
    CanSlowLinks,
    CanStop,
    CanWipe,
    ShowsLogs,
)
from harness.scenario import FaultSpec, Scenario, StepSpec
from harness.systems import cluster_kind, remedy

_ACTS: Mapping[str, type] = {
    "kill": CanCrash,
    "stop": CanStop,
    "restart": CanCrash,
    "pause": CanPause,
    "resume": CanPause,
    "wipe": CanWipe,
    "lose_tail": CanLosePower,
    "damage": CanDamageDisks,
    "fill": CanFillDisks,
    "free": CanFillDisks,
    "cut": CanCutLinks,
    "isolate": CanCutLinks,
    "heal": CanCutLinks,
    "slow": CanSlowLinks,
    "impair": CanImpairPackets,
    "configure": CanReconfigure,
    "elect": CanReconfigure,
    "delete_topic": CanDeleteTopics,
}
_CONDITIONS: Mapping[str, type] = {
    **dict.fromkeys(("log_end", "high_watermark", "epoch_file"), ShowsLogs),
    **dict.fromkeys(("registered", "fetch", "epoch_end", "config_default", "configure", "create_topic"), CanBeAsked),
}
# Coverage that only the brokers' own journals and logs show.
_FROM_BOOKS = ("truncations", "truncated_records", "broker_starts", "deaths_and_births_in_one_event")
_NO_CLIENT_LINKS = "somebody else's cluster has no links of its clients that could be cut"


def check_means(scenario: Scenario) -> None:
    """Raises UsageError that names what cannot be done, and what would have to be given."""
    check_workload(scenario)
    kind = cluster_kind(scenario.cluster)
    for what, need in needs(scenario):
        if not issubclass(kind, need):
            raise UsageError(
                f"{what}: {_of(scenario)} cannot do that ({need.__name__}); {remedy(scenario.cluster, need)}"
            )
        if need is CanFillDisks and not scenario.cluster.disk_bytes:
            raise UsageError(f"{what}: these disks have no limit; give disk_bytes = 67108864 in [cluster]")
    if scenario.cluster.disk_bytes and not issubclass(kind, CanFillDisks):
        raise UsageError(
            f"[cluster] disk_bytes: {_of(scenario)} cannot limit its disks; {remedy(scenario.cluster, CanFillDisks)}"
        )
    if scenario.cluster.network != "internal" and (scenario.cluster.is_foreign or scenario.cluster.world != "docker"):
        raise UsageError(f"[cluster] network: {_of(scenario)} has no network of its own; only --world docker has one")
    if scenario.cluster.is_foreign:
        for what, refused in _on_somebody_elses(scenario):
            raise UsageError(f"{what}: {refused}")


def check_workload(scenario: Scenario) -> None:
    """Raises UsageError where a workload of groups or transactions lacks what it works with."""
    workload = scenario.workload
    name = workload.name
    if name not in ("consumer_groups", "transactions"):
        if workload.processors or workload.group or workload.output:
            raise UsageError(f"workload {name!r} has no group, no processors and no output: use another name")
        return
    if scenario.cluster.system == "reference":
        raise UsageError(f"workload {name!r}: the reference has no groups and no transactions yet; use --system kafka")
    clients.check_groups(workload.client)
    if not workload.group:
        raise UsageError(f'workload {name!r} needs a group, for example group = "readers"')
    if name == "consumer_groups":
        return
    topics = set(workload.topics or (topic.name for topic in scenario.topics))
    if workload.output not in topics or len(topics) < 2 or workload.processors < 1:
        raise UsageError(
            "workload 'transactions' needs processors, an output among its topics, and another topic as input: "
            f"processors = {workload.processors}, output = {workload.output!r}, topics = {sorted(topics)}"
        )


def ignored(scenario: Scenario) -> list[str]:
    """What of a scenario has no meaning on a cluster that runs already, in one line each."""
    if not scenario.cluster.is_foreign:
        return []
    told = []
    if scenario.cluster.settings:
        names = ", ".join(sorted(scenario.cluster.settings))
        told.append(f"{_of(scenario)} runs already: the scenario's broker settings are not applied ({names})")
    unseen = [name for name in scenario.coverage if name in _FROM_BOOKS]
    if unseen:
        told.append(
            f"{_of(scenario)} keeps no books for us: the coverage conditions {', '.join(unseen)} will not be met"
        )
    return told


def _of(scenario: Scenario) -> str:
    cluster = scenario.cluster
    return f"the {cluster.system} cluster" if cluster.is_foreign else f"a {cluster.world} cluster"


def needs(scenario: Scenario) -> Iterator[tuple[str, type]]:
    """(what of the scenario, the capability that it takes)."""
    topics = [topic.name for topic in scenario.topics]
    for spec in scenario.faults:
        for need in faults.catalogue.make(spec, topics).needs:
            yield f"fault {spec.kind!r}", need
    for number, step in enumerate(scenario.steps, 1):
        word = next(iter(step.body))
        asked = (_ACTS if step.kind == "act" else _CONDITIONS).get(word)
        if asked is not None:
            yield f"step {number} (line {step.line}), {step.text!r}", asked
        if "to" in step.body:
            yield f"step {number} (line {step.line}), 'to'", CanBeAsked
        if "log_end_unchanged_on" in step.body:
            yield f"step {number} (line {step.line}), 'log_end_unchanged_on'", ShowsLogs
    if scenario.read_every_replica:
        yield "read_every_replica", CanStop


def _on_somebody_elses(scenario: Scenario) -> Iterator[tuple[str, str]]:
    cluster = scenario.cluster
    if cluster.flaws:
        yield "[cluster] flaws", "only the reference cluster can be told to follow a flaw"
    apart_only = "isolate" in cluster.attached.commands and "cut" not in cluster.attached.commands
    coordination = cluster.system != "attached" or any(
        node.isdigit() and int(node) >= COORDINATION for node in cluster.attached.nodes
    )
    for spec in scenario.faults:
        refused = _fault_refused(spec, apart_only=apart_only, coordination=coordination)
        if refused:
            yield f"fault {spec.kind!r}", refused
    for number, step in enumerate(scenario.steps, 1):
        refused = _step_refused(step, apart_only=apart_only, coordination=coordination)
        if refused:
            yield f"step {number} (line {step.line}), {step.text!r}", refused


_APART_ONLY = "the isolate command sets a broker apart from all others, nothing else; give cut and heal in [attached]"
_NO_COORDINATION = (
    'where its coordination service is, nobody knows; name it as node 100: nodes = { 100 = "host:port" } in [attached]'
)


def _fault_refused(spec: FaultSpec, *, apart_only: bool, coordination: bool) -> str:
    named = " ".join(str(link) for link in spec.options.get("links", ()))
    if spec.kind == "cut-clients" or "c" in named:
        return _NO_CLIENT_LINKS
    if spec.kind == "cut-coordination" and not coordination:
        return _NO_COORDINATION
    patterns = ("halves", "majority-ring", "bridge", "cut-link", "cut-coordination", "hold-fetches", "slow-link")
    return _APART_ONLY if apart_only and spec.kind in patterns else ""


def _step_refused(step: StepSpec, *, apart_only: bool, coordination: bool) -> str:
    word, value = next(iter(step.body.items()))
    if word == "read" and "from" in step.body:
        return _NO_CLIENT_LINKS
    if step.kind != "act" or word not in ("cut", "slow", "isolate"):
        return ""
    origin = step.body.get("from", "peers") if word == "isolate" else ""
    if origin in ("clients", "all") or any(str(name).startswith("c") for name in value if word != "isolate"):
        return _NO_CLIENT_LINKS
    if origin == "coordination" and not coordination:
        return _NO_COORDINATION
    return _APART_ONLY if apart_only and (word != "isolate" or origin == "coordination") else ""
