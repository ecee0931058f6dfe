"""The tables of one or many run folders, ready to be judged together.

Two tables grow with the load, `records` and `replica_log`: they stay in Spark. All others grow with what happened to
the cluster and are read as plain rows. Every row carries `run`, the place of its folder in the list, so that hundreds
of histories are one job.
"""

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from harness.errors import HarnessError
from harness.history.schemas import TABLES

LARGE = ("records", "replica_log")
# `ops` is only looked into for the operations that a finding names; `bins` and `value_names` are the page's.
SMALL = tuple(name for name in TABLES if name not in (*LARGE, "ops", "bins", "value_names"))
CORRUPT_READS = "corrupt_reads"  # the rows of `ops` that a client refused for their checksum, by its error's name
_CORRUPT = "Corrupt"  # CorruptRecordError, CorruptRecordException
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Tables:
    """records and replica_log as DataFrames; `small[name][run]` the rows of the others."""

    records: DataFrame
    replica_log: DataFrame
    record_count: int
    small: Mapping[str, Mapping[int, Sequence[Row]]]
    runs: int

    def rows(self, name: str, run: int) -> Sequence[Row]:
        return self.small[name].get(run, ())


@contextmanager
def open_tables(spark: SparkSession, table_folders: Sequence[Path]) -> Iterator[Tables]:
    """Loads `RUN/tables` folders; run i is the i-th. Several are staged as one set of files, renumbered."""
    staging = Path(tempfile.mkdtemp(prefix="kafka-chaos-tables-"))
    try:
        large: dict[str, DataFrame] = {}
        count = 0
        for name in LARGE:
            paths: list[str] = []
            for run, folder in enumerate(table_folders):
                rows = _row_count(folder / f"{name}.parquet")
                if rows == 0:
                    continue
                count += rows if name == "records" else 0
                paths.append(str(_numbered(folder / f"{name}.parquet", run, staging)))
            large[name] = read_large(spark, name, paths)
        small: dict[str, dict[int, Sequence[Row]]] = {
            name: {run: read_small(folder, name, run) for run, folder in enumerate(table_folders)} for name in SMALL
        }
        small[CORRUPT_READS] = {run: _corrupt_reads(folder, run) for run, folder in enumerate(table_folders)}
        yield Tables(
            records=large["records"], replica_log=large["replica_log"], record_count=count, small=small,
            runs=len(table_folders),
        )  # fmt: skip
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _row_count(path: Path) -> int:
    if not path.exists():
        return 0
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowInvalid, OSError) as error:
        raise HarnessError(f"{path} is no Parquet file ({error}): seal the run again from its journals") from error


def _numbered(path: Path, run: int, staging: Path) -> Path:
    """The file itself when its rows already carry this number, else a copy that does."""
    file = pq.ParquetFile(path)
    column = file.schema_arrow.get_field_index("run")
    groups = [file.metadata.row_group(group).column(column).statistics for group in range(file.num_row_groups)]
    if all(s is not None and s.has_min_max and s.min == s.max == run for s in groups):
        return path
    copy = staging / f"{path.stem}-{run}.parquet"
    with pq.ParquetWriter(copy, file.schema_arrow, compression="zstd") as writer:
        for batch in file.iter_batches():
            number = pa.array([run] * batch.num_rows, pa.int32())
            writer.write_batch(batch.set_column(column, file.schema_arrow.field(column), number))
    return copy


def read_large(spark: SparkSession, name: str, paths: Sequence[str]) -> DataFrame:
    schema = from_arrow_schema(TABLES[name])
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*paths)


def read_small(folder: Path, name: str, run: int) -> list[Row]:
    """Rows in the order they were written; an absent table is an empty one (the run may have ended early)."""
    path = folder / f"{name}.parquet"
    if not path.exists():
        return []
    known = set(TABLES[name].names)
    missing = dict.fromkeys(TABLES[name].names)
    return [
        {**missing, **{key: value for key, value in row.items() if key in known}, "run": run}
        for row in pq.read_table(path).to_pylist()
    ]


def _corrupt_reads(folder: Path, run: int) -> list[Row]:
    path = folder / "ops.parquet"
    if not path.exists():
        return []
    refused = pq.read_table(path, filters=pc.match_substring(pc.field("error"), _CORRUPT))
    return [{**row, "run": run} for row in refused.to_pylist()]


def tables_of(spark: SparkSession, folder: Path, arrow: Mapping[str, pa.Table], runs: int) -> Tables:
    """Tables whose rows are numbered already, through files in `folder`: how tests judge many histories at once."""
    large = {}
    for name in LARGE:
        path = folder / f"{name}.parquet"
        pq.write_table(arrow[name], path)
        large[name] = read_large(spark, name, [str(path)] if arrow[name].num_rows else [])
    small: dict[str, dict[int, list[Row]]] = {}
    for name in SMALL:
        by_run: dict[int, list[Row]] = defaultdict(list)
        for row in arrow[name].to_pylist() if name in arrow else ():
            by_run[row["run"]].append(row)
        small[name] = by_run
    refused: dict[int, list[Row]] = defaultdict(list)
    for row in arrow["ops"].to_pylist() if "ops" in arrow else ():
        if _CORRUPT in (row["error"] or ""):
            refused[row["run"]].append(row)
    small[CORRUPT_READS] = refused
    return Tables(
        records=large["records"], replica_log=large["replica_log"], record_count=arrow["records"].num_rows,
        small=small, runs=runs,
    )  # fmt: skip
