"""The text of the fused pass (detection.py): one query over the records, the same for Spark and for DuckDB.

Each family brings what it asks of every folded row; the query sets a bit for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Flag:
    """What a family asks of every folded row. condition: SQL over `around` (below), where null counts as false.

    needs_the_end: it says something of a row only where the final log was read past it, and the log is there still.
    needs_a_ruling: what is found by it may be ruled on by what logs and readers showed of its leader's epoch.
    """

    name: str
    condition: str
    needs_the_end: bool = False
    needs_a_ruling: bool = True


# What the driver needs itself. Whether an acknowledged, missing value was lost, or only not read that far, depends on
# the ends of the final reads: it decides that (detection.py), from the accounting's lines and the table of partitions.
GONE = Flag(name="gone", condition="acked and value_seen & 2 = 0")
# Not a finding by itself: only such a value can be on a cycle of operations outside transactions (cycles/). It was
# read or acknowledged before a record at or below it in the log had begun, or shares its offset with another.
BACKWARD = Flag(
    name="backward",
    condition="""value_first_read_ns < value_invoked_ns
        or seen & 2 > 0 and (at_offset > 1 or value_first_read_ns < invoked_below_ns
            or value_status = 0 and coalesce(value_acks, -1) <> 0 and value_completed_ns < invoked_below_ns)""",
)


class Flags:
    """The flags of all families and the driver's own. bits: what each is in the query's answer, by its name."""

    def __init__(self, of_families: Sequence[Flag]) -> None:
        every = (GONE, BACKWARD, *of_families)
        self.bits: Mapping[str, int] = {flag.name: 1 << place for place, flag in enumerate(every)}
        self.need_the_end = frozenset(flag.name for flag in every if flag.needs_the_end)
        self.need_a_ruling = frozenset(flag.name for flag in every if flag.needs_a_ruling)
        self.as_number = " | ".join(
            f"if(coalesce({flag.condition}, false), {self.bits[flag.name]}, 0)" for flag in every
        )

    def names(self, number: int) -> set[str]:
        return {name for name, bit in self.bits.items() if number & bit}


_OF_ROW = (
    "run",
    "partition_id",
    "value",
    "offset",
    "value_status",
    "value_acks",
    "value_acknowledged_at",
    *(
        f"coalesce(if(acked or answered, sent_{name}, null), value_{name}) as own_{name}"
        for name in ("acks", "process", "operation", "invoked_ns", "completed_ns")
    ),
    "answered",
    "seen",
    "value_seen",
    "value_final_offsets",
    "read_epoch",
    "first_read_ns",
    "last_read_ns",
    "least_step",
    "greatest_step",
    "least_jump",
    "greatest_jump",
    "acked_all_above_ns",
    "coalesce(seen & 2 > 0 and kept_above_ns < sent_invoked_ns, false) as above_kept",
    "coalesce(seen & 2 > 0 and kept_over_above_ns < sent_called_ns, false) as overtook_kept",
    "coalesce(seen & 2 > 0 and kept_surely_over_above_ns < sent_invoked_ns, false) as overtook_in_order",
    "coalesce(gone_over_above_ns < sent_called_ns, false) as overtook_gone",
)


class FoldedRow(TypedDict):
    """A row of the query's result."""

    run: int
    partition_id: int
    value: int
    offset: int | None
    value_status: int | None
    value_acks: int | None
    value_acknowledged_at: int | None
    own_acks: int | None
    own_process: int | None
    own_operation: int | None
    own_invoked_ns: int | None
    own_completed_ns: int | None
    answered: bool
    seen: int
    value_seen: int
    value_final_offsets: int
    read_epoch: int | None
    first_read_ns: int | None
    last_read_ns: int | None
    least_step: int | None
    greatest_step: int | None
    least_jump: int | None
    greatest_jump: int | None
    acked_all_above_ns: int | None
    above_kept: bool
    overtook_kept: bool
    overtook_in_order: bool
    overtook_gone: bool
    flags: int
    accounts: bool
    line_count: int
    line_duplicates: int
    line_read: int
    line_end: int | None
    line_restamped: int
    line_step: int | None


