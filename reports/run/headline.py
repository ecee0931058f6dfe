"""The top of the page: one sentence, four answers, and the configuration that decided."""

from collections.abc import Container, Mapping
from typing import Any

from harness.history.facts.finding_facts import Setting as SettingFact
from harness.history.facts.finding_facts import chain_of, setting_of, too_late
from harness.history.facts.node_end_facts import how_words
from harness.history.schema.cluster_rows import FAULTS, NODE_ENDS, NodeEndRow
from harness.history.schema.evidence_rows import GAPS, FindingRow
from reports.model import Answer, Badge, Role, Setting, Tone
from reports.run.accounting import brokers_answers
from reports.run.done import acts_on_the_cluster
from reports.run.settings import MIN_INSYNC, known_settings, preventing, too_few_in_sync
from reports.run.story import evidence_of, worst
from reports.run_data import RunData, count_of, partition_name, span_of

_NODE_ENDED = "node-ended"
_NOTHING = "and nothing permits it."
_VERDICT_TONES: dict[str, Tone] = {"pass": "pass", "violation": "viol"}


def _losses(data: RunData) -> tuple[int, int]:
    """(permitted, in violation)."""
    lost = [row for row in data.findings if row["check"] == "lost-write"]
    permitted = sum(row["count"] for row in lost if row["classification"] == "permitted")
    return permitted, sum(row["count"] for row in lost if row["classification"] == "violation")


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
    """Names the loss even when the verdict is pass; otherwise the verdict's own sentence, which has a broken invariant,
    too."""
    broken = data.verdict.get("broken_invariant", "")
    loss = _loss(data)
    return str(data.verdict["sentence"]) if loss is None else f"{loss} {broken}".rstrip()


def _loss(data: RunData) -> str | None:
    """None: there is none, or the verdict tells it."""
    finding = worst(data)
    is_in_the_verdict = data.verdict["verdict"] not in ("pass", "violation") or data.verdict.get("set_aside")
    if finding is None or finding["check"] != "lost-write" or is_in_the_verdict:
        return None
    count = finding["count"]
    if too_late(evidence_of(finding)) is not None:
        records, was = ("record", "was") if count == 1 else ("records", "were")
        end = "and the configuration permits it." if finding["classification"] == "permitted" else _NOTHING
        where = partition_name(finding)
        return f"{count_of(count)} {records} of {where} that a deposed leader acknowledged {was} lost, {end}"
    records = "acknowledged record of" if count == 1 else "acknowledged records of"
    was = "was" if count == 1 else "were"
    how = _how(data, finding)
    end = "and the configuration permits it." if finding["classification"] == "permitted" else _NOTHING
    return f"{count_of(count)} {records} {partition_name(finding)} {was} lost{how}, {end}"


def _how(data: RunData, finding: FindingRow) -> str:
    evidence = evidence_of(finding)
    ways = {
        "unclean-election": " in an unclean election",
        "fail-over": " in a fail-over",
        "destruction": f" with {_destroyed(data, evidence)} of the last in-sync broker",
        "clean-election": " in a clean election",
        "restart": " in a restart",
    }
    return ways.get(str(evidence_of(finding).get("cause")), "")


def _destroyed(data: RunData, evidence: Mapping[str, Any]) -> str:
    """A disk, or, in a power failure, only what had not been flushed to it."""
    numbers = {loss.get("fault") for loss in evidence.get("disk_losses") or ()}
    kinds = {row["kind"] for row in data.rows(FAULTS) if row["fault"] in numbers}
    return "the unflushed records" if kinds == {"power-loss"} else "the disk"


def lead(data: RunData) -> str:
    """What decided it, in words the headline does not use; without a loss, what the scenario is about."""
    finding = worst(data)
    if finding is None or finding["check"] == _NODE_ENDED:
        return str(data.scenario.story)
    evidence = evidence_of(finding)
    isr, start, elected = (evidence.get(name) for name in ("isr_before", "elected_log_end", "elected"))
    late = too_late(evidence)
    if late is not None and elected is not None and start is not None:
        who = "The leader before it" if late[0].leader is None else f"Broker {late[0].leader}"
        resumed = any(link.event == "resume" for link in chain_of(evidence))
        back = ", back from a pause," if resumed else ""
        return (
            f"Broker {elected} had taken over with a log that ended at {start}. {who}{back} did not know and went on "
            "acknowledging what no other replica would ever have."
        )
    if elected is not None and start is not None and isr and evidence.get("lost_range") is not None:
        nodes = ", ".join(str(node) for node in isr)
        alone = f"Only broker {nodes} was" if len(isr) == 1 else f"Brokers {nodes} were"
        if evidence.get("cause") == "destruction":
            lost = f"It lost {_destroyed(data, evidence)}" if len(isr) == 1 else "All of them lost their disks"
            return f"{alone} in the ISR. {lost}, and broker {elected} took over with a log that ended at {start}."
        role = "outside it" if evidence.get("unclean") else "elected from it"
        return (
            f"{alone} in the ISR. Broker {elected}, {role}, took over with a log that ended at {start}, so "
            "it never had these records."
        )
    sentences = [
        link.sentence for link in chain_of(evidence) if link.decisive or link.event in ("truncation", "disk-loss")
    ]
    return data.readable(" ".join(sentences[:2]) or str(finding["sentence_text"]))


