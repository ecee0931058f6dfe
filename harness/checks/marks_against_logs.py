"""High watermarks against log ends: a mark was told above where the logs end, and nothing can have cut them since.

A high watermark lies at or below the end of the log it is of. On disk it may be older than the log beside it, and then
lie above it lawfully: after a truncation, an election whose leader began below it, or a loss of the disk.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.checks.disks_against_reads import CHECK, NEAR_NS
from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import Cause
from harness.checks.story import PartitionStory
from harness.checks.tables import Row
from harness.checks.watermarks import marks_of
from harness.checks.wording.words import nodes_words

_LATE_NS = 10**9  # a truncation is told a little after the log was seen to be short


def find(context: RunContext, read_at: Mapping[int, int]) -> list[Finding]:
    """`read_at`: when the final read of a partition began."""
    findings: list[Finding] = []
    for story in context.story.partitions.values():
        findings += _beside_their_logs(context, story)
        findings += _journalled(context, story)
        findings += _below_anothers(context, story)
        findings += _told_to_readers(context, story, read_at.get(story.tp))
    return findings


def _beside_their_logs(context: RunContext, story: PartitionStory) -> Iterable[Finding]:
    for log in story.snapshots:
        mark, end, node = log["high_watermark"], log["log_end"], log["node"]
        if log["reason"] == "truncation" or mark is None or end is None or mark <= end:
            continue
        resting = log["reason"] != "end" or _was_harmed(story, node, log["t"])
        if not _may_be_cut(story, node, mark, None if resting else log["t"] - NEAR_NS, log["t"]):
            sentence = (
                f"The log of {story.name} on broker {node} ended at {end} {context.story.seconds(log['t'])}, and the "
                f"high watermark on the same disk was {mark}"
            )
            yield _finding(
                context, story, "beside-its-log", sentence, mark=mark, t=log["t"],
                sides={"high_watermark": _side(node, mark, log["t"]), "log_ends": [_side(node, end, log["t"])]},
            )  # fmt: skip


def _journalled(context: RunContext, story: PartitionStory) -> Iterable[Finding]:
    accused = set()
    for mark in sorted(marks_of(story), key=lambda row: -row["to_offset"]):
        node, told, t = mark["node"], mark["to_offset"], mark["t"]
        log = story.end_snapshots.get(node)
        if node in accused or log is None or log["log_end"] is None or log["t"] < t or told <= log["log_end"]:
            continue
        steady = story.is_in_sync(node, t) and not _was_harmed(story, node, t)
        if not _may_be_cut(story, node, told, t - NEAR_NS if steady else None, log["t"]):
            accused.add(node)
            sentence = (
                f"Broker {node} wrote down a high watermark of {told} for {story.name} {context.story.seconds(t)}, and "
                f"its log ended at {log['log_end']} afterwards"
            )
            yield _finding(
                context, story, "beyond-its-log", sentence, mark=told, t=t,
                sides={"high_watermark": _side(node, told, t), "log_ends": [_side(node, log["log_end"], log["t"])]},
            )  # fmt: skip


def _below_anothers(context: RunContext, story: PartitionStory) -> Iterable[Finding]:
    """What lies below a high watermark is in the log of every member of the ISR, whoever of them told it."""
    ends = [story.end_snapshots[node] for node in story.final_isr if node in story.end_snapshots]
    for log in ends:
        others = [each for each in ends if each["node"] != log["node"] and each["t"] <= log["t"]]
        told = max(others, key=_mark, default=None)
        if told is None or log["log_end"] is None or _mark(told) <= log["log_end"]:
            continue
        mark, node, t = _mark(told), log["node"], log["t"]
        if not _may_be_cut(story, node, mark, None if _was_harmed(story, node, t) else t - NEAR_NS, t):
            sentence = (
                f"The log of {story.name} on broker {node}, in sync, ended at {log['log_end']} "
                f"{context.story.seconds(t)}, and the high watermark of broker {told['node']} was {mark} by then"
            )
            yield _finding(
                context, story, "beyond-a-member", sentence, mark=mark, t=t,
                sides={"high_watermark": _side(told["node"], mark, told["t"]),
                       "log_ends": [_side(node, log["log_end"], t)]},
            )  # fmt: skip


def _mark(log: Row) -> int:
    """As far as its own log bears it out."""
    return min(log["high_watermark"] or 0, log["log_end"] or 0)


def _told_to_readers(context: RunContext, story: PartitionStory, t: int | None) -> Iterable[Finding]:
    told, ends = story.end_offset, story.end_snapshots
    nodes = [node for node in (story.final_isr or story.replicas) if node in ends]
    if t is None or told is None or not story.read_to_end or not nodes or len(nodes) < len(story.final_isr):
        return
    logs = [ends[node] for node in nodes]
    if any(log["log_end"] is None or log["log_end"] >= told or log["t"] < t for log in logs):
        return
    if not any(_may_be_cut(story, log["node"], told, t - NEAR_NS, log["t"]) for log in logs):
        ended = ", ".join(f"{log['log_end']} on broker {log['node']}" for log in logs)
        sentence = (
            f"The leader of {story.name} told the final read that the log ends at {told}, and the logs of "
            f"{nodes_words(nodes)}, all that were in sync, ended before that on disk afterwards ({ended})"
        )
        yield _finding(
            context, story, "told-to-readers", sentence, mark=told, t=t,
            sides={
                "high_watermark": {"node": None, "offset": told, "t_ns": t},
                "log_ends": [_side(log["node"], log["log_end"], log["t"]) for log in logs],
            },
        )  # fmt: skip


def _was_harmed(story: PartitionStory, node: int, t: int) -> bool:
    """Whether a fault had to do with the broker lately: it may not have heard of its leader, nor written its mark."""
    return any(node in (fault["nodes"] or (node,)) for fault in story.faults_between(t - NEAR_NS, t))


def _may_be_cut(story: PartitionStory, node: int, mark: int, since: int | None, until: int) -> bool:
    """Whether the node's log, which had once reached `mark`, may have lawfully ended below it by `until`.

    since: what lies before that is over (None: it may still count).
    """
    if not story.exact:
        return True
    begin = -(2**62) if since is None else since
    if any(
        each.node == node and each.to_offset < mark <= each.from_offset and begin <= each.t <= until + _LATE_NS
        for each in story.truncations
    ):
        return True
    losses = story.losses_by_node.get(node, ())
    if any(
        begin <= each.t <= until and each.event.took(story.topic, story.part, mark - 1) is not False for each in losses
    ):
        return True
    return any(
        each.epoch > story.elections[0].epoch and begin <= each.latest_t and each.earliest_t <= until
        and (each.start is None or each.start < mark)
        for each in story.elections
    )  # fmt: skip


def _side(node: int, offset: int, t: int) -> Mapping[str, Any]:
    return {"node": node, "offset": offset, "t_ns": t}


def _finding(
    context: RunContext, story: PartitionStory, kind: str, sentence: str, *, mark: int, t: int,
    sides: Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]],
) -> Finding:  # fmt: skip
    why = "no election, truncation or lost disk explains it"
    return Finding(
        run=context.run, check=CHECK, classification="observation", kind=f"high-watermark-{kind}", topic=story.topic,
        part=story.part, count=1, sentence=f"{sentence}: {why}.", cause=Cause(code="high-watermark-above-the-log-end"),
        offsets=[mark], t_first=t, t_last=t, open_question=True, evidence=dict(sides),
    )  # fmt: skip
