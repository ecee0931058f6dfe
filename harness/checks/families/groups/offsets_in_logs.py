"""Which record of the kept log of __consumer_offsets is which commit of the clients': by what it says, and when.

Of two commits the one whose record stands later holds, whichever was answered first (KAFKA-5247).
"""

from collections.abc import Mapping

from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.model.kept_logs import LoggedOffset, OffsetKey, logged_offsets, paired
from harness.history.schema.schemas import STATUS_FAIL

Place = tuple[int, int, int, int, int]  # run, process, partition_id, invoked_ns, offset


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
