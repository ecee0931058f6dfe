"""Histories told by hand for the search of cycles: operations with event indices, what they sent and what they read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from harness.checks.cycles import Limits, Mode, Search, search_histories

INT, LONG, BYTE = pa.int32(), pa.int64(), pa.int8()
RECORDS = {
    "run": INT,
    "kind": BYTE,
    "operation": LONG,
    "partition_id": INT,
    "micro_operation": INT,
    "position": INT,
    "offset": LONG,
    "value": LONG,
}
OPS = {
    "run": INT,
    "operation": LONG,
    "process": INT,
    "function": pa.string(),
    "status": BYTE,
    "invoked_ns": LONG,
    "completed_ns": LONG,
    "invocation_index": LONG,
    "completion_index": LONG,
}
ORDERS = {"run": INT, "partition_id": INT, "index": LONG, "value": LONG}
STATUS = {"ok": 0, "fail": 1, "info": 2}


@dataclass(kw_only=True)
class SearchHistory:
    """One history. Keys and values are whatever they are called; they are numbered in order of first sight."""

    operations: list[tuple[Any, ...]] = field(default_factory=list)
    records: list[tuple[Any, ...]] = field(default_factory=list)
    orders: dict[str, Sequence[Any]] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def operation(self, index: int, begin: int, f: str, kind: str) -> None:
        self.operations.append((index, 0, f, STATUS[kind], begin, index, begin, index))

    def sent(self, index: int, micro_operation: int, key: str, value: Any) -> None:
        self._record(0, index, micro_operation, key, value)

    def read(self, index: int, micro_operation: int, key: str, values: Sequence[Any]) -> None:
        for value in values:
            self._record(1, index, micro_operation, key, value)

    def _record(self, kind: int, index: int, micro_operation: int, key: str, value: Any) -> None:
        place = len(self.records)
        self.records.append((kind, index, self.partition_id(key), micro_operation, place, None, self.number(value)))

    def partition_id(self, key: str) -> int:
        if key not in self.keys:
            self.keys.append(key)
        return self.keys.index(key)

    def number(self, value: Any) -> int:
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)

    def key_of(self, partition_id: int) -> Any:
        return int(self.keys[partition_id]) if self.keys[partition_id].isdigit() else self.keys[partition_id]

    def value_of(self, _tp: int, value: int) -> Any:
        return self.values[value]

    def ordered(self) -> list[tuple[int, int, int]]:
        return [
            (self.partition_id(key), index, self.number(value))
            for key, order in self.orders.items()
            for index, value in enumerate(order)
        ]


def table_of(schema: Mapping[str, pa.DataType], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.values(), strict=True)], [*schema])


def searched(
    histories: Sequence[SearchHistory],
    mode: Mode,
    *,
    ww_deps: bool | Collection[int] = True,
    limits: Limits | None = None,
) -> Search:
    """All of them in one search; run i is the i-th."""
    orders = [(run, *row) for run, history in enumerate(histories) for row in history.ordered()]
    records = [(run, *row) for run, history in enumerate(histories) for row in history.records]
    ops = [(run, *row) for run, history in enumerate(histories) for row in history.operations]
    return search_histories(
        records=table_of(RECORDS, records),
        operations=table_of(OPS, ops),
        orders=table_of(ORDERS, orders),
        mode=mode,
        ww_deps=ww_deps,
        limits=limits,
        key_of=lambda run, partition_id: histories[run].key_of(partition_id),
    )
