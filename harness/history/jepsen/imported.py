"""An imported history: tables like those of a run, and the few facts that these have no column for.

Keys and values are numbered in the order of Clojure's sets, so Jepsen's "first of a set" is the smallest number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.jepsen.clojure_order import set_orders, set_orders_of_numbers
from harness.history.schema.schemas import TABLES

# A send inside an operation that is called :poll, and a poll inside one called :send: Jepsen learns offsets from
# them and nothing else.
KIND_STRAY_SEND, KIND_STRAY_POLL = 10, 11

# Of the columns of records those that the rules ask for, and beside them invocation_index, the event index of the
# invocation; completed: whether the operation ever was; moved: the operation's rebalance log names the key;
# transactional: its sends may be a transaction (all but what our own export marks :batch? true).
IMPORTED_RECORDS: pa.Schema = pa.schema(
    [
        *(
            TABLES["records"].field(name)
            for name in (
                "run",
                "kind",
                "status",
                "operation",
                "process",
                "partition_id",
                "position",
                "offset",
                "value",
                "micro_operation",
            )
        ),
        ("invocation_index", pa.int64()),
        ("completed", pa.bool_()),
        ("transactional", pa.bool_()),
        ("moved", pa.bool_()),
    ]
)

# Keys that an operation names without a record. what: read_nothing (a poll's empty list) | assigned (by assign or
# subscribe) | direct (by an ok assign) | sought (assigned and sought to its beginning) | rebalanced (in the rebalance
# log) | left (there, and taken away last) | end (offset: the end offset of a :debug-topic-partitions).
IMPORTED_KEYS: pa.Schema = pa.schema(
    [
        ("run", pa.int32()),
        ("operation", pa.int64()),
        ("process", pa.int32()),
        ("status", pa.int8()),
        ("what", pa.string()),
        ("partition_id", pa.int32()),
        ("offset", pa.int64()),
    ]
)

SCHEMAS: Mapping[str, pa.Schema] = {
    **{name: TABLES[name] for name in ("operations", "partitions", "value_names")},
    "records": IMPORTED_RECORDS,
    "imported_keys": IMPORTED_KEYS,
}


@dataclass(frozen=True, kw_only=True)
class ImportedHistory:
    """tables: ops, records, partitions, value_names and imported_keys, all with run 0.

    keys[partition_id] and values[number]: what the history calls them. process_order: processes as Jepsen groups them.
    read_order: partitions that ok polls name, in order. last_ok: index and time of the last ok send, poll or txn;
    first_read: what it polled of partitions that no ok operation before it had touched. wide_reads, wide_writes:
    operations with so many keys that Jepsen lists them in set order.
    """

    name: str
    tables: Mapping[str, pa.Table]
    keys: Sequence[Any]
    values: Sequence[Any]
    process_order: Mapping[int, int]
    read_order: Sequence[int]
    last_ok: tuple[int, int] | None
    first_read: Mapping[int, Sequence[int]]
    wide_reads: frozenset[int]
    wide_writes: frozenset[int]


def together(histories: Sequence[ImportedHistory]) -> dict[str, pa.Table]:
    """Combines the tables of all histories; run is the index in the list. What there is one of is not copied."""
    joined = {}
    for name, schema in SCHEMAS.items():
        numbered = [
            table.set_column(0, schema.field(0), pa.array(np.full(table.num_rows, run, np.int32)))
            for run, table in ((run, history.tables[name]) for run, history in enumerate(histories))
            if table.num_rows
        ]
        joined[name] = pa.concat_tables(numbered).combine_chunks() if numbered else schema.empty_table()
    return joined


def in_set_order(known: Sequence[Any]) -> tuple[list[Any], Any]:
    """The same elements in set order, and the new number of each old one."""
    order, number_of = _in_order(np.array(set_orders(known), np.int64))
    return [known[place] for place in order], number_of


def numbers_in_set_order(known: "np.ndarray[Any, np.dtype[np.int64]]") -> tuple[list[Any], Any]:
    """The same for a column of distinct integers."""
    order, number_of = _in_order(set_orders_of_numbers(known.view(np.uint64)))
    return known[order].tolist(), number_of


def _in_order(orders: Any) -> tuple[Any, Any]:
    order = np.argsort(orders, kind="stable")
    number_of = np.empty(len(order), np.int64)
    number_of[order] = np.arange(len(order))
    return order, number_of


def table_of(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    count = len(next(iter(columns.values())))
    nothing = {kind: pa.nulls(count, kind) for kind in set(schema.types)}  # one of each kind is enough
    arrays = [
        _column(columns[name], kind)
        if name in columns
        else pa.array(np.zeros(count, np.int32))
        if name == "run"
        else nothing[kind]
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _column(column: Any, kind: pa.DataType) -> pa.Array:
    return column.cast(kind) if isinstance(column, pa.Array) else pa.array(column, kind, from_pandas=False)
