"""Promises of groups that were broken in a history: read from the chronicle, as promises.py does it of transactions.

A fetch answers the newest commit that was acknowledged before it, or a newer one, by their order in the coordinator's
log, unless that record was lost as the promise allows; a commit of a generation that has passed is refused; and a
partition has one owner in a generation, unless the generation was lost so.
"""

from collections.abc import Iterator

from tests.world.broken import Broken
from tests.world.chronicle import Appended, GroupEvent
from tests.world.group_coordinator import Generation
from tests.world.histories import History
from tests.world.lost_writes import LostWrite, lost_writes
from tests.world.members import OK
from tests.world.requests import OFFSETS
from tests.world.truth import Verdict

_NEVER = 2**62
_FOLLOWS = frozenset({"group-redelivery", "group-skip"})


def broken_in_groups(history: History) -> list[Broken]:
    lost = [each for each in lost_writes(history) if each.partition == OFFSETS]
    forgotten = any(isinstance(each.entry.kept, Generation) and each.verdict is not Verdict.VIOLATION for each in lost)
    offsets = list(_lost_offsets(history, {each.entry.value: each for each in lost}))
    zombies = list(_zombies(history, forgotten=forgotten))
    found = [*offsets, *zombies, *_two_owners(history, forgotten=forgotten)]
    if any(each.verdict is not Verdict.PERMITTED for each in (*offsets, *zombies)):
        found.append(Broken(kind="follows", checks=_FOLLOWS, verdict=Verdict.UNSAID, story="of a wrong answer"))
    return found


def _lost_offsets(history: History, lost: dict[int, LostWrite]) -> Iterator[Broken]:
    chronicle = history.chronicle
    appended = (each for each in chronicle.happenings if isinstance(each, Appended) and each.partition == OFFSETS)
    values = [entry.value for each in appended if each.by_leader for entry in each.entries]
    order: dict[int | None, int] = {None: -1} | {value: place for place, value in enumerate(values)}
    fetched = [each for each in chronicle.group_events if each.event == "fetched" and each.status == OK]
    committed = [each for each in chronicle.group_events if each.event == "committed" and each.status == OK]
    for fetch in fetched:
        newer = [
            each
            for each in committed
            if each.partition == fetch.partition
            and each.completed_ns < fetch.invoked_ns
            and order[each.source] > order[fetch.source]
        ]
        if not newer:
            continue
        last = max(newer, key=lambda each: order[each.source])
        if last.offset == fetch.offset:
            continue  # nobody can tell them apart
        verdicts = {_verdict(history, fetch, last, lost.get(each.source or -1)) for each in newer}
        worst = next(each for each in (Verdict.VIOLATION, Verdict.UNSAID, Verdict.PERMITTED) if each in verdicts)
        yield Broken(
            kind="lost offset",
            checks=frozenset({"lost-group-offset"}),
            verdict=worst,
            partition=fetch.partition,
            offset=fetch.offset,
            story=f"{fetch.member} was told {fetch.offset}, {last.offset} had been committed by {last.member}",
        )


def _verdict(history: History, fetch: GroupEvent, last: GroupEvent, lost: LostWrite | None) -> Verdict:
    if lost is not None and lost.time_ns < last.invoked_ns and lost.entry.value != last.source:
        return Verdict.UNSAID  # what took the last one, which came after that, may have taken this one with it
    if lost is not None and lost.time_ns <= fetch.completed_ns:
        return lost.verdict
    # What a deposed coordinator may answer is said nowhere: a fetch is no write.
    unknown = fetch.deposed or OFFSETS not in history.chronicle.last_logs
    return Verdict.UNSAID if unknown else Verdict.VIOLATION


def _zombies(history: History, *, forgotten: bool) -> Iterator[Broken]:
    events = history.chronicle.group_events
    for each in events:
        if each.event != "committed" or each.status != OK:
            continue
        # A number may come again; a member that was told it after the later one is no zombie.
        own_ns = max(
            other.completed_ns
            for other in events
            if other.event == "assigned" and other.process == each.process and other.completed_ns <= each.invoked_ns
        )
        later = [
            other
            for other in events
            if other.event == "assigned"
            and other.generation > each.generation
            and own_ns < other.completed_ns < each.invoked_ns
        ]
        if later:
            yield Broken(
                kind="zombie commit",
                checks=frozenset({"zombie-commit"}),
                partition=each.partition,
                verdict=Verdict.UNSAID if forgotten else Verdict.VIOLATION,
                story=f"{each.member} of generation {each.generation} committed in generation {later[-1].generation}",
            )


def _two_owners(history: History, *, forgotten: bool) -> Iterator[Broken]:
    events = history.chronicle.group_events
    assigned = [each for each in events if each.event == "assigned"]
    for place, one in enumerate(assigned):
        for other in assigned[place + 1 :]:
            same = (one.generation, one.partition) == (other.generation, other.partition)
            if same and one.process != other.process and other.completed_ns < _until(history, one):
                yield Broken(
                    kind="two owners",
                    checks=frozenset({"two-owners"}),
                    partition=one.partition,
                    verdict=Verdict.UNSAID if forgotten else Verdict.VIOLATION,
                    story=f"{one.member} and {other.member} in generation {one.generation}",
                )


def _until(history: History, assigned: GroupEvent) -> int:
    """When its owner gave a partition up, or crashed."""
    ends = [
        each.invoked_ns
        for each in history.chronicle.group_events
        if each.process == assigned.process
        and each.partition == assigned.partition
        and each.event in ("revoked", "lost")
        and each.invoked_ns >= assigned.completed_ns
    ]
    return min([*ends, history.chronicle.crashed.get(assigned.process, _NEVER)])
