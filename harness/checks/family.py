"""A family of checks: what it asks of every record, a query of the tables of all runs, and what it finds in a run.

catalogue.py lists our own; installed packages bring others (docs/extending.md), with stricter rules: they return only
findings of their own checks, and provide the pages of these.
"""

from collections.abc import Callable
from dataclasses import dataclass

from harness.anomalies import Anomaly
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import Query
from harness.checks.spark.fused_query import Flag


def nothing(context: RunContext) -> list[Finding]:
    """For families whose query others use."""
    return []


@dataclass(frozen=True, kw_only=True)
class Family:
    """`find` turns the facts of one run into findings. `query`, if there is one, first queries the tables of all runs;
    its rows are `context.rows[name]`. follows_detection: it uses the result of the fused pass, and runs after it.

    flags: for a family of ours, its conditions in the fused pass; the rows that meet one are
    `context.by_partition(name)`.
    anomalies: for a package's family, the pages of its findings, each named after the family or `name/kind`.
    """

    name: str
    find: Callable[[RunContext], list[Finding]] = nothing
    query: Query | None = None
    follows_detection: bool = False
    flags: tuple[Flag, ...] = ()
    anomalies: tuple[Anomaly, ...] = ()
