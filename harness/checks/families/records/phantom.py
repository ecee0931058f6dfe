"""Phantoms: values read that nobody sent, and values read before they were sent. Nothing permits either.

An invocation is journalled before its records are sent, so a complete journal has everything that was sent. If a
sender's journal is known to be cut short, it is an open question; also if a value comes after the last one of a
producer, in a run that was sealed without knowing the length of its journals. An application may have producers that
nobody recorded: a value that no recorded client sent anywhere may be one of theirs.
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


class SentRow(TypedDict):
    run: int
    process: int
    value: int


ANSWER = RowsOf(CHECK, SentRow)


def query(runs: JudgedRuns) -> list[SentRow]:
    """Of runs with phantoms: the last value that each client sent, and who sent the phantoms' values elsewhere."""
    flagged = runs.detection.flagged
    found = {(run, row.value) for run, rows in flagged.items() for row in rows if "phantom" in row.flags}
    if not found:
        return []
    values = [{"run": run, "value": value} for run, value in sorted(found)]
    wanted = sf.broadcast(runs.frame(("run",), [{"run": run} for run in sorted({run for run, _ in found})]))
    sent = runs.tables.records.where("kind = 0").join(wanted, "run")
    numbered = sent.where(f"value between 0 and {NAMED_FROM - 1}")
    last = numbered.groupBy("run", "process").agg(sf.max("value").alias("value"))
    elsewhere = sent.join(sf.broadcast(runs.frame(("run", "value"), values)), ["run", "value"])
    return typed(SentRow, last.union(elsewhere.select("run", "process", "value").distinct()).toArrow())


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
    scenario = context.history.scenario
    if scenario is not None and scenario.is_an_applications and not _was_sent(context, row):
        return "the application may have a producer that nobody recorded"
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


def _was_sent(context: RunContext, row: Flagged) -> bool:
    """To another partition, since it is a phantom where it was read."""
    return any(each["value"] == row.value for each in context.rows[ANSWER])


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
