"""A record and the one before it of the same key in the same operation; and where an operation's records of it end."""

from dataclasses import dataclass

import numpy as np

from harness.checks.jepsen.columns import NONE, Column, Records, begins_of, mark
from harness.checks.jepsen.values import Values
from harness.history.schema.schemas import KIND_POLL, KIND_SEND


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """One row per operation, key and kind: its first and its last record."""

    run: Column
    process: Column
    operation: Column
    partition_id: Column
    kind: Column
    status: Column
    first_at: Column
    first_value: Column
    last_at: Column
    last_value: Column
    i_first: Column


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Only what can matter: steps other than to the next index (`jumps`), reads of a value that was `aborted`, or that
    the operation itself may have sent (`own`: from its first writer to its last).

    record: its row among the records. at, at_before: indexes; sent_first: where the operation first sent to the key.
    """

    record: Column
    at: Column
    at_before: Column
    value_before: Column
    i_first: Column
    sent_first: Column
    jumps: Column
    aborted: Column
    own: Column


def steps_of(records: Records, values: Values) -> tuple[Steps, Lanes]:
    rows = np.flatnonzero((records.kind == KIND_SEND) | (records.kind == KIND_POLL))
    lane = records.operation_rank * max(records.keys, 1)
    lane += records.key
    lane *= 2
    lane += records.kind == KIND_POLL
    every = len(rows) == len(lane)
    lane = lane if every else lane[rows]
    if (lane[1:] < lane[:-1]).any():
        order = np.argsort(lane, kind="stable")
        rows, lane, every = rows[order], lane[order], False
    number, value = (column if every else column[rows] for column in (records.id, records.value))
    first = begins_of(lane)
    last = np.append(first[1:], len(rows)) - 1 if len(first) else first
    at = values.at[number]
    at_before = _before(at, first)
    jumps = at - at_before != 1
    jumps &= (at != NONE) & (at_before != NONE)
    polled = lane % 2 == 1
    aborted = polled & values.failed[number]
    own = _own(records, values, rows, polled)
    i_first = records.position[rows[first]]
    kept = np.flatnonzero(jumps | aborted | own)
    lane_of = np.searchsorted(first, kept, side="right") - 1
    steps = Steps(
        record=rows[kept],
        at=at[kept],
        at_before=at_before[kept],
        value_before=_before(value, first)[kept],
        i_first=i_first[lane_of],
        sent_first=_sent_first(lane[first], i_first)[lane_of],
        jumps=jumps[kept],
        aborted=aborted[kept],
        own=own[kept],
    )
    columns = {
        name: getattr(records, name)[rows[first]]
        for name in ("run", "process", "operation", "partition_id", "kind", "status")
    }
    lanes = Lanes(
        **columns,
        first_at=at[first],
        first_value=value[first],
        last_at=at[last],
        last_value=value[last],
        i_first=i_first,
    )
    return steps, lanes


def _own(records: Records, values: Values, rows: Column, polled: Column) -> Column:
    """Only an operation that sends too, or the readers of what several sent, can have read what it may have sent."""
    sends = mark(int(records.operation_rank.max(initial=-1)) + 1, records.operation_rank[records.sends])
    several = values.first_writer != values.writer
    asked = np.flatnonzero(polled & (sends[records.operation_rank[rows]] | several[records.id[rows]]))
    number, operation = records.id[rows[asked]], records.operation[rows[asked]]
    written = (values.writer[number] != NONE) & (operation <= values.writer[number])
    return mark(len(rows), asked[written & (operation >= values.first_writer[number])])


def _before(column: Column, first: Column) -> Column:
    shifted = np.empty_like(column)
    shifted[1:] = column[:-1]
    shifted[first] = NONE
    return shifted


def _sent_first(lanes: Column, i_first: Column) -> Column:
    """The lane of an operation's sends to a key lies right before that of its reads."""
    sends = lanes % 2 == 0
    firsts = np.where(sends, i_first, NONE)
    reads = np.flatnonzero(~sends[1:] & (lanes[1:] - lanes[:-1] == 1)) + 1
    firsts[reads] = i_first[reads - 1]
    return firsts
