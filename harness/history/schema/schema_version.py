"""The version that the schema of every table is marked with."""

from collections.abc import Mapping

import pyarrow as pa

SCHEMA_VERSION = 2


def schema_with(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """Returns the schema with its version in the metadata."""
    return pa.schema(
        [pa.field(name, kind) for name, kind in columns.items()],
        metadata={b"kafka_chaos_schema": str(SCHEMA_VERSION).encode()},
    )
