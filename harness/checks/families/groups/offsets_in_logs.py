"""Which record of the kept log of __consumer_offsets is which commit of the clients': by what it says, and when.

Of two commits the one whose record stands later holds, whichever was answered first (KAFKA-5247). A commit without an
answer was not written if a whole log, of which nothing was lost, has no record that may be its.
"""

from collections.abc import Mapping, Sequence

from harness.checks.contract.coordinators_log import Stored, taken_from
from harness.checks.contract.timelines import Timelines
from harness.checks.families.groups.group_forgetting import CODES
from harness.checks.families.groups.group_partition import place_of_group
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.model.kept_logs import LoggedOffset, OffsetKey, logged_offsets, paired
from harness.checks.model.partition_history import RunHistory
from harness.history.facts.internal_topics import CLOCKS_APART_NS
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, ConsumerOffsetsRow
from harness.history.schema.schemas import STATUS_FAIL, STATUS_INFO, STATUS_OK

Place = tuple[int, int, int, int, int]  # run, process, partition_id, invoked_ns, offset

Commit = tuple[str | None, str | None, int | None, int | None]  # group, topic, partition, offset


def place_of(event: PlacedEvent, offset: int) -> Place:
    return event["run"], event["process"], event["partition_id"], event["invoked_ns"], offset


def in_logs(runs: JudgedRuns) -> Mapping[Place, LoggedOffset]:
    """Those of which it is certain; to be asked for by `runs.once`."""
    logged = logged_offsets(runs.tables)
    if not logged:
        return {}
    commits: dict[OffsetKey, list[tuple[int, PlacedEvent]]] = {}
    for event in runs.group_events():
        offset, inside = event["offset"], event["transaction"] is not None
        if event["event"] != "committed" or offset is None or (event["status"] == STATUS_FAIL and not inside):
            continue
        key = event["run"], event["group"], event["topic"], event["partition"], offset, inside
        commits.setdefault(key, []).append((offset, event))
    found: dict[Place, LoggedOffset] = {}
    for key, asked in commits.items():
        own = logged.get(key, [])
        spans = [(event["invoked_ns"], event["completed_ns"]) for _, event in asked]
        places = paired(spans, [each.time_ns for each in own])
        for (offset, event), at in zip(asked, places, strict=True):
            if at is not None:
                found[place_of(event, offset)] = own[at]
    return found


# ---- what was never written -----------------------------------------------------------------------------------------


def unwritten(runs: JudgedRuns) -> frozenset[Place]:
    """Commits without an answer, outside transactions, that certainly have no record; for `runs.once`."""
    events = [each for each in runs.group_events() if each["event"] == "committed" and each["transaction"] is None]
    if all(event["status"] != STATUS_INFO for event in events):
        return frozenset()
    found: set[Place] = set()
    for history in runs.histories:
        rows = runs.tables.rows(CONSUMER_OFFSETS, history.run)
        if not rows:
            continue
        own = [event for event in events if event["run"] == history.run]
        stored, answered = _by_what_they_say(rows), _by_commit(own, STATUS_OK)
        for event in (event for asked in _by_commit(own, STATUS_INFO).values() for event in asked):
            offset, said = event["offset"], _commit(event)
            if offset is None:
                continue
            theirs = all(any(_may_be_of(row, one) for one in answered.get(said, ())) for row in stored.get(said, ()))
            if theirs and _is_whole(history, rows, event):
                found.add(place_of(event, offset))
    return frozenset(found)


def _commit(event: PlacedEvent) -> Commit:
    return event["group"], event["topic"], event["partition"], event["offset"]


def _by_what_they_say(rows: Sequence[ConsumerOffsetsRow]) -> Mapping[Commit, Sequence[ConsumerOffsetsRow]]:
    """The records of commits outside transactions."""
    found: dict[Commit, list[ConsumerOffsetsRow]] = {}
    for row in rows:
        if not row["transactional"]:
            said = row["group"], row["topic"], row["topic_partition"], row["committed_offset"]
            found.setdefault(said, []).append(row)
    return found


def _by_commit(events: Sequence[PlacedEvent], status: int) -> Mapping[Commit, Sequence[PlacedEvent]]:
    found: dict[Commit, list[PlacedEvent]] = {}
    for event in events:
        if event["status"] == status:
            found.setdefault(_commit(event), []).append(event)
    return found


def _may_be_of(row: ConsumerOffsetsRow, event: PlacedEvent) -> bool:
    time_ns = row["time_ns"]
    begin_ns, end_ns = event["invoked_ns"] - CLOCKS_APART_NS, event["completed_ns"] + CLOCKS_APART_NS
    return time_ns is not None and begin_ns <= time_ns <= end_ns


def _is_whole(history: RunHistory, rows: Sequence[ConsumerOffsetsRow], event: PlacedEvent) -> bool:
    """Whether its partition's last leader has every record that was ever written there."""
    place = place_of_group(history, rows, event["group"])
    if place is None or not place.exact or not place.states:
        return False
    log = place.end_snapshots.get(place.states[-1]["leader"])
    if log is None or log["log_start_offset"] != 0:
        return False
    since_ns = event["invoked_ns"]
    stored = Stored(sent_ns=since_ns, stored_ns=since_ns, gone_ns=END_OF_TIME_NS)
    return taken_from(place, Timelines(place), stored, CODES) is None
