"""Acknowledged below min.insync.replicas: acks=all was answered while fewer replicas were in sync than required.

This breaks a promise without a loss. It is judged only for records that were sent after the leader knew of the shrink
(it requested it, or its own metadata showed it: KIP-497 lets leaders request it, KRaft's controller shrinks by itself)
and that were answered before the next expansion was committed, with a margin for a requested one: a leader already
counts the replicas that it asked to add, also while it is refused. If nothing shows that the leader knew when the
record was sent, the finding stays open: also for a record sent before the leader is first seen to know, and answered
after that. Where the leader's own log tells when it learned of the shrink (KRaft: isr_learned), a record is answered
for by the larger ISR before, if its answer had come by then, or if it was below the high watermark by then.

A record whose copies all carry an earlier epoch was appended by an earlier leader, which answered for the ISR of its
own epoch: a leader that shuts down hands over while its last answers are on their way. Where no copy's epoch is known,
the finding stays open for records that were sent soon after an election.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.contract.deposed import LEARN_NS
from harness.checks.contract.rulings import Cause, Doubt, min_isr_setting
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.elections import states_near
from harness.checks.model.partition_history import PartitionHistory, heard_by, holds_up
from harness.checks.model.settings import SettingsOverTime
from harness.checks.spark.detection import Flagged
from harness.checks.wording.rulings import doubt_words
from harness.checks.wording.words import plural, ranges
from harness.history.facts.fault_facts import begin_of
from harness.history.facts.releases import HIGH_WATERMARKS_WAIT_FOR_ENOUGH, NEWEST, Release
from harness.history.schema.cluster_rows import PARTITION_STATES, PartitionStateRow
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "acknowledged-below-min-isr"
MIN_ISR_KEY = "min.insync.replicas"
_PENDING_NS = 10**8  # a requested expansion is committed within this time, if nothing delays the leader
# Events of a leader that asked for another member, and how long before them at most.
_ASKED_FOR_ANOTHER = {"isr_expand_asked": 0, "isr_expand_refused": _PENDING_NS}
_ASKED_BEFORE_NS = 10**9  # the leader reports a shrink before it is committed
_COPY = ["run", "partition_id", "value", "offset"]
_OF_SHORTAGE = (
    "run",
    "partition_id",
    "begin_ns",
    "sent_until_ns",
    "end_ns",
    "epoch",
    "enough_until_ns",
    "enough_below",
)
_ROWS_MAX = 10_000


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """A time in which too few replicas were in sync.

    knew: whether anything shows that the leader knew it when a record was sent that was sent by `sent_until_ns`.
    handed_over_ns: until then the leader before may not have heard that it leads no more.
    enough_until_ns, enough_below: what was answered before that time, or stands below that offset, was committed by the
    ISR before, which was large enough; 0: nothing shows such a time or offset.
    """

    run: int
    partition_id: int
    begin_ns: int
    sent_until_ns: int
    end_ns: int
    epoch: int
    leader: int
    isr: tuple[int, ...]
    least: int
    knew: bool
    handed_over_ns: int
    enough_until_ns: int
    enough_below: int


class _AnsweredRow(TypedDict):
    """A record acknowledged within a shortage, with the shortage's number."""

    run: int
    partition_id: int
    value: int
    offset: int
    operation: int
    process: int
    invoked_ns: int
    completed_ns: int
    begin_ns: int
    sent_until_ns: int
    end_ns: int
    number: int
    appended_in: int | None  # the latest epoch of its copies that was seen


class BelowMinIsrRow(_AnsweredRow):
    shortage: Shortage


ANSWER = RowsOf(CHECK, BelowMinIsrRow)


