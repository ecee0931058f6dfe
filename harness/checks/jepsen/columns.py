"""The records of all histories as columns, numbered so that what is said of one value lies in one place of an array.

The rules ask little of most records: a poll that reads on where it was shows nothing but that its values were read.
What is known of every value (version_orders.py, values.py) and of every record beside its neighbour (steps.py) is one
pass over columns each; what is left is a few rows of a history without anomalies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from harness.history.schema.schemas import KIND_SEND
from harness.history.schema.typed_rows import OfRun

Column: TypeAlias = Any  # an array of NumPy
NONE = -(1 << 62)  # where a column of whole numbers has nothing
_ROOM = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Records:
    """One row per record. id: number of its (run, partition_id, value); operation_rank: dense, rising with (run, op).

    offset: NONE where the history has none.
    of_id: run, partition_id and value of each id; of_key: run and partition_id of each key.
    """

    run: Column
    partition_id: Column
    operation: Column
    process: Column
    kind: Column
    status: Column
    position: Column
    offset: Column
    value: Column
    invocation_index: Column
    transactional: Column
    moved: Column
    completed: Column
    id: Column
    operation_rank: Column
    key: Column  # of (run, partition_id), dense
    of_id: tuple[Column, Column, Column]
    key_of_id: Column
    of_key: tuple[Column, Column]
    first_key: Column  # of each run

    @property
    def keys(self) -> int:
        return len(self.of_key[0])

    @property
    def ids(self) -> int:
        return len(self.of_id[0])

    @property
    def sends(self) -> Column:
        return self.kind == KIND_SEND


def records_of(tables: Mapping[str, pa.Table], *, completed_only: bool) -> Records:
    """tables: of all histories together, run rising."""
    rows = tables["records"]
    if completed_only:
        rows = rows.filter(rows["completed"])
    column = {
        name: _numbers(rows, name)
        for name in (
            "run",
            "partition_id",
            "operation",
            "process",
            "kind",
            "status",
            "position",
            "value",
            "invocation_index",
        )
    }
    run, partition_id, value = column["run"], column["partition_id"], column["value"]
    number, of_id, first_key = _ids(tables, run, partition_id, value)
    return Records(
        **column,
        offset=_numbers(rows, "offset"),
        id=number,
        of_id=of_id,
        key=_of_run(first_key, run) + partition_id,
        key_of_id=first_key[of_id[0]] + of_id[1],
        first_key=first_key,
        of_key=(tables["partitions"]["run"].to_numpy(), tables["partitions"]["partition_id"].to_numpy()),
        **{name: _truths(rows, name) for name in ("transactional", "completed", "moved")},
        operation_rank=_operations(run, column["operation"]),
    )


def _numbers(table: pa.Table, name: str) -> Column:
    column = _in_one(table, name)
    return column.fill_null(NONE).to_numpy() if column.null_count else column.to_numpy()


def _truths(table: pa.Table, name: str) -> Column:
    return _in_one(table, name).to_numpy(zero_copy_only=False)


def _in_one(table: pa.Table, name: str) -> pa.Array:
    """What is in one piece already is not copied."""
    column = table[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _ids(
    tables: Mapping[str, pa.Table], run: Column, partition_id: Column, value: Column
) -> tuple[Column, tuple[Column, Column, Column], Column]:
    """Ids, what each stands for, and the first key of each run.

    There is room for every value in every key, where that is not much more than there are records.
    """
    runs = (
        int(max((tables[name]["run"].to_numpy().max(initial=-1) for name in ("records", "partitions")), default=-1)) + 1
    )
    keys = np.bincount(tables["partitions"]["run"].to_numpy(), minlength=runs).astype(np.int64)
    values = np.bincount(tables["value_names"]["run"].to_numpy(), minlength=runs).astype(np.int64)
    first_key = np.cumsum(keys) - keys
    first = np.cumsum(keys * values) - keys * values
    place = partition_id * _of_run(values, run)
    place += value
    if runs > 1:
        place += first[run]
    size = int((keys * values).sum())
    if size <= 4 * len(run) + _ROOM:
        number = place
        known = np.arange(size)
    else:
        known, number = np.unique(place, return_inverse=True)
    of_run = np.searchsorted(first + keys * values, known, side="right")
    within = known - first[of_run]
    of_id = of_run.astype(np.int32), (within // values[of_run]).astype(np.int32), within % values[of_run]
    return number, of_id, first_key


def _of_run(numbers: Column, run: Column) -> Column:
    """The number of each row's run; of the only one there is, it alone."""
    return numbers[0] if len(numbers) == 1 else numbers[run]


