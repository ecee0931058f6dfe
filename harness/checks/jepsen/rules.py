"""Jepsen's log anomalies, each a few columns over the stages. What is flagged becomes rows, few as they are.

What our own answer takes back from Jepsen's: a value that an aborted poll saw is neither lost nor unseen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from harness.checks.jepsen.columns import NONE, Column, Records, RuleRow, begins_of, highest, mark, rows_of
from harness.checks.jepsen.steps import Steps
from harness.checks.jepsen.values import Values
from harness.checks.jepsen.version_orders import VersionOrders
from harness.checks.jepsen.walks import Walk
from harness.history.schema.schemas import KIND_POLL, STATUS_OK

Rows: TypeAlias = list[RuleRow]

# The bits of `number` in rows of the rule "value".
LOST, UNSEEN, PHANTOM, EARLY, ONLY_ABORTED, NO_OFFSET, UNREAD_TAIL, NO_WRITER = (1 << bit for bit in range(8))
# The bits of `number` in rows of the rule "read".
ABORTED, OWN, IN_OK = 1, 2, 4


@dataclass(frozen=True, kw_only=True)
class Stages:
    """What the rules look at. lenient: by our own rules, not as Jepsen. bounds: by key, how far ok polls got."""

    records: Records
    versions: VersionOrders
    values: Values
    steps: Steps
    walk: Walk
    operations: pa.Table
    lenient: bool
    bounds: Column

    def of_value(self, ids: Column) -> dict[str, Column]:
        run, partition_id, value = (of[ids] for of in self.records.of_id)
        return {"run": run, "partition_id": partition_id, "value": value}

    def of_record(self, rows: Column, *names: str) -> dict[str, Column]:
        return {name: getattr(self.records, name)[rows] for name in ("run", "partition_id", *names)}

    def between(self, gaps: list[tuple[Column, Column, Column, Column]]) -> Rows:
        """What lies in gaps of keys: (run, partition_id, low, high), ends included."""
        kept = self.versions.kept(self.records)
        run, partition_id, value = (of[self.versions.id[kept]] for of in self.records.of_id)
        index = self.versions.index[kept]
        first = begins_of(run, partition_id)
        start = np.full(self.records.keys, NONE)
        start[self.records.key_of_id[self.versions.id[kept[first]]]] = first
        inside = np.zeros(len(kept) + 1, np.int64)
        for runs, tps, low, high in gaps:
            begin = start[self.records.first_key[runs] + tps]
            np.add.at(inside, begin + low, 1)
            np.add.at(inside, begin + high + 1, -1)
        found = np.flatnonzero(np.cumsum(inside[:-1]) > 0)
        return rows_of(run=run[found], partition_id=partition_id[found], at=index[found], value=value[found])


def bounds_of(records: Records, values: Values) -> Column:
    read = np.flatnonzero(values.read_ok & (values.first_at != NONE))
    return highest(records.keys, records.key_of_id[read], values.first_at[read])


def _in_log(stages: Stages, flagged: Column) -> Rows:
    rows = np.flatnonzero(flagged)
    versions = stages.versions
    return rows_of(**stages.of_value(versions.id[rows]), offset=versions.offset[rows], at=versions.index[rows])


def _keys(stages: Stages) -> Rows:
    """How many values each key's log has."""
    ids = np.flatnonzero(mark(stages.records.ids, stages.versions.id))
    number = np.bincount(stages.records.key_of_id[ids], minlength=stages.records.keys)
    return [row for row in _by_key(stages, number) if row["number"]]


def _bounds(stages: Stages) -> Rows:
    return _by_key(stages, stages.bounds)


def _by_key(stages: Stages, number: Column) -> Rows:
    run, partition_id = stages.records.of_key
    return rows_of(run=run, partition_id=partition_id, number=number)


def _readers(stages: Stages) -> Rows:
    """Who read first what lies where ok polls got to; of several values there, the least."""
    values, records = stages.values, stages.records
    bound = stages.bounds[records.key_of_id]
    ids = np.flatnonzero((bound != NONE) & (values.last_at == bound))
    ids = ids[np.lexsort((records.of_id[2][ids], records.key_of_id[ids]))]
    ids = ids[begins_of(records.key_of_id[ids])]
    staged_values = stages.of_value(ids)
    return rows_of(
        run=staged_values["run"], partition_id=staged_values["partition_id"], operation=values.first_reader[ids]
    )


