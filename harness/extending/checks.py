"""For a check: entry point `kafka_chaos.checks`, a Family. Imports pyspark: only judging imports a check.

Of JudgedRuns: `tables.records`, `tables.replica_log`, `rows(table)`, `processes()`, `any_was(mark)`, `frame(columns,
rows)`, `spark`. Of RunContext: `run`, `rows[RowsOf(name, type)]`, `partition(partition_id)`, `history.scenario`,
`history.seconds(t_ns)`. Of a partition's history: `topic`, `partition`, `name`, `replicas`, `read_to_end`. The columns
of the tables are those of `TABLES`, which a run folder's schema version numbers.
"""

from harness.anomalies import Anomaly
from harness.checks.contract.rulings import OtherCause
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, by_run
from harness.history.facts.finding_facts import Setting
from harness.history.schema.schemas import TABLES
from harness.history.schema.typed_rows import RowsOf, typed

__all__ = [
    "TABLES",
    "Anomaly",
    "Family",
    "Finding",
    "JudgedRuns",
    "OtherCause",
    "RowsOf",
    "RunContext",
    "Setting",
    "by_run",
    "typed",
]
