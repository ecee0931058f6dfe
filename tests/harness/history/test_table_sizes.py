"""How much memory a table takes is known before it is read, also where its texts lie in lists and structs."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.history.schema.parquet_tables import check_size
from harness.history.schema.schemas import TABLES

COUNT = 3_000
NAME = "a-topic-with-a-name-that-is-long-enough-to-be-looked-at"
ROWS: dict[str, dict[str, Any]] = {
    "transaction_state": {"transactional_id": NAME, "partitions": [{"topic": NAME, "partition": 1}] * 5},
    "consumer_offsets": {"group": NAME, "members": [NAME] * 5},
    "topics": {"topic": NAME},
}


@pytest.mark.parametrize("name", ROWS)
def test_texts_count_with_all_their_repetitions_wherever_they_lie(tmp_path: Path, name: str) -> None:
    schema = TABLES[name]
    row = {**dict.fromkeys(schema.names), "run": 0, **ROWS[name]}
    pq.write_table(pa.Table.from_pylist([row] * COUNT, schema=schema), tmp_path / "t.parquet")

    with pq.ParquetFile(tmp_path / "t.parquet") as file:
        needed = check_size(tmp_path / "t.parquet", file.metadata, schema.names)

    texts = 6 if len(ROWS[name]) == 2 else 1
    assert texts * len(NAME) * COUNT <= needed < 2 * texts * len(NAME) * COUNT + 1_000_000
