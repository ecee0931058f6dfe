"""A finding, and what every family of checks needs to make one: the rows of a run, its story, rulings and wording."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from harness.checks.contract import Judge
from harness.checks.detection import SEEN_POLL, Flagged
from harness.checks.fates import EpochRead, Fate, epoch_of_copies
from harness.checks.fingerprint import fingerprint_of
from harness.checks.rulings import Cause, Class, Ruling
from harness.checks.story import PartitionStory, RunStory
from harness.checks.tables import CORRUPT_READS, Row
from harness.checks.wording.causes import cause_words

EXAMPLES_MAX = 200


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One row of findings.parquet. `rows`: the flagged rows behind it, for the evidence tables; not stored.

    fault_kinds: those of `faults`, which find_all fills in.
    """

    run: int
    check: str
    classification: Class
    kind: str
    topic: str | None = None
    part: int | None = None
    count: int
    sentence: str
    cause: Cause | None = None
    epoch: int | None = None
    offsets: Sequence[int] = ()
    values: Sequence[int] = ()
    operations: Sequence[int] = ()
    t_first: int | None = None
    t_last: int | None = None
    faults: Sequence[int] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Flagged] = ()
    ruling: Ruling | None = None
    open_question: bool = False  # what cannot be told makes the run inconclusive, where no ruling says it
    apart: str = ""  # what else tells this finding from its like: a step's number
    fault_kinds: Sequence[str] = ()

    @property
    def fingerprint(self) -> str:
        """The same for the same kind of thing in another run: no topic, counts, offsets, epochs, times or words."""
        return fingerprint_of(
            check=self.check, classification=self.classification, kind=self.kind,
            cause=self.cause.codes if self.cause else (), fault_kinds=self.fault_kinds,
            settings=self.cause.settings if self.cause else (), apart=self.apart,
        )  # fmt: skip

    @property
    def is_open(self) -> bool:
        """Whether it may be a violation and nobody can tell."""
        return bool(self.open_question or (self.ruling is not None and self.ruling.undecided))

    @property
    def facts(self) -> dict[str, Any]:
        """What kind of thing it is, for whoever compares findings of many runs."""
        settings = [setting.as_dict() for setting in self.cause.settings] if self.cause else []
        cause = self.cause.as_dict() if self.cause else None
        return {"cause": cause, "fault_kinds": list(self.fault_kinds), "settings": settings}

    def as_row(self, name: str) -> dict[str, Any]:
        return {
            "run": self.run, "finding": name, "check": self.check, "classification": self.classification,
            "kind": self.kind, "topic": self.topic, "part": self.part,
            "offset_first": min(self.offsets, default=None), "offset_last": max(self.offsets, default=None),
            "count": self.count, "values": list(self.values[:EXAMPLES_MAX]),
            "offsets": list(self.offsets[:EXAMPLES_MAX]), "operations": list(self.operations[:EXAMPLES_MAX]),
            "t_first": self.t_first, "t_last": self.t_last, "faults": list(self.faults), "epoch": self.epoch,
            "cause": cause_words(self.cause), "sentence": self.sentence, "fingerprint": self.fingerprint,
            "evidence": json.dumps({**self.evidence, "facts": self.facts}, sort_keys=True),
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run as the families of checks see it."""

    story: RunStory
    flagged: Sequence[Flagged]
    counts: Mapping[tuple[int, str], int]  # (tp, flag) -> exact count of rows
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)  # family -> what its query answered
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)  # the small tables, this run's rows
    found: dict[str, list[Finding]] = field(default_factory=dict)  # family -> findings of those before in the catalogue
    judges: dict[int, Judge] = field(default_factory=dict)
    journals_may_lack_their_end: bool = False  # the seal's word, where nobody had kept how long they were
    reads: Mapping[int, Sequence[EpochRead]] = field(default_factory=dict)  # tp -> what readers saw of each epoch

    @property
    def run(self) -> int:
        return self.story.run

    @property
    def gaps(self) -> Sequence[Row]:
        return self.rows.get("availability", ())

    @property
    def corrupt_reads(self) -> Sequence[Row]:
        """Of ops: what clients refused because its checksum did not hold."""
        return self.tables.get(CORRUPT_READS, ())

    def by_partition(self, *flags: str) -> list[tuple[PartitionStory, list[Flagged]]]:
        """Rows with any of the flags, partition by partition, in offset order."""
        grouped: dict[int, list[Flagged]] = {}
        for row in self.flagged:
            if any(flag in row.flags for flag in flags):
                grouped.setdefault(row.tp, []).append(row)
        return [(self.partition(tp), grouped[tp]) for tp in sorted(grouped)]

    def partition(self, tp: int) -> PartitionStory:
        """A partition that its own table does not list still gets its findings, under its number."""
        known = self.story.partitions.get(tp)
        return known or PartitionStory(
            run=self.run, tp=tp, topic=f"partition {tp}", part=tp, replicas=(), read_to_end=False, end_offset=None
        )

    def ruling(self, story: PartitionStory, row: Flagged) -> Ruling:
        """On the loss of this value from this place."""
        return self.judge(story).rule(replace(fate_of(story, row), taken=self._taken(story, row)))

    def judge(self, story: PartitionStory) -> Judge:
        if story.tp not in self.judges:
            self.judges[story.tp] = Judge(story, self.reads.get(story.tp, ()))
        return self.judges[story.tp]

    def _taken(self, story: PartitionStory, row: Flagged) -> bool:
        """Whether the leader in force when it was acknowledged gave its offset to another record."""
        others = self._epochs_at.get((row.tp, row.off), ())
        return row.epoch is None and bool(others) and story.epoch_at(row.t1) in others

    @cached_property
    def _epochs_at(self) -> Mapping[tuple[int, int | None], set[int]]:
        """The epochs of the records at places that more than one record had."""
        epochs: dict[tuple[int, int | None], set[int]] = {}
        for row in self.flagged:
            if "conflict" in row.flags and row.epoch is not None:
                epochs.setdefault((row.tp, row.off), set()).add(row.epoch)
        return epochs

    def hidden(self, story: PartitionStory, flag: str, seen: int) -> int:
        """Rows that were counted but not brought here, because there were too many."""
        return max(0, self.counts.get((story.tp, flag), 0) - seen)


def fate_of(story: PartitionStory, row: Flagged) -> Fate:
    """A value at one place. The answer to its sender is about the place that it names; elsewhere readers saw it."""
    answered = row.status == 0 and row.acknowledged in (None, row.off)
    t = row.t1 if answered else row.read_first
    seen = row.seen_any if row.off is None else row.seen
    damaged = any(
        loss.event.extent in ("batch", "unknown") and loss.event.took(story.topic, story.part, row.off) is not False
        for loss in story.disk_losses
    )
    return Fate(
        offset=row.off, epoch=epoch_of_copies(story, row.copies, t, row.read_epoch),
        acks=row.acks if row.status == 0 else None, t_acknowledged=t, committed=bool(seen & SEEN_POLL),
        in_a_log=bool(row.copies), copies=row.copies, others=row.others, t_last_read=row.read_last,
        matched=not damaged,
    )  # fmt: skip


def finding_of_rows(
    context: RunContext, story: PartitionStory, rows: Sequence[Flagged], *, check: str, classification: Class,
    kind: str, sentence: str, count: int | None = None, **more: Any,
) -> Finding:  # fmt: skip
    times = [t for row in rows for t in (row.t1 if row.status == 0 else row.read_first,) if t is not None]
    return Finding(
        run=context.run, check=check, classification=classification, kind=kind, topic=story.topic, part=story.part,
        count=len(rows) if count is None else count, sentence=sentence, rows=rows,
        offsets=[row.off for row in rows if row.off is not None], values=[row.value for row in rows],
        operations=[row.op for row in rows if row.op is not None], t_first=min(times, default=None),
        t_last=max(times, default=None), **more,
    )  # fmt: skip
