"""The findings as rows: in groups by fingerprint, each group counted exactly, its first findings with their evidence.

A run may have thousands of findings, mostly of a few kinds. Every group has its row; how many findings of it have one,
and how many of those their evidence below, is bounded, so that the page stays one that opens. What has no row is in the
run folder, and `kafka-chaos show` prints it.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from harness.history.schema.evidence_rows import FindingRow
from harness.trends.store import SeenLately
from reports.explanations import anchor_of
from reports.model import Finding, FindingGroup
from reports.run import drill_down
from reports.run.facts import fact_tables
from reports.run.story import TONES, evidence_of, rule_lines
from reports.run_data import RunData, partition_name, span_of

LISTED_PER_GROUP = 40
LISTED_MAX = 1_000  # rows of findings in all, beside the first of each group
DRILLED_PER_GROUP = 5
DRILLED_MAX = 80
OPENING_GROUPS = 12  # whose first finding has its folded rows on the page, too
IssueOf = Callable[[FindingRow], str]
_CAUSE_LENGTH_MAX = 60
# By check, or by check and kind.
_TITLES = {
    "availability": "No write accepted",
    "availability/reading-gap": "Readers got nothing",
    "recovery": "Time to recover",
}
# Whose first moment is an acknowledgement.
_ACKNOWLEDGED = frozenset(
    {
        "lost-write",
        "unreadable",
        "unseen-tail",
        "dirty-read",
        "duplicate",
        "inconsistent-offsets",
        "reordering",
        "acknowledged-regression",
        "removed-by-configuration",
        "compacted-away",
        "nonmonotonic-read",
        "skipped-read",
    }
)
_FIRST = {
    "unclean-election": "elected",
    "availability": "last write before",
    "availability/reading-gap": "a record waited since",
    "recovery": "fault began",
    "expectation": "step began",
    "phantom": "first read",
    "corrupt-record": "first read",
    "aborted-read": "first read",
    "client-stuck": "began",
}


def groups(
    data: RunData, issue_of: IssueOf = lambda row: "", nights: Mapping[str, SeenLately] = MappingProxyType({})
) -> list[FindingGroup]:
    """In the order of each group's first finding, so that the worst come first. issue_of: a finding as Markdown.

    nights: by fingerprint, in which nights it was seen, as far as a store knows it."""
    by_fingerprint: dict[str, list[FindingRow]] = {}
    for row in data.findings:
        by_fingerprint.setdefault(row["fingerprint"], []).append(row)
    listed_left, drilled_left = LISTED_MAX, DRILLED_MAX
    made = []
    for number, rows in enumerate(by_fingerprint.values(), 1):
        listed = rows[: max(1, min(LISTED_PER_GROUP, listed_left))]
        listed_left -= len(listed)
        drilled = min(len(listed), DRILLED_PER_GROUP, max(drilled_left, 0))
        drilled_left -= drilled
        made.append(_group(data, number, rows, listed, drilled, issue_of, _nights(nights, rows[0])))
    return made


def _group(
    data: RunData,
    number: int,
    rows: Sequence[FindingRow],
    listed: Sequence[FindingRow],
    drilled: int,
    issue_of: IssueOf,
    nights: str,
) -> FindingGroup:
    first = rows[0]
    begins = [row["first_ns"] for row in rows if row["first_ns"] is not None]
    without_row = len(rows) - len(listed)
    hidden = (
        f"{without_row} more of this kind have no row here: kafka-chaos show {data.place} lists them, "
        f"kafka-chaos show {data.place} {rows[len(listed)]['finding']} proves one."
        if without_row
        else ""
    )
    return FindingGroup(
        anchor=f"g{number}",
        title=title_of(data, first),
        tone=TONES.get(first["classification"], "neutral"),
        classification=first["classification"],
        partitions=_partitions(rows),
        total=len(rows),
        records=sum(row["count"] for row in rows),
        first=data.moment(min(begins)) if begins else "",
        last=data.moment(max(begins)) if begins else "",
        cause=_cause(data, first),
        findings=[
            finding(
                data,
                row,
                drilled=place < drilled,
                opens=place == 0 and number <= OPENING_GROUPS,
                issue=issue_of(row) if place < drilled else "",
                nights=nights,
            )
            for place, row in enumerate(listed)
        ],
        hidden=hidden,
    )


def _partitions(rows: Sequence[FindingRow]) -> str:
    names = list(dict.fromkeys(partition_name(row) for row in rows if row["topic"] is not None))
    if len(names) <= 3:
        return ", ".join(names)
    return f"{len(names)} partitions"


def _nights(nights: Mapping[str, SeenLately], row: FindingRow) -> str:
    seen = nights.get(row["fingerprint"])
    if seen is None:
        return ""
    said = f"S{seen.sentence[1:]}, the newest of them {seen.until}"
    return f"{said}. First night: {seen.first}; last night: {seen.last}."


def title_of(data: RunData, row: FindingRow) -> str:
    anomaly = data.anomaly(row)
    own = (
        _TITLES.get(f"{row['check']}/{row['kind']}") or _TITLES.get(row["check"]) or (anomaly.title if anomaly else "")
    )
    return own or str(row["check"]).replace("-", " ").capitalize()


def finding(data: RunData, row: FindingRow, *, drilled: bool, opens: bool, issue: str, nights: str = "") -> Finding:
    """opens: what is folded in its tables opens in place."""
    log = drill_down.log_table(data, row, opens=opens) if drilled else None
    values = drill_down.lost_values(data, row) if drilled and row["check"] == "lost-write" else ()
    return Finding(
        id=row["finding"],
        check=row["check"],
        title=title_of(data, row),
        tone=TONES.get(row["classification"], "neutral"),
        classification=row["classification"],
        partition=partition_name(row),
        offsets=span_of(row["offset_first"], row["offset_last"]),
        count=row["count"],
        first=data.moment(row["first_ns"]) if row["first_ns"] is not None else "",
        first_is=_first_is(row),
        cause=_cause(data, row),
        sentence=data.readable(row["sentence_text"]),
        fingerprint=row["fingerprint"],
        rules=rule_lines(data, evidence_of(row)) if drilled else (),
        log=log,
        operations=drill_down.operations(data, row, opens=opens) if drilled else (),
        lost_values=values,
        hidden=_hidden(data, row, drilled),
        explained=anchor_of(data.anomaly(row)),
        facts=fact_tables(data, evidence_of(row)) if drilled else (),
        issue=issue,
        nights=nights,
        drilled=drilled,
    )


def _first_is(row: FindingRow) -> str:
    """What happened at the moment in the table."""
    first = _FIRST.get(f"{row['check']}/{row['kind']}") or _FIRST.get(row["check"])
    if first is not None or row["first_ns"] is None:
        return first or ""
    return "first acknowledged" if row["check"] in _ACKNOWLEDGED else "first seen"


def _hidden(data: RunData, row: FindingRow, drilled: bool) -> str:
    command = f"kafka-chaos show {data.place} {row['finding']}"
    if not drilled:
        return f"The evidence of this one is in the run folder: {command}"
    shown = len(row["values"] or ())
    if row["count"] > shown > 0:
        return f"{row['count'] - shown} of {row['count']} are not listed here; all of them: {command} --all"
    return ""


def _cause(data: RunData, row: FindingRow) -> str:
    """A few words for the table; the sentence below says the rest."""
    evidence = evidence_of(row)
    if evidence.get("cause") and row["leader_epoch"] is not None:
        return f"{str(evidence['cause']).replace('-', ' ').capitalize()}, epoch {row['leader_epoch']}"
    cause = data.readable(row["cause_text"] or "")
    head = cause[:_CAUSE_LENGTH_MAX]
    return cause if head == cause else (head.rpartition(" ")[0] or head) + " …"
