"""Removed by configuration: acknowledged records that retention or compaction removed, which are not lost.

Retention: the record is below the log's start, the topic deleted, and either the record was older than retention.ms,
or there is enough data above the log's start for retention.bytes. Segments are removed whole, by their youngest record,
so a record's own age is a necessary condition. Compaction: the topic compacted, and its log had a later record of the
same key that was not aborted, older than min.compaction.lag.ms (KIP-58); the last such one stays unless it is a
tombstone. DeleteRecords: by its leader's own log a client had the log begin above the record, after it was sent. What
none of these allows is judged like any other loss; so is what a poll had passed over before it was old enough, before
its key had a later record, or before it was deleted.

Whose settings count, and while they are in force, cleaners.py says. A later record of the key counts only if it stayed
itself, or if what removed it came after: an election that cost it cost its effect too, because no log is compacted
above the high watermark (KAFKA-13194). What was sent after an election had cost the earlier one replaced nothing.

A tombstone may be removed after delete.retention.ms, and never before the earlier records of its key, which would
reappear. Clients of the workloads send none: this applies only to histories with tombstones (`records.tombstone`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Literal

from harness.checks import passed_over
from harness.checks.contract.deposed import READ_AHEAD_NS
from harness.checks.contract.rulings import Cause, CauseCode, Doubt
from harness.checks.families.records import gone_places
from harness.checks.families.records.cleaners import Cleaner, Cleaners
from harness.checks.families.records.gone_places import GoneRow
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.model.lost_records import kept_there
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.model.settings import is_number
from harness.checks.spark.detection import SEEN_FINAL, Flagged
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import offsets_words, plural
from harness.history.facts.finding_facts import Setting
from harness.history.facts.internal_topics import CLOCKS_APART_NS
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import STATUS_OK

CHECK = "removed-by-configuration"
WITH_ITS_TOPIC = Cause(code="deletion-of-its-topic")
_ON_REQUEST = Cause(code="deletion-of-records")
# What a record needs on disk at most, in addition to its value and key: its own headers and a batch of its own.
_OVERHEAD_BYTES = 128
_KINDS: Mapping[CauseCode, str] = {
    "compaction-of-a-key": "compaction",
    "compaction-in-doubt": "compaction",
    "compaction-of-a-tombstone": "compaction",
    "retention-in-doubt": "retention",
    "retention-time": "retention",
    "retention-size": "retention",
    "deletion-of-its-topic": "deletion",
    "deletion-of-records": "deletion",
}
_Place = tuple[int, int, int | None]  # partition_id, value, offset


@dataclass(frozen=True, kw_only=True)
class _Later:
    """A record of a key, above another that it may have replaced. lost: it is missing, and may have been lost lawfully
    after it had replaced that one."""

    sent_ns: int
    stamp_ms: int | None
    lost: Flagged | None = None


@dataclass(frozen=True, kw_only=True)
class _Above:
    """What stood above a place of the same key. stayed: of those that count whatever became of them, what allows the
    most."""

    stayed: _Later | None = None
    lost: Sequence[_Later] = ()

    def with_those_that_are_there(self, row: GoneRow) -> "_Above":
        if row["later_ns"] is None:
            return self
        return self.with_one_that_stayed(_Later(sent_ns=row["later_ns"], stamp_ms=row["later_ms"]))

    def with_one_that_stayed(self, own: _Later) -> "_Above":
        stayed = [each for each in (self.stayed, own) if each is not None]
        stamps = [each.stamp_ms for each in stayed if each.stamp_ms is not None]
        earliest = _Later(sent_ns=min(each.sent_ns for each in stayed), stamp_ms=min(stamps, default=None))
        return replace(self, stayed=earliest)


def _setting(key: str, value: int | str) -> Setting:
    return Setting(key=key, value=str(value), scope="topic")


_COMPACT = (_setting("cleanup.policy", "compact"),)


class Removal:
    """Decides for one run's records whether the configuration removed them, and why."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._settings = context.history.settings
        self._cleaners = Cleaners(self._settings)
        self._rows: Mapping[_Place, GoneRow] = {_place(row): row for row in context.rows[gone_places.ANSWER]}
        self._passed: Mapping[tuple[int, int, int], int] = {
            (row["partition_id"], row["value"], row["offset"]): row["passed_ns"]
            for row in context.rows[passed_over.ANSWER]
        }

    def of(self, row: Flagged) -> Cause | None:
        """Why the record was removed; None if no setting removes it."""
        return self.of_record(row.partition_id, row.value, row.offset)

    def of_record(self, partition_id: int, value: int, offset: int | None) -> Cause | None:
        known = self._rows.get((partition_id, value, offset))
        return None if known is None else self._why(known, self._above[_place(known)])

    def of_position(self, history: PartitionHistory, position: int, by_ns: int) -> Cause | None:
        """Why the log's start may lawfully have been above a consumer's position by then, whose reset policy says then
        where it goes on; None if it was not."""
        if position >= (history.log_start or 0):
            return None
        missing = self._missing_in_order.get(history.partition_id, ())
        there = missing[min(bisect_left(missing, position, key=_offset), len(missing) - 1)] if missing else None
        known = None if there is None else self._rows.get(_place_of(there))
        place = None if there is None else there.offset
        if _was_deleted_on_request(history, position, by_ns, place, self._sent_ns(missing, place, by_ns)):
            return Cause(code="position-deleted", offset=position)
        if there is not None and (there.read_last or 0) > by_ns:
            return None
        why = None
        if known is not None and there is not None:
            deleted = partial(self._deleted, history=history, known=known)
            why = self._by_settings(history, known, deleted, by_ns)
        doubt = None if why is None else why.doubt
        if why is None and history.may_be_trimmed and "delete" in (history.cleanup_policy or "delete"):
            doubt = Doubt(code="moved-by-somebody")
        if doubt is not None:
            return Cause(code="position-perhaps-removed", doubt=doubt)
        return None if why is None else Cause(code="position-removed", offset=position, settings=why.settings)

    def of_a_former_start(
        self, history: PartitionHistory, offset: int, sent_ns: int | None, by_ns: int
    ) -> Cause | None:
        """Why the log of a leader that was replaced since may lawfully have begun above a record that the last one's
        log has: each replica cleans up its own, and takes over the start of whom it follows only when it fetches."""
        if sent_ns is None or not history.exact or not _was_replaced_since(history, by_ns):
            return None
        if _was_deleted_on_request(history, offset, by_ns, offset, sent_ns):
            return Cause(code="position-deleted", offset=offset)
        known = _known_to_be_there(history, offset, sent_ns, by_ns)
        why = self._by_settings(history, known, partial(self._deleted, history=history, known=known), by_ns)
        if why is None or (why.doubt is not None and why.doubt.code != "brokers-keep-differently"):
            return None  # what an application did not tell of a record that stayed makes no case for its removal
        if why.doubt is not None:
            return Cause(code="position-perhaps-removed", doubt=why.doubt)
        return Cause(code="position-removed", offset=offset, settings=why.settings)

    def _sent_ns(self, missing: Sequence[Flagged], offset: int | None, by_ns: int) -> int:
        """When the last of those at that offset was sent by then: it may have been assigned again."""
        first = len(missing) if offset is None else bisect_left(missing, offset, key=_offset)
        here = missing[first : bisect_right(missing, offset or 0, key=_offset)]
        rows = (self._rows.get(_place_of(row)) for row in here)
        sent = (known["invoked_ns"] or 0 for known in rows if known is not None)
        return max((each for each in sent if each <= by_ns), default=0)

    def _why(self, known: GoneRow, above: _Above) -> Cause | None:
        history, offset = self._context.partition(known["partition_id"]), known["offset"]
        below = offset is not None and offset < (history.log_start or 0)
        if below and _was_deleted_on_request(history, offset, self._gone_ns(known), offset, known["invoked_ns"]):
            return _ON_REQUEST
        why = partial(self._why_by, history=history, known=known, above=above)
        return self._by_settings(history, known, why, self._lacked_ns(known))

    def _by_settings(
        self,
        history: PartitionHistory,
        known: GoneRow,
        why: Callable[[Cleaner], Cause | None],
        by_ns: int = END_OF_TIME_NS,
    ) -> Cause | None:
        """By the settings of whoever may have removed it until then; in doubt if not all of these allow it."""
        cleaners, certain = self._cleaners.of(history, known["invoked_ns"] or 0, self._gone_ns(known))
        by_each = [why(replace(each, until_ns=min(each.until_ns, by_ns))) for each in cleaners]
        found = sorted((cause for cause in by_each if cause is not None), key=lambda cause: cause.doubt is not None)
        if not found or certain or len(found) == len(by_each):
            return found[0] if found else None
        code: CauseCode = "retention-in-doubt" if _KINDS[found[0].code] == "retention" else "compaction-in-doubt"
        return replace(found[0], code=code, doubt=Doubt(code="brokers-keep-differently"))

    def _why_by(self, cleaner: Cleaner, history: PartitionHistory, known: GoneRow, above: _Above) -> Cause | None:
        offset = known["offset"]
        below = offset is not None and history.log_start is not None and offset < history.log_start
        if below and (why := self._deleted(cleaner, history, known)) is not None:
            return why
        if offset is None:
            return None
        if known["key"] is None:
            return self._perhaps_replaced(cleaner, history, known, offset)
        was_replaced = partial(self._was_replaced, cleaner, history, known)
        if above.stayed is not None and was_replaced(above.stayed):
            return Cause(code="compaction-of-a-key", settings=_COMPACT)
        if above.lost and self._broke_the_promise(history, known) and any(map(was_replaced, above.lost)):
            return Cause(code="compaction-in-doubt", settings=_COMPACT, doubt=Doubt(code="later-one-may-be-lost"))
        return self._deleted_for_good(cleaner, history, known)

    @cached_property
    def _is_an_applications(self) -> bool:
        """Whether the load is an application, which need not tell of what it sends but the values."""
        scenario = self._context.history.scenario
        return scenario is not None and scenario.is_an_applications

    def _perhaps_replaced(
        self, cleaner: Cleaner, history: PartitionHistory, known: GoneRow, offset: int
    ) -> Cause | None:
        """Of a record whose key nobody recorded: any later one of the log may have replaced it."""
        compacted = self._cleaners.cleaning(cleaner, "compact", history, known["invoked_ns"] or 0)
        if not self._is_an_applications or not compacted or offset + 1 >= (history.end_offset or 0):
            return None
        return Cause(code="compaction-in-doubt", settings=_COMPACT, doubt=Doubt(code="keys-not-told"))

    # -- what came later of the same key ------------------

    @cached_property
    def _above(self) -> Mapping[_Place, _Above]:
        """By the place of a record that is gone, what stood above it of its key."""
        by_key: dict[tuple[int, int | None, int | None], list[GoneRow]] = {}
        for row in self._rows.values():
            of_value = row["value"] if row["key"] is None else None
            by_key.setdefault((row["partition_id"], row["key"], of_value), []).append(row)
        found: dict[_Place, _Above] = {}
        for rows in by_key.values():
            found |= self._above_those_of_a_key(rows)
        return found

    def _above_those_of_a_key(self, rows: Sequence[GoneRow]) -> dict[_Place, _Above]:
        """Each place is judged by those above it, from the last on, and may count for those below."""
        found: dict[_Place, _Above] = {}
        above = _Above()
        for _, places in groupby(sorted(rows, key=_height, reverse=True), key=_height):
            here = list(places)
            above = before = above.with_those_that_are_there(here[0])
            for row in here:
                found[_place(row)] = before
                above = self._with(above, row, before)
        return found

    def _with(self, above: _Above, row: GoneRow, judged_by: _Above) -> _Above:
        """With this one, as what may have replaced those below it."""
        if row["aborted"] or row["offset"] is None:
            return above
        own = _Later(sent_ns=row["invoked_ns"] or 0, stamp_ms=row["timestamp_ms"])
        removed = self._why(row, judged_by)
        missing = self._missing.get(_place(row))
        if missing is None or (removed is not None and removed.doubt is None):
            return above.with_one_that_stayed(own)
        replaces = self._replaces_others(missing)
        if replaces is None:
            return replace(above, lost=(*above.lost, replace(own, lost=missing)))
        return above.with_one_that_stayed(own) if replaces else above

    def _replaces_others(self, missing: Flagged) -> bool | None:
        """Whether a record that no setting removed may have replaced earlier ones of its key; None: unknown.

        What a clean fail-over cost was never below the high watermark. What broke the promise is told as such, of a
        record that is nowhere: one that stands elsewhere is not missed, so what it may have replaced is.
        """
        ruling = self._context.ruling(self._context.partition(missing.partition_id), missing)
        if ruling.classification == "violation":
            return None if missing.seen_any & SEEN_FINAL else True
        if ruling.cause == "deletion":
            return True
        return False if ruling.classification == "permitted" and ruling.cause == "fail-over" else None

    @cached_property
    def _missing(self) -> Mapping[_Place, Flagged]:
        return {
            _place_of(row): row
            for row in self._context.flagged
            if row.flags & {"lost", "dirty"} or ("duplicate" in row.flags and self._is_gone_from_here(row))
        }

    def _is_gone_from_here(self, row: Flagged) -> bool:
        """Whether the log that has it elsewhere lacks it at this place."""
        history = self._context.partition(row.partition_id)
        in_sync = frozenset(history.final_isr)
        held = bool(in_sync) and in_sync <= kept_there(history, row)
        return history.read_to_end and not held and not row.seen & SEEN_FINAL

    @cached_property
    def _missing_in_order(self) -> Mapping[int, Sequence[Flagged]]:
        """By partition, those below the log's start."""
        found: dict[int, list[Flagged]] = {}
        for row in self._missing.values():
            start = self._context.partition(row.partition_id).log_start
            if row.offset is not None and start is not None and row.offset < start:
                found.setdefault(row.partition_id, []).append(row)
        return {partition_id: sorted(rows, key=_offset) for partition_id, rows in found.items()}

    def _broke_the_promise(self, history: PartitionHistory, known: GoneRow) -> bool:
        """Whether nothing but compaction can have permitted its loss: what cost the later one may have cost it too."""
        row = self._missing.get(_place(known))
        return row is not None and self._context.ruling(history, row).classification == "violation"

    def _was_spared(self, history: PartitionHistory, known: GoneRow, lost: Flagged) -> bool:
        """Whether the last leader had it from the start, and never the later one that was lost.

        Its log was then compacted for that one nowhere: not there, and not in a log that it copied.
        """
        row = self._missing.get(_place(known))
        if row is None or row.status != STATUS_OK or row.acks != -1 or row.completed_ns is None:
            return False
        if not history.exact or not history.elections or lost.offset is None:
            return False
        node, since = history.elections[-1].leader, row.invoked_ns or 0
        reports = any(event["node"] == node for event in history.events)
        if not reports or node in lost.held or not history.is_in_sync(node, row.completed_ns):
            return False
        cut = any(each.node == node and each.to_offset <= lost.offset for each in history.truncations)
        return not cut and not any(loss.time_ns >= since for loss in history.losses_by_node.get(node, ()))

    def _was_there_till_then(self, history: PartitionHistory, known: GoneRow) -> bool:
        """Whether who could have been elected cleanly had it still, when somebody was whose log ended below it.

        That log was compacted for no later one, and this one had not been.
        """
        row = self._missing.get(_place(known))
        election = self._context.ruling(history, row).election if row is not None else None
        if row is None or election is None or not election.ends_at_or_below(row.offset):
            return False
        later = {log["snapshot"] for log in history.snapshots if log["time_ns"] >= election.latest_t}
        return any(
            copy.snapshot in later and copy.node in election.eligible and copy.node != election.leader
            for copy in row.copies
        )

    # -- what settings allow ------------------------------

    def _was_replaced(self, cleaner: Cleaner, history: PartitionHistory, known: GoneRow, later: _Later) -> bool:
        """Whether compaction may have removed it when it was gone, for a later record that was old enough by then."""
        if later.sent_ns > cleaner.until_ns:
            return False
        if later.lost is not None and (
            self._was_spared(history, known, later.lost) or self._was_there_till_then(history, known)
        ):
            return False
        for _, until_ns in self._cleaners.cleaning(cleaner, "compact", history, later.sent_ns):
            for lag in self._cleaners.in_force(cleaner, history, "min.compaction.lag.ms", later.sent_ns, until_ns):
                age_ms = self._age_ms(history, later.stamp_ms, later.sent_ns, lag.until_ns)
                if age_ms is None or (is_number(lag.value) and age_ms >= int(lag.value)):
                    return True
        return False

    def _deleted_for_good(self, cleaner: Cleaner, history: PartitionHistory, known: GoneRow) -> Cause | None:
        """The cause for the last record of a key: a tombstone whose time is over."""
        if not known["tombstone"] or known["oldest"] is not None:
            return None
        sent_ns = known["invoked_ns"] or 0
        for _, until_ns in self._cleaners.cleaning(cleaner, "compact", history, sent_ns):
            for kept in self._cleaners.in_force(cleaner, history, "delete.retention.ms", sent_ns, until_ns):
                age_ms = self._age_ms(history, known["timestamp_ms"], known["invoked_ns"], kept.until_ns)
                if is_number(kept.value) and (age_ms is None or age_ms >= int(kept.value)):
                    setting = _setting("delete.retention.ms", kept.value)
                    return Cause(code="compaction-of-a-tombstone", settings=(setting,))
        return None

    def _deleted(self, cleaner: Cleaner, history: PartitionHistory, known: GoneRow) -> Cause | None:
        perhaps: Cause | None = None
        for begin_ns, until_ns in self._cleaners.cleaning(cleaner, "delete", history, known["invoked_ns"] or 0):
            for kept in self._cleaners.in_force(cleaner, history, "retention.ms", begin_ns, until_ns):
                age_ms = self._age_ms(history, known["timestamp_ms"], known["invoked_ns"], kept.until_ns)
                limited = is_number(kept.value) and int(kept.value) >= 0
                setting = _setting("retention.ms", kept.value)
                if limited and (age_ms is None or age_ms >= int(kept.value)):
                    return Cause(code="retention-time", settings=(setting,))
                if limited and self._may_be_stamped_otherwise(history, known):
                    perhaps = _perhaps_expired(setting, "stamps-not-told")
            for size in self._cleaners.in_force(cleaner, history, "retention.bytes", begin_ns, until_ns):
                setting, limited = _setting("retention.bytes", size.value), is_number(size.value)
                if limited and 0 <= int(size.value) <= self._bytes_left(history):
                    return Cause(code="retention-size", settings=(setting,))
                if limited and int(size.value) >= 0 and self._is_an_applications:
                    perhaps = _perhaps_expired(setting, "sizes-not-told")
        return perhaps

    def _may_be_stamped_otherwise(self, history: PartitionHistory, known: GoneRow) -> bool:
        """Whether an application may have given it a time of its own, which nobody recorded."""
        stamps = self._settings.values("message.timestamp.type", history.topic, 0, END_OF_TIME_NS)
        return self._is_an_applications and known["timestamp_ms"] is None and "LogAppendTime" not in stamps

    # -- ages and sizes -----------------------------------

    def _gone_ns(self, known: GoneRow) -> int:
        """When it was first seen to be gone from this place, at last by the final read."""
        offset = known["offset"]
        passed_ns = self._passed.get((known["partition_id"], known["value"], -1 if offset is None else offset))
        return min(each for each in (known["final_t"], passed_ns, END_OF_TIME_NS) if each is not None)

    def _lacked_ns(self, known: GoneRow) -> int:
        """When the leader had been elected whose log ended below it, if that is what cost it; else the end of time."""
        row = self._missing.get(_place(known))
        if row is None:
            return END_OF_TIME_NS
        history, known_ns = self._context.partition(row.partition_id), row.known_until_ns or 0
        if not any(each.latest_t >= known_ns and each.ends_at_or_below(row.offset) for each in history.elections):
            return END_OF_TIME_NS
        ruling = self._context.ruling(history, row)
        if ruling.election is None or ruling.undecided or not ruling.election.ends_at_or_below(row.offset):
            return END_OF_TIME_NS
        # It may have been written again at its place in the next epoch, and have been read, or answered, there.
        epochs = (row.epoch, row.read_epoch, ruling.epoch)
        again = any(epoch is not None and epoch >= ruling.election.epoch for epoch in epochs)
        return ruling.election.latest_t if history.exact and not again else END_OF_TIME_NS

    def _age_ms(
        self, history: PartitionHistory, stamp_ms: int | None, sent_ns: int | None, time_ns: int
    ) -> float | None:
        """The greatest possible age of a record then; None if unknown."""
        wall = self._context.history.wall_ns
        if time_ns >= END_OF_TIME_NS:
            return None
        if stamp_ms is not None and wall is not None:
            return float(time_ns + wall[1]) / 1e6 - float(stamp_ms)
        # A record is stamped when it is sent, unless its producer says otherwise.
        stamps = self._settings.values("message.timestamp.type", history.topic, 0, END_OF_TIME_NS)
        if sent_ns is None or (stamp_ms is not None and "LogAppendTime" not in stamps):
            return None
        return float(time_ns - sent_ns) / 1e6

    def _bytes_left(self, history: PartitionHistory) -> float:
        """The greatest possible number of bytes; infinite if a record's size is unknown."""
        scenario = self._context.history.scenario
        if scenario is None or history.end_offset is None or history.log_start is None:
            return float("inf")
        return float((history.end_offset - history.log_start) * (scenario.workload.facts.value_bytes + _OVERHEAD_BYTES))


