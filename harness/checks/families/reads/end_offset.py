"""Told ends that are too low, and records that came late: what the final read was answered, against what is there.

A leader answers ListOffsets (latest, read_uncommitted) with its high watermark, and as long as that has not reached the
start of its own epoch with OFFSET_NOT_AVAILABLE instead: KIP-207, in Kafka from 2.2 on, R15 of the reference. So what
was acknowledged with acks=all, or given to a consumer, before the question, and what lies below the start of the
leader's epoch, is below the answered end, if it is in the leader's log at all. Nothing is promised by a leader that was
deposed, of what only its own log may have had, or before 2.2. Below the last stable offset read_committed may end
lawfully; those answers are not judged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from pyspark.sql import functions as sf

from harness.checks.contract.rulings import Cause, Class, Doubt
from harness.checks.families.evidence.disks_against_reads import read_since
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import SEEN_POLL, Flagged
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, ranges, span_words
from harness.history.schema.client_rows import TRANSACTIONS
from harness.history.schema.cluster_rows import FINAL_READS, PARTITIONS, FinalReadRow
from harness.history.schema.schemas import STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed
from harness.scenario.model import Scenario

CHECK = "end-told-too-low"
LATE = "late-record"
PROMISED_SINCE = (2, 2)  # KAFKA-2334
REFERENCE = "reference"
_ACKS_ALL = -1


@dataclass(frozen=True, kw_only=True)
class AnsweredEnd:
    """An answer: the log ends at `end`. asked_ns: None in runs that were sealed without it; node: whom it was asked.

    perhaps_stable: it may be the last stable offset, which read_committed is answered.
    """

    end: int
    asked_ns: int | None
    node: int | None = None
    perhaps_stable: bool = False


class AboveRow(TypedDict):
    """Records that the final read returned at or above an end that it had been told, though somebody knew them by then.

    sure: those that had to be below it by then; read_ns: when the last one was returned.
    """

    run: int
    partition_id: int
    end: int
    asked_ns: int
    count: int
    first: int
    last: int
    sure: int
    sure_first: int | None
    sure_last: int | None
    read_ns: int


ANSWER = RowsOf(CHECK, AboveRow)
_ASKED = ("run", "partition_id", "end", "asked_ns", "start")


def query(runs: JudgedRuns) -> list[AboveRow]:
    """Only of partitions that were read beyond an end that was told, which the rows about the answers show."""
    asked = [
        {
            "run": history.run,
            "partition_id": partition_id,
            "end": lowest["to_offset"],
            "asked_ns": lowest["invoked_ns"],
            "start": _start(history.partitions[partition_id]),
        }
        for history in runs.histories
        for partition_id, rows in _answers(
            runs.tables.rows(FINAL_READS, history.run), runs.tables.rows(PARTITIONS, history.run)
        ).items()
        if (lowest := _exceeded(rows)) is not None
    ]
    if not asked:
        return []
    frame = sf.broadcast(runs.frame(_ASKED, asked))
    known = (
        runs.tables.records.where("replica is null and status = 0 and offset is not null")
        .join(frame, ["run", "partition_id"])
        .where("offset >= end")
        .groupBy(*_ASKED, "offset", "value")
        .agg(
            sf.min(sf.expr(f"if(kind = 0 and acks = {_ACKS_ALL} or kind = 1, completed_ns, null)")).alias("known_ns"),
            sf.min(sf.expr("if(kind < 2, completed_ns, null)")).alias("named_ns"),
            sf.max(sf.expr("if(kind = 2, completed_ns, null)")).alias("read_ns"),
        )
        .withColumn("is_sure", sf.expr("coalesce(known_ns < asked_ns, false) or offset < start"))
        .where("read_ns is not null and (is_sure or named_ns < asked_ns)")  # what came later was not there yet
    )
    found = known.groupBy("run", "partition_id", "end", "asked_ns").agg(
        sf.count("*").alias("count"),
        sf.min("offset").alias("first"),
        sf.max("offset").alias("last"),
        sf.count_if("is_sure").alias("sure"),
        sf.min(sf.expr("if(is_sure, offset, null)")).alias("sure_first"),
        sf.max(sf.expr("if(is_sure, offset, null)")).alias("sure_last"),
        sf.max("read_ns").alias("read_ns"),
    )
    return typed(AboveRow, found.toArrow())


def _answers(rows: Iterable[FinalReadRow], partitions: Iterable[Mapping[str, object]]) -> dict[int, list[FinalReadRow]]:
    """The answered ends by partition, in order."""
    numbers = {(row["topic"], row["partition"]): row["partition_id"] for row in partitions}
    found: dict[int, list[FinalReadRow]] = {}
    for row in sorted(rows, key=lambda row: row["invoked_ns"]):
        number = numbers.get((row["topic"], row["partition"]))
        if row["event"] == "end" and isinstance(number, int):
            found.setdefault(number, []).append(row)
    return found


def _exceeded(rows: Sequence[FinalReadRow]) -> FinalReadRow | None:
    """The lowest answer, if the reader came beyond it or a higher one was given too."""
    lowest = min(rows, key=lambda row: row["to_offset"])
    reached = max(max(row["from_offset"], row["to_offset"]) for row in rows)
    return lowest if reached > lowest["to_offset"] else None


def _start(history: PartitionHistory) -> int:
    """Where the last leader's own epoch begins, -1 where that is unknown."""
    start = history.elections[-1].start if history.elections else None
    return -1 if start is None else start


