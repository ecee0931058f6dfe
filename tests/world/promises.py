"""Broken promises of transactions in a history, each with the checks that may tell it: read from the chronicle.

A committed transaction is given to read_committed as a whole, an aborted one not at all, and none before it has ended;
and nobody commits whom a newer client of the same id has replaced. Where a marker or a decision of the coordinator
was lost as the promise allows (truth.py says what took it), what follows from that is no broken promise, nor is it said
what it is.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from tests.world.broken import Broken
from tests.world.chronicle import Entry, Partition, Send, Transaction
from tests.world.clients import OK
from tests.world.histories import History
from tests.world.lost_writes import lost_writes
from tests.world.promises_of_cleaning import broken_by_cleaning
from tests.world.promises_of_ends import broken_by_ends
from tests.world.promises_of_groups import broken_in_groups
from tests.world.promises_of_order import broken_orders
from tests.world.promises_of_processing import broken_in_processing
from tests.world.transaction_coordinator import TransactionState
from tests.world.transactional import ABORTED, COMMITTED, UNKNOWN
from tests.world.truth import Verdict, fates, lost_records, perhaps_replaced

_NEVER = 2**62
_HIDDEN = frozenset({"lost-write", "unreadable", "torn-transaction", "unseen-tail"})


def broken_promises(history: History) -> list[Broken]:
    if history.setup.members:
        return [*broken_in_groups(history), *broken_orders(history)]
    if not history.setup.transactional_ids:
        return [
            *_read_and_lost(history),
            *broken_orders(history),
            *broken_by_ends(history),
            *broken_by_cleaning(history),
        ]
    amiss = _Amiss.of(history)
    return [
        *_aborted_reads(history, amiss),
        *_hidden(history, amiss),
        *_torn(history, amiss),
        *_read_while_open(history),
        *_mixed_up(history),
        *_passed(history),
        *_zombies(history, amiss),
        *_at_once(history, amiss),
        *_hanging(history, amiss),
        *_lost_uncommitted(history),
        *broken_orders(history),
        *(broken_in_processing(history) if history.setup.processing is not None else ()),
    ]


@dataclass(frozen=True, kw_only=True)
class _Amiss:
    """What became of lost markers, by producer id and partition, and of lost decisions, by producer id. A marker ends
    what stands before it in its own partition; a decision, the transaction in all."""

    markers: Mapping[tuple[int, Partition], set[Verdict]]
    decisions: Mapping[int, set[Verdict]]

    @classmethod
    def of(cls, history: History) -> "_Amiss":
        markers: dict[tuple[int, Partition], set[Verdict]] = {}
        decisions: dict[int, set[Verdict]] = {}
        for lost in lost_writes(history):
            entry = lost.entry
            if entry.marks is not None and entry.producer is not None:
                markers.setdefault((entry.producer[0], lost.partition), set()).add(lost.verdict)
            elif isinstance(entry.kept, TransactionState):
                decisions.setdefault(entry.kept.producer[0], set()).add(lost.verdict)
        return cls(markers=markers, decisions=decisions)

    def excuses(self, identity: int, partitions: Collection[Partition]) -> bool:
        """Whether a decision on that producer, or a marker of it there, was lost, and not against the promise alone."""
        return bool(self._fates(identity, partitions) - {Verdict.VIOLATION})

    def says_nothing(self, identity: int, partition: Partition) -> bool:
        """Whether the promise does not say of one of them whether it might be lost."""
        return Verdict.UNSAID in self._fates(identity, [partition])

    def _fates(self, identity: int, partitions: Collection[Partition]) -> set[Verdict]:
        markers = (self.markers.get((identity, partition), set()) for partition in partitions)
        return self.decisions.get(identity, set()).union(*markers)


def _read_and_lost(history: History) -> Iterator[Broken]:
    """Records that a reader was given, so that they were committed, though nobody was told so: acks=0 or no answer."""
    chronicle = history.chronicle
    answered = {value for send in chronicle.sends if send.status == OK for value in send.values}
    sent = {value: send for send in chronicle.sends for value in send.values}
    read: dict[Partition, dict[int, Send]] = {}
    for poll in chronicle.polls:
        for each in () if poll.final else poll.reads:
            for offset, entry in each.placed():
                if entry.value not in answered and entry.value in sent:
                    base = replace(
                        sent[entry.value],
                        values=[entry.value],
                        acks=-1,
                        status=OK,
                        base=offset,
                        below_minimum=False,
                        acknowledged_by=each.node,
                        acknowledged_in=entry.epoch,
                        completed_ns=poll.completed_ns,
                    )
                    read.setdefault(each.partition, {}).setdefault(entry.value, base)
    given = {entry.value for poll in chronicle.polls if poll.final for r in poll.reads for entry in r.entries}
    missing = lost_records(chronicle)
    for partition, sends in read.items():
        final = chronicle.final[partition]
        there = given | {entry.value for entry in final.unread}
        if not final.read_to_end:
            continue
        vanished = fates(chronicle, partition, list(sends.values()), there, final.log_start or 0)
        for lost in perhaps_replaced(chronicle, partition, vanished, missing=missing):
            yield Broken(
                kind="read and lost",
                checks=frozenset({"dirty-read"}),
                partition=partition,
                value=lost.value,
                verdict=lost.verdict,
                story=f"at {lost.offset}: {lost.fate}: {lost.story}",
            )


def _transaction_of(history: History, send: Send) -> Transaction | None:
    return None if send.transaction is None else history.chronicle.transactions[send.transaction]


def _aborted_reads(history: History, amiss: _Amiss) -> Iterator[Broken]:
    aborted = {
        value: (transaction, send)
        for send in history.chronicle.sends
        if (transaction := _transaction_of(history, send)) is not None and transaction.outcome == ABORTED
        for value in send.values
    }
    answered: set[int] = set()
    for poll in history.chronicle.polls:
        if history.processes.isolation.get(poll.process) != "read_committed":
            continue
        for read in poll.reads:
            for entry in read.entries:
                if entry.value not in aborted or entry.value in answered:
                    continue
                answered.add(entry.value)
                transaction, send = aborted[entry.value]
                excused = amiss.excuses(transaction.producer[0], [send.partition])
                yield Broken(
                    kind="aborted-read",
                    checks=frozenset({"aborted-read"}),
                    partition=send.partition,
                    verdict=Verdict.UNSAID if excused else Verdict.VIOLATION,
                    value=entry.value,
                    story=f"transaction {transaction.number} was aborted ({transaction.error}), process {poll.process} "
                    f"read value {entry.value}",
                )


def _hidden(history: History, amiss: _Amiss) -> Iterator[Broken]:
    """Records of committed transactions that the last leader has, and read_committed is not given."""
    chronicle = history.chronicle
    given = {entry.value for poll in chronicle.polls if poll.final for read in poll.reads for entry in read.entries}
    held = {
        entry.value: offset + (final.log_start or 0)
        for final in chronicle.final.values()
        if final.stable is not None
        for offset, entry in enumerate(final.unread)
    }
    reached = {
        read.partition: offset
        for poll in chronicle.polls
        if poll.final
        for read in poll.reads
        for offset, _ in read.placed()
    }
    for send in chronicle.sends:
        transaction = _transaction_of(history, send)
        final = chronicle.final[send.partition]
        if transaction is None or transaction.outcome != COMMITTED or send.status != OK or final.stable is None:
            continue
        for value in send.values:
            if value in given or value not in held:
                continue
            # Where readers stand still, nobody knows that they came further than to the last record that they got.
            end = final.stable if final.read_to_end else reached.get(send.partition, 0)
            unsaid = held[value] >= end or amiss.says_nothing(transaction.producer[0], send.partition)
            excused = amiss.excuses(transaction.producer[0], [send.partition])
            yield Broken(
                kind="hidden",
                checks=_HIDDEN,
                partition=send.partition,
                value=value,
                verdict=Verdict.UNSAID if unsaid else Verdict.PERMITTED if excused else Verdict.VIOLATION,
                story=f"transaction {transaction.number} was committed, value {value} at {held[value]} is hidden",
            )


def _torn(history: History, amiss: _Amiss) -> Iterator[Broken]:
    """Of a transaction whose outcome nobody knows read_committed was given a part, though it was read to the end. A
    send without an answer belongs to it, too, if its records are there."""
    chronicle = history.chronicle
    given = {entry.value for poll in chronicle.polls if poll.final for read in poll.reads for entry in read.entries}
    held = given | {entry.value for final in chronicle.final.values() for entry in final.unread}
    for transaction in chronicle.transactions:
        sends = [
            send
            for send in chronicle.sends
            if send.transaction == transaction.number and (send.base is not None or held.issuperset(send.values))
        ]
        values = {value for send in sends for value in send.values}
        if transaction.outcome != UNKNOWN or not values & given or values <= given:
            continue
        read = all(chronicle.final[send.partition].read_to_end for send in sends)
        there = values <= held
        excused = amiss.excuses(transaction.producer[0], {send.partition for send in sends})
        unsaid = not read or not there or excused
        yield Broken(
            kind="torn",
            checks=frozenset({"torn-transaction", "aborted-read"}),
            verdict=Verdict.UNSAID if unsaid else Verdict.VIOLATION,
            story=f"{len(values & given)} of {len(values)} records of transaction {transaction.number} are given",
        )


def _read_while_open(history: History) -> Iterator[Broken]:
    """read_committed was given a record of a transaction whose client knows no outcome, and nobody is given it at the
    end, or its coordinator had aborted it: who reads the coordinator's log may call it aborted, and who does not, torn,
    where others of it were given and those of a send without an answer were not."""
    final = {entry.value for poll in history.chronicle.polls if poll.final for r in poll.reads for entry in r.entries}
    read = {
        entry.value
        for poll in history.chronicle.polls
        if history.processes.isolation.get(poll.process) == "read_committed"
        for r in poll.reads
        for entry in r.entries
    }
    for send in history.chronicle.sends:
        transaction = _transaction_of(history, send)
        if transaction is None or transaction.outcome != UNKNOWN:
            continue
        given = set(send.values) & (read if _was_aborted(history, transaction) else read - final)
        for value in sorted(given):
            yield Broken(
                kind="read while open",
                checks=frozenset({"aborted-read"}),
                verdict=Verdict.UNSAID,
                story=f"transaction {transaction.number}",
                partition=send.partition,
                value=value,
            )


def _was_aborted(history: History, transaction: Transaction) -> bool:
    """Whether its coordinator decided so: what it began while this was the last one under that id."""
    after = [
        each.begun_ns
        for each in history.chronicle.transactions
        if each.transactional_id == transaction.transactional_id and each.begun_ns > transaction.begun_ns
    ]
    decisions = (kept.what.kept for kept in history.chronicle.kept if isinstance(kept.what, Entry))
    return any(
        isinstance(each, TransactionState)
        and each.state == "PrepareAbort"
        and each.transactional_id == transaction.transactional_id
        and transaction.begun_ns <= each.begun_ns < min(after, default=_NEVER)
        for each in decisions
    )


def _mixed_up(history: History) -> Iterator[Broken]:
    """Two clients at work under one epoch end each other's transactions: all may follow from it."""
    if "fencing-forgotten" in history.chronicle.flaws_acted:
        checks = frozenset({"last-stable-offset", "torn-transaction", "aborted-read", "zombie-transaction"})
        yield Broken(kind="mixed up", checks=checks, verdict=Verdict.UNSAID, story="a zombie was let in")


