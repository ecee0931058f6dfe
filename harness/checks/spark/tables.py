"""The tables of one or many run folders, to be judged together.

Tables that grow with the load, `records`, `replica_log` and `value_names`, stay in Spark. All others grow with the
cluster's events and are read as plain rows. Every row has `run`, the index of its folder in the list, so that hundreds
of histories are one job.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.dataset import Dataset, FileSystemDataset, ParquetFileFormat, dataset
from pyarrow.fs import LocalFileSystem
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from harness.checks.spark.session import are_few, sized_for
from harness.checks.spark.standalone import staging_parent
from harness.errors import HarnessError
from harness.history.schema.client_rows import ACTIVITY, ActivityRow, OperationRow
from harness.history.schema.cluster_rows import PARTITIONS, TOPICS
from harness.history.schema.lawful_references import HAS_REFERENCES, Named, check_together, named_in
from harness.history.schema.lawful_rows import check_file, check_table
from harness.history.schema.parquet_tables import check_footer, check_size, column_chunks, row_bytes, unsound
from harness.history.schema.schemas import ROW_GROUP, TABLES
from harness.history.schema.typed_rows import AnyRow, OfRun, R, RowsOf
from harness.history.sealed.derived_tables import derived_of
from harness.host import memory
from harness.host.scratch import Scratch, scratch_folder

LARGE = ("records", "replica_log", "value_names", "jumps")
# `operations` are read for those that are noted below, and as a whole only by who needs them; `bins` is for the page.
SMALL = tuple(name for name in TABLES if name not in (*LARGE, "operations", "bins"))
# The rows of `operations` that a client rejected for a wrong checksum, by the error's name, and the clients' crashes.
CORRUPT_READS = RowsOf("corrupt_reads", OperationRow)
CRASHES = RowsOf("crashes", OperationRow)
_MANY_FILES = 8
_CORRUPT = "Corrupt"  # CorruptRecordError, CorruptRecordException
_CRASH = "crash"
_NOTED = pc.match_substring(pc.field("error"), _CORRUPT) | (pc.field("function") == _CRASH)
Small = Mapping[str, Mapping[int, Sequence[AnyRow]]]  # by table and run, of the type that `RowsOf` the table says


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The large tables as DataFrames, each opened (`large`) at its first use.

    `read_small` returns the rows of the small tables; `rows`, `every` and `by_run` return them by table.
    `batches` passes some columns of a large table by, as they are stored, for what only groups rows: to ask Spark for
    that takes longer, and all rows pass by in this process anyway, when they are held against their schema.
    row_count: of the large tables together, which says how their queries are best answered (session.py).
    """

    large: Callable[[str], DataFrame]
    batches: Callable[[str, Sequence[str], pc.Expression | None], Iterable[pa.Table]]
    record_count: int
    row_count: int
    read_small: Callable[[], Small]
    runs: int

    @property
    def every_record(self) -> DataFrame:
        return self.large("records")

    @property
    def records(self) -> DataFrame:
        """The records of partitions, without those whose topic incarnation is unknown (incarnations.py)."""
        apart = sorted(self.set_apart)
        records = self.every_record
        return records if not apart else records.where(f"(run, partition_id) not in ({', '.join(map(str, apart))})")

    @property
    def set_apart(self) -> frozenset[tuple[int, int]]:
        """(run, partition_id) of numbers that are not partitions but records that could not be assigned to one."""
        topics = {(row["run"], row["topic"]) for row in self.every(TOPICS) if row["undecided"]}
        if not topics:
            return frozenset()
        return frozenset(
            (row["run"], row["partition_id"]) for row in self.every(PARTITIONS) if (row["run"], row["topic"]) in topics
        )

    @property
    def replica_log(self) -> DataFrame:
        return self.large("replica_log")

    @property
    def operations(self) -> DataFrame:
        """Staged only when it is asked for."""
        return self.large("operations")

    @property
    def value_names(self) -> DataFrame:
        return self.large("value_names")

    @property
    def jumps(self) -> DataFrame:
        return self.large("jumps")

    @property
    def small(self) -> Small:
        return self.read_small()

    @property
    def activity(self) -> Mapping[int, ActivityRow]:
        """Activity by run; no entry for a run without records."""
        return {run: rows[0] for run, rows in self.by_run(ACTIVITY).items()}

    def with_records_of(self, runs: Sequence[int]) -> "Tables":
        """The same tables, in which Spark sees no records of the other runs."""
        records = self.records.where(self.records["run"].isin(list(runs)))
        return replace(self, large=lambda name: records if name == "records" else self.large(name))

    def by_run(self, table: RowsOf[R]) -> Mapping[int, Sequence[R]]:
        """The rows of each run that has any."""
        return _of(table, self.small)

    def rows(self, table: RowsOf[R], run: int) -> Sequence[R]:
        return self.by_run(table).get(run, ())

    def every(self, table: RowsOf[R]) -> list[R]:
        """The rows of all runs."""
        return [row for rows in self.by_run(table).values() for row in rows]


