"""Where every record went: the answer to its producer against what the final log holds. It must add up both ways."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.history.facts.error_codes import error_code
from harness.history.schema.client_rows import CLIENT_EVENTS
from harness.history.schema.cluster_rows import PARTITIONS
from harness.history.schema.evidence_rows import ACCOUNTING, AccountingRow, FindingRow
from reports.model import Accounting, OutcomeRow, PartitionRow
from reports.run_data import RunData, count_of

PARTITIONS_MAX = 40
_NAMES = {"acknowledged": "Acknowledged", "unknown": "Indeterminate", "refused": "Refused", "not sent": "Never sent"}


def accounting(data: RunData) -> Accounting | None:
    """None when nothing was sent."""
    rows = data.evidence(ACCOUNTING)
    if not rows:
        return None
    counts: Counter[tuple[str, bool]] = Counter()
    for row in rows:
        counts[_outcome_of(row), bool(row["in_final_log"])] += row["count"]
    lost = [row for row in data.findings if row["check"] == "lost-write"]
    permitted = sum(row["count"] for row in lost if row["classification"] == "permitted")
    violation = sum(row["count"] for row in lost if row["classification"] == "violation")
    undecided = sum(row["count"] for row in lost if row["classification"] == "observation")
    missing = counts["acknowledged", False]
    sums = data.verdict.get("accounting", {})
    return Accounting(
        outcomes=[
            OutcomeRow(
                name=name,
                in_final_log=counts[stored, True],
                not_in_it=counts[stored, False],
                lost=counts[stored, False] if stored == "acknowledged" else 0,
            )
            for stored, name in _NAMES.items()
            if stored != "not sent" or counts[stored, True]
        ],
        partitions=_partitions(data, rows, lost),
        read=counts["acknowledged", True],
        lost_permitted=permitted,
        lost_violation=violation,
        lost_undecided=undecided,
        unreadable=max(missing - permitted - violation - undecided, 0),
        indeterminate=counts["unknown", True] + counts["unknown", False],
        refused=counts["refused", True] + counts["refused", False],
        sent=sum(count for (stored, _), count in counts.items() if stored != "not sent"),
        problem=_problem(sums),
        answers=brokers_answers(data),
    )


def brokers_answers(data: RunData) -> list[str]:
    """The errors that brokers answered to attempts to produce, the most frequent first."""
    codes = Counter(row["code"] for row in data.rows(CLIENT_EVENTS) if row["code"] is not None)
    found = []
    for code, count in sorted(codes.items(), key=lambda entry: (-entry[1], entry[0])):
        error = error_code(code)
        said = f"{count_of(count)} attempt{'s were' if count > 1 else ' was'} answered {error}"
        found.append(f"{said}: {error.meaning}." if error.meaning else f"{said}.")
    return found


def _outcome_of(row: AccountingRow) -> str:
    """acks=0 is never an acknowledgement, whatever a library calls it."""
    return "unknown" if row["outcome"] == "acknowledged" and row["acks"] == 0 else str(row["outcome"])


def _problem(sums: dict[str, Any]) -> str:
    if sums.get("adds_up", True):
        return ""
    accounted = sums.get("sent", 0) + sums.get("sent_again", 0)
    return (
        f"The sums differ: {sums.get('send_records')} records sent and {accounted} accounted for; "
        f"{sums.get('acknowledged_missing')} acknowledged ones missing, {sums.get('missing_in_findings')} in findings."
    )


def _partitions(data: RunData, rows: Sequence[AccountingRow], lost: Sequence[FindingRow]) -> list[PartitionRow]:
    per_partition: dict[tuple[str, int], Counter[str]] = {}
    for row in rows:
        per_partition.setdefault((row["topic"], row["partition"]), Counter())[_outcome_of(row)] += row["count"]
    losses: Counter[tuple[str | None, int | None]] = Counter()
    for finding in lost:
        losses[finding["topic"], finding["partition"]] += finding["count"]
    made = []
    for partition in sorted(data.rows(PARTITIONS), key=lambda row: (row["topic"], row["partition"])):
        name = (partition["topic"], partition["partition"])
        counts = per_partition.get(name, Counter())
        made.append(
            PartitionRow(
                name=f"{name[0]}-{name[1]}",
                sent=sum(count for outcome, count in counts.items() if outcome != "not sent"),
                acknowledged=counts["acknowledged"],
                indeterminate=counts["unknown"],
                refused=counts["refused"],
                lost=losses[name],
                log_end=partition["end_offset"],
            )
        )
    return _folded(made)


def _folded(rows: list[PartitionRow]) -> list[PartitionRow]:
    """Beyond a screenful those that lost something come first, and the rest is one row of sums."""
    if len(rows) <= PARTITIONS_MAX:
        return rows
    rows = sorted(rows, key=lambda row: row.lost == 0)  # stable: in order of their names otherwise
    kept, rest = rows[:PARTITIONS_MAX], rows[PARTITIONS_MAX:]
    sums = {
        name: sum(getattr(row, name) for row in rest)
        for name in ("sent", "acknowledged", "indeterminate", "refused", "lost")
    }
    return [*kept, PartitionRow(name=f"{len(rest)} more partitions", log_end=None, **sums)]