def query(runs: JudgedRuns) -> list[BelowMinIsrRow]:
    observed = {history.run: by_place(runs.tables.rows(PARTITION_STATES, history.run)) for history in runs.histories}
    shortages = [
        shortage
        for history in runs.histories
        for partition in history.partitions.values()
        for shortage in shortages_of(
            partition, history.settings, observed[history.run].get((partition.topic, partition.partition), ())
        )
    ]
    if not shortages:
        return []
    rows = [
        {column: getattr(shortage, column) for column in _OF_SHORTAGE} | {"number": number}
        for number, shortage in enumerate(shortages)
    ]
    found = (
        runs.tables.records.where("kind = 0 and status = 0 and acks = -1 and offset is not null")
        .select("run", "partition_id", "value", "offset", "operation", "process", "invoked_ns", "completed_ns")
        .join(sf.broadcast(runs.frame((*_OF_SHORTAGE, "number"), rows)), ["run", "partition_id"])
        .where("invoked_ns > begin_ns and invoked_ns <= sent_until_ns and completed_ns < end_ns")
        .where("completed_ns >= enough_until_ns and offset >= enough_below")
    )
    if found.isEmpty():
        return []
    answered = typed(
        _AnsweredRow,
        found.join(sf.broadcast(_appended(runs, found)), _COPY, "left")
        .where("appended_in is null or appended_in >= epoch")
        .drop("epoch", "enough_until_ns", "enough_below")
        .orderBy("run", "partition_id", "offset")
        .limit(_ROWS_MAX)
        .toArrow(),
    )
    return [{**row, "shortage": _of_record(shortages[row["number"]], row)} for row in answered]


def _of_record(shortage: Shortage, row: _AnsweredRow) -> Shortage:
    """The shortage as it concerns a record: whoever knew, it is open which of two leaders answered for this one."""
    open_who = row["appended_in"] is None and row["invoked_ns"] < shortage.handed_over_ns
    return replace(shortage, knew=False) if open_who else shortage


def _appended(runs: JudgedRuns, found: DataFrame) -> DataFrame:
    """The latest epoch in which anybody saw each of these records at its offset, as `appended_in`."""
    read = runs.tables.records.where("kind > 0").select(*_COPY, "leader_epoch")
    stored = runs.tables.replica_log.select(*_COPY, "leader_epoch")
    wanted = sf.broadcast(found.select(*_COPY).distinct())
    return (
        read.unionByName(stored)
        .where("leader_epoch >= 0")
        .join(wanted, _COPY, "left_semi")
        .groupBy(*_COPY)
        .agg(sf.max("leader_epoch").alias("appended_in"))
    )


def by_place(rows: Iterable[PartitionStateRow]) -> dict[tuple[str, int], list[PartitionStateRow]]:
    grouped: dict[tuple[str, int], list[PartitionStateRow]] = {}
    for row in rows:
        grouped.setdefault((row["topic"], row["partition"]), []).append(row)
    return grouped


def shortages_of(
    partition: PartitionHistory, settings: SettingsOverTime, own: Sequence[PartitionStateRow]
) -> list[Shortage]:
    """The shortages of a partition. `own`: its observed states."""
    found = []
    for number, state in enumerate(partition.states):
        isr = tuple(state["isr"] or ())
        begin = state["time_ns"] + (state["uncertainty_ns"] or 0)
        before = partition.states[number - 1] if number else None
        after = partition.states[number + 1] if number + 1 < len(partition.states) else None
        end = _end(partition, state, after)
        if state["leader"] < 0 or not state["exact"] or begin >= end:
            continue
        for first, last, least in _pieces(partition, settings, state["leader"], begin, end):
            # Brokers require no more replicas than there are.
            least = min(least, len(state["replicas"] or partition.replicas) or least)
            if len(isr) >= least:
                continue
            election = partition.election_of(state["leader_epoch"])
            handed_over = election.time_ns + LEARN_NS if election is not None else 0
            known = _known_at(partition, state, own, least)
            enough_until, enough_below = _enough_before(partition, state, before, least, settings.release)
            known = last if known is None else min(last, max(first, known))
            found += [
                Shortage(
                    run=partition.run,
                    partition_id=partition.partition_id,
                    begin_ns=since,
                    sent_until_ns=until,
                    end_ns=last,
                    epoch=state["leader_epoch"],
                    leader=state["leader"],
                    isr=isr,
                    least=least,
                    knew=knew,
                    handed_over_ns=handed_over,
                    enough_until_ns=enough_until,
                    enough_below=enough_below,
                )
                for since, until, knew in ((first, known, False), (known, last, True))
                if since < until
            ]
    return found


