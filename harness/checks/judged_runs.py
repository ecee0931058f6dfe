"""The runs that are judged together, as the queries of the check families see them.

A family that needs more than the fused pass over the records (detection.py) has its own query: one small job for all
runs at once, restricted early to the relevant rows, and skipped if its tables are empty.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Literal, TypeVar

from pyspark.sql import DataFrame, SparkSession

from harness.checks.model.partition_history import RunHistory
from harness.checks.spark.detection import Detection
from harness.checks.spark.tables import Tables, small_frame
from harness.history.schema.client_rows import GROUP_EVENTS, PROCESSES, GroupEventRow, ProcessRow
from harness.history.schema.cluster_rows import PARTITIONS
from harness.history.schema.typed_rows import AnyRow, OfRun, R, RowsOf

Made = TypeVar("Made")


class PlacedEvent(GroupEventRow):
    """A consumer's group event, with the number of its partition."""

    partition_id: int


@dataclass(frozen=True, kw_only=True)
class JudgedRuns:
    spark: SparkSession
    tables: Tables
    histories: Sequence[RunHistory]
    detecting: Callable[[], Detection]
    _made: dict[Callable[["JudgedRuns"], Any], Any] = field(default_factory=dict)
    _making: RLock = field(default_factory=RLock)

    def once(self, make: Callable[["JudgedRuns"], Made]) -> Made:
        """What several families need, made for the first of them. Families are asked beside each other."""
        with self._making:
            if make not in self._made:
                self._made[make] = make(self)
            made: Made = self._made[make]
            return made

    @property
    def detection(self) -> Detection:
        """The result of the fused pass; waits for it."""
        return self.detecting()

    def any_was(self, mark: Literal["transactional", "halting", "log_append"]) -> bool:
        """Whether any run has this mark in the table `activity`."""
        return any(marks[mark] for marks in self.tables.activity.values())

    def rows(self, table: RowsOf[R]) -> list[R]:
        """The rows of a small table, for all runs."""
        return self.tables.every(table)

    def frame(self, columns: Sequence[str], rows: Sequence[AnyRow]) -> DataFrame:
        return small_frame(self.spark, columns, rows)

    def group_events(self) -> list[PlacedEvent]:
        """The consumers' group events, in order of time, each with its `partition_id`."""
        numbers = {(row["run"], row["topic"], row["partition"]): row["partition_id"] for row in self.rows(PARTITIONS)}
        placed: list[PlacedEvent] = [
            {**row, "partition_id": numbers[place]}
            for row in self.rows(GROUP_EVENTS)
            if (place := (row["run"], row["topic"], row["partition"])) in numbers
        ]
        return sorted(placed, key=lambda row: (row["invoked_ns"], row["completed_ns"]))

    def processes(self) -> dict[tuple[int, int], ProcessRow]:
        """(run, process) -> its client, for runs that describe their clients."""
        return {(row["run"], row["process"]): row for row in self.rows(PROCESSES)}


Query = Callable[[JudgedRuns], Sequence[OfRun]]
Row = TypeVar("Row", bound=OfRun)


def by_run(rows: Sequence[Row]) -> dict[int, list[Row]]:
    grouped: dict[int, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["run"], []).append(row)
    return grouped
