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

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.checks.contract.deletion import outcome
from harness.checks.contract.destruction import Destruction, destruction
from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, CauseCode, Class, Doubt, Rule, Ruling
from harness.checks.contract.survival import Survival, Window
from harness.checks.families.groups.group_partition import Kept, partition_of_group
from harness.checks.families.groups.group_presence import ANSWER as PRESENCE
from harness.checks.families.groups.group_presence import MINUTE_NS, RETENTION
from harness.checks.families.groups.stored_records import is_still_stored, rulings_on
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
    became, undecided = outcome(deletion, otherwise="violation", undecided=None)
    return became, Cause(code="group-offsets-deleted", doubt=undecided)


# ---- the partition of __consumer_offsets ----------------------------------------------------------------------------


def _by_its_partition(context: RunContext, place: PartitionHistory, kept: Kept) -> tuple[Class, Cause]:
    rulings = rulings_on(context, place, kept) if place.exact else []
    if {ruling.classification for ruling in rulings} in ({"permitted"}, {"violation"}):
        return rulings[0].classification, _cause_of(place, rulings[0])
    return _by_its_time(context, place, kept)


def _cause_of(place: PartitionHistory, ruling: Ruling) -> Cause:
    """Of the loss of its record."""
    if ruling.classification == "violation":
        return NOTHING_PERMITS_IT
    if ruling.destroyed or ruling.election is None:
        return _destruction_of(place, ruling.disk_losses)
    return _election_of(place, ruling.election)


def _destruction_of(place: PartitionHistory, losses: Sequence[DiskLoss]) -> Cause:
    nodes = tuple(sorted({loss.node for loss in losses}))
    return Cause(code="group-offsets-destroyed", nodes=nodes, partitions=(place.name,))


def _election_of(place: PartitionHistory, election: Election) -> Cause:
    setting = election.permission.setting
    return Cause(
        code="group-offsets-lost-in-an-election",
        nodes=(election.leader,),
        epoch=election.epoch,
        partitions=(place.name,),
        settings=() if setting is None else (setting,),
    )


def _by_its_time(context: RunContext, place: PartitionHistory, kept: Kept) -> tuple[Class, Cause]:
    """Where no log shows what became of its record."""
    survival = Survival(place)
    if kept.shown_ns is not None and kept.shown_ns > kept.stored_ns and survival.answers_alone(kept.shown_ns):
        kept = replace(kept, sent_ns=kept.shown_ns, stored_ns=kept.shown_ns)
    destroyed = _destroyed(place, survival, kept)
    if destroyed.holds:
        return "permitted", _destruction_of(place, destroyed.losses)
    elected = list(_elected_uncleanly(place, survival, kept))
    allowed = next((election for election in elected if election.allowed), None)
    if allowed is not None:
        return "permitted", _election_of(place, allowed)
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


def _destroyed(place: PartitionHistory, survival: Survival, kept: Kept) -> Destruction:
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
    since_ns = survival.answered_at(lost)
    window = Window(
        after_epoch=-1, after_t=since_ns, doubt_epoch=-1, doubt_t=since_ns, until_epoch=None, until_t=kept.gone_ns
    )
    return destruction(place, lost, None, window, until=None)


def _elected_uncleanly(place: PartitionHistory, survival: Survival, kept: Kept) -> Iterator[Election]:
    """A coordinator that was deposed may have answered it after the election."""
    for election in place.elections:
        after = election.latest_t >= kept.sent_ns or survival.may_answer_for_another(election, kept.stored_ns)
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