def _pieces(
    partition: PartitionHistory, settings: SettingsOverTime, leader: int, begin: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """The time in pieces, each with the lowest min.insync.replicas that the leader may have used in it.

    A lower value may count shortly before its change is known, a higher one only when the leader has surely heard of
    it.
    """
    spans = settings.spans(MIN_ISR_KEY, partition.topic, leader)
    changes = [(span.begin_ns, heard_by(partition.faults, (leader,), span.begin_ns)) for span in spans[1:]]
    edges = {t for changed, heard in changes for t in (changed - LEARN_NS, heard) if begin < t < end}
    for first, last in pairwise([begin, *sorted(edges), end]):
        since = min((changed - 1 for changed, heard in changes if changed <= first < heard), default=first)
        yield first, last, least_in_sync(settings, partition.topic, since, last + LEARN_NS - 1, leader)


def _end(partition: PartitionHistory, state: PartitionStateRow, after: PartitionStateRow | None) -> int:
    """The end of a shortage: before the next state; if that one adds a replica, before it can have been requested; and
    before a request for one was sent, as the leader itself tells, or can have been sent that was refused, as the
    controller does with a broker that it has fenced: until it is granted, the leader asks again and again."""
    end = END_OF_TIME_NS if after is None else int(after["time_ns"] - (after["uncertainty_ns"] or 0))
    asked = [
        row["time_ns"] - _ASKED_FOR_ANOTHER[row["event"]]
        for row in partition.events
        if row["event"] in _ASKED_FOR_ANOTHER
        and (row["node"], row["leader_epoch"]) == (state["leader"], state["leader_epoch"])
        and state["time_ns"] <= row["time_ns"] < end
    ]
    end = min([end, *asked])
    if after is None or len(after["isr"] or ()) <= len(state["isr"] or ()):
        return end
    faults = partition.faults_between(state["time_ns"], end)
    held_up = [begin_of(row) for row in faults if holds_up(row, state["leader"])]
    return int(min([end, *held_up])) - _PENDING_NS


def _known_at(
    partition: PartitionHistory, state: PartitionStateRow, observed: Iterable[PartitionStateRow], least: int
) -> int | None:
    """The first time the leader is seen to know of this small ISR; None if nothing shows it."""
    begin = state["time_ns"] - (state["uncertainty_ns"] or 0)
    reported = [
        row["time_ns"]
        for row in observed
        if not row["exact"]
        and row["observer"] == state["leader"]
        and row["leader_epoch"] == state["leader_epoch"]
        and row["leader"] == state["leader"]
        and row["time_ns"] >= begin
        and len(row["isr"] or ()) < least
    ]
    asked = [
        row["time_ns"]
        for row in partition.events
        if row["event"] == "isr_shrink"
        and row["node"] == state["leader"]
        and row["time_ns"] >= begin - _ASKED_BEFORE_NS
    ]
    election = partition.election_of(state["leader_epoch"])
    if election is not None and election.time_ns == state["time_ns"]:  # it was elected with this ISR
        asked += [
            row["time_ns"]
            for row in partition.events
            if row["event"] == "leadership_start"
            and (row["node"], row["leader_epoch"]) == (election.leader, election.epoch)
        ]
    return min([*reported, *asked], default=None)


def _enough_before(
    partition: PartitionHistory,
    state: PartitionStateRow,
    before: PartitionStateRow | None,
    least: int,
    release: Release,
) -> tuple[int, int]:
    """Until when, and below which offset, the leader committed with the ISR of `before`, of which it knew no better.

    Both are what its log tells of the first ISR, this one or a later, that it heard of. It takes one over before it
    moves its high watermark again, so that the offset counts only where that waits for enough replicas.
    """
    same = before is not None and all(before[of] == state[of] for of in ("leader", "leader_epoch"))
    version = state["partition_epoch"]
    if before is None or not same or version is None or len(before["isr"] or ()) < least:
        return 0, 0
    learned = [
        (json.loads(row["detail_text"] or "{}").get("partition_epoch", -1), row["time_ns"], row["to_offset"] or 0)
        for row in partition.events
        if row["event"] == "isr_learned"
        and (row["node"], row["leader_epoch"]) == (state["leader"], state["leader_epoch"])
    ]
    _, until, below = min((each for each in learned if each[0] >= version), default=(0, 0, 0))
    return until, below if HIGH_WATERMARKS_WAIT_FOR_ENOUGH <= release < NEWEST else 0


def least_in_sync(settings: SettingsOverTime, topic: str, begin: int, end: int, leader: int) -> int:
    """The lowest min.insync.replicas that the leader, or if there is none any broker, had at any moment of [begin,
    end]: it is not judged by a higher one. It is the leader who counts (Partition.checkEnoughReplicasReachOffset)."""
    return settings.numbers(MIN_ISR_KEY, topic, begin, end, leader if leader >= 0 else None)[0]


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[int, int, bool], list[BelowMinIsrRow]] = {}
    for row in context.rows[ANSWER]:
        groups.setdefault((row["partition_id"], row["number"], row["shortage"].knew), []).append(row)
    return [_finding(context, context.partition(place[0]), rows) for place, rows in sorted(groups.items())]


