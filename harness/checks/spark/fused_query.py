"""The text of the fused pass (detection.py): one query over the records, the same for Spark and for DuckDB."""

from collections.abc import Mapping
from typing import TypedDict

from pyspark.sql import DataFrame, SparkSession

# Whether an acknowledged, missing value was lost, or only not read that far, depends on the ends of the final reads:
# the driver decides it (detection.py), from the accounting's lines and the table of partitions.
CONDITIONS: Mapping[str, str] = {
    "gone": "acked and v_seen & 2 = 0",
    "dirty": "seen & 1 > 0 and v_seen & 2 = 0",
    "duplicate": "v_offsets > 1 and offset is not null",
    "conflict": "offset is not null and at_offset > 1",
    "aborted": "v_status = 1 and seen > 0",
    "phantom": "v_status is null and seen > 0",
    "early": "seen > 0 and r_first < v_t0",
    "send_order": "acked and offset is not null and since_above < s_place",
    "regression": "acked and offset is not null and acked_above < s_t0",
    "back_inside": "step_lo < 1",
    "back_between": "jump_lo < 1",
    "skip_inside": "step_hi > 1 and offset - step_hi < final_below",
    "skip_between": "jump_hi > 1 and offset - jump_hi < final_below",
    # Not a finding by itself: only such a value can be on a cycle of operations outside transactions (cycles/). It was
    # read or acknowledged before a record at or below it in the log had begun, or shares its offset with another.
    "backward": """v_first_read < v_t0 or seen & 2 > 0 and (at_offset > 1 or v_first_read < begun_below
        or v_status = 0 and coalesce(v_acks, -1) <> 0 and v_t1 < begun_below)""",
}
BITS = {name: 1 << place for place, name in enumerate(CONDITIONS)}
_FLAG_BITS = " | ".join(f"if(coalesce({condition}, false), {BITS[name]}, 0)" for name, condition in CONDITIONS.items())
_OF_ROW = (
    "run",
    "partition_id",
    "value",
    "offset",
    "v_status",
    "v_acks",
    "v_ack",
    *(
        f"coalesce(if(acked or answered, s_{name}, null), v_{name}) as own_{name}"
        for name in ("acks", "process", "op", "t0", "t1")
    ),
    "answered",
    "seen",
    "v_seen",
    "v_finals",
    "r_epoch",
    "r_first",
    "r_last",
    "step_lo",
    "step_hi",
    "jump_lo",
    "jump_hi",
    "acked_all_above",
    "coalesce(seen & 2 > 0 and kept_above < s_t0, false) as above_kept",
    "coalesce(seen & 2 > 0 and kept_since_above < s_place, false) as overtook_kept",
    "coalesce(seen & 2 > 0 and kept_over_above < s_t0, false) as overtook_in_order",
    "coalesce(gone_since_above < s_place, false) as overtook_gone",
)


class FoldedRow(TypedDict):
    """A row of the query's result."""

    run: int
    partition_id: int
    value: int
    offset: int | None
    v_status: int | None
    v_acks: int | None
    v_ack: int | None
    own_acks: int | None
    own_process: int | None
    own_op: int | None
    own_t0: int | None
    own_t1: int | None
    answered: bool
    seen: int
    v_seen: int
    v_finals: int
    r_epoch: int | None
    r_first: int | None
    r_last: int | None
    step_lo: int | None
    step_hi: int | None
    jump_lo: int | None
    jump_hi: int | None
    acked_all_above: int | None
    above_kept: bool
    overtook_kept: bool
    overtook_in_order: bool
    overtook_gone: bool
    flags: int
    accounts: bool
    a_count: int
    a_duplicates: int
    a_read: int
    a_end: int | None
    a_restamped: int
    a_step: int | None


# When a send was called, and from when on a call comes after it, as far as that was recorded. Records of one operation
# may share their time, so each stands a nanosecond behind the one before.
CALLED = "invoked_ns + if(returned_ns is null, position, 0)"
OVER = "least(completed_ns, coalesce(returned_ns, invoked_ns + position))"
OVER_FOR_CERTAIN = "least(completed_ns, returned_ns)"