def _values(stages: Stages) -> Rows:
    values = stages.values
    bound = stages.bounds[stages.records.key_of_id]
    nobody, unread = values.writer == NONE, ~values.read_ok
    passed = (values.last_at != NONE) & (bound != NONE) & (values.last_at <= bound)
    kept = ~values.read_any if stages.lenient else np.ones(len(unread), bool)
    unheard = values.acked & ~values.read_any
    early = (values.first_reader != NONE) & (values.invoked != NONE) & (values.first_reader < values.invoked)
    bits = (
        LOST * (passed & unread & values.committed & kept)
        + UNSEEN * (values.acked & unread & kept)
        + PHANTOM * (values.read_any & nobody)
        + EARLY * early
        + ONLY_ABORTED * (values.acked & unread & values.read_any)
        + NO_OFFSET * (unheard & (values.ack_off == NONE))
        + UNREAD_TAIL * (unheard & (values.ack_off != NONE) & ~passed)
        + NO_WRITER * (passed & unread & nobody)
    )
    ids = np.flatnonzero(bits * values.present)
    return rows_of(
        **stages.of_value(ids),
        operation=values.writer[ids],
        op2=values.first_reader[ids],
        offset=values.ack_off[ids],
        at=values.first_at[ids],
        at2=values.last_at[ids],
        number=bits[ids],
    )


def _reads(stages: Stages) -> Rows:
    steps = stages.steps
    at = np.flatnonzero(steps.aborted | steps.own)
    rows = steps.record[at]
    number = ABORTED * steps.aborted[at] + OWN * steps.own[at] + IN_OK * (stages.records.status[rows] == STATUS_OK)
    return rows_of(
        **stages.of_record(rows, "operation", "kind", "position", "value"),
        i_first=steps.i_first[at],
        op2=stages.values.writer[stages.records.id[rows]],
        at=steps.sent_first[at],
        number=number,
    )


def _writers(stages: Stages) -> Rows:
    """The senders of values that several operations sent."""
    several = stages.values.first_writer < stages.values.writer
    rows = np.flatnonzero(stages.records.sends & several[stages.records.id])
    return rows_of(**stages.of_record(rows, "operation", "value"))


def _inside(stages: Stages) -> Rows:
    at = _jumps(stages)
    steps, rows = stages.steps, stages.steps.record[at]
    return rows_of(
        **stages.of_record(rows, "operation", "kind", "position"),
        i_first=steps.i_first[at],
        value=steps.value_before[at],
        value2=stages.records.value[rows],
        at2=steps.at_before[at],
        at=steps.at[at],
    )


def _jumps(stages: Stages) -> Column:
    rows = stages.steps.record
    moved = (stages.records.kind[rows] == KIND_POLL) & stages.records.moved[rows]
    return np.flatnonzero(stages.steps.jumps & ~moved)


def _between(stages: Stages) -> Rows:
    walk, rows = stages.walk, stages.walk.out_of_order(lenient=stages.lenient)
    before = walk.before[rows]
    return rows_of(
        **{
            name: getattr(walk, name)[rows]
            for name in ("run", "partition_id", "process", "operation", "kind", "i_first")
        },
        op2=walk.operation[before],
        value=walk.last_value[before],
        value2=walk.first_value[rows],
        at2=walk.last_at[before],
        at=walk.first_at[rows],
    )


def _skipped(stages: Stages) -> Rows:
    """What lies in the gaps that were jumped over."""
    walk, rows = stages.walk, stages.walk.out_of_order(lenient=stages.lenient)
    before = walk.last_at[walk.before[rows]]
    far = (walk.kind[rows] == KIND_POLL) & (walk.first_at[rows] - before > 1)
    rows, before = rows[far], before[far]
    steps, jumps = stages.steps, _jumps(stages)
    jumps = jumps[steps.at[jumps] - steps.at_before[jumps] > 1]
    staged_records = stages.of_record(steps.record[jumps])
    return stages.between(
        [
            (walk.run[rows], walk.partition_id[rows], before + 1, walk.first_at[rows] - 1),
            (staged_records["run"], staged_records["partition_id"], steps.at_before[jumps] + 1, steps.at[jumps] - 1),
        ]
    )


RULES: Mapping[str, Callable[[Stages], Rows]] = {
    "inconsistent-offsets": lambda stages: _in_log(stages, stages.versions.values_at > 1),
    "duplicate": lambda stages: _in_log(stages, stages.versions.offsets > 1),
    "key": _keys,
    "bound": _bounds,
    "reader": _readers,
    "value": _values,
    "read": _reads,
    "writer": _writers,
    "inside": _inside,
    "between": _between,
    "value-at": _skipped,
}