@contextmanager
def open_tables(spark: SparkSession, table_folders: Sequence[Path]) -> Iterator[Tables]:
    """Loads `RUN/tables` folders; run i is the i-th. Several are staged as one file a table, renumbered."""
    beside = staging_parent(spark.sparkContext.master or "", table_folders[0])
    folder = Scratch("kafka-chaos-tables-", beside=beside)
    staging = folder.path
    pool = ThreadPoolExecutor(1, thread_name_prefix="small-tables")
    try:
        reading = pool.submit(_small, table_folders)
        staged = {name: _in_one_file(name, table_folders, staging) for name in LARGE}
        checking = pool.submit(lambda: _check(reading.result(), staged, table_folders))

        def small_rows() -> Small:
            checking.result()
            return reading.result()

        count = sum(rows for _, rows in staged.values())
        session = sized_for(spark, count)

        @cache
        def large(name: str) -> DataFrame:
            path, rows = staged[name] if name in staged else _in_one_file(name, table_folders, staging)
            return _in_parts(read_large(session, name, [str(path)] if rows else []), count)

        def batches(name: str, columns: Sequence[str], only: pc.Expression | None) -> Iterable[pa.Table]:
            path, rows = staged[name]
            return _each_batch(_opened(name, [str(path)]), columns, only) if rows else ()

        yield Tables(
            large=large,
            batches=batches,
            record_count=staged["records"][1],
            row_count=count,
            read_small=small_rows,
            runs=len(table_folders),
        )
    finally:
        pool.shutdown()
        folder.remove()


def _small(table_folders: Sequence[Path]) -> Small:
    held = memory.Together()
    small = {name: _by_run(_rows_of(name, table_folders, held)) for name in SMALL}
    return small | _noted(_rows_of("operations", table_folders, held, only=_NOTED))


def _noted(operations: Iterable[OfRun]) -> dict[str, dict[int, Sequence[AnyRow]]]:
    """Of these rows of `operations` those that are kept, as tables of their own."""
    rows = cast(list[OperationRow], list(operations))
    return {
        CORRUPT_READS.name: _by_run(row for row in rows if _CORRUPT in (row["error"] or "")),
        CRASHES.name: _by_run(row for row in rows if row["function"] == _CRASH),
    }


def _file(tables: Path, name: str) -> Path:
    return tables / f"{name}.parquet"


def _in_one_file(name: str, table_folders: Sequence[Path], staging: Path) -> tuple[Path, int]:
    """The table of all runs and its number of rows: the one run's own file, or one written for all of them."""
    present = [path for folder in table_folders if (path := _file(folder, name)).exists()]
    if len(table_folders) == 1 and present and (rows := _rows_of_run_0(present[0], name)) is not None:
        return present[0], rows
    staged, rows, written = staging / f"{name}.parquet", 0, 0
    waiting: list[pa.RecordBatch] = []
    with pq.ParquetWriter(staged, TABLES[name], compression="zstd") as writer:
        for batch in _numbered(name, table_folders):
            rows += batch.num_rows
            waiting.append(batch)
            if rows - written >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting.clear()
                written = rows
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    return staged, rows


