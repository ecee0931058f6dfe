"""What may lawfully make a group forget: the offsets that it had committed, and the generation that it had reached.

Both are records of one partition of __consumer_offsets, so what took the ones may have taken the others. One rule for
everything that follows from it: offsets that are gone, records that come again, a generation that comes again, commits
of an old generation, inputs without an output. Lawful is

- expiry: offsets.retention.minutes after an offset was committed (KIP-186), since KIP-211 after its group was empty;
- the removal of a group that has no offsets and is empty when its coordinator looks for what has expired;
- the deletion of the offset's topic;
- what a client that nobody recorded asked for (unrecorded_clients.py);
- what lawfully takes a record from its coordinator's log (contract/coordinators_log.py).

Nothing is excused if the group's record is in the logs of its partition's in-sync replicas at the end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.checks.contract.coordinators_log import (
    Codes,
    Stored,
    by_ruling,
    perhaps_taken,
    taken_from,
)
from harness.checks.contract.exceptions import by_deletion
from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, CauseCode, Class, Doubt
from harness.checks.contract.timelines import Timelines
from harness.checks.families.groups.group_partition import Kept, partition_of_group
from harness.checks.families.groups.group_presence import ANSWER as PRESENCE
from harness.checks.families.groups.group_presence import MINUTE_NS, RETENTION
from harness.checks.families.groups.stored_records import is_still_stored, offset_of, rulings_on
from harness.checks.families.groups.unrecorded_clients import by_somebody
from harness.checks.findings import RunContext
from harness.checks.model.elections import led_until
from harness.checks.model.partition_history import PartitionHistory
from harness.history.facts.finding_facts import Setting
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.history.facts.releases import GROUPS_KEEP_THEIR_OFFSETS
from harness.history.schema.client_rows import GROUP_EVENTS, GroupEventRow
from harness.history.schema.internal_rows import CONSUMER_OFFSETS
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK

EXPIRED: CauseCode = "group-offsets-expired"
REMOVED_EMPTY: CauseCode = "group-empty-without-offsets"
_LOOKS = "offsets.retention.check.interval.ms"
_MS = 1_000_000
_HEARS_NS = 10 * 10**9  # a removed member hears of it with its next heartbeat
_UP_BEFORE_NS = MINUTE_NS  # how long before the load its brokers had been started, at most
CODES = Codes(
    topic=GROUP_OFFSETS_TOPIC,
    destroyed="group-offsets-destroyed",
    elected="group-offsets-lost-in-an-election",
    in_doubt="group-offsets-in-doubt",
    on_a_lost_disk=Cause(code="group-offsets-on-a-lost-disk", doubt=Doubt(code="group-offsets-on-a-lost-disk")),
    elected_uncleanly=Cause(
        code="group-offsets-elected-uncleanly", doubt=Doubt(code="group-offsets-elected-uncleanly")
    ),
)


def forgetting_ruled(context: RunContext, kept: Kept) -> tuple[Class, Cause]:
    """Class and cause of what a group forgot."""
    expired = (_expired(context, kept) or _removed_empty(context, kept)) if kept.expires else None
    if expired is not None:
        return "permitted", expired
    place = partition_of_group(context, kept.group)
    ruled = _by_any_partition(context, kept) if place is None else _by_its_partition(context, place, kept)
    if place is not None and ruled[0] != "violation" and is_still_stored(context, place, kept):
        ruled = "violation", NOTHING_PERMITS_IT
    if ruled[0] == "violation" and kept.generation is None:
        ruled = _by_deletion(kept) or ruled
    return ruled if ruled[0] != "violation" else by_somebody(context, kept) or ruled


# ---- expiry and deletion --------------------------------------------------------------------------------------------


def _expired(context: RunContext, kept: Kept) -> Cause | None:
    """Before KIP-211 (2.1) offsets expired whether or not their group was in use; a generation goes with its last
    member's, and with the last offset."""
    settings, since = context.history.settings, kept.stored_ns
    if kept.generation is not None or settings.release >= GROUPS_KEEP_THEIR_OFFSETS:
        since = max([since, *_seen_with_a_member(context, kept)])
    place = partition_of_group(context, kept.group)  # whose leader coordinates the group
    led = led_until(place.states, since, kept.gone_ns) if place is not None and place.exact else {}
    nodes = led if led and all(map(settings.knows, led)) else (None,)
    minutes = min(settings.numbers(RETENTION, None, since, kept.gone_ns, node)[0] for node in nodes)
    if kept.gone_ns - since < minutes * MINUTE_NS:
        return None
    return Cause(code=EXPIRED, settings=(Setting(key=RETENTION, value=str(minutes), scope="broker"),))