def _passed(history: History) -> Iterator[Broken]:
    """read_committed was given a record above an open transaction: who looks at clients alone knows that a committed
    one was open until its last send was answered, and any other until it was last called there."""
    sends = {value: send for send in history.chronicle.sends for value in send.values}
    for passed in history.chronicle.passed:
        send = sends.get(passed.value)
        transaction = None if send is None else _transaction_of(history, send)
        polls = [
            poll
            for poll in history.chronicle.polls
            if poll.invoked_ns == passed.time_ns and any(read.partition == passed.partition for read in poll.reads)
        ]
        if transaction is None or send is None or send.base is None or not polls:
            continue
        of_it = [
            each for each in history.chronicle.sends if each.transaction == transaction.number and each.base is not None
        ]
        committed = transaction.outcome == COMMITTED
        until = [
            each.completed_ns if committed else each.invoked_ns
            for each in of_it
            if committed or each.partition == passed.partition
        ]
        above = any(
            offset > send.base
            for read in polls[0].reads
            if read.partition == passed.partition
            for offset, _ in read.placed()
        )
        seen = above and polls[0].error is None and polls[0].completed_ns < max(until, default=0)
        yield Broken(
            kind="passed",
            checks=frozenset({"last-stable-offset"}),
            partition=passed.partition,
            verdict=Verdict.VIOLATION if seen else Verdict.UNSAID,
            story=f"transaction {transaction.number} was open",
        )


