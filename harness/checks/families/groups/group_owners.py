"""Two owners: one partition assigned to two members of a group in the same generation.

A generation's assignment is a function from partition to member (KIP-429: in a cooperative rebalance a partition is
revoked in one generation and assigned again in a later one; KIP-848: the same holds for member epochs). So it is a
violation if two members were assigned a partition in one generation and neither can have given it up, by a revocation
or a loss that began before the other's assignment was answered, or by the end of its process. A repeated assignment
gives up nothing. A member that was removed and does not know it yet has an older generation, and is permitted. If the
group was forgotten (group_forgetting.py), it begins again with its first generation: two of one number are not one
generation then, which another one between them shows. Not judged: assignments whose generation the client does not
report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypedDict

from harness.checks.contract.rulings import Cause, Class
from harness.checks.families.groups.group_forgetting import forgetting_ruled
from harness.checks.families.groups.group_members import Members
from harness.checks.families.groups.group_partition import kept_generation
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import STATUS_FAIL
from harness.history.schema.typed_rows import RowsOf

CHECK = "two-owners"


@dataclass(frozen=True, slots=True)
class _Ownership:
    begin: int  # the assignment was answered
    end: int  # the earliest moment at which it may have been given up, or never
    event: PlacedEvent
    generation: int


class TwoOwnersRow(TypedDict):
    """A partition that two members held in one generation, and the time during which both did.

    told_ns: when the first of them was assigned it. came_again: another generation was told between the two.
    """

    run: int
    partition_id: int
    group: str
    generation: int
    processes: tuple[int, int]
    members: tuple[str | None, str | None]
    begin_ns: int
    end_ns: int
    told_ns: int
    came_again: bool


ANSWER = RowsOf(CHECK, TwoOwnersRow)


def query(runs: JudgedRuns) -> list[TwoOwnersRow]:
    rows: list[TwoOwnersRow] = []
    members = Members(runs)
    assigned = assignments(runs)
    for (run, group, _), owned in _ownerships(runs, members).items():
        by_generation: dict[int, list[_Ownership]] = {}
        for ownership in owned:
            by_generation.setdefault(ownership.generation, []).append(ownership)
        for generation, held in by_generation.items():
            for one, other in combinations(held, 2):
                # If the margins of giving up and taking over overlap, the partition counts as given up.
                both_held_it = one.begin < other.end and other.begin < one.end
                if both_held_it and members.are_two(one.event, other.event):
                    rows.append(_row(one, other, generation, assigned[run, group]))
    return rows


def assignments(runs: JudgedRuns) -> dict[tuple[int, str], list[PlacedEvent]]:
    """(run, group) -> what its members were assigned, in any partition, in order of the answers."""
    assigned: dict[tuple[int, str], list[PlacedEvent]] = {}
    for event in sorted(runs.group_events(), key=lambda event: event["completed_ns"]):
        if event["event"] == "assigned" and event["status"] != STATUS_FAIL:
            assigned.setdefault((event["run"], event["group"]), []).append(event)
    return assigned


def _is_repeated(before: PlacedEvent | None, event: PlacedEvent) -> bool:
    """Whether it repeats the same assignment."""
    state = event["event"], event["generation"], event["member"]
    return before is not None and (before["event"], before["generation"], before["member"]) == state


def _row(one: _Ownership, other: _Ownership, generation: int, assigned: Sequence[PlacedEvent]) -> TwoOwnersRow:
    first, second = sorted((one, other), key=lambda held: held.begin)
    between = (event["generation"] for event in assigned if first.begin < event["completed_ns"] <= second.begin)
    return {
        "run": first.event["run"],
        "partition_id": first.event["partition_id"],
        "group": first.event["group"],
        "generation": generation,
        "processes": (first.event["process"], second.event["process"]),
        "members": (first.event["member"], second.event["member"]),
        "begin_ns": second.begin,
        "end_ns": min(first.end, second.end),
        "told_ns": first.begin,
        "came_again": any(each not in (None, generation) for each in between),
    }


def _ownerships(runs: JudgedRuns, members: Members) -> dict[tuple[int, str, int], list[_Ownership]]:
    """(run, group, partition) -> each member's ownership, from its assignment until it gave the partition up."""
    events: dict[tuple[int, str, int, int], list[PlacedEvent]] = {}
    for event in runs.group_events():
        if event["event"] in ("assigned", "revoked", "lost") and event["status"] != STATUS_FAIL:
            key = (event["run"], event["group"], event["partition_id"], event["process"])
            events.setdefault(key, []).append(event)
    owned: dict[tuple[int, str, int], list[_Ownership]] = {}
    for (run, group, partition_id, _), own in events.items():
        end = members.end_of(own[0])
        end = END_OF_TIME_NS if end is None else end
        for before, event in zip(reversed([None, *own[:-1]]), reversed(own), strict=True):
            if event["event"] != "assigned":
                end = event["invoked_ns"]
            elif (of := event["generation"]) is not None and of >= 0 and not _is_repeated(before, event):
                owned.setdefault((run, group, partition_id), []).append(
                    _Ownership(event["completed_ns"], end, event, of)
                )
    return owned


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[int, str, Class, Cause], list[TwoOwnersRow]] = {}
    for row in sorted(context.rows[ANSWER], key=lambda row: row["begin_ns"]):
        ruled = _ruled(context, row)
        if ruled is not None:
            groups.setdefault((row["partition_id"], row["group"], *ruled), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: group[0][:3])
    return [_finding(context, *key, rows) for key, rows in ordered]


def _ruled(context: RunContext, row: TwoOwnersRow) -> tuple[Class, Cause] | None:
    """Class and cause; None if the two are of different lives of the group, and it may have been forgotten."""
    kept = kept_generation(
        context.partition(row["partition_id"]),
        group=row["group"],
        generation=row["generation"],
        told_ns=row["told_ns"],
        gone_ns=row["begin_ns"],
        process=row["processes"][1],
    )
    forgotten = forgetting_ruled(context, kept)
    if forgotten[0] == "violation":
        return "violation", Cause(code="one-generation-two-members")
    return None if row["came_again"] else forgotten


def _finding(
    context: RunContext,
    partition_id: int,
    group: str,
    classification: Class,
    cause: Cause,
    rows: Sequence[TwoOwnersRow],
) -> Finding:
    history, first = context.partition(partition_id), rows[0]
    one, other = first["processes"]
    until = "the end" if first["end_ns"] >= END_OF_TIME_NS else context.history.seconds(first["end_ns"])[3:]
    since = context.history.seconds(first["begin_ns"])[3:]
    more = f", and {plural(len(rows) - 1, 'time')} more" if len(rows) > 1 else ""
    sentence = (
        f"Processes {one} and {other}, members of group {group}, both owned {history.name} in generation "
        f"{first['generation']} from {since} to {until}{more}: {cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind="same-generation",
        topic=history.topic,
        partition=history.partition,
        count=len(rows),
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        first_ns=first["begin_ns"],
        last_ns=rows[-1]["begin_ns"],
        faults=[fault["fault"] for fault in history.faults_between(first["begin_ns"], first["begin_ns"])],
        evidence={
            "group": group,
            "owners": [
                {
                    "generation": row["generation"],
                    "processes": list(row["processes"]),
                    "members": list(row["members"]),
                    "begin_ns": row["begin_ns"],
                    "end_ns": None if row["end_ns"] >= END_OF_TIME_NS else row["end_ns"],
                }
                for row in rows[:20]
            ],
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query)
