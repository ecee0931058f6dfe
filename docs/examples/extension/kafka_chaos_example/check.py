"""Slow acknowledgements: records that a broker acknowledged at last, and let their producer wait for it."""

from typing import TypedDict

from pyspark.sql import functions as sf

from harness.extending.checks import Anomaly, Family, Finding, JudgedRuns, OtherCause, RowsOf, RunContext, typed

NAME = "slow-acknowledgement"
SLOW_S = 1.0


class SlowRow(TypedDict):
    """Per run and partition: how many records waited for so long, the longest wait, and when that began and ended."""

    run: int
    partition_id: int
    count: int
    longest_ns: int
    first_ns: int
    last_ns: int


ANSWER = RowsOf(NAME, SlowRow)


def query(runs: JudgedRuns) -> list[SlowRow]:
    waited = sf.col("completed_ns") - sf.col("invoked_ns")
    slow = (
        runs.tables.records.where("kind = 0 and status = 0")  # what was sent, and acknowledged
        .where(waited >= int(SLOW_S * 1e9))
        .groupBy("run", "partition_id")
        .agg(
            sf.count("*").alias("count"),
            sf.max(waited).alias("longest_ns"),
            sf.min("invoked_ns").alias("first_ns"),
            sf.max("completed_ns").alias("last_ns"),
        )
    )
    return typed(SlowRow, slow.toArrow())


def find(context: RunContext) -> list[Finding]:
    return [_finding(context, row) for row in sorted(context.rows[ANSWER], key=lambda row: row["partition_id"])]


def _finding(context: RunContext, row: SlowRow) -> Finding:
    partition = context.partition(row["partition_id"])
    longest_s = row["longest_ns"] / 1e9
    return Finding(
        run=context.run,
        check=NAME,
        classification="observation",  # no promise of Kafka's is broken by it
        kind="late",
        topic=partition.topic,
        partition=partition.partition,
        count=row["count"],
        first_ns=row["first_ns"],
        last_ns=row["last_ns"],
        cause=OtherCause(code="waited-for-its-acknowledgement", words="the leader answered late"),
        sentence=(
            f"{row['count']} records of {partition.name} were acknowledged {SLOW_S:g} s or more after they were sent, "
            f"the latest after {longest_s:.1f} s."
        ),
        evidence={"longest_s": longest_s},
    )


SLOW_ACKNOWLEDGEMENT = Family(
    name=NAME,
    find=find,
    query=query,
    anomalies=(
        Anomaly(
            page=NAME,
            names=(NAME,),
            title="Slow acknowledgement",
            family="cluster",
            sentence="A record was acknowledged long after it was sent.",
            markdown=f"""# Slow acknowledgement

`{NAME}`

A record was acknowledged {SLOW_S:g} s or more after its producer had handed it to its client library.

## Rule

Of every record that was acknowledged, the time from its send to its answer counts. It is an *observation*: Kafka
promises no time.

## What the report shows, and what to do

How many records of which partition, and the longest wait. Look at what was done to the partition's leader then.
""",
        ),
    ),
)
