"""Dirty reads: a consumer saw a record that is in no final log. A read record was committed, independent of acks."""

from collections.abc import Mapping

from harness.checks.contract.rulings import Cause, Ruling
from harness.checks.explaining.causes import faults_of, loss_evidence
from harness.checks.families.evidence.disks_against_reads import is_unreached, last_read
from harness.checks.families.records.lost_write import loss_cause, may_be_there
from harness.checks.families.records.removal import Removal
from harness.checks.families.transactions.hidden_records import hidden_ruled
from harness.checks.families.transactions.isolation import OpenlyReadRow, openly_read
from harness.checks.families.transactions.transaction_forgetting import TransactionForgetting
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.spark.detection import Flagged
from harness.checks.spark.fused_query import Flag
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import epochs_words, offsets_words, plural


def _promised(row: Flagged, read: Mapping[tuple[int, int], OpenlyReadRow]) -> bool:
    """Whether it was promised to stay; not if only read_uncommitted readers saw it in an open transaction, or if that
    was aborted: that it was read is told as such (aborted-read)."""
    own = read.get((row.partition_id, row.value))
    return own is None or (own["strict"] > 0 and "aborted" not in row.flags)


def find(context: RunContext) -> list[Finding]:
    findings = []
    removal, read, last = Removal(context), openly_read(context), last_read(context)
    forgetting = TransactionForgetting.of(context)
    for history, rows in context.by_partition("dirty"):
        in_sync = frozenset(history.final_isr)
        rows = [row for row in rows if _promised(row, read) and removal.of(row) is None]
        groups: dict[tuple[str, str, Cause | None, int | None], list[tuple[Flagged, Ruling]]] = {}
        for row in rows:
            if (
                in_sync
                and in_sync <= row.held_at_end
                and row.offset is not None
                and row.offset >= (history.end_offset or 0)
            ):
                continue  # the high watermark went back temporarily: unreadable, but every in-sync copy has it
            if {"lost", "unseen"} & row.flags and may_be_there(history, row):
                continue  # told as not read
            if is_unreached(context, history, row, last.get(history.partition_id, -1)):
                continue  # the evidence contradicts itself; another family reports it
            ruling = hidden_ruled(context, history, row, context.ruling(history, row), forgetting)
            key = (ruling.classification, ruling.cause, ruling.forgotten, ruling.cause_epoch)
            groups.setdefault(key, []).append((row, ruling))
        for group in groups.values():
            members, ruling = [row for row, _ in group], group[0][1]
            cause = loss_cause(history, ruling, members)
            sentence = (
                f"{plural(len(members), 'record')} {offsets_words(members)} of {history.name}, "
                f"written {epochs_words({row.epoch for row in members})}, "
                f"{plural(len(members), 'was')} read and then vanished: "
                f"{cause_words(cause)}."
            )
            findings.append(
                finding_of_rows(
                    context,
                    history,
                    members,
                    check="dirty-read",
                    classification=ruling.classification,
                    kind="vanished",
                    sentence=sentence,
                    cause=cause,
                    epoch=ruling.cause_epoch,
                    ruling=ruling,
                    evidence=loss_evidence(history, ruling, members),
                    faults=[fault["fault"] for fault in faults_of(history, ruling, members)],
                )
            )
    return findings


FAMILY = Family(
    name="dirty-read",
    find=find,
    flags=(Flag(name="dirty", condition="seen & 1 > 0 and value_seen & 2 = 0", needs_the_end=True),),
)
