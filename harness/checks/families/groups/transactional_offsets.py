"""When offsets that were sent to a transaction are seen by those who fetch the group's offset.

A successful EndTxn makes the decision certain, not its visibility: the coordinator answers once the decision is
replicated, markers and the group's offsets follow (KIP-98). So a fetch that asks for stable offsets (KIP-447) and
succeeds sees them from the answer on, for it is refused while they are pending. Any other sees them certainly once

- a transaction of the same id that began after the answer has committed: it cannot take anything before its
  predecessor is complete; or
- the transaction's log says that it is complete, on releases where the offsets are applied before that
  (KAFKA-17507: since 3.9.1 and 4.0); or
- 30 s have gone by since in which coordinator and partitions had leaders and no fault was in force (leaders_known.py):
  a marker that is pending for longer is itself a fault.

A transaction without an answer was committed if a read_committed reader saw a record of it, and with it its offsets.
Where its coordinator's log was kept, that says what became of it (decided_transactions.py).

Where its coordinator may lawfully have forgotten it before its end was everywhere, nobody knows what became of its
offsets, whatever its client was told (transaction_forgetting.py).
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate
from typing import TypedDict

from pyspark.sql import functions as sf

from harness.checks.contract.coordinators_log import Ruled
from harness.checks.families.transactions import transactions_in_logs
from harness.checks.families.transactions.isolation import committed_readers
from harness.checks.families.transactions.kept_decisions import Written
from harness.checks.families.transactions.transaction_forgetting import TransactionForgetting
from harness.checks.families.transactions.transactions_in_logs import key_of
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.model.leaders_known import LeadersKnown
from harness.checks.model.partition_history import RunHistory
from harness.history.facts.internal_topics import CLOCKS_APART_NS, GROUP_OFFSETS_TOPIC
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import STATUS_FAIL, STATUS_INFO, STATUS_OK
from harness.history.schema.typed_rows import typed

PENDING_NS = 30_000_000_000
# WriteTxnMarkers is answered after the group's coordinator has applied the offsets: KAFKA-17507, pull request 18206 on
# the branch 3.9, after 3.9.0, and 18168 for 4.0. GroupCoordinator.scheduleHandleTxnCompletion returns a future since
# then; it returns nothing in the jars of 1.1.1 and 2.8.2. What the releases before 1.1.1 do was not looked at.
_APPLIED_BEFORE_IT_IS_COMPLETE_SINCE = (3, 9, 1)


@dataclass(frozen=True, slots=True)
class Sent:
    """From when on a commit in a transaction is seen: by any fetch, by one that asks for stable offsets, and by any if
    nothing held the transaction's end up."""

    any_ns: int
    stable_ns: int
    late_ns: int


class _SeenRow(TypedDict):
    run: int
    transaction: int
    completed_ns: int


