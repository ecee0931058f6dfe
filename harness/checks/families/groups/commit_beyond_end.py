"""Commits beyond the end: a group's committed offset is above everything that the partition's log ever held since.

A coordinator stores whatever offset it is sent and compares it with no log, so no promise is broken: it is an
observation. A group that goes on there is out of range, or passes over what is written up to that offset later. Offsets
that elections, truncations or lost disks may have cut off, and those of a topic that was deleted, are not told.
"""

from collections.abc import Iterator
from typing import NamedTuple

from harness.checks.contract.deposed import READ_AHEAD_NS
from harness.checks.contract.rulings import Cause
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.causes import cause_words
from harness.history.schema.client_rows import GROUP_EVENTS
from harness.history.schema.internal_rows import CONSUMER_OFFSETS
from harness.history.schema.schemas import STATUS_OK

CHECK = "commit-beyond-end"


class _Committed(NamedTuple):
    """process: None of a record in the group's log, which nobody of the run is known to have sent."""

    offset: int
    time_ns: int
    process: int | None


def find(context: RunContext) -> list[Finding]:
    by_place: dict[tuple[str, int], dict[str, _Committed]] = {}  # the highest of each group
    for topic, partition, group, committed in _commits(context):
        own = by_place.setdefault((topic, partition), {})
        own[group] = max(own.get(group, committed), committed, key=lambda each: (each.offset, -each.time_ns))
    findings = []
    for history in context.history.partitions.values():
        end = _end(history)
        for group, committed in sorted(by_place.get((history.topic, history.partition), {}).items()):
            if end is not None and committed.offset > end and not _may_be_cut(history, committed, end):
                findings.append(_finding(context, history, group, committed, end))
    return findings


def _commits(context: RunContext) -> Iterator[tuple[str, int, str, _Committed]]:
    for event in context.tables[GROUP_EVENTS]:
        is_commit = event["event"] == "committed" and event["status"] == STATUS_OK
        if is_commit and event["offset"] is not None and event["group"]:
            committed = _Committed(event["offset"], event["completed_ns"], event["process"])
            yield event["topic"], event["partition"], event["group"], committed
    anew = {history.topic for history in context.history.partitions.values() if history.is_recreated}
    for row in context.tables[CONSUMER_OFFSETS]:
        topic, partition, group = row["topic"], row["topic_partition"], row["group"]
        if row["kind"] != "offset" or row["removed"] or row["transactional"] or topic is None or topic in anew:
            continue
        if partition is not None and group and row["committed_offset"] is not None and row["time_ns"] is not None:
            yield topic, partition, group, _Committed(row["committed_offset"], row["time_ns"], None)


def _end(history: PartitionHistory) -> int | None:
    """Where the longest log that was read at the end ended; without the last leader's, what the final read was told."""
    ends = {node: row["log_end_offset"] for node, row in history.end_snapshots.items()}
    leader = history.states[-1]["leader"] if history.states else None
    if leader in ends or (history.replicas and set(history.replicas) <= ends.keys()):
        return max((*ends.values(), history.end_offset or 0))
    return history.end_offset if history.read_to_end else None


def _may_be_cut(history: PartitionHistory, committed: _Committed, end: int) -> bool:
    if history.deletion is not None or history.is_set_apart:
        return True
    if any(cut.to_offset < committed.offset <= cut.from_offset for cut in history.truncations):
        return True
    if any(
        loss.event.destroyed(history.topic, history.partition, committed.offset - 1) is not False
        for loss in history.disk_losses
    ):
        return True
    later = (each for each in history.elections[1:] if each.latest_t + READ_AHEAD_NS >= committed.time_ns)
    return any(each.start is None or each.start < committed.offset for each in later)


def _finding(context: RunContext, history: PartitionHistory, group: str, committed: _Committed, end: int) -> Finding:
    cause = Cause(code="commits-are-not-compared")
    who = "" if committed.process is None else f" by process {committed.process}"
    sentence = (
        f"Group {group} committed offset {committed.offset} of {history.name}{who}, "
        f"{context.history.seconds(committed.time_ns)}, and the log ended at {end} afterwards, which nothing had cut: "
        f"{cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification="observation",
        kind="beyond",
        topic=history.topic,
        partition=history.partition,
        count=1,
        sentence=sentence,
        cause=cause,
        offsets=[end, committed.offset],
        first_ns=committed.time_ns,
        last_ns=committed.time_ns,
        evidence={"group": group, "committed": committed.offset, "log_end_offset": end},
    )


FAMILY = Family(name=CHECK, find=find)
