"""Reads the small tables that campaigns and nights keep, which somebody else may have written, as rows.

Refused in one line, before it is read where the footer tells: what takes too much memory, together with all else that
the same reader holds; a column that is missing or of another type; a null, a text or a number that none of ours has.
Further columns are left alone, so that an older reader reads newer folders.
"""

from collections.abc import Collection, Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.history.schema.parquet_tables import check_size, check_texts, column_chunks
from harness.host import memory

_ROW_BYTES, _CELL_BYTES = 1000, 100  # of a row, and of a value in it, in all forms in which pages hold them at a time

_NUMBER_MAX = 1e15  # seconds, or records a second: their sums and spans are numbers too


def kept_rows(
    files: FilesBelow,
    name: str,
    schema: pa.Schema,
    *,
    may_lack: Collection[str] = (),
    may_be_null: Collection[str] = (),
    words: Mapping[str, Collection[str]] | None = None,
    held: memory.Together,
    wrong: str,
    remedy: str,
) -> list[dict[str, Any]]:
    """may_lack: columns; words: column -> what it may say; wrong: follows the place in a message.

    Raises FileNotFoundError, HarnessError."""
    place = files.top / name
    try:
        with files.open(name) as file:
            metadata = pq.read_metadata(file)
            columns = _columns(metadata.schema.to_arrow_schema(), schema, may_lack)
            needed = check_size(place, metadata, columns, source=file)
            held.take(f"{place}: its {metadata.num_rows} rows", max(needed, _bytes_of_rows(file, metadata, columns)))
            file.seek(0)
            found = pq.read_table(file, columns=columns)
        found.validate(full=True)  # texts that are no UTF-8, for example
        for field in found.schema:
            _check(found[field.name], field.name, may_be_null=may_be_null, words=(words or {}).get(field.name))
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise HarnessError(f"{place}{wrong} ({str(error).partition(chr(10))[0][:200]}): {remedy}") from error
    check_texts(found, place, remedy)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _columns(found: pa.Schema, wanted: pa.Schema, may_lack: Collection[str]) -> list[str]:
    """Raises ValueError."""
    columns = []
    for field in wanted:
        places = found.get_all_field_indices(field.name)
        if not places and field.name in may_lack:
            continue
        if len(places) != 1:
            raise ValueError(f"column {field.name} is there {len(places)} times")
        held = found.field(places[0]).type
        lists = pa.types.is_list(field.type) and pa.types.is_list(held)
        if held != field.type and not (lists and held.value_type == field.type.value_type):
            raise ValueError(f"column {field.name} is of type {held}, not {field.type}")
        columns.append(field.name)
    return columns


def _bytes_of_rows(file: BinaryIO, metadata: pq.FileMetaData, columns: Collection[str]) -> int:
    cells = 0
    for group, chunk in column_chunks(file, metadata):
        if chunk.path_in_schema.partition(".")[0] in columns:
            cells += max(group.num_rows, chunk.num_values)
    return int(metadata.num_rows * _ROW_BYTES + cells * _CELL_BYTES)


def _check(column: pa.ChunkedArray, name: str, *, may_be_null: Collection[str], words: Collection[str] | None) -> None:
    """Raises ValueError."""
    if name not in may_be_null and column.null_count:
        raise ValueError(f"column {name} lacks a value")
    if pa.types.is_list(column.type) and pc.list_flatten(column).null_count:
        raise ValueError(f"column {name} lacks a value in a list")
    if pa.types.is_floating(column.type) and len(column.drop_null()):
        if not pc.all(pc.is_finite(column)).as_py():
            raise ValueError(f"column {name} has a number that is not finite")
        if pc.max(pc.abs(column)).as_py() > _NUMBER_MAX:
            raise ValueError(f"column {name} has a number beyond {_NUMBER_MAX:g}")
    if words is not None:
        for value in pc.unique(column).to_pylist():
            if value is not None and value not in words:
                raise ValueError(f"{name} is {value[:40]!r}, none of {', '.join(words)}")
