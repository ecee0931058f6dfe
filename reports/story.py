"""What happened: the cause chain of the worst finding, the picture of the deciding moment, and the rule it falls under.

All of it comes from the finding's evidence, which the checks wrote. A step without recorded evidence is not there;
nothing is concluded here that the checks did not conclude.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from reports.model import CauseStep, LogEnd, Picture, RuleLine, Story, Tone
from reports.run_data import RunData, count_of, partition_name, readable, span_of

_TITLES = {
    "acknowledged": "The records are acknowledged",
    "disk-loss": "A disk is lost",
    "truncation": "A replica cuts its log",
}
_DONE = {"kill": "killed", "stop": "shut down", "pause": "paused", "wipe": "killed and loses its disk"}
TONES: dict[str, Tone] = {"violation": "viol", "permitted": "perm", "observation": "neutral"}


def evidence_of(finding: Mapping[str, Any]) -> dict[str, Any]:
    evidence: dict[str, Any] = json.loads(finding["evidence"] or "{}")
    return evidence


def worst(data: RunData) -> Mapping[str, Any] | None:
    """The finding that the page opens with: a loss if there is one in the worst class, else the first of that class."""
    told = [row for row in data.findings if row["classification"] in ("violation", "permitted")]
    if not told:
        return None
    same = [row for row in told if row["classification"] == told[0]["classification"]]
    losses = [row for row in same if row["check"] == "lost-write"]
    return max(losses, key=lambda row: row["count"]) if losses else same[0]


def story(data: RunData) -> Story | None:
    finding = worst(data)
    if finding is None:
        return None
    evidence = evidence_of(finding)
    chain = evidence.get("cause_chain") or []
    if not chain and not evidence.get("rules"):
        return None
    permitted = finding["classification"] == "permitted"
    return Story(
        finding=finding["finding"],
        steps=[_step(data, number, link, evidence) for number, link in enumerate(chain, 1)],
        picture=_picture(data, finding, evidence),
        judgement="permitted" if permitted else "a violation",
        tone=TONES.get(finding["classification"], "neutral"),
        rules=rule_lines(evidence),
        prevention=list(evidence.get("prevention") or ()),
    )


def rule_lines(evidence: Mapping[str, Any]) -> list[RuleLine]:
    return [
        RuleLine(rule=str(rule["rule"]), holds=bool(rule["holds"]), evidence=readable(str(rule["evidence"])))
        for rule in evidence.get("rules") or ()
    ]


def _step(data: RunData, number: int, link: Mapping[str, Any], evidence: Mapping[str, Any]) -> CauseStep:
    begin = data.seconds(link["t_ns"])
    end = data.seconds(link.get("t_end_ns")) if link["event"] == "acknowledged" else None
    time = data.moment(link["t_ns"])
    if begin is not None and end is not None and end - begin >= 0.001:
        time = f"{begin:.3f}–{end:.3f} s"
    return CauseStep(
        number=number,
        time=time,
        at=None if begin is None else round(begin, 3),
        event=_title(data, link),
        sentence=readable(_sentence(data, link, evidence)),
        decisive=bool(link["decisive"]),
    )


def _sentence(data: RunData, link: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    """What the title does not say already; the checks' own sentence where there is nothing shorter."""
    told, span = str(link["sentence"]), evidence.get("lost_range")
    if link["event"] == "fault":
        proof = (_fault(data, link["fault"]) or {}).get("proof")
        return _closed(f"Seen: {proof}") if proof else told
    if link["event"] == "isr-shrink":
        return told.partition(": ")[2][:1].upper() + told.partition(": ")[2][1:] or told
    if link["event"] == "election" and evidence.get("elected_log_end") is not None and span is not None:
        start, isr = evidence["elected_log_end"], list(evidence.get("isr_before") or ())
        who = f"It was not in the ISR, which was {isr}." if evidence.get("unclean") else f"The ISR before was {isr}."
        offsets = span_of(span["first"], span["last"])
        return f"{who} Its log ended at {start}, so its epoch begins there, and {offsets} were not in it."
    if link["event"] == "truncation":
        cut = next(
            (cut for cut in evidence.get("truncations") or () if cut["t_ns"] == link["t_ns"]),
            {"reason": told.partition("(")[2].partition(")")[0]},
        )
        why = f" ({cut['reason']})" if cut["reason"] else ""
        return f"It follows epoch {link['epoch_after']}{why}." if link.get("epoch_after") is not None else told
    return told


def _closed(text: str) -> str:
    return text.rstrip(".") + "."


