"""Duplicates: one value at two or more offsets.

Twice in the final log breaks the promise of an idempotent producer; a producer without idempotence may have sent it
twice (attempts.py), but no broker may duplicate what was sent once. What an application sends again under one value
is there as often, lawfully. If the log kept at most one of the two offsets, a truncation moved the value: it is judged
like the loss of the missing offset, and not more strictly; where the final read stopped before it and no log in sync
lacks it, nobody knows of a cut. If the configuration removed that one, nothing was cut, and the log once had both.
Where the answering leader had another record at that offset, its answer is the odd one. What no read_committed reader
is given is not missing where the in-sync logs have it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from harness.checks.contract.rulings import Cause, Class, Doubt, Ruling
from harness.checks.explaining.attempts import Attempts, Repeated
from harness.checks.families.evidence.disks_against_reads import last_read
from harness.checks.families.records.lost_write import is_unreadable
from harness.checks.families.records.removal import Removal
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.model.lost_records import kept_there
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import SEEN_FINAL, Flagged
from harness.checks.spark.fused_query import Flag
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, ranges
from harness.history.schema.client_rows import ClientEventRow

_ATTEMPTS_MAX = 20
_CUT_OR_TWICE = Doubt(code="cut-or-twice")


def find(context: RunContext) -> list[Finding]:
    findings = []
    removal, attempts, last = Removal(context), Attempts(context), last_read(context)
    for history, rows in context.by_partition("duplicate"):
        values: dict[int, list[Flagged]] = {}
        for row in rows:
            if row.tries == 1 or row.seen or not row.is_uncommitted:  # else a transaction that was made again left it
                values.setdefault(row.value, []).append(row)
        groups: dict[tuple[str, Class, Cause], list[Flagged]] = {}
        open_ends: dict[Cause, Ruling] = {}
        failed: dict[Cause, list[ClientEventRow]] = {}
        for places in (each for each in values.values() if len(each) > 1):
            away = [row for row in places if not row.seen & SEEN_FINAL and removal.of(row) is None]
            end = last.get(history.partition_id, -1)
            missing = [row for row in away if not is_unreadable(history, row, end) and not _is_hidden(history, row)]
            gone = [row for row in missing if not _is_unknown(history, row, end)]
            if places[0].final_offsets > 1 or not gone:
                if len(places) <= places[0].tries:
                    continue  # the application sent it as often: docs/control.md
                repeated = _twice(attempts, history, places, may_be_gone=bool(missing))
                kind, classification, cause = "twice-in-the-log", repeated.classification, repeated.cause
                ruling = repeated.ruling
                failed.setdefault(cause, []).extend(repeated.failed)
            else:
                kind, (classification, cause, ruling) = "moved", _moved(context, history, gone)
            if ruling is not None and ruling.undecided:
                open_ends[cause] = ruling
            groups.setdefault((kind, classification, cause), []).extend(places)
        for (kind, classification, cause), members in groups.items():
            count = len({row.value for row in members})
            kept = all(row.final_offsets > 1 for row in members)
            where = "in the final log" if kept else "in what was acknowledged and read"
            offsets = ranges(row.offset for row in members)
            sentence = (
                f"{plural(count, 'value')} of {history.name} {plural(count, 'is')} at more than one offset {where} "
                f"(offsets {offsets}): {cause_words(cause)}{_removed(removal, members)}."
            )
            findings.append(
                finding_of_rows(
                    context,
                    history,
                    members,
                    check="duplicate",
                    classification=classification,
                    kind=kind,
                    sentence=sentence,
                    count=count,
                    cause=cause,
                    ruling=open_ends.get(cause),
                    evidence=_evidence(context, failed.get(cause, ())),
                )
            )
    return findings


def _is_hidden(history: PartitionHistory, row: Flagged) -> bool:
    """Whether it is, or may be, in the log at this offset. Of what was answered in a transaction that did not certainly
    commit only logs show that it is not there."""
    in_sync = frozenset(history.final_isr)
    known = bool(in_sync) and in_sync <= history.end_snapshots.keys()
    there = kept_there(history, row)
    if there and there >= frozenset(history.replicas):
        return True  # whoever leads next
    if row.is_uncommitted:
        return not known or bool(in_sync & there)
    return known and in_sync <= there


def _is_unknown(history: PartitionHistory, row: Flagged, last: int) -> bool:
    """Whether nothing shows that it is gone: the final read ended before it, at `last`, and no log in sync lacks it."""
    if history.read_to_end or row.offset is None or row.offset < last:
        return False
    in_sync = frozenset(history.final_isr)
    return not in_sync or not in_sync & history.end_snapshots.keys() - kept_there(history, row)


def _removed(removal: Removal, members: Sequence[Flagged]) -> str:
    """Which copies the configuration took: with a producer's last record brokers before 2.4 forget it (KIP-360)."""
    why = {row.offset: cause for row in members if (cause := removal.of(row)) is not None}
    if not why:
        return ""
    by = ", ".join(sorted({cause_words(cause) for cause in why.values()}))
    return f"; of these, {by} removed {ranges(why)}"


def _evidence(context: RunContext, failed: Sequence[ClientEventRow]) -> Mapping[str, Any]:
    """The failed attempts that the clients reported; one attempt may cover many records."""
    attempts = list({(row["process"], row["time_ns"]): row for row in failed}.values())
    facts = [
        {
            "process": row["process"],
            "at": context.history.seconds(row["time_ns"]),
            "node": row["node"],
            "error": row["error"],
        }
        for row in attempts[:_ATTEMPTS_MAX]
    ]
    return {"failed_attempts": facts} if facts else {}


def _twice(attempts: Attempts, history: PartitionHistory, places: Sequence[Flagged], *, may_be_gone: bool) -> Repeated:
    """may_be_gone: one of them may have been cut before the other was written, and be no second one."""
    repeated = attempts.twice(history, places[0])
    if may_be_gone and repeated.yes is not True:
        return Repeated(yes=None, code="cut-or-twice", unknown=_CUT_OR_TWICE)
    return repeated


def _moved(context: RunContext, history: PartitionHistory, gone: Sequence[Flagged]) -> tuple[Class, Cause, Ruling]:
    rulings = [context.ruling(history, row) for row in gone]
    violations = [ruling for ruling in rulings if ruling.classification == "violation"]
    if violations:
        odd = all(answered_oddly(history, row) for row in gone)
        return "violation", Cause(code="answered-elsewhere" if odd else "moved-without-a-loss"), violations[0]
    for ruling in rulings:
        if ruling.undecided:
            return "observation", Cause(code="cut-in-doubt", doubt=ruling.undecided), ruling
    return "permitted", Cause(code="cut-and-written-again", by=rulings[0].cause), rulings[0]


def answered_oddly(history: PartitionHistory, row: Flagged, *, epochs: Collection[int | None] = ()) -> bool:
    """Whether a record is known at this offset by its answer alone, while the leader that gave it gave the offset to
    another one: no log was cut, and the answer is the odd one. epochs: of other records there, as readers saw them."""
    if not row.answered or row.seen or row.copies or row.completed_ns is None:
        return False
    term = history.term_at(row.completed_ns)
    return term is not None and term.epoch in {*epochs, *(copy.epoch for copy in row.others)}


FAMILY = Family(
    name="duplicate", find=find, flags=(Flag(name="duplicate", condition="value_offsets > 1 and offset is not null"),)
)
