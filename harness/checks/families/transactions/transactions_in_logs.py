"""Which transaction of the coordinators' logs is which of the clients': by its id, and by when it began.

A coordinator writes down when a transaction was begun there: when the first partition, or the first group, was added to
it, which its client asked for in its first operation inside.
"""

from collections.abc import Mapping
from typing import TypedDict

from pyspark.sql import functions as sf

from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.kept_logs import LoggedTransaction, Span, logged_transactions, paired
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.schemas import NEVER_BEGUN
from harness.history.schema.typed_rows import typed

Key = tuple[int, int]  # run, transaction


class _FirstRow(TypedDict):
    run: int
    transaction: int
    invoked_ns: int
    completed_ns: int


def key_of(row: TransactionRow) -> Key:
    return row["run"], row["transaction"]


def in_logs(runs: JudgedRuns) -> Mapping[Key, LoggedTransaction]:
    """Those of which it is certain; to be asked for by `runs.once`."""
    logged = logged_transactions(runs.tables)
    if not logged:
        return {}
    first = _first_operations(runs)
    clients: dict[tuple[int, str], list[tuple[Span, TransactionRow]]] = {}
    for row in runs.rows(TRANSACTIONS):
        span = first.get(key_of(row))
        if span is not None and row["transactional_id"] and row["outcome"] != NEVER_BEGUN:
            clients.setdefault((row["run"], row["transactional_id"]), []).append((span, row))
    found: dict[Key, LoggedTransaction] = {}
    for name, theirs in clients.items():
        own = logged.get(name, [])
        begin_is_recorded = all(each.begin_is_recorded for each in own)
        theirs.sort(key=lambda each: each[0])
        spans = [(begin, end if begin_is_recorded else max(end, row["completed_ns"])) for (begin, end), row in theirs]
        places = paired(spans, [each.begun_ns for each in own])
        found |= {key_of(row): own[at] for (_, row), at in zip(theirs, places, strict=True) if at is not None}
    return found


def _first_operations(runs: JudgedRuns) -> Mapping[Key, Span]:
    """When the first send, or the first offsets, of each transaction were asked for and answered."""
    sent = runs.tables.records.where("kind = 0 and transaction is not null")
    began = sent.groupBy("run", "transaction").agg(sf.min(sf.struct("invoked_ns", "completed_ns")).alias("first"))
    rows = typed(_FirstRow, began.select("run", "transaction", "first.invoked_ns", "first.completed_ns").toArrow())
    first = {(row["run"], row["transaction"]): (row["invoked_ns"], row["completed_ns"]) for row in rows}
    for event in runs.group_events():
        if event["transaction"] is not None and event["event"] == "committed":
            key, span = (event["run"], event["transaction"]), (event["invoked_ns"], event["completed_ns"])
            first[key] = min(first.get(key, span), span)
    return first
