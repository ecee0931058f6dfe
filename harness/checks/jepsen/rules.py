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
class RuleInputs:
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


def _in_log(inputs: RuleInputs, flagged: Column) -> Rows:
    rows = np.flatnonzero(flagged)
    versions = inputs.versions
    return rows_of(**inputs.of_value(versions.id[rows]), offset=versions.offset[rows], at=versions.index[rows])


def _keys(inputs: RuleInputs) -> Rows:
    """How many values each key's log has."""
    ids = np.flatnonzero(mark(inputs.records.ids, inputs.versions.id))
    number = np.bincount(inputs.records.key_of_id[ids], minlength=inputs.records.keys)
    return [row for row in _by_key(inputs, number) if row["number"]]


def _bounds(inputs: RuleInputs) -> Rows:
    return _by_key(inputs, inputs.bounds)


def _by_key(inputs: RuleInputs, number: Column) -> Rows:
    run, partition_id = inputs.records.of_key
    return rows_of(run=run, partition_id=partition_id, number=number)


def _readers(inputs: RuleInputs) -> Rows:
    """Who read first what lies where ok polls got to; of several values there, the least."""
    values, records = inputs.values, inputs.records
    bound = inputs.bounds[records.key_of_id]
    ids = np.flatnonzero((bound != NONE) & (values.last_at == bound))
    ids = ids[np.lexsort((records.of_id[2][ids], records.key_of_id[ids]))]
    ids = ids[begins_of(records.key_of_id[ids])]
    staged_values = inputs.of_value(ids)
    return rows_of(
        run=staged_values["run"], partition_id=staged_values["partition_id"], operation=values.first_reader[ids]
    )


def _values(inputs: RuleInputs) -> Rows:
    values = inputs.values
    bound = inputs.bounds[inputs.records.key_of_id]
    nobody, unread = values.writer == NONE, ~values.read_ok
    passed = (values.last_at != NONE) & (bound != NONE) & (values.last_at <= bound)
    kept = ~values.read_any if inputs.lenient else np.ones(len(unread), bool)
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
        **inputs.of_value(ids),
        operation=values.writer[ids],
        op2=values.first_reader[ids],
        offset=values.ack_off[ids],
        at=values.first_at[ids],
        at2=values.last_at[ids],
        number=bits[ids],
    )


def _reads(inputs: RuleInputs) -> Rows:
    steps = inputs.steps
    at = np.flatnonzero(steps.aborted | steps.own)
    rows = steps.record[at]
    number = ABORTED * steps.aborted[at] + OWN * steps.own[at] + IN_OK * (inputs.records.status[rows] == STATUS_OK)
    return rows_of(
        **inputs.of_record(rows, "operation", "kind", "position", "value"),
        i_first=steps.i_first[at],
        op2=inputs.values.writer[inputs.records.id[rows]],
        at=steps.sent_first[at],
        number=number,
    )


def _writers(inputs: RuleInputs) -> Rows:
    """The senders of values that several operations sent."""
    several = inputs.values.first_writer < inputs.values.writer
    rows = np.flatnonzero(inputs.records.sends & several[inputs.records.id])
    return rows_of(**inputs.of_record(rows, "operation", "value"))


def _inside(inputs: RuleInputs) -> Rows:
    at = _jumps(inputs)
    steps, rows = inputs.steps, inputs.steps.record[at]
    return rows_of(
        **inputs.of_record(rows, "operation", "kind", "position"),
        i_first=steps.i_first[at],
        value=steps.value_before[at],
        value2=inputs.records.value[rows],
        at2=steps.at_before[at],
        at=steps.at[at],
    )


def _jumps(inputs: RuleInputs) -> Column:
    rows = inputs.steps.record
    moved = (inputs.records.kind[rows] == KIND_POLL) & inputs.records.moved[rows]
    return np.flatnonzero(inputs.steps.jumps & ~moved)


def _between(inputs: RuleInputs) -> Rows:
    walk, rows = inputs.walk, inputs.walk.out_of_order(lenient=inputs.lenient)
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


def _skipped(inputs: RuleInputs) -> Rows:
    """What lies in the gaps that were jumped over."""
    walk, rows = inputs.walk, inputs.walk.out_of_order(lenient=inputs.lenient)
    before = walk.last_at[walk.before[rows]]
    far = (walk.kind[rows] == KIND_POLL) & (walk.first_at[rows] - before > 1)
    rows, before = rows[far], before[far]
    steps, jumps = inputs.steps, _jumps(inputs)
    jumps = jumps[steps.at[jumps] - steps.at_before[jumps] > 1]
    staged_records = inputs.of_record(steps.record[jumps])
    return inputs.between(
        [
            (walk.run[rows], walk.partition_id[rows], before + 1, walk.first_at[rows] - 1),
            (staged_records["run"], staged_records["partition_id"], steps.at_before[jumps] + 1, steps.at[jumps] - 1),
        ]
    )


RULES: Mapping[str, Callable[[RuleInputs], Rows]] = {
    "inconsistent-offsets": lambda inputs: _in_log(inputs, inputs.versions.values_at > 1),
    "duplicate": lambda inputs: _in_log(inputs, inputs.versions.offsets > 1),
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
