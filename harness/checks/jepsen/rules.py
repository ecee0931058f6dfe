"""Jepsen's log anomalies, a few queries over the stages. The rows of all are fetched at once, few as they are.

A query gives a subset of `COLUMNS`. EXCUSED stands for what our own answer takes back from Jepsen's (jepsen.md 1.6): a
value that an aborted poll saw is neither lost nor unseen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.checks.jepsen.version_orders import VersionOrders
from harness.checks.jepsen.walks import Walks

# i: place in the operation; i_first: where its key first stands there. at, at2: indexes. number: any further number.
COLUMNS = ("run", "tp", "op", "op2", "process", "kind", "i", "i_first", "value", "value2", "off", "at", "at2", "number")

# The bits of `number` in rows of the rule "value".
LOST, UNSEEN, PHANTOM, EARLY, ONLY_ABORTED, NO_OFFSET, UNREAD_TAIL, NO_WRITER = (1 << bit for bit in range(8))
# The bits of `number` in rows of the rule "read".
ABORTED, OWN, IN_OK = 1, 2, 4

_RULES: Mapping[str, str] = {
    "inconsistent-offsets": "select run, tp, off, index as at, value from {log} where values_at > 1",
    "duplicate": "select run, tp, off, index as at, value from {log} where offsets > 1",
    # How many values each key's log has; which keys have one at all, and how far ok polls got.
    "key": "select run, tp, count(distinct value) as number from {log} group by run, tp",
    "bound": "select run, tp, max(if(read_ok, first_at, null)) as number from {values} group by run, tp",
    "reader": """
        select v.run, v.tp, min_by(v.first_reader, v.value) as op
        from {values} v join (
          select run, tp, max(if(read_ok, first_at, null)) as bound from {values} group by run, tp
        ) b on v.run = b.run and v.tp = b.tp and v.last_at = b.bound
        group by v.run, v.tp""",
    "value": """
        with judged as (
          select v.*, b.bound,
            if(last_at <= b.bound and not read_ok and committed and not (EXCUSED), 1, 0)
            + if(acked and not read_ok and not (EXCUSED), 2, 0)
            + if(read_any and writer is null, 4, 0)
            + if(first_reader < invoked, 8, 0)
            + if(acked and not read_ok and read_any, 16, 0)
            + if(acked and not read_any and ack_off is null, 32, 0)
            + if(acked and not read_any and ack_off is not null and coalesce(last_at > b.bound, true), 64, 0)
            + if(last_at <= b.bound and not read_ok and writer is null, 128, 0) as bits
          from {values} v join (
            select run, tp, max(if(read_ok, first_at, null)) as bound from {values} group by run, tp
          ) b on v.run = b.run and v.tp = b.tp
        )
        select run, tp, value, writer as op, first_reader as op2, ack_off as off, first_at as at, last_at as at2,
          bits as number
        from judged where bits > 0""",
    "read": """
        select run, tp, op, kind, i, i_first, value, writer as op2, sent_first as at,
          if(aborted, 1, 0) + if(own, 2, 0) + if(status = 0, 4, 0) as number
        from {steps} where aborted or own""",
    # The senders of values that several operations sent.
    "writer": """
        select r.run, r.tp, r.op, r.value from {records} r left semi join (
          select run, tp, value from {values} where first_writer < writer
        ) v on r.run = v.run and r.tp = v.tp and r.value = v.value
        where r.kind = 0""",
    "inside": """
        select run, tp, op, kind, i, i_first, value_before as value, value as value2, at_before as at2, at
        from {steps} where at - at_before <> 1 and not (kind = 1 and moved)""",
    "between": """
        select run, tp, process, op, op2, kind, i_first, value2 as value, value as value2, at2, at
        from {out_of_order}""",
    # What lies in the gaps that were jumped over.
    "value-at": """
        with gaps as (
          select run, tp, at2 + 1 as low, at - 1 as high from {out_of_order} where kind = 1 and at - at2 > 1
          union all
          select run, tp, at_before + 1, at - 1 from {steps} where at - at_before > 1 and not (kind = 1 and moved)
        ), wanted as (
          select distinct run, tp, explode(sequence(low, high)) as index from gaps
        )
        select o.run, o.tp, o.index as at, o.value
        from {orders} o join wanted w on o.run = w.run and o.tp = w.tp and o.index = w.index""",
}


@dataclass(frozen=True, kw_only=True)
class Stages:
    """What the queries look at."""

    records: DataFrame
    ops: DataFrame
    keys: DataFrame
    versions: VersionOrders
    values: DataFrame
    walks: Walks

    def named(self) -> dict[str, DataFrame]:
        return {
            "records": self.records, "ops": self.ops, "keys": self.keys, "log": self.versions.log,
            "orders": self.versions.orders, "values": self.values, "steps": self.walks.steps,
            "walk": self.walks.walk, "out_of_order": self.walks.out_of_order,
        }  # fmt: skip


def rows_of(spark: SparkSession, stages: Stages, queries: Mapping[str, str]) -> DataFrame:
    """The rows of all queries under one another, `rule` naming the query."""
    named = stages.named()
    parts = []
    for rule, query in queries.items():
        used: dict[str, Any] = {name: frame for name, frame in named.items() if f"{{{name}}}" in query}
        found = spark.sql(query, **used)
        columns = [
            (sf.col(name) if name in found.columns else sf.lit(None)).cast("bigint").alias(name) for name in COLUMNS
        ]
        parts.append(found.select(sf.lit(rule).alias("rule"), *columns))
    return reduce(DataFrame.union, parts)


def jepsen_queries(*, compatible: bool) -> dict[str, str]:
    excused = "false" if compatible else "v.read_any"
    return {rule: query.replace("EXCUSED", excused) for rule, query in _RULES.items()}
