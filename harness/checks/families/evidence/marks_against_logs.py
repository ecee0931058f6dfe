"""High watermarks against log ends: a recorded mark is above the logs' ends, and nothing can have cut them since.

A high watermark is at or below its log's end. On disk it may be older than the log and then may be above the end: after
a truncation, an election whose leader began below it, or a loss of the disk.
"""

from collections.abc import Iterable, Mapping, Sequence

from harness.checks.contract.rulings import Cause
from harness.checks.families.evidence.disks_against_reads import ANSWER, CHECK, NEAR_NS
from harness.checks.findings import Finding, RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.model.watermarks import marks_of
from harness.checks.wording.words import nodes_words, plural
from harness.history.schema.cluster_rows import SnapshotRow
from harness.history.schema.column_types import END_OF_TIME_NS

_LATE_NS = 10**9  # a truncation is reported a little after the log was seen to be short


def find(context: RunContext, read_at: Mapping[int, int]) -> list[Finding]:
    """`read_at`: partition -> begin of its final read."""
    findings: list[Finding] = []
    for history in context.history.partitions.values():
        findings += _beside_their_logs(context, history)
        findings += _journalled(context, history)
        findings += _below_anothers(context, history)
        findings += _given_to_readers(context, history, read_at.get(history.partition_id))
    return [*findings, *_answered_by_all(context)]


def _beside_their_logs(context: RunContext, history: PartitionHistory) -> Iterable[Finding]:
    for log in history.snapshots:
        mark, end, node = log["high_watermark"], log["log_end_offset"], log["node"]
        if log["reason"] == "truncation" or mark is None or end is None or mark <= end:
            continue
        resting = log["reason"] != "end" or _was_harmed(history, node, log["time_ns"])
        if not _may_be_cut(history, node, mark, None if resting else log["time_ns"] - NEAR_NS, log["time_ns"]):
            sentence = (
                f"The log of {history.name} on broker {node} ended at {end} {context.history.seconds(log['time_ns'])}, "
                f"and the high watermark on the same disk was {mark}"
            )
            yield _finding(
                context,
                history,
                "beside-its-log",
                sentence,
                mark=mark,
                time_ns=log["time_ns"],
                sides={
                    "high_watermark": _side(node, mark, log["time_ns"]),
                    "log_ends": [_side(node, end, log["time_ns"])],
                },
            )


def _journalled(context: RunContext, history: PartitionHistory) -> Iterable[Finding]:
    accused = set()
    for mark in sorted(marks_of(history), key=lambda mark: -mark.offset):
        node, reported, t = mark.node, mark.offset, mark.time_ns
        log = history.end_snapshots.get(node)
        if (
            node in accused
            or log is None
            or log["log_end_offset"] is None
            or log["time_ns"] < t
            or reported <= log["log_end_offset"]
        ):
            continue
        steady = history.is_in_sync(node, t) and not _was_harmed(history, node, t)
        if not _may_be_cut(history, node, reported, t - NEAR_NS if steady else None, log["time_ns"]):
            accused.add(node)
            sentence = (
                f"Broker {node} wrote down a high watermark of {reported} for {history.name} "
                f"{context.history.seconds(t)}, and its log ended at {log['log_end_offset']} afterwards"
            )
            yield _finding(
                context,
                history,
                "beyond-its-log",
                sentence,
                mark=reported,
                time_ns=t,
                sides={
                    "high_watermark": _side(node, reported, t),
                    "log_ends": [_side(node, log["log_end_offset"], log["time_ns"])],
                },
            )


def _below_anothers(context: RunContext, history: PartitionHistory) -> Iterable[Finding]:
    """Logs of ISR members that end below another member's high watermark: each must have all records below it."""
    ends = [history.end_snapshots[node] for node in history.final_isr if node in history.end_snapshots]
    for log in ends:
        others = [each for each in ends if each["node"] != log["node"] and each["time_ns"] <= log["time_ns"]]
        highest = max(others, key=_mark, default=None)
        if highest is None or log["log_end_offset"] is None or _mark(highest) <= log["log_end_offset"]:
            continue
        mark, node, t = _mark(highest), log["node"], log["time_ns"]
        if not _may_be_cut(history, node, mark, None if _was_harmed(history, node, t) else t - NEAR_NS, t):
            sentence = (
                f"The log of {history.name} on broker {node}, in sync, ended at {log['log_end_offset']} "
                f"{context.history.seconds(t)}, and the high watermark of broker {highest['node']} was {mark} by then"
            )
            yield _finding(
                context,
                history,
                "beyond-a-member",
                sentence,
                mark=mark,
                time_ns=t,
                sides={
                    "high_watermark": _side(highest["node"], mark, highest["time_ns"]),
                    "log_ends": [_side(node, log["log_end_offset"], t)],
                },
            )


def _mark(log: SnapshotRow) -> int:
    """The high watermark, at most the log's own end."""
    return min(log["high_watermark"] or 0, log["log_end_offset"] or 0)