def _was_deleted_on_request(
    history: PartitionHistory, offset: int | None, by_ns: int, sent_to: int | None, sent_ns: int | None
) -> bool:
    """Whether a leader said by then that a client had had the log begin above it. A request before a record below that
    was sent took nothing of it: the log had been cut, and the offset was assigned again."""
    return offset is not None and any(
        row["event"] == "records_deleted"
        and offset < (to_offset := row["to_offset"] or 0)
        and row["time_ns"] <= by_ns
        and (sent_to is None or sent_to >= to_offset or row["time_ns"] + CLOCKS_APART_NS >= (sent_ns or 0))
        for row in history.events
    )


def _was_replaced_since(history: PartitionHistory, by_ns: int) -> bool:
    """Whether another broker was elected than the one that may have answered a reader then."""
    return any(
        each.latest_t >= by_ns - READ_AHEAD_NS and each.leader != each.leader_before and each.leader_before >= 0
        for each in history.elections
    )


def _known_to_be_there(history: PartitionHistory, offset: int, sent_ns: int, by_ns: int) -> GoneRow:
    """Of a record of the final log, what decides whether it may have been removed from another by then."""
    return {
        "run": history.run,
        "partition_id": history.partition_id,
        "value": -1,
        "place": offset,
        "offset": offset,
        "key": None,
        "timestamp_ms": None,
        "tombstone": None,
        "invoked_ns": sent_ns,
        "aborted": None,
        "oldest": None,
        "later_ns": None,
        "later_ms": None,
        "final_t": by_ns,
    }


