"""Offsets that were sent to transactions: which answer to a fetch is right, read from the chronicle.

A transaction's offsets count if it is committed; of two commits the one whose record stands later in the log holds. A
fetch that asks for stable offsets sees what was answered before it was called; any other may see less until it is
certain that the markers were applied: a later transaction of the id has committed, or, on releases that wait for it,
the coordinator's log says that it is complete. What was aborted no fetch may answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.world.broken import Broken
from tests.world.chronicle import Appended, Entry, GroupEvent, Partition, Transaction
from tests.world.clients import OK
from tests.world.group_coordinator import Commits
from tests.world.histories import History
from tests.world.lost_writes import LostWrite, lost_writes
from tests.world.requests import OFFSETS
from tests.world.transaction_coordinator import TransactionState
from tests.world.transactional import COMMITTED, UNKNOWN
from tests.world.truth import Verdict

_NEVER = 2**62
_FOLLOWS = frozenset({"group-redelivery", "group-skip", "read-process-write", "lost-group-offset"})
_WORST = (Verdict.VIOLATION, Verdict.UNSAID, Verdict.PERMITTED)


@dataclass(frozen=True, kw_only=True)
class _Record:
    """A commit of one partition's offset, in the log's order, at time_ns. transaction: of whoever sent it to one.

    counts: whether it does in truth; None: nobody can tell. told_ns: from when on its client knew that it does.
    """

    order: int
    time_ns: int
    source: int
    offset: int
    transaction: Transaction | None
    counts: bool | None
    told_ns: int


def broken_in_processing(history: History) -> Iterator[Broken]:
    lost = list(lost_writes(history))
    of_partition: dict[Partition, list[_Record]] = {}
    for partition, record in _records(history):
        of_partition.setdefault(partition, []).append(record)
    wrong, worst = False, dict[Partition, tuple[Verdict, str]]()  # a finding tells of several fetches of a partition
    for fetch in history.chronicle.group_events:
        if fetch.event != "fetched" or fetch.status != OK:
            continue
        records = of_partition.get(fetch.partition, [])
        verdict, story, behind = _answer(history, fetch, records, lost)
        goes_on = fetch.process in history.processes.transactional_ids  # from what it was told
        wrong |= (behind and goes_on) or verdict is Verdict.UNSAID
        if verdict is not None:
            ruled = (verdict, story)
            worst[fetch.partition] = min(worst.get(fetch.partition, ruled), ruled, key=lambda one: _WORST.index(one[0]))
    for partition, (verdict, story) in worst.items():
        yield Broken(
            kind="wrong offset",
            checks=frozenset({"lost-group-offset"}),
            partition=partition,
            verdict=verdict,
            story=story,
        )
    acted = {"aborted-offset-applied", "offset-not-applied", "order-of-markers", "stable-ignored", "coordinator-drops"}
    forgotten = any(each.verdict is not Verdict.PERMITTED for each in lost)  # decisions among them
    if wrong or forgotten or acted & history.chronicle.flaws_acted:
        yield Broken(kind="follows", checks=_FOLLOWS, verdict=Verdict.UNSAID, story="of a wrong or early answer")


def _answer(
    history: History, fetch: GroupEvent, records: Sequence[_Record], lost: Sequence[LostWrite]
) -> tuple[Verdict | None, str, bool]:
    """What is wrong with it, and whether it is less than what has been decided."""
    by_order = {each.source: each.order for each in records}
    answered_before = {
        each.source
        for each in history.chronicle.group_events
        if (each.event, each.partition) == ("fetched", fetch.partition) and each.completed_ns < fetch.invoked_ns
    }
    certain = [
        each
        for each in records
        if (each.counts and _is_seen(history, fetch, each))
        or (each.counts is not False and each.source in answered_before)
    ]
    there = [each for each in records if each.time_ns < fetch.completed_ns]
    may = _may_be_told(there, certain)
    behind = by_order.get(fetch.source or -1, -1) < max(
        (each.order for each in records if each.counts and each.told_ns < fetch.completed_ns), default=-1
    )
    if fetch.offset in may:
        return None, "", behind
    answer = f"process {fetch.process} was told {fetch.offset} of {sorted(may)}"
    answered = by_order.get(fetch.source or -1, -1)
    newer = {each.source for each in certain if each.order > answered}
    concerned = [each for each in records if each.source in newer or each.source == fetch.source] or records
    identities = {each.transaction.producer[0] for each in concerned if each.transaction is not None}
    since_ns = min((each.time_ns for each in concerned), default=0)
    before = [each for each in lost if each.time_ns <= fetch.completed_ns and not _is_older(each, since_ns)]
    fates = {each.verdict for each in before if _concerns(each, identities) or each.entry.value in newer}
    # Whose record was lawfully lost no coordinator could have told, whatever befell its decision besides.
    gone = {each.entry.value for each in before if each.verdict is Verdict.PERMITTED}
    if fetch.offset in _may_be_told(there, [each for each in certain if each.source not in gone]):
        return Verdict.PERMITTED, answer, behind
    # What would not have counted, as its decision was lawfully lost, may be lost against the promise besides.
    if newer and all(_is_excused(each.transaction, before) for each in certain if each.source in newer):
        fates = {Verdict.UNSAID if each is Verdict.VIOLATION else each for each in fates}
    # What took an earlier one excuses nothing where the last one had to be seen, and nothing took that.
    last = _last(certain)
    if fates and not (last is not None and last.source in newer and not _may_be_gone(last, lost, fetch)):
        return next(each for each in _WORST if each in fates), answer, behind
    unknown = fetch.deposed or OFFSETS not in history.chronicle.last_logs
    return (Verdict.UNSAID if unknown else Verdict.VIOLATION), answer, behind


def _last(records: Iterable[_Record]) -> _Record | None:
    return max(records, key=lambda each: each.order, default=None)


def _may_be_told(there: Iterable[_Record], seen: Iterable[_Record]) -> set[int]:
    """seen: those that had to be. What came after them may have been answered, if it may count."""
    last = _last(seen)
    since = -1 if last is None else last.order
    may = {each.offset for each in there if each.order > since and each.counts is not False}
    return may | {-1 if last is None else last.offset}


def _may_be_gone(record: _Record, lost: Sequence[LostWrite], fetch: GroupEvent) -> bool:
    identities = set() if record.transaction is None else {record.transaction.producer[0]}
    return any(
        each.entry.value == record.source or (_concerns(each, identities) and not _is_older(each, record.time_ns))
        for each in lost
        if each.time_ns <= fetch.completed_ns
    )


def _is_excused(transaction: Transaction | None, lost: Sequence[LostWrite]) -> bool:
    identities = set() if transaction is None else {transaction.producer[0]}
    return any(each.verdict is Verdict.PERMITTED and _concerns(each, identities) for each in lost)


def _concerns(lost: LostWrite, identities: set[int]) -> bool:
    """Whether it is a marker in the offsets' log, or a decision, of one of these producers."""
    entry = lost.entry
    if entry.marks is not None and entry.producer is not None:
        return lost.partition == OFFSETS and entry.producer[0] in identities
    return isinstance(entry.kept, TransactionState) and entry.kept.producer[0] in identities