def _at_once(history: History, amiss: _Amiss) -> Iterator[Broken]:
    """A coordinator that lost its decisions lets two clients of one id commit at once."""
    committed = [each for each in history.chronicle.transactions if each.outcome == COMMITTED]
    for place, one in enumerate(committed):
        for other in committed[place + 1 :]:
            same = one.transactional_id == other.transactional_id and one.process != other.process
            if same and other.begun_ns < (one.ended_ns or 0) and amiss.decisions.get(one.producer[0]):
                yield Broken(
                    kind="zombie at once",
                    checks=frozenset({"zombie-transaction"}),
                    verdict=Verdict.UNSAID,
                    story=f"transactions {one.number} and {other.number}",
                )


def _zombies(history: History, amiss: _Amiss) -> Iterator[Broken]:
    transactions = history.chronicle.transactions
    first: dict[int, Transaction] = {}
    for each in transactions:
        first.setdefault(each.process, each)
    for late in transactions:
        if late.outcome != COMMITTED:
            continue
        newer = [
            each
            for each in transactions
            if each.producer[0] == late.producer[0]
            and each.producer[1] > late.producer[1]
            and each.outcome == COMMITTED
            and each.ended_ns is not None
            and each.ended_ns < late.begun_ns
        ]
        if not newer:
            continue
        # Who is the newer one is plain where the older one had ended a transaction before.
        own = first[late.process].ended_ns
        plain = own is not None and any(own < first[each.process].begun_ns for each in newer)
        unsaid = not plain or amiss.excuses(late.producer[0], ())  # who is at it the coordinator knows alone
        yield Broken(
            kind="zombie",
            checks=frozenset({"zombie-transaction"}),
            verdict=Verdict.UNSAID if unsaid else Verdict.VIOLATION,
            story=f"transaction {late.number} of epoch {late.producer[1]} was committed, {newer[0].number} of epoch "
            f"{newer[0].producer[1]} before",
        )


