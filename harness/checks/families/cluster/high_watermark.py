"""High watermark that goes back: a leader wrote down a lower one than before, in one epoch of one process.

A leader raises its high watermark as its followers fetch, and never lowers it: what a reader was given stays readable
(Kafka's UnifiedLog.maybeIncrementHighWatermark). It may start lower with another leader, whose own lags behind
(KIP-101, KIP-207), and with another process, which begins at its checkpoint. Followers take their leader's word and
are not judged.

The marks are those that brokers wrote to their disks, as their journals and the files tell them, and what Kafka's own
log says of a mark that it lowers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.checks.contract.rulings import Cause
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.model.watermarks import CHECKPOINT_NS, Mark, marks_of
from harness.checks.wording.causes import cause_words
from harness.history.schema.cluster_rows import BROKER_EVENTS

CHECK = "high-watermark-regression"
# What keeps a process alive and its files as they are; every other fault may have started it anew, or changed them.
_LEAVES_RUNNING = frozenset({"pause", "cut", "slow", "impair", "election", "reconfiguration"})
_BEGINS = ("broker_start", "broker_registered", "leadership_start", "leadership_resumed", "leadership_end")


def find(context: RunContext) -> list[Finding]:
    return [
        _finding(context, history, *fallen)
        for history in context.history.partitions.values()
        if not history.is_recreated and not history.is_set_apart
        for fallen in _first_fallen(context, history)
    ]


def _first_fallen(context: RunContext, history: PartitionHistory) -> Iterator[tuple[Election, Mark, Mark]]:
    highest: dict[tuple[int, int], _Written] = {}  # (node, epoch) -> the highest so far
    for written in _written(history):
        mark, term = written.mark, _own_term(history, written.mark)
        if term is None:
            continue
        before = highest.get((mark.node, term.epoch))
        if written.lowered_from is not None:
            before = _Written(mark=mark._replace(offset=written.lowered_from))
        if before is None or mark.offset >= before.mark.offset:
            highest[mark.node, term.epoch] = written
            continue
        # A file is read some time after the moment that is told of it.
        apart_ns = CHECKPOINT_NS if before.of_file or written.of_file else 0
        if _may_be_anew(context, history, mark.node, before.mark.time_ns, mark.time_ns):
            highest[mark.node, term.epoch] = written
        elif mark.time_ns - before.mark.time_ns >= apart_ns and not _is_gone(history, before.mark):
            yield term, before.mark, mark
            return


@dataclass(frozen=True, kw_only=True)
class _Written:
    """lowered_from: the broker's own word that it had been that. of_file: as a file had it that was read."""

    mark: Mark
    of_file: bool = False
    lowered_from: int | None = None


def _written(history: PartitionHistory) -> list[_Written]:
    """All of the partition, in order of time."""
    recorded = [_Written(mark=mark) for mark in marks_of(history)]
    lowered = [
        _Written(mark=Mark(row["node"], row["time_ns"], row["to_offset"]), lowered_from=row["from_offset"])
        for row in history.events
        if row["event"] == "high_watermark_lowered" and row["to_offset"] is not None
    ]
    read = [
        _Written(mark=Mark(row["node"], row["time_ns"], row["high_watermark"]), of_file=True)
        for row in history.snapshots
        if row["reason"] != "truncation" and row["high_watermark"] is not None
    ]
    return sorted([*recorded, *lowered, *read], key=lambda each: (each.mark.time_ns, each.of_file))


def _own_term(history: PartitionHistory, mark: Mark) -> Election | None:
    """The election since which the broker that wrote it certainly led, and knew it."""
    term = history.term_at(mark.time_ns)
    if term is None or term.leader != mark.node:
        return None
    starts = [event for event in history.events if event["event"] == "leadership_start"]
    if not starts:  # nobody's were recorded
        return term if term.latest_t + CHECKPOINT_NS <= mark.time_ns else None
    own = (event for event in starts if (event["node"], event["leader_epoch"]) == (mark.node, term.epoch))
    return term if any(event["time_ns"] < mark.time_ns for event in own) else None


def _is_gone(history: PartitionHistory, mark: Mark) -> bool:
    """Whether its log ends below the mark afterwards: what was lost there is ruled as such, and told with its cause."""
    return any(
        log["node"] == mark.node and log["time_ns"] > mark.time_ns and log["log_end_offset"] < mark.offset
        for log in history.snapshots
        if log["reason"] != "truncation"
    )


def _may_be_anew(context: RunContext, history: PartitionHistory, node: int, since_ns: int, until_ns: int) -> bool:
    """Whether the broker may be another process than before, or have begun to lead again."""
    if any(end["node"] == node for end in history.ends_between(since_ns, until_ns)):
        return True
    if any(since_ns <= loss.time_ns <= until_ns for loss in history.losses_by_node.get(node, ())):
        return True
    for fault in history.faults_between(since_ns, until_ns):
        struck = node in (fault["nodes"] or (node,))
        if struck and fault["kind"] not in _LEAVES_RUNNING:
            return True
    return any(
        event["event"] in _BEGINS
        and event["node"] == node
        and since_ns < event["time_ns"] <= until_ns
        and event["topic"] in (None, history.topic)
        and event["partition"] in (None, history.partition)
        for event in context.tables[BROKER_EVENTS]
    )


def _finding(context: RunContext, history: PartitionHistory, term: Election, before: Mark, after: Mark) -> Finding:
    known = history.exact and not history.is_foreign
    cause = Cause(code="high-watermark-only-rises" if known else "high-watermark-of-a-process-unknown")
    sentence = (
        f"Broker {after.node} led {history.name} in epoch {term.epoch}, and its high watermark was {before.offset} "
        f"{context.history.seconds(before.time_ns)} and {after.offset} {context.history.seconds(after.time_ns)}"
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification="violation" if known else "observation",
        kind="within-a-term",
        topic=history.topic,
        partition=history.partition,
        count=1,
        sentence=f"{sentence}: {cause_words(cause)}.",
        cause=cause,
        epoch=term.epoch,
        offsets=[after.offset, before.offset],
        first_ns=before.time_ns,
        last_ns=after.time_ns,
        faults=[fault["fault"] for fault in history.faults_between(before.time_ns, after.time_ns)],
        open_question=not known,
        evidence={
            "node": after.node,
            "marks": [{"offset": mark.offset, "t_ns": mark.time_ns} for mark in (before, after)],
        },
    )


FAMILY = Family(name=CHECK, find=find)