def _rows_of_run_0(path: Path, name: str) -> int | None:
    """The number of rows, if all have run 0 and today's columns."""
    try:
        with pq.ParquetFile(path) as file:
            check_footer(path, file.metadata, name)
            next(column_chunks(path, file.metadata), None)  # Spark's own reader does not hold a footer against itself
            for batch in file.iter_batches(columns=["run"]):  # not by the footer's statistics, which may say anything
                runs = batch.column(0)
                if runs.null_count or pc.any(pc.not_equal(runs, 0)).as_py():
                    return None
            return int(file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise HarnessError(unsound(path, error)) from error


def _numbered(
    name: str, table_folders: Sequence[Path], held: memory.Together | None = None, only: pc.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """The table of all runs, run by run, in the columns of its schema: absent ones are null, absent tables are empty.

    All files are read as one, since opening them one by one costs a thousand runs more than the check does.
    """
    runs = _files_with_rows(name, table_folders)
    if not runs:
        return
    schema = TABLES[name]
    try:
        for batch in _opened(name, list(runs), held).to_batches(columns=[*schema.names, "__filename"], filter=only):
            if batch.num_rows:
                *found, files = batch.columns
                run = pa.array([runs[files[0].as_py()]], pa.int32()).take(pa.array([0] * batch.num_rows))
                columns = [run if each == "run" else column for each, column in zip(schema.names, found, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError) as error:
        raise HarnessError(unsound(f"table {name}", error)) from error


def _each_batch(rows: Dataset, columns: Sequence[str], only: pc.Expression | None) -> Iterator[pa.Table]:
    return (pa.Table.from_batches([batch]) for batch in rows.to_batches(columns=list(columns), filter=only))


def _opened(name: str, paths: Sequence[str], held: memory.Together | None = None) -> FileSystemDataset:
    """The files as one data set, each compared with its schema and the allowed memory. A file may lack columns.

    Footers are read once. held: the memory of several tables' rows together, if they become Python rows.
    """
    kind, here, schema = ParquetFileFormat(), LocalFileSystem(), TABLES[name]
    fragments = []
    for path in paths:
        fragment = kind.make_fragment(path, filesystem=here)
        try:
            metadata = fragment.metadata
            check_footer(path, metadata, name)
            if name not in LARGE and held is not None:
                size, rows = check_size(Path(path), metadata, schema.names), metadata.num_rows
                if name in SMALL:
                    held.take(f"{path}: its {rows} rows", max(size, rows * row_bytes(len(schema.names))))
        except (pa.ArrowException, OSError) as error:
            raise HarnessError(unsound(path, error)) from error
        fragments.append(fragment)
    return FileSystemDataset(fragments, schema=schema, format=kind, filesystem=here)


def _files_with_rows(name: str, table_folders: Sequence[Path]) -> dict[str, int]:
    """File -> run, without copies of the shortest file, which has no rows: of many runs most tables are empty.

    Opening a file costs as much as a hundred rows; comparing it with another costs almost nothing.
    """
    sizes: dict[str, int] = {}
    runs: dict[str, int] = {}
    for run, folder in enumerate(table_folders):
        path = str(_file(folder, name))
        with suppress(FileNotFoundError):
            sizes[path] = os.stat(path).st_size
            runs[path] = run
    if len(runs) < _MANY_FILES:
        return runs
    shortest = min(sizes, key=lambda path: sizes[path])
    try:
        if pq.read_metadata(shortest).num_rows:
            return runs
    except (pa.ArrowInvalid, OSError):
        return runs  # reading it will report the error
    empty = Path(shortest).read_bytes()
    return {path: run for path, run in runs.items() if sizes[path] != len(empty) or Path(path).read_bytes() != empty}


def _rows_of(
    name: str, table_folders: Sequence[Path], held: memory.Together, only: pc.Expression | None = None
) -> Iterator[OfRun]:
    """Rows in the order they were written, as long as they fit into memory and are rows that a writer leaves."""
    rows, batches = 0, []
    for batch in _numbered(name, table_folders, held, only):
        rows += batch.num_rows
        if name not in SMALL:  # for the others the footers had the number
            held.take(f"table {name}: {rows} rows and perhaps more", batch.num_rows * row_bytes(batch.num_columns))
        batches.append(batch)
    table = pa.Table.from_batches(batches, schema=TABLES[name])
    check_table(name, table, lambda run: _file(table_folders[run], name))
    for batch in batches:
        yield from batch.to_pylist()


def check_tables(folder: Path) -> None:
    """Raises HarnessError if a table of a run cannot be read, or contains what none of our runs can contain."""
    with scratch_folder("kafka-chaos-tables-") as staging:
        staged = {name: _in_one_file(name, [folder], staging) for name in LARGE}
        _check(_small([folder]), staged, [folder])


def _check(small: Small, staged: Mapping[str, tuple[Path, int]], table_folders: Sequence[Path]) -> None:
    """Raises HarnessError if large tables have rows that no writer creates, or tables contradict each other."""

    def place_of(name: str, run: int | None) -> Path:
        return _file(table_folders[run or 0], name)

    named: dict[str, Named] = {}
    for name, (path, rows) in staged.items():
        named[name] = Named()
        if rows:
            file = _opened(name, [str(path)])
            try:
                check_file(name, file, partial(place_of, name))
                if name in HAS_REFERENCES:
                    named[name] = named_in(name, file)
            except (pa.ArrowException, OSError) as error:
                raise HarnessError(unsound(path, error)) from error
    check_together(small, named, place_of, lambda name, run: place_of(name, run).exists())


def _of(table: RowsOf[R], small: Small) -> Mapping[int, Sequence[R]]:
    return cast(Mapping[int, Sequence[R]], small.get(table.name, {}))


def _by_run(rows: Iterable[OfRun]) -> dict[int, Sequence[AnyRow]]:
    grouped: dict[int, list[OfRun]] = defaultdict(list)
    for row in rows:
        grouped[row["run"]].append(row)
    return dict(grouped)


def read_large(spark: SparkSession, name: str, paths: Sequence[str]) -> DataFrame:
    schema = from_arrow_schema(TABLES[name])
    if not paths:
        columns = (f"cast(null as {field.dataType.simpleString()}) as {field.name}" for field in schema)
        return spark.sql(f"select {', '.join(columns)} where false")  # the planner leaves it out
    literally = spark.read.option("__globPaths__", "false")  # a folder may be called "*"
    return literally.schema(schema).parquet(*paths)


def _in_parts(table: DataFrame, row_count: int) -> DataFrame:
    return table.coalesce(1) if are_few(row_count) else table


def read_small(folder: Path, table: RowsOf[R], run: int) -> list[R]:
    """The rows of one run's table, read like those of many runs."""
    return [cast(R, {**row, "run": run}) for row in _rows_of(table.name, [folder], memory.Together())]


def tables_of(
    spark: SparkSession, folder: Path, arrow: Mapping[str, pa.Table], runs: int, *, at_least: int = 0
) -> Tables:
    """Tables whose rows are numbered already, through files in `folder`: how tests judge many histories at once.
    at_least: they are asked as if they had so many rows."""
    arrow = {**arrow, **derived_of(arrow["records"])}
    large, count = {}, max(at_least, sum(arrow[name].num_rows for name in LARGE))
    arrow.setdefault("operations", TABLES["operations"].empty_table())
    for name in (*LARGE, "operations"):
        path = folder / f"{name}.parquet"
        pq.write_table(arrow[name], path)
        frame = read_large(sized_for(spark, count), name, [str(path)] if arrow[name].num_rows else [])
        large[name] = _in_parts(frame, count)
    small = {name: _by_run(arrow[name].to_pylist() if name in arrow else ()) for name in SMALL}
    small |= _noted(arrow["operations"].to_pylist() if "operations" in arrow else ())
    return Tables(
        large=large.__getitem__,
        batches=lambda name, columns, only: _each_batch(dataset(arrow[name]), columns, only),
        record_count=arrow["records"].num_rows,
        row_count=count,
        read_small=lambda: small,
        runs=runs,
    )


# A column of the driver's frames has the type that its name has everywhere; what has no name here is a number of 64
# bits, or of the type of its first value.
_OF_VALUES: Mapping[type, pa.DataType] = {str: pa.string(), bool: pa.bool_(), float: pa.float64()}
_NAMED: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("run", "partition_id", "partition", "process", "assignment", "node", "snapshot"), pa.int32()),
    **dict.fromkeys(("epoch", "leader_epoch", "number", "place", "own"), pa.int32()),
    **dict.fromkeys(("topic", "group"), pa.string()),
    **dict.fromkeys(("in_sync", "unclean", "is_input", "told", "member"), pa.bool_()),
    "decided": pa.int8(),
}


def small_frame(spark: SparkSession, columns: Sequence[str], rows: Sequence[AnyRow]) -> DataFrame:
    """These columns of a few rows of the driver as a DataFrame, in one part, through Arrow: needs no Python workers."""
    return spark.createDataFrame(small_table(columns, rows)).coalesce(1)


def small_table(columns: Sequence[str], rows: Sequence[AnyRow]) -> pa.Table:
    """The same in this process."""
    schema = pa.schema([pa.field(name, _NAMED.get(name) or _of_values(name, rows)) for name in columns])
    return pa.Table.from_pylist([{name: row[name] for name in columns} for row in rows], schema)


def _of_values(name: str, rows: Sequence[AnyRow]) -> pa.DataType:
    first = next((row[name] for row in rows if row[name] is not None), 0)
    return _OF_VALUES.get(type(first), pa.int64())
