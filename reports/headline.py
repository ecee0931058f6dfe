"""The top of the page: one sentence, four answers, and the configuration that decided."""

from collections.abc import Mapping
from typing import Any

from reports.model import Answer, Badge, Setting, Tone
from reports.run_data import RunData, count_of, partition_name, readable, span_of
from reports.story import evidence_of, worst

_VERDICT_TONES: dict[str, Tone] = {"pass": "pass", "violation": "viol"}
_PLAIN = ("acks", "replication.factor", "min.insync.replicas", "unclean.leader.election.enable", "enable.idempotence")


def _losses(data: RunData) -> tuple[int, int]:
    """(permitted, in violation)."""
    lost = [row for row in data.findings if row["check"] == "lost-write"]
    return tuple(
        sum(row["count"] for row in lost if row["classification"] == kind) for kind in ("permitted", "violation")
    )


def badges(data: RunData) -> list[Badge]:
    verdict = data.verdict["verdict"]
    made = [Badge(tone=_VERDICT_TONES.get(verdict, "neutral"), text=verdict.upper())]
    permitted, violation = _losses(data)
    if violation:
        made.append(Badge(tone="viol", text=f"{count_of(violation)} lost, violation"))
    if permitted:
        made.append(Badge(tone="perm", text=f"{count_of(permitted)} lost, permitted"))
    if not permitted and not violation and verdict == "pass":
        made.append(Badge(tone="pass", text="nothing lost"))
    return made


def headline(data: RunData) -> str:
    """Names the loss even when the verdict is pass; otherwise the verdict's own sentence."""
    finding = worst(data)
    if finding is None or finding["check"] != "lost-write" or data.verdict["verdict"] not in ("pass", "violation"):
        return str(data.verdict["sentence"])
    count = finding["count"]
    records = "acknowledged record of" if count == 1 else "acknowledged records of"
    was = "was" if count == 1 else "were"
    how = _how(finding)
    end = "and the configuration permits it." if finding["classification"] == "permitted" else "and nothing permits it."
    return f"{count_of(count)} {records} {partition_name(finding)} {was} lost{how}, {end}"


def _how(finding: Mapping[str, Any]) -> str:
    ways = {
        "unclean-election": " in an unclean election",
        "fail-over": " in a fail-over",
        "destruction": " with the last in-sync disk",
        "clean-election": " in a clean election",
        "restart": " in a restart",
    }
    return ways.get(str(evidence_of(finding).get("cause")), "")


def lead(data: RunData) -> str:
    """What decided it, in words the headline does not use; without a loss, what the scenario is about."""
    finding = worst(data)
    if finding is None:
        return str(data.scenario.story)
    evidence = evidence_of(finding)
    isr, start, elected = (evidence.get(name) for name in ("isr_before", "elected_log_end", "elected"))
    if elected is not None and start is not None and isr and evidence.get("lost_range") is not None:
        nodes = ", ".join(str(node) for node in isr)
        alone = f"Only broker {nodes} was" if len(isr) == 1 else f"Brokers {nodes} were"
        role = "outside it" if evidence.get("unclean") else "elected from it"
        return (
            f"{alone} in the ISR. Broker {elected}, {role}, took over with a log that ended at {start}, so "
            "it never had these records."
        )
    chain = evidence.get("cause_chain") or ()
    told = [link["sentence"] for link in chain if link["decisive"] or link["event"] in ("truncation", "disk-loss")]
    return readable(" ".join(told[:2]) or str(finding["sentence"]))


def answers(data: RunData) -> list[Answer]:
    finding = worst(data)
    if finding is None:
        return _without_finding(data)
    evidence = evidence_of(finding)
    where = partition_name(finding)
    span = span_of(finding["offset_first"], finding["offset_last"])
    elected = evidence.get("elected")
    decisive = next((link for link in evidence.get("cause_chain") or () if link["decisive"]), None)
    rules = evidence.get("rules") or []
    permitted = finding["classification"] == "permitted"
    holding = next((rule for rule in rules if rule["holds"]), None)
    first, last = data.seconds(finding["t_first"]), data.seconds(finding["t_last"])
    acknowledged = data.moment(finding["t_first"])
    if first is not None and last is not None and last - first >= 0.001:
        acknowledged = f"{first:.3f}–{last:.3f} s"
    outside = "It was not in the ISR, which was" if evidence.get("unclean") else "The ISR before was"
    return [
        Answer(
            question="Which records",
            short=f"{where}, offsets {span}" if span else where or finding["check"],
            more=f"{count_of(finding['count'])} of them, listed under {finding['finding']}",
            link=f"#{finding['finding']}",
        ),
        Answer(
            question="When",
            short=f"Lost at {data.moment(decisive['t_ns'])}" if decisive else data.moment(finding["t_first"]),
            more=f"{'Acknowledged' if decisive else 'Seen'} {acknowledged}",
        ),
        Answer(
            question="Why",
            short=_why(evidence, elected),
            more=f"{outside} {evidence.get('isr_before')}" if elected is not None else readable(finding["sentence"]),
        ),
        Answer(
            question="Permitted?",
            short="Yes, by configuration" if permitted else "No",
            more=_permission(holding) if holding is not None else "Every exception was tried, and none holds.",
        ),
    ]


