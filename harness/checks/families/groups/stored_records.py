"""What a group has stored, as a record of its partition of __consumer_offsets: where logs have it, and what took it.

The coordinator writes with acks=all and answers then. So what the contract says of a lost record it says of a commit,
or of a generation, that is gone. An offset that was sent to a transaction is two records: itself, and the marker that
commits it. What happened after it was found gone is no cause of that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.checks.contract.coordinators_log import known_by
from harness.checks.contract.rule import rule
from harness.checks.contract.rulings import Ruling
from harness.checks.families.groups.group_partition import Kept
from harness.checks.findings import RunContext, is_damaged
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.model.watermarks import CHECKPOINT_NS
from harness.checks.spark.detection import Copy
from harness.history.facts.incarnations import client_name
from harness.history.facts.internal_topics import CLOCKS_APART_NS
from harness.history.schema.client_rows import GROUP_EVENTS
from harness.history.schema.cluster_rows import SnapshotRow
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, ConsumerOffsetsRow
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK


def rulings_on(context: RunContext, place: PartitionHistory, kept: Kept) -> list[Ruling]:
    """One for each record that it may be; none where it may be one that no log has.

    What was sent to a transaction is excused by them and never accused: that its record and its marker stand in a log
    says nothing of a later one of the same offset, which a later leader's marker may have left without its record.
    """
    known = known_by(place, kept.gone_ns)
    rulings = [rule(known, lost) for lost in _records(context, place, kept)]
    in_a_transaction = any(row["transactional"] for row in _rows(context, place, kept))
    return [] if in_a_transaction and any(each.classification != "permitted" for each in rulings) else rulings


def offset_of(context: RunContext, place: PartitionHistory, kept: Kept) -> int | None:
    """Where it stands in the logs that were read, if that is one place. Of what was sent to a transaction that is its
    marker's, which stands above it: whatever takes the one, or the other, takes the marker."""
    rows = _rows(context, place, kept)
    if len({row["offset"] for row in rows}) != 1 or _times_written(context, kept) != 1:
        return None
    found = {_last_offset(context, place, row) for row in rows}
    return found.pop() if len(found) == 1 else None


def is_still_stored(context: RunContext, place: PartitionHistory, kept: Kept) -> bool:
    """Whether a replica in sync had the record at the end: nothing took it, or an unclean election brought it back. Of
    what was sent to a transaction, if nobody sent the same again, its marker, too, from before it was asked for: a
    later one may be there for one that was lost."""
    ends = {row["snapshot"] for node, row in place.end_snapshots.items() if node in place.final_isr}
    came_back = any(each.unclean and each.latest_t >= kept.gone_ns for each in place.elections)
    return not came_back and any(ends & _have(context, kept, row) for row in _rows(context, place, kept))


def _have(context: RunContext, kept: Kept, row: ConsumerOffsetsRow) -> set[int]:
    """The logs with it, and with the marker that commits it."""
    logs = set(row["snapshots"])
    if not row["transactional"]:
        return logs
    marker, asked_ns = _first_marker(context, row), kept.gone_ns if kept.asked_ns is None else kept.asked_ns
    if marker is None or (marker["time_ns"] or 0) + CLOCKS_APART_NS >= asked_ns or _times_written(context, kept) != 1:
        return set()
    return logs & set(marker["snapshots"])


# ---- which record it is ---------------------------------------------------------------------------------------------


def _rows(context: RunContext, place: PartitionHistory, kept: Kept) -> list[ConsumerOffsetsRow]:
    begin_ns, end_ns = _span(kept)
    return [
        row
        for row in context.tables[CONSUMER_OFFSETS]
        if (row["partition"], row["group"], row["removed"]) == (place.partition, kept.group, False)
        and row["time_ns"] is not None
        and begin_ns <= row["time_ns"] <= end_ns
        and _is_of(kept, row)
    ]


def _span(kept: Kept) -> tuple[int, int]:
    """When it was written, by the broker's clock."""
    return kept.sent_ns - CLOCKS_APART_NS, kept.stored_ns + CLOCKS_APART_NS


def _is_of(kept: Kept, row: ConsumerOffsetsRow) -> bool:
    if row["kind"] == "offset":
        place = client_name(kept.partition.topic), kept.partition.partition, kept.offset
        return (row["topic"], row["topic_partition"], row["committed_offset"]) == place
    is_generation = row["kind"] in ("group", "group_epoch")
    return is_generation and kept.generation is not None and row["generation"] == kept.generation