# When a send was called, and from when on a call comes after it, as far as that was recorded. Records of one operation
# may share their time, so each stands a nanosecond behind the one before.
CALLED = "invoked_ns + if(returned_ns is null, position, 0)"
OVER = "least(completed_ns, coalesce(returned_ns, invoked_ns + position))"
SURELY_OVER = "least(completed_ns, returned_ns)"

# One row per (run, partition_id, value, offset), with what is known of the value as a whole beside it (value_...), and
# what lies around it in its partition's log and in its sender's order. sent_over_ns: a send whose sent_called_ns is
# behind it comes after it, if not for certain (sends.py), then where one task made both calls. A value that was sent
# more than once is one record; own_...: of the send that was answered with the row's offset, else of the first.
# answered: so also in a transaction that was not committed. Until it is value_status, the status of a refusal is 3,
# since every other answer says more, and that of what a client calls a success with acks=0 is 1: it promises nothing.
# `line_...`: the line of the accounting that its value is in, on one of the rows (`accounts`); line_restamped: a value
# of it was seen with two timestamps; line_step: the longest step within a poll onto one of its rows. What leaves are
# the rows with a flag, and one row for each line. Both engines of benchmarks/check_history.py run this text.
_STEPS: Mapping[str, str] = {
    "said": f"""
  select run, partition_id, value, offset,
    case when kind <> 0 then null when status = 1 then 3 when status = 0 and acks = 0 then 1 else status end as status,
    if(kind = 0, acks, null) as sent_acks,
    if(kind = 0, operation, null) as sent_operation,
    if(kind = 0, process, null) as sent_process,
    if(kind = 0, invoked_ns, null) as sent_invoked_ns,
    if(kind = 0, completed_ns, null) as sent_completed_ns,
    if(kind = 0, {CALLED}, null) as sent_called_ns,
    if(kind = 0, {OVER}, null) as sent_over_ns,
    if(kind = 0, {SURELY_OVER}, null) as sent_surely_over_ns,
    case when kind = 1 then 1 when kind = 2 and replica is null then 2 when kind = 2 then 4 else 0 end as seen,
    if(kind > 0, leader_epoch, null) as read_epoch,
    if(kind > 0, completed_ns, null) as first_read_ns,
    if(kind = 1, invoked_ns, null) as read_begun_ns,
    if(kind > 0, offset_step, null) as offset_step,
    cast(null as bigint) as jump,
    if(kind = 0 and acks = 0, null, timestamp_ms) as ms
  from {{records}}
  union all
  select run, partition_id, value, offset, null, null, null, null, null, null, null, null, null, 0, null, null, null,
    null, jump, null
  from {{jumps}}
""",
    "folded": """
  select run, partition_id, value, offset,
    min(status) as status, min(sent_acks) as sent_acks, min(sent_operation) as sent_operation,
    min(sent_process) as sent_process, min(sent_invoked_ns) as sent_invoked_ns,
    min(sent_completed_ns) as sent_completed_ns, min(sent_called_ns) as sent_called_ns,
    min(sent_over_ns) as sent_over_ns, min(sent_surely_over_ns) as sent_surely_over_ns, bit_or(seen) as seen,
    max(read_epoch) as read_epoch, min(first_read_ns) as first_read_ns, max(read_begun_ns) as last_read_ns,
    min(offset_step) as least_step, max(offset_step) as greatest_step,
    min(jump) as least_jump, max(jump) as greatest_jump,
    min(ms) as least_ms, max(ms) as greatest_ms
  from {said} group by run, partition_id, value, offset
""",
    "spread": """
  select /*+ REPARTITION(run, partition_id) */ *,
    coalesce(status = 0, false) as acked,
    coalesce(status is not null and offset is not null and coalesce(sent_acks, -1) <> 0, false) as answered
  from {folded}
""",
    "of_value": """
  select *,
    case min(status) over v when 3 then 1 when 1 then 0 else min(status) over v end as value_status,
    if(min(status) over v = 1, 0, min(sent_acks) over v) as value_acks,
    min(sent_invoked_ns) over v as value_invoked_ns, min(sent_completed_ns) over v as value_completed_ns,
    max(if(acked, offset, null)) over v as value_acknowledged_at,
    min(sent_operation) over v as value_operation, min(sent_process) over v as value_process,
    min(first_read_ns) over v as value_first_read_ns,
    bit_or(seen) over v as value_seen, count(offset) over v as value_offsets,
    sum(if(seen & 2 > 0, 1, 0)) over v as value_final_offsets,
    if(count(*) over v > count(offset) over v, offset is null, offset = min(offset) over v) as is_first_of_value,
    coalesce(min(least_ms) over v <> max(greatest_ms) over v, false) as value_restamped
  from {spread}
  window v as (partition by run, partition_id, value)
""",
    "around": """
  select *,
    max(if(seen & 2 > 0, offset, null)) over (
      partition by run, partition_id order by offset range between unbounded preceding and 1 preceding
    ) as final_below,
    count(offset) over (
      partition by run, partition_id order by offset range between current row and current row
    ) as at_offset,
    max(if(seen & 2 > 0, value_invoked_ns, null)) over (
      partition by run, partition_id order by offset range between unbounded preceding and current row
    ) as invoked_below_ns,
    -- A row without an offset comes last of all.
    min(if(acked, sent_completed_ns, null)) over (
      partition by run, partition_id order by offset desc nulls last range between unbounded preceding and 1 preceding
    ) as acked_above_ns,
    min(if(acked and coalesce(sent_acks, -1) <> 1, sent_completed_ns, null)) over (
      partition by run, partition_id order by offset desc nulls last range between unbounded preceding and current row
    ) as acked_all_above_ns,
    -- What the same process got at this offset or above.
    min(sent_over_ns) over w as over_above_ns, min(if(seen & 2 > 0, sent_over_ns, null)) over w as kept_over_above_ns,
    min(if(seen & 2 > 0, sent_surely_over_ns, null)) over w as kept_surely_over_above_ns,
    min(if(seen & 2 = 0, sent_over_ns, null)) over w as gone_over_above_ns,
    min(if(acked and seen & 2 > 0, sent_completed_ns, null)) over (
      partition by run, partition_id order by offset desc nulls last range between unbounded preceding and 1 preceding
    ) as kept_above_ns
  from {of_value}
  window w as (partition by run, partition_id, if(acked, sent_process, null) order by offset desc nulls last
    range between unbounded preceding and current row)
""",
}
_OF_LINE = (
    "is_first_of_value and value = min(if(is_first_of_value, value, null)) over a as accounts",
    "sum(if(is_first_of_value, 1, 0)) over a as line_count",
    "sum(if(is_first_of_value and value_final_offsets > 1, value_final_offsets - 1, 0)) over a as line_duplicates",
    "sum(if(is_first_of_value and value_seen > 0, 1, 0)) over a as line_read",
    "max(if(seen & 2 > 0, offset, null)) over a as line_end",
    "max(if(value_restamped, 1, 0)) over a as line_restamped",
    "max(greatest_step) over a as line_step",
)


