"""The version order of every key: which value lies at which offset, and at which index once gaps are closed.

Offsets are learnt from all polls, whatever became of them, and from the sends that must have been committed: those of
an ok operation, or of an info operation one of whose values an ok poll read. Where several values share an offset the
order keeps the least number, which the import gives to the one that Clojure's sets give out first. Rows are records,
never offsets: a log with two records at 0 and 30,000,000 has two rows.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from harness.checks.jepsen.staging import Staging

_PROVEN = """
select distinct s.run, s.op
from {records} s left semi join (select run, tp, value from {records} where kind = 1 and status = 0) r
  on s.run = r.run and s.tp = r.tp and s.value = r.value
where s.kind = 0 and s.status = 2
"""

_LOG = """
with seen as (
  select distinct r.run, r.tp, r.off, r.value
  from {records} r left join {proven} p on r.run = p.run and r.op = p.op
  where r.off is not null and (r.kind in (1, 11) or r.status = 0 or p.op is not null)
)
select *, dense_rank() over (partition by run, tp order by off) - 1 as index,
  count(*) over (partition by run, tp, off) as values_at, min(value) over (partition by run, tp, off) as picked,
  count(*) over (partition by run, tp, value) as offsets
from seen
"""

_ORDERS = "select run, tp, index, value from {log} where value = picked"


@dataclass(frozen=True, kw_only=True)
class VersionOrders:
    """log: run, tp, off, index, value, values_at (how many share the offset), picked, offsets (of the value).

    orders: run, tp, index, value: one value per index. proven: run, op of the info operations that must have been
    committed.
    """

    log: DataFrame
    orders: DataFrame
    proven: DataFrame


def version_orders(spark: SparkSession, records: DataFrame, staging: Staging) -> VersionOrders:
    """records: run, op, kind, status, tp, off, value of completed operations."""
    proven = staging.staged("proven", spark.sql(_PROVEN, records=records))
    log = staging.staged("log", spark.sql(_LOG, records=records, proven=proven))
    return VersionOrders(log=log, orders=spark.sql(_ORDERS, log=log), proven=proven)
