"""Logs of replicas that were killed in sync, against what had been answered to acks=all while they were.

A leader answers acks=all when every replica in sync has fetched behind the record, so that it stands in their files; a
kill takes nothing from these. Counted is what was answered a second before the kill was asked for, so that nobody can
have known of it.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from harness.checks.contract.deposed import ENDING, SECOND_NS
from harness.checks.families.evidence.read_rows import AnsweredRow, EvidenceAnswer, KilledRow
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.passing_by import grouped
from harness.checks.spark.tables import small_table
from harness.history.facts.fault_facts import begin_of
from harness.history.schema.schemas import KIND_SEND, STATUS_OK
from harness.history.schema.typed_rows import typed

_PLACE = ("run", "partition_id")
_KILLED = (*_PLACE, "snapshot", "end", "since_ns", "until_ns")
_TIMES = ("invoked_ns", "completed_ns")


def query(runs: JudgedRuns) -> list[EvidenceAnswer]:
    """Of each such log that ends at or below a record that had been answered by then, the last of these."""
    killed = [
        row for history in runs.histories for each in history.partitions.values() for row in _killed_in_sync(each)
    ]
    if not killed:
        return []
    logs = small_table(_KILLED, killed)
    answered = (pc.field("kind") == KIND_SEND) & (pc.field("status") == STATUS_OK) & (pc.field("acks") == -1)

    def beyond(rows: pa.Table) -> pa.Table:
        rows = rows.join(logs, list(_PLACE), join_type="inner")
        within = (pc.field("invoked_ns") >= pc.field("since_ns")) & (pc.field("completed_ns") <= pc.field("until_ns"))
        return rows.filter(within & (pc.field("offset") >= pc.field("end")))

    batches = runs.tables.batches("records", [*_PLACE, "offset", *_TIMES], answered & pc.field("offset").is_valid())
    found = grouped(
        map(beyond, batches),
        (*_PLACE, "snapshot", "since_ns"),
        {"last": ("offset", "max"), "count": ("offset", "count"), "answered_ns": ("completed_ns", "max")},
    )
    rows = [] if found is None else typed(AnsweredRow, found)
    return [{"run": row["run"], "read": None, "unheld": None, "answered": row} for row in rows]


def _killed_in_sync(history: PartitionHistory) -> Iterator[KilledRow]:
    if not history.exact or history.is_set_apart:
        return
    for log in history.snapshots:
        node = log["node"]
        asked = [
            begin_of(fault) if fault["asked_ns"] is None else fault["asked_ns"]
            for fault in history.faults_between(log["time_ns"], log["time_ns"])
            if fault["kind"] in ENDING and node in (fault["nodes"] or ())
        ]
        if log["reason"] != "kill" or not asked:
            continue
        until_ns = min(asked) - SECOND_NS
        if history.is_in_sync(node, until_ns):
            yield {
                "run": history.run,
                "partition_id": history.partition_id,
                "snapshot": log["snapshot"],
                "end": log["log_end_offset"],
                "since_ns": history.joined(node, until_ns) + SECOND_NS,
                "until_ns": until_ns,
            }
