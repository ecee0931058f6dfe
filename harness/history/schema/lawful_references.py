"""Checks references between the tables of a run: a number that one table names must exist exactly once in the other.

A record of a partition or transaction without a row there would be judged as if nothing had been promised for it, and
of two rows for the same number the checks would use one. Clients and operations only explain: a record itself shows
what was promised for it, so it is judged in the same way if its client or operation has no row.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError
from harness.history.schema.lawful_rows import REMEDY
from harness.history.schema.schemas import KIND_FINAL_POLL

if TYPE_CHECKING:  # with pandas: a third of what a command takes to begin
    from pyarrow.dataset import FileSystemDataset

_ONCE: dict[str, tuple[tuple[str, ...], ...]] = {
    "partitions": (("partition_id",), ("topic", "partition")),
    "processes": (("process",),),
    "transactions": (("transaction",),),
    "internal_replica_snapshots": (("snapshot",),),
    "replica_snapshots": (("snapshot", "node", "topic", "partition"),),
    "topics": (("topic",),),
    "faults": (("fault",),),
    "steps": (("step",),),
    "activity": ((),),
    "flows": (("flow",),),
    "value_origins": (("topic", "value"),),
}
# (table, its column) -> the table that has each of these numbers, in which column
_NAMED: dict[tuple[str, str], tuple[str, str]] = {
    ("records", "partition_id"): ("partitions", "partition_id"),
    ("records", "transaction"): ("transactions", "transaction"),
    ("jumps", "partition_id"): ("partitions", "partition_id"),
    ("replica_log", "partition_id"): ("partitions", "partition_id"),
    ("replica_log", "snapshot"): ("replica_snapshots", "snapshot"),
    ("group_events", "transaction"): ("transactions", "transaction"),
}
HAS_REFERENCES = frozenset(table for table, _ in _NAMED)
_COUNTED = ("sends", "reads", "final_reads")  # activity's, together every record not read from a single replica

Small = Mapping[str, Mapping[int, Sequence[Mapping[str, Any]]]]
Numbers = Set[tuple[int, Any]]  # (run, number)


@dataclass(kw_only=True)
class Named:
    """The numbers that a large table names. rows: by run, without reads from single replicas."""

    numbers: dict[str, Numbers] = field(default_factory=dict)
    rows: Counter[int] = field(default_factory=Counter)


def named_in(name: str, file: "FileSystemDataset") -> Named:
    """Reads a piece at a time and keeps each combination of numbers once per piece."""
    columns = ["run", *(column for table, column in _NAMED if table == name)]
    also = ["kind", "replica"] if name == "records" else []
    found: dict[str, set[tuple[int, Any]]] = {column: set() for column in columns[1:]}
    named = Named()
    for batch in file.to_batches(columns=[*columns, *also]):
        pieces = pa.Table.from_batches([batch]).group_by(columns)
        for row in pieces.aggregate([([], "count_all")]).to_pylist():
            run = row["run"]
            for column, numbers in found.items():
                numbers.add((run, row[column]))
            named.rows[run] += row["count_all"]
        if also:
            apart = pc.and_(pc.equal(batch["kind"], KIND_FINAL_POLL), pc.is_valid(batch["replica"]))
            for value in pc.value_counts(batch["run"].filter(apart)).to_pylist():
                named.rows[value["values"]] -= value["counts"]
    named.numbers = {**found}
    return named


def check_together(
    small: Small,
    large: Mapping[str, Named],
    place_of: Callable[[str, int], object],
    is_there: Callable[[str, int], bool],
) -> None:
    """Raises HarnessError for the first invalid reference.

    `is_there`: whether a run has a table, which old runs may lack; references to a missing table are not checked.
    """
    for table, keys in _ONCE.items():
        for run, rows in small[table].items():
            for key in keys:
                _check_once(rows, key, place_of(table, run))
    for (table, column), (other, other_column) in _NAMED.items():
        known = {(run, row[other_column]) for run, rows in small[other].items() for row in rows}
        for run, number in sorted(_numbers(table, column, small, large) - known):
            if is_there(other, run):
                place = place_of(other, run)
                raise HarnessError(f"{place_of(table, run)}: {column} {number} is not in {place}: {REMEDY}")
    records = large["records"]
    for run, count in records.rows.items():
        named = sum(row[name] for row in small["activity"].get(run, ()) for name in _COUNTED)
        if named != count and is_there("activity", run):
            place = place_of("activity", run)
            raise HarnessError(f"{place} counts {named} records, and there are {count}: {REMEDY}")


def _check_once(rows: Sequence[Mapping[str, Any]], key: Sequence[str], place: object) -> None:
    times = Counter(tuple(row[name] for name in key) for row in rows)
    twice = next((values for values, count in times.items() if count > 1), None)
    if twice is not None:
        which = ", ".join(f"{name} {value}" for name, value in zip(key, twice, strict=True)) or "the run"
        raise HarnessError(f"{place}: {which} is there {times[twice]} times: {REMEDY}")


def _numbers(table: str, column: str, small: Small, large: Mapping[str, Named]) -> Numbers:
    if table in large:
        named = large[table].numbers.get(column, frozenset())
    else:
        named = {(run, row[column]) for run, rows in small[table].items() for row in rows}
    return {each for each in named if each[1] is not None}
