"""Generations that go back: a member was told a lower generation than the group had reached before.

A coordinator writes a generation to the group's log before any member hears of its assignment, and the next one is one
higher (GroupMetadata; KAFKA-2720: a group without members keeps its generation for as long as its offsets). So it is a
violation if a member is assigned partitions in a generation below one that another had been told, or that a commit had
been accepted in, and nothing made the group forget in between (group_forgetting.py). A member hears of an assignment
when its client next polls: told within a few seconds, or under a fault that may have held it up, the older one may be
late. Where members have epochs of their own (KIP-848), or nobody recorded whether they have, only what one member was
told counts.

The group's own log shows the same: within one log a generation falls only behind the group's tombstone.
"""

from collections.abc import Iterator, Sequence
from typing import TypedDict

from harness.checks.contract.rulings import Cause, Class
from harness.checks.families.groups.group_forgetting import EXPIRED, REMOVED_EMPTY, forgetting_ruled
from harness.checks.families.groups.group_members import Members
from harness.checks.families.groups.group_partition import Kept, kept_generation
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.history.facts.releases import EMPTY_GROUPS_ARE_KEPT
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, INTERNAL_SNAPSHOTS, ConsumerOffsetsRow
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK
from harness.history.schema.typed_rows import RowsOf

CHECK = "generation-regression"
_EXAMPLES_MAX = 20
_LATE_NS = 10 * 10**9  # how long after it was sent an assignment may be told to a client that nothing holds up
_HOLD_UP = frozenset({"pause", "cut", "slow", "impair", "full"})
_GENERATIONS = ("group", "group_epoch", "assignment_epoch")


class WentBackRow(TypedDict):
    """A member was told `generation` although `reached` had been told, or committed in, to `reached_by` by reached_ns.
    own: by itself."""

    run: int
    partition_id: int
    group: str
    process: int
    generation: int
    told_ns: int
    reached: int
    reached_by: int
    reached_ns: int
    own: bool


ANSWER = RowsOf(CHECK, WentBackRow)


def query(runs: JudgedRuns) -> list[WentBackRow]:
    """Group events are few: no Spark job."""
    members = Members(runs)
    by_group: dict[tuple[int, str], list[PlacedEvent]] = {}
    for event in runs.group_events():
        generation = event["generation"]
        if event["group"] and generation is not None and generation > 0 and event["status"] != STATUS_FAIL:
            by_group.setdefault((event["run"], event["group"]), []).append(event)
    return [row for events in by_group.values() for row in _went_back(events, members)]


def _went_back(events: Sequence[PlacedEvent], members: Members) -> Iterator[WentBackRow]:
    """Each once: what follows is held against where the group went back to."""
    shown = sorted((each for each in events if _shows(each)), key=lambda each: each["completed_ns"])
    of_group: PlacedEvent | None = None
    of_member: dict[int, PlacedEvent] = {}
    place = 0
    for event in sorted((each for each in events if each["event"] == "assigned"), key=lambda each: each["invoked_ns"]):
        while place < len(shown) and shown[place]["completed_ns"] < event["invoked_ns"]:
            one = shown[place]
            place += 1
            of_member[one["process"]] = _higher(of_member.get(one["process"]), one)
            of_group = _higher(of_group, one) if members.is_classic(one) else of_group
        before = of_member.get(event["process"])
        if before is None or _generation(before) <= _generation(event):
            before = of_group if members.is_classic(event) else None
        if before is not None and _generation(event) < _generation(before):
            yield _row(event, before)
            of_group, of_member = (event if members.is_classic(event) else None), {event["process"]: event}


def _higher(before: PlacedEvent | None, event: PlacedEvent) -> PlacedEvent:
    return event if before is None or _generation(event) > _generation(before) else before


def _shows(event: PlacedEvent) -> bool:
    """Whether it shows what the group had reached. A commit in a transaction need not name its generation's member."""
    if event["event"] == "committed":
        return event["status"] == STATUS_OK and event["transaction"] is None
    return event["event"] == "assigned"


def _generation(event: PlacedEvent) -> int:
    return event["generation"] or 0


def _row(event: PlacedEvent, before: PlacedEvent) -> WentBackRow:
    return {
        "run": event["run"],
        "partition_id": event["partition_id"],
        "group": event["group"] or "",
        "process": event["process"],
        "generation": _generation(event),
        "told_ns": event["completed_ns"],
        "reached": _generation(before),
        "reached_by": before["process"],
        "reached_ns": before["completed_ns"],
        "own": before["process"] == event["process"],
    }


# ---- what they come to ----------------------------------------------------------------------------------------------


