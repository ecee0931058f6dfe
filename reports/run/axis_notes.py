"""What stands around the time axis. Sentences: what a link's name means, why a dead broker leads on, why all sends stop
at once, each only when the run shows what it speaks of. And the legend, only of what is drawn.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow.compute as pc

from harness.history.facts.fault_facts import struck_links
from harness.history.schema.cluster_rows import FAULTS, PARTITIONS
from harness.history.schema.evidence_rows import GAPS
from reports.model import Chart, Lane, LegendEntry, Mark
from reports.run_data import RunData

_PAUSE_MIN_NS = 10**9
_SESSIONS = ("zookeeper.session.timeout.ms", "broker.session.timeout.ms")


def axis_notes(data: RunData, lanes: Sequence[Lane]) -> list[str]:
    return [note for note in (links_note(data), _dead_note(data, lanes), _held_note(data)) if note]


def links_note(data: RunData) -> str:
    """Said once, where a link between two brokers was struck."""
    for fault in data.rows(FAULTS):
        for link in struck_links(fault) if fault["begin_ns"] is not None else ():
            if link.source in data.brokers and link.target in data.brokers:
                a, b = link.source, link.target
                return (
                    f"{a}→{b} is the connections that broker {a} opens to broker {b}, such as its fetches as a "
                    f"follower; those that broker {b} opens to broker {a} are {b}→{a}."
                )
    return ""


def _dead_note(data: RunData, lanes: Sequence[Lane]) -> str:
    if not any("dead" in span.style.split() for lane in lanes for span in lane.spans):
        return ""
    settings = [f"{key}={data.environment[key]}" for key in _SESSIONS if key in data.environment]
    session = f" ({settings[0]})" if settings else ""
    return (
        "A broker that dies or is paused stays leader, and a member of ISRs, until the controller notices: when its "
        f"session has run out{session}. Meanwhile acks=all waits for it wherever it is a follower."
    )


def _held_note(data: RunData) -> str:
    """Why one partition without answers empties the chart for all of them."""
    in_flight = data.scenario.workload.facts.in_flight
    topics = {topic.name for topic in data.scenario.topics}
    partitions = sum(row["topic"] in topics for row in data.rows(PARTITIONS))
    if in_flight < 2 or partitions < 2:
        return ""
    pause = _longest_pause_in_a_gap(data)
    if pause is None:
        return ""
    return (
        f"From {data.moment(pause[0])} to {data.moment(pause[1])} nothing was sent to any partition: a producer sends "
        f"{in_flight} records, spread over the {partitions} partitions, and waits for the answers to all of them "
        "before it sends the next. “no writes” marks the partitions that were asked and did not answer."
    )


def _longest_pause_in_a_gap(data: RunData) -> tuple[int, int] | None:
    """The longest time within a partition's gap in which no client began a send."""
    writes = [row for row in data.evidence(GAPS) if row["reader"] is None]
    gaps = [(row["begin_ns"], row["end_ns"]) for row in writes if row["end_ns"] is not None]
    if not gaps:
        return None
    ops = data.folder.table("operations")
    starts = np.sort(ops.filter(pc.equal(ops.column("function"), "send")).column("invoked_ns").drop_null().to_numpy())
    long = np.flatnonzero(np.diff(starts) > _PAUSE_MIN_NS)
    pauses = [
        (before, after)
        for before, after in ((int(starts[place]), int(starts[place + 1])) for place in long)
        if any(begin < after and before < end for begin, end in gaps)
    ]
    return max(pauses, key=lambda pause: pause[1] - pause[0], default=None)


# ---- the legend -----------------------------------------------------------------------------------------------------


_SPANS = (
    ("kill", "killed or stopped"),
    ("pause", "paused"),
    ("iso", "links cut"),
    ("slow", "slowed or impaired"),
    ("wiped", "disk or records lost, damaged or full"),
    ("other", "another fault"),
    ("dead", "leader dead or paused, not yet replaced"),
    ("none", "no leader"),
    ("unc", "elected uncleanly"),
)
_ISRS = (("i3", "ISR: all replicas"), ("i2", "ISR: some replicas"), ("i1", "ISR: one replica"))
_FINDINGS = (("viol", "violation"), ("perm", "permitted"), ("neutral", "observation"))


def legend(lanes: Iterable[Lane], charts: Sequence[Chart], marks: Sequence[Mark] = ()) -> list[LegendEntry]:
    lanes = list(lanes)
    styles = {word for lane in lanes for span in lane.spans for word in span.style.split()}
    tones = {mark.tone for mark in marks}
    entries = [LegendEntry(style=tone, text=f"finding: {text}", icon=True) for tone, text in _FINDINGS if tone in tones]
    entries += [LegendEntry(style=style, text=text) for style, text in (*_SPANS, *_ISRS) if style in styles]
    if any(lane.kind == "gap" for lane in lanes):
        entries.append(
            LegendEntry(style="g", text="over 1 s in which no write was acknowledged, or a reader got nothing")
        )
    epochs = [span.epoch for lane in lanes for span in lane.spans if span.epoch is not None and span.text]
    if epochs:
        entries.append(LegendEntry(style="", text=f"e{max(epochs)}: leader epoch {max(epochs)}"))
    bars = [bar for chart in charts for bar in chart.bars]
    for style, text, seen in (
        ("k-ok", "acknowledged", any(bar.ok for bar in bars)),
        ("k-info", "indeterminate", any(bar.info for bar in bars)),
        ("k-ref", "refused", any(bar.fail for bar in bars)),
    ):
        entries += [LegendEntry(style=style, text=text)] if seen else []
    if any(chart.p50 for chart in charts):
        entries.append(LegendEntry(style="k-p50", text="latency, median"))
        entries.append(LegendEntry(style="k-p99", text="latency, 99th percentile (log scale)"))
    return entries
