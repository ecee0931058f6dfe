"""What Jepsen's checker cannot see, as kinds of our own beside Jepsen's; none renames one of his.

The rules give what a value's row does not: a transaction of which a part was seen, an acknowledgement below an earlier
one, a consumer that began behind the head of a log, and records that a group was given twice.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow.compute as pc

from harness.checks.jepsen.columns import NONE, Column, Timeline, begins_of, grouped, mark, rows_of
from harness.checks.jepsen.rules import Rows, RuleInputs
from harness.history.schema.schemas import KIND_POLL, STATUS_FAIL, STATUS_OK


def _torn(inputs: RuleInputs) -> Rows:
    """Values that nobody read, of transactions of which an ok poll read another. at: one of the same key."""
    records, values = inputs.records, inputs.values
    sent = np.flatnonzero(records.sends & records.transactional & (records.status != STATUS_FAIL))
    operation, number = records.operation_rank[sent], records.id[sent]
    seen = mark(int(records.operation_rank.max(initial=-1)) + 1, operation[values.read_ok[number]])
    rows = sent[seen[operation] & ~values.read_any[number]]
    first, _ = grouped(records.operation_rank[rows], records.id[rows])
    rows = rows[first]
    lane = records.operation_rank * max(records.keys, 1) + records.key
    here = np.isin(lane[rows], lane[sent[values.read_ok[number]]])
    return rows_of(
        **inputs.of_record(rows, "operation", "value"), number=records.status[rows], at=here.astype(np.int64)
    )


def _regressions(inputs: RuleInputs) -> Rows:
    """An offset below the highest that another process had been answered before this send was invoked."""
    records = inputs.records
    rows = np.flatnonzero(records.sends & (records.status == STATUS_OK) & (records.offset != NONE))
    rows = rows[np.lexsort((records.operation[rows], records.key[rows]))]
    back = (np.diff(records.key[rows]) == 0) & (np.diff(records.offset[rows]) < 0)
    rows = rows[
        mark(records.keys, records.key[rows[1:]][back])[records.key[rows]]
    ]  # keys in which none went back: none
    timeline = Timeline(records.key[rows], records.operation[rows])
    start, stop = timeline.until(records.key[rows], records.invocation_index[rows], inclusive=False)
    _, height = grouped(
        records.key[rows], *(getattr(records, name)[rows] for name in ("offset", "process", "operation", "value"))
    )
    highest = np.maximum.accumulate(height[timeline.order])  # keys in order: those before have lower numbers
    at = np.empty(len(rows), np.int64)
    at[height] = np.arange(len(rows))
    asked = np.flatnonzero(stop > start)
    high = rows[at[highest[stop[asked] - 1]]]
    low = rows[asked]
    found = (records.offset[high] > records.offset[low]) & (records.process[high] != records.process[low])
    high, low = high[found], low[found]
    return rows_of(
        **inputs.of_record(low, "operation", "offset", "value"),
        op2=records.operation[high],
        value2=records.value[high],
        number=records.offset[high],
    )


def _behind_the_head(inputs: RuleInputs) -> Column:
    """A consumer that was assigned a key starts at its beginning, unless an offset was committed there: such an offset
    can only be the end of what somebody had polled. After a seek to the beginning there is no unless.
    """
    walk = inputs.walk
    given = (walk.assigned != NONE) & ((walk.sought == walk.assigned) | (walk.direct == walk.assigned))
    rows = np.flatnonzero((walk.kind == KIND_POLL) & (walk.first_at > 0) & ~walk.read_before & given)
    ended = np.flatnonzero((walk.kind == KIND_POLL) & (walk.last_at != NONE))
    run, partition_id = (np.concatenate([of[rows], of[ended]]) for of in (walk.run, walk.partition_id))
    _, where = grouped(run, partition_id, np.concatenate([walk.first_at[rows], walk.last_at[ended] + 1]))
    start, stop = Timeline(where[len(rows) :], walk.operation[ended]).until(
        where[: len(rows)], walk.operation[rows], inclusive=False
    )
    committed = (stop > start) & (walk.sought[rows] != walk.assigned[rows])
    return rows[~committed]


def _head_skips(inputs: RuleInputs) -> Rows:
    walk, rows = inputs.walk, _behind_the_head(inputs)
    return rows_of(
        **{name: getattr(walk, name)[rows] for name in ("run", "partition_id", "process", "operation", "i_first")},
        value=walk.first_value[rows],
        at=walk.first_at[rows],
        op2=walk.assigned[rows],
    )


def _skipped_at_head(inputs: RuleInputs) -> Rows:
    walk, rows = inputs.walk, _behind_the_head(inputs)
    return inputs.between(
        [(walk.run[rows], walk.partition_id[rows], np.zeros(len(rows), np.int64), walk.first_at[rows] - 1)]
    )


def _redelivered(inputs: RuleInputs) -> Rows:
    """Values that several processes got while subscribed. at: how often; value, op, op2: of the least of them."""
    records, ops = inputs.records, inputs.operations
    modes = ops.filter(pc.field("function").isin(["assign", "subscribe"]) & (pc.field("status") == STATUS_OK))
    subscribed = np.append(pc.equal(modes["function"], "subscribe").to_numpy(), False)  # the last: no mode at all
    if not subscribed.any():
        return []
    polled = np.flatnonzero((records.kind == KIND_POLL) & (records.status == STATUS_OK))
    run, process = (
        np.concatenate([modes[name].to_numpy(), getattr(records, name)[polled]]) for name in ("run", "process")
    )
    _, client = grouped(run, process)
    line = Timeline(client[: len(modes)], modes["operation"].to_numpy())
    start, stop = line.until(client[len(modes) :], records.operation[polled], inclusive=True)
    last = np.where(stop > start, np.append(line.order, -1)[stop - 1], -1)
    rows = polled[subscribed[last]]
    rows = rows[np.lexsort((records.operation[rows], records.id[rows]))]
    first = begins_of(records.id[rows])
    if not len(first):
        return []
    deliveries = np.diff(first, append=len(rows))
    process = records.process[rows]
    several = np.minimum.reduceat(process, first) < np.maximum.reduceat(process, first)
    first, deliveries = first[several], deliveries[several]
    last = first + deliveries - 1
    order = np.lexsort((records.value[rows[first]], records.key[rows[first]]))
    first, last, deliveries = first[order], last[order], deliveries[order]
    least = begins_of(records.key[rows[first]])
    if not len(least):
        return []
    return rows_of(
        **inputs.of_record(rows[first[least]], "value"),
        operation=records.operation[rows[first[least]]],
        op2=records.operation[rows[last[least]]],
        number=np.diff(least, append=len(first)),
        at=np.add.reduceat(deliveries, least),
    )


OWN_RULES: Mapping[str, Callable[[RuleInputs], Rows]] = {
    "torn": _torn,
    "acknowledged-offset-regression": _regressions,
    "head-skip": _head_skips,
    "value-at-head": _skipped_at_head,
    "group-redelivery": _redelivered,
}

# Cycles with read-write edges, which Jepsen's code leaves out, between transactions: Kafka promises no serializability,
# so they are reported. Between plain sends and polls, and with edges of real time, every poll that lags would be one.
READ_WRITE_CYCLES = frozenset({"G-single", "G2-item"})
# Kinds that say more of what Jepsen's `unseen` already counts, or of what Kafka permits.
REPORTED = READ_WRITE_CYCLES | frozenset(
    {
        "acknowledged-without-offset",
        "unread-tail",
        "torn-transaction-candidate",
        "group-redelivery",
    }
)
# Why there is no verdict, rather than a bad one.
NOT_SEARCHED = "cycles-not-searched"
INCONCLUSIVE = frozenset({"insufficient-evidence", "no-data", NOT_SEARCHED})
