"""Disks against reads: the final read returned a record that no replica's log holds.

The logs are read from disk after the final read, or when a record had been acknowledged before, so a returned record is
in the log of the broker that returned it, unless something removed it in between: an election, a truncation, a lost
disk, or retention. Most partitions agree, which one digest of the read records and one of each log over the same
offsets shows; only the others are compared record by record.
"""

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from harness.checks.contract.rulings import Cause
from harness.checks.families.evidence.read_rows import (
    ComparedRow,
    EndRow,
    EvidenceAnswer,
    LastRow,
    LogNumberRow,
    ReadRow,
    SpanRow,
    UnheldRow,
)
from harness.checks.families.records.divergence import known_to_agree
from harness.checks.families.transactions.hidden_records import was_passed_over
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.checks.spark.passing_by import grouped
from harness.checks.spark.tables import small_table
from harness.checks.wording.words import nodes_words, plural, ranges
from harness.history.facts.log_digest import numbers_of
from harness.history.schema.schemas import KIND_FINAL_POLL, STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "evidence"
NEAR_NS = 10 * 10**9  # the broker that answered may not know an election this short before the read
_ROWS_MAX = 10_000
_PLACE = ("run", "partition_id")
_LOG = (*_PLACE, "node", "snapshot")
_END = (*_LOG, "mark")
_SPAN = ("run", "partition_id", "first", "last")


ANSWER = RowsOf(CHECK, EvidenceAnswer)


def query(runs: JudgedRuns) -> list[EvidenceAnswer]:
    """Records of final reads that no final log has at their offset, and each partition that was read."""
    ends: list[EndRow] = [
        {
            "run": history.run,
            "partition_id": partition.partition_id,
            "node": node,
            "snapshot": row["snapshot"],
            "mark": row["high_watermark"] or 0,
        }
        for history in runs.histories
        for partition in history.partitions.values()
        for node, row in partition.end_snapshots.items()
    ]
    if not ends:
        return []
    places = {(row["run"], row["partition_id"]) for row in ends} - runs.tables.set_apart
    spans = [row for row in _given(runs) if (row["run"], row["partition_id"]) in places]
    if not spans:
        return []
    numbers: dict[tuple[int, int], dict[int, int]] = {}
    below: dict[tuple[int, int], dict[int, int]] = {}
    held: dict[tuple[int, int], int] = {}  # records in the log with the fewest
    for log in _within(runs, ends, spans):
        place = (log["run"], log["partition_id"])
        numbers.setdefault(place, {})[log["node"]] = log["number"]
        below.setdefault(place, {})[log["node"]] = log["below_mark"]
        held[place] = min(held.get(place, log["count"]), log["count"])
    doubtful = [
        row for row in spans if row["number"] not in numbers.get((row["run"], row["partition_id"]), {}).values()
    ]
    answers: list[EvidenceAnswer] = [
        {
            "run": row["run"],
            "unheld": None,
            "answered": None,
            "read": {
                "run": row["run"],
                "partition_id": row["partition_id"],
                "last": row["last"],
                "invoked_ns": row["invoked_ns"],
                "logs": below.get((row["run"], row["partition_id"]), {}),
            },
        }
        for row in spans
    ]
    if not doubtful:
        return answers
    most = {
        (row["run"], row["partition_id"])
        for row in doubtful
        if 2 * held.get((row["run"], row["partition_id"]), 0) >= row["count"]
    }
    unheld = _unheld(runs, ends, doubtful, most)
    return answers + [{"run": row["run"], "read": None, "unheld": row, "answered": None} for row in unheld]


def _given(runs: JudgedRuns) -> list[SpanRow]:
    """What the final read was given of each partition."""
    final = (pc.field("kind") == KIND_FINAL_POLL) & (pc.field("status") == STATUS_OK) & pc.field("replica").is_null()
    batches = runs.tables.batches("records", [*_PLACE, "offset", "value", "invoked_ns"], final)
    found = grouped(
        map(_numbered, batches),
        _PLACE,
        {
            "first": ("offset", "min"),
            "last": ("offset", "max"),
            "invoked_ns": ("invoked_ns", "min"),
            "number": ("number", "sum"),
            "count": ("offset", "count"),
        },
    )
    return [] if found is None else typed(SpanRow, found)


