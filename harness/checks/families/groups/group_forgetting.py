"""What may lawfully make a group forget: the offsets that it had committed, and the generation that it had reached.

Both are records of one partition of __consumer_offsets, so what took the ones may have taken the others. One rule for
everything that follows from it: offsets that are gone, records that come again, a generation that comes again, commits
of an old generation, inputs without an output. Lawful is

- expiry: offsets.retention.minutes after an offset was committed (KIP-186), since KIP-211 after its group was empty;
- the deletion of the offset's topic;
- the destruction of every in-sync copy of the group's own partition, between the answer and the moment at which it was
  found gone, or an unclean election of that partition which its settings allowed. What a disk or an election took of
  other partitions is no excuse.

Nothing is excused if the group's record is in the logs of its partition's in-sync replicas at the end. Where the
partition's states were not recorded, or only polled for, a lost disk and an unclean election that was allowed under a
fault are open questions.
"""

from collections.abc import Iterator
from dataclasses import replace

from harness.checks.contract.destruction import Destruction, destruction
from harness.checks.contract.exceptions import by_deletion
from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, CauseCode, Class, Doubt, Rule
from harness.checks.contract.timeline import Gone, Seen, Timelines, Window
from harness.checks.families.groups.group_partition import Kept, is_still_stored, partition_of_group
from harness.checks.families.groups.group_presence import ANSWER as PRESENCE
from harness.checks.families.groups.group_presence import MINUTE_NS, RETENTION
from harness.checks.findings import RunContext
from harness.checks.model.elections import Election
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import DiskLoss, PartitionHistory
from harness.history.facts.finding_facts import Setting
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.history.facts.releases import GROUPS_KEEP_THEIR_OFFSETS
from harness.history.schema.client_rows import GROUP_EVENTS
from harness.history.schema.schemas import STATUS_OK

EXPIRED: CauseCode = "group-offsets-expired"


def forgetting_ruled(context: RunContext, kept: Kept) -> tuple[Class, Cause]:
    """Class and cause of what a group forgot."""
    expired = _expired(context, kept) if kept.expires else None
    if expired is not None:
        return "permitted", expired
    place = partition_of_group(context, kept.group)
    ruled = _by_any_partition(context, kept) if place is None else _by_its_partition(context, place, kept)
    if place is not None and ruled[0] != "violation" and is_still_stored(context, place, kept):
        ruled = "violation", NOTHING_PERMITS_IT
    return ruled if ruled[0] != "violation" or kept.generation is not None else _by_deletion(kept) or ruled


# ---- expiry and deletion --------------------------------------------------------------------------------------------


def _expired(context: RunContext, kept: Kept) -> Cause | None:
    """Before KIP-211 (2.1) offsets expired whether or not their group was in use; a generation goes with its last
    member's, and with the last offset."""
    settings, since = context.history.settings, kept.stored_ns
    if kept.generation is not None or settings.release >= GROUPS_KEEP_THEIR_OFFSETS:
        since = max([since, *_seen_with_a_member(context, kept)])
    minutes = settings.numbers(RETENTION, None, since, kept.gone_ns)[0]
    if kept.gone_ns - since < minutes * MINUTE_NS:
        return None
    return Cause(code=EXPIRED, settings=(Setting(key=RETENTION, value=str(minutes), scope="broker"),))


def _seen_with_a_member(context: RunContext, kept: Kept) -> Iterator[int]:
    """When members of the group were seen with partitions of the topic, before `process` asked, but for its joining."""
    asked_ns = kept.gone_ns if kept.asked_ns is None else kept.asked_ns
    for event in context.tables[GROUP_EVENTS]:
        if (event["group"], event["status"]) != (kept.group, STATUS_OK):
            continue
        if kept.generation is None and event["topic"] != kept.partition.topic:
            continue
        joined = event["event"] == "assigned" and event["process"] != kept.process
        in_it = event["event"] == "revoked" or (event["event"] == "committed" and (event["generation"] or -1) >= 0)
        if (joined or in_it) and event["completed_ns"] <= asked_ns:
            yield event["completed_ns"]
    for row in context.rows[PRESENCE]:
        topic = context.partition(row["partition_id"]).topic
        of_it = row["group"] == kept.group and (kept.generation is not None or topic == kept.partition.topic)
        until_ns = min(row["last_ns"], asked_ns)
        if of_it and row["first_ns"] <= asked_ns and not _was_disturbed(context, kept, row["first_ns"], until_ns):
            yield until_ns


def _was_disturbed(context: RunContext, kept: Kept, since_ns: int, until_ns: int) -> bool:
    """Whether a member may have been removed from its group in that time without having heard of it."""
    faults = context.history.faults.between(since_ns, until_ns)
    return bool(faults or kept.partition.ends_between(since_ns, until_ns))


