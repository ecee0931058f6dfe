"""The picture of the deciding moment: how far each replica's log went, and which offsets of it were lost.

Drawn only from log ends that were recorded; a replica without one is named and has no bar.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.history.facts.finding_facts import too_late
from harness.history.schema.evidence_rows import FindingRow
from harness.history.schema.parquet_tables import read_table
from harness.history.schema.schemas import KIND_SEND, STATUS_FAIL, STATUS_INFO
from reports.model import LogEnd, Picture
from reports.run_data import RunData, count_of, partition_name, span_of

_REST_MAX = 1000  # offsets beyond the lost ones that are looked up one by one
_OUTCOMES = {STATUS_INFO: "indeterminate", STATUS_FAIL: "refused"}


def picture(data: RunData, finding: FindingRow, evidence: Mapping[str, Any]) -> Picture | None:
    """None when fewer than two log ends were recorded."""
    ends = evidence.get("log_ends") or ()
    known = [end["log_end_offset"] for end in ends if end["log_end_offset"] is not None]
    lost, boundary = evidence.get("lost_range"), evidence.get("elected_log_end")
    if len(known) < 2 or lost is None or boundary is None:
        return None
    top = max(*known, lost["last"] + 1)
    parting = min(boundary, lost["first"])  # the elected one may have had other records up to its log end
    low = min(*known, parting)
    first = max(low - max(top - low, 1), 0)  # half of the picture is what they share
    elected = evidence.get("elected")
    holder = next(
        (end for end in ends if (end["log_end_offset"] or 0) > lost["last"] + 1 and end["replica"] != elected), None
    )
    return Picture(
        title=f"{partition_name(finding)} {_moment(evidence, elected)}",
        caption=_caption(ends, elected, lost, boundary),
        boundary=parting,
        boundary_share=_share(parting, first, top),
        first=first,
        end=top,
        replicas=[_log_end(data, end, elected, lost, first, top) for end in ends],
        lost_text=f"{count_of(finding['count'])} lost, offsets {span_of(lost['first'], lost['last'])}",
        rest_text=_rest(data, finding, holder, lost, evidence) if holder is not None else "",
    )


def _moment(evidence: Mapping[str, Any], elected: Any) -> str:
    """A deposed leader appended after the election what was lost: its log end is that from before it cut it."""
    if too_late(evidence) is not None:
        return "before the deposed leader cut its log"
    return f"when broker {elected} took over"


def _share(offset: int, first: int, top: int) -> float:
    return float(round(max(offset - first, 0) * 100 / max(top - first, 1), 2))


def _log_end(
    data: RunData, end: Mapping[str, Any], elected: Any, lost: Mapping[str, int], first: int, top: int
) -> LogEnd:
    log_end = end["log_end_offset"]
    words = "log end not recorded" if log_end is None else f"log ends at {log_end}"
    role = [str(end["state"] or ""), "" if end["in_isr"] else "not in the ISR"]
    whole = _share(log_end or 0, first, top)
    edges = [_share(lost["first"], first, top), _share(lost["last"] + 1, first, top)]
    kept = whole if end["replica"] == elected else min(whole, edges[0])
    gone = 0.0 if end["replica"] == elected else max(min(whole, edges[1]) - edges[0], 0.0)
    return LogEnd(
        node=end["replica"],
        colour=data.colour(end["replica"]),
        log_end=log_end,
        state=", ".join(word for word in (*role, words) if word),
        kept_share=round(kept, 2),
        lost_share=round(gone, 2),
        rest_share=round(max(whole - kept - gone, 0.0), 2),
    )


def _caption(ends: Sequence[Mapping[str, Any]], elected: Any, lost: Mapping[str, int], boundary: int) -> str:
    if lost["first"] < boundary:
        other = span_of(lost["first"], min(boundary - 1, lost["last"]))
        return f"At {other} broker {elected} had other records, of another epoch."
    holders = [end["replica"] for end in ends if (end["log_end_offset"] or 0) > boundary and end["replica"] != elected]
    if not holders:
        return f"No replica on record had offsets {boundary} and up."
    if any((end["log_end_offset"] or 0) <= lost["last"] for end in ends if end["replica"] in holders):
        parts = [
            f"broker {end['replica']} up to {end['log_end_offset'] - 1}" for end in ends if end["replica"] in holders
        ]
        caption = ", ".join(parts)
        return f"Of these records there were still copies: {caption}."
    who = "broker " + str(holders[0]) if len(holders) == 1 else "brokers " + " and ".join(map(str, holders))
    return f"Only {who} had offsets {boundary} and up."


def _rest(
    data: RunData,
    finding: FindingRow,
    holder: Mapping[str, Any],
    lost: Mapping[str, int],
    evidence: Mapping[str, Any],
) -> str:
    """What the offsets after the last lost record were: what their producers had been answered."""
    begin, end = lost["last"] + 1, holder["log_end_offset"]
    span = span_of(begin, end - 1)
    answers = _answers_after(data, finding, holder["replica"], (begin, end), evidence.get("elected_epoch"))
    words = " and ".join(f"{count_of(count)} {_OUTCOMES[status]}" for status, count in sorted(answers.items()))
    unknown = end - begin - sum(answers.values())
    if unknown or not words:
        return f"Dotted: offsets {span}, not among the acknowledged ones that were lost."
    return f"Dotted: offsets {span}, written but never acknowledged ({words})."


def _answers_after(
    data: RunData, finding: FindingRow, node: int, offsets: tuple[int, int], before_epoch: int | None
) -> Counter[int]:
    """How many of the records at these offsets of a replica's log ended in which way, acknowledged ones aside."""
    begin, end = offsets
    tables = data.path / "tables"
    if end - begin > _REST_MAX or not all(
        (tables / f"{name}.parquet").is_file() for name in ("replica_log", "records")
    ):
        return Counter()
    where = [("topic", "=", finding["topic"]), ("partition", "=", finding["partition"])]
    held = read_table(
        tables / "replica_log.parquet",
        "replica_log",
        columns=["leader_epoch", "value"],
        filters=[*where, ("node", "=", node), ("offset", ">=", begin), ("offset", "<", end)],
    ).to_pylist()
    values = {row["value"] for row in held if before_epoch is None or row["leader_epoch"] < before_epoch}
    if not values:
        return Counter()
    sends = read_table(
        tables / "records.parquet",
        "records",
        columns=["value", "status"],
        filters=[*where, ("kind", "=", KIND_SEND), ("value", "in", values), ("status", "in", set(_OUTCOMES))],
    ).to_pylist()
    return Counter({row["value"]: row["status"] for row in sends}.values())
