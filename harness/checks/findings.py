"""A finding, and what every family of checks needs to create one: a run's rows, its history, rulings and wording."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from harness.checks import passed_over
from harness.checks.contract.deposed import READ_AHEAD_NS
from harness.checks.contract.rule import Judge
from harness.checks.contract.rulings import Cause, Class, OtherCause, Ruling
from harness.checks.model.leader_views import LeaderViews
from harness.checks.model.lost_records import LostRecord, epoch_of_copies
from harness.checks.model.partition_history import PartitionHistory, RunHistory
from harness.checks.rewrites import Rewrites
from harness.checks.spark.detection import SEEN_POLL, EpochRead, Flagged
from harness.checks.spark.tables import CORRUPT_READS
from harness.checks.wording.causes import cause_words
from harness.history.facts.finding_facts import Setting
from harness.history.schema.client_rows import CLIENT_EVENTS, PROCESSES, OperationRow
from harness.history.schema.evidence_rows import FindingRow
from harness.history.schema.schemas import STATUS_OK
from harness.history.schema.typed_rows import TypedRows

EXAMPLES_MAX = 200
REASONS_MAX = 3  # that a verdict is stated with


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One row of findings.parquet. `rows`: the flagged rows it is based on, for the evidence tables; not stored.

    fault_kinds: the kinds of `faults`, set by find_all.
    """

    run: int
    check: str
    classification: Class
    kind: str
    topic: str | None = None
    partition: int | None = None
    count: int
    sentence: str
    cause: Cause | OtherCause | None = None
    epoch: int | None = None
    offsets: Sequence[int] = ()
    values: Sequence[int] = ()
    operations: Sequence[int] = ()
    first_ns: int | None = None
    last_ns: int | None = None
    faults: Sequence[int] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Flagged] = ()
    ruling: Ruling | None = None
    open_question: bool = False  # an unknown makes the run inconclusive, without a ruling that says so
    apart: str = ""  # what else distinguishes it from similar findings: a step's number
    fault_kinds: Sequence[str] = ()

    @property
    def fingerprint(self) -> str:
        """The same for the same kind of finding in any run: without topic, counts, offsets, epochs, times or words."""
        return fingerprint_of(
            check=self.check,
            classification=self.classification,
            kind=self.kind,
            cause=self.cause.codes if self.cause else (),
            fault_kinds=self.fault_kinds,
            settings=self.cause.settings if self.cause else (),
            apart=self.apart,
        )

    @property
    def is_open(self) -> bool:
        """Whether it is unknown if it is a violation."""
        return bool(self.open_question or (self.ruling is not None and self.ruling.undecided))

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of its kind, for comparing findings of many runs."""
        settings = [setting.as_dict() for setting in self.cause.settings] if self.cause else []
        cause = self.cause.as_dict() if self.cause else None
        return {"cause": cause, "fault_kinds": list(self.fault_kinds), "settings": settings}

    def as_row(self, name: str) -> FindingRow:
        return {
            "run": self.run,
            "finding": name,
            "check": self.check,
            "classification": self.classification,
            "kind": self.kind,
            "topic": self.topic,
            "partition": self.partition,
            "offset_first": min(self.offsets, default=None),
            "offset_last": max(self.offsets, default=None),
            "count": self.count,
            "values": list(self.values[:EXAMPLES_MAX]),
            "offsets": list(self.offsets[:EXAMPLES_MAX]),
            "operations": list(self.operations[:EXAMPLES_MAX]),
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "faults": list(self.faults),
            "leader_epoch": self.epoch,
            "cause_text": cause_words(self.cause),
            "sentence_text": self.sentence,
            "fingerprint": self.fingerprint,
            "evidence": json.dumps({**self.evidence, "facts": self.facts}, sort_keys=True),
        }


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run as the families of checks see it."""

    history: RunHistory
    flagged: Sequence[Flagged]
    counts: Mapping[tuple[int, str], int]  # (partition_id, flag) -> exact count of rows
    rows: TypedRows = field(default_factory=TypedRows)  # the rows of the families' queries
    tables: TypedRows = field(default_factory=TypedRows)  # the small tables, this run's rows
    found: dict[str, list[Finding]] = field(default_factory=dict)  # family -> findings; only of earlier families
    judges: dict[int, Judge] = field(default_factory=dict)
    journals_may_lack_their_end: bool = False  # set by the seal if their lengths had not been recorded
    reads: Mapping[int, Sequence[EpochRead]] = field(
        default_factory=dict
    )  # partition_id -> what readers saw of each epoch

    @property
    def run(self) -> int:
        return self.history.run

    @property
    def corrupt_reads(self) -> Sequence[OperationRow]:
        """Rows of ops: reads that clients rejected because of a wrong checksum."""
        return self.tables[CORRUPT_READS]

    def by_partition(self, *flags: str) -> list[tuple[PartitionHistory, list[Flagged]]]:
        """Rows with any of the flags, by partition, in offset order."""
        grouped: dict[int, list[Flagged]] = {}
        for row in self.flagged:
            if any(flag in row.flags for flag in flags):
                grouped.setdefault(row.partition_id, []).append(row)
        return [(self.partition(partition_id), grouped[partition_id]) for partition_id in sorted(grouped)]

    def partition(self, partition_id: int) -> PartitionHistory:
        """The partition's history; a partition that is missing in its table still gets findings, under its number."""
        known = self.history.partitions.get(partition_id)
        return known or PartitionHistory(
            run=self.run,
            partition_id=partition_id,
            topic=f"partition {partition_id}",
            partition=partition_id,
            replicas=(),
            read_to_end=False,
            end_offset=None,
        )

    def ruling(self, history: PartitionHistory, row: Flagged) -> Ruling:
        """On the loss of this value from this place."""
        lost = lost_record_of(history, row)
        twice = (row.partition_id, row.offset, lost.epoch) in self._given_twice
        return self.judge(history).rule(
            replace(
                lost,
                taken=self._taken(history, row),
                matched=lost.matched and not twice,
                answered_by=self._answered_by(history, row) if lost.epoch is None else None,
                absent_t=self._absent_t(history, row),
                rewritten=self._rewrites.of(row, lost.epoch),
            )
        )

    def judge(self, history: PartitionHistory) -> Judge:
        if history.partition_id not in self.judges:
            self.judges[history.partition_id] = Judge(history, self.reads.get(history.partition_id, ()))
        return self.judges[history.partition_id]

    def _taken(self, history: PartitionHistory, row: Flagged) -> bool:
        """Whether the leader in force at its acknowledgement assigned its offset to another record."""
        others = self._epochs_at.get((row.partition_id, row.offset), ())
        return row.epoch is None and bool(others) and history.epoch_at(row.completed_ns) in others

    def _absent_t(self, history: PartitionHistory, row: Flagged) -> int | None:
        """When clients first saw the leader in force without the record, after they last knew of it.

        Another record that was sent or fetched after that was acknowledged or read at its offset, or a poll passed over
        it.
        """
        since = row.known_until_ns
        if since is None or row.offset is None:
            return None
        times = {self._passed.get((row.partition_id, row.value, row.offset))}
        for other in self._at.get((row.partition_id, row.offset), ()):
            if other.value == row.value:
                continue
            if other.answered and (other.invoked_ns or 0) > since:
                times.add(other.completed_ns)
            if other.read_first is not None and other.read_first > since + 2 * READ_AHEAD_NS:
                times.add(other.read_first)
        judge = self.judge(history)
        return next((t for t in sorted(filter(None, times)) if judge.is_the_leader_in_force(t)), None)

    @cached_property
    def _passed(self) -> Mapping[tuple[int, int, int], int]:
        rows = self.rows[passed_over.ANSWER]
        return {(row["partition_id"], row["value"], row["offset"]): row["passed_ns"] for row in rows}

    @cached_property
    def _at(self) -> Mapping[tuple[int, int], Sequence[Flagged]]:
        """The records at offsets that more than one had."""
        found: dict[tuple[int, int], list[Flagged]] = {}
        for row in self.flagged:
            if "conflict" in row.flags and row.offset is not None:
                found.setdefault((row.partition_id, row.offset), []).append(row)
        return found

    def _answered_by(self, history: PartitionHistory, row: Flagged) -> int | None:
        is_answered = row.answered or row.status == STATUS_OK
        if not is_answered or row.process is None or row.invoked_ns is None or row.completed_ns is None:
            return None
        return self._leader_views.answered_by(
            row.process, history.topic, history.partition, sent_ns=row.invoked_ns, answered_ns=row.completed_ns
        )

    @cached_property
    def _rewrites(self) -> Rewrites:
        return Rewrites(self.flagged)

    @cached_property
    def _leader_views(self) -> LeaderViews:
        return LeaderViews(self.tables[CLIENT_EVENTS], self.tables[PROCESSES])

    @cached_property
    def _epochs_at(self) -> Mapping[tuple[int, int | None], set[int]]:
        """The epochs of the records at offsets that more than one record had."""
        epochs: dict[tuple[int, int | None], set[int]] = {}
        for row in self.flagged:
            if "conflict" in row.flags and row.epoch is not None:
                epochs.setdefault((row.partition_id, row.offset), set()).add(row.epoch)
        return epochs

    @cached_property
    def _given_twice(self) -> AbstractSet[tuple[int, int | None, int | None]]:
        """(partition, offset, epoch) that more than one record had: such a log was rewound within an epoch."""
        places = Counter(
            (row.partition_id, row.offset, row.epoch)
            for row in self.flagged
            if "conflict" in row.flags and row.epoch is not None
        )
        return {place for place, count in places.items() if count > 1}

    def hidden(self, history: PartitionHistory, flag: str, seen: int) -> int:
        """The number of rows that were counted but not fetched, because there were too many."""
        return max(0, self.counts.get((history.partition_id, flag), 0) - seen)