def _given_to_readers(context: RunContext, history: PartitionHistory, time_ns: int | None) -> Iterable[Finding]:
    reported, ends = history.end_offset, history.end_snapshots
    nodes = [node for node in (history.final_isr or history.replicas) if node in ends]
    if (
        time_ns is None
        or reported is None
        or not history.read_to_end
        or not nodes
        or len(nodes) < len(history.final_isr)
    ):
        return
    logs = [ends[node] for node in nodes]
    if any(
        log["log_end_offset"] is None or log["log_end_offset"] >= reported or log["time_ns"] < time_ns for log in logs
    ):
        return
    if not any(_may_be_cut(history, log["node"], reported, time_ns - NEAR_NS, log["time_ns"]) for log in logs):
        ended = ", ".join(f"{log['log_end_offset']} on broker {log['node']}" for log in logs)
        sentence = (
            f"The leader of {history.name} told the final read that the log ends at {reported}, and the logs of "
            f"{nodes_words(nodes)}, all that were in sync, ended before that on disk afterwards ({ended})"
        )
        yield _finding(
            context,
            history,
            "told-to-readers",
            sentence,
            mark=reported,
            time_ns=time_ns,
            sides={
                "high_watermark": {"node": None, "offset": reported, "t_ns": time_ns},
                "log_ends": [_side(log["node"], log["log_end_offset"], log["time_ns"]) for log in logs],
            },
        )


def _answered_by_all(context: RunContext) -> Iterable[Finding]:
    """Replicas killed in sync whose logs lack what had been answered to acks=all: a mark was above it by then."""
    for answer in context.rows[ANSWER]:
        row = answer["answered"]
        if row is None:
            continue
        history = context.partition(row["partition_id"])
        log = next(each for each in history.snapshots if each["snapshot"] == row["snapshot"])
        node, mark = log["node"], row["last"] + 1
        if not _may_be_cut(history, node, mark, row["since_ns"] - 2 * _LATE_NS, log["time_ns"]):
            sentence = (
                f"The log of {history.name} on broker {node}, killed while in sync, ended at {log['log_end_offset']}, "
                f"and {plural(row['count'], 'record')} up to {row['last']} had been answered to acks=all while it was, "
                f"the last one {context.history.seconds(row['answered_ns'])}"
            )
            yield _finding(
                context,
                history,
                "beyond-a-killed-member",
                sentence,
                mark=mark,
                time_ns=log["time_ns"],
                sides={
                    "high_watermark": {"node": None, "offset": mark, "t_ns": row["answered_ns"]},
                    "log_ends": [_side(node, log["log_end_offset"], log["time_ns"])],
                },
            )


def _was_harmed(history: PartitionHistory, node: int, time_ns: int) -> bool:
    """Whether a fault, or its own end, recently affected the broker: it may not know its leader, or not have written
    its mark."""
    since = time_ns - NEAR_NS
    if any(end["node"] == node for end in history.ends_between(since, time_ns)):
        return True
    return any(node in (fault["nodes"] or (node,)) for fault in history.faults_between(since, time_ns))


def _may_be_cut(history: PartitionHistory, node: int, mark: int, since: int | None, until: int) -> bool:
    """Whether the node's log, which once reached `mark`, may validly end below it by `until`.

    since: ignores events before it (None: all count).
    """
    if not history.exact:
        return True
    begin = -END_OF_TIME_NS if since is None else since
    if any(
        each.node == node and each.to_offset < mark <= each.from_offset and begin <= each.time_ns <= until + _LATE_NS
        for each in history.truncations
    ):
        return True
    losses = history.losses_by_node.get(node, ())
    if any(
        begin <= each.time_ns <= until and each.event.destroyed(history.topic, history.partition, mark - 1) is not False
        for each in losses
    ):
        return True
    return any(
        each.epoch > history.elections[0].epoch
        and begin <= each.latest_t
        and each.earliest_t <= until
        and (each.start is None or each.start < mark)
        for each in history.elections
    )


def _side(node: int, offset: int, time_ns: int) -> Mapping[str, object]:
    return {"node": node, "offset": offset, "t_ns": time_ns}


def _finding(
    context: RunContext,
    history: PartitionHistory,
    kind: str,
    sentence: str,
    *,
    mark: int,
    time_ns: int,
    sides: Mapping[str, Mapping[str, object] | Sequence[Mapping[str, object]]],
) -> Finding:
    why = "no election, truncation or lost disk explains it"
    return Finding(
        run=context.run,
        check=CHECK,
        classification="observation",
        kind=f"high-watermark-{kind}",
        topic=history.topic,
        partition=history.partition,
        count=1,
        sentence=f"{sentence}: {why}.",
        cause=Cause(code="high-watermark-above-the-log-end"),
        offsets=[mark],
        first_ns=time_ns,
        last_ns=time_ns,
        open_question=True,
        evidence=dict(sides),
    )
