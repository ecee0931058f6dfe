"""What may lawfully make a coordinator forget what it had stored of a transactional id (KIP-98): the epoch of its
producer, the transaction that this began, its partitions, and how it was decided.

All these are records of one partition of __transaction_state. Whoever coordinates next goes on from what is left there:
from an older decision, whose markers end whatever the producer has open by then; from an epoch that comes again; from a
transaction that was decided, and is open. So it ends otherwise than its client was told, in one partition perhaps one
way and in the next one another. One rule for everything that follows from that: what read_committed readers are given,
the offsets that were sent to it, a second producer in one epoch, a part of it, an input without an output. Lawful is

- what lawfully takes a record from the coordinator's log (contract/coordinators_log.py), since the transaction began,
  or the first of the id's other producers that were at work beside it; until what follows shows, or the decision was
  written that its client was told. Such a decision that the log has to the end says more: of what was written after
  the transaction that it ends had begun, in a partition that it names, nothing older was to be known; and the epoch of
  its producer was known, to whoever got a later one. Nor was there anything older after all of the log had been lost;
- what lawfully takes the marker from a partition that keeps the records below.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial

from harness.checks.contract.coordinators_log import (
    Codes,
    Ruled,
    Stored,
    by_ruling,
    emptied,
    known_by,
    number_of,
    perhaps_taken,
    taken_by,
    taken_from,
)
from harness.checks.contract.rule import rule
from harness.checks.contract.rulings import Cause, Doubt
from harness.checks.contract.timelines import Timelines
from harness.checks.families.transactions.kept_decisions import (
    COMPLETE,
    Decision,
    Written,
    beginnings_of,
    decisions_of,
    is_repeated,
    may_be_decided,
)
from harness.checks.findings import RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.elections import Election
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory, RunHistory
from harness.checks.spark.detection import Copy, Flagged
from harness.history.facts.incarnations import client_name
from harness.history.facts.internal_topics import CLOCKS_APART_NS, TRANSACTIONS_TOPIC
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.internal_rows import (
    INTERNAL_SNAPSHOTS,
    TRANSACTION_STATE,
    InternalSnapshotRow,
    TransactionStateRow,
)

CODES = Codes(
    topic=TRANSACTIONS_TOPIC,
    destroyed="coordinators-log-destroyed",
    elected="coordinators-log-lost-in-an-election",
    in_doubt="coordinators-log-in-doubt",
    on_a_lost_disk=Cause(code="coordinators-log-in-doubt", doubt=Doubt(code="coordinators-log-on-a-lost-disk")),
    elected_uncleanly=Cause(code="coordinators-log-in-doubt", doubt=Doubt(code="coordinators-log-elected-uncleanly")),
)
_Span = tuple[int, int]


class TransactionForgetting:
    """One run's: its transactions, and what was kept of their coordinators' logs."""

    def __init__(
        self,
        history: RunHistory,
        transactions: Sequence[TransactionRow],
        states: Sequence[TransactionStateRow],
        logs: Sequence[InternalSnapshotRow],
    ) -> None:
        self._history = history
        self._transactions = transactions
        self._states = states
        self._kept_from = {row["snapshot"]: row["kept_from"] for row in logs}
        self._ruled: dict[tuple[int, int, int], Ruled | None] = {}
        self._undecided: dict[int, bool] = {}

    @staticmethod
    def of(context: RunContext) -> "TransactionForgetting":
        tables = context.tables
        rows = tables[TRANSACTIONS], tables[TRANSACTION_STATE], tables[INTERNAL_SNAPSHOTS]
        return TransactionForgetting(context.history, *rows)

    @staticmethod
    def of_run(runs: JudgedRuns, history: RunHistory) -> "TransactionForgetting":
        tables, run = runs.tables, history.run
        rows = tables.rows(TRANSACTIONS, run), tables.rows(TRANSACTION_STATE, run), tables.rows(INTERNAL_SNAPSHOTS, run)
        return TransactionForgetting(history, *rows)

    @cached_property
    def _numbered(self) -> Mapping[int, TransactionRow]:
        return {row["transaction"]: row for row in self._transactions}

    def of_number(self, transaction: int, until_ns: int, written: Written | None = None) -> Ruled | None:
        own = self._numbered.get(transaction)
        return None if own is None else self.ruled(own, until_ns, written)

    def ruled(self, own: TransactionRow, until_ns: int, written: Written | None = None) -> Ruled | None:
        """What took what its coordinator had stored, before something showed at `until_ns`; None: nothing did.
        written: the record that it showed of, if it is one."""
        name = own["transactional_id"]
        if name is None or not self._may_be_forgotten:
            return None
        decision = self._kept_decisions.get(own["transaction"])
        if decision is not None:
            until_ns = min(until_ns, decision.time_ns)
        key = own["transaction"], self._since(own, written), until_ns
        if key not in self._ruled:
            self._ruled[key] = self._taken(own, *key[1:])
        return self._ruled[key]

    def lost_its_decision(self, own: TransactionRow) -> bool:
        """Whether its coordinator's log was read in the end from its start, and has nothing that may be the decision
        that its client was told; and no earlier copy shows that all was done by it."""
        number = own["transaction"]
        if number not in self._undecided:
            name = own["transactional_id"] or ""
            logs = [row for place in self._places(name) for row in place.end_snapshots.values()]
            whole = bool(logs) and all(row["log_start_offset"] == 0 for row in logs)
            ends = {row["snapshot"] for row in logs}
            telling = (
                row for row in self._states_of.get(name, ()) if ends & set(row["snapshots"]) or row["state"] in COMPLETE
            )
            self._undecided[number] = whole and not may_be_decided(own, telling)
        return self._undecided[number]

    @cached_property
    def _may_be_forgotten(self) -> bool:
        """Whether anything happened that could take a record of any coordinator's log."""
        history = self._history
        own = [place for (topic, _), place in history.internal.items() if topic == TRANSACTIONS_TOPIC]
        if not own or not all(place.exact for place in own):
            return bool(history.disk_losses) or history.unclean_transactions is not False
        return any(place.disk_losses or any(each.unclean for each in place.elections) for place in own)

    @cached_property
    def _producers(self) -> Mapping[str, Mapping[int, _Span]]:
        """Of each id its producers: when the first transaction of each began, and the last one had ended."""
        found: dict[str, dict[int, _Span]] = {}
        for row in self._transactions:
            own = found.setdefault(row["transactional_id"] or "", {})
            begin, end = own.get(row["process"], (row["invoked_ns"], row["completed_ns"]))
            own[row["process"]] = min(begin, row["invoked_ns"]), max(end, row["completed_ns"])
        return found

    @cached_property
    def _kept_decisions(self) -> Mapping[int, Decision]:
        """By transaction. With its decision stayed all that stood before, so what took something from that log
        afterwards took nothing of this transaction."""
        found: dict[int, Decision] = {}
        for name, rows in self._kept_states.items():
            found |= decisions_of(self._transactions_of.get(name, ()), rows)
        return found

    @cached_property
    def _kept_beginnings(self) -> Mapping[int, Decision]:
        found: dict[int, Decision] = {}
        for name, rows in self._kept_states.items():
            found |= beginnings_of(self._transactions_of.get(name, ()), rows)
        return found

    @cached_property
    def _kept_states(self) -> Mapping[str, Sequence[TransactionStateRow]]:
        """By id, what all logs have to the end."""
        return {
            name: [row for row in rows if self._ends(row["partition"]) <= set(row["snapshots"])]
            for name, rows in self._states_of.items()
        }

    @cached_property
    def _states_of(self) -> Mapping[str, Sequence[TransactionStateRow]]:
        found: dict[str, list[TransactionStateRow]] = {}
        for row in self._states:
            found.setdefault(row["transactional_id"] or "", []).append(row)
        return found

    @cached_property
    def _transactions_of(self) -> Mapping[str, Sequence[TransactionRow]]:
        found: dict[str, list[TransactionRow]] = {}
        for row in self._transactions:
            found.setdefault(row["transactional_id"] or "", []).append(row)
        return found

    def _ends(self, partition: int) -> set[int]:
        """The logs of that partition that were read in the end; {-1}, which nothing is in, if none was."""
        place = self._history.internal.get((TRANSACTIONS_TOPIC, partition))
        rows = () if place is None else place.end_snapshots.values()
        return {row["snapshot"] for row in rows} or {-1}

    def _since(self, own: TransactionRow, written: Written | None) -> int:
        """Its producer begins a transaction when the one before is complete, whoever coordinates by then: what was
        taken before concerns it only by the epoch of another producer that was at work beside it."""
        decision = self._kept_decisions.get(own["transaction"])
        begun_ns = own["invoked_ns"]
        if decision is not None and written is not None and decision.had_begun_before(written):
            begun_ns = max(begun_ns, decision.begun_ns)
        producers = self._producers.get(own["transactional_id"] or "", {})
        begins = [
            max(begin, self._known_by(own, process))
            for process, (begin, end) in producers.items()
            if process != own["process"] and begin <= own["completed_ns"] and end >= own["invoked_ns"]
            if not self._is_replaced(own, process)
        ]
        since_ns = min([begun_ns, *begins])
        emptied_ns = self._emptied(own, since_ns, producers[own["process"]][0])
        return since_ns if emptied_ns is None else emptied_ns + 1

    def _emptied(self, own: TransactionRow, since_ns: int, until_ns: int) -> int | None:
        """When its coordinator lost all that it knew, before its producer was at work: who got an id then got another
        one than the producers before, and nothing older is left to be gone on from."""
        places = self._places(own["transactional_id"] or "") if since_ns < until_ns else []
        return emptied(places[0], Timelines(places[0]), since_ns, until_ns) if len(places) == 1 else None

    def _is_replaced(self, own: TransactionRow, process: int) -> bool:
        """Whether all that the producer may have been at since then is of a smaller epoch, for good: it is refused, and
        whatever the coordinator forgot before, its epoch comes again for none that is at work now."""
        decision = self._kept_decisions.get(own["transaction"])
        theirs = (
            each["transaction"]
            for each in self._transactions_of.get(own["transactional_id"] or "", ())
            if each["process"] == process and each["completed_ns"] >= own["invoked_ns"]
        )
        begins = [self._kept_beginnings.get(each) for each in theirs]
        return decision is not None and all(
            begin is not None and begin.is_before(decision.client, decision.time_ns) for begin in begins
        )

    def _known_by(self, own: TransactionRow, process: int) -> int:
        """When that producer's epoch was certainly kept, for good, before a transaction of a later one."""
        decision = self._kept_decisions.get(own["transaction"])
        if decision is None:
            return 0
        theirs = (
            kept
            for each in self._transactions_of.get(own["transactional_id"] or "", ())
            if each["process"] == process and (kept := self._kept_decisions.get(each["transaction"])) is not None
        )
        return max((each.time_ns for each in theirs if each.is_before(decision.producer, decision.time_ns)), default=0)

    def _taken(self, own: TransactionRow, since_ns: int, until_ns: int) -> Ruled | None:
        name = own["transactional_id"] or ""
        stored = Stored(sent_ns=since_ns, stored_ns=since_ns, gone_ns=until_ns)
        places = self._places(name)
        found = [self._taken_from(place, own, stored) for place in places]
        if not places:
            found = [perhaps_taken(self._history, None, stored, CODES)]
        some = [each for each in found if each is not None]
        if len(places) > 1 and some and some[0][0] == "permitted":
            return "observation", CODES.on_a_lost_disk  # it may be kept by another one of them
        return some[0] if some else None

    def _places(self, name: str) -> list[PartitionHistory]:
        """Its own partition, or all of which it may be one; none: none was recorded."""
        written = {row["partition"] for row in self._states_of.get(name, ())}
        number = number_of(self._history, TRANSACTIONS_TOPIC, name, written)
        recorded = {
            part: place for (topic, part), place in self._history.internal.items() if topic == TRANSACTIONS_TOPIC
        }
        return [recorded[number]] if number in recorded else list(recorded.values()) if number is None else []

    def _taken_from(self, place: PartitionHistory, own: TransactionRow, stored: Stored) -> Ruled | None:
        name, spared_by = own["transactional_id"] or "", partial(self._is_spared, own, place)
        taken = taken_from(place, Timelines(place), stored, CODES, spared_by)
        if taken is None and not place.exact:
            taken = perhaps_taken(self._history, place, stored, CODES)
        if taken is None or taken[0] == "permitted":
            return taken
        known = known_by(place, stored.gone_ns)
        rulings = (rule(known, lost) for lost in self._lost(place, name, stored))
        permitted = next((ruling for ruling in rulings if ruling.classification == "permitted"), None)
        return taken if permitted is None else ("permitted", by_ruling(place, permitted, CODES))

    def _is_spared(self, own: TransactionRow, place: PartitionHistory, election: Election) -> bool:
        """Whether all is known that an election took of the log, and nothing of that is of this id, but for decisions
        that are in it to the end: they were taken again."""
        taken = taken_by(place, election)
        if taken is None or any(self._kept_from.get(log.number, 0) > taken.start for log in taken.logs):
            return False
        numbers, decision = {log.number for log in taken.logs}, self._kept_decisions.get(own["transaction"])
        return all(
            decision is not None and is_repeated(own, decision, row)
            for row in self._states_of.get(own["transactional_id"] or "", ())
            if row["partition"] == place.partition and row["offset"] >= taken.start and numbers & set(row["snapshots"])
        )

    def _lost(self, place: PartitionHistory, name: str, stored: Stored) -> Iterator[LostRecord]:
        """The records of that id that were in logs, and are in none at the end."""
        ends = {row["snapshot"] for row in place.end_snapshots.values()}
        nodes = {row["snapshot"]: row["node"] for row in place.snapshots}
        for row in self._states_of.get(name, ()):
            time_ns = row["time_ns"]
            if row["partition"] != place.partition or time_ns is None:
                continue
            if ends & set(row["snapshots"]) or time_ns > stored.gone_ns + CLOCKS_APART_NS:
                continue
            yield LostRecord(
                offset=row["offset"],
                epoch=row["leader_epoch"],
                acks=-1,
                t_acknowledged=time_ns + CLOCKS_APART_NS,
                committed=True,
                in_a_log=True,
                copies=frozenset(
                    Copy(node=nodes[number], snapshot=number, epoch=row["leader_epoch"])
                    for number in row["snapshots"]
                    if number in nodes
                ),
                t_sent=time_ns - CLOCKS_APART_NS,
            )


def written_at(partition: PartitionHistory, row: Flagged) -> Written | None:
    if row.invoked_ns is None:
        return None
    return Written(topic=client_name(partition.topic), partition=partition.partition, sent_ns=row.invoked_ns)


def marker_ruled(partition: PartitionHistory, *, since_ns: int, until_ns: int) -> Ruled | None:
    """What lawfully took a marker that was written there after `since_ns`, at the earliest, and gone by `until_ns`."""
    marker = LostRecord(offset=None, epoch=None, acks=-1, t_acknowledged=since_ns, committed=False, in_a_log=False)
    if rule(known_by(partition, until_ns), marker).classification == "violation":
        return None
    doubt = Doubt(code="end-marker-may-be-lost")
    return "observation", Cause(code="marker-in-doubt", doubt=doubt)