# One row per (run, partition_id, value, offset), with what is known of the value as a whole beside it (v_...), and what
# lies around it in its partition's log and in its sender's order. s_since: a send whose s_place is behind it comes
# after it, if not for certain (sends.py), then where one task made both calls. A value that was sent more than once is
# one record; own_...: of the send that was answered with the row's offset, else of the first. answered: so also in a
# transaction that was not committed. The status of a refusal
# is 3 until it is v_status, since every other answer says more. `a_...`: the line of the accounting that its value is
# in, on one of the rows (`accounts`); a_restamped: a value of it was seen with two timestamps; a_step: the longest step
# within a poll onto one of its rows. What leaves are the rows with a flag, and one row for each line. Both engines of
# benchmarks/check_history.py run this text.
QUERY = f"""
with said as (
  select run, partition_id, value, offset,
    if(kind = 0, if(status = 1, 3, status), null) as status, if(kind = 0, acks, null) as s_acks,
    if(kind = 0, operation, null) as s_op,
    if(kind = 0, process, null) as s_process, if(kind = 0, invoked_ns, null) as s_t0,
    if(kind = 0, completed_ns, null) as s_t1,
    if(kind = 0, {CALLED}, null) as s_place, if(kind = 0, {OVER}, null) as s_since,
    if(kind = 0, {OVER_FOR_CERTAIN}, null) as s_over,
    case when kind = 1 then 1 when kind = 2 and replica is null then 2 when kind = 2 then 4 else 0 end as seen,
    if(kind > 0, leader_epoch, null) as r_epoch, if(kind > 0, completed_ns, null) as r_first,
    if(kind = 1, invoked_ns, null) as r_begun, if(kind > 0, offset_step, null) as offset_step,
    cast(null as bigint) as jump, if(kind = 0 and acks = 0, null, timestamp_ms) as ms
  from {{records}}
  union all
  select run, partition_id, value, offset, null, null, null, null, null, null, null, null, null, 0, null, null, null,
    null, jump, null
  from {{jumps}}
), folded as (
  select run, partition_id, value, offset, min(status) as status, min(s_acks) as s_acks, min(s_op) as s_op,
    min(s_process) as s_process, min(s_t0) as s_t0, min(s_t1) as s_t1, min(s_place) as s_place,
    min(s_since) as s_since, min(s_over) as s_over, bit_or(seen) as seen,
    max(r_epoch) as r_epoch, min(r_first) as r_first, max(r_begun) as r_last,
    min(offset_step) as step_lo, max(offset_step) as step_hi, min(jump) as jump_lo, max(jump) as jump_hi,
    min(ms) as ms_low, max(ms) as ms_high
  from said group by run, partition_id, value, offset
), spread as (
  -- acks=0 promises nothing, even if a client calls it a success.
  select /*+ REPARTITION(run, partition_id) */ *,
    coalesce(status = 0 and coalesce(s_acks, -1) <> 0, false) as acked,
    coalesce(status is not null and offset is not null and coalesce(s_acks, -1) <> 0, false) as answered
  from folded
), of_value as (
  select *,
    if(min(status) over v = 3, 1, min(status) over v) as v_status, min(s_acks) over v as v_acks,
    min(s_t0) over v as v_t0, min(s_t1) over v as v_t1,
    max(if(acked, offset, null)) over v as v_ack, min(s_op) over v as v_op, min(s_process) over v as v_process,
    min(r_first) over v as v_first_read,
    bit_or(seen) over v as v_seen, count(offset) over v as v_offsets, sum(if(seen & 2 > 0, 1, 0)) over v as v_finals,
    if(count(*) over v > count(offset) over v, offset is null, offset = min(offset) over v) as v_first,
    coalesce(min(ms_low) over v <> max(ms_high) over v, false) as v_restamped
  from spread
  window v as (partition by run, partition_id, value)
), around as (
  select *,
    max(if(seen & 2 > 0, offset, null)) over (
      partition by run, partition_id order by offset range between unbounded preceding and 1 preceding) as final_below,
    count(offset) over (
      partition by run, partition_id order by offset range between current row and current row) as at_offset,
    max(if(seen & 2 > 0, v_t0, null)) over (
      partition by run, partition_id order by offset range between unbounded preceding and current row) as begun_below,
    -- A row without an offset comes last of all.
    min(if(acked, s_t1, null)) over (
      partition by run, partition_id order by offset desc nulls last range between unbounded preceding and 1 preceding
    ) as acked_above,
    min(if(acked and coalesce(s_acks, -1) <> 1, s_t1, null)) over (
      partition by run, partition_id order by offset desc nulls last range between unbounded preceding and current row
    ) as acked_all_above,
    -- What the same process got at this offset or above.
    min(s_since) over w as since_above, min(if(seen & 2 > 0, s_since, null)) over w as kept_since_above,
    min(if(seen & 2 > 0, s_over, null)) over w as kept_over_above,
    min(if(seen & 2 = 0, s_since, null)) over w as gone_since_above,
    min(if(acked and seen & 2 > 0, s_t1, null)) over (
      partition by run, partition_id order by offset desc nulls last range between unbounded preceding and 1 preceding
    ) as kept_above
  from of_value
  window w as (partition by run, partition_id, if(acked, s_process, null) order by offset desc nulls last
    range between unbounded preceding and current row)
), ruled as (
  select {", ".join(_OF_ROW)}, {_FLAG_BITS} as flags,
    v_first and value = min(if(v_first, value, null)) over a as accounts,
    sum(if(v_first, 1, 0)) over a as a_count,
    sum(if(v_first and v_finals > 1, v_finals - 1, 0)) over a as a_duplicates,
    sum(if(v_first and v_seen > 0, 1, 0)) over a as a_read,
    max(if(seen & 2 > 0, offset, null)) over a as a_end,
    max(if(v_restamped, 1, 0)) over a as a_restamped, max(step_hi) over a as a_step
  from around
  window a as (partition by run, partition_id, v_status, v_acks, v_seen & 2)
)
select * from ruled where flags <> 0 or accounts
"""


def flagged_rows(spark: SparkSession, records: DataFrame, jumps: DataFrame, *, at_most: int | None = None) -> DataFrame:
    """The rows with a flag (`flags`, bits), and one row for each line of the accounting (`accounts`)."""
    limit = "" if at_most is None else f"limit {at_most}"
    return spark.sql(QUERY + limit, records=records, jumps=jumps)
