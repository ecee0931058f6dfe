"""A group's members as their clients recorded them: who they are, and until when each certainly was one.

A static member (KIP-345) that starts anew takes over the place of the one before it, in the same generation and with
another member id: both are one member. A member's time ends with its process: where it crashed, where its worker went
on with another client, or, if its journal was cut short, after the last thing in it.
"""

from itertools import pairwise

from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.spark.tables import CRASHES
from harness.history.schema.client_rows import ProcessRow

Member = tuple[int, int]  # run, process


class Members:
    def __init__(self, runs: JudgedRuns) -> None:
        self._processes = runs.processes()
        self._upgraded = {
            (row["run"], row["group"]) for row in self._processes.values() if row["group_protocol"] == "consumer"
        }
        self._ends = _ends(runs, self._processes)

    def end_of(self, event: PlacedEvent) -> int | None:
        """The earliest moment at which the member of this event may have ended; None: not before the run did."""
        return self._ends.get((event["run"], event["process"]))

    def are_two(self, one: PlacedEvent, other: PlacedEvent) -> bool:
        """Whether they are of two members: two clients, two member ids if both are known, and not one static member."""
        if one["process"] == other["process"] or (one["member"] and one["member"] == other["member"]):
            return False
        instance = self._instance(one)
        return instance is None or instance != self._instance(other)

    def replaces(self, other: PlacedEvent, one: PlacedEvent) -> bool:
        """Whether another client took the place of this one as the same static member, with a member id of its own."""
        instance = self._instance(one)
        are_apart = other["process"] != one["process"] and not (one["member"] and one["member"] == other["member"])
        return are_apart and instance is not None and instance == self._instance(other)

    def is_classic(self, event: PlacedEvent) -> bool:
        """Whether it is recorded that it joined by JoinGroup and SyncGroup a group that has no member by KIP-848: where
        one is, the group is upgraded, and its classic members have epochs of their own as well."""
        process = self._processes.get((event["run"], event["process"]))
        is_classic = process is not None and process["group_protocol"] == "classic"
        return is_classic and (event["run"], event["group"]) not in self._upgraded

    def _instance(self, event: PlacedEvent) -> str | None:
        process = self._processes.get((event["run"], event["process"]))
        return None if process is None else process["group_instance_id"]


def _ends(runs: JudgedRuns, processes: dict[Member, ProcessRow]) -> dict[Member, int]:
    first: dict[Member, int] = {}
    last: dict[Member, int] = {}
    for event in runs.group_events():
        member = event["run"], event["process"]
        first.setdefault(member, event["invoked_ns"])
        last[member] = max(last.get(member, 0), event["completed_ns"])
    ends = {member: t for member, t in last.items() if _was_cut_short(processes.get(member))}
    of_workers: dict[tuple[int, str | None], list[Member]] = {}
    for member, row in processes.items():
        of_workers.setdefault((row["run"], row["client"]), []).append(member)
    for (_, client), own in of_workers.items():
        present = sorted((member for member in own if member in first), key=lambda member: first[member])
        for member, successor in pairwise(present):
            if client is not None and last[member] <= first[successor]:
                ends[member] = min(ends.get(member, first[successor]), first[successor])
    for crash in runs.rows(CRASHES):
        member = crash["run"], crash["process"]
        ends[member] = min(ends.get(member, crash["invoked_ns"]), crash["invoked_ns"])
    return ends


def _was_cut_short(process: ProcessRow | None) -> bool:
    return process is not None and process["journal_complete"] is False