# ---- findings ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Above:
    """What is known above a told end: `sure` records had to be below it by then. offsets: of all, or first and last."""

    answered: AnsweredEnd
    count: int
    sure: int
    offsets: Sequence[int]
    values: Sequence[int] = ()
    known_ns: int  # by when the last of the sure ones was known
    read: bool  # the final read returned them afterwards


def find(context: RunContext) -> list[Finding]:
    findings = [*_late(context)]
    returned = {row["partition_id"]: row for row in context.rows[ANSWER]}
    answers = _answers(context.tables[FINAL_READS], context.tables[PARTITIONS])
    unread = dict(_unread_by_partition(context))
    for partition_id in sorted({*returned, *unread}):
        history = context.partition(partition_id)
        standing = _standing(context, history, answers.get(partition_id, ()), unread.get(partition_id, ()))
        for above in (_returned(returned.get(partition_id), answers.get(partition_id, ())), standing):
            if above is not None:
                findings.append(_finding(context, history, above))
    return findings


def _unread_by_partition(context: RunContext) -> Iterable[tuple[int, list[Flagged]]]:
    for history, rows in context.by_partition("lost", "unseen"):
        yield history.partition_id, rows


def _returned(row: AboveRow | None, answers: Sequence[FinalReadRow]) -> _Above | None:
    if row is None:
        return None
    nodes = [
        each["node"] for each in answers if (each["to_offset"], each["invoked_ns"]) == (row["end"], row["asked_ns"])
    ]
    low, high = (row["sure_first"], row["sure_last"]) if row["sure"] else (row["first"], row["last"])
    return _Above(
        answered=AnsweredEnd(end=row["end"], asked_ns=row["asked_ns"], node=next(iter(nodes), None)),
        count=row["count"],
        sure=row["sure"],
        offsets=sorted({each for each in (low, high) if each is not None}),
        known_ns=row["asked_ns"],
        read=True,
    )


def _standing(
    context: RunContext, history: PartitionHistory, answers: Sequence[FinalReadRow], rows: Sequence[Flagged]
) -> _Above | None:
    """Records that no final read returned, and that the last leader's log has at or above the told end."""
    answered = _answered_end(context, history, answers)
    leader = history.states[-1]["leader"] if history.states else -1
    last = history.end_snapshots.get(leader)
    if answered is None or last is None:
        return None
    held = [
        row
        for row in rows
        if row.offset is not None
        and row.offset >= answered.end
        and any((copy.node, copy.snapshot) == (leader, last["snapshot"]) for copy in row.copies)
    ]
    mark, start = _mark_on_disk(history), _start(history)
    sure = [row for row in held if _was_committed(row, answered, start)]
    members = sure or [row for row in held if row.offset is not None and row.offset < mark]
    if not members:
        return None
    return _Above(
        answered=answered,
        count=len(members),
        sure=len(sure),
        offsets=[row.offset or 0 for row in members],
        values=[row.value for row in members],
        known_ns=max(_known_ns(row) for row in members),
        read=False,
    )