def lost_record_of(history: PartitionHistory, row: Flagged) -> LostRecord:
    """A value at one offset. Its sender's answer applies to the offset it names; at other offsets readers saw it.

    What the log promises does not depend on the transaction: an answered record may not leave it, nor may its marker.
    """
    answered = row.answered or (row.status == 0 and row.acknowledged is None)
    t = row.completed_ns if answered else row.read_first
    seen = row.seen_any if row.offset is None else row.seen
    return LostRecord(
        offset=row.offset,
        epoch=epoch_of_copies(history, row.copies, t, row.read_epoch),
        acks=row.acks if row.status == 0 or row.answered else None,
        t_acknowledged=t,
        committed=bool(seen & SEEN_POLL),
        in_a_log=bool(row.copies),
        copies=row.copies,
        others=row.others,
        t_first_read=None if answered else row.read_first,
        t_last_read=row.read_last,
        matched=not is_damaged(history, row.offset),
        t_sent=row.invoked_ns if answered else None,
    )


def is_damaged(history: PartitionHistory, offset: int | None) -> bool:
    """Whether a batch with that offset may have been damaged in a log, which says nothing of those beside it then."""
    return any(
        loss.event.extent in ("batch", "unknown")
        and loss.event.destroyed(history.topic, history.partition, offset) is not False
        for loss in history.disk_losses
    )


