"""Polls that go back or skip, inside one poll or between two polls of the same assignment of the same process.

A skip counts only over records of the final log that were there when the poll was answered; for consumers that may be
read_committed, over committed ones. A consumer's position may be reset when it no longer exists, so a permitted cut of
*committed* records explains it; a clean fail-over does not. The cut must lie between the previous poll and this one: an
election long before explains nothing. With auto.offset.reset=earliest the reset leads to the head of the log, to
records that are older than the cut; otherwise what comes next was written after it. Where retention overtook the
position, any other reset leads over what is left of the log.
"""

from collections.abc import Mapping
from typing import TypedDict

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from harness.checks.contract.rulings import NOTHING_PERMITS_IT
from harness.checks.explaining.rewinds import Rewind, Rewinds, under_a_reader
from harness.checks.families.records.removal import Removal
from harness.checks.families.transactions.isolation import perhaps_committed_readers, with_outcome
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.checks.spark.fused_query import Flag
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import offsets_words, plural
from harness.history.schema.typed_rows import RowsOf, typed

NAME = "polls"

# flag -> (check, kind, what happened)
_KINDS = {
    "back_inside": ("nonmonotonic-read", "internal", "came at or below the offset read just before in the same poll"),
    "back_between": ("nonmonotonic-read", "external", "came at or below the end of the same consumer's poll before"),
    "skip_inside": ("skipped-read", "internal", "came after a jump over existing records inside one poll"),
    "skip_between": ("skipped-read", "external", "came after a jump over existing records between two polls"),
}


class JumpedRow(TypedDict):
    """The begin of the poll before the one that returned a row, and the end of that one.

    over_nothing: they jumped over no record that had been written by then and that they had to be given: what the
    final log has there came later, of a leader or a send after the poll, or had not certainly been committed. position:
    the lowest at which they were to go on. to_the_head: none is below it in the final log, and all of them begin there
    where their position does not exist. resets_elsewhere: none of them does. over_to: the last record that they jumped
    over; over_sent_ns: when the last of these was sent, if anybody told.
    """

    run: int
    partition_id: int
    value: int
    offset: int
    since: int | None
    until: int
    over_nothing: bool
    position: int
    to_the_head: bool
    resets_elsewhere: bool
    readers: list[int]
    over_to: int | None
    over_sent_ns: int | None


ANSWER = RowsOf(NAME, JumpedRow)


def query(runs: JudgedRuns) -> list[JumpedRow]:
    """The polls that returned flagged rows; if several consumers jumped there, the widest jump."""
    wanted = [
        {"run": row.run, "partition_id": row.partition_id, "value": row.value, "offset": row.offset}
        for rows in runs.detection.flagged.values()
        for row in rows
        if row.flags & _KINDS.keys() and row.offset is not None
    ]
    if not wanted:
        return []
    place = ("run", "partition_id")
    flagged = sf.broadcast(runs.frame((*place, "value", "offset"), wanted))
    before = Window.partitionBy("run", "partition_id", "process", "assignment").orderBy("operation", "position")
    jumps = (
        runs.tables.records.where("kind = 1")
        .join(sf.broadcast(flagged.select(*place).distinct()), [*place], "left_semi")
        .select(
            "run",
            "partition_id",
            "value",
            "offset",
            "process",
            "completed_ns",
            "leader_epoch",
            sf.lag("offset").over(before).alias("came_from"),
            sf.lag("invoked_ns").over(before).alias("since"),
        )
        .where("offset <> came_from + 1")
        .join(flagged, [*place, "value", "offset"], "left_semi")
    )
    found = (
        _to_the_head(runs, _over_nothing(runs, jumps))
        .groupBy(*place, "value", "offset")
        .agg(
            sf.min("since").alias("since"),
            sf.max("completed_ns").alias("until"),
            sf.bool_and("over_nothing").alias("over_nothing"),
            sf.min(sf.expr("came_from + 1")).alias("position"),
            sf.bool_and("to_the_head").alias("to_the_head"),
            sf.bool_and("resets_elsewhere").alias("resets_elsewhere"),
            sf.sort_array(sf.collect_set("process")).alias("readers"),
            sf.max("over_to").alias("over_to"),
            sf.max("over_sent_ns").alias("over_sent_ns"),
        )
    )
    return typed(JumpedRow, found.toArrow())


def _over_nothing(runs: JudgedRuns, jumps: DataFrame) -> DataFrame:
    """With a column of this name, `over_to` and `over_sent_ns`; of transactions it counts only where the consumer may
    have been read_committed."""
    strict = perhaps_committed_readers(runs) if runs.any_was("transactional") else []
    readers = sf.broadcast(runs.frame(("run", "process"), strict))
    jumps = jumps.join(readers.withColumn("strict", sf.lit(True)), ["run", "process"], "left")
    final = with_outcome(runs, runs.tables.records.where("kind = 2 and replica is null"))
    between = (
        final.select(
            "run",
            "partition_id",
            sf.col("value").alias("lies"),
            sf.col("offset").alias("lies_at"),
            sf.col("leader_epoch").alias("lies_in"),
            "outcome",
        )
        .join(sf.broadcast(jumps), ["run", "partition_id"])
        .where("came_from < lies_at and lies_at < offset and (strict is null or outcome = 0)")
        .where("lies_in is null or leader_epoch is null or lies_in <= leader_epoch")
    )
    sent = runs.tables.records.where("kind = 0").groupBy("run", "partition_id", sf.col("value").alias("lies"))
    over = (
        sent.agg(sf.min("invoked_ns").alias("sent_ns"))
        .join(sf.broadcast(between), ["run", "partition_id", "lies"], "right")
        .where("sent_ns is null or sent_ns <= completed_ns")
        .groupBy("run", "partition_id", "process", "came_from", "offset")
        .agg(sf.max("lies_at").alias("over_to"), sf.max("sent_ns").alias("over_sent_ns"))
    )
    return jumps.join(over, ["run", "partition_id", "process", "came_from", "offset"], "left").withColumn(
        "over_nothing", sf.expr("over_to is null")
    )


