"""The offsets that a group may have committed at a moment: a register, written by commits and read by fetches.

A read may return any write that was not certainly overwritten before it, and nothing only if no write was certainly
there. Writes with unknown outcome may take effect at any later time; refused ones never do. What a read returned was
written last until then: no later read may return a write that had ended before that read began.

Offsets that were sent to a transaction are written when their record is appended, and seen once the transaction's
marker is applied: of two commits the one whose record stands later holds, whichever is seen first (KAFKA-5247). Where
the log was kept, the records' places say which stands later (offsets_in_logs.py), else the times of their requests do,
if one had ended before the other began. When they are seen at the latest is said by transactional_offsets.py, for reads
that require stable offsets and for others (KIP-447).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Literal

from harness.checks.contract.coordinators_log import Ruled
from harness.checks.families.groups import offsets_in_logs
from harness.checks.families.groups.offsets_in_logs import Trace
from harness.checks.families.groups.transactional_offsets import Sent, TransactionalOffsets
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.history.schema.client_rows import PROCESSES
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK

Key = tuple[int, str, int]  # run, group, partition
Asking = Literal["any", "stable", "late"]


@dataclass(frozen=True, slots=True)
class Commit:
    """Its record was written between invoked_ns and completed_ns. sent: to a transaction, and when it is seen. place:
    of its record in the offsets' log, if that is known; of one without an answer, or sent again, the first that
    it may have, and last_place the last. gone_ns: from then on no leader had it."""

    offset: int
    invoked_ns: int
    completed_ns: int
    certain: bool
    process: int
    sent: Sent | None = None
    place: int | None = None
    last_place: int | None = None
    gone_ns: int = END_OF_TIME_NS

    def seen_by(self, asking: Asking) -> int:
        """From then on it is seen. late: it had to be, as far as anybody can tell, by whoever asks."""
        if self.sent is None:
            return self.completed_ns
        seen_ns = {"any": self.sent.any_ns, "stable": self.sent.stable_ns, "late": self.sent.late_ns}[asking]
        return max(seen_ns, self.completed_ns)

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


@dataclass(frozen=True, slots=True)
class _Seen:
    """Commits that were seen by a moment: the last of them, and what they overwrote."""

    last: Commit
    since_ns: int  # when one of them was asked for: what had been answered before is overwritten
    place: int  # of the last of their records, in the log

    @staticmethod
    def one(commit: Commit) -> "_Seen":
        return _Seen(commit, commit.invoked_ns, -1 if commit.place is None else commit.place)

    def after(self, other: "_Seen") -> "_Seen":
        mine, theirs = self.last.place, other.last.place
        later = other.last.invoked_ns >= self.last.invoked_ns if mine is None or theirs is None else theirs > mine
        return _Seen(
            other.last if later else self.last, max(self.since_ns, other.since_ns), max(self.place, other.place)
        )

    def overwrote(self, commit: Commit) -> bool:
        last = commit.place if commit.last_place is None else commit.last_place
        return commit.completed_ns < self.since_ns or (last is not None and last < self.place)


class Register:
    """The committed offset of one group in one partition. fetches: of its members, as they were answered. aborted:
    what was sent to transactions that were aborted for certain."""

    def __init__(
        self, commits: Iterable[Commit], fetches: Iterable[Fetch] = (), aborted: Iterable[Commit] = ()
    ) -> None:
        ordered = sorted(commits, key=lambda commit: commit.invoked_ns)
        self.commits: Sequence[Commit] = ordered
        self._fetches, self._aborted = tuple(fetches), tuple(aborted)
        self._by_offset: dict[int | None, list[Commit]] = {}
        for commit in ordered:
            self._by_offset.setdefault(commit.offset, []).append(commit)
        self._certain = [commit for commit in ordered if commit.certain]
        self._unknown = [commit for commit in ordered if not commit.certain]
        self._begins = [commit.invoked_ns for commit in self._certain]
        self._latest_end = list(accumulate((commit.completed_ns for commit in self._certain), max))
        self._seen: dict[Asking, list[Commit]] = {}
        self._so_far: dict[Asking, list[_Seen]] = {}
        self._lawful: list[Fetch] = []
        for fetch in sorted(self._fetches, key=lambda fetch: fetch.completed_ns):
            if fetch.offset is not None and fetch.offset in self.may_answer(fetch):
                self._lawful.append(fetch)

    @cached_property
    def by_last_records(self) -> "Register":
        """What it would be if of each commit that was sent again the last record had been answered."""
        if all(each.last_place in (None, each.place) for each in self._certain):
            return self
        as_last = [each if each.last_place is None else replace(each, place=each.last_place) for each in self._certain]
        return Register([*as_last, *self._unknown], self._fetches, self._aborted)

    def last_before(self, time_ns: int, asking: Asking = "any") -> Commit | None:
        """Of the commits seen before `time_ns`, the last one."""
        seen = self._seen_before(time_ns, asking)
        return None if seen is None else seen.last

    def first_after(self, fetch: Fetch) -> Commit | None:
        """Of the certain ones outside transactions before `fetch`, the first that is later than what it answered."""
        shown = self._may_have_shown(fetch)
        return min(
            (
                commit
                for commit in self._certain
                if commit.sent is None
                and commit.completed_ns < fetch.invoked_ns
                and all(_Seen.one(commit).overwrote(each) for each in shown)
            ),
            key=lambda commit: commit.invoked_ns,
            default=None,
        )

    def _seen_before(self, time_ns: int, asking: Asking) -> "_Seen | None":
        if asking not in self._seen:
            self._seen[asking] = sorted(self._certain, key=lambda commit: commit.seen_by(asking))
            self._so_far[asking] = list(accumulate(map(_Seen.one, self._seen[asking]), _Seen.after))
        count = bisect_left(self._seen[asking], time_ns, key=lambda commit: commit.seen_by(asking))
        return self._so_far[asking][count - 1] if count else None

    def admissible(self, invoked_ns: int, completed_ns: int, asking: Asking = "any") -> list[Commit]:
        """The commits whose offset a read between these times may return; if empty, the read may return none."""
        seen = self._seen_before(invoked_ns, asking)
        since = seen.since_ns if seen is not None else -END_OF_TIME_NS
        unknown = self._unknown
        found = [commit for commit in unknown if commit.invoked_ns <= completed_ns and commit.gone_ns >= invoked_ns]
        place = bisect_right(self._begins, completed_ns) - 1
        while place >= 0 and self._latest_end[place] >= since:
            commit = self._certain[place]
            if commit.completed_ns >= since and commit.begins_ns <= completed_ns:
                found.append(commit)
            place -= 1
        return [commit for commit in found if seen is None or not seen.overwrote(commit)]

    def may_answer(self, fetch: Fetch, asking: Asking | None = None) -> list[int | None]:
        """All offsets that this fetch may return, in view of the commits and of the lawful fetches before it."""
        asking = asking or fetch.asking
        shown = self.shown_before(fetch.invoked_ns)
        holding = [] if shown is None else self._may_have_shown(shown)
        offsets: list[int | None] = [
            commit.offset
            for commit in self.admissible(fetch.invoked_ns, fetch.completed_ns, asking)
            if shown is None
            or commit.offset == shown.offset
            or (
                commit.seen_by(shown.asking) >= shown.invoked_ns
                and not all(_Seen.one(each).overwrote(commit) for each in holding)
            )
        ]
        if shown is None and self.last_before(fetch.invoked_ns, asking) is None:
            offsets.append(None)
        return offsets

    def _may_have_shown(self, fetch: Fetch) -> list[Commit]:
        """Those that it may have answered: one of them held then, and what stands before that holds no more."""
        return [each for each in self._by_offset.get(fetch.offset, ()) if each.begins_ns <= fetch.completed_ns]

    def shown_before(self, time_ns: int) -> Fetch | None:
        """Of the lawful fetches of an offset that were answered before `time_ns`, the one that began last."""
        return max(
            (fetch for fetch in self._lawful if fetch.completed_ns < time_ns),
            key=lambda fetch: fetch.invoked_ns,
            default=None,
        )

    def held_by(self, fetch: Fetch, asking: Asking = "any") -> Commit | Fetch | None:
        """What the offset was when it was fetched, for all that is known: the last certain commit, or what was answered
        after it, unless that is answered again."""
        last, shown = self.last_before(fetch.invoked_ns, asking), self.shown_before(fetch.invoked_ns)
        if shown is None or shown.offset == fetch.offset:
            return last
        if last is not None and (last.completed_ns >= shown.invoked_ns or last.offset == shown.offset):
            return last
        return shown

    def still_shown(self, held: Commit | Fetch | None, time_ns: int) -> int | None:
        """When a lawful fetch before `time_ns` began that answered it, or what came after it; None: there was none. As
        long as a commit need not be seen, what was answered says nothing of it."""
        shown = self.shown_before(time_ns)
        if shown is None or (
            isinstance(held, Commit) and shown.offset != held.offset and shown.invoked_ns < held.seen_by(shown.asking)
        ):
            return None
        return shown.invoked_ns

    def asked_for(self, held: Commit | Fetch) -> int:
        """When its record cannot have been written before."""
        if isinstance(held, Commit):
            return held.invoked_ns
        own = (each.invoked_ns for each in self._by_offset.get(held.offset, ()))
        return max((sent_ns for sent_ns in own if sent_ns <= held.completed_ns), default=held.invoked_ns)

    def was_aborted(self, fetch: Fetch) -> bool:
        """Whether what it answered was sent to a transaction that was aborted, and by nobody else."""
        return any(
            commit.offset == fetch.offset and commit.invoked_ns <= fetch.completed_ns for commit in self._aborted
        )

    def greatest_committed(self) -> int:
        """That was committed for certain: by its answer, or since a fetch answered it lawfully. 0 if there is none."""
        fetched = (fetch.offset for fetch in self._lawful if fetch.offset is not None)
        return max(*(commit.offset for commit in self._certain), *fetched, 0, 0)

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
            if t < END_OF_TIME_NS
        ]


def registers(runs: JudgedRuns) -> dict[Key, Register]:
    """To be asked for by `runs.once`."""
    return _registers(runs, _events(runs), _transactional(runs))


@dataclass(frozen=True)
class AsForgotten:
    """What a register would be if every transaction had ended as its client was told. forgotten: by the offset that was
    sent to one, and when, what lawfully made its coordinator forget it, or may have done so. until: what it would be
    but for what was forgotten after a time."""

    register: Register
    forgotten: Mapping[tuple[int, int], Ruled]
    until: Callable[[int], Register]

    def ruled(self, fetch: Fetch, held: Commit | Fetch | None) -> Ruled:
        """What explains an answer that is none of this register: by what held, by what was answered, or by any."""
        own = None if held is None else self.forgotten.get((held.offset or 0, held.invoked_ns))
        answered = (ruled for (offset, _), ruled in self.forgotten.items() if offset == fetch.offset)
        doubtful = min(self.forgotten.values(), key=lambda ruled: ruled[0] == "permitted")
        return own or next(answered, doubtful)


def registers_as_forgotten(runs: JudgedRuns) -> dict[Key, AsForgotten]:
    """Those that a coordinator's forgetting makes others."""
    transactional, events = _transactional(runs), _events(runs)
    if transactional is None:
        return {}
    forgotten: dict[Key, dict[tuple[int, int], Ruled]] = {}
    for event in events:
        if event["event"] == "committed" and (ruled := transactional.forgotten(event)) is not None:
            forgotten.setdefault(_key_of(event), {})[event["offset"] or 0, event["invoked_ns"]] = ruled
    concerned = [event for event in events if _key_of(event) in forgotten]

    def until(key: Key, time_ns: int) -> Register:
        return _registers(runs, [each for each in concerned if _key_of(each) == key], transactional.until(time_ns))[key]

    others = _registers(runs, concerned, transactional.until(-1)) if concerned else {}
    return {key: AsForgotten(register, forgotten[key], partial(until, key)) for key, register in others.items()}


