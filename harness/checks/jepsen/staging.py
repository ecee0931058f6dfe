"""Where a check's stages meet: Parquet files in a scratch folder.

The later stages look at the earlier ones' results several times. Kept as cached plans, each look would be planned
through all stages again, and the results would hold memory; a file has neither history nor weight.
"""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema


class Staging:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def staged(self, name: str, frame: DataFrame) -> DataFrame:
        """The same rows, computed now and read from a file from here on."""
        path = str(self._folder / name)
        frame.write.parquet(path)
        return self._spark.read.schema(frame.schema).parquet(path)

    def tables(self, tables: Mapping[str, pa.Table]) -> dict[str, DataFrame]:
        frames = {}
        for name, table in tables.items():
            path = self._folder / f"{name}.parquet"
            pq.write_table(table, path)
            frames[name] = self._spark.read.schema(from_arrow_schema(table.schema)).parquet(str(path))
        return frames
