"""The runs that are judged together, as the families of checks see them when they ask questions of their own.

A family whose question the fused pass over the records (detection.py) does not answer brings a query: one small job
for all runs at once, restricted early to the rows that matter, and none where its tables are empty.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from harness.checks.detection import Detection, small_frame
from harness.checks.story import RunStory
from harness.checks.tables import Row, Tables


@dataclass(frozen=True, kw_only=True)
class Runs:
    spark: SparkSession
    tables: Tables
    stories: Sequence[RunStory]
    detecting: Callable[[], Detection]

    @property
    def detection(self) -> Detection:
        """What the fused pass found; waits for it."""
        return self.detecting()

    def any_was(self, mark: str) -> bool:
        """Whether any run is marked so in the table `activity`."""
        return any(told[mark] for told in self.tables.activity.values())

    def rows(self, table: str) -> list[Row]:
        """The rows of a small table, of all runs."""
        return [row for rows in self.tables.small[table].values() for row in rows]

    def frame(self, columns: Mapping[str, pa.DataType], rows: Sequence[Row]) -> DataFrame:
        return small_frame(self.spark, columns, rows)

    def group_events(self) -> list[Row]:
        """What consumers did beside polling, in order of time, with the dense number of its partition (`tp`)."""
        numbers = {(row["run"], row["topic"], row["part"]): row["tp"] for row in self.rows("partitions")}
        placed = [
            {**row, "tp": numbers.get((row["run"], row["topic"], row["part"]))} for row in self.rows("group_events")
        ]
        return sorted((row for row in placed if row["tp"] is not None), key=lambda row: (row["t0"], row["t1"]))

    def processes(self) -> dict[tuple[int, int], Row]:
        """(run, process) -> its client, where the run describes its clients."""
        return {(row["run"], row["process"]): row for row in self.rows("processes")}


Query = Callable[[Runs], Sequence[Row]]  # rows carry `run`


def by_run(rows: Sequence[Row]) -> dict[int, list[Row]]:
    grouped: dict[int, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["run"], []).append(row)
    return grouped