def _perhaps_expired(setting: Setting, doubt: Literal["stamps-not-told", "sizes-not-told"]) -> Cause:
    return Cause(code="retention-in-doubt", settings=(setting,), doubt=Doubt(code=doubt))


def _offset(row: Flagged) -> int:
    return row.offset or 0


def _height(row: GoneRow) -> int:
    return -1 if row["offset"] is None else row["offset"]


def _place(row: GoneRow) -> _Place:
    return row["partition_id"], row["value"], row["place"]


def _place_of(row: Flagged) -> _Place:
    return row.partition_id, row.value, row.offset


def removed(context: RunContext, history: PartitionHistory, rows: Sequence[tuple[Flagged, Cause]]) -> list[Finding]:
    """One observation per reason: the records are accounted for."""
    groups: dict[Cause, list[Flagged]] = {}
    for row, cause in rows:
        groups.setdefault(cause, []).append(row)
    return [
        finding_of_rows(
            context,
            history,
            members,
            check=CHECK,
            classification="observation",
            kind=_KINDS[cause.code],
            cause=cause,
            sentence=f"{plural(len(members), 'acknowledged record')} {offsets_words(members)} of {history.name} "
            f"{plural(len(members), 'was')} removed by {cause_words(cause)}.",
            evidence={"log_start_offset": history.log_start, "setting": cause_words(cause)},
            open_question=cause.doubt is not None,
        )
        for cause, members in groups.items()
    ]


FAMILY = Family(name=gone_places.NAME, query=gone_places.query, follows_detection=True)
