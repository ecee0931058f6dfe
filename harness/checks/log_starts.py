"""Where a leader's log ended at most when it took over, of leaders that left no word of it.

Before leader epochs (KIP-101, Kafka 0.11) no log shows where an epoch began. But what was sent after an election and
acknowledged while nobody else could answer was appended by the new leader: it took over with a log that ended at the
lowest of these offsets, or below.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from harness.checks.contract.boundaries import times_of
from harness.checks.contract.deposed import Deposed
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import PartitionHistory, RunHistory
from harness.checks.spark.tables import Tables, small_frame
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.typed_rows import typed

_COLUMNS = ("run", "partition_id", "epoch", "since_ns", "until_ns")


class _Alone(TypedDict):
    """A time in which the leader of an epoch answered, and nobody else."""

    run: int
    partition_id: int
    epoch: int
    since_ns: int
    until_ns: int


class _FirstRow(TypedDict):
    run: int
    partition_id: int
    epoch: int
    offset: int


def with_bounds(spark: SparkSession, tables: Tables, histories: Sequence[RunHistory]) -> list[RunHistory]:
    """The histories, with `start_at_most` of the elections whose start is unknown; a query only if there are any."""
    wanted = [span for history in histories for each in history.partitions.values() for span in _unknown(each)]
    if not wanted:
        return list(histories)
    first = (
        tables.records.where("kind = 0 and status = 0 and acks <> 0 and offset is not null")
        .join(sf.broadcast(small_frame(spark, _COLUMNS, wanted)), ["run", "partition_id"])
        .where("invoked_ns >= since_ns and completed_ns < until_ns")
        .groupBy("run", "partition_id", "epoch")
        .agg(sf.min("offset").alias("offset"))
    )
    bounds = {
        (row["run"], row["partition_id"], row["epoch"]): row["offset"] for row in typed(_FirstRow, first.toArrow())
    }
    return [
        replace(history, partitions={number: _bounded(each, bounds) for number, each in history.partitions.items()})
        for history in histories
    ]


def _bounded(partition: PartitionHistory, bounds: Mapping[tuple[int, int, int], int]) -> PartitionHistory:
    def of(election: Election) -> int | None:
        return bounds.get((partition.run, partition.partition_id, election.epoch))

    if all(of(election) is None for election in partition.elections):
        return partition
    return replace(
        partition, elections=tuple(replace(election, start_at_most=of(election)) for election in partition.elections)
    )


def _unknown(partition: PartitionHistory) -> list[_Alone]:
    """Polled states may lack an election in between, whose leader appended it."""
    if not partition.exact or all(election.start is not None for election in partition.elections[1:]):
        return []
    deposed = Deposed(partition)
    moments = sorted({*times_of(partition), *partition.faults.times})
    found: list[_Alone] = []
    for number, election in enumerate(partition.elections):
        if number == 0 or election.start is not None:
            continue
        after = partition.elections[number + 1 :]
        end = after[0].earliest_t if after else END_OF_TIME_NS
        within = [election.latest_t, *(t for t in moments if election.latest_t < t < end)]
        alone = [not deposed.may_answer_for_another(election, t) for t in within]
        if True in alone:
            first = alone.index(True)
            last = alone.index(False, first) if False in alone[first:] else len(within)
            found.append(
                {
                    "run": partition.run,
                    "partition_id": partition.partition_id,
                    "epoch": election.epoch,
                    "since_ns": within[first],
                    "until_ns": within[last] if last < len(within) else end,
                }
            )
    return found