def answers(data: RunData) -> list[Answer]:
    finding = worst(data)
    if finding is None:
        return _without_finding(data)
    evidence = evidence_of(finding)
    of_it = [end for end in data.rows(NODE_ENDS) if end["time_ns"] == finding["first_ns"]]
    if finding["check"] == _NODE_ENDED and of_it:
        return _of_a_node(data, finding, of_it[0])
    where = partition_name(finding)
    span = span_of(finding["offset_first"], finding["offset_last"])
    elected = evidence.get("elected")
    rules = evidence.get("rules") or []
    permitted = finding["classification"] == "permitted"
    holding = next((rule for rule in rules if rule["holds"]), None)
    outside = "It was not in the ISR, which was" if evidence.get("unclean") else "The ISR before was"
    return [
        Answer(
            question="Which records",
            short=f"{where}, offsets {span}" if span else where or finding["check"],
            more=f"{count_of(finding['count'])} of them, listed under {finding['finding']}",
            link=f"#{finding['finding']}",
        ),
        _when(data, finding, evidence),
        Answer(
            question="Why",
            short=_why(evidence, elected),
            more=f"{outside} {evidence.get('isr_before')}{_elr(evidence)}"
            if elected is not None
            else data.readable(finding["sentence_text"]),
        ),
        Answer(
            question="Permitted?",
            short="Yes, by configuration" if permitted else "No",
            more=_permission(data, finding, holding)
            if holding is not None
            else "Every rule that could excuse it was tried; none applies.",
        ),
        *_prevention(evidence),
    ]


def _of_a_node(data: RunData, finding: FindingRow, end: NodeEndRow) -> list[Answer]:
    """Where the worst there is to tell is a node that ended while no fault had it down."""
    faults = set(finding["faults"] or ())
    labels = [row["label_text"] or row["kind"] for row in data.rows(FAULTS) if row["fault"] in faults]
    permitted = finding["classification"] == "permitted"
    return [
        Answer(
            question="Which node",
            short=data.node_title(end["node"]),
            more=f"ended {how_words(end)}, listed under {finding['finding']}",
            link=f"#{finding['finding']}",
        ),
        Answer(
            question="When",
            short=data.moment(end["time_ns"]),
            more="it did not run again" if end["back_ns"] is None else f"it ran again at {data.moment(end['back_ns'])}",
        ),
        Answer(
            question="Why",
            short="For what a fault had done" if permitted else "By itself",
            more=data.readable(end["line_text"] or "it logged no error"),
        ),
        Answer(
            question="Permitted?",
            short="Yes, a fault explains it" if permitted else "No",
            more=data.readable("; ".join(labels))
            or "Nothing had been done to it, its disk, its links or the controllers before.",
        ),
    ]


def _when(data: RunData, finding: FindingRow, evidence: Mapping[str, Any]) -> Answer:
    """What a deposed leader acknowledged was lost as it said so: no moment before that took it."""
    first, last = data.seconds(finding["first_ns"]), data.seconds(finding["last_ns"])
    acknowledged = data.moment(finding["first_ns"])
    if first is not None and last is not None and last - first >= 0.001:
        acknowledged = f"{first:.3f}–{last:.3f} s"
    late = too_late(evidence)
    if late is not None:
        who = "a leader" if late[0].leader is None else f"broker {late[0].leader}, a leader"
        cut = next((link.t_ns for link in chain_of(evidence) if link.event == "truncation"), None)
        gone = f"; truncated at {data.moment(cut)}" if cut is not None else ""
        return Answer(
            question="When",
            short=f"Acknowledged {acknowledged}",
            more=f"too late: by {who} already deposed at {data.moment(late[1].t_ns)}{gone}",
        )
    decisive = next((link for link in chain_of(evidence) if link.decisive), None)
    return Answer(
        question="When",
        short=f"Lost at {data.moment(decisive.t_ns)}" if decisive else data.moment(finding["first_ns"]),
        more=f"{'Acknowledged' if decisive else 'Seen'} {acknowledged}",
    )


def _permission(data: RunData, finding: FindingRow, rule: Mapping[str, Any]) -> str:
    """The setting that allowed it, where one did; else the rule's evidence."""
    setting = setting_of(rule.get("setting"))
    allowed = data.readable(str(rule["evidence"]) if setting is None else _set_by(setting))
    least, in_sync = too_few_in_sync(data, finding, evidence_of(finding))
    return f"{allowed} And min.insync.replicas={least} let the ISR {in_sync} acknowledge." if in_sync else allowed


