"""What happened: the cause chain of the worst finding, the picture of the deciding moment, and the rule it falls under.

All of it comes from the finding's evidence, which the checks wrote. A step without recorded evidence is not there;
nothing is concluded here that the checks did not conclude.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.history.facts.fault_facts import struck_links
from harness.history.facts.finding_facts import ChainLink, chain_of, too_late
from harness.history.schema.cluster_rows import FAULTS, PARTITION_STATES, FaultRow
from harness.history.schema.evidence_rows import FindingRow
from harness.ports.cluster import COORDINATION
from harness.values import is_number
from reports.model import CauseStep, RuleLine, Story, Tone
from reports.run.picture import picture
from reports.run.settings import too_few_in_sync
from reports.run_data import RunData, span_of

_TITLES = {
    "acknowledged": "The records are acknowledged",
    "disk-loss": "A disk is lost",
    "truncation": "A replica truncates its log",
}
_DONE = {"kill": "killed", "stop": "shut down", "pause": "paused", "wipe": "killed and loses its disk"}
_LAG_KEY = "replica.lag.time.max.ms"
_ACKS = {-1: "acks=all", 0: "acks=0", 1: "acks=1"}
TONES: dict[str, Tone] = {"violation": "viol", "permitted": "perm", "observation": "neutral"}


def evidence_of(finding: FindingRow) -> dict[str, Any]:
    evidence: dict[str, Any] = json.loads(finding["evidence"] or "{}")
    return evidence


def worst(data: RunData) -> FindingRow | None:
    """The finding that the page opens with: a loss if there is one in the worst class, else the first of that class."""
    losses = [row for row in data.findings if row["classification"] in ("violation", "permitted")]
    if not losses:
        return None
    same = [row for row in losses if row["classification"] == losses[0]["classification"]]
    losses = [row for row in same if row["check"] == "lost-write"]
    return max(losses, key=lambda row: row["count"]) if losses else same[0]


def story(data: RunData) -> Story | None:
    finding = worst(data)
    if finding is None:
        return None
    evidence = evidence_of(finding)
    if not evidence.get("cause_chain") and not evidence.get("rules"):
        return None
    permitted = finding["classification"] == "permitted"
    return Story(
        finding=finding["finding"],
        steps=cause_steps(data, finding),
        picture=picture(data, finding, evidence),
        judgement="permitted" if permitted else "a violation",
        tone=TONES.get(finding["classification"], "neutral"),
        rules=rule_lines(data, evidence),
        also=_also(data, finding, evidence),
        prevention=list(evidence.get("prevention") or ()),
    )


def cause_steps(data: RunData, finding: FindingRow) -> list[CauseStep]:
    evidence = evidence_of(finding)
    return [_step(data, finding, number, link, evidence) for number, link in enumerate(chain_of(evidence), 1)]


def rule_lines(data: RunData, evidence: Mapping[str, Any]) -> list[RuleLine]:
    return [
        RuleLine(rule=str(rule["rule"]), holds=rule["holds"], evidence=data.readable(str(rule["evidence"])))
        for rule in evidence.get("rules") or ()
    ]


def _also(data: RunData, finding: FindingRow, evidence: Mapping[str, Any]) -> str:
    """What let the leader acknowledge with so few copies, where that is what the loss took besides the election."""
    least, in_sync = too_few_in_sync(data, finding, evidence)
    if not in_sync:
        return ""
    return (
        f"acks=all waits for the members of the ISR only. When these records were acknowledged that was {in_sync}, "
        f"and min.insync.replicas={least} accepts so few."
    )


def _step(data: RunData, finding: FindingRow, number: int, link: ChainLink, evidence: Mapping[str, Any]) -> CauseStep:
    begin = data.seconds(link.t_ns)
    end = data.seconds(link.t_end_ns) if link.event in ("acknowledged", "resume") else None
    time = data.moment(link.t_ns)
    if begin is not None and end is not None and end - begin >= 0.001:
        time = f"{begin:.3f}–{end:.3f} s"
    return CauseStep(
        number=number,
        time=time,
        at=None if begin is None else round(begin, 3),
        event=_title(data, link),
        sentence=data.readable(_sentence(data, finding, link, evidence)),
        decisive=link.decisive,
        turns=link.event == "election",
    )


def _sentence(data: RunData, finding: FindingRow, link: ChainLink, evidence: Mapping[str, Any]) -> str:
    """What the title does not say already; the checks' own sentence where there is nothing shorter."""
    if link.event == "fault":
        fault = _fault(data, link.fault)
        return (_fault_sentence(fault) if fault is not None else "") or link.sentence
    if link.event == "isr-shrink" and link.isr_after is not None:
        return _shrink_sentence(data, link)
    if link.event == "acknowledged":
        sentence = _acknowledged_sentence(link) if link.count is not None else link.sentence
        return f"{sentence}{_deposed_words(data, link, too_late(evidence))}"
    if link.event == "resume" and link.held_s is not None:
        return (
            f"It had stood still for {link.held_s:.1f} s and did not know yet that broker {link.leader} led in epoch "
            f"{link.epoch_after}."
        )
    if link.event == "election" and evidence.get("elected_log_end") is not None and evidence.get("lost_range"):
        return _election_sentence(data, finding, link, evidence)
    if link.event == "truncation" and link.epoch_after is not None:
        return f"It follows epoch {link.epoch_after}{f' ({link.reason_text})' if link.reason_text else ''}."
    return link.sentence


