"""Two owners: one partition given to two members of a group in the same generation.

A generation's assignment is a function from partition to member (KIP-429: in a cooperative rebalance a partition is
revoked in one generation and given away in a later one; KIP-848: the same holds for member epochs). So it is a
violation when two members were assigned a partition in one generation and neither can have given it up, by a revocation
or a loss that began before the other's assignment was answered. Being told of the partition anew gives up nothing. A
member that was deposed and does not know it yet is of an older generation, and lawful. Not judged: assignments whose
generation the client does not tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import Cause
from harness.checks.runs import Runs
from harness.checks.tables import Row
from harness.checks.wording.words import plural
from harness.history.schemas import STATUS_FAIL

CHECK = "two-owners"
_FAR = 2**62


@dataclass(frozen=True, slots=True)
class _Ownership:
    begin: int  # the assignment was answered
    end: int  # the earliest moment at which it may have been given up, or never
    event: Row


def query(runs: Runs) -> list[Row]:
    rows: list[Row] = []
    for owned in _ownerships(runs).values():
        by_generation: dict[int, list[_Ownership]] = {}
        for ownership in owned:
            by_generation.setdefault(ownership.event["generation"], []).append(ownership)
        for generation, held in by_generation.items():
            for one, other in combinations(held, 2):
                # What is given up and what is taken overlap where the times have a margin: then it was given up.
                both_held_it = one.begin < other.end and other.begin < one.end
                if both_held_it and _are_two(one.event, other.event):
                    rows.append(_row(one, other, generation))
    return rows


def _are_two(one: Row, other: Row) -> bool:
    """Whether they are two members: of two clients, and of two ids as far as these are told."""
    return bool(one["process"] != other["process"] and (not one["member"] or one["member"] != other["member"]))


def _told_again(before: Row | None, event: Row) -> bool:
    """The same assignment once more."""
    return before is not None and all(before[name] == event[name] for name in ("event", "generation", "member"))


def _row(one: _Ownership, other: _Ownership, generation: int) -> Row:
    first, second = sorted((one, other), key=lambda held: held.begin)
    return {
        "run": first.event["run"], "tp": first.event["tp"], "group": first.event["group"], "generation": generation,
        "processes": (first.event["process"], second.event["process"]),
        "members": (first.event["member"], second.event["member"]),
        "begin_t": second.begin, "end_t": min(first.end, second.end),
    }  # fmt: skip


def _ownerships(runs: Runs) -> dict[tuple[int, str, int], list[_Ownership]]:
    """(run, group, partition) -> what each member held, from its assignment until it gave the partition up."""
    events: dict[tuple[int, str, int, int], list[Row]] = {}
    for event in runs.group_events():
        if event["event"] in ("assigned", "revoked", "lost") and event["status"] != STATUS_FAIL:
            key = (event["run"], event["group"], event["tp"], event["process"])
            events.setdefault(key, []).append(event)
    owned: dict[tuple[int, str, int], list[_Ownership]] = {}
    for (run, group, tp, _), own in events.items():
        end = _FAR
        for before, event in zip(reversed([None, *own[:-1]]), reversed(own), strict=True):
            if event["event"] != "assigned":
                end = event["t0"]
            elif event["generation"] is not None and event["generation"] >= 0 and not _told_again(before, event):
                owned.setdefault((run, group, tp), []).append(_Ownership(event["t1"], end, event))
    return owned


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in sorted(context.rows.get(CHECK, ()), key=lambda row: row["begin_t"]):
        groups.setdefault((row["tp"], row["group"]), []).append(row)
    return [_finding(context, tp, group, rows) for (tp, group), rows in sorted(groups.items())]


def _finding(context: RunContext, tp: int, group: str, rows: Sequence[Row]) -> Finding:
    story, first = context.partition(tp), rows[0]
    one, other = first["processes"]
    until = "the end" if first["end_t"] >= _FAR else context.story.seconds(first["end_t"])[3:]
    more = f", and {plural(len(rows) - 1, 'time')} more" if len(rows) > 1 else ""
    sentence = (
        f"Processes {one} and {other}, members of group {group}, both owned {story.name} in generation "
        f"{first['generation']} from {context.story.seconds(first['begin_t'])[3:]} to {until}{more}."
    )
    return Finding(
        run=context.run, check=CHECK, classification="violation", kind="same-generation", topic=story.topic,
        part=story.part, count=len(rows), sentence=sentence, cause=Cause(code="one-generation-two-members"),
        t_first=first["begin_t"], t_last=rows[-1]["begin_t"],
        faults=[fault["fault"] for fault in story.faults_between(first["begin_t"], first["begin_t"])],
        evidence={
            "group": group,
            "owners": [{"generation": row["generation"], "processes": list(row["processes"]),
                        "members": list(row["members"]), "begin_ns": row["begin_t"],
                        "end_ns": None if row["end_t"] >= _FAR else row["end_t"]} for row in rows[:20]],
        },
    )  # fmt: skip
