"""The legend of a time axis: only what is drawn on it, each with the swatch it is drawn with."""

from collections.abc import Iterable, Sequence

from reports.model import Chart, Lane, LegendEntry, Mark

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