def _operations(run: Column, operation: Column) -> Column:
    if not len(run):
        return np.empty(0, np.int64)
    begins = _changes(operation) if run[0] == run[-1] else _changes(run, operation)
    rows = np.flatnonzero(begins)
    order = np.lexsort((operation[rows], run[rows]))
    new = _changes(run[rows][order], operation[rows][order])
    number = np.empty(len(rows), np.int64)
    number[order] = np.cumsum(new) - 1
    return np.repeat(number, np.diff(rows, append=len(run)))


def _changes(*columns: Column) -> Column:
    """Where one of the columns differs from the row before; the first row does."""
    differs = np.zeros(len(columns[0]), bool)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def begins_of(*columns: Column) -> Column:
    """The first row of each group of equal rows that lie together."""
    return np.flatnonzero(_changes(*columns))


def mark(size: int, places: Column) -> Column:
    marked = np.zeros(size, bool)
    marked[places] = True
    return marked


def lowest(size: int, places: Column, numbers: Column) -> Column:
    """The least number of each place; NONE where there is none."""
    found = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(found, places, numbers)
    return np.where(found == np.iinfo(np.int64).max, NONE, found)


def highest(size: int, places: Column, numbers: Column) -> Column:
    found = np.full(size, NONE)
    np.maximum.at(found, places, numbers)
    return found


def grouped(*columns: Column) -> tuple[Column, Column]:
    """The rows where each distinct tuple stands first in order, and the number of each row's tuple, in that order."""
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), bool)
    new[begins_of(*(column[order] for column in columns))] = True
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return order[new], number


class Timeline:
    """Events of several groups, to be asked which of a group's happened before a moment."""

    def __init__(self, group: Column, operation: Column) -> None:
        self.order = np.lexsort((operation, group))
        self.operation = operation[self.order]
        self._known = np.unique(operation)
        self._room = len(self._known) + 1
        self._place = group[self.order] * self._room + np.searchsorted(self._known, self.operation)

    def until(self, group: Column, operation: Column, *, inclusive: bool) -> tuple[Column, Column]:
        """First and (exclusive) last place in order of the group's events before each moment, or at it too."""
        earlier = np.searchsorted(self._known, operation, side="right" if inclusive else "left")
        start = np.searchsorted(self._place, group * self._room)
        return start, np.searchsorted(self._place, group * self._room + earlier)


class RuleRow(OfRun, total=False):
    """What a rule flags: any of these, of which a rule always says the same.

    position: place in the operation; i_first: where its key first stands there. at, at2: indexes in the key's log.
    number: any further number. In the rules `value` and `bound` any may be null that the value or key has not: who uses
    one of these has asked for it before.
    """

    partition_id: int
    operation: int
    op2: int | None
    process: int
    kind: int
    position: int
    i_first: int
    value: int
    value2: int
    offset: int
    at: int
    at2: int
    number: int


def rows_of(**columns: Column) -> list[RuleRow]:
    """Rows for answers; what a column has not is None."""
    table = pa.table({name: pa.array(column, mask=column == NONE) for name, column in columns.items()})
    rows: list[RuleRow] = table.to_pylist()
    unknown = columns.keys() - RuleRow.__annotations__.keys()
    assert not unknown, f"no column of a rule: {unknown}"
    return rows