def _steps(flags: Flags) -> dict[str, str]:
    """Each with the names of those before it in braces."""
    columns = ",\n    ".join((*_OF_ROW, *_OF_LINE, f"{flags.as_number} as flags"))
    ruled = f"""
  select {columns}
  from {{around}}
  window a as (partition by run, partition_id, value_status, value_acks, value_seen & 2)
"""
    return {**_STEPS, "ruled": ruled}


_ANSWER = "select * from {ruled} where flags <> 0 or accounts"


def query(flags: Flags) -> str:
    """Its text as one query, with `{records}` and `{jumps}` to be filled in."""
    steps = _steps(flags)
    names = {name: name for name in steps} | {"records": "{records}", "jumps": "{jumps}"}
    parts = ", ".join(f"{name} as ({text.format(**names)})" for name, text in steps.items())
    return f"with {parts}\n{_ANSWER.format(**names)}"


def flagged_rows(records: DataFrame, jumps: DataFrame, flags: Flags, *, at_most: int | None = None) -> DataFrame:
    """The rows with a flag (`flags`, bits), and one row for each line of the accounting (`accounts`).

    Spark gets it step by step: of one text it resolves every step again for each that stands behind it.
    """
    session = records.sparkSession
    before: dict[str, Any] = {"records": records, "jumps": jumps}
    for name, text in _steps(flags).items():
        before = {name: session.sql(text, **before)}
    return session.sql(_ANSWER if at_most is None else f"{_ANSWER} limit {at_most}", **before)
