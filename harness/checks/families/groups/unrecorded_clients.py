"""What a client that nobody recorded did to a group: by the group's own log, behind the commit that is missed.

An application runs tools of its own, and other people use their cluster: kafka-consumer-groups sets offsets, deletes
them (KIP-496), and deletes groups. The run has no event of that, and the group's log has its record. One of an offset
says what was committed, for a coordinator makes none up. A tombstone may be of a deletion that was asked for, or of an
expiry that was not due, and no record says which.
"""

from harness.checks.contract.rulings import Cause, CauseCode, Class, Doubt
from harness.checks.families.groups.group_partition import Kept
from harness.checks.findings import RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.history.facts.incarnations import client_name
from harness.history.facts.internal_topics import CLOCKS_APART_NS
from harness.history.schema.client_rows import GROUP_EVENTS
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, ConsumerOffsetsRow
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK

COMMITTED: CauseCode = "group-offsets-committed-by-somebody"
_DELETED = Cause(code="group-offsets-deleted-by-somebody", doubt=Doubt(code="deleted-by-somebody"))


def by_somebody(context: RunContext, kept: Kept) -> tuple[Class, Cause] | None:
    """By the last record of the group's log that may have done it; None: none did, or nobody else was there."""
    if not _were_others_there(context):
        return None
    own = [row for row in context.tables[CONSUMER_OFFSETS] if _is_of(kept, row)]
    stored = max((row["offset"] for row in own if _may_be_the_kept(kept, row)), default=-1)
    later = [row for row in own if row["offset"] > stored and _was_written_since(kept, row)]
    # A generation is what the group's own members reached; of any offset, their own commits are no stranger's.
    is_told_apart = kept.offset is not None and kept.generation is None
    theirs = [
        row for row in later if row["removed"] or (is_told_apart and not _is_recorded(context, kept.partition, row))
    ]
    last = max(theirs, key=lambda row: row["offset"], default=None)
    if last is None:
        return None
    if last["removed"]:
        return "observation", _DELETED
    return "permitted", Cause(code=COMMITTED, offset=last["committed_offset"])


def set_to(cause: Cause) -> int | None:
    """Where somebody had set the group, whose members begin there and nowhere else; None: that is not the cause."""
    return cause.offset if cause.code == COMMITTED else None


def _is_of(kept: Kept, row: ConsumerOffsetsRow) -> bool:
    if row["group"] != kept.group or row["transactional"]:
        return False
    if kept.generation is not None:
        return row["kind"] in ("group", "group_epoch") and (row["removed"] or row["generation"] == kept.generation)
    place = client_name(kept.partition.topic), kept.partition.partition
    return row["kind"] == "offset" and (row["topic"], row["topic_partition"]) == place


def _may_be_the_kept(kept: Kept, row: ConsumerOffsetsRow) -> bool:
    said = row["generation"] == kept.generation and row["committed_offset"] == kept.offset
    return said and not row["removed"] and (row["time_ns"] or 0) <= kept.stored_ns + CLOCKS_APART_NS


def _was_written_since(kept: Kept, row: ConsumerOffsetsRow) -> bool:
    begin_ns, end_ns = kept.sent_ns - CLOCKS_APART_NS, kept.gone_ns + CLOCKS_APART_NS
    return row["time_ns"] is not None and begin_ns <= row["time_ns"] <= end_ns


def set_ahead(
    context: RunContext, group: str | None, partition: PartitionHistory, beyond: int, *, by_ns: int
) -> Cause | None:
    """By which commit of somebody's the group was to pass over a record at that offset, which it had done by then;
    None: there is none."""
    if group is None or not _were_others_there(context):
        return None
    place = group, client_name(partition.topic), partition.partition
    offsets = [
        offset
        for row in context.tables[CONSUMER_OFFSETS]
        if (row["group"], row["topic"], row["topic_partition"]) == place
        and row["kind"] == "offset"
        and not (row["removed"] or row["transactional"])
        and (row["time_ns"] or 0) <= by_ns + CLOCKS_APART_NS
        and (offset := row["committed_offset"]) is not None
        and offset > beyond
        and not _is_recorded(context, partition, row)
    ]
    return Cause(code=COMMITTED, offset=min(offsets)) if offsets else None


def _were_others_there(context: RunContext) -> bool:
    scenario = context.history.scenario
    return scenario is None or scenario.cluster.is_foreign or scenario.is_an_applications


def _is_recorded(context: RunContext, partition: PartitionHistory, row: ConsumerOffsetsRow) -> bool:
    """Whether a client of the run committed it: one that was not answered may have been heard at any time since."""
    said = row["group"], partition.topic, partition.partition, row["committed_offset"]
    written_ns = row["time_ns"] or 0
    return any(
        (event["group"], event["topic"], event["partition"], event["offset"]) == said
        and event["event"] == "committed"
        and event["status"] != STATUS_FAIL
        and event["invoked_ns"] - CLOCKS_APART_NS <= written_ns
        and (event["status"] != STATUS_OK or written_ns <= event["completed_ns"] + CLOCKS_APART_NS)
        for event in context.tables[GROUP_EVENTS]
    )
