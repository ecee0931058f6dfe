"""Reads tables that somebody else may have written: held against their schema, and against the memory that is allowed.

A Parquet file of some hundred kilobytes can hold twenty million rows, or a text a million times. What a file would take
is known from its footer, so it is refused before it is read.
"""

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness import memory
from harness.errors import HarnessError, UsageError
from harness.history.schemas import SCHEMA_VERSION

_ROW_BYTES, _CELL_BYTES = 200, 60  # of a row as a dict, about
_WORTH_A_LOOK = 1 << 22
TEXT_MAX = 1 << 20  # bytes of a text in findings and their evidence; ours are some thousand
_VERSION = b"kafka_chaos_schema"
_SEALED_AGAIN = "seal the run again from its journals"


def read_table(
    path: Path,
    schema: pa.Schema,
    *,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    later: Container[str] = (),
    remedy: str = _SEALED_AGAIN,
    source: BinaryIO | None = None,
) -> pa.Table:
    """The table in the columns of its schema; `later`: those that may be absent, and are null then.

    source: the file where it is open already; `path` is then only what it is called.
    """
    names = list(columns or schema.names)
    try:
        metadata = pq.read_metadata(source or path)
        check_footer(path, metadata, schema, later=later, remedy=remedy)
        check_size(path, metadata, names)
        return pq.read_table(source or path, columns=names, schema=schema, filters=filters)
    except (pa.ArrowException, OSError) as error:
        raise HarnessError(unsound(path, error, remedy)) from error


def rows_of(table: pa.Table, place: object, beside: memory.Together | None = None) -> list[dict[str, Any]]:
    """The rows as dicts, where these fit into memory, `beside` what is held there."""
    needed = max(table.num_rows * row_bytes(table.num_columns), table.nbytes)
    (beside or memory.Together()).take(f"{place}: its {table.num_rows} rows", needed)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def check_texts(table: pa.Table, place: object, remedy: str = _SEALED_AGAIN) -> None:
    """Raises HarnessError for a text that nobody could read, and whose lines would take minutes to be laid out."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type) and (longest := pc.max(pc.binary_length(column)).as_py() or 0) > TEXT_MAX:
            raise HarnessError(f"{place}: a text of {longest} bytes in column {name}, more than {TEXT_MAX}: {remedy}")


def row_bytes(columns: int) -> int:
    return _ROW_BYTES + _CELL_BYTES * columns


def unsound(path: object, error: BaseException, remedy: str = _SEALED_AGAIN) -> str:
    return f"{path} is no sound table ({str(error).partition(chr(10))[0]}): {remedy}"


def check_footer(
    path: object,
    metadata: pq.FileMetaData,
    schema: pa.Schema,
    *,
    later: Container[str] = (),
    remedy: str = _SEALED_AGAIN,
) -> None:
    """Raises HarnessError where a column is missing or of another type, UsageError for a newer version's table."""
    found = metadata.schema.to_arrow_schema()
    version = (found.metadata or {}).get(_VERSION, b"0")
    if not version.isdigit():
        raise HarnessError(f"{path}: its schema {version!r} is no number: {remedy}")
    if int(version) > SCHEMA_VERSION:
        raise UsageError(f"{path}: schema {int(version)} is newer than this kafka-chaos ({SCHEMA_VERSION}); update it")
    for field in schema:
        places = found.get_all_field_indices(field.name)
        if len(places) > 1:
            raise HarnessError(f"{path}: column {field.name} is there {len(places)} times: {remedy}")
        if not places and field.name not in later:
            raise HarnessError(f"{path}: column {field.name} is missing: {remedy}")
        if places and not _same(found.field(places[0]).type, field.type):
            kind = found.field(places[0]).type
            raise HarnessError(f"{path}: column {field.name} is of type {kind}, not {field.type}: {remedy}")


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """A column that was empty may have been written without a type; how a list calls its elements is nothing."""
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _same(found.value_type, wanted.value_type)
    if pa.types.is_dictionary(found):
        return _same(found.value_type, wanted)
    return bool(found.equals(wanted) or pa.types.is_null(found))


def check_size(path: Path, metadata: pq.FileMetaData, columns: Iterable[str]) -> int:
    """How much memory the columns take, once read. Raises HarnessError where that is more than is allowed."""
    wanted = set(columns)
    stored, most, texts = 0, 0, set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            name = chunk.path_in_schema.partition(".")[0]
            if name not in wanted:
                continue
            fixed = 0 if chunk.physical_type == "BYTE_ARRAY" else 8 * chunk.num_values
            stored += max(chunk.total_uncompressed_size, fixed)
            if chunk.physical_type == "BYTE_ARRAY":
                texts.add(name)
                most += chunk.total_uncompressed_size * group.num_rows
    memory.check(f"{path}: its {metadata.num_rows} rows", stored)
    # A text that stands in many rows is stored once: only then is it worth while to look how long it is.
    needed = stored + (most if most <= _WORTH_A_LOOK else _bytes_of_texts(path, sorted(texts)))
    memory.check(f"{path}: its {metadata.num_rows} rows", needed)
    return needed


def _bytes_of_texts(path: Path, columns: list[str]) -> int:
    """What the texts take, each as often as it stands there. They are read with each text once."""
    total = 0
    with pq.ParquetFile(path, read_dictionary=columns) as file:
        for batch in file.iter_batches(columns=columns):
            for column in batch.columns:
                if pa.types.is_dictionary(column.type):
                    lengths = pc.binary_length(column.dictionary).take(column.indices)
                    total += pc.sum(lengths.cast(pa.int64())).as_py() or 0
                else:
                    total += column.nbytes
    return total
