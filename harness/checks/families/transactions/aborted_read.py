"""Aborted reads (G1a): a value was read whose send had definitely failed. "Not appended" must be true.

A record of an aborted transaction is appended, and marked afterwards: a read_uncommitted reader may return it, a
read_committed one never (KIP-98). For the final log the isolation of its reader counts. What an application sent again
with more success may be read, but not where the aborted one was stored.
"""

from collections.abc import Sequence

from harness.checks.contract.coordinators_log import Ruled
from harness.checks.contract.rulings import NOTHING_PERMITS_IT
from harness.checks.families.transactions.isolation import OpenlyReadRow, aborted_copies, openly_read
from harness.checks.families.transactions.transaction_forgetting import TransactionForgetting, marker_ruled, written_at
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.checks.spark.fused_query import Flag
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import offsets_words, plural
from harness.history.schema.schemas import STATUS_FAIL


def find(context: RunContext) -> list[Finding]:
    findings = []
    read, copies = openly_read(context), aborted_copies(context)
    forgetting = TransactionForgetting.of(context)
    for history, rows in context.by_partition("duplicate") if copies else ():  # sent again, not always in vain
        given = [row for row in rows if row.offset is not None and row.status != STATUS_FAIL]
        places = [(row, copies.get((row.partition_id, row.value, row.offset or 0))) for row in given]
        stored = [(row, own) for row, own in places if own is not None]
        findings += _of_transactions(context, forgetting, history, stored)
    for history, rows in context.by_partition("aborted"):
        owned = [(row, read.get((row.partition_id, row.value))) for row in rows]
        if refused := [row for row, own in owned if own is None]:
            findings.append(_refused(context, history, refused))
        strictly = [(row, own) for row, own in owned if own is not None and own["strict_ns"] is not None]
        findings += _of_transactions(context, forgetting, history, strictly)
    return findings


def _of_transactions(
    context: RunContext,
    forgetting: TransactionForgetting,
    history: PartitionHistory,
    rows: Sequence[tuple[Flagged, OpenlyReadRow]],
) -> list[Finding]:
    """Of what read_committed readers were given, a finding for each ruling."""
    groups: dict[Ruled, list[Flagged]] = {}
    for row, read in rows:
        groups.setdefault(_ruled(forgetting, history, row, read), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: group[1][0].offset or 0)
    return [_in_transactions(context, history, ruled, own) for ruled, own in ordered]


def _ruled(forgetting: TransactionForgetting, history: PartitionHistory, row: Flagged, read: OpenlyReadRow) -> Ruled:
    """That it was aborted may lawfully have been forgotten: by its coordinator, or by its partition's log."""
    until_ns = read["strict_ns"] or 0
    return (
        forgetting.of_number(read["transaction"], until_ns, written_at(history, row))
        or marker_ruled(history, since_ns=row.invoked_ns or 0, until_ns=until_ns)
        or ("violation", NOTHING_PERMITS_IT)
    )


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


def _in_transactions(context: RunContext, history: PartitionHistory, ruled: Ruled, rows: list[Flagged]) -> Finding:
    classification, cause = ruled
    count = len({row.value for row in rows})
    sentence = (
        f"{plural(count, 'record')} of {history.name} {plural(count, 'was')} sent in transactions that were aborted, "
        f"and then read {offsets_words(rows)} by read_committed readers: {cause_words(cause)}."
    )
    return finding_of_rows(
        context,
        history,
        rows,
        check="aborted-read",
        classification=classification,
        kind="aborted-transaction",
        sentence=sentence,
        count=count,
        cause=cause,
        open_question=cause.doubt is not None,
    )


FAMILY = Family(
    name="aborted-read",
    find=find,
    flags=(Flag(name="aborted", condition="value_status = 1 and seen > 0", needs_a_ruling=False),),
)