def _is_older(lost: LostWrite, since_ns: int) -> bool:
    """Whether it is a marker that was gone before: it ended nothing that came after. A decision may have done so."""
    return lost.entry.marks is not None and lost.time_ns < since_ns


def _is_seen(history: History, fetch: GroupEvent, record: _Record) -> bool:
    """Whether it has to be seen."""
    if record.told_ns >= fetch.invoked_ns:
        return False
    if record.transaction is None or fetch.require_stable:
        return True
    name, ended_ns = record.transaction.transactional_id, record.transaction.ended_ns or _NEVER
    later = any(
        each.transactional_id == name
        and each.outcome == COMMITTED
        and each.begun_ns > ended_ns
        and (each.ended_ns or _NEVER) < fetch.invoked_ns
        for each in history.chronicle.transactions
    )
    return later or _is_complete(history, record.transaction, fetch.invoked_ns)


def _is_complete(history: History, transaction: Transaction, before_ns: int) -> bool:
    spec = history.setup.processing
    assert spec is not None
    if spec.applied_late:
        return False
    return any(
        isinstance(state, TransactionState)
        and state.state == "CompleteCommit"
        and state.producer == transaction.producer
        and kept_ns < before_ns
        and transaction.begun_ns <= state.begun_ns <= (transaction.ended_ns or _NEVER)
        for state, kept_ns in _states(history)
    )