def _set_by(setting: SettingFact) -> str:
    who = {"topic": "Topic setting", "broker": "Broker setting", "default": "Kafka's default", "client": "The client's"}
    where = " of the scenario" if setting.of_scenario else ""
    return f"{who.get(setting.scope, 'Setting')} {setting.key}={setting.value}{where}."


def _prevention(evidence: Mapping[str, Any]) -> list[Answer]:
    """A card of its own, where the checks derived what would have kept the records."""
    sentences = [str(sentence) for sentence in evidence.get("prevention") or ()]
    if not sentences:
        return []
    ways = [f"{key}={value}" for key, value in preventing(evidence)]
    short = {0: "By more copies", 1: "By one setting", 2: "By either of two settings"}.get(len(ways), "By a setting")
    more = " or ".join(ways) if ways else "A further in-sync replica on another disk would have kept them."
    return [Answer(question="Preventable?", short=short, more=more, link="#prevention")]


def _elr(evidence: Mapping[str, Any]) -> str:
    elr = list(evidence.get("elr_before") or ())
    return f"; the eligible leader replicas were {elr}" if elr else ""


def _why(evidence: Mapping[str, Any], elected: Any) -> str:
    if elected is None:
        return str(evidence.get("cause") or "not recorded").replace("-", " ").capitalize()
    how = "Unclean election" if evidence.get("unclean") else "Election"
    return f"{how} of broker {elected}, epoch {evidence.get('elected_epoch')}"


def _without_finding(data: RunData) -> list[Answer]:
    sums = data.verdict.get("accounting", {})
    faults = [row for row in data.rows(FAULTS) if row["begin_ns"] is not None]
    gaps = [
        (row["end_ns"] or row["begin_ns"]) - row["begin_ns"] for row in data.evidence(GAPS) if row["reader"] is None
    ]
    coverage = data.verdict.get("coverage", ())
    count_reached = sum(bool(row["met"]) for row in coverage)
    return [
        Answer(
            question="Acknowledged",
            short=f"{count_of(sums.get('acknowledged', 0))} records",
            more=_read_back(data, sums),
        ),
        Answer(
            question="Faults survived",
            short=str(len(faults)),
            more="; ".join(dict.fromkeys(row["label_text"] or row["kind"] for row in faults))
            or "; ".join(data.ended_words(end) for end in data.rows(NODE_ENDS))
            or "; ".join(dict.fromkeys(acts_on_the_cluster(data)))
            or _answers(data)
            or "nothing was done to the cluster",
        ),
        Answer(
            question="Longest gap",
            short=f"{max(gaps) / 1e9:.1f} s" if gaps else "under a second" if sums.get("acknowledged") else "not known",
            more="without an acknowledged write, in any one partition",
        ),
        Answer(
            question="Coverage",
            short=f"{count_reached} of {len(coverage)} met",
            more="conditions that make the run worth judging",
        ),
    ]


def _answers(data: RunData) -> str:
    """No fault, and still something was wrong."""
    found = brokers_answers(data)
    return f"no fault; {found[0]}" if found else ""


def _read_back(data: RunData, sums: Mapping[str, Any]) -> str:
    """Only a run that passed says that nothing is missing; of the others the sums are all there is."""
    sent = f"of {count_of(sums.get('sent', 0))} sent"
    missing = sums.get("acknowledged_missing", 0)
    if missing:
        return f"{sent}; {count_of(missing)} not in the final log"
    return f"{sent}, all read back in the end" if data.verdict["verdict"] == "pass" else sent


def _role(key: str, deciding: Container[str], *, broken: bool) -> Role:
    if broken:
        return "held" if key in ("acks", MIN_INSYNC) else ""
    return "why" if key in deciding else ""


def settings(data: RunData) -> list[Setting]:
    """The configuration that matters; dashed what made a loss possible, red what was promised and broken.

    Dashed is what "what would have prevented it" speaks of, so that chips and prevention name the same.
    """
    finding = worst(data)
    evidence = evidence_of(finding) if finding is not None else {}
    decided = next((link.t_ns for link in chain_of(evidence) if link.decisive), None)
    known = known_settings(data, finding, at_ns=decided)
    deciding = {key for key, _ in preventing(evidence)}
    if evidence.get("cause") == "destruction":
        deciding.add(MIN_INSYNC)
    broken = finding is not None and finding["classification"] == "violation"
    made = [Setting(text=f"{key}={value}", role=_role(key, deciding, broken=broken)) for key, value in known.items()]
    made += [Setting(text=f"flaw: {flaw}", role="why") for flaw in data.scenario.cluster.flaws]
    return made