def _lost_uncommitted(history: History) -> Iterator[Broken]:
    """What leaders had acknowledged of transactions that were not committed is promised to nobody; but it is a promise
    of the log's that an offset has one value, and that what was read and acknowledged stays in order."""
    chronicle = history.chronicle
    for partition, final in chronicle.final.items():
        if final.end is None:
            continue
        there = {entry.value for entry in final.unread}
        sends = [
            send
            for send in chronicle.sends
            if send.partition == partition
            and (transaction := _transaction_of(history, send)) is not None
            and transaction.outcome != COMMITTED
        ]
        for lost in fates(chronicle, partition, sends, there, final.log_start or 0):
            yield Broken(
                kind="lost uncommitted",
                checks=frozenset(),
                partition=partition,
                value=lost.value,
                verdict=Verdict.PERMITTED if lost.verdict is Verdict.PERMITTED else Verdict.UNSAID,
                story=f"of a transaction that was not committed, at {lost.offset}: {lost.fate}: {lost.story}",
            )


def _hanging(history: History, amiss: _Amiss) -> Iterator[Broken]:
    """Open at the end, long after every time-out: readers stand still."""
    for partition, final in history.chronicle.final.items():
        if final.stable is None or final.end is None or final.stable >= final.end:
            continue
        opened = final.unread[final.stable - (final.log_start or 0)]
        assert opened.producer is not None
        excused = amiss.excuses(opened.producer[0], [partition])
        yield Broken(
            kind="hanging",
            checks=frozenset(),
            partition=partition,
            value=opened.value,
            verdict=Verdict.UNSAID if excused else Verdict.VIOLATION,
            story=f"open from {final.stable} on, log end {final.end}",
        )
