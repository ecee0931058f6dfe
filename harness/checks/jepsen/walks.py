"""The order in which a process's operations read and wrote, from one operation to the next.

A moment is the first record that an operation reads (or sends) of a key, held against the last one of the operation
before it that did; so is a key that an operation names without a record. An assign or subscribe forgets the keys it
does not name; polls move a process's place only when ok, sends also when nobody knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.checks.jepsen.columns import NONE, Column, Timeline, begins_of, grouped
from harness.checks.jepsen.steps import Lanes
from harness.history.schema.schemas import KIND_POLL, KIND_SEND, STATUS_FAIL, STATUS_INFO, STATUS_OK

# What a key was named for, in the order in which those of one operation count; a record comes last.
_WHAT = ("sought", "read_nothing", "rebalanced", "left", "direct", "assigned", "")
_ASSIGNED, _SOUGHT, _DIRECT, _RECORD = (_WHAT.index(what) for what in ("assigned", "sought", "direct", ""))


@dataclass(frozen=True, kw_only=True)
class Walk(Lanes):
    """Moments, in no order that matters. before: the row of the last one that moved the process's place, or -1.

    read_before: whether it had read of the key; assigned, direct, sought: the last operations that did so; all since it
    was given the key. excused: a rebalance moved the key since.
    """

    before: Column
    read_before: Column
    assigned: Column
    direct: Column
    sought: Column
    excused: Column

    def out_of_order(self, *, lenient: bool) -> Column:
        """Rows that do not go on where the moment before them ended. lenient: unless they are excused."""
        known = (self.before >= 0) & (self.first_at != NONE) & (self.last_at[self.before] != NONE)
        delta = self.first_at - self.last_at[self.before]
        read = (self.kind == KIND_POLL) & (delta != 1)
        if lenient:
            read &= ~self.excused
        sent = (self.kind == KIND_SEND) & (self.status != STATUS_FAIL) & (delta < 1)
        return np.flatnonzero(known & (read | sent))


def walk_of(lanes: Lanes, tables: Mapping[str, pa.Table], *, seeks: bool) -> Walk:
    """seeks: a seek to the beginning makes a process begin anew (Jepsen: it does not)."""
    moments, what = _moments(lanes, tables["imported_keys"])
    client, client_of_reset, resets = _resets(moments, tables["operations"])
    key = grouped(client, moments["partition_id"])[1]
    op = moments["operation"]

    def named(kind: str, *, inclusive: bool) -> tuple[Column, Column, Timeline]:
        rows = np.flatnonzero(what == _WHAT.index(kind))
        line = Timeline(key[rows], op[rows])
        return *line.until(key, op, inclusive=inclusive), line

    start, stop = Timeline(client_of_reset, resets).until(client, op, inclusive=False)
    epoch = stop - start
    start, stop, _ = named("assigned", inclusive=False)
    epoch = epoch - (stop - start)
    if seeks:
        start, stop, _ = named("sought", inclusive=True)
        epoch = epoch + (stop - start)
    start, stop, _ = named("rebalanced", inclusive=True)
    moves = stop - start
    start, stop, left = named("left", inclusive=True)
    gone = np.zeros(len(op), bool)
    gone[stop > start] = left.operation[stop[stop > start] - 1] == op[stop > start]
    return _with_what_came_before(moments, what, (key, moments["kind"], epoch), moves, gone)


def _moments(lanes: Lanes, keys: pa.Table) -> tuple[dict[str, Column], Column]:
    rank = {what: place for place, what in enumerate(_WHAT)}
    failed = (pc.field("status") == STATUS_FAIL) & pc.field("what").isin(["assigned", "sought"])
    held = keys.filter((pc.field("what") != "end") & ~failed)
    what = np.array([rank[each] for each in held["what"].to_pylist()], np.int64)
    moments = {
        name: held[name].to_numpy().astype(np.int64)
        for name in ("run", "process", "operation", "partition_id", "status")
    }
    moments["status"] = np.where(what == rank["read_nothing"], moments["status"], NONE)
    moments["kind"] = np.full(len(what), KIND_POLL)
    nothing = np.full(len(what), NONE)
    columns = {
        name: np.concatenate([getattr(lanes, name).astype(np.int64), moments.get(name, nothing)])
        for name in (
            "run",
            "process",
            "operation",
            "partition_id",
            "kind",
            "status",
            "first_at",
            "first_value",
            "last_at",
            "last_value",
            "i_first",
        )
    }
    return columns, np.concatenate([np.full(len(lanes.run), _RECORD), what])


def _resets(moments: Mapping[str, Column], operations: pa.Table) -> tuple[Column, Column, Column]:
    """Clients (run and process) of the moments and of the resets, numbered alike, and when the resets were."""
    given = pc.field("function").isin(["assign", "subscribe"]) & (pc.field("status") != STATUS_FAIL)
    ended = operations.filter(given & pc.field("completion_index").is_valid())
    _, client = grouped(
        np.concatenate([moments["run"], ended["run"].to_numpy()]),
        np.concatenate([moments["process"], ended["process"].to_numpy()]),
    )
    count = len(moments["run"])
    return client[:count], client[count:], ended["operation"].to_numpy()


def _with_what_came_before(
    moments: Mapping[str, Column], what: Column, lane: tuple[Column, Column, Column], moves: Column, gone: Column
) -> Walk:
    key, kind, epoch = lane
    order = np.lexsort((what, moments["operation"], epoch, kind, key))
    first = begins_of(key[order], kind[order], epoch[order])
    begin = np.repeat(first, np.diff(first, append=len(order)))

    def last(marked: Column) -> Column:
        """By moment, the row of the last marked one before it in its lane, or -1."""
        places = np.where(marked[order], np.arange(len(order)), -1)
        before = np.concatenate([np.full(min(1, len(order)), -1), np.maximum.accumulate(places)[:-1]])
        found = np.full(len(order), -1)
        found[order] = np.where(before >= begin, order[before], -1)
        return found

    def last_op(kind_of: int) -> Column:
        row = last(what == kind_of)
        return np.where(row >= 0, moments["operation"][row], NONE)

    ok = moments["status"] == STATUS_OK
    before = last(ok | (kind == KIND_SEND) & (moments["status"] == STATUS_INFO))
    return Walk(
        **moments,
        before=before,
        read_before=last(ok & (moments["last_value"] != NONE)) >= 0,
        assigned=last_op(_ASSIGNED),
        direct=last_op(_DIRECT),
        sought=last_op(_SOUGHT),
        excused=(before >= 0) & ((moves > moves[before]) | gone[before]),
    )
