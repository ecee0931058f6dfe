"""What became of every value: one row per (run, tp, value)."""

from pyspark.sql import DataFrame, SparkSession

from harness.checks.jepsen.staging import Staging
from harness.checks.jepsen.version_orders import VersionOrders

_VALUES = """
with folded as (
  select run, tp, value,
    max(op) filter (where kind = 0) as writer, max_by(status, op) filter (where kind = 0) as writer_status,
    min(op) filter (where kind = 0) as first_writer,
    bool_or(kind = 0 and status = 1) as failed, bool_or(kind = 0 and status = 0) as acked,
    max(off) filter (where kind = 0 and status = 0) as ack_off, min(i0) filter (where kind = 0) as invoked,
    bool_or(kind = 1 and status = 0) as read_ok, bool_or(kind = 1) as read_any,
    min(op) filter (where kind = 1) as first_reader
  from {records} where kind in (0, 1) group by run, tp, value
), places as (
  select run, tp, value, max(if(value = picked, index, null)) as at, min(index) as first_at, max(index) as last_at
  from {log} group by run, tp, value
)
select v.run, tp, value, writer, writer_status, first_writer, coalesce(failed, false) as failed,
  coalesce(acked, false) as acked, ack_off, invoked, coalesce(read_ok, false) as read_ok,
  coalesce(read_any, false) as read_any, first_reader, at, first_at, last_at,
  coalesce(writer_status = 0 or writer_status = 2 and p.op is not null, false) as committed
from (select * from folded full join places using (run, tp, value)) v
left join {proven} p on v.run = p.run and v.writer = p.op
"""


def fold_values(spark: SparkSession, records: DataFrame, versions: VersionOrders, staging: Staging) -> DataFrame:
    """writer: the last completed send, `committed` if its operation must have been; first_writer.

    invoked: event index of the first send's invocation. at: the last index where the order keeps the value; first_at,
    last_at: where the log has it. read_ok: by an ok poll; read_any: by any; first_reader: the first of any.
    """
    return staging.staged("values", spark.sql(_VALUES, records=records, log=versions.log, proven=versions.proven))
