"""The order in which operations read and wrote: inside one operation, and from one operation of a process to the next.

`steps`: a record and the one before it of the same key in the same operation. `walk`: the first record that an
operation reads (or sends) of a key against the last one of the operation before it that did. An assign or subscribe
forgets the keys it does not name; polls move a process's place only when ok, sends also when nobody knows.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from harness.checks.jepsen.staging import Staging

# Only what can matter is kept: the ends of each operation's records of a key, steps other than to the next index, and
# reads of a value that was aborted, or that the operation itself may have sent (from its first writer to its last).
_STEPS = """
with indexed as (
  select /*+ REPARTITION(run, op, tp) */ r.run, r.op, r.process, r.status, r.kind, r.tp, r.i, r.value, r.moved,
    v.at, v.writer,
    r.kind = 1 and v.failed as aborted, r.kind = 1 and coalesce(r.op between v.first_writer and v.writer, false) as own
  from {records} r left join {values} v on r.run = v.run and r.tp = v.tp and r.value = v.value
  where r.kind in (0, 1)
), lined as (
  select *, lag(i) over w as i_before, lag(at) over w as at_before, lag(value) over w as value_before,
    lead(i) over w as i_after, min(i) over (partition by run, op, tp, kind) as i_first,
    min(if(kind = 0, i, null)) over (partition by run, op, tp) as sent_first
  from indexed window w as (partition by run, op, tp, kind order by i)
)
select * from lined where i_before is null or i_after is null or at - at_before <> 1 or aborted or own
"""

_WALK = """
with moments as (
  select run, process, op, tp, kind, status, max(if(i_before is null, at, null)) as first_at,
    max(if(i_before is null, value, null)) as first_value, max(if(i_after is null, at, null)) as last_at,
    max(if(i_after is null, value, null)) as last_value, min(i_first) as i_first, '' as what
  from {steps} group by run, process, op, tp, kind, status
  union all
  select run, process, op, tp, 1, if(what = 'read_nothing', status, null), null, null, null, null, null, what
  from {keys} where what <> 'end' and (what <> 'assigned' and what <> 'sought' or status <> 1)
  union all
  select run, process, op, null, null, null, null, null, null, null, null, 'reset'
  from {ops} where f in ('assign', 'subscribe') and status <> 1 and i1 is not null
), counted as (
  select *, count_if(what = 'reset') over (
    partition by run, process order by op range between unbounded preceding and 1 preceding) as resets
  from moments
), placed as (
  select *,
    resets - count_if(what = 'assigned') over (
      partition by run, process, tp order by op range between unbounded preceding and 1 preceding)
    + count_if(what = 'sought' and SEEKS) over until_now as epoch,
    count_if(what = 'rebalanced') over until_now as moves,
    coalesce(max(if(what = 'left', op, null)) over until_now = op, false) as gone
  from counted where tp is not null
  window until_now as (
    partition by run, process, tp order by op range between unbounded preceding and current row)
)
select *,
  last(if(status = 0 or kind = 0 and status = 2,
    named_struct('op', op, 'at', last_at, 'value', last_value, 'moves', moves, 'gone', gone), null), true)
    over before as prior,
  last(if(status = 0 and last_value is not null, op, null), true) over before as read_before,
  last(if(what = 'assigned', op, null), true) over before as assigned,
  last(if(what = 'direct', op, null), true) over before as direct,
  last(if(what = 'sought', op, null), true) over before as sought
from placed
window before as (
  partition by run, process, tp, kind, epoch order by op, what desc
  rows between unbounded preceding and 1 preceding)
"""

_OUT_OF_ORDER = """
select run, process, op, tp, kind, i_first, first_at as at, first_value as value, prior.op as op2, prior.at as at2,
  prior.value as value2
from {walk}
where prior is not null and (kind = 1 and first_at - prior.at <> 1
    and not (LENIENT and (moves > prior.moves or prior.gone))
  or kind = 0 and status <> 1 and first_at - prior.at < 1)
"""


@dataclass(frozen=True, kw_only=True)
class Walks:
    """steps: of a record in its operation. walk: every first record, with what came before. out_of_order: of these."""

    steps: DataFrame
    walk: DataFrame
    out_of_order: DataFrame


def walks(
    spark: SparkSession, staging: Staging, *, records: DataFrame, ops: DataFrame, keys: DataFrame, values: DataFrame,
    lenient: bool,
) -> Walks:  # fmt: skip
    """lenient: a seek to the beginning and a rebalance that moved the key excuse what follows (Jepsen: neither)."""
    excuse = "true" if lenient else "false"
    steps = staging.staged("steps", spark.sql(_STEPS, records=records, values=values))
    walk = spark.sql(_WALK.replace("SEEKS", excuse), steps=steps, keys=keys, ops=ops)
    if lenient:  # looked at twice
        walk = staging.staged("walk", walk.where("status is not null"))
    out_of_order = spark.sql(_OUT_OF_ORDER.replace("LENIENT", excuse), walk=walk)
    return Walks(steps=steps, walk=walk, out_of_order=staging.staged("out_of_order", out_of_order))
