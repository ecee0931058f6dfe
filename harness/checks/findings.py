"""A finding, and what every family of checks needs to make one: the rows of a run, its story, rulings and wording."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from harness.checks.contract import Class, Judge, Ruling
from harness.checks.detection import SEEN_POLL, Flagged
from harness.checks.fates import EpochRead, Fate, epoch_of_copies
from harness.checks.fingerprint import fingerprint_of
from harness.checks.story import PartitionStory, RunStory
from harness.checks.tables import CORRUPT_READS, Row

EXAMPLES_MAX = 200


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One row of findings.parquet. `rows`: the flagged rows behind it, for the evidence tables; not stored."""

    run: int
    check: str
    classification: Class
    kind: str
    topic: str | None = None
    part: int | None = None
    count: int
    sentence: str
    cause: str = ""
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
    open_question: str = ""  # what cannot be told and makes the run inconclusive, where no ruling says it
    salt: str = ""  # what else tells this finding from its like: a step's number

    @property
    def fingerprint(self) -> str:
        """The same for the same kind of thing in another run: no partition, counts, offsets, epochs or times."""
        return fingerprint_of(
            check=self.check, classification=self.classification, kind=self.kind, topic=self.topic,
            cause=self.cause_kind or self.cause, salt=self.salt,
        )  # fmt: skip

    @property
    def is_open(self) -> bool:
        """Whether it may be a violation and nobody can tell."""
        return bool(self.open_question or (self.ruling is not None and self.ruling.undecided))

    @property
    def cause_kind(self) -> str:
        return self.ruling.cause if self.ruling else ""

    def as_row(self, name: str) -> dict[str, Any]:
        return {
            "run": self.run, "finding": name, "check": self.check, "classification": self.classification,
            "kind": self.kind, "topic": self.topic, "part": self.part,
            "offset_first": min(self.offsets, default=None), "offset_last": max(self.offsets, default=None),
            "count": self.count, "values": list(self.values[:EXAMPLES_MAX]),
            "offsets": list(self.offsets[:EXAMPLES_MAX]), "operations": list(self.operations[:EXAMPLES_MAX]),
            "t_first": self.t_first, "t_last": self.t_last, "faults": list(self.faults), "epoch": self.epoch,
            "cause": self.cause, "sentence": self.sentence, "fingerprint": self.fingerprint,
            "evidence": json.dumps(self.evidence, sort_keys=True),
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


# ---- wording --------------------------------------------------------------------------------------------------------


def plural(count: int, noun: str) -> str:
    many = {"is": "are", "was": "were", "has": "have", "lies": "lie"}.get(noun)
    if many is not None:
        return noun if count == 1 else many
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def ranges(numbers: Iterable[int | None], *, most: int = 4) -> str:
    """1247-1283, or 3, 5-7 and 9; a cut says how many it hides."""
    ordered = sorted({number for number in numbers if number is not None})
    spans: list[list[int]] = []
    for number in ordered:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in spans[:most]]
    if len(spans) > most:
        return ", ".join(words) + f" and {len(spans) - most} more ranges up to {ordered[-1]}"
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else "unknown"


def span_words(low: int, high: int) -> str:
    return f"offset {low}" if low == high else f"offsets {low} to {high}"


def offsets_words(rows: Sequence[Flagged]) -> str:
    known = [row.off for row in rows if row.off is not None]
    if not known:
        return "at unknown offsets"
    return f"at offset{'s' if len(set(known)) > 1 else ''} {ranges(known)}"


def acks_words(rows: Sequence[Flagged]) -> str:
    names = {-1: "acks=all", 1: "acks=1", 0: "acks=0"}
    return " or ".join(sorted({names.get(row.acks if row.acks is not None else -1, "unknown acks") for row in rows}))


def epochs_words(numbers: Iterable[int | None]) -> str:
    known = {number for number in numbers if number is not None}
    if not known:
        return "in an unknown epoch"
    return f"in epoch{'s' if len(known) > 1 else ''} {ranges(known)}"


def nodes_words(nodes: Iterable[int]) -> str:
    ordered = [str(node) for node in nodes]
    if not ordered:
        return "no broker"
    noun = "broker " if len(ordered) == 1 else "brokers "
    return noun + (ordered[0] if len(ordered) == 1 else ", ".join(ordered[:-1]) + " and " + ordered[-1])