def find(context: RunContext) -> list[Finding]:
    if context.history.settings.release < EMPTY_GROUPS_ARE_KEPT:
        return []
    groups: dict[tuple[str, Class, Cause], list[WentBackRow]] = {}
    for row in context.rows[ANSWER]:
        if (ruled := _ruled(context, row)) is not None:
            groups.setdefault((row["group"], *ruled), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: group[0][:2])
    return [*(_answered_below(context, *key[1:], rows) for key, rows in ordered), *_in_logs(context)]


def _ruled(context: RunContext, row: WentBackRow) -> tuple[Class, Cause] | None:
    """None: the group had expired, or was removed when it was empty; or the older one was told late."""
    for stored_ns in (row["reached_ns"], row["reached_ns"] - _LATE_NS):
        forgotten, cause = forgetting_ruled(context, _kept(context, row, stored_ns))
        if forgotten == "permitted" and cause.code in (EXPIRED, REMOVED_EMPTY):
            return None
        if forgotten != "violation":
            return forgotten, cause
    if not row["own"]:
        if row["told_ns"] - row["reached_ns"] < _LATE_NS:
            return None
        faults = context.history.faults.between(row["reached_ns"] - _LATE_NS, row["told_ns"])
        if any(fault["kind"] in _HOLD_UP for fault in faults):
            return "observation", Cause(code="generation-perhaps-told-late")
    return "violation", Cause(code="generation-only-rises")


def _kept(context: RunContext, row: WentBackRow, stored_ns: int) -> Kept:
    return kept_generation(
        context.partition(row["partition_id"]),
        group=row["group"],
        generation=row["reached"],
        told_ns=stored_ns,
        gone_ns=row["told_ns"],
        process=row["process"],
    )


def _answered_below(context: RunContext, classification: Class, cause: Cause, rows: Sequence[WentBackRow]) -> Finding:
    first = min(rows, key=lambda row: row["told_ns"])
    history = context.partition(first["partition_id"])
    who = "which itself" if first["own"] else f"and process {first['reached_by']}"
    more = f", and {plural(len(rows) - 1, 'time')} more" if len(rows) > 1 else ""
    sentence = (
        f"Process {first['process']} was told its assignment of group {first['group']} in generation "
        f"{first['generation']}, {context.history.seconds(first['told_ns'])}, {who} had been in generation "
        f"{first['reached']} {context.history.seconds(first['reached_ns'])}{more}: {cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind="told",
        topic=history.topic,
        partition=history.partition,
        count=len(rows),
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        first_ns=first["reached_ns"],
        last_ns=max(row["told_ns"] for row in rows),
        faults=[fault["fault"] for fault in history.faults_between(first["reached_ns"], first["told_ns"])],
        evidence={"group": first["group"], "told": [dict(row) for row in rows[:_EXAMPLES_MAX]]},
    )


# ---- the groups' own logs -------------------------------------------------------------------------------------------


def _in_logs(context: RunContext) -> Iterator[Finding]:
    """The first fall of each group in a log of its partition that was kept."""
    nodes = {
        row["snapshot"]: row["node"]
        for row in context.tables[INTERNAL_SNAPSHOTS]
        if row["topic"] == GROUP_OFFSETS_TOPIC
    }
    ordered = sorted(context.tables[CONSUMER_OFFSETS], key=lambda row: (row["partition"], row["offset"]))
    reached: dict[tuple[str, str, int], ConsumerOffsetsRow] = {}  # kind, group, snapshot -> the generation before
    accused: set[str] = set()
    for row in ordered:
        kind, group = row["kind"], row["group"]
        if kind not in _GENERATIONS or group is None or group in accused:
            continue
        for number in row["snapshots"]:
            before = reached.get((kind, group, number))
            if row["removed"]:
                reached.pop((kind, group, number), None)
            elif row["generation"] is not None:
                reached[kind, group, number] = row
                if before is not None and row["generation"] < (before["generation"] or 0):
                    accused.add(group)
                    yield _logged(context, group, before, row, nodes.get(number))
                    break


def _logged(
    context: RunContext, group: str, before: ConsumerOffsetsRow, after: ConsumerOffsetsRow, node: int | None
) -> Finding:
    cause, place = Cause(code="generation-only-rises"), f"{GROUP_OFFSETS_TOPIC}-{after['partition']}"
    where = "" if node is None else f" on broker {node}"
    sentence = (
        f"Group {group} goes back in the log of {place}{where}: generation {after['generation']}, at offset "
        f"{after['offset']}, stands behind generation {before['generation']}, at {before['offset']}, and the group was "
        f"not removed in between: {cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification="violation",
        kind="in-a-log",
        count=1,
        sentence=sentence,
        cause=cause,
        first_ns=before["time_ns"],
        last_ns=after["time_ns"],
        evidence={
            "group": group,
            "partition": place,
            "records": [{"offset": row["offset"], "generation": row["generation"]} for row in (before, after)],
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query)