def _fault_sentence(fault: FaultRow) -> str:
    """What a cut between brokers keeps from whom, in words; then the proof."""
    proof = _closed(f"Seen: {fault['proof_text']}") if fault["proof_text"] else ""
    links = struck_links(fault)
    leaders = {link.target for link in links}
    if fault["kind"] != "cut" or len(leaders) != 1 or any(link.source is None for link in links):
        return proof
    who, leader = " and ".join(str(link.source) for link in links), leaders.pop()
    if leader >= COORDINATION:
        return proof
    brokers = f"brokers {who} open" if len(links) > 1 else f"broker {who} opens"
    return f"The connections that {brokers} to broker {leader}, to fetch from it. {proof}"


def _shrink_sentence(data: RunData, link: ChainLink) -> str:
    gone = _brokers(link.nodes)
    sentence = f"{gone} no longer had to confirm a write."
    if link.held_by is None or link.held_s is None:
        return sentence
    if link.held_by != "cut":
        return f"{sentence} {gone} had been {link.held_by} for {link.held_s:.1f} s."
    most = str(data.environment.get(_LAG_KEY, ""))
    longer = is_number(most) and link.held_s * 1000 > int(most)
    end = f", longer than {_LAG_KEY}={most} allows." if longer else "."
    return f"{sentence} The cut had held their fetches from broker {link.leader} for {link.held_s:.1f} s{end}"


def _brokers(nodes: Sequence[int]) -> str:
    names = [str(node) for node in nodes]
    if len(names) < 2:
        return f"Broker {names[0]}" if names else "No broker"
    return f"Brokers {', '.join(names[:-1])} and {names[-1]}"


def _acknowledged_sentence(link: ChainLink) -> str:
    records = "1 record" if link.count == 1 else f"{link.count} records"
    acks = " or ".join(sorted(_ACKS.get(number, "unknown acks") for number in link.acks)) or "unknown acks"
    epoch = "an unknown epoch" if link.epoch_before is None else f"epoch {link.epoch_before}"
    alone = f"; the ISR was {list(link.in_sync)}" if link.in_sync else ""
    return f"{records}, with {acks} in {epoch}{alone}."


def _deposed_words(data: RunData, link: ChainLink, late: tuple[ChainLink, ChainLink] | None) -> str:
    if late is None or link.t_ns != late[0].t_ns:
        return ""
    who = "a leader" if link.leader is None else f"broker {link.leader}, a leader"
    return f" By {who} already deposed: the next epoch had begun at {data.moment(late[1].t_ns)}, without them."


def _election_sentence(data: RunData, finding: FindingRow, link: ChainLink, evidence: Mapping[str, Any]) -> str:
    start, isr, span = evidence["elected_log_end"], list(evidence.get("isr_before") or ()), evidence["lost_range"]
    elr = f", with the eligible leader replicas {list(evidence['elr_before'])}" if evidence.get("elr_before") else ""
    who = (
        f"It was not in the ISR, which was {isr}{elr}."
        if evidence.get("unclean")
        else f"The ISR before was {isr}{elr}."
    )
    offsets = span_of(span["first"], span["last"])
    if too_late(evidence) is not None:
        return (
            f"{who} Its log ended at {start}, so its epoch begins there: what broker {evidence.get('leader_before')} "
            f"appended from then on is no part of it.{_epochs_between(data, finding, link)}"
        )
    return (
        f"{who} Its log ended at {start}, so its epoch begins there, and {offsets} were not in it."
        f"{_epochs_between(data, finding, link)}"
    )