def _within(runs: JudgedRuns, ends: Sequence[EndRow], spans: Sequence[SpanRow]) -> list[LogNumberRow]:
    """The same offsets in each replica's log, and these below its mark as log_digest.py computes it."""
    wanted = small_table(_END, ends).join(small_table(_SPAN, spans), list(_PLACE), join_type="inner")

    def inside(rows: pa.Table) -> pa.Table:
        rows = rows.join(wanted, list(_LOG), join_type="inner")
        offset = pc.field("offset")
        rows = _numbered(rows.filter((offset >= pc.field("first")) & (offset <= pc.field("last"))))
        is_below = pc.less(rows.column("offset"), rows.column("mark"))
        digest = numbers_of(rows, ("offset", "leader_epoch", "value"))
        return rows.append_column("below_mark", pc.if_else(is_below, digest, 0))

    found = grouped(
        map(inside, runs.tables.batches("replica_log", [*_LOG, "offset", "leader_epoch", "value"], None)),
        (*_PLACE, "node"),
        {"number": ("number", "sum"), "below_mark": ("below_mark", "sum"), "count": ("offset", "count")},
    )
    return [] if found is None else typed(LogNumberRow, found)


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column("number", numbers_of(rows, ("offset", "value")))


def last_read(context: RunContext) -> Mapping[int, int]:
    """The last offset of each partition's final read; empty if no final log was read from disk."""
    return {read["partition_id"]: read["last"] for row in context.rows[ANSWER] if (read := row["read"]) is not None}


def read_since(context: RunContext) -> Mapping[int, int]:
    """When each partition's final read began; empty if no final log was read from disk."""
    return {read["partition_id"]: read["invoked_ns"] for row in context.rows[ANSWER] if (read := row["read"])}


def is_unreached(context: RunContext, history: PartitionHistory, row: Flagged, last: int) -> bool:
    """Whether the final read stopped before this record, although it claims to have passed it and every disk has it."""
    if was_passed_over(context, history, row):
        return False
    in_sync = frozenset(history.final_isr)
    if not history.read_to_end or row.offset is None or not in_sync or not in_sync <= history.end_snapshots.keys():
        return False
    return last < row.offset < (history.end_offset or 0) and in_sync <= row.held_at_end


def _unheld(
    runs: JudgedRuns,
    ends: Sequence[EndRow],
    doubtful: Sequence[SpanRow],
    most_held: Collection[tuple[int, int]],
) -> list[UnheldRow]:
    spans = sf.broadcast(runs.frame(_SPAN, doubtful))
    only = spans.select(*_PLACE)
    within = (
        runs.tables.replica_log.join(sf.broadcast(runs.frame(_LOG, ends)), list(_LOG), "left_semi")
        .join(spans, list(_PLACE))
        .where("offset between first and last")
    )
    place = ["run", "partition_id", "offset"]
    given = (
        runs.tables.records.where("kind = 2 and replica is null and status = 0")
        .join(only, list(_PLACE), "left_semi")
        .groupBy(*place, "value")
        .agg(
            sf.max("leader_epoch").alias("leader_epoch"),
            sf.min("invoked_ns").alias("invoked_ns"),
            sf.max("completed_ns").alias("completed_ns"),
        )
    )
    held = within.groupBy(*place).agg(
        sf.collect_set("value").alias("values"),
        sf.collect_set(sf.struct("node", "leader_epoch", "value")).alias("held"),
    )
    sent = (
        runs.tables.records.where("kind = 0 and status = 0")
        .join(only, ["run", "partition_id"], "left_semi")
        .groupBy("run", "partition_id", "value")
        .agg(sf.min("completed_ns").alias("acknowledged_ns"))
    )
    given = given.join(sent, ["run", "partition_id", "value"], "left")
    found = given.join(held, place, "left").where("values is null or not array_contains(values, value)")
    ordered = typed(ComparedRow, found.orderBy(*place, "value").limit(_ROWS_MAX).drop("values").toArrow())
    last = within.groupBy(*_PLACE).agg(sf.max("offset").alias("last"))
    reached = {(row["run"], row["partition_id"]): row["last"] for row in typed(LastRow, last.toArrow())}
    return [
        {
            **row,
            "last": reached.get((row["run"], row["partition_id"]), -1),
            "most_held": (row["run"], row["partition_id"]) in most_held,
        }
        for row in ordered
    ]