def _permission(rule: Mapping[str, Any]) -> str:
    """The setting that allowed it, where the rule's evidence ends in one; else the evidence."""
    evidence = str(rule["evidence"])
    setting = evidence.rpartition("; ")[2]
    return readable(setting[:1].upper() + setting[1:] if "=" in setting else evidence)


def _why(evidence: Mapping[str, Any], elected: Any) -> str:
    if elected is None:
        return str(evidence.get("cause") or "not recorded").replace("-", " ").capitalize()
    how = "Unclean election" if evidence.get("unclean") else "Election"
    return f"{how} of broker {elected}, epoch {evidence.get('elected_epoch')}"


def _without_finding(data: RunData) -> list[Answer]:
    sums = data.verdict.get("accounting", {})
    faults = [row for row in data.rows("faults") if row["t_begin"] is not None]
    gaps = [(row["end_t"] or row["begin_t"]) - row["begin_t"] for row in data.evidence("gaps")]
    coverage = data.verdict.get("coverage", ())
    met = sum(bool(row["met"]) for row in coverage)
    return [
        Answer(
            question="Acknowledged",
            short=f"{count_of(sums.get('acknowledged', 0))} records",
            more=_read_back(data, sums),
        ),
        Answer(
            question="Faults survived",
            short=str(len(faults)),
            more="; ".join(dict.fromkeys(row["label"] for row in faults)) or "nothing was done to the cluster",
        ),
        Answer(
            question="Longest gap",
            short=f"{max(gaps) / 1e9:.1f} s" if gaps else "under a second" if sums.get("acknowledged") else "not known",
            more="without an acknowledged write, in any one partition",
        ),
        Answer(
            question="Coverage",
            short=f"{met} of {len(coverage)} met",
            more="conditions that make the run worth judging",
        ),
    ]


def _read_back(data: RunData, sums: Mapping[str, Any]) -> str:
    """Only a run that passed says that nothing is missing; of the others the sums are all there is."""
    sent = f"of {count_of(sums.get('sent', 0))} sent"
    missing = sums.get("acknowledged_missing", 0)
    if missing:
        return f"{sent}; {count_of(missing)} not in the final log"
    return f"{sent}, all read back in the end" if data.verdict["verdict"] == "pass" else sent


def settings(data: RunData) -> list[Setting]:
    """The configuration that matters; dashed what made a loss possible, red what was promised and broken."""
    finding = worst(data)
    scenario = data.scenario
    topic = next(
        (one for one in scenario.topics if finding is not None and one.name == finding["topic"]), scenario.topics[0]
    )
    replicas = len(topic.assignment[0]) if topic.assignment else topic.replication_factor
    known = {
        "acks": scenario.workload.acks if scenario.workload.name != "none" else "by probe",
        "replication.factor": str(replicas),
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
        "enable.idempotence": str(scenario.workload.idempotence).lower(),
        **{key: value for key, value in scenario.cluster.settings.items() if key in _PLAIN},
        **{key: value for key, value in topic.settings.items() if key in _PLAIN},
    }
    cause = str(evidence_of(finding).get("cause")) if finding is not None else ""
    deciding = {
        "unclean-election": {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"},
        "fail-over": {"acks": "1"},
        "destruction": {"min.insync.replicas": "1"},
    }.get(cause, {})
    made = [
        Setting(text=f"{key}={value}", role="why" if deciding.get(key) == value else "") for key, value in known.items()
    ]
    if finding is not None and finding["classification"] == "violation":
        made = [
            Setting(text=one.text, role="held" if one.text.startswith(("acks=", "min.insync")) else "") for one in made
        ]
    made += [Setting(text=f"flaw: {flaw}", role="why") for flaw in scenario.cluster.flaws]
    return made
