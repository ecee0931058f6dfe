"""Which runs may share a started cluster, and after which run a cluster is not used again.

A run may begin on a used cluster only where that makes no difference to what its scenario says: what a scenario says of
its topics holds, for they are new; what it says of the cluster as a whole may not.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from faults import catalogue
from faults.book import BOOK
from harness.scenario.model import Scenario
from harness.systems import traits_of

HEALTH_TOPIC = "kafka-chaos-health"
_KINDS = ("reference", "kafka")
_TOPICS_CAN_GO_SINCE = (2, 8)  # tried; topics have ids since then
# Conditions about the cluster as a whole, which runs before have changed.
_OF_THE_CLUSTER = frozenset({"controller", "controller_epoch", "config_default", "configure"})


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """key: runs that have it may share a cluster. as_started: the controller has to be the broker that it is after a
    start, because the scenario names brokers by number. spends: why no run follows on the same cluster, or ""."""

    key: str
    as_started: bool
    spends: str


def sharing_of(scenario: Scenario) -> Sharing | None:
    """None for a run that needs a cluster of its own."""
    cluster, workload = scenario.cluster, scenario.workload
    if cluster.is_foreign or cluster.world != "local" or HEALTH_TOPIC in scenario.topic_names:
        return None
    traits = traits_of(cluster)
    if traits.kind not in _KINDS or (traits.kind == "kafka" and traits.version < _TOPICS_CAN_GO_SINCE):
        return None
    if any(step.kind != "act" and _OF_THE_CLUSTER & step.body.keys() for step in scenario.steps):
        return None
    if workload.facts.group and getattr(workload, "group", "") != workload.facts.group:
        return None  # it cannot be given another one
    parts = [dataclasses.asdict(cluster), workload.workers]  # each client has links of its own
    key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]
    by_number = any(not BOOK.by_role(planned.target) for _, _, planned in catalogue.planned(scenario))
    return Sharing(key=key, as_started=by_number, spends=_spends(scenario))


def _spends(scenario: Scenario) -> str:
    for _, _, planned in catalogue.planned(scenario):
        if planned.fault.destroys != "nothing":
            return f"{planned.fault.name} destroyed data"
        if type(planned.fault) not in catalogue.OURS:
            return f"what fault {planned.fault.name} leaves behind is not known"
    if scenario.workload.facts.outputs:
        return "a transaction may be open"
    return ""


def with_own_group(scenario: Scenario, number: int) -> Scenario:
    """For the number-th run on a cluster: groups, and with them transactional ids, outlive their topics."""
    group = scenario.workload.facts.group
    if not group or number == 1:
        return scenario
    own: dict[str, Any] = {"group": f"{group}-{number}"}
    return dataclasses.replace(scenario, workload=dataclasses.replace(scenario.workload, **own))
