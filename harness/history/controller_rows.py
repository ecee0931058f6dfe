"""The controller's half of a history as it lies on disk during a run: controller.jsonl and the snapshots beside it."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness import memory
from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.history.journal import CONTROLLER_ROWS
from harness.history.parquet_tables import read_table
from harness.history.schemas import TABLES

ROWS = CONTROLLER_ROWS  # in RUN/history, and once more in RUN/history/books for what was read afterwards
BOOKS = "books"

Identity = list[str | int]


class _Line(msgspec.Struct):
    table: str
    row: dict[str, Any]
    identity: Identity | None = None


_BYTES_IN_MEMORY = 6  # a byte of JSON as rows, about
_REMEDY = "no run of ours wrote this: put the file back as its run left it"
_TOLD = {
    "partitions": ("topic", "part"),
    "partition_states": ("topic", "part", "t"),
    "replica_snapshots": ("topic", "part", "snapshot", "node"),
    "value_names": ("value", "text"),
    "topics": ("topic",),
}  # what the sealing asks of every row
_ALSO = {"controller_seen": "controllers"}  # rows that become those of another table


@cache
def _shape(table: str) -> type[msgspec.Struct] | None:
    """What a row of the table may be; None where it becomes none."""
    schema = TABLES.get(_ALSO.get(table, table))
    if schema is None:
        return None
    told = _TOLD.get(table, ())
    fields: list[Any] = [(field.name, _type(field.type)) for field in schema if field.name in told]
    fields += [(field.name, _type(field.type) | None, None) for field in schema if field.name not in told]
    return msgspec.defstruct(table, fields)


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return list[_type(kind.value_type)]  # type: ignore[misc]
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)]
    return bool if pa.types.is_boolean(kind) else str


def read_rows(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table in order of first writing; of rows with one identity only the last."""
    tables: dict[str, dict[Any, dict[str, Any]]] = {}
    if not path.exists():
        return {}
    memory.check(f"{path}: its rows", path.stat().st_size * _BYTES_IN_MEMORY)
    decoder = msgspec.json.Decoder(_Line)
    texts = path.read_bytes().rstrip(b"\n").split(b"\n")
    for number, text in enumerate(texts):
        if not text:
            continue
        try:
            line = decoder.decode(text)
            if (shape := _shape(line.table)) is not None:
                msgspec.convert(line.row, shape)
        except (msgspec.ValidationError, RecursionError) as error:
            raise HarnessError(f"{path}:{number + 1}: no row of the controller's ({error}); {_REMEDY}") from error
        except msgspec.DecodeError as error:
            if number + 1 < len(texts):
                raise HarnessError(f"{path}:{number + 1}: cannot be read, and lines follow it; {_REMEDY}") from error
            break  # written by a process that was killed in the middle of it
        key: Any = tuple(line.identity) if line.identity is not None else number
        tables.setdefault(line.table, {})[key] = line.row
    return {table: list(rows.values()) for table, rows in tables.items()}


def snapshot_path(folder: Path, snapshot: int) -> Path:
    return folder / f"snapshot-{snapshot:05d}.parquet"


def write_snapshot(
    files: FilesBelow,
    *,
    run: int,
    snapshot: int,
    node: int,
    topic: str,
    partition: int,
    offsets: Sequence[int],
    epochs: Sequence[int],
    values: Sequence[int],
) -> None:
    """One replica's records as rows of the table replica_log, without tp, in a file of their own."""
    count = len(offsets)
    schema = TABLES["replica_log"]
    columns = {
        "run": np.full(count, run, np.int32),
        "snapshot": np.full(count, snapshot, np.int32),
        "node": np.full(count, node, np.int32),
        "topic": pa.array([topic] * count, pa.string()),
        "part": np.full(count, partition, np.int32),
        "tp": pa.nulls(count, pa.int32()),
        "off": np.array(offsets, np.int64),
        "epoch": _known(np.array(epochs, np.int32)),
        "value": np.array(values, np.int64),
    }
    with files.replacing(snapshot_path(Path(), snapshot).name) as file:
        pq.write_table(pa.table(columns, schema=schema), file, compression="zstd")


def _known(epochs: "np.ndarray[Any, np.dtype[np.int32]]") -> pa.Array:
    """A record written before brokers knew epochs has none, which is told as -1."""
    return pa.array(epochs, mask=epochs < 0)


def read_snapshots(folder: Path) -> pa.Table:
    paths = sorted(folder.glob("snapshot-*.parquet"))
    schema = TABLES["replica_log"]
    held, tables = memory.Together(), [schema.empty_table()]
    for path in paths:
        tables.append(_snapshot(path, schema))
        held.take(f"{path}: its {len(tables[-1])} rows", tables[-1].nbytes)
    return pa.concat_tables(tables)


def _snapshot(path: Path, schema: pa.Schema) -> pa.Table:
    table = read_table(path, schema, remedy="take the snapshot away; the checks say what they miss")
    for name in ("snapshot", "node", "topic", "part", "off", "value"):
        if table.column(name).null_count:
            raise HarnessError(f"{path}: column {name} lacks values: take the snapshot away")
    return table