def _answered_end(
    context: RunContext, history: PartitionHistory, answers: Sequence[FinalReadRow]
) -> AnsweredEnd | None:
    """The last answer: nobody was told more afterwards."""
    if answers:
        last = answers[-1]
        return AnsweredEnd(end=last["to_offset"], asked_ns=last["invoked_ns"], node=last["node"])
    if history.end_offset is None:
        return None
    stable = {row["partition_id"]: row["last_stable_offset"] for row in context.tables[PARTITIONS]}
    return AnsweredEnd(
        end=history.end_offset,
        asked_ns=read_since(context).get(history.partition_id),
        perhaps_stable=_may_be_stable(context, history, stable.get(history.partition_id)),
    )


def _may_be_stable(context: RunContext, history: PartitionHistory, stable: int | None) -> bool:
    """Whether the answer may be the last stable offset, to a reader of which nobody knows what it asked for: without
    transactions that is the end."""
    return bool(context.tables[TRANSACTIONS]) if stable is None else stable == history.end_offset


def _was_committed(row: Flagged, answered: AnsweredEnd, start: int) -> bool:
    """Whether a high watermark had passed it before the question."""
    if row.offset is not None and row.offset < start:
        return True
    acknowledged = row.status == STATUS_OK and row.acknowledged == row.offset and row.acks == _ACKS_ALL
    if not (acknowledged or row.seen & SEEN_POLL):
        return False
    return answered.asked_ns is None or _known_ns(row) < answered.asked_ns


def _known_ns(row: Flagged) -> int:
    acknowledged = row.status == STATUS_OK and row.acks == _ACKS_ALL and row.completed_ns is not None
    return row.completed_ns or 0 if acknowledged else row.read_first or row.completed_ns or 0


def _mark_on_disk(history: PartitionHistory) -> int:
    """The highest high watermark that lay beside an in-sync replica's log at the end, at most that log's end."""
    ends = [history.end_snapshots[node] for node in history.final_isr if node in history.end_snapshots]
    return max((min(end["high_watermark"] or 0, end["log_end_offset"]) for end in ends), default=0)


def _finding(context: RunContext, history: PartitionHistory, above: _Above) -> Finding:
    answered, leader = above.answered, history.elections[-1] if history.elections else None
    classification, cause = _classed(context, history, above)
    count = above.sure or above.count
    known = "acknowledged with acks=all or read before" if above.sure else "known"
    if above.read:
        then = f"{plural(count, 'was')} returned when the reader went on"
    else:
        then = f"{plural(count, 'is')} in the log of its leader, and no reader got further"
    sentence = (
        f"The final read was told that {history.name} ends at {answered.end}, and {plural(count, 'record')} {known} "
        f"(at {_place(above)}) {then}: {cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind="read-on" if above.read else "not-read",
        topic=history.topic,
        partition=history.partition,
        count=count,
        sentence=sentence,
        cause=cause,
        epoch=None if leader is None else leader.epoch,
        offsets=list(above.offsets),
        values=list(above.values),
        first_ns=answered.asked_ns,
        last_ns=answered.asked_ns,
        open_question=cause.doubt is not None,
        evidence={
            "told_end": answered.end,
            "asked_ns": answered.asked_ns,
            "asked_node": answered.node,
            "leader": None if leader is None else leader.leader,
            "epoch_start_offset": None if leader is None else leader.start,
            "high_watermarks": [
                {"replica": node, "high_watermark": end["high_watermark"]}
                for node, end in sorted(history.end_snapshots.items())
            ],
        },
    )


