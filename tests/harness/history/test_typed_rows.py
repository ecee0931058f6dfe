"""Every row's type says what its table's columns are, and a query that answers with others is told so."""

from collections.abc import Mapping
from typing import Any, TypedDict

import pyarrow as pa
import pytest

from harness.history.schema import client_rows, cluster_rows, evidence_rows, internal_rows
from harness.history.schema.evidence_schemas import EVIDENCE, EVIDENCE_REQUIRED, FINDINGS
from harness.history.schema.lawful_rows import REQUIRED, WORDS
from harness.history.schema.schemas import TABLES
from harness.history.schema.typed_rows import AnyRow, Column, RowsOf, TypedRows, columns_of, typed, unlike

SCHEMAS = {**TABLES, "findings": FINDINGS, **{f"evidence_{name}": schema for name, schema in EVIDENCE.items()}}
NEVER_NULL = {**REQUIRED, **{f"evidence_{name}": columns for name, columns in EVIDENCE_REQUIRED.items()}}
TYPES: Mapping[str, type[AnyRow]] = {
    each.name: each.row
    for module in (client_rows, cluster_rows, evidence_rows, internal_rows)
    for each in vars(module).values()
    if isinstance(each, RowsOf)
}


class Small(TypedDict):
    run: int
    name: str | None
    nodes: list[int]


SMALL = pa.schema({"run": pa.int32(), "name": pa.string(), "nodes": pa.list_(pa.int32())})


def test_every_table_has_a_type() -> None:
    assert TYPES.keys() == SCHEMAS.keys()


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_table_s_type_has_its_columns_in_their_order(table: str) -> None:
    assert list(columns_of(TYPES[table])) == SCHEMAS[table].names
    assert unlike(TYPES[table], SCHEMAS[table]) == []


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_column_may_be_null_in_the_type_where_it_may_be_in_the_table(table: str) -> None:
    columns = columns_of(TYPES[table])
    fields = {name for name, column in columns.items() if not column.nullable}
    assert fields == {"run", *NEVER_NULL[table]}, "run is numbered by whoever reads"


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_vocabulary_is_the_same_in_the_type_and_in_what_is_lawful(table: str) -> None:
    fields = {name: column.words for name, column in columns_of(TYPES[table]).items() if column.words}
    lawful = {place.split(".")[1]: words for place, words in WORDS.items() if place.split(".")[0] == table}
    assert fields == lawful


def test_the_links_of_faults_have_a_type_of_their_own() -> None:
    assert columns_of(cluster_rows.LinkRow) == {
        "source": Column(kind=int, nullable=True), "client": Column(kind=int, nullable=True),
        "target": Column(kind=int, nullable=False),
    }  # fmt: skip


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