def _to_the_head(runs: JudgedRuns, jumps: DataFrame) -> DataFrame:
    """With a column of this name, and `resets_elsewhere`."""
    earliest = [
        {"run": run, "process": process}
        for (run, process), client in runs.processes().items()
        if client["offset_reset"] == "earliest"
    ]
    readers = sf.broadcast(runs.frame(("run", "process"), earliest))
    final = runs.tables.records.where("kind = 2 and replica is null")
    lowest = final.groupBy("run", "partition_id").agg(sf.min("offset").alias("lowest"))
    return (
        jumps.join(readers.withColumn("goes_back", sf.lit(True)), ["run", "process"], "left")
        .join(lowest, ["run", "partition_id"], "left")
        .withColumn("to_the_head", sf.expr("coalesce(goes_back and offset <= lowest, false)"))
        .withColumn("resets_elsewhere", sf.expr("goes_back is null"))
    )


def find(context: RunContext) -> list[Finding]:
    findings = []
    jumps: dict[tuple[int, int, int | None], JumpedRow] = {
        (row["partition_id"], row["value"], row["offset"]): row for row in context.rows[ANSWER]
    }
    rewinds, removal = Rewinds(context), Removal(context)
    lawful = {place for place, row in jumps.items() if row["over_nothing"]}
    for flag, (check, kind, what) in _KINDS.items():
        for history, rows in context.by_partition(flag):
            groups: dict[Rewind, list[Flagged]] = {}
            for row in rows:
                if flag in ("skip_inside", "skip_between") and (row.partition_id, row.value, row.offset) in lawful:
                    continue
                reset = _overtaken(history, row, jumps, removal) if flag == "skip_between" else None
                groups.setdefault(reset or _rewind(history, row, jumps, rewinds), []).append(row)
            for rewind, members in groups.items():
                sentence = (
                    f"{plural(len(members), 'read record')} {offsets_words(members)} of {history.name} {what}: "
                    f"{cause_words(rewind.cause)}."
                )
                findings.append(
                    finding_of_rows(
                        context,
                        history,
                        members,
                        check=check,
                        kind=kind,
                        sentence=sentence,
                        cause=rewind.cause,
                        classification=rewind.classification,
                        open_question=rewind.open_question,
                    )
                )
    return findings


def _overtaken(
    history: PartitionHistory, row: Flagged, jumps: Mapping[tuple[int, int, int | None], JumpedRow], removal: Removal
) -> Rewind | None:
    """Why the consumer's position may lawfully have been removed, so that it went on at the log's end, or all that it
    jumped over from the log of another leader, so that it went on there at its start."""
    jump = jumps.get((row.partition_id, row.value, row.offset))
    if jump is None:
        return None
    cause = removal.of_position(history, jump["position"], jump["until"]) if jump["resets_elsewhere"] else None
    if cause is None and jump["over_to"] is not None:
        cause = removal.of_a_former_start(history, jump["over_to"], jump["over_sent_ns"], jump["until"])
    if cause is None:
        return None
    in_doubt = cause.doubt is not None
    return Rewind(classification="observation" if in_doubt else "permitted", cause=cause, open_question=in_doubt)


def _rewind(
    history: PartitionHistory,
    row: Flagged,
    jumps: Mapping[tuple[int, int, int | None], JumpedRow],
    rewinds: Rewinds,
) -> Rewind:
    if row.offset is None or row.step is None:
        return Rewind(classification="violation", cause=NOTHING_PERMITS_IT)
    jump = jumps.get((row.partition_id, row.value, row.offset))
    since, until = (None, None) if jump is None else (jump["since"], jump["until"])
    if jump is not None and jump["to_the_head"] and since is not None:
        reset = rewinds.under_a_position(history, jump["position"], since_ns=since, until_ns=jump["until"])
        if reset is not None:
            return reset
    return under_a_reader(
        history,
        offset=row.offset - row.step,
        epoch=row.read_epoch,
        time_ns=until,
        since_ns=since,
        code="rewound-under-the-consumer",
    )


FAMILY = Family(
    name=NAME,
    find=find,
    query=query,
    follows_detection=True,
    flags=(
        Flag(name="back_inside", condition="least_step < 1"),
        Flag(name="back_between", condition="least_jump < 1"),
        Flag(name="skip_inside", condition="greatest_step > 1 and offset - greatest_step < final_below"),
        Flag(name="skip_between", condition="greatest_jump > 1 and offset - greatest_jump < final_below"),
    ),
)