def _by_deletion(kept: Kept) -> tuple[Class, Cause] | None:
    """Coordinators forget the offsets of a topic that was deleted."""
    deletion = kept.partition.deletion
    if deletion is None or deletion.earliest_t > kept.gone_ns:
        return None
    became, undecided = by_deletion(deletion, otherwise="violation", undecided=None)
    return became, Cause(code="group-offsets-deleted", doubt=undecided)


# ---- the partition of __consumer_offsets ----------------------------------------------------------------------------


def _by_its_partition(context: RunContext, place: PartitionHistory, kept: Kept) -> tuple[Class, Cause]:
    timelines = Timelines(place)
    if kept.shown_ns is not None and kept.shown_ns > kept.stored_ns and timelines.deposed.answers_alone(kept.shown_ns):
        kept = replace(kept, sent_ns=kept.shown_ns, stored_ns=kept.shown_ns)
    destroyed = _destroyed(place, timelines, kept)
    if destroyed.holds:
        nodes = tuple(sorted({loss.node for loss in destroyed.losses}))
        return "permitted", Cause(code="group-offsets-destroyed", nodes=nodes, partitions=(place.name,))
    elected = list(_elected_uncleanly(place, timelines, kept))
    allowed = next((election for election in elected if election.allowed), None)
    if allowed is not None:
        setting = allowed.permission.setting
        return "permitted", Cause(
            code="group-offsets-lost-in-an-election",
            nodes=(allowed.leader,),
            epoch=allowed.epoch,
            partitions=(place.name,),
            settings=() if setting is None else (setting,),
        )
    in_doubt = [
        Rule(rule="unclean-election", holds=None, evidence=election)
        for election in elected
        if election.allowed is None or place.is_foreign
    ]
    if destroyed.holds is None:
        in_doubt.insert(0, Rule(rule="destruction", holds=None, evidence=destroyed))
    if in_doubt:
        doubt = Doubt(code="rule-not-decided", rule=in_doubt[0])
        return "observation", Cause(code="group-offsets-in-doubt", doubt=doubt, partitions=(place.name,))
    return ("violation", NOTHING_PERMITS_IT) if place.exact else _by_any_partition(context, kept, place)


def _destroyed(place: PartitionHistory, timelines: Timelines, kept: Kept) -> Destruction:
    """Coordinators write with acks=all, and answer before they die, whenever the answer came to be read."""
    lost = LostRecord(
        offset=None,
        epoch=None,
        acks=-1,
        t_acknowledged=kept.stored_ns,
        t_sent=kept.sent_ns,
        committed=True,
        in_a_log=False,
    )
    since_ns = timelines.answered_at(lost)
    window = Window(seen=Seen(epoch=-1, time_ns=since_ns), gone=Gone(time_ns=kept.gone_ns))
    return destruction(place, lost, None, window, until=None)


def _elected_uncleanly(place: PartitionHistory, timelines: Timelines, kept: Kept) -> Iterator[Election]:
    """A coordinator that was deposed may have answered it after the election."""
    for election in place.elections:
        after = election.latest_t >= kept.sent_ns or timelines.deposed.may_answer_for_another(election, kept.stored_ns)
        if election.unclean and election.earliest_t <= kept.gone_ns and after:
            yield election


def _by_any_partition(context: RunContext, kept: Kept, place: PartitionHistory | None = None) -> tuple[Class, Cause]:
    """Where it is not recorded who led and who was in sync. place: the group's, of which brokers were heard."""
    losses = context.history.disk_losses if place is None else place.disk_losses
    nodes = None if place is None else {node for row in place.states for node in row["replicas"] or ()}
    since_ns, until_ns = kept.stored_ns, kept.gone_ns
    if any(since_ns <= loss.time_ns <= until_ns and _may_have_held_offsets(loss, nodes) for loss in losses):
        doubt = Doubt(code="group-offsets-on-a-lost-disk")
        return "observation", Cause(code="group-offsets-on-a-lost-disk", doubt=doubt)
    faults = context.history.faults.between(since_ns, until_ns)
    if context.history.unclean_group_offsets is not False and faults:
        doubt = Doubt(code="group-offsets-elected-uncleanly")
        return "observation", Cause(code="group-offsets-elected-uncleanly", doubt=doubt)
    return "violation", NOTHING_PERMITS_IT


def _may_have_held_offsets(loss: DiskLoss, nodes: set[int] | None) -> bool:
    """Whether the lost part may have contained group offsets; damage of another topic's log does not."""
    return loss.event.topic in (None, GROUP_OFFSETS_TOPIC) and (not nodes or loss.node in nodes)
