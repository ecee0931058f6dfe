"""Every row's type says what its table's columns are, and a query that answers with others is told so."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

import pyarrow as pa
import pytest

from harness.history.schema.cluster_rows import LinkRow
from harness.history.schema.column_types import Added, Int32, Natural64, Within
from harness.history.schema.schemas import ROWS
from harness.history.schema.typed_rows import Column, RowsOf, TypedRows, arrow_schema, columns_of, typed, unlike


class Small(TypedDict):
    run: int
    name: str | None
    nodes: list[int]


SMALL = pa.schema({"run": pa.int32(), "name": pa.string(), "nodes": pa.list_(pa.int32())})


class Declared(TypedDict):
    run: Int32
    offset: Added[Natural64 | None]
    age: Literal["old", "fresh"]
    links: list[LinkRow] | None


def test_a_row_s_type_declares_its_table() -> None:
    link = pa.struct({"source": pa.int32(), "client": pa.int32(), "target": pa.int32()})
    assert arrow_schema(Declared) == pa.schema(
        {"run": pa.int32(), "offset": pa.int64(), "age": pa.string(), "links": pa.list_(link)}
    )
    assert unlike(Declared, arrow_schema(Declared)) == []
    columns = columns_of(Declared)
    assert columns["offset"] == Column(kind=int, nullable=True, arrow=pa.int64(), within=Within(0), added=True)
    assert columns["age"] == Column(kind=str, nullable=False, words=("old", "fresh"), arrow=pa.string())


def test_a_number_without_a_size_declares_no_table() -> None:
    with pytest.raises(AssertionError, match="Small does not declare the size of run, nodes"):
        arrow_schema(Small)


@pytest.mark.parametrize("table", ROWS)
def test_every_declared_column_that_came_later_may_be_null(table: str) -> None:
    assert all(column.nullable for column in columns_of(ROWS[table]).values() if column.added)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"run": pa.int32(), "name": pa.string()}, "column nodes is not there"),
        (
            {**dict(zip(SMALL.names, SMALL.types, strict=True)), "more": pa.int64()},
            "column more is not declared by the type",
        ),
        ({"run": pa.int32(), "name": pa.int64(), "nodes": pa.list_(pa.int32())}, "column name is of type int64"),
        ({"run": pa.bool_(), "name": pa.string(), "nodes": pa.list_(pa.int32())}, "column run is of type bool"),
        ({"run": pa.int32(), "name": pa.string(), "nodes": pa.list_(pa.string())}, "column nodes is of type list"),
    ],
)
def test_an_answer_of_other_columns_than_its_type_is_refused(columns: Mapping[str, Any], why: str) -> None:
    with pytest.raises(TypeError, match=f"rows of Small: {why}"):
        typed(Small, pa.schema(columns).empty_table())


def test_an_answer_of_its_columns_is_rows() -> None:
    rows = [{"run": 0, "name": None, "nodes": [1]}, {"run": 1, "name": "n", "nodes": []}]
    assert typed(Small, pa.Table.from_pylist(rows, SMALL)) == rows
    nothing = pa.table({"run": pa.array([0]), "name": pa.nulls(1), "nodes": pa.array([[1]])})
    assert typed(Small, nothing) == rows[:1], "a column of nulls has no type of its own"


def test_rows_of_which_none_are_kept_are_none() -> None:
    rows = TypedRows({"small": [{"run": 0, "name": None, "nodes": []}]})
    assert len(rows[RowsOf("small", Small)]) == 1
    assert list(rows[RowsOf("other", Small)]) == []
