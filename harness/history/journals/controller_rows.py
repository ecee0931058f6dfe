"""The controller's part of a history during a run: controller.jsonl and the snapshots beside it."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.history.journals.journal import CONTROLLER_ROWS
from harness.history.schema.cluster_rows import ControllerRow
from harness.history.schema.parquet_tables import read_table
from harness.history.schema.schemas import TABLES
from harness.history.schema.typed_rows import RowsOf, TypedRows
from harness.host import memory

ROWS = CONTROLLER_ROWS  # in RUN/history, and in RUN/history/books for what was read afterwards
BOOKS = "books"

Identity = list[str | int]


class _Line(msgspec.Struct):
    table: str
    row: dict[str, Any]
    identity: Identity | None = None


_BYTES_IN_MEMORY = 6  # bytes of memory per byte of JSON, approximately
_REMEDY = "no run of ours wrote this: put the file back as its run left it"
_REQUIRED = {
    "partitions": ("topic", "partition"),
    "partition_states": ("topic", "partition", "time_ns"),
    "replica_snapshots": ("topic", "partition", "snapshot", "node"),
    "internal_partition_states": ("topic", "partition", "time_ns"),
    "internal_broker_events": ("topic", "partition", "time_ns"),
    "internal_replica_snapshots": ("topic", "partition", "snapshot", "node"),
    "consumer_offsets": ("snapshots", "partition", "offset"),
    "transaction_state": ("snapshots", "partition", "offset"),
    "value_names": ("value", "name"),
    "topics": ("topic",),
    "flows": ("flow", "input", "output", "exactly_once", "input_told", "output_told", "asked_ns"),
}  # columns that sealing requires of every row
# What a partition is of which the final read says nothing.
_DEFAULTS: dict[str, dict[str, Any]] = {"partitions": {"read_to_end": False, "note_text": "not read"}}
CONTROLLER_SEEN = RowsOf("controller_seen", ControllerRow)  # as the observer heard it
_ALSO = {CONTROLLER_SEEN.name: "controllers"}  # rows that become rows of another table


@cache
def _shape(table: str) -> type[msgspec.Struct] | None:
    """The allowed columns of a row of the table; None if it becomes no row."""
    schema = TABLES.get(_ALSO.get(table, table))
    if schema is None:
        return None
    required = _REQUIRED.get(table, ())
    fields: list[Any] = [(field.name, _type(field.type)) for field in schema if field.name in required]
    fields += [(field.name, _type(field.type) | None, None) for field in schema if field.name not in required]
    return msgspec.defstruct(table, fields)


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return list[_type(kind.value_type)]  # type: ignore[misc]
    if pa.types.is_struct(kind):
        return msgspec.defstruct("item", [(field.name, _type(field.type) | None, None) for field in kind])
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)]
    return bool if pa.types.is_boolean(kind) else str


def read_rows(path: Path) -> TypedRows:
    """The rows of each table in order of first writing; of rows with the same identity only the last."""
    tables: dict[str, dict[Any, dict[str, Any]]] = {}
    if not path.exists():
        return TypedRows()
    memory.check(f"{path}: its rows", path.stat().st_size * _BYTES_IN_MEMORY)
    decoder = msgspec.json.Decoder(_Line)
    texts = path.read_bytes().rstrip(b"\n").split(b"\n")
    for number, text in enumerate(texts):
        if not text:
            continue
        try:
            line = decoder.decode(text)
            row = dict(line.row)
            if (shape := _shape(line.table)) is not None:
                msgspec.convert(row, shape)
        except (msgspec.ValidationError, RecursionError) as error:
            raise HarnessError(f"{path}:{number + 1}: no row of the controller's ({error}); {_REMEDY}") from error
        except msgspec.DecodeError as error:
            if number + 1 < len(texts):
                raise HarnessError(f"{path}:{number + 1}: cannot be read, and lines follow it; {_REMEDY}") from error
            break  # written by a process that was killed in the middle of it
        key: Any = tuple(line.identity) if line.identity is not None else number
        tables.setdefault(line.table, {})[key] = row
    return TypedRows({table: [_whole(table, row) for row in rows.values()] for table, rows in tables.items()})


def _whole(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """What its controller did not record of it is null, or what it is where nobody says otherwise."""
    schema = TABLES.get(_ALSO.get(table, table))
    return row if schema is None else dict.fromkeys(schema.names) | {"run": 0} | _DEFAULTS.get(table, {}) | row


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
    """Writes one replica's records as rows of the table replica_log, without partition_id, into a file of their own."""
    count = len(offsets)
    schema = TABLES["replica_log"]
    columns = {
        "run": np.full(count, run, np.int32),
        "snapshot": np.full(count, snapshot, np.int32),
        "node": np.full(count, node, np.int32),
        "topic": pa.array([topic] * count, pa.string()),
        "partition": np.full(count, partition, np.int32),
        "partition_id": pa.nulls(count, pa.int32()),
        "offset": np.array(offsets, np.int64),
        "leader_epoch": _known(np.array(epochs, np.int32)),
        "value": np.array(values, np.int64),
    }
    with files.replacing(snapshot_path(Path(), snapshot).name) as file:
        pq.write_table(pa.table(columns, schema=schema), file, compression="zstd")


def _known(epochs: "np.ndarray[Any, np.dtype[np.int32]]") -> pa.Array:
    """A record from before leader epochs has none, which is stored as -1."""
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
    table = read_table(path, "replica_log", remedy="take the snapshot away; the checks say what they miss")
    for name in ("snapshot", "node", "topic", "partition", "offset", "value"):
        if table.column(name).null_count:
            raise HarnessError(f"{path}: column {name} lacks values: take the snapshot away")
    return table
