"""The offsets that a group may have committed at a moment: a register, written by commits and read by fetches.

A read may return any write that was not certainly overwritten before it, and nothing only if no write was certainly
there. Writes with unknown outcome may take effect at any later time; refused ones never do. What a read returned was
written last until then: no later read may return a write that had ended before that read began. Offsets sent to a
transaction are written when it commits, perhaps after the answer: certainly only when a later transaction of the same
producer has committed (KIP-447).
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.history.schema.client_rows import PROCESSES, TRANSACTIONS
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK

Key = tuple[int, str, int]  # run, group, partition
_FAR = 2**62


@dataclass(frozen=True, slots=True)
class Commit:
    offset: int
    invoked_ns: int
    completed_ns: int
    certain: bool
    process: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """offset: None if the answer was that there is none."""

    offset: int | None
    invoked_ns: int
    completed_ns: int


class Register:
    """The committed offset of one group in one partition. fetches: of its members, as they were answered."""

    def __init__(self, commits: Iterable[Commit], fetches: Iterable[Fetch] = ()) -> None:
        ordered = sorted(commits, key=lambda commit: commit.invoked_ns)
        self.commits: Sequence[Commit] = ordered
        self._certain = [commit for commit in ordered if commit.certain]
        self._unknown = [commit for commit in ordered if not commit.certain]
        self._begins = [commit.invoked_ns for commit in self._certain]
        self._latest_end = list(accumulate((commit.completed_ns for commit in self._certain), max))
        self._lawful: list[Fetch] = []
        for fetch in sorted(fetches, key=lambda fetch: fetch.completed_ns):
            if fetch.offset is not None and fetch.offset in self.may_answer(fetch):
                self._lawful.append(fetch)

    def last_before(self, time_ns: int) -> Commit | None:
        """Of the commits answered before `time_ns`, the one that began last."""
        place = bisect_right(self._begins, time_ns) - 1
        while place >= 0 and self._certain[place].completed_ns >= time_ns:
            place -= 1
        return self._certain[place] if place >= 0 else None

    def admissible(self, invoked_ns: int, completed_ns: int) -> list[Commit]:
        """The commits whose offset a read between these times may return; if empty, the read may return none."""
        last = self.last_before(invoked_ns)
        since = last.invoked_ns if last is not None else -_FAR
        found = [commit for commit in self._unknown if commit.invoked_ns <= completed_ns]
        place = bisect_right(self._begins, completed_ns) - 1
        while place >= 0 and self._latest_end[place] >= since:
            if self._certain[place].completed_ns >= since:
                found.append(self._certain[place])
            place -= 1
        return found

    def may_answer(self, fetch: Fetch) -> list[int | None]:
        """All offsets that this fetch may return, in view of the commits and of the lawful fetches before it."""
        shown = self.shown_before(fetch.invoked_ns)
        offsets: list[int | None] = [
            commit.offset
            for commit in self.admissible(fetch.invoked_ns, fetch.completed_ns)
            if shown is None or commit.offset == shown.offset or commit.completed_ns >= shown.invoked_ns
        ]
        if shown is None and self.last_before(fetch.invoked_ns) is None:
            offsets.append(None)
        return offsets

    def shown_before(self, time_ns: int) -> Fetch | None:
        """Of the lawful fetches of an offset that were answered before `time_ns`, the one that began last."""
        return max(
            (fetch for fetch in self._lawful if fetch.completed_ns < time_ns),
            key=lambda fetch: fetch.invoked_ns, default=None,
        )  # fmt: skip

    def least_at(self, time_ns: int) -> int | None:
        """The least possible committed offset at `time_ns`; None if there may be none."""
        if self.last_before(time_ns) is None:
            return None
        return min(commit.offset for commit in self.admissible(time_ns, time_ns))

    def steps(self) -> list[tuple[int, int | None, int]]:
        """(begin, least committed offset, greatest possible one; -1: none), each valid until the next."""
        times = {t for commit in self.commits for t in (commit.invoked_ns, commit.completed_ns + 1)}
        return [
            (t, self.least_at(t), max((commit.offset for commit in self.admissible(t, t)), default=-1))
            for t in sorted(times)
            if t < _FAR
        ]


def registers(runs: JudgedRuns) -> dict[Key, Register]:
    ends = _written_by(runs)
    commits: dict[Key, list[Commit]] = {}
    fetches: dict[Key, list[Fetch]] = {}
    for event in runs.group_events():
        if event["event"] == "fetched" and event["status"] == STATUS_OK:
            own = fetches.setdefault((event["run"], event["group"], event["partition_id"]), [])
            own.append(fetch_of(event))
        if event["event"] != "committed" or event["status"] == STATUS_FAIL or event["offset"] is None:
            continue
        certain = event["status"] == STATUS_OK
        end = (
            event["completed_ns"]
            if event["transaction"] is None
            else ends.get((event["run"], event["transaction"]), _FAR)
        )
        commit = Commit(event["offset"], event["invoked_ns"], end if certain else _FAR, certain, event["process"])
        commits.setdefault((event["run"], event["group"], event["partition_id"]), []).append(commit)
    return {key: Register(own, fetches.get(key, ())) for key, own in commits.items()}


def fetch_of(event: PlacedEvent) -> Fetch:
    offset = event["offset"]
    return Fetch(None if offset is None or offset < 0 else offset, event["invoked_ns"], event["completed_ns"])


def _written_by(runs: JudgedRuns) -> dict[tuple[int, int], int]:
    """(run, transaction) -> the time by which its offsets were certainly written."""
    ends: dict[tuple[int, int], int] = {}
    open_ones: dict[tuple[int, int], list[int]] = {}
    for row in sorted(runs.rows(TRANSACTIONS), key=lambda row: row["invoked_ns"]):
        if row["outcome"] == STATUS_OK:
            before = open_ones.setdefault((row["run"], row["process"]), [])
            ends.update({(row["run"], txn): row["completed_ns"] for txn in before})
            before[:] = [row["transaction"]]
    return ends


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
