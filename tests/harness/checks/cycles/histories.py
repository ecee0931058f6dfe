"""Histories told by hand for the search of cycles: operations with event indices, what they sent and what they read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from harness.checks.cycles import Limits, Mode, Search, search_histories

INT, LONG, BYTE = pa.int32(), pa.int64(), pa.int8()
RECORDS = {"run": INT, "kind": BYTE, "op": LONG, "tp": INT, "mop": INT, "i": INT, "off": LONG, "value": LONG}
OPS = {
    "run": INT, "op": LONG, "process": INT, "f": pa.string(), "status": BYTE, "t0": LONG, "t1": LONG, "i0": LONG,
    "i1": LONG,
}  # fmt: skip
ORDERS = {"run": INT, "tp": INT, "index": LONG, "value": LONG}
STATUS = {"ok": 0, "fail": 1, "info": 2}


@dataclass(kw_only=True)
class Told:
    """One history. Keys and values are whatever they are called; they are numbered in order of first sight."""

    ops: list[tuple[Any, ...]] = field(default_factory=list)
    records: list[tuple[Any, ...]] = field(default_factory=list)
    orders: dict[str, Sequence[Any]] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def operation(self, index: int, begin: int, f: str, kind: str) -> None:
        self.ops.append((index, 0, f, STATUS[kind], begin, index, begin, index))

    def sent(self, index: int, mop: int, key: str, value: Any) -> None:
        self._record(0, index, mop, key, value)

    def read(self, index: int, mop: int, key: str, values: Sequence[Any]) -> None:
        for value in values:
            self._record(1, index, mop, key, value)

    def _record(self, kind: int, index: int, mop: int, key: str, value: Any) -> None:
        place = len(self.records)
        self.records.append((kind, index, self.tp(key), mop, place, None, self.number(value)))

    def tp(self, key: str) -> int:
        if key not in self.keys:
            self.keys.append(key)
        return self.keys.index(key)

    def number(self, value: Any) -> int:
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)

    def key_of(self, tp: int) -> Any:
        return int(self.keys[tp]) if self.keys[tp].isdigit() else self.keys[tp]

    def value_of(self, _tp: int, value: int) -> Any:
        return self.values[value]

    def ordered(self) -> list[tuple[int, int, int]]:
        return [
            (self.tp(key), index, self.number(value))
            for key, order in self.orders.items()
            for index, value in enumerate(order)
        ]


def frame(
    spark: SparkSession, folder: Path, name: str, schema: Mapping[str, pa.DataType], rows: Sequence[tuple[Any, ...]]
) -> DataFrame:
    """Through a file, as in a run: then Spark knows how little it is."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    table = pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.values(), strict=True)], [*schema])
    pq.write_table(table, folder / f"{name}.parquet")
    return spark.read.parquet(str(folder / f"{name}.parquet"))


def search_told(
    spark: SparkSession, folder: Path, told: Sequence[Told], mode: Mode, *, ww_deps: bool | Collection[int] = True,
    limits: Limits | None = None,
) -> Search:  # fmt: skip
    """All of them in one job; run i is the i-th."""
    orders = [(run, *row) for run, history in enumerate(told) for row in history.ordered()]
    records = [(run, *row) for run, history in enumerate(told) for row in history.records]
    ops = [(run, *row) for run, history in enumerate(told) for row in history.ops]
    return search_histories(
        spark, records=frame(spark, folder, "records", RECORDS, records), ops=frame(spark, folder, "ops", OPS, ops),
        orders=frame(spark, folder, "orders", ORDERS, orders), mode=mode, ww_deps=ww_deps, limits=limits,
        key_of=lambda run, tp: told[run].key_of(tp),
    )  # fmt: skip
