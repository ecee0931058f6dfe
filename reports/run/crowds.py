"""Where there is more on the time axis than a screen has columns: joined, counted, and never dropped.

A joined span says how many it stands for and when; the run folder's tables have each of them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from harness.history.schema.cluster_rows import PARTITION_STATES
from harness.history.schema.evidence_rows import GAPS
from reports.model import Lane, Span
from reports.run_data import RunData

LABELLED_MAX = 60
SPANS_MAX = 300
_LABEL_SHARE = 60
_COLUMNS = 600  # of a lane with more than SPANS_MAX spans
_CHANGES = 200  # columns of the lane that counts for all partitions without one


def fewer(spans: Sequence[Span], duration: float) -> list[Span]:
    """The same spans while they are few; else what begins and ends in one column of the axis is one span."""
    if len(spans) <= LABELLED_MAX:
        return list(spans)
    if len(spans) <= SPANS_MAX:
        return [_labelled(span, duration) for span in spans]
    width = duration / _COLUMNS
    groups: list[list[Span]] = []
    for span in spans:
        column = int(span.at / width)
        same = groups and int(groups[-1][0].at / width) == column
        if same and span.at + span.length < (column + 1) * width:
            groups[-1].append(span)
        else:
            groups.append([span])
    return [_labelled(_joined(group), duration) for group in groups]


def _labelled(span: Span, duration: float) -> Span:
    """Among many, only the wide have a label; the others say on hover what they are."""
    return span if span.length * _LABEL_SHARE >= duration else replace(span, text="", short="")


def _joined(group: Sequence[Span]) -> Span:
    if len(group) == 1:
        return group[0]
    first, last = group[0], group[-1]
    end = max(span.at + span.length for span in group)
    styles = {span.style for span in group}
    commonest = Counter(span.text or span.style for span in group).most_common(4)
    words = ", ".join(f"{count} x {text}" for text, count in commonest)
    return Span(
        at=first.at,
        length=round(end - first.at, 3),
        style=first.style if len(styles) == 1 else "other",
        text=f"{len(group)} x",
        short=f"{len(group)}",
        title=f"{len(group)} from {first.at:.3f} to {end:.3f} s: {words}; first {first.title}; last {last.title}",
    )


def many_partitions(data: RunData, names: Sequence[tuple[str, int]], duration: float) -> list[Lane]:
    """One lane for all partitions that have none: how many changes of leader and ISR, and gaps, when."""
    if not names:
        return []
    wanted = set(names)
    columns: dict[int, Counter[str]] = {}
    for row in data.rows(PARTITION_STATES):
        if (row["topic"], row["partition"]) in wanted and row["isr_before"] is not None:
            what = "leader changes" if row["leader"] != row["leader_before"] else "ISR changes"
            _count(columns, data.seconds(row["time_ns"]), what, duration)
    for gap in data.evidence(GAPS):
        if (gap["topic"], gap["partition"]) in wanted:
            _count(columns, data.seconds(gap["begin_ns"]), "gaps", duration)
    spans = []
    for column, counts in sorted(columns.items()):
        at = column * duration / _CHANGES
        words = ", ".join(f"{count} {what}" for what, count in counts.items())
        number = sum(counts.values())
        title = f"from {at:.3f} s, {duration / _CHANGES:.3f} s long: {words}"
        spans.append(
            Span(
                at=round(at, 3),
                length=round(duration / _CHANGES, 3),
                style="other",
                text=str(number),
                short="",
                title=title,
            )
        )
    return [Lane(label=f"{len(names)} more", kind="role", spans=spans, first=True, note="changes of ")]


def _count(columns: dict[int, Counter[str]], at: float | None, what: str, duration: float) -> None:
    if at is not None:
        column = min(max(int(at / duration * _CHANGES), 0), _CHANGES - 1)
        columns.setdefault(column, Counter())[what] += 1
