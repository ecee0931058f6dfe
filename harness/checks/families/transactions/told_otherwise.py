"""Transactions of which clients were told otherwise than what was decided (KIP-98): the coordinators' logs say.

A coordinator answers EndTxn after its decision is in its log on all in-sync replicas, and a decision is never taken
back: every partition gets the marker that it names. So who was told "committed" has PrepareCommit in the transactions'
log and a commit marker behind its offsets; who aborted, or never asked for a commit, has neither. Only what the kept
logs hold counts; what is not there may have been compacted, or not have been kept.
"""

from collections.abc import Sequence

from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt
from harness.checks.families.groups import offsets_in_logs
from harness.checks.families.transactions import transactions_in_logs
from harness.checks.families.transactions.transactions_in_logs import Key, key_of
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.facts.internal_topics import COORDINATORS_TOPICS, GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK
from harness.history.schema.typed_rows import RowsOf

CHECK = "transaction-outcome"
_WORDS = {"told-committed": ("committed", "aborted"), "told-aborted": ("aborted", "committed")}


class ToldOtherwiseRow(TransactionRow):
    """log: the internal topic that says otherwise, since decided_ns by its broker's clock. group, topic, partition,
    offset: in the log of offsets, the first of those that were sent to it."""

    log: str
    decided_ns: int | None
    topic: str | None
    partition: int | None
    offset: int | None


ANSWER = RowsOf(CHECK, ToldOtherwiseRow)


def query(runs: JudgedRuns) -> list[ToldOtherwiseRow]:
    """Of each transaction and log at most one. The logs hold few transactions: no Spark job if they were not kept."""
    answered = {key_of(row): row for row in runs.rows(TRANSACTIONS) if row["outcome"] in (STATUS_OK, STATUS_FAIL)}
    found: dict[tuple[Key, str], ToldOtherwiseRow] = {}
    for key, transaction in runs.once(transactions_in_logs.in_logs).items():
        row = answered.get(key)
        if row is not None and transaction.commits not in (None, row["outcome"] == STATUS_OK):
            found[key, TRANSACTIONS_TOPIC] = {
                **row,
                "log": TRANSACTIONS_TOPIC,
                "decided_ns": transaction.decided_ns,
                "topic": None,
                "partition": None,
                "offset": None,
            }
    offsets = runs.once(offsets_in_logs.in_logs)
    for event in runs.group_events() if offsets else ():
        offset, number = event["offset"], event["transaction"]
        row = None if number is None else answered.get((event["run"], number))
        if row is None or offset is None or event["event"] != "committed":
            continue
        record = offsets.get(offsets_in_logs.place_of(event, offset))
        if record is not None and record.commits not in (None, row["outcome"] == STATUS_OK):
            own: ToldOtherwiseRow = {
                **row,
                "log": GROUP_OFFSETS_TOPIC,
                "decided_ns": record.marked_ns,
                "group": event["group"],
                "topic": event["topic"],
                "partition": event["partition"],
                "offset": offset,
            }
            found.setdefault((key_of(row), GROUP_OFFSETS_TOPIC), own)
    return list(found.values())


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[str, str, Class, Cause], list[ToldOtherwiseRow]] = {}
    for row in sorted(context.rows[ANSWER], key=lambda row: row["invoked_ns"]):
        kind = "told-committed" if row["outcome"] == STATUS_OK else "told-aborted"
        groups.setdefault((kind, row["log"], *_ruled(context, row)), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: group[0][:3])
    return [_finding(context, key[0], key[1], key[2:], rows) for key, rows in ordered]


def _ruled(context: RunContext, row: ToldOtherwiseRow) -> tuple[Class, Cause]:
    """What was decided may lawfully be gone with the log that held it, and have been decided anew."""
    history, since_ns = context.history, row["invoked_ns"]
    topics = (None, *COORDINATORS_TOPICS)
    if any(loss.time_ns >= since_ns and loss.event.topic in topics for loss in history.disk_losses):
        return "observation", Cause(code="decision-on-a-lost-disk", doubt=Doubt(code="decision-on-a-lost-disk"))
    struck = any(
        fault["begin_ns"] is not None and (fault["end_ns"] or since_ns) >= since_ns for fault in history.faults
    )
    if history.unclean_transactions is not False and struck:
        return "observation", Cause(code="decision-elected-uncleanly", doubt=Doubt(code="decision-elected-uncleanly"))
    return "violation", NOTHING_PERMITS_IT


def _finding(
    context: RunContext, kind: str, log: str, ruled: tuple[Class, Cause], rows: Sequence[ToldOtherwiseRow]
) -> Finding:
    classification, cause = ruled
    first = rows[0]
    said, decided = _WORDS[kind]
    sentence = (
        f"Clients were told that {plural(len(rows), 'transaction')} {plural(len(rows), 'was')} {said}, and {log} says "
        f"{decided} (first transaction {first['transaction']} of process {first['process']}, "
        f"{context.history.seconds(first['completed_ns'])}): {cause_words(cause)}."
    )
    one = {(row["topic"], row["partition"]) for row in rows}
    topic, partition = next(iter(one)) if len(one) == 1 else (None, None)
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=kind,
        topic=topic,
        partition=partition,
        count=len(rows),
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        offsets=[row["offset"] for row in rows if row["offset"] is not None],
        first_ns=first["invoked_ns"],
        last_ns=rows[-1]["completed_ns"],
        evidence={
            "log": log,
            "group": first["group"] if log == GROUP_OFFSETS_TOPIC else None,
            "transactions": [
                {
                    "transaction": row["transaction"],
                    "process": row["process"],
                    "error": row["error"],
                    "decided_t_ns": row["decided_ns"],
                    "offset": row["offset"],
                }
                for row in rows[:20]
            ],
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query)