def _epochs_between(data: RunData, finding: FindingRow, link: ChainLink) -> str:
    """What is on record of the epochs between the record's and the elected leader's."""
    before, after = link.epoch_before, link.epoch_after
    if before is None or after is None or after - before < 2:
        return ""
    known = [
        row
        for row in data.rows(PARTITION_STATES)
        if (row["topic"], row["partition"]) == (finding["topic"], finding["partition"])
        and before < row["leader_epoch"] < after
    ]
    led = sorted({row["leader_epoch"] for row in known if row["leader"] >= 0})
    without = {row["leader_epoch"]: row["time_ns"] for row in reversed(known) if row["exact"] and row["leader"] < 0}
    words = [
        f"Epoch {epoch} had no leader, from {data.moment(without[epoch])} on."
        for epoch in sorted(set(without) - set(led))
    ]
    unknown = [epoch for epoch in range(before + 1, after) if epoch not in without and epoch not in led]
    if unknown:
        words.append(
            f"Nothing ever led in epoch {span_of(unknown[0], unknown[-1])}: the controller's record goes "
            f"past {'it' if len(unknown) == 1 else 'them'} in one step."
        )
    return "".join(f" {word}" for word in words)


def _closed(text: str) -> str:
    return text.rstrip(".") + "."


def _fault(data: RunData, number: int | None) -> FaultRow | None:
    return next((row for row in data.rows(FAULTS) if row["fault"] == number), None)


def fault_title(data: RunData, fault: FaultRow) -> str:
    """A fault as an event: who it struck, in a few words; its own label where the kind is not a plain one."""
    nodes = list(fault["nodes"] or ())
    if fault["kind"] in _DONE and nodes:
        who = f"{data.node_title(nodes[0])} is" if len(nodes) == 1 else f"Brokers {', '.join(map(str, nodes))} are"
        return data.readable(f"{who} {_DONE[fault['kind']]}")
    links = [str(link) for link in struck_links(fault)]
    if fault["kind"] in ("cut", "slow") and 0 < len(links) <= 3:
        is_done = f"{'is' if len(links) == 1 else 'are'} {'cut' if fault['kind'] == 'cut' else 'slowed'}"
        return data.readable(f"{'Link' if len(links) == 1 else 'Links'} {' and '.join(links)} {is_done}")
    label = str(fault["label_text"] or fault["kind"])
    return data.readable(label[:1].upper() + label[1:])


def _title(data: RunData, link: ChainLink) -> str:
    nodes = ", ".join(str(node) for node in link.nodes)
    if link.event == "election":
        epochs = (
            f"epoch {link.epoch_after}"
            if link.epoch_before is None
            else (f"epoch {link.epoch_before} → {link.epoch_after}")
        )
        return f"Broker {nodes} is elected{' uncleanly' if link.unclean else ''}, {epochs}"
    if link.event == "resume":
        return f"Broker {nodes} runs again"
    if link.event == "truncation":
        return f"Broker {nodes} truncates its log from {link.offset_before} to {link.offset_after}"
    if link.event == "fault":
        fault = _fault(data, link.fault)
        return fault_title(data, fault) if fault is not None else "A fault"
    if link.event == "node-end":
        return f"{data.node_title(link.nodes[0])} ends, not ordered" if link.nodes else "A node ends, not ordered"
    if link.event == "isr-shrink":
        if link.isr_before is None or link.isr_after is None:
            return "The ISR shrinks"
        return f"The ISR shrinks from {list(link.isr_before)} to {list(link.isr_after)}"
    if link.event == "acknowledged":
        span = span_of(link.offset_before, link.offset_after)
        return f"Offsets {span} are acknowledged" if span else _TITLES["acknowledged"]
    return _TITLES.get(link.event, str(link.event).replace("-", " ").capitalize())
