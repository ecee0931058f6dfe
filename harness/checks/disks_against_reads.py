"""Disks against reads: the final read was given a record that no replica's log holds.

The logs are read from disk after the final read, or when a record had been acknowledged before, so a record that it was
given is in the log of whoever gave it, unless something took it in between: an election, a truncation, a lost disk, or
retention. Most partitions agree, and are known to by one number for what was read and one for what each log holds in
the same stretch; only the others are compared record by record.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.detection import Flagged
from harness.checks.divergence import known_to_agree
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.rulings import Cause
from harness.checks.runs import Runs
from harness.checks.story import PartitionStory
from harness.checks.tables import Row
from harness.checks.wording.words import nodes_words, plural, ranges

CHECK = "evidence"
NEAR_NS = 10 * 10**9  # an election this long before the read may not have been heard of by whoever answered it
_ROWS_MAX = 10_000
_NUMBER = "bit_xor(xxhash64(off, value))"
# What log_digest.py promises of the same stretch: below its high watermark.
_BELOW_MARK = "bit_xor(if(off < mark, xxhash64(off, epoch, value), 0L))"
_END = {"run": pa.int32(), "tp": pa.int32(), "node": pa.int32(), "snapshot": pa.int32(), "mark": pa.int64()}
_SPAN = {"run": pa.int32(), "tp": pa.int32(), "first": pa.int64(), "last": pa.int64()}


def query(runs: Runs) -> list[Row]:
    """Records of final reads that no final log holds at their offset, with what the logs hold there.

    And one row without a value for each partition that was read: the last offset and when it was begun to be read.
    """
    ends = [
        {
            "run": story.run,
            "tp": partition.tp,
            "node": node,
            "snapshot": row["snapshot"],
            "mark": row["high_watermark"] or 0,
        }
        for story in runs.stories
        for partition in story.partitions.values()
        for node, row in partition.end_snapshots.items()
    ]
    if not ends:
        return []
    places = sorted({(row["run"], row["tp"]) for row in ends})
    wanted = runs.frame({"run": pa.int32(), "tp": pa.int32()}, [{"run": run, "tp": tp} for run, tp in places])
    reads = runs.tables.records.where("kind = 2 and replica is null and status = 0").join(
        sf.broadcast(wanted), ["run", "tp"]
    )
    spans = (
        reads.groupBy("run", "tp")
        .agg(sf.min("off").alias("first"), sf.max("off").alias("last"), sf.min("t0").alias("t0"),
             sf.expr(_NUMBER).alias("number"), sf.count("off").alias("count"))
    ).toArrow().to_pylist()  # fmt: skip
    if not spans:
        return []
    logs = runs.tables.replica_log.join(sf.broadcast(runs.frame(_END, ends)), ["run", "tp", "node", "snapshot"])
    within = logs.join(sf.broadcast(runs.frame(_SPAN, spans)), ["run", "tp"]).where("off between first and last")
    numbers: dict[tuple[int, int], dict[int, int]] = {}
    below: dict[tuple[int, int], dict[int, int]] = {}
    held: dict[tuple[int, int], int] = {}  # records, in the log that has fewest
    asked = sf.expr(_NUMBER).alias("number"), sf.expr(_BELOW_MARK).alias("below_mark"), sf.count("off").alias("count")
    for row in within.groupBy("run", "tp", "node").agg(*asked).toArrow().to_pylist():
        numbers.setdefault((row["run"], row["tp"]), {})[row["node"]] = row["number"]
        below.setdefault((row["run"], row["tp"]), {})[row["node"]] = row["below_mark"]
        held[row["run"], row["tp"]] = min(held.get((row["run"], row["tp"]), row["count"]), row["count"])
    doubtful = [row for row in spans if row["number"] not in numbers.get((row["run"], row["tp"]), {}).values()]
    told: list[Row] = [
        {**row, "off": row["last"], "value": None, "logs": below.get((row["run"], row["tp"]), {})} for row in spans
    ]
    if not doubtful:
        return told
    most = {(row["run"], row["tp"]) for row in doubtful if 2 * held.get((row["run"], row["tp"]), 0) >= row["count"]}
    unheld = _unheld(runs, reads, within, doubtful)
    return told + [{**row, "most_held": (row["run"], row["tp"]) in most} for row in unheld]


def last_read(context: RunContext) -> Mapping[int, int]:
    """The last offset of the final read of each partition; none where no final log was read from disk."""
    return {row["tp"]: row["last"] for row in context.rows.get(CHECK, ()) if row["value"] is None}


def is_unreached(story: PartitionStory, row: Flagged, last: int) -> bool:
    """Whether the final read ended before this record, though it is said to have gone beyond: every disk has it."""
    in_sync = frozenset(story.final_isr)
    if not story.read_to_end or row.off is None or not in_sync or not in_sync <= story.end_snapshots.keys():
        return False
    return last < row.off < (story.end_offset or 0) and in_sync <= row.held_at_end


def _unheld(runs: Runs, reads: DataFrame, within: DataFrame, doubtful: Sequence[Row]) -> list[Row]:
    only = sf.broadcast(runs.frame(_SPAN, doubtful).select("run", "tp"))
    place = ["run", "tp", "off"]
    given = (
        reads.join(only, ["run", "tp"], "left_semi")
        .groupBy(*place, "value")
        .agg(sf.max("epoch").alias("epoch"), sf.min("t0").alias("t0"), sf.max("t1").alias("t1"))
    )
    held = (
        within.join(only, ["run", "tp"], "left_semi")
        .groupBy(*place)
        .agg(sf.collect_set("value").alias("values"), sf.collect_set(sf.struct("node", "epoch", "value")).alias("held"))
    )
    sent = (
        runs.tables.records.where("kind = 0 and status = 0")
        .join(only, ["run", "tp"], "left_semi")
        .groupBy("run", "tp", "value")
        .agg(sf.min("t1").alias("acknowledged_t"))
    )
    given = given.join(sent, ["run", "tp", "value"], "left")
    found = given.join(held, place, "left").where("values is null or not array_contains(values, value)")
    ordered = found.orderBy(*place, "value").limit(_ROWS_MAX).drop("values").toArrow().to_pylist()
    last = within.join(only, ["run", "tp"], "left_semi").groupBy("run", "tp").agg(sf.max("off").alias("last"))
    reached = {(row["run"], row["tp"]): row["last"] for row in last.toArrow().to_pylist()}
    return [{**row, "last": reached.get((row["run"], row["tp"]), -1)} for row in ordered]


def find(context: RunContext, rows: Sequence[Row]) -> list[Finding]:
    findings = [*_unlike_their_digests(context, rows), *_unreached(context)]
    by_partition: dict[int, list[Row]] = {}
    for row in rows:
        if row["value"] is not None:
            by_partition.setdefault(row["tp"], []).append(row)
    for tp, unheld in by_partition.items():
        story = context.partition(tp)
        groups: dict[tuple[str, bool], list[Row]] = {}
        for row in unheld:
            kind = _kind(story, row)
            if kind:
                settled = kind != "beyond-the-logs" and _is_settled(story) and _was_read_first(story, row)
                groups.setdefault((kind, settled), []).append(row)
        findings += [_finding(context, story, kind, of_kind, certain) for (kind, certain), of_kind in groups.items()]
    return findings


def _unlike_their_digests(context: RunContext, rows: Sequence[Row]) -> list[Finding]:
    """Logs that were the same when they were sealed, by their digests, and are not by their records."""
    findings = []
    for row in rows:
        if row["value"] is not None or len(set(row["logs"].values())) < 2:
            continue
        story = context.partition(row["tp"])
        if known_to_agree(story):
            nodes = nodes_words(sorted(row["logs"]))
            sentence = (
                f"The final logs of {nodes} of {story.name} have the same digest (table replica_snapshots), and "
                "not the same records (table replica_log)"
            )
            findings.append(
                Finding(
                    run=context.run, check=CHECK, classification="observation", kind="digests-and-records", count=1,
                    topic=story.topic, part=story.part, sentence=f"{sentence}.",
                    cause=Cause(code="disks-contradict-digests"), open_question=True,
                    evidence={
                        "digests": [
                            {"node": node, "digest": end["digest"]} for node, end in sorted(story.end_snapshots.items())
                        ],
                        "records": [{"node": node, "number": number} for node, number in sorted(row["logs"].items())],
                    },
                )
            )  # fmt: skip
    return findings


def _unreached(context: RunContext) -> list[Finding]:
    """Final reads that are said to have come to the end and lack what every log has before that."""
    last, findings = last_read(context), []
    for story, rows in context.by_partition("lost"):
        members = [row for row in rows if is_unreached(story, row, last.get(story.tp, -1))]
        if not members:
            continue
        sentence = (
            f"The final read of {story.name} is said to have come to its end, {story.end_offset}, and its last record "
            f"is {last.get(story.tp, 'none')}; {plural(len(members), 'acknowledged record')} behind that "
            f"{plural(len(members), 'is')} in the log of every in-sync replica ({nodes_words(story.final_isr)})"
        )
        findings.append(
            finding_of_rows(
                context, story, members, check=CHECK, classification="observation", kind="final-read-stops",
                sentence=f"{sentence}.", cause=Cause(code="final-read-contradicts-its-end"), open_question=True,
                evidence={
                    "final_read": {"end_offset": story.end_offset, "last_offset": last.get(story.tp)},
                    "on_disk": [
                        {"node": node, "log_end": end["log_end"]} for node, end in sorted(story.end_snapshots.items())
                    ],
                },
            )
        )  # fmt: skip
    return findings


def _kind(story: PartitionStory, row: Row) -> str:
    """How the logs contradict a read; empty where something may have taken the record since."""
    ends, off = story.end_snapshots, row["off"]
    spanning = {node for node, end in ends.items() if (end["log_start"] or 0) <= off}
    if not spanning or not _are_known(story):
        return ""
    seen = [end["t"] for end in ends.values()]
    # What had been acknowledged when the logs were read was in one of them, though it was given to a reader later; told
    # where the logs were read as a whole, and not some records of them.
    acknowledged = row["acknowledged_t"] is not None and row["acknowledged_t"] <= min(seen) and row["most_held"]
    if not (_was_read_first(story, row) or acknowledged):
        return ""
    if _was_disturbed(story, min(row["t0"], *seen), max(row["t1"], *seen)):
        return ""
    if row["held"]:
        return "another-record"
    removes = "compact" in (story.cleanup_policy or ("compact" if story.is_foreign else ""))
    if removes or not spanning - story.losses_by_node.keys():
        return ""
    if off < row["last"]:
        return "no-record"
    # Of a log that another leader wrote on nobody knows how far it went when it was read.
    return "beyond-the-logs" if _was_read_first(story, row) or len(story.elections) < 2 else ""


def _was_read_first(story: PartitionStory, row: Row) -> bool:
    """Whether the logs were read from disk after the reader had got the record."""
    return all(end["t"] >= row["t1"] for end in story.end_snapshots.values())


def _are_known(story: PartitionStory) -> bool:
    """Whether the log of whoever answered is among those that were read: all are, or that of the last leader is."""
    every = bool(story.replicas) and set(story.replicas) <= story.end_snapshots.keys()
    return every or (bool(story.states) and story.states[-1]["leader"] in story.end_snapshots)


def _is_settled(story: PartitionStory) -> bool:
    """Whether nothing but the system can have parted the two: every replica's log was read, and the books are exact."""
    return story.exact and bool(story.replicas) and set(story.replicas) <= story.end_snapshots.keys()


