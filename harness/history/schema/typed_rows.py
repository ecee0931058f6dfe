"""Rows with a type: every column's name and what it may hold are known to the type checker, and held by the reader.

A row is a dict as Arrow gives it; its type is a `TypedDict`. Rows are found by a `RowsOf`, which says under which name
they are kept and of which type they are, so that nobody who asks for some has to say what they look like. A type whose
numbers are those of column_types.py is a table's declaration: its schema is made from it.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypedDict,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import pyarrow as pa

from harness.history.schema.column_types import ADDED, Within

AnyRow = Mapping[str, object]  # of any type: what is looked at by names that are only known when it runs
R = TypeVar("R", bound=AnyRow)
RowType = TypeVar("RowType", bound=AnyRow, covariant=True)


class OfRun(TypedDict):
    """What every row has."""

    run: int


@dataclass(frozen=True)
class RowsOf(Generic[RowType]):
    """Rows of one type, under the name of their table or of the family whose question they answer."""

    name: str
    row: type[RowType]


class TypedRows:
    """Rows of several types, each found by its `RowsOf`; none where nothing is kept under the name."""

    def __init__(self, rows: Mapping[str, Sequence[AnyRow]] | None = None) -> None:
        self._rows = rows or {}

    def __getitem__(self, wanted: RowsOf[R]) -> Sequence[R]:
        return cast(Sequence[R], self.named(wanted.name))

    def named(self, name: str) -> Sequence[AnyRow]:
        return self._rows.get(name, ())

    def __or__(self, other: Mapping[str, Sequence[AnyRow]]) -> "TypedRows":
        """The same, but for what the other has under its names."""
        return TypedRows({**self._rows, **other})

    def __add__(self, other: "TypedRows") -> "TypedRows":
        """The rows of both."""
        names = dict.fromkeys((*self._rows, *other._rows))
        return TypedRows({name: [*self.named(name), *other.named(name)] for name in names})


@dataclass(frozen=True)
class Column:
    """kind: int, float, str, bool, a list of one of them, or a TypedDict. words: all it may be, where that is known.
    arrow: its type in a table; None: a number whose size is not declared. within: of a number. added: tables of this
    version may lack it."""

    kind: object
    nullable: bool
    words: tuple[object, ...] = ()
    arrow: pa.DataType | None = None
    within: Within | None = None
    added: bool = False


_ARROW: Mapping[object, pa.DataType] = {str: pa.string(), bool: pa.bool_(), float: pa.float64()}


@cache
def columns_of(row: type[AnyRow]) -> Mapping[str, Column]:
    return {name: _column(hint) for name, hint in get_type_hints(row, include_extras=True).items()}


@cache
def arrow_schema(row: type[AnyRow], metadata: tuple[tuple[str, str], ...] = ()) -> pa.Schema:
    """The table of such rows."""
    columns = columns_of(row)
    unknown = [name for name, column in columns.items() if column.arrow is None]
    assert not unknown, f"{row.__name__} does not declare the size of {', '.join(unknown)}"
    return pa.schema([(name, column.arrow) for name, column in columns.items()], metadata=dict(metadata))


def _column(hint: object) -> Column:
    hint, annotations = _bare(hint)
    kinds = get_args(hint) if isinstance(hint, types.UnionType) or get_origin(hint) is Union else (hint,)
    known = [kind for kind in kinds if kind is not type(None)]
    assert len(known) == 1, f"a column holds one kind of thing: {hint}"
    kind, further = _bare(known[0])
    words = get_args(kind) if get_origin(kind) is Literal else ()
    kind = type(words[0]) if words else kind
    annotations = (*annotations, *further)
    return Column(
        kind=_without_sizes(kind),
        nullable=len(kinds) > 1,
        words=words,
        arrow=next((each for each in annotations if isinstance(each, pa.DataType)), None) or _arrow_type(kind),
        within=next((each for each in annotations if isinstance(each, Within)), None),
        added=ADDED in annotations,
    )


def _bare(hint: object) -> tuple[object, tuple[object, ...]]:
    """A type, and what is said of it beside."""
    return (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())


def _without_sizes(kind: object) -> object:
    return list[_bare(get_args(kind)[0])[0]] if get_origin(kind) is list else kind  # type: ignore[misc]


def _arrow_type(kind: object) -> pa.DataType | None:
    if get_origin(kind) is list:
        element = _column(get_args(kind)[0]).arrow
        return None if element is None else pa.list_(element)
    if is_typeddict(kind):
        fields = {name: column.arrow for name, column in columns_of(cast(type[AnyRow], kind)).items()}
        return None if None in fields.values() else pa.struct(fields)
    return _ARROW.get(kind)


def row_of(wanted: RowsOf[R], what: object, **others: object) -> dict[str, object]:
    """A row of that table: the columns that `what` has under their names, and `others`: what it calls otherwise."""
    assert others.keys() <= columns_of(wanted.row).keys(), f"no columns of {wanted.name}: {sorted(others)}"
    return {name: getattr(what, name) for name in columns_of(wanted.row) if hasattr(what, name)} | others


def typed(row: type[R], table: pa.Table) -> list[R]:
    """The rows of what a query answered. Whoever asks for other columns than the type has, or of other types, hears it.

    By the schema alone: it costs nothing beside the query.
    """
    differences = unlike(row, table.schema)
    if differences:
        raise TypeError(f"rows of {row.__name__}: {'; '.join(differences)}")
    rows: list[R] = table.to_pylist()
    return rows


def unlike(row: type[AnyRow], schema: pa.Schema) -> list[str]:
    """What differs between a row's type and columns, both ways; a column without a type holds nulls alone."""
    columns = columns_of(row)
    missing = [f"column {name} is not there" for name in columns if name not in schema.names]
    further = [f"column {name} is not declared by the type" for name in schema.names if name not in columns]
    others = [
        f"column {field.name} is of type {field.type}"
        for field in schema
        if field.name in columns and not _holds(columns[field.name].kind, field.type)
    ]
    return missing + further + others


def _holds(kind: Any, found: pa.DataType) -> bool:
    if pa.types.is_null(found):
        return True
    if pa.types.is_list(found):
        return get_origin(kind) is list and _holds(_column(get_args(kind)[0]).kind, found.value_type)
    if pa.types.is_struct(found):
        return is_typeddict(kind) and not unlike(kind, pa.schema(list(found)))
    if pa.types.is_boolean(found):
        return kind is bool
    if pa.types.is_integer(found):
        return kind is int
    return kind is (float if pa.types.is_floating(found) else str if pa.types.is_string(found) else None)
