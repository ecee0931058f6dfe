"""Aborted reads (G1a): a value was read whose send had definitely failed. "Not appended" must be true.

A record of an aborted transaction is appended, and marked afterwards: a read_uncommitted reader may return it, a
read_committed one never (KIP-98). For the final log the isolation of its reader counts. What an application sent again
with more success may be read, but not where the aborted one was stored.
"""

from collections.abc import Iterable, Sequence

from harness.checks.families.transactions.isolation import aborted_copies, strict_readers
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.checks.spark.fused_query import Flag
from harness.checks.wording.words import offsets_words, plural
from harness.history.schema.schemas import STATUS_FAIL


def find(context: RunContext) -> list[Finding]:
    findings = []
    strict = strict_readers(context)
    for history, rows in _sent_again(context):
        findings.append(_in_transactions(context, history, rows))
    for history, rows in context.by_partition("aborted"):
        refused = [row for row in rows if (row.partition_id, row.value) not in strict]
        if refused:
            findings.append(_refused(context, history, refused))
        in_transactions = [row for row in rows if strict.get((row.partition_id, row.value))]
        if in_transactions:
            findings.append(_in_transactions(context, history, in_transactions))
    return findings


def _sent_again(context: RunContext) -> Iterable[tuple[PartitionHistory, Sequence[Flagged]]]:
    """Of those that were sent more than once, not always in vain, the copies that were aborted."""
    copies = aborted_copies(context)
    for history, rows in context.by_partition("duplicate") if copies else ():
        places = [(row, (row.partition_id, row.value, row.offset)) for row in rows if row.status != STATUS_FAIL]
        if given := [row for row, place in places if place in copies]:
            yield history, given


def _refused(context: RunContext, history: PartitionHistory, rows: list[Flagged]) -> Finding:
    count = len({row.value for row in rows})
    sentence = (
        f"{plural(count, 'record')} of {history.name} {plural(count, 'was')} refused as not appended, and then read "
        f"{offsets_words(rows)}."
    )
    return finding_of_rows(
        context,
        history,
        rows,
        check="aborted-read",
        classification="violation",
        kind="failed-send",
        sentence=sentence,
        count=count,
    )


def _in_transactions(context: RunContext, history: PartitionHistory, rows: Sequence[Flagged]) -> Finding:
    count = len({row.value for row in rows})
    sentence = (
        f"{plural(count, 'record')} of {history.name} {plural(count, 'was')} sent in transactions that were aborted, "
        f"and then read {offsets_words(rows)} by read_committed readers."
    )
    return finding_of_rows(
        context,
        history,
        rows,
        check="aborted-read",
        classification="violation",
        kind="aborted-transaction",
        sentence=sentence,
        count=count,
    )


FAMILY = Family(
    name="aborted-read",
    find=find,
    flags=(Flag(name="aborted", condition="value_status = 1 and seen > 0", needs_a_ruling=False),),
)
