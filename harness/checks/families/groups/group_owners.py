"""Two owners: one partition assigned to two members of a group in the same generation.

A generation's assignment is a function from partition to member (KIP-429: in a cooperative rebalance a partition is
revoked in one generation and assigned again in a later one; KIP-848: the same holds for member epochs). So it is a
violation if two members were assigned a partition in one generation and neither can have given it up, by a revocation
or a loss that began before the other's assignment was answered. A repeated assignment gives up nothing. A member that
was removed and does not know it yet has an older generation, and is permitted. Not judged: assignments whose
generation the client does not report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypedDict

from harness.checks.contract.rulings import Cause
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.wording.words import plural
from harness.history.schema.schemas import STATUS_FAIL
from harness.history.schema.typed_rows import RowsOf

CHECK = "two-owners"
_FAR = 2**62


@dataclass(frozen=True, slots=True)
class _Ownership:
    begin: int  # the assignment was answered
    end: int  # the earliest moment at which it may have been given up, or never
    event: PlacedEvent
    generation: int


class TwoOwnersRow(TypedDict):
    """A partition that two members held in one generation, and the time during which both did."""

    run: int
    partition_id: int
    group: str
    generation: int
    processes: tuple[int, int]
    members: tuple[str | None, str | None]
    begin_ns: int
    end_ns: int


ANSWER = RowsOf(CHECK, TwoOwnersRow)


def query(runs: JudgedRuns) -> list[TwoOwnersRow]:
    rows: list[TwoOwnersRow] = []
    for owned in _ownerships(runs).values():
        by_generation: dict[int, list[_Ownership]] = {}
        for ownership in owned:
            by_generation.setdefault(ownership.generation, []).append(ownership)
        for generation, held in by_generation.items():
            for one, other in combinations(held, 2):
                # If the margins of giving up and taking over overlap, the partition counts as given up.
                both_held_it = one.begin < other.end and other.begin < one.end
                if both_held_it and _are_two(one.event, other.event):
                    rows.append(_row(one, other, generation))
    return rows


def _are_two(one: PlacedEvent, other: PlacedEvent) -> bool:
    """Whether they are two members: two clients, and two member ids if both are known."""
    return bool(one["process"] != other["process"] and (not one["member"] or one["member"] != other["member"]))


def _is_repeated(before: PlacedEvent | None, event: PlacedEvent) -> bool:
    """Whether it repeats the same assignment."""
    state = event["event"], event["generation"], event["member"]
    return before is not None and (before["event"], before["generation"], before["member"]) == state


def _row(one: _Ownership, other: _Ownership, generation: int) -> TwoOwnersRow:
    first, second = sorted((one, other), key=lambda held: held.begin)
    return {
        "run": first.event["run"], "partition_id": first.event["partition_id"], "group": first.event["group"],
        "generation": generation, "processes": (first.event["process"], second.event["process"]),
        "members": (first.event["member"], second.event["member"]),
        "begin_ns": second.begin, "end_ns": min(first.end, second.end),
    }  # fmt: skip


def _ownerships(runs: JudgedRuns) -> dict[tuple[int, str, int], list[_Ownership]]:
    """(run, group, partition) -> each member's ownership, from its assignment until it gave the partition up."""
    events: dict[tuple[int, str, int, int], list[PlacedEvent]] = {}
    for event in runs.group_events():
        if event["event"] in ("assigned", "revoked", "lost") and event["status"] != STATUS_FAIL:
            key = (event["run"], event["group"], event["partition_id"], event["process"])
            events.setdefault(key, []).append(event)
    owned: dict[tuple[int, str, int], list[_Ownership]] = {}
    for (run, group, partition_id, _), own in events.items():
        end = _FAR
        for before, event in zip(reversed([None, *own[:-1]]), reversed(own), strict=True):
            if event["event"] != "assigned":
                end = event["invoked_ns"]
            elif (of := event["generation"]) is not None and of >= 0 and not _is_repeated(before, event):
                owned.setdefault((run, group, partition_id), []).append(
                    _Ownership(event["completed_ns"], end, event, of)
                )
    return owned


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[int, str], list[TwoOwnersRow]] = {}
    for row in sorted(context.rows[ANSWER], key=lambda row: row["begin_ns"]):
        groups.setdefault((row["partition_id"], row["group"]), []).append(row)
    return [_finding(context, partition_id, group, rows) for (partition_id, group), rows in sorted(groups.items())]


def _finding(context: RunContext, partition_id: int, group: str, rows: Sequence[TwoOwnersRow]) -> Finding:
    history, first = context.partition(partition_id), rows[0]
    one, other = first["processes"]
    until = "the end" if first["end_ns"] >= _FAR else context.history.seconds(first["end_ns"])[3:]
    more = f", and {plural(len(rows) - 1, 'time')} more" if len(rows) > 1 else ""
    sentence = (
        f"Processes {one} and {other}, members of group {group}, both owned {history.name} in generation "
        f"{first['generation']} from {context.history.seconds(first['begin_ns'])[3:]} to {until}{more}."
    )
    return Finding(
        run=context.run, check=CHECK, classification="violation", kind="same-generation", topic=history.topic,
        partition=history.partition, count=len(rows), sentence=sentence, cause=Cause(code="one-generation-two-members"),
        first_ns=first["begin_ns"], last_ns=rows[-1]["begin_ns"],
        faults=[fault["fault"] for fault in history.faults_between(first["begin_ns"], first["begin_ns"])],
        evidence={
            "group": group,
            "owners": [{"generation": row["generation"], "processes": list(row["processes"]),
                        "members": list(row["members"]), "begin_ns": row["begin_ns"],
                        "end_ns": None if row["end_ns"] >= _FAR else row["end_ns"]} for row in rows[:20]],
        },
    )  # fmt: skip