def finding_of_rows(
    context: RunContext,
    history: PartitionHistory,
    rows: Sequence[Flagged],
    *,
    check: str,
    classification: Class,
    kind: str,
    sentence: str,
    count: int | None = None,
    **more: Any,
) -> Finding:
    times = [t for row in rows for t in (row.completed_ns if row.status == 0 else row.read_first,) if t is not None]
    return Finding(
        run=context.run,
        check=check,
        classification=classification,
        kind=kind,
        topic=history.topic,
        partition=history.partition,
        count=len(rows) if count is None else count,
        sentence=sentence,
        rows=rows,
        offsets=[row.offset for row in rows if row.offset is not None],
        values=[row.value for row in rows],
        operations=[row.operation for row in rows if row.operation is not None],
        first_ns=min(times, default=None),
        last_ns=max(times, default=None),
        **more,
    )


# ---- fingerprints ---------------------------------------------------------------------------------------------------


def fingerprint_of(
    *,
    check: str,
    classification: str,
    kind: str,
    cause: Iterable[str] = (),
    fault_kinds: Iterable[str] = (),
    settings: Iterable[Setting] = (),
    apart: str = "",
) -> str:
    """cause: its codes, in order. apart: what else distinguishes it from similar ones, as a code or a number."""
    decided = sorted({(setting.key, setting.value) for setting in settings})
    parts = (check, classification, kind, list(cause), sorted(set(fault_kinds)), decided, apart)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
