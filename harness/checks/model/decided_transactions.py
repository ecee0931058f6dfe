"""What the transaction coordinator decided, where a client was not told what became of its transaction.

The coordinator's log has the decision (KIP-98): PrepareCommit or PrepareAbort, and Complete... once every marker was
written. So a transaction of unknown outcome is known after all if one transaction of its id is complete in that log
that can be no other: it began there while this one ran, and while no other of the id did. What is said of committed and
of aborted transactions is said of such ones, too.

Not believed where the log may have lost a decision: after any loss of a disk, and where unclean elections of its
partition may have been allowed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypedDict

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.checks.model.kept_logs import LoggedTransaction, logged_transactions
from harness.checks.model.settings import SettingsOverTime
from harness.checks.model.unclean_rules import UncleanRules
from harness.checks.spark.tables import Small, Tables, small_frame, small_table
from harness.history.facts.internal_topics import CLOCKS_APART_NS, TRANSACTIONS_TOPIC
from harness.history.schema.client_rows import GROUP_EVENTS, TRANSACTIONS, GroupEventRow, TransactionRow
from harness.history.schema.cluster_rows import CONFIGURATION, CONTROLLERS, DISK_EVENTS, FAULTS, STEPS
from harness.history.schema.internal_rows import TRANSACTION_STATE
from harness.history.schema.schemas import KIND_SEND, STATUS_FAIL, STATUS_INFO, STATUS_OK, TABLES
from harness.scenario.model import Scenario

_DECIDED = ("run", "transaction", "decided")
Logged = Callable[[], Mapping[tuple[int, str], Sequence[LoggedTransaction]]]


class _DecidedRow(TypedDict):
    run: int
    transaction: int
    decided: int


def with_decisions(spark: SparkSession, tables: Tables, scenarios: Sequence[Scenario | None]) -> Tables:
    """The same tables, in which the outcomes are known that only the coordinator's log tells."""

    @cache
    def decided() -> Mapping[tuple[int, int], int]:
        logged = cache(lambda: logged_transactions(tables))
        return {
            (run, each): outcome
            for run, scenario in enumerate(scenarios)
            for each, outcome in _decided(tables, run, scenario, logged)
        }

    def outcome(row: TransactionRow | GroupEventRow, otherwise: int) -> int:
        number = row["transaction"]
        return otherwise if number is None else decided().get((row["run"], number), otherwise)

    @cache
    def read_small() -> Small:
        read = tables.read_small()
        if not decided():
            return read
        return {
            **read,
            GROUP_EVENTS.name: {
                run: [{**row, "status": outcome(row, row["status"])} for row in rows]
                for run, rows in tables.by_run(GROUP_EVENTS).items()
            },
            TRANSACTIONS.name: {
                run: [{**row, "outcome": outcome(row, row["outcome"])} for row in rows]
                for run, rows in tables.by_run(TRANSACTIONS).items()
            },
        }

    @cache
    def large(name: str) -> DataFrame:
        found = tables.large(name)
        return _by_decision(spark, found, decided()) if name == "records" and decided() else found

    def batches(name: str, columns: Sequence[str], only: pc.Expression | None) -> Iterable[pa.Table]:
        if name != "records" or not decided():
            return tables.batches(name, columns, only)
        known = small_table(_DECIDED, _rows_of(decided()))
        whole = tables.batches(name, TABLES[name].names, None)
        return (_with_decisions(batch, known, only).select(columns) for batch in whole)

    return replace(tables, large=large, batches=batches, read_small=read_small)


def _rows_of(decided: Mapping[tuple[int, int], int]) -> list[_DecidedRow]:
    return [
        {"run": run, "transaction": number, "decided": outcome} for (run, number), outcome in sorted(decided.items())
    ]


def _with_decisions(records: pa.Table, known: pa.Table, only: pc.Expression | None) -> pa.Table:
    """What `_by_decision` says, of some records in this process."""
    rows = records.join(known, ["run", "transaction"], join_type="left outer")
    decided = rows.column("decided")
    is_answered = pc.or_(pc.equal(pc.fill_null(decided, STATUS_INFO), STATUS_FAIL), rows.column("offset").is_valid())
    decides = pc.and_(pc.and_(pc.equal(rows.column("kind"), KIND_SEND), decided.is_valid()), is_answered)
    place = rows.column_names.index("status")
    rows = rows.set_column(place, "status", pc.if_else(decides, decided, rows.column("status")))
    return rows if only is None else rows.filter(only)


def _by_decision(spark: SparkSession, records: DataFrame, decided: Mapping[tuple[int, int], int]) -> DataFrame:
    """Of a committed transaction only what was answered with an offset is taken to be in it."""
    known = small_frame(spark, _DECIDED, _rows_of(decided))
    decides = f"kind = {KIND_SEND} and decided is not null and (decided = {STATUS_FAIL} or offset is not null)"
    return (
        records.join(sf.broadcast(known), ["run", "transaction"], "left")
        .withColumn("status", sf.expr(f"if({decides}, decided, status)"))
        .select(*records.columns)
    )


def _decided(tables: Tables, run: int, scenario: Scenario | None, logged: Logged) -> Iterator[tuple[int, int]]:
    """(transaction, outcome) of those whose clients do not know it."""
    transactions = tables.rows(TRANSACTIONS, run)
    unknown = [row for row in transactions if row["outcome"] == STATUS_INFO and row["transactional_id"]]
    log = tables.rows(TRANSACTION_STATE, run)
    if not unknown or not log or _may_have_lost_decisions(tables, run, scenario):
        return
    by_id: dict[str, list[TransactionRow]] = {}
    for row in transactions:
        by_id.setdefault(row["transactional_id"] or "", []).append(row)
    for row in unknown:
        name = row["transactional_id"] or ""
        whole = [each for each in logged().get((run, name), ()) if each.is_whole]
        own = [each for each in whole if _concerned(each, by_id[name]) == [row]]
        if len(own) == 1:
            yield row["transaction"], STATUS_OK if own[0].commits else STATUS_FAIL


def _concerned(logged: LoggedTransaction, transactions: Sequence[TransactionRow]) -> list[TransactionRow]:
    """Those of its id that it may be."""
    return [
        row
        for row in transactions
        if row["invoked_ns"] - CLOCKS_APART_NS <= logged.begun_ns <= row["completed_ns"] + CLOCKS_APART_NS
    ]


def _may_have_lost_decisions(tables: Tables, run: int, scenario: Scenario | None) -> bool:
    if scenario is None or scenario.cluster.is_foreign or tables.rows(DISK_EVENTS, run):
        return True
    settings = SettingsOverTime(tables.rows(CONFIGURATION, run), scenario)
    faults = tables.rows(FAULTS, run)
    rules = UncleanRules(settings, tables.rows(STEPS, run), scenario, tables.rows(CONTROLLERS, run), faults)
    return rules.ever(TRANSACTIONS_TOPIC) is not False
