"""Rows of tables for tests that tell some columns only: the others are null."""

from typing import cast

from harness.history.schema.typed_rows import R, columns_of


def row_of(row: type[R], /, **values: object) -> R:
    columns = columns_of(row)
    assert values.keys() <= columns.keys(), f"{row.__name__} has no {', '.join(sorted(values.keys() - columns.keys()))}"
    return cast(R, dict.fromkeys(columns) | values)
