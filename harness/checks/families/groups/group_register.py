"""The offsets that a group may have committed at a moment: a register, written by commits and read by fetches.

A read may return any write that was not certainly overwritten before it, and nothing only if no write was certainly
there. Writes with unknown outcome may take effect at any later time; refused ones never do. What a read returned was
written last until then: no later read may return a write that had ended before that read began.

Offsets that were sent to a transaction are written when their record is appended, and seen once the transaction's
marker is applied: of two commits the one whose record stands later holds, whichever is seen first (KAFKA-5247). When
they are seen at the latest is said by transactional_offsets.py, for reads that require stable offsets and for others
(KIP-447).
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from harness.checks.families.groups.transactional_offsets import Sent, TransactionalOffsets
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.history.schema.client_rows import PROCESSES
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK

Key = tuple[int, str, int]  # run, group, partition
Asking = Literal["any", "stable", "late"]
_FAR = 2**62


@dataclass(frozen=True, slots=True)
class Commit:
    """Its record was written between invoked_ns and completed_ns. sent: to a transaction, and when it is seen."""

    offset: int
    invoked_ns: int
    completed_ns: int
    certain: bool
    process: int
    sent: Sent | None = None

    def seen_by(self, asking: Asking) -> int:
        """From then on it is seen. late: it had to be, as far as anybody can tell, by whoever asks."""
        if self.sent is None:
            return self.completed_ns
        return {"any": self.sent.any_ns, "stable": self.sent.stable_ns, "late": self.sent.late_ns}[asking]

    @property
    def begins_ns(self) -> int:
        """Not seen before: a transaction is asked to commit only when its offsets were taken."""
        return self.invoked_ns if self.sent is None or not self.certain else self.completed_ns


@dataclass(frozen=True, slots=True)
class Fetch:
    """offset: None if the answer was that there is none. stable: it asked for stable offsets, as far as is known."""

    offset: int | None
    invoked_ns: int
    completed_ns: int
    stable: bool = False

    @property
    def asking(self) -> Asking:
        return "stable" if self.stable else "any"


class Register:
    """The committed offset of one group in one partition. fetches: of its members, as they were answered. aborted:
    what was sent to transactions that were aborted for certain."""

    def __init__(
        self, commits: Iterable[Commit], fetches: Iterable[Fetch] = (), aborted: Iterable[Commit] = ()
    ) -> None:
        ordered = sorted(commits, key=lambda commit: commit.invoked_ns)
        self.commits: Sequence[Commit] = ordered
        self._aborted = tuple(aborted)
        self._certain = [commit for commit in ordered if commit.certain]
        self._unknown = [commit for commit in ordered if not commit.certain]
        self._begins = [commit.invoked_ns for commit in self._certain]
        self._latest_end = list(accumulate((commit.completed_ns for commit in self._certain), max))
        self._lawful: list[Fetch] = []
        for fetch in sorted(fetches, key=lambda fetch: fetch.completed_ns):
            if fetch.offset is not None and fetch.offset in self.may_answer(fetch):
                self._lawful.append(fetch)

    def last_before(self, time_ns: int, asking: Asking = "any") -> Commit | None:
        """Of the commits seen before `time_ns`, the one that began last."""
        place = bisect_right(self._begins, time_ns) - 1
        while place >= 0 and self._certain[place].seen_by(asking) >= time_ns:
            place -= 1
        return self._certain[place] if place >= 0 else None

    def admissible(self, invoked_ns: int, completed_ns: int, asking: Asking = "any") -> list[Commit]:
        """The commits whose offset a read between these times may return; if empty, the read may return none."""
        last = self.last_before(invoked_ns, asking)
        since = last.invoked_ns if last is not None else -_FAR
        found = [commit for commit in self._unknown if commit.invoked_ns <= completed_ns]
        place = bisect_right(self._begins, completed_ns) - 1
        while place >= 0 and self._latest_end[place] >= since:
            commit = self._certain[place]
            if commit.completed_ns >= since and commit.begins_ns <= completed_ns:
                found.append(commit)
            place -= 1
        return found

    def may_answer(self, fetch: Fetch, asking: Asking | None = None) -> list[int | None]:
        """All offsets that this fetch may return, in view of the commits and of the lawful fetches before it."""
        asking = asking or fetch.asking
        shown = self.shown_before(fetch.invoked_ns)
        offsets: list[int | None] = [
            commit.offset
            for commit in self.admissible(fetch.invoked_ns, fetch.completed_ns, asking)
            if shown is None or commit.offset == shown.offset or commit.seen_by(shown.asking) >= shown.invoked_ns
        ]
        if shown is None and self.last_before(fetch.invoked_ns, asking) is None:
            offsets.append(None)
        return offsets

    def shown_before(self, time_ns: int) -> Fetch | None:
        """Of the lawful fetches of an offset that were answered before `time_ns`, the one that began last."""
        return max(
            (fetch for fetch in self._lawful if fetch.completed_ns < time_ns),
            key=lambda fetch: fetch.invoked_ns, default=None,
        )  # fmt: skip

    def was_aborted(self, fetch: Fetch) -> bool:
        """Whether what it answered was sent to a transaction that was aborted, and by nobody else."""
        return any(
            commit.offset == fetch.offset and commit.invoked_ns <= fetch.completed_ns for commit in self._aborted
        )

    def least_at(self, time_ns: int) -> int | None:
        """The least possible committed offset at `time_ns`; None if there may be none."""
        if self.last_before(time_ns) is None:
            return None
        return min(commit.offset for commit in self.admissible(time_ns, time_ns))

    def steps(self) -> list[tuple[int, int | None, int]]:
        """(begin, least committed offset, greatest possible one; -1: none), each valid until the next."""
        times = {
            t
            for commit in self.commits
            for t in (commit.invoked_ns, commit.begins_ns, commit.completed_ns + 1, commit.seen_by("any") + 1)
        }
        return [
            (t, self.least_at(t), max((commit.offset for commit in self.admissible(t, t)), default=-1))
            for t in sorted(times)
            if t < _FAR
        ]


def registers(runs: JudgedRuns) -> dict[Key, Register]:
    events = [event for event in runs.group_events() if event["event"] in ("committed", "fetched")]
    transactional = TransactionalOffsets(runs) if any(event["transaction"] is not None for event in events) else None
    commits: dict[Key, list[Commit]] = {}
    fetches: dict[Key, list[Fetch]] = {}
    aborted: dict[Key, list[Commit]] = {}
    for event in events:
        key = (event["run"], event["group"], event["partition_id"])
        if event["event"] == "fetched":
            if event["status"] == STATUS_OK:
                fetches.setdefault(key, []).append(fetch_of(event))
        elif event["offset"] is not None:
            commit = _commit_of(event, event["offset"], transactional)
            if event["status"] != STATUS_FAIL:
                commits.setdefault(key, []).append(commit)
            elif transactional is not None and transactional.was_aborted(event):
                aborted.setdefault(key, []).append(commit)
    return {
        key: Register(commits.get(key, ()), fetches.get(key, ()), aborted.get(key, ()))
        for key in commits.keys() | aborted.keys()
    }


def _commit_of(event: PlacedEvent, offset: int, transactional: TransactionalOffsets | None) -> Commit:
    begin_ns, end_ns, process = event["invoked_ns"], event["completed_ns"], event["process"]
    if transactional is None or event["transaction"] is None:
        certain = event["status"] == STATUS_OK
        return Commit(offset, begin_ns, end_ns if certain else _FAR, certain, process)
    sent = transactional.sent(event)
    if sent is None:
        return Commit(offset, begin_ns, _FAR, False, process, Sent(any_ns=_FAR, stable_ns=_FAR, late_ns=_FAR))
    return Commit(offset, begin_ns, end_ns, True, process, sent)


def fetch_of(event: PlacedEvent) -> Fetch:
    offset = event["offset"]
    answered = None if offset is None or offset < 0 else offset
    return Fetch(answered, event["invoked_ns"], event["completed_ns"], event["require_stable"] is True)


def members(runs: JudgedRuns) -> dict[tuple[int, int], str]:
    """(run, process) -> its group, from the client's description, otherwise from its group events."""
    known = {(row["run"], row["process"]): row["group"] for row in runs.group_events() if row["group"]}
    known.update({place: row["group"] for place, row in runs.processes().items() if row["group"]})
    return known


def resets(runs: JudgedRuns) -> Mapping[tuple[int, str], str]:
    """(run, group) -> auto.offset.reset of its members; missing if they differ or it is unknown.

    A member with "none" starts only at a committed offset: it is ignored here.
    """
    said: dict[tuple[int, str], set[str]] = {}
    for row in runs.rows(PROCESSES):
        if row["group"] and row["offset_reset"] != "none":
            said.setdefault((row["run"], row["group"]), set()).add(row["offset_reset"] or "unknown")
    return {key: next(iter(values)) for key, values in said.items() if len(values) == 1}