def find(context: RunContext) -> list[Finding]:
    answers = context.rows[ANSWER]
    reads = [read for row in answers if (read := row["read"]) is not None]
    findings = [*_unlike_their_digests(context, reads), *_unreached(context)]
    by_partition: dict[int, list[UnheldRow]] = {}
    for answer in answers:
        if (unheld_row := answer["unheld"]) is not None:
            by_partition.setdefault(unheld_row["partition_id"], []).append(unheld_row)
    for partition_id, unheld in by_partition.items():
        history = context.partition(partition_id)
        groups: dict[tuple[str, bool], list[UnheldRow]] = {}
        for row in unheld:
            kind = _kind(history, row)
            if kind:
                settled = kind != "beyond-the-logs" and _is_settled(history) and _was_read_first(history, row)
                groups.setdefault((kind, settled), []).append(row)
        findings += [_finding(context, history, kind, of_kind, certain) for (kind, certain), of_kind in groups.items()]
    return findings


def _unlike_their_digests(context: RunContext, rows: Sequence[ReadRow]) -> list[Finding]:
    """Logs with equal digests at the seal but different records."""
    findings = []
    for row in rows:
        history = context.partition(row["partition_id"])
        # Without a known high watermark there is no digest of that log.
        promised = {node for node, end in history.end_snapshots.items() if end["high_watermark"] is not None}
        logs = {node: number for node, number in row["logs"].items() if node in promised}
        if len(set(logs.values())) < 2:
            continue
        if known_to_agree(history):
            nodes = nodes_words(sorted(logs))
            sentence = (
                f"The final logs of {nodes} of {history.name} have the same digest (table replica_snapshots), and "
                "not the same records (table replica_log)"
            )
            findings.append(
                Finding(
                    run=context.run,
                    check=CHECK,
                    classification="observation",
                    kind="digests-and-records",
                    count=1,
                    topic=history.topic,
                    partition=history.partition,
                    sentence=f"{sentence}.",
                    cause=Cause(code="disks-contradict-digests"),
                    open_question=True,
                    evidence={
                        "digests": [
                            {"node": node, "digest": end["digest"]}
                            for node, end in sorted(history.end_snapshots.items())
                        ],
                        "records": [{"node": node, "number": number} for node, number in sorted(logs.items())],
                    },
                )
            )
    return findings


def _unreached(context: RunContext) -> list[Finding]:
    """Final reads that claim to have reached the end and lack records that every log has before it."""
    last, findings = last_read(context), []
    for history, rows in context.by_partition("lost"):
        members = [row for row in rows if is_unreached(context, history, row, last.get(history.partition_id, -1))]
        if not members:
            continue
        sentence = (
            f"The final read of {history.name} is said to have come to its end, {history.end_offset}, and its last "
            f"record is {last.get(history.partition_id, 'none')}; {plural(len(members), 'acknowledged record')} "
            f"behind that {plural(len(members), 'is')} in the log of every in-sync replica "
            f"({nodes_words(history.final_isr)})"
        )
        findings.append(
            finding_of_rows(
                context,
                history,
                members,
                check=CHECK,
                classification="observation",
                kind="final-read-stops",
                sentence=f"{sentence}.",
                cause=Cause(code="final-read-contradicts-its-end"),
                open_question=True,
                evidence={
                    "final_read": {"end_offset": history.end_offset, "last_offset": last.get(history.partition_id)},
                    "on_disk": [
                        {"node": node, "log_end_offset": end["log_end_offset"]}
                        for node, end in sorted(history.end_snapshots.items())
                    ],
                },
            )
        )
    return findings


def _kind(history: PartitionHistory, row: UnheldRow) -> str:
    """How the logs contradict a read; empty if something may have removed the record since."""
    ends, offset = history.end_snapshots, row["offset"]
    spanning = {node for node, end in ends.items() if (end["log_start_offset"] or 0) <= offset}
    if not spanning or not (_are_known(history) or _is_below_a_members_mark(history, offset)):
        return ""
    seen = [end["time_ns"] for end in ends.values()]
    # A record acknowledged before the logs were read must be in one of them, even if a reader got it later. This counts
    # only if the logs were read completely.
    acknowledged = row["acknowledged_ns"] is not None and row["acknowledged_ns"] <= min(seen) and row["most_held"]
    if not (_was_read_first(history, row) or acknowledged):
        return ""
    if _was_disturbed(history, min(row["invoked_ns"], *seen), max(row["completed_ns"], *seen)):
        return ""
    if row["held"]:
        return "another-record"
    removes = history.may_compact or (history.is_foreign and not history.cleanup_policy)
    if removes or not spanning - history.losses_by_node.keys():
        return ""
    if offset < row["last"]:
        return "no-record"
    # If another leader wrote to the log, its length at the time of the read is unknown.
    return "beyond-the-logs" if _was_read_first(history, row) or len(history.elections) < 2 else ""


