"""Which record of the kept log of __consumer_offsets is which commit of the clients': by what it says, and when.

Of two commits the one whose record stands later holds, whichever was answered first (KAFKA-5247). Of a commit without
an answer a whole log says more, since nothing was taken from it: where its records stand, if it has any, so that what
stands above them holds, and whether markers abort them. One that was answered may have been sent, and written, again:
it stands at one of those records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.checks.contract.coordinators_log import keeps_all_since
from harness.checks.contract.timelines import Timelines
from harness.checks.families.groups.group_partition import place_of_group
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.model.kept_logs import LoggedOffset, OffsetKey, logged_offsets, paired
from harness.checks.model.partition_history import PartitionHistory, heard_by
from harness.history.facts.internal_topics import CLOCKS_APART_NS
from harness.history.schema.internal_rows import CONSUMER_OFFSETS
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK

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


# ---- of what nobody was told ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trace:
    """records: those that may be of a commit, in order. since_ns: from then on no leader had another one. aborted:
    markers abort them all."""

    since_ns: int
    records: Sequence[LoggedOffset] = ()
    aborted: bool = False


class Traces:
    """Of commits that no certain record is of; to be asked for by `runs.once`."""

    def __init__(self, runs: JudgedRuns) -> None:
        self._runs = runs
        self._histories = {history.run: history for history in runs.histories}
        self._complete_since: dict[tuple[int, str], int | None] = {}

    @cached_property
    def _logged(self) -> Mapping[OffsetKey, Sequence[LoggedOffset]]:
        return logged_offsets(self._runs.tables)

    @cached_property
    def _answered(self) -> Mapping[OffsetKey, Sequence[PlacedEvent]]:
        found: dict[OffsetKey, list[PlacedEvent]] = {}
        for event in self._runs.group_events():
            if event["event"] == "committed" and event["status"] == STATUS_OK and event["offset"] is not None:
                found.setdefault(_key_of(event), []).append(event)
        return found

    def of(self, event: PlacedEvent, record: LoggedOffset | None) -> Trace | None:
        """record: its own, if that is certain. None: nobody knows what the log had and lost."""
        since_ns = self._since(event["run"], event["group"])
        if since_ns is None:
            return None
        answered = [each for each in self._answered.get(_key_of(event), ()) if each != event]
        own = [each for each in self._since_asked(event) if not any(_may_be_of(each, other) for other in answered)]
        own = own if record is None else [record]
        aborted = bool(own) and since_ns <= event["invoked_ns"] and all(each.commits is False for each in own)
        return Trace(since_ns=since_ns, records=own, aborted=aborted)

    def of_answered(self, event: PlacedEvent) -> Trace | None:
        """Of one that was answered, and may have been written more than once: from the first record that may be what
        was answered to the last that may be its own."""
        since_ns = self._since(event["run"], event["group"])
        if since_ns is None or since_ns > event["invoked_ns"]:
            return None
        own = self._since_asked(event)
        return Trace(since_ns=since_ns, records=own) if any(_may_be_of(each, event) for each in own) else None

    def _since_asked(self, event: PlacedEvent) -> Sequence[LoggedOffset]:
        begin_ns = event["invoked_ns"] - CLOCKS_APART_NS
        return [each for each in self._logged.get(_key_of(event), ()) if each.time_ns >= begin_ns]

    def _since(self, run: int, group: str) -> int | None:
        if (run, group) not in self._complete_since:
            rows = self._runs.tables.rows(CONSUMER_OFFSETS, run)
            place = place_of_group(self._histories[run], rows, group) if rows else None
            self._complete_since[run, group] = None if place is None else _complete_since(place)
        return self._complete_since[run, group]


def _key_of(event: PlacedEvent) -> OffsetKey:
    inside = event["transaction"] is not None
    return event["run"], event["group"], event["topic"], event["partition"], event["offset"] or 0, inside


def _may_be_of(record: LoggedOffset, event: PlacedEvent) -> bool:
    return event["invoked_ns"] - CLOCKS_APART_NS <= record.time_ns <= event["completed_ns"] + CLOCKS_APART_NS


def _complete_since(place: PartitionHistory) -> int | None:
    """From when on its last leader's log has every record from which anybody may have answered: nothing was taken from
    it afterwards, and whoever was deposed had heard of it."""
    log = place.end_snapshots.get(place.states[-1]["leader"]) if place.exact and place.states else None
    if log is None or log["log_start_offset"] != 0:
        return None
    timelines = Timelines(place)
    unclean = [each.latest_t for each in place.elections if each.unclean]
    taken = {loss.time_ns + 1 for loss in place.disk_losses}
    taken |= {heard_by(place.faults, place.replicas, time_ns) for time_ns in unclean}
    for since_ns in (0, *sorted(taken)):
        if keeps_all_since(place, timelines, since_ns):
            return since_ns
    return None
