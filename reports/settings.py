"""The configuration that matters to a finding, and which of it the prevention of a loss speaks of."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from reports.run_data import RunData

_SHOWN = ("acks", "replication.factor", "min.insync.replicas", "unclean.leader.election.enable", "enable.idempotence")
MIN_INSYNC = "min.insync.replicas"
_CHANGE = re.compile(r"\bWith ([\w.]+)=([\w-]+)")


def known_settings(data: RunData, finding: Mapping[str, Any] | None) -> dict[str, str]:
    """As the scenario states them for the finding's topic, and Kafka's defaults where it does not."""
    scenario = data.scenario
    topic = next(
        (one for one in scenario.topics if finding is not None and one.name == finding["topic"]), scenario.topics[0]
    )
    replicas = len(topic.assignment[0]) if topic.assignment else topic.replication_factor
    return {
        "acks": scenario.workload.acks if scenario.workload.name != "none" else "by probe",
        "replication.factor": str(replicas),
        MIN_INSYNC: "1",
        "unclean.leader.election.enable": "false",
        "enable.idempotence": str(scenario.workload.idempotence).lower(),
        **{key: value for key, value in scenario.cluster.settings.items() if key in _SHOWN},
        **{key: value for key, value in topic.settings.items() if key in _SHOWN},
    }


def preventing(evidence: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """The settings that "what would have prevented it" names: (key, value)."""
    found = (_CHANGE.search(str(told)) for told in evidence.get("prevention") or ())
    return [(match[1], match[2]) for match in found if match is not None]


def too_few_in_sync(data: RunData, finding: Mapping[str, Any], evidence: Mapping[str, Any]) -> tuple[str, list[int]]:
    """(min.insync.replicas as it was, the ISR that sufficed to acknowledge); ("", []) where that is not to blame."""
    in_sync = list(evidence.get("isr_at_acknowledgement") or ())
    if not in_sync or MIN_INSYNC not in dict(preventing(evidence)):
        return "", []
    return known_settings(data, finding)[MIN_INSYNC], in_sync