def _was_disturbed(story: PartitionStory, begin: int, end: int) -> bool:
    elected = any(each.latest_t >= begin - NEAR_NS and each.earliest_t <= end for each in story.elections)
    cut = any(begin - NEAR_NS <= each.t <= end + NEAR_NS for each in story.truncations)
    return elected or cut or any(begin - NEAR_NS <= each.t <= end for each in story.disk_losses)


_TOLD = {
    "another-record": "all final logs that were read hold another record there",
    "no-record": "no final log that was read has a record there, though they go on behind it",
    "beyond-the-logs": "every final log that was read ends, or cannot be read, before that",
}


def _finding(context: RunContext, story: PartitionStory, kind: str, rows: Sequence[Row], certain: bool) -> Finding:
    offsets = [row["off"] for row in rows]
    sentence = (
        f"The final read was given {plural(len(rows), 'record')} of {story.name} (at {ranges(offsets)}) that "
        f"{nodes_words(sorted(story.end_snapshots))} did not hold on disk: {_TOLD[kind]}"
        f"{'' if certain else ': nobody can tell which of the two is true'}."
    )
    return Finding(
        run=context.run, check=CHECK, classification="violation" if certain else "observation",
        kind=f"reads-{kind}", topic=story.topic, part=story.part, count=len(rows), sentence=sentence,
        cause=Cause(code="disks-contradict-reads"), offsets=offsets, values=[row["value"] for row in rows],
        t_first=min(row["t0"] for row in rows), t_last=max(row["t1"] for row in rows), open_question=not certain,
        evidence={"read": [_read(row) for row in rows[:20]], "on_disk": _disks(story, rows)},
    )  # fmt: skip


def _read(row: Row) -> Mapping[str, Any]:
    return {"offset": row["off"], "value": row["value"], "epoch": row["epoch"], "t_ns": row["t1"]}


def _disks(story: PartitionStory, rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    """What each log has at the first of the offsets, and where it ends."""
    held = {each["node"]: each for each in rows[0]["held"] or ()}
    return [
        {
            "node": node, "offset": rows[0]["off"], "value": held[node]["value"] if node in held else None,
            "epoch": held[node]["epoch"] if node in held else None, "log_end": end["log_end"], "t_ns": end["t"],
        }
        for node, end in sorted(story.end_snapshots.items())
    ]  # fmt: skip
