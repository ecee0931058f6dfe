"""Zombie commits: a coordinator accepted the offsets of a member that was replaced.

A commit names the generation of its member (in KIP-848: the member's epoch), and the coordinator refuses any but the
present one: ILLEGAL_GENERATION (22), STALE_MEMBER_EPOCH (113). So it is a violation if a commit was accepted that was
sent after a member of a later generation had been told its assignment. Where members have epochs of their own, or it is
not known whether they have, that counts if it was the committing member itself, or if another was told the assignment
of that very partition. Since KIP-1251 (4.3) a member may commit with an older epoch of its own, as long as it had the
partition by then. Offsets that are sent to a transaction are fenced alike if they name the member (KIP-447, since 2.5),
and may go without.

A static member that starts anew replaces the one before it (KIP-345): whatever that one still commits is refused with
FENCED_INSTANCE_ID (82), in the same generation as well.

A commit of the present generation for a partition that another member holds by then is lawful, and told as an
observation: coordinators do not check who owns a partition. Not judged: commits without a generation.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from harness.checks.contract.rulings import Cause, Class
from harness.checks.families.groups.group_forgetting import forgetting_ruled
from harness.checks.families.groups.group_members import Members
from harness.checks.families.groups.group_owners import assignments
from harness.checks.families.groups.group_partition import kept_generation
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.facts.releases import OLDER_EPOCHS_COMMIT, TRANSACTIONS_NAME_MEMBERS, Release
from harness.history.schema.client_rows import CLIENT_EVENTS
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK
from harness.history.schema.typed_rows import RowsOf

CHECK = "zombie-commit"
_EXAMPLES_MAX = 20
_TO_A_TRANSACTION, _NAMES_MEMBER = "TxnOffsetCommit", 3  # the request, and from which version on
_Kind = Literal["old-generation", "replaced", "given-up"]


class ZombieCommitRow(TypedDict):
    """An accepted commit, and the assignment of another member that was told before it was sent."""

    run: int
    partition_id: int
    group: str
    kind: _Kind
    process: int
    generation: int
    offset: int | None
    invoked_ns: int
    completed_ns: int
    other_process: int
    other_generation: int
    told_ns: int


ANSWER = RowsOf(CHECK, ZombieCommitRow)


def query(runs: JudgedRuns) -> list[ZombieCommitRow]:
    members, own, requests = Members(runs), _last_of_partitions(runs), _Requests(runs)
    by_group = {key: _Assignments(events, members) for key, events in assignments(runs).items()}
    rows: list[ZombieCommitRow] = []
    for event in runs.group_events():
        known = by_group.get((event["run"], event["group"]))
        generation = event["generation"]
        is_commit = event["event"] == "committed" and event["status"] == STATUS_OK
        if not is_commit or known is None or generation is None or generation < 0 or not requests.name_member(event):
            continue
        held = [
            each
            for each in own.get((event["run"], event["process"], event["partition_id"]), ())
            if each["completed_ns"] <= event["invoked_ns"]
        ]
        fence = _Fence(
            of_the_group=members.is_classic(event),
            of_the_member=members.is_classic(event) or requests.release(event) < OLDER_EPOCHS_COMMIT,
        )
        kind: _Kind = "old-generation"
        is_present = not fence.of_the_group and known.is_present_without_it(event, generation, held)
        other = None if is_present else known.later_than(event, generation, held, fence)
        if other is None:
            kind, other = "given-up", known.given_up(event, generation, held, may_be_behind=is_present)
        if (successor := known.replaced_by(event)) is not None:
            kind, other = "replaced", successor
        if other is not None:
            rows.append(_row(kind, event, generation, other))
    return rows


@dataclass(frozen=True, kw_only=True)
class _Fence:
    """Whose later generations, told for whichever partition, have a commit refused: all members', the member's own."""

    of_the_group: bool
    of_the_member: bool


class _Requests:
    """What requests of commits name, by release and version."""

    def __init__(self, runs: JudgedRuns) -> None:
        self._releases = {history.run: history.settings.release for history in runs.histories}
        self._versions: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for row in runs.rows(CLIENT_EVENTS):
            if row["event"] == "request" and row["request"] == _TO_A_TRANSACTION and row["version"] is not None:
                self._versions.setdefault((row["run"], row["process"]), []).append((row["time_ns"], row["version"]))

    def release(self, event: PlacedEvent) -> Release:
        return self._releases[event["run"]]

    def name_member(self, event: PlacedEvent) -> bool:
        """Whether a commit with a generation was fenced by it."""
        if event["transaction"] is None:
            return True
        versions = self._versions.get((event["run"], event["process"]), ())
        of = [version for time_ns, version in versions if time_ns <= event["completed_ns"]]
        return of[-1] >= _NAMES_MEMBER if of else self.release(event) >= TRANSACTIONS_NAME_MEMBERS


class _Assignments:
    """The assignments of one group, in order of their answers."""

    def __init__(self, events: Sequence[PlacedEvent], members: Members) -> None:
        self._events = events
        self._members = members
        self._times = [event["completed_ns"] for event in events]
        self._own: dict[int, list[PlacedEvent]] = {}
        for event in events:
            self._own.setdefault(event["process"], []).append(event)

    def later_than(
        self, commit: PlacedEvent, generation: int, held: Sequence[PlacedEvent], fence: _Fence
    ) -> PlacedEvent | None:
        """What a member was told of a later generation, after the commit's own one and before the commit was sent.

        A group that was forgotten begins again with low generations: so only what was told after the commit's own one.
        """
        taken = _taken_since(held)
        found: PlacedEvent | None = None
        for event in self._before(commit["invoked_ns"]):
            of, is_own = event["generation"] or 0, event["process"] == commit["process"]
            if of <= generation and (is_own or (of == generation and commit["process"] not in self._own)):
                return found
            if is_own:
                counts = fence.of_the_member or event == taken
            else:
                of_it = fence.of_the_group or event["partition_id"] == commit["partition_id"]
                counts = of_it and self._members.are_two(commit, event) and not self._was_in(commit, event)
            found = event if of > generation and counts else found
        return None

    def replaced_by(self, commit: PlacedEvent) -> PlacedEvent | None:
        """What another client was told as the same static member, after the committing one's own last assignment and
        before the commit was sent. A member that was told anything later had taken its place back."""
        own = self._own.get(commit["process"], ())
        if not own or own[-1]["completed_ns"] > commit["invoked_ns"]:
            return None
        since_ns = own[-1]["completed_ns"]
        later = (event for event in self._before(commit["invoked_ns"]) if event["completed_ns"] > since_ns)
        return next((event for event in later if self._members.replaces(event, commit)), None)

    def is_present_without_it(self, commit: PlacedEvent, generation: int, held: Sequence[PlacedEvent]) -> bool:
        """Whether the member gave the partition up, and was told the generation of its commit after that: where members
        have epochs of their own, that is its present one, however far others are."""
        own = [event for event in self._own.get(commit["process"], ()) if event["completed_ns"] <= commit["invoked_ns"]]
        if not own or not held or held[-1]["event"] == "assigned":
            return False
        return own[-1]["generation"] == generation and own[-1]["completed_ns"] > held[-1]["invoked_ns"]

    def _was_in(self, commit: PlacedEvent, later: PlacedEvent) -> bool:
        """Whether the committing member was one of that later generation, and only heard of it after it committed.

        Not of the very one if it was told a partition that another had in it: the number came again.
        """
        own = self._own.get(commit["process"], ())
        after = {
            event["partition_id"]
            for event in own
            if event["completed_ns"] > commit["invoked_ns"] and event["generation"] == later["generation"]
        }
        return bool(after) and not any(
            event["generation"] == later["generation"]
            and event["partition_id"] in after
            and self._members.are_two(commit, event)
            for event in self._before(commit["invoked_ns"])
        )

    def given_up(
        self, commit: PlacedEvent, generation: int, held: Sequence[PlacedEvent], *, may_be_behind: bool
    ) -> PlacedEvent | None:
        """The assignment of the partition to another member, after the committing one had given it up."""
        if not held or held[-1]["event"] == "assigned":
            return None
        for event in self._before(commit["invoked_ns"]):
            if event["completed_ns"] < held[-1]["invoked_ns"]:
                return None
            is_other = event["partition_id"] == commit["partition_id"] and self._members.are_two(commit, event)
            if is_other and ((event["generation"] or 0) <= generation or may_be_behind):
                return event
        return None

    def _before(self, time_ns: int) -> Sequence[PlacedEvent]:
        """Those that were answered by then, the last one first."""
        return self._events[: bisect_right(self._times, time_ns)][::-1]


def _taken_since(held: Sequence[PlacedEvent]) -> PlacedEvent | None:
    """The assignment with which the member has had the partition ever since."""
    taken: PlacedEvent | None = None
    for event in held:
        taken = None if event["event"] != "assigned" else taken or event
    return taken


def _last_of_partitions(runs: JudgedRuns) -> dict[tuple[int, int, int], list[PlacedEvent]]:
    """(run, process, partition) -> when it was assigned the partition and gave it up, in order."""
    own: dict[tuple[int, int, int], list[PlacedEvent]] = {}
    for event in runs.group_events():
        if event["event"] in ("assigned", "revoked", "lost") and event["status"] != STATUS_FAIL:
            own.setdefault((event["run"], event["process"], event["partition_id"]), []).append(event)
    return own


def _row(kind: _Kind, commit: PlacedEvent, generation: int, other: PlacedEvent) -> ZombieCommitRow:
    return {
        "run": commit["run"],
        "partition_id": commit["partition_id"],
        "group": commit["group"],
        "kind": kind,
        "process": commit["process"],
        "generation": generation,
        "offset": commit["offset"],
        "invoked_ns": commit["invoked_ns"],
        "completed_ns": commit["completed_ns"],
        "other_process": other["process"],
        "other_generation": other["generation"] or 0,
        "told_ns": other["completed_ns"],
    }


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[int, str, _Kind, Class, Cause], list[ZombieCommitRow]] = {}
    for row in context.rows[ANSWER]:
        groups.setdefault((row["partition_id"], row["group"], row["kind"], *_ruled(context, row)), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: group[0][:4])
    return [_finding(context, *key[2:], rows) for key, rows in ordered]


def _ruled(context: RunContext, row: ZombieCommitRow) -> tuple[Class, Cause]:
    if row["kind"] == "given-up":
        return "observation", Cause(code="given-up-and-committed")
    kept = kept_generation(
        context.partition(row["partition_id"]),
        group=row["group"],
        generation=row["other_generation"],
        told_ns=row["told_ns"],
        gone_ns=row["completed_ns"],
        process=row["process"],
    )
    forgotten = forgetting_ruled(context, kept)
    if forgotten[0] != "violation":
        return forgotten
    is_replaced = row["kind"] == "replaced"
    return "violation", Cause(code="replaced-member-committed" if is_replaced else "old-generation-committed")


def _finding(
    context: RunContext, kind: _Kind, classification: Class, cause: Cause, rows: Sequence[ZombieCommitRow]
) -> Finding:
    first, history = rows[0], context.partition(rows[0]["partition_id"])
    who = "it" if first["other_process"] == first["process"] else f"process {first['other_process']}"
    if kind == "replaced":
        who = f"{who}, the same static member,"
    before = f"{who} had been told its assignment in generation {first['other_generation']}"
    if kind == "given-up":
        before = f"it had given the partition up, and {before}"
    sentence = (
        f"{plural(len(rows), 'commit')} of process {first['process']} of group {first['group']} for {history.name}, in "
        f"generation {first['generation']}, {plural(len(rows), 'was')} accepted after {before}, first "
        f"{context.history.seconds(first['completed_ns'])}: {cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=kind,
        topic=history.topic,
        partition=history.partition,
        count=len(rows),
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        first_ns=first["invoked_ns"],
        last_ns=rows[-1]["completed_ns"],
        offsets=[row["offset"] for row in rows if row["offset"] is not None],
        faults=[fault["fault"] for fault in history.faults_between(first["told_ns"], first["completed_ns"])],
        evidence={
            "group": first["group"],
            "commits": [
                {
                    "process": row["process"],
                    "generation": row["generation"],
                    "offset": row["offset"],
                    "t_ns": row["completed_ns"],
                    "other_process": row["other_process"],
                    "other_generation": row["other_generation"],
                    "told_t_ns": row["told_ns"],
                }
                for row in rows[:_EXAMPLES_MAX]
            ],
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query)