def _place(above: _Above) -> str:
    return (
        span_words(above.offsets[0], above.offsets[-1])
        if above.read
        else f"offset{'s' if above.count > 1 else ''} {ranges(above.offsets)}"
    )


def _classed(context: RunContext, history: PartitionHistory, above: _Above) -> tuple[Class, Cause]:
    """A violation only where the release promises it, and only the leader in force can have answered."""
    promised, answered = _is_promised(context.history.scenario), above.answered
    if promised is False:
        return "observation", Cause(code="end-told-before-kip-207")
    when = above.known_ns if answered.asked_ns is None else answered.asked_ns
    leader = _leader_since(context, history, when)
    last = _last_by(history, when)
    if last is not None and answered.node is not None and answered.node != last.leader:
        return "observation", Cause(code="end-told-by-a-deposed-leader", nodes=(answered.node,))
    if not above.sure and above.read:
        return "observation", Cause(code="end-told-before-they-were-committed")
    doubt: Doubt | None = None
    if leader is None:
        doubt = Doubt(code="end-told-by-whom")
    elif answered.perhaps_stable:
        doubt = Doubt(code="end-told-to-whom")
    elif not above.sure:
        doubt = Doubt(code="end-told-before-the-mark")
    elif promised is None:
        doubt = Doubt(code="end-told-on-an-unknown-release")
    code: Literal["end-told-too-low", "end-told-in-doubt"] = "end-told-in-doubt" if doubt else "end-told-too-low"
    return "observation" if doubt else "violation", Cause(code=code, doubt=doubt)


def _is_promised(scenario: Scenario | None) -> bool | None:
    """Whether the release keeps KIP-207; None: it is not known which release this is, or another system."""
    if scenario is None:
        return None
    release = scenario.cluster.release
    if release is None or release == PROMISED_SINCE[:1]:
        return True if scenario.cluster.system == REFERENCE else None
    return release >= PROMISED_SINCE


def _leader_since(context: RunContext, history: PartitionHistory, time_ns: int) -> int | None:
    """The last leader, if it was in force at that time already and nobody else can have answered; None otherwise."""
    last = _last_by(history, time_ns)
    return last.leader if last is not None and context.judge(history).is_the_leader_in_force(time_ns) else None


def _last_by(history: PartitionHistory, time_ns: int) -> Election | None:
    """The last election, if it was over by then."""
    last = history.elections[-1] if history.elections else None
    return last if last is not None and history.exact and last.latest_t < time_ns else None


def _late(context: RunContext) -> Iterable[Finding]:
    """Records that the final read lacked when it came to its end, and got when it asked for them again."""
    grouped: dict[tuple[str, int], list[FinalReadRow]] = {}
    for row in context.tables[FINAL_READS]:
        if row["event"] == "again" and row["found"]:
            grouped.setdefault((row["topic"], row["partition"]), []).append(row)
    for (topic, partition), rows in sorted(grouped.items()):
        count = sum(row["found"] or 0 for row in rows)
        late_ns = max(row["completed_ns"] - (row["since_ns"] or row["completed_ns"]) for row in rows)
        first, last = min(row["from_offset"] for row in rows), max(row["to_offset"] for row in rows) - 1
        cause = Cause(code="readable-later")
        sentence = (
            f"{plural(count, 'record')} of {topic}-{partition} that {plural(count, 'was')} known before "
            f"({span_words(first, last)}) {plural(count, 'was')} not returned by the final read when it came to its "
            f"end, and {plural(count, 'was')} there when fetched again, {late_ns / 1e9:.0f} s later: "
            f"{cause_words(cause)}."
        )
        yield Finding(
            run=context.run,
            check=LATE,
            classification="observation",
            kind="read-again",
            topic=topic,
            partition=partition,
            count=count,
            sentence=sentence,
            cause=cause,
            offsets=[first, last],
            first_ns=min(row["since_ns"] or row["invoked_ns"] for row in rows),
            last_ns=max(row["completed_ns"] for row in rows),
            evidence={"late_ns": late_ns},
        )


FAMILY = Family(name=CHECK, find=find, query=query)
