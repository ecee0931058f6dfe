"""Rows with a type: every column's name and what it may hold are known to the type checker, and held by the reader.

A row is a dict as Arrow gives it; its type is a `TypedDict`. Rows are found by a `RowsOf`, which says under which name
they are kept and of which type they are, so that nobody who asks for some has to say what they look like.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import (
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
    """kind: int, float, str, bool, a list of one of them, or a TypedDict. words: all it may be, where that is known."""

    kind: object
    nullable: bool
    words: tuple[object, ...] = ()


@cache
def columns_of(row: type[AnyRow]) -> Mapping[str, Column]:
    return {name: _column(hint) for name, hint in get_type_hints(row).items()}


def _column(hint: object) -> Column:
    kinds = get_args(hint) if isinstance(hint, types.UnionType) or get_origin(hint) is Union else (hint,)
    known = [kind for kind in kinds if kind is not type(None)]
    assert len(known) == 1, f"a column holds one kind of thing: {hint}"
    kind = known[0]
    if get_origin(kind) is not Literal:
        return Column(kind=kind, nullable=len(kinds) > 1)
    words = get_args(kind)
    return Column(kind=type(words[0]), nullable=len(kinds) > 1, words=words)


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