def _states(history: History) -> Iterator[tuple[object, int]]:
    for kept in history.chronicle.kept:
        if isinstance(kept.what, Entry):
            yield kept.what.kept, kept.send.completed_ns


def _records(history: History) -> Iterator[tuple[Partition, _Record]]:
    """All that leaders of the offsets' log ever wrote, in order; after an election, what was cut stays in it."""
    chronicle = history.chronicle
    events = {
        each.source: each for each in chronicle.group_events if each.event == "committed" and each.source is not None
    }
    windows = _windows(chronicle.transactions)
    order = 0
    for each in chronicle.happenings:
        if not isinstance(each, Appended) or not each.by_leader or each.partition != OFFSETS:
            continue
        for entry in each.entries:
            if not isinstance(entry.kept, Commits):
                continue
            order += 1
            event = events.get(entry.value)
            transaction = None
            if entry.producer is not None:
                transaction = next(
                    one for one in windows[entry.producer] if one.begun_ns <= each.time_ns < _end_of(windows, one)
                )
            for partition, offset in entry.kept.offsets:
                counts, told_ns = _fate(history, transaction, event)
                yield (
                    partition,
                    _Record(
                        order=order,
                        time_ns=each.time_ns,
                        source=entry.value,
                        offset=offset,
                        transaction=transaction,
                        counts=counts,
                        told_ns=told_ns,
                    ),
                )


def _windows(transactions: Sequence[Transaction]) -> Mapping[tuple[int, int], Sequence[Transaction]]:
    found: dict[tuple[int, int], list[Transaction]] = {}
    for each in transactions:
        found.setdefault(each.producer, []).append(each)
    return found


def _end_of(windows: Mapping[tuple[int, int], Sequence[Transaction]], one: Transaction) -> int:
    """When the next transaction of the same producer began."""
    return min((each.begun_ns for each in windows[one.producer] if each.begun_ns > one.begun_ns), default=_NEVER)


def _fate(history: History, transaction: Transaction | None, event: GroupEvent | None) -> tuple[bool | None, int]:
    if transaction is None:
        known = event is not None and event.status == OK
        return (True if known else None), (event.completed_ns if event is not None and known else _NEVER)
    if transaction.outcome == COMMITTED:
        return True, transaction.ended_ns or _NEVER
    decided = _decided(history, transaction)
    if transaction.outcome == UNKNOWN and decided is not False:
        return None, _NEVER
    return False, _NEVER


def _decided(history: History, transaction: Transaction) -> bool | None:
    """As its coordinator decided it: a commit, or not; None: nothing was written down of it."""
    after = min(
        (
            each.begun_ns
            for each in history.chronicle.transactions
            if each.transactional_id == transaction.transactional_id and each.begun_ns > transaction.begun_ns
        ),
        default=_NEVER,
    )
    for state, _ in _states(history):
        if (
            isinstance(state, TransactionState)
            and state.transactional_id == transaction.transactional_id
            and state.state in ("PrepareCommit", "PrepareAbort")
            and transaction.begun_ns <= state.begun_ns < after
        ):
            return state.state == "PrepareCommit"
    return None
