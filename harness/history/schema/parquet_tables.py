"""Reads tables that somebody else may have written: checks their schema and the memory they need.

A Parquet file of some hundred kilobytes can contain twenty million rows, or a text a million times. Its footer shows
the size in memory, so a file that is too large is refused before it is read.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import HarnessError, UsageError
from harness.history.schema.schemas import ADDED_COLUMNS, SCHEMA_VERSION, SCHEMAS
from harness.history.schema.texts import TEXT_MAX
from harness.history.schema.typed_rows import R
from harness.host import memory
from harness.values import is_number

_ROW_BYTES, _CELL_BYTES = 200, 60  # bytes of a row as a dict, approximately
_WORTH_A_LOOK, _NOT_WORTH_A_LOOK = 1 << 22, 1 << 18
_VERSION = b"kafka_chaos_schema"
_SEALED_AGAIN = "seal the run again from its journals"


def read_table(
    path: Path,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    filters: Sequence[tuple[str, str, Any]] | None = None,
    remedy: str = _SEALED_AGAIN,
    source: BinaryIO | None = None,
) -> pa.Table:
    """Returns the table in the columns of its schema.

    source: the open file, if it is open already; `path` is then only for messages.
    """
    schema = SCHEMAS[table]
    names = list(columns or schema.names)
    try:
        metadata = pq.read_metadata(source or path)
        check_footer(path, metadata, table, remedy=remedy)
        check_size(path, metadata, names, source=source)
        return pq.read_table(source or path, columns=names, schema=schema, filters=filters)
    except (pa.ArrowException, OSError) as error:
        raise HarnessError(unsound(path, error, remedy)) from error


def rows_of(kind: type[R], table: pa.Table, place: object, beside: memory.Together | None = None) -> list[R]:
    """The rows as dicts if these fit into memory; `beside`: bytes in use already."""
    needed = max(table.num_rows * row_bytes(table.num_columns), table.nbytes)
    (beside or memory.Together()).take(f"{place}: its {table.num_rows} rows", needed)
    rows: list[R] = table.to_pylist()
    return rows


def check_texts(table: pa.Table, place: object, remedy: str = _SEALED_AGAIN) -> None:
    """Raises HarnessError for a text so long that displaying it would take minutes."""
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
    table: str,
    *,
    remedy: str = _SEALED_AGAIN,
) -> None:
    """Columns that were added within the version may be absent: they are read as null.

    Raises HarnessError for a missing column or one of another type, UsageError for another version's table.
    """
    found = metadata.schema.to_arrow_schema()
    version = (found.metadata or {}).get(_VERSION, b"0")
    if not is_number(version.decode(errors="replace")):
        raise HarnessError(f"{path}: its schema {version[:20]!r} is no number: {remedy}")
    if int(version) > SCHEMA_VERSION:
        raise UsageError(f"{path}: schema {int(version)} is newer than this kafka-chaos ({SCHEMA_VERSION}); update it")
    if version == b"1":
        raise UsageError(f"{path}: schema 1 is of kafka-chaos 0.1, which was never released, and is not read any more")
    absent = ADDED_COLUMNS.get(table, ())
    for field in SCHEMAS[table]:
        places = found.get_all_field_indices(field.name)
        if len(places) > 1:
            raise HarnessError(f"{path}: column {field.name} is there {len(places)} times: {remedy}")
        if not places and field.name not in absent:
            raise HarnessError(f"{path}: column {field.name} is missing: {remedy}")
        if places and not _same(found.field(places[0]).type, field.type):
            kind = found.field(places[0]).type
            raise HarnessError(f"{path}: column {field.name} is of type {kind}, not {field.type}: {remedy}")


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """A column that was empty may have been written without a type; the name of a list's elements is irrelevant."""
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _same(found.value_type, wanted.value_type)
    if pa.types.is_dictionary(found):
        return _same(found.value_type, wanted)
    return bool(found.equals(wanted) or pa.types.is_null(found))


def check_size(path: Path, metadata: pq.FileMetaData, columns: Iterable[str], *, source: BinaryIO | None = None) -> int:
    """The memory in bytes that the columns take once read. Raises HarnessError if that is more than allowed,
    ArrowException or OSError for a footer that cannot be read.
    """
    if (few := _few_bytes(metadata)) is not None:
        return few
    wanted = set(columns)
    stored, most, texts = 0, 0, set()
    for group, chunk in column_chunks(source or path, metadata):
        name = chunk.path_in_schema.partition(".")[0]
        if name not in wanted:
            continue
        fixed = 0 if chunk.physical_type == "BYTE_ARRAY" else 8 * chunk.num_values
        stored += max(chunk.total_uncompressed_size, fixed)
        if chunk.physical_type == "BYTE_ARRAY":
            texts.add(chunk.path_in_schema)
            most += chunk.total_uncompressed_size * max(group.num_rows, chunk.num_values)  # a list has many
    memory.check(f"{path}: its {metadata.num_rows} rows", stored)
    # A repeated text is stored once in the file: only then its length must be checked.
    needed = stored + (most if most <= _WORTH_A_LOOK else _bytes_of_texts(source or path, sorted(texts)))
    memory.check(f"{path}: its {metadata.num_rows} rows", needed)
    return needed


def column_chunks(
    source: Path | BinaryIO, metadata: pq.FileMetaData
) -> Iterator[tuple[pq.RowGroupMetaData, pq.ColumnChunkMetaData]]:
    """What the footer says of each column of each row group. Raises ArrowException or OSError.

    pyarrow (26.0) declares `RowGroupMetaData.column` as one that throws nothing, so a footer with a histogram of
    another length, or with an encrypted column, ends the process there. A reader looks at the same, and tells it: one
    that reads no row is made first.
    """
    with pq.ParquetFile(source, metadata=metadata) as file:
        for number in range(metadata.num_row_groups):
            next(file.reader.iter_batches(0, [number], None, False), None)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            yield group, group.column(place)


def _few_bytes(metadata: pq.FileMetaData) -> int | None:
    """The most that a small table can take by the sizes of its row groups, without a look at each column; else None.

    Of a thousand runs nearly all tables are small, and making a reader for each costs as much as reading it.
    """
    if any(metadata.schema.column(place).max_repetition_level for place in range(metadata.num_columns)):
        return None  # of a list, rows do not tell how many values there are
    most = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows < 0 or group.total_byte_size < 0:
            return None
        most += group.num_rows * (group.total_byte_size + 8 * group.num_columns)
    return most if most <= _NOT_WORTH_A_LOOK else None


def _bytes_of_texts(source: Path | BinaryIO, places: list[str]) -> int:
    """The bytes of the texts with all repetitions. They are read with each text once."""
    with pq.ParquetFile(source, read_dictionary=places) as file:
        return sum(_bytes_of(column) for batch in file.iter_batches(columns=places) for column in batch.columns)


def _bytes_of(column: pa.Array) -> int:
    """The same of a column, or of what lies in a list or struct."""
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)
    if pa.types.is_list(column.type):
        return _bytes_of(column.flatten())
    if pa.types.is_struct(column.type):
        return sum(_bytes_of(each) for each in column.flatten())
    return int(column.nbytes)