def _fault(data: RunData, number: Any) -> Mapping[str, Any] | None:
    return next((row for row in data.rows("faults") if row["fault"] == number), None)


def fault_title(fault: Mapping[str, Any]) -> str:
    """A fault as an event: who it struck, in a few words; its own label where the kind is not a plain one."""
    nodes = list(fault["nodes"] or ())
    if fault["kind"] in _DONE and nodes:
        who = f"Broker {nodes[0]} is" if len(nodes) == 1 else f"Brokers {', '.join(map(str, nodes))} are"
        return readable(f"{who} {_DONE[fault['kind']]}")
    links = (fault["links"] or "").split()
    if fault["kind"] in ("cut", "slow") and 0 < len(links) <= 3:
        is_done = f"{'is' if len(links) == 1 else 'are'} {'cut' if fault['kind'] == 'cut' else 'slowed'}"
        return readable(f"{'Link' if len(links) == 1 else 'Links'} {' and '.join(links)} {is_done}")
    label = str(fault["label"] or fault["kind"])
    return readable(label[:1].upper() + label[1:])


def _title(data: RunData, link: Mapping[str, Any]) -> str:
    nodes = ", ".join(str(node) for node in link.get("nodes") or ())
    before, after = link.get("epoch_before"), link.get("epoch_after")
    if link["event"] == "election":
        epochs = f", epoch {before} → {after}" if before is not None else f", epoch {after}"
        how = " uncleanly" if "uncleanly" in link["sentence"] else ""
        return f"Broker {nodes} is elected{how}{epochs}"
    if link["event"] == "truncation":
        return f"Broker {nodes} cuts its log from {link['offset_before']} to {link['offset_after']}"
    if link["event"] == "fault":
        fault = _fault(data, link["fault"])
        return fault_title(fault) if fault is not None else "A fault"
    if link["event"] == "isr-shrink":
        was, arrow, now = str(link["sentence"]).partition(":")[0].partition("from ")[2].partition(" to ")
        return f"The ISR shrinks from {was} to {now}" if arrow else "The ISR shrinks"
    if link["event"] == "acknowledged":
        span = span_of(link.get("offset_before"), link.get("offset_after"))
        return f"Offsets {span} are acknowledged" if span else _TITLES["acknowledged"]
    return _TITLES.get(link["event"], str(link["event"]).replace("-", " ").capitalize())


def _picture(data: RunData, finding: Mapping[str, Any], evidence: Mapping[str, Any]) -> Picture | None:
    """Log ends when the deciding leader took over; drawn only when they were recorded."""
    ends = [end for end in evidence.get("log_ends") or () if end["log_end"] is not None]
    lost, boundary = evidence.get("lost_range"), evidence.get("elected_log_end")
    if len(ends) < 2 or lost is None or boundary is None:
        return None
    top = max(*(end["log_end"] for end in ends), lost["last"] + 1)
    low = min(*(end["log_end"] for end in ends), boundary)
    width = max(top - low, 1)
    from_offset = max(low - width, 0)  # half of the picture is what they share
    scale = 100 / max(top - from_offset, 1)

    def share(offset: int) -> float:
        return float(round(max(offset - from_offset, 0) * scale, 2))

    replicas = [
        LogEnd(
            node=end["replica"],
            colour=data.colour(end["replica"]),
            log_end=end["log_end"],
            state=", ".join(word for word in (_state(end), f"log ends at {end['log_end']}") if word),
            kept_share=share(min(end["log_end"], boundary)),
            lost_share=round(share(end["log_end"]) - share(min(end["log_end"], boundary)), 2),
        )
        for end in ends
    ]
    elected = evidence.get("elected")
    holders = [end["replica"] for end in ends if end["log_end"] > boundary]
    held = " and ".join(f"broker {node}" for node in holders) or "no replica on record"
    return Picture(
        title=f"{partition_name(finding)} when broker {elected} took over",
        caption=f"Of what lies beyond offset {boundary}, where broker {elected} began, {held} had a copy.",
        boundary=boundary,
        boundary_share=share(boundary),
        replicas=replicas,
        lost_end=lost["last"] + 1,
        lost_text=f"{count_of(finding['count'])} lost, offsets {span_of(lost['first'], lost['last'])}",
    )


def _state(end: Mapping[str, Any]) -> str:
    words: Sequence[str] = [str(end["state"] or ""), "" if end["in_isr"] else "not in the ISR"]
    return ", ".join(word for word in words if word)