class TransactionalOffsets:
    """Of all transactions to which offsets were sent."""

    def __init__(self, runs: JudgedRuns) -> None:
        rows = runs.rows(TRANSACTIONS)
        self._transactions = {key_of(row): row for row in rows}
        self._successors = _Successors(rows)
        self._seen = _seen_committed(runs)
        self._histories = {history.run: history for history in runs.histories}
        self._logged = runs.once(transactions_in_logs.in_logs)
        self._leaders = {history.run: LeadersKnown(history, runs.tables) for history in runs.histories}
        self._forgetting = {run: TransactionForgetting.of_run(runs, own) for run, own in self._histories.items()}
        self._until_ns = END_OF_TIME_NS

    def until(self, time_ns: int) -> "TransactionalOffsets":
        """As if no coordinator had forgotten anything afterwards: what clients were told of them."""
        until = copy(self)
        until._until_ns = time_ns
        return until

    def was_aborted(self, event: PlacedEvent) -> bool:
        """For certain."""
        row = self._row(event)
        return row is not None and row["outcome"] == STATUS_FAIL and not self.was_forgotten(event)

    def was_forgotten(self, event: PlacedEvent) -> bool:
        return self.forgotten(event) is not None

    def forgotten(self, event: PlacedEvent) -> Ruled | None:
        """What lawfully took, or may have taken, what its coordinator was to do with it, before it had done so."""
        row = self._row(event)
        if row is None or self._until_ns <= event["invoked_ns"]:
            return None
        ended_ns = self._successors.committed_after(row, row["completed_ns"])
        complete_ns = self._complete(row)
        record = Written(topic=GROUP_OFFSETS_TOPIC, partition=None, sent_ns=event["invoked_ns"])
        until_ns = min(ended_ns, complete_ns or ended_ns, self._until_ns)
        return self._forgetting[row["run"]].ruled(row, until_ns, record)

    def _complete(self, row: TransactionRow) -> int | None:
        logged = self._logged.get(key_of(row))
        return None if logged is None or logged.commits != (row["outcome"] == STATUS_OK) else logged.complete_ns

    def sent(self, event: PlacedEvent) -> Sent | None:
        """None: it is not certain that the transaction was committed."""
        row = self._row(event)
        decided_ns = None if row is None else self._decided(row)
        if row is None or decided_ns is None or self.was_forgotten(event):
            return None
        logged = self._logged.get(key_of(row))
        complete_ns = logged.complete_ns if logged is not None and logged.commits else None
        is_applied = complete_ns is not None and _applies_at_once(self._histories[row["run"]])
        any_ns = min(
            self._successors.committed_after(row, decided_ns),
            complete_ns + CLOCKS_APART_NS if complete_ns is not None and is_applied else END_OF_TIME_NS,
            self._leaders[row["run"]].for_long(decided_ns, PENDING_NS),
        )
        return Sent(any_ns=max(any_ns, decided_ns), stable_ns=decided_ns, late_ns=decided_ns + PENDING_NS)

    def _decided(self, row: TransactionRow) -> int | None:
        """From when on it is certain that it was committed. A client that was not told may have given it up before it
        was decided (decided_transactions.py). An abort in the log is not the decision that its client was told."""
        if row["outcome"] != STATUS_OK:
            return None if row["outcome"] == STATUS_FAIL else self._seen.get(key_of(row))
        logged = self._logged.get(key_of(row))
        decided_ns = None if logged is None or not logged.commits else logged.decided_ns
        if decided_ns is None or decided_ns <= row["completed_ns"]:
            return row["completed_ns"]
        return decided_ns + CLOCKS_APART_NS

    def _row(self, event: PlacedEvent) -> TransactionRow | None:
        number = event["transaction"]
        return None if number is None else self._transactions.get((event["run"], number))


class _Successors:
    """Committed transactions of each transactional id, in order of their begin."""

    def __init__(self, rows: Sequence[TransactionRow]) -> None:
        own: dict[tuple[int, object], list[TransactionRow]] = {}
        for row in sorted(rows, key=lambda row: row["invoked_ns"]):
            if row["outcome"] == STATUS_OK:
                own.setdefault(_producer(row), []).append(row)
        self._begins = {key: [row["invoked_ns"] for row in found] for key, found in own.items()}
        self._first_end = {
            key: list(accumulate((row["completed_ns"] for row in reversed(found)), min))[::-1]
            for key, found in own.items()
        }

    def committed_after(self, row: TransactionRow, decided_ns: int) -> int:
        """When the first of them that began after the decision had certainly committed."""
        key = _producer(row)
        place = bisect_left(self._begins.get(key, ()), decided_ns)
        ends = self._first_end.get(key, ())
        return ends[place] if place < len(ends) else END_OF_TIME_NS


def _producer(row: TransactionRow) -> tuple[int, object]:
    return row["run"], row["transactional_id"] or row["process"]


def _applies_at_once(history: RunHistory) -> bool:
    """Whether the offsets of a complete transaction are applied. On a cluster of an unknown release: not known."""
    release = None if history.scenario is None else history.scenario.cluster.release
    return release is not None and release >= _APPLIED_BEFORE_IT_IS_COMPLETE_SINCE


def _seen_committed(runs: JudgedRuns) -> Mapping[tuple[int, int], int]:
    """(run, transaction) of unknown outcome -> when a read_committed reader had certainly seen a record of it."""
    unknown = {key_of(row) for row in runs.rows(TRANSACTIONS) if row["outcome"] == STATUS_INFO and row["group"]}
    strict = committed_readers(runs)
    if not unknown or not strict:
        return {}
    sent = runs.tables.records.where(f"kind = 0 and transaction is not null and status = {STATUS_INFO}")
    readers = sf.broadcast(runs.frame(("run", "process"), strict))
    reads = runs.tables.records.where("kind > 0 and replica is null").join(readers, ["run", "process"], "left_semi")
    found = (
        reads.select("run", "partition_id", "value", "completed_ns")
        .join(sent.select("run", "partition_id", "value", "transaction"), ["run", "partition_id", "value"])
        .groupBy("run", "transaction")
        .agg(sf.min("completed_ns").alias("completed_ns"))
    )
    rows = typed(_SeenRow, found.toArrow())
    return {key: row["completed_ns"] for row in rows if (key := (row["run"], row["transaction"])) in unknown}
