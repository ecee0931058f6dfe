"""The configuration that matters to a finding, and which of it the prevention of a loss speaks of."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.history.facts.finding_facts import remedies_of
from harness.history.facts.releases import default_of, or_newest
from harness.history.schema.cluster_rows import CONFIGURATION
from harness.history.schema.evidence_rows import FindingRow
from harness.history.schema.schemas import AT_START
from reports.run_data import RunData

_SHOWN = ("acks", "replication.factor", "min.insync.replicas", "unclean.leader.election.enable", "enable.idempotence")
MIN_INSYNC, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


def known_settings(data: RunData, finding: FindingRow | None, *, at_ns: int | None = None) -> dict[str, str]:
    """Those of the finding's topic: as written until `at_ns`, else as the scenario states them, else as the brokers
    said at their start, else the defaults of the release."""
    scenario = data.scenario
    topic = next(
        (one for one in scenario.topics if finding is not None and one.name == finding["topic"]), scenario.topics[0]
    )
    replicas = topic.replicas
    return {
        "acks": scenario.workload.acks if scenario.workload.workers else "by probe",
        "replication.factor": str(replicas),
        **{key: default_of(key, or_newest(scenario.cluster.release)) or "" for key in (MIN_INSYNC, _UNCLEAN)},
        "enable.idempotence": str(scenario.workload.idempotence).lower(),
        **_printed_at_start(data),
        **{key: value for key, value in scenario.cluster.settings.items() if key in _SHOWN},
        **{key: value for key, value in topic.settings.items() if key in _SHOWN},
        **_written(data, topic.name, at_ns),
    }


def _printed_at_start(data: RunData) -> dict[str, str]:
    return {
        row["key"]: row["value"]
        for row in sorted(data.rows(CONFIGURATION), key=lambda row: row["time_ns"])
        if row["source"] == AT_START and row["scope"] == "broker" and row["key"] in _SHOWN and row["value"]
    }


def _written(data: RunData, topic: str, at_ns: int | None) -> dict[str, str]:
    """What the cluster's books say was set for the topic, the last word before a moment."""
    rows = [row for row in data.rows(CONFIGURATION) if row["scope"] == "topic" and row["name"] == topic]
    return {
        row["key"]: row["value"]
        for row in sorted(rows, key=lambda row: row["time_ns"])
        if at_ns is not None and row["time_ns"] <= at_ns and row["key"] in _SHOWN and row["value"] is not None
    }


def preventing(evidence: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """The settings that "what would have prevented it" names: (key, value)."""
    remedies = remedies_of(evidence)
    return [(one.key, one.value) for one in remedies if one.key is not None and one.value is not None]


def too_few_in_sync(data: RunData, finding: FindingRow, evidence: Mapping[str, Any]) -> tuple[str, list[int]]:
    """(min.insync.replicas as it was, the ISR that sufficed to acknowledge); ("", []) where that is not to blame."""
    in_sync = list(evidence.get("isr_at_acknowledgement") or ())
    if not in_sync or MIN_INSYNC not in dict(preventing(evidence)):
        return "", []
    return known_settings(data, finding, at_ns=finding["last_ns"])[MIN_INSYNC], in_sync