def _was_read_first(history: PartitionHistory, row: UnheldRow) -> bool:
    """Whether the logs were read from disk after the reader had got the record."""
    return all(end["time_ns"] >= row["completed_ns"] for end in history.end_snapshots.values())


def _are_known(history: PartitionHistory) -> bool:
    """Whether the answering broker's log was read: all logs were, or the last leader's was."""
    every = bool(history.replicas) and set(history.replicas) <= history.end_snapshots.keys()
    return every or (bool(history.states) and history.states[-1]["leader"] in history.end_snapshots)


def _is_below_a_members_mark(history: PartitionHistory, offset: int) -> bool:
    """Whether a log was read of a replica in sync, below whose high watermark it has what its leader has."""
    return history.exact and any(
        offset < (end["high_watermark"] or 0)
        for node, end in history.end_snapshots.items()
        if node in history.final_isr
    )


def _is_settled(history: PartitionHistory) -> bool:
    """Whether only the system can have caused the difference: every replica's log was read, and the books are exact."""
    return history.exact and bool(history.replicas) and set(history.replicas) <= history.end_snapshots.keys()


def _was_disturbed(history: PartitionHistory, begin: int, end: int) -> bool:
    elected = any(each.latest_t >= begin - NEAR_NS and each.earliest_t <= end for each in history.elections)
    cut = any(begin - NEAR_NS <= each.time_ns <= end + NEAR_NS for each in history.truncations)
    return elected or cut or any(begin - NEAR_NS <= each.time_ns <= end for each in history.disk_losses)


_KIND_WORDS = {
    "another-record": "all final logs that were read hold another record there",
    "no-record": "no final log that was read has a record there, though they go on behind it",
    "beyond-the-logs": "every final log that was read ends, or cannot be read, before that",
}


def _finding(
    context: RunContext, history: PartitionHistory, kind: str, rows: Sequence[UnheldRow], certain: bool
) -> Finding:
    offsets = [row["offset"] for row in rows]
    sentence = (
        f"The final read was given {plural(len(rows), 'record')} of {history.name} (at {ranges(offsets)}) that "
        f"{nodes_words(sorted(history.end_snapshots))} did not hold on disk: {_KIND_WORDS[kind]}"
        f"{'' if certain else ': it is unknown which of the two is true'}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification="violation" if certain else "observation",
        kind=f"reads-{kind}",
        topic=history.topic,
        partition=history.partition,
        count=len(rows),
        sentence=sentence,
        cause=Cause(code="disks-contradict-reads"),
        offsets=offsets,
        values=[row["value"] for row in rows],
        first_ns=min(row["invoked_ns"] for row in rows),
        last_ns=max(row["completed_ns"] for row in rows),
        open_question=not certain,
        evidence={"read": [_read(row) for row in rows[:20]], "on_disk": _disks(history, rows)},
    )


def _read(row: UnheldRow) -> Mapping[str, object]:
    return {
        "offset": row["offset"],
        "value": row["value"],
        "leader_epoch": row["leader_epoch"],
        "t_ns": row["completed_ns"],
    }


def _disks(history: PartitionHistory, rows: Sequence[UnheldRow]) -> list[Mapping[str, object]]:
    """Each log's record at the first of the offsets, and its end."""
    held = {each["node"]: each for each in rows[0]["held"] or ()}
    return [
        {
            "node": node,
            "offset": rows[0]["offset"],
            "value": held[node]["value"] if node in held else None,
            "leader_epoch": held[node]["leader_epoch"] if node in held else None,
            "log_end_offset": end["log_end_offset"],
            "t_ns": end["time_ns"],
        }
        for node, end in sorted(history.end_snapshots.items())
    ]