def _records(context: RunContext, place: PartitionHistory, kept: Kept) -> Iterator[LostRecord]:
    found = {_identity(row): row for row in _rows(context, place, kept)}
    if len(found) < _times_written(context, kept):
        return  # one of them was in no log that was read, and that may be this one
    markers = [_marker_of(context, place, row) for row in found.values() if row["transactional"]]
    if any(marker is None for marker in markers):
        return  # nobody knows what became of it
    shown_ns = kept.shown_ns if kept.shown_ns is not None and kept.shown_ns > kept.stored_ns else None
    for row in found.values():
        yield replace(_lost(context, place, row, kept.sent_ns, kept.stored_ns), t_last_read=shown_ns)
    yield from (marker for marker in markers if marker is not None)


def _last_offset(context: RunContext, place: PartitionHistory, row: ConsumerOffsetsRow) -> int | None:
    """Of itself, or of the marker that commits it; None: that is not known."""
    if not row["transactional"]:
        return row["offset"]
    marker = _marker_of(context, place, row)
    return None if marker is None else marker.offset


def _first_marker(context: RunContext, row: ConsumerOffsetsRow) -> ConsumerOffsetsRow | None:
    """The marker that commits it. Where another one follows in another log, that was written after the first was
    cut."""
    beyond = [
        other
        for other in context.tables[CONSUMER_OFFSETS]
        if (other["kind"], other["partition"], other["producer_id"]) == ("marker", row["partition"], row["producer_id"])
        and other["offset"] > row["offset"]
    ]
    first = [
        own[0]
        for number in row["snapshots"]
        if (
            own := sorted(
                (other for other in beyond if number in other["snapshots"]), key=lambda other: other["offset"]
            )
        )
    ]
    marker = min(first, key=lambda each: (each["leader_epoch"] or 0, each["time_ns"] or 0), default=None)
    return None if marker is None or not marker["commits"] or marker["time_ns"] is None else marker


def _marker_of(context: RunContext, place: PartitionHistory, row: ConsumerOffsetsRow) -> LostRecord | None:
    """The marker that commits it, from when on it certainly was replicated: a mark that was read stood above it, which
    is not from before a cut."""
    marker = _first_marker(context, row)
    if marker is None or marker["time_ns"] is None:
        return None
    shown = (
        log["time_ns"]
        for log in place.snapshots
        if log["snapshot"] in marker["snapshots"] and _is_below_its_mark(place, log, marker["offset"])
    )
    replicated_ns = min(shown, default=None)
    if replicated_ns is None:
        return None
    # A disk is read before it is destroyed, even at the same time stamp.
    return _lost(context, place, marker, marker["time_ns"] - CLOCKS_APART_NS, replicated_ns - 1)


def _is_below_its_mark(place: PartitionHistory, log: SnapshotRow, offset: int) -> bool:
    """Whether the mark beside that log stood above the offset; not by one that may be older than a cut below that."""
    cut = any(
        each.node == log["node"]
        and each.to_offset <= offset
        and log["time_ns"] - CHECKPOINT_NS <= each.time_ns <= log["time_ns"] + CLOCKS_APART_NS
        for each in place.truncations
    )
    return not cut and (log["high_watermark"] or 0) > offset


def _lost(
    context: RunContext, place: PartitionHistory, row: ConsumerOffsetsRow, sent_ns: int, stored_ns: int
) -> LostRecord:
    nodes = {log["snapshot"]: log["node"] for log in place.snapshots}
    beside = [
        other
        for other in context.tables[CONSUMER_OFFSETS]
        if (other["partition"], other["offset"]) == (place.partition, row["offset"])
        and _identity(other) != _identity(row)
    ]
    return LostRecord(
        offset=row["offset"],
        epoch=row["leader_epoch"],
        acks=-1,
        t_acknowledged=stored_ns,
        committed=True,
        in_a_log=True,
        copies=_copies([row], nodes),
        others=_copies(beside, nodes),
        matched=not is_damaged(place, row["offset"]),
        t_sent=sent_ns,
    )


def _identity(row: ConsumerOffsetsRow) -> tuple[int, int | None, int | None]:
    return row["offset"], row["leader_epoch"], row["time_ns"]


def _copies(rows: Sequence[ConsumerOffsetsRow], nodes: Mapping[int, int]) -> frozenset[Copy]:
    return frozenset(
        Copy(node=nodes[number], snapshot=number, epoch=row["leader_epoch"])
        for row in rows
        for number in row["snapshots"]
        if number in nodes
    )


def _times_written(context: RunContext, kept: Kept) -> int:
    """How often at most that very offset was written in that time, by the commits that were not refused."""
    if kept.offset is None:
        return 1
    begin_ns, end_ns = _span(kept)
    place = kept.group, kept.partition.topic, kept.partition.partition, kept.offset
    return sum(
        (event["group"], event["topic"], event["partition"], event["offset"]) == place
        and event["event"] == "committed"
        and event["status"] != STATUS_FAIL
        and event["invoked_ns"] <= end_ns
        and (event["completed_ns"] >= begin_ns or event["status"] != STATUS_OK)
        for event in context.tables[GROUP_EVENTS]
    )