def broken_promises(context: RunContext) -> Mapping[tuple[int, int], Shortage]:
    """(partition_id, value) of records surely acknowledged below min.insync.replicas: nothing excuses their loss."""
    rows = context.rows[ANSWER]
    return {(row["partition_id"], row["value"]): row["shortage"] for row in rows if row["shortage"].knew}


def perhaps_too_few(
    history: PartitionHistory, settings: SettingsOverTime, row: Flagged, epoch: int | None
) -> int | None:
    """min.insync.replicas, where fewer may have been in sync from when an acks=all record was sent to its answer.

    A leader that had asked to take somebody in by then may have counted him: that is over when the answer comes later.
    """
    if row.acks != -1 or row.invoked_ns is None or row.completed_ns is None:
        return None
    begin, end = row.invoked_ns - LEARN_NS, row.completed_ns + LEARN_NS
    answered = states_near(history.states, row.completed_ns)
    for state in states_near(history.states, row.invoked_ns):
        own = epoch is None or state["leader_epoch"] in (epoch, -1)
        least = least_in_sync(settings, history.topic, begin, end, state["leader"])
        enough = min(least, len(state["replicas"] or history.replicas) or least)
        if least > 1 and own and state["leader"] >= 0 and len(state["isr"] or ()) < enough and state in answered:
            return enough
    return None


def _finding(context: RunContext, history: PartitionHistory, rows: Sequence[BelowMinIsrRow]) -> Finding:
    shortage = rows[0]["shortage"]
    count = plural(len(rows), "record")
    sentence = (
        f"{count} of {history.name} (at {ranges(row['offset'] for row in rows)}) {plural(len(rows), 'was')} "
        f"acknowledged with acks=all by broker {shortage.leader} in epoch {shortage.epoch} while the "
        f"ISR was {list(shortage.isr)} and min.insync.replicas={shortage.least}"
    )
    doubt = None if shortage.knew else Doubt(code="leader-may-not-have-known")
    why = f": {doubt_words(doubt)}" if doubt is not None else ""
    return Finding(
        run=context.run,
        check=CHECK,
        classification="violation" if shortage.knew else "observation",
        kind="knowing" if shortage.knew else "unknowing",
        topic=history.topic,
        partition=history.partition,
        count=len(rows),
        sentence=f"{sentence}{why}.",
        cause=Cause(code="min-insync-replicas-not-kept", doubt=doubt, settings=(min_isr_setting(shortage.least),)),
        epoch=shortage.epoch,
        offsets=[row["offset"] for row in rows],
        values=[row["value"] for row in rows],
        operations=sorted({row["operation"] for row in rows}),
        first_ns=min(row["completed_ns"] for row in rows),
        last_ns=max(row["completed_ns"] for row in rows),
        open_question=doubt is not None,
        evidence={"leader": shortage.leader, "isr": list(shortage.isr), "min_insync_replicas": shortage.least},
    )


FAMILY = Family(name=CHECK, find=find, query=query)