def _removed_empty(context: RunContext, kept: Kept) -> Cause | None:
    """A generation of a group that had never committed, if its coordinator may have looked for such since its start."""
    own = [event for event in context.tables[GROUP_EVENTS] if event["group"] == kept.group]
    had_offsets = any(
        (row["kind"], row["group"]) == ("offset", kept.group) for row in context.tables[CONSUMER_OFFSETS]
    ) or any(
        event["event"] == "committed" and event["status"] != STATUS_FAIL and event["invoked_ns"] <= kept.gone_ns
        for event in own
    )
    looked_ns = context.history.settings.numbers(_LOOKS, None, 0, kept.gone_ns)[0] * _MS
    since_ns = context.history.origin - _UP_BEFORE_NS
    may_have_looked = kept.partition.is_foreign or kept.gone_ns - since_ns >= looked_ns
    if kept.generation is None or had_offsets or not may_have_looked or _stays_a_member(context, kept, own):
        return None
    setting = Setting(key=_LOOKS, value=str(looked_ns // _MS), scope="broker")
    return Cause(code=REMOVED_EMPTY, settings=(setting,))


def _stays_a_member(context: RunContext, kept: Kept, events: Sequence[GroupEventRow]) -> bool:
    """Whether a member of that generation was in the group all the while: it gave something up afterwards, or read on
    for longer than a client needs to hear that it was removed, and no fault kept it from hearing."""
    last: dict[int, GroupEventRow] = {}
    after: dict[int, GroupEventRow] = {}
    for event in events:
        if event["completed_ns"] <= kept.gone_ns:
            last[event["process"]] = event
        else:
            after.setdefault(event["process"], event)
    read_on = {
        row["process"]
        for row in context.rows[PRESENCE]
        if row["group"] == kept.group and row["first_ns"] <= kept.gone_ns <= row["last_ns"] - _HEARS_NS
    }
    return any(
        event["event"] in ("assigned", "committed", "fetched")
        and (event["generation"] or 0) >= (kept.generation or 0)
        and (process in read_on or (process in after and after[process]["event"] in ("revoked", "lost")))
        and not _was_disturbed(context, kept, event["completed_ns"], kept.gone_ns)
        for process, event in last.items()
    )


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
    rulings = rulings_on(context, place, kept) if place.exact else []
    if {ruling.classification for ruling in rulings} in ({"permitted"}, {"violation"}):
        if rulings[0].classification == "violation":
            return "violation", NOTHING_PERMITS_IT
        return "permitted", by_ruling(place, rulings[0], CODES)
    timelines = Timelines(place)
    if kept.shown_ns is not None and kept.shown_ns > kept.stored_ns and timelines.deposed.answers_alone(kept.shown_ns):
        kept = replace(kept, sent_ns=kept.shown_ns, stored_ns=kept.shown_ns)
    taken = taken_from(place, timelines, _stored(kept, offset_of(context, place, kept)), CODES)
    doubts = (ruling.undecided for ruling in rulings if ruling.undecided is not None)
    before = next((doubt for doubt in doubts if doubt.code == "lost-before-it-led"), None)
    if taken is not None and before is not None:  # an election takes only what the elected one had not lost before
        return "observation", Cause(code=CODES.in_doubt, doubt=before, partitions=(place.name,))
    if taken is None and not place.exact:
        taken = perhaps_taken(context.history, place, _stored(kept), CODES)
    return taken or ("violation", NOTHING_PERMITS_IT)


def _by_any_partition(context: RunContext, kept: Kept) -> tuple[Class, Cause]:
    return perhaps_taken(context.history, None, _stored(kept), CODES) or ("violation", NOTHING_PERMITS_IT)


def _stored(kept: Kept, offset: int | None = None) -> Stored:
    return Stored(sent_ns=kept.sent_ns, stored_ns=kept.stored_ns, gone_ns=kept.gone_ns, offset=offset)