def _events(runs: JudgedRuns) -> list[PlacedEvent]:
    return [event for event in runs.group_events() if event["event"] in ("committed", "fetched")]


def _transactional(runs: JudgedRuns) -> TransactionalOffsets | None:
    inside = any(event["transaction"] is not None for event in _events(runs))
    return runs.once(TransactionalOffsets) if inside else None


def _key_of(event: PlacedEvent) -> Key:
    return event["run"], event["group"], event["partition_id"]


def _registers(
    runs: JudgedRuns, events: Sequence[PlacedEvent], transactional: TransactionalOffsets | None
) -> dict[Key, Register]:
    logged, traces = runs.once(offsets_in_logs.in_logs), runs.once(offsets_in_logs.Traces)
    commits: dict[Key, list[Commit]] = {}
    fetches: dict[Key, list[Fetch]] = {}
    aborted: dict[Key, list[Commit]] = {}
    for event in events:
        key, offset = _key_of(event), event["offset"]
        if event["event"] == "fetched":
            if event["status"] == STATUS_OK:
                fetches.setdefault(key, []).append(fetch_of(event))
        elif offset is not None:
            record = logged.get(offsets_in_logs.place_of(event, offset))
            commit = _commit_of(event, offset, transactional, None if record is None else record.place)
            if transactional is not None and transactional.was_aborted(event):
                aborted.setdefault(key, []).append(commit)
            elif event["status"] != STATUS_FAIL or (transactional is not None and transactional.was_forgotten(event)):
                if commit.certain:
                    trace = traces.of_answered(event) if record is None else None
                else:
                    trace = traces.of(event, record)
                where = aborted if trace is not None and trace.aborted else commits
                where.setdefault(key, []).extend(_as_traced(commit, trace))
    return {
        key: Register(commits.get(key, ()), fetches.get(key, ()), aborted.get(key, ()))
        for key in commits.keys() | aborted.keys()
    }


def _as_traced(commit: Commit, trace: Trace | None) -> list[Commit]:
    """What is left to say of it: nothing if it was never written."""
    if trace is None:
        return [commit]
    if not trace.records:
        return [] if trace.since_ns <= commit.invoked_ns else [replace(commit, gone_ns=trace.since_ns)]
    return [replace(commit, place=trace.records[0].place, last_place=trace.records[-1].place)]


def _commit_of(
    event: PlacedEvent, offset: int, transactional: TransactionalOffsets | None, place: int | None
) -> Commit:
    begin_ns, end_ns, process = event["invoked_ns"], event["completed_ns"], event["process"]
    if transactional is None or event["transaction"] is None:
        certain = event["status"] == STATUS_OK
        return Commit(offset, begin_ns, end_ns if certain else END_OF_TIME_NS, certain, process, place=place)
    sent = transactional.sent(event)
    if sent is None:
        never = Sent(any_ns=END_OF_TIME_NS, stable_ns=END_OF_TIME_NS, late_ns=END_OF_TIME_NS)
        return Commit(offset, begin_ns, END_OF_TIME_NS, False, process, never, place)
    return Commit(offset, begin_ns, end_ns, True, process, sent, place)


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
