"""Phantoms: values read that nobody sent, and values read before they were sent. Nothing permits either.

An invocation is journalled before its records are sent, so a complete journal has everything that was sent. If a
sender's journal is known to be cut short, it is an open question; also if a value comes after the last one of a
producer, in a run that was sealed without knowing the length of its journals.
"""

from typing import TypedDict

from pyspark.sql import functions as sf

from harness.checks.families.evidence.missing import SENDERS, cut_journals
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.judged_runs import JudgedRuns
from harness.checks.spark.detection import Flagged
from harness.checks.spark.fused_query import Flag
from harness.checks.wording.words import offsets_words, plural
from harness.history.facts.values import NAMED_FROM, SEQUENCE_BITS
from harness.history.schema.client_rows import PROCESSES
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "phantom"


class LastSentRow(TypedDict):
    run: int
    process: int
    value: int


ANSWER = RowsOf(CHECK, LastSentRow)


def query(runs: JudgedRuns) -> list[LastSentRow]:
    """The last value that each client sent, for runs with phantoms."""
    flagged = runs.detection.flagged
    found = [{"run": run} for run, rows in flagged.items() if any("phantom" in row.flags for row in rows)]
    if not found:
        return []
    wanted = sf.broadcast(runs.frame(("run",), found))
    sent = runs.tables.records.where(f"kind = 0 and value between 0 and {NAMED_FROM - 1}").join(wanted, "run")
    last = sent.groupBy("run", "process").agg(sf.max("value").alias("value"))
    return typed(LastSentRow, last.toArrow())


def find(context: RunContext) -> list[Finding]:
    findings = []
    for flag, kind, what in (
        ("phantom", "nobody-sent-it", "that nobody sent"),
        ("early", "read-before-sent", "before their send began"),
    ):
        for history, rows in context.by_partition(flag):
            groups: dict[str, list[Flagged]] = {}
            for row in rows:
                groups.setdefault(_unknown_sender(context, row) if flag == "phantom" else "", []).append(row)
            for doubt, members in groups.items():
                values = f"{plural(len(members), 'value')} {plural(len(members), 'was')}"
                remark = f": it is unknown whether they were sent, for {doubt}" if doubt else ""
                sentence = f"{values} read {offsets_words(members)} of {history.name} {what}{remark}."
                findings.append(
                    finding_of_rows(
                        context,
                        history,
                        members,
                        check=CHECK,
                        kind=kind,
                        sentence=sentence,
                        open_question=bool(doubt),
                        classification="observation" if doubt else "violation",
                    )
                )
    return findings


def _unknown_sender(context: RunContext, row: Flagged) -> str:
    """Why it may have been sent after all; empty if it was not."""
    if cut := cut_journals(context, of_senders=True):
        return f"the end of the {'journal' if len(cut) == 1 else 'journals'} of {', '.join(cut)} is missing"
    if not context.journals_may_lack_their_end or not 0 <= row.value < NAMED_FROM:
        return ""
    producer = row.value >> SEQUENCE_BITS
    senders = {each["process"]: each for each in context.tables[PROCESSES] if each["role"] in SENDERS}
    last = max((each["value"] for each in context.rows[ANSWER] if each["process"] == producer), default=-1)
    known = senders.get(producer)
    others = {each["process"] for each in context.tables[PROCESSES]}
    if producer not in others and any(each["journal_complete"] is None for each in senders.values()):
        return f"no client {producer} is known, and it may have begun behind the end of a journal that was cut"
    if known is None or known["journal_complete"] is not None or last < 0 or row.value <= last:
        return ""
    return f"they go on after the last that {known['client']} is known to have sent, and its journal may lack its end"


FAMILY = Family(
    name=CHECK,
    find=find,
    query=query,
    follows_detection=True,
    flags=(
        Flag(name="phantom", condition="value_status is null and seen > 0", needs_a_ruling=False),
        Flag(name="early", condition="seen > 0 and first_read_ns < value_invoked_ns", needs_a_ruling=False),
    ),
)
