"""What is asked of the rows of a large table as they pass by in this process (`Tables.batches`): groups, and few rows.

Only the answer is held. To ask Spark for these costs more than the whole pass does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from harness.checks.spark.tables import Tables

# How the answers of several batches come to one.
_TOGETHER: Mapping[str, str] = {"min": "min", "max": "max", "sum": "sum", "count": "sum"}
Asked = Mapping[str, tuple[str, Literal["min", "max", "sum", "count"]]]


def grouped(batches: Iterable[pa.Table], keys: Sequence[str], asked: Asked) -> pa.Table | None:
    """A row for each group: `keys`, and by name what is asked of a column (sums wrap). None without a batch."""
    found = [_grouped(batch, keys, list(asked.values())).rename_columns([*keys, *asked]) for batch in batches]
    if not found:
        return None
    again = [(name, _TOGETHER[function]) for name, (_, function) in asked.items()]
    return _grouped(pa.concat_tables(found), keys, again).rename_columns([*keys, *asked])


def first_of(batches: Iterable[pa.Table], keys: Sequence[str], by: Sequence[str]) -> pa.Table | None:
    """Of each group the row that comes first by these columns. None without a batch."""
    found = [_first_of(batch, keys, by) for batch in batches]
    return _first_of(pa.concat_tables(found), keys, by) if found else None


def log_rows_at(tables: Tables, wanted: pa.Table, columns: Sequence[str]) -> Iterator[pa.Table]:
    """These columns of the rows of replicas' logs that have one of the keys: the columns of `wanted`, its partition
    among them."""
    here = pc.field("partition_id").isin(wanted.column("partition_id").unique())
    read = list(dict.fromkeys([*wanted.column_names, *columns]))
    return _with_keys(tables.batches("replica_log", read, here), wanted, columns)


def records_at(
    tables: Tables, wanted: pa.Table, columns: Sequence[str], only: pc.Expression | None = None
) -> Iterator[pa.Table]:
    """The same of the records of partitions (`Tables.records`)."""
    read = list(dict.fromkeys([*wanted.column_names, *columns]))
    return _with_keys(records_of(tables, read, only), wanted, columns)


def records_of(tables: Tables, columns: Sequence[str], only: pc.Expression | None = None) -> Iterable[pa.Table]:
    """All records of partitions (`Tables.records`)."""
    for run, number in sorted(tables.set_apart):
        there = ~((pc.field("run") == run) & (pc.field("partition_id") == number))
        only = there if only is None else only & there
    return tables.batches("records", columns, only)


def _with_keys(batches: Iterable[pa.Table], wanted: pa.Table, columns: Sequence[str]) -> Iterator[pa.Table]:
    """For each join the keys are hashed anew: not for fewer rows than there are keys."""
    waiting: list[pa.Table] = []
    for batch in chain(batches, [None]):
        if batch is not None:
            waiting.append(batch)
        if waiting and (batch is None or sum(map(len, waiting)) >= len(wanted)):
            rows = pa.concat_tables(waiting).join(wanted, wanted.column_names, join_type="left semi")
            waiting.clear()
            if len(rows):
                yield rows.select(list(columns))


def _first_of(rows: pa.Table, keys: Sequence[str], by: Sequence[str]) -> pa.Table:
    rows = rows.sort_by([(name, "ascending") for name in by])
    placed = rows.select(list(keys)).append_column("row", pa.array(range(len(rows)), pa.int64()))
    return rows.take(_grouped(placed, keys, [("row", "min")]).column("row_min"))


def _grouped(rows: pa.Table, keys: Sequence[str], asked: Sequence[tuple[str, str]]) -> pa.Table:
    answered = rows.group_by(list(keys), use_threads=False).aggregate(asked)
    return answered.select([*keys, *(f"{column}_{function}" for column, function in asked)])
