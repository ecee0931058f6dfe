"""When readers got nothing of a partition although acknowledged records waited there, and they asked.

The same rule as for writes (availability.py), of what readers are owed: a time of more than a second between two polls
of one reader with records of the partition, in which a record waited that no poll of that reader had reached, and the
reader polled, or waited in a poll, in vain. A reader is a group, whose members stand in for each other, or a client
without one. A record waits from its acknowledgement on, in a transaction from when that was committed.
"""

from collections.abc import Iterator, Sequence
from typing import TypedDict

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from harness.checks.families.cluster.availability import GAP_MIN_NS, READING, Gap
from harness.checks.family import Family
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import RunHistory
from harness.history.facts.extent import MANY_ROWS
from harness.history.facts.incarnations import client_name
from harness.history.schema.client_rows import GROUP_EVENTS, PROCESSES, TRANSACTIONS
from harness.history.schema.schemas import STATUS_OK
from harness.history.schema.typed_rows import typed
from harness.history.sealed.derived_tables import SLOW_NS

NAME = READING.name
_CANDIDATES_MAX = 10_000
_READS = ("consumer", "both")
_ENDS = ("run", "transaction", "completed_ns")


class _ReaderRow(TypedDict):
    """One process of a reader. number: of the reader, over all runs."""

    run: int
    process: int
    number: int


class _Candidate(TypedDict):
    """A time between two polls with records; to the end where `end_ns` is None, from the beginning where `begin_ns` is.

    reached: the last offset that the reader had been given. slow: the poll that ended it had waited. process: of a
    client without a group, the process whose polls count.
    """

    run: int
    partition_id: int
    number: int
    begin_ns: int | None
    end_ns: int | None
    reached: int
    slow: bool
    process: int | None


class _WaitRow(TypedDict):
    place: int
    waits_ns: int


class _AskedRow(TypedDict):
    place: int
    before_end: int
    last_ns: int


def query(runs: JudgedRuns) -> list[Gap]:
    """Of a long history only if something happened to its cluster."""
    if runs.tables.record_count > MANY_ROWS and not any(each.faults or each.ends for each in runs.histories):
        return []
    readers = _Readers(runs)
    if not readers.rows or not any(activity["sends"] for activity in runs.tables.activity.values()):
        return []
    candidates = _candidates(runs, readers)
    candidates += _never(runs, readers, candidates)
    waited = _waited(runs, candidates[:_CANDIDATES_MAX])
    return _asked_in_vain(runs, readers, waited)


class _Readers:
    """The readers of all runs: by number, their groups, or the names of clients without one."""

    def __init__(self, runs: JudgedRuns) -> None:
        self.names: list[tuple[str | None, str | None]] = []
        self.rows: list[_ReaderRow] = []
        numbers: dict[tuple[int, str | None, str | None], int] = {}
        for row in runs.rows(PROCESSES):
            if row["role"] not in _READS:
                continue
            group = row["group"]
            client = None if group is not None else row["client"] or f"process {row['process']}"
            number = numbers.setdefault((row["run"], group, client), len(numbers))
            if number == len(self.names):
                self.names.append((group, client))
            self.rows.append({"run": row["run"], "process": row["process"], "number": number})

    def frame(self, runs: JudgedRuns) -> DataFrame:
        columns = ("run", "process", "number")
        return sf.broadcast(runs.frame(columns, self.rows))


def _candidates(runs: JudgedRuns, readers: _Readers) -> list[_Candidate]:
    """The long times between two polls, and those after the last poll of each reader and partition."""
    polls = (
        runs.tables.records.where(f"kind = 1 and status = {STATUS_OK} and replica is null and offset is not null")
        .join(readers.frame(runs), ["run", "process"])
        .groupBy("run", "partition_id", "number", "operation")
        .agg(
            sf.min("completed_ns").alias("completed_ns"),
            sf.min("invoked_ns").alias("invoked_ns"),
            sf.max("offset").alias("last"),
            sf.min("process").alias("process"),
        )
    )
    by_time = Window.partitionBy("run", "partition_id", "number").orderBy("completed_ns", "operation")
    so_far = by_time.rowsBetween(Window.unboundedPreceding, -1)
    rows = polls.select(
        "run",
        "partition_id",
        "number",
        "completed_ns",
        "process",
        sf.max("completed_ns").over(so_far).alias("begin_ns"),
        sf.max("last").over(so_far).alias("before"),
        sf.greatest("last", sf.max("last").over(so_far)).alias("reached"),
        sf.expr(f"completed_ns - invoked_ns > {SLOW_NS}").alias("slow"),
        sf.lead("completed_ns").over(by_time).alias("next_ns"),
        "last",
    )
    own = "cast(process as int) as process"
    between = rows.where(f"completed_ns - begin_ns > {GAP_MIN_NS} and last > before").selectExpr(
        "run", "partition_id", "number", "begin_ns", "completed_ns as end_ns", "before as reached", "slow", own
    )
    after = rows.where("next_ns is null").selectExpr(
        "run",
        "partition_id",
        "number",
        "completed_ns as begin_ns",
        "cast(null as bigint) as end_ns",
        "reached",
        "false as slow",
        own,
    )
    found = typed(_Candidate, between.unionByName(after).limit(_CANDIDATES_MAX).toArrow())
    for row in found:
        if readers.names[row["number"]][0] is not None:
            row["process"] = None  # of a group every member's polls count
    return found


def _never(runs: JudgedRuns, readers: _Readers, found: Sequence[_Candidate]) -> list[_Candidate]:
    """Partitions that a group has to read and was never given a record of."""
    given = {(row["run"], row["number"], row["partition_id"]) for row in found}
    numbers = {(row["run"], group): row["number"] for row in readers.rows if (group := readers.names[row["number"]][0])}
    rows: list[_Candidate] = []
    for (run, group), number in numbers.items():
        history = next(each for each in runs.histories if each.run == run)
        rows += [
            {
                "run": run,
                "partition_id": partition_id,
                "number": number,
                "begin_ns": None,
                "end_ns": None,
                "reached": -1,
                "slow": False,
                "process": None,
            }
            for partition_id in _of_group(runs, history, group)
            if (run, number, partition_id) not in given
        ]
    return rows


def _of_group(runs: JudgedRuns, history: RunHistory, group: str) -> Iterator[int]:
    """By what its members were assigned, and by the load that the scenario states."""
    facts = history.scenario.workload.facts if history.scenario is not None else None
    topics = history.scenario.workload.topics if history.scenario is not None else ()
    assigned = {
        (row["topic"], row["partition"])
        for row in runs.tables.rows(GROUP_EVENTS, history.run)
        if (row["group"], row["event"]) == (group, "assigned")
    }
    for partition_id, partition in history.partitions.items():
        name = client_name(partition.topic)
        stated = (
            facts is not None and facts.group == group and name not in facts.outputs and name in (topics or (name,))
        )
        if (stated or (partition.topic, partition.partition) in assigned) and not partition.is_set_apart:
            yield partition_id


def _waited(runs: JudgedRuns, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Those in which a record waited, each from when the first one did."""
    if not candidates:
        return []
    columns = ("place", "run", "partition_id", "end_ns", "reached")
    asked = sf.broadcast(runs.frame(columns, [{"place": place, **row} for place, row in enumerate(candidates)]))
    found = (
        _there(runs)
        .join(asked, ["run", "partition_id"])
        .where("offset > reached and there_ns <= coalesce(end_ns, there_ns)")
        .groupBy("place")
        .agg(sf.min("there_ns").alias("waits_ns"))
    )
    waited: list[_Candidate] = []
    for row in sorted(typed(_WaitRow, found.toArrow()), key=lambda row: row["place"]):
        one = candidates[row["place"]]
        begin_ns = max(row["waits_ns"], one["begin_ns"] or row["waits_ns"])
        if one["end_ns"] is None or one["end_ns"] - begin_ns > GAP_MIN_NS:
            one["begin_ns"] = begin_ns
            waited.append(one)
    return waited


def _there(runs: JudgedRuns) -> DataFrame:
    """The acknowledged records: run, partition_id, offset, and from when on each could be read."""
    sent = runs.tables.records.where(f"kind = 0 and status = {STATUS_OK} and offset is not null")
    place = ("run", "partition_id", "offset")
    if not (committed := [row for row in runs.rows(TRANSACTIONS) if row["outcome"] == STATUS_OK]):
        return sent.select(*place, sf.col("completed_ns").alias("there_ns"))
    ends = sf.broadcast(runs.frame(_ENDS, committed).withColumnRenamed("completed_ns", "ended_ns"))
    answered = sent.select(*place, "completed_ns", "transaction").join(ends, ["run", "transaction"], "left")
    return answered.select(*place, sf.greatest("completed_ns", "ended_ns").alias("there_ns"))


def _asked_in_vain(runs: JudgedRuns, readers: _Readers, waited: Sequence[_Candidate]) -> list[Gap]:
    """Those in which the reader polled, up to its last poll."""
    if not waited:
        return []
    columns = ("place", "run", "number", "begin_ns", "end_ns", "own")
    asked = runs.frame(columns, [{"place": place, "own": row["process"], **row} for place, row in enumerate(waited)])
    found = (
        runs.tables.operations.where("function = 'poll'")
        .select("run", "process", "invoked_ns", "completed_ns")
        .join(readers.frame(runs), ["run", "process"])
        .join(sf.broadcast(asked), ["run", "number"])
        .where("completed_ns > begin_ns and invoked_ns < coalesce(end_ns, completed_ns)")
        .where("process = coalesce(own, process)")
        .groupBy("place")
        .agg(sf.count_if(sf.expr("completed_ns < end_ns")).alias("before_end"), sf.max("completed_ns").alias("last_ns"))
    )
    polled = {row["place"]: row for row in typed(_AskedRow, found.toArrow())}
    gaps: list[Gap] = []
    for place, row in enumerate(waited):
        begin_ns, asks = row["begin_ns"] or 0, polled.get(place)
        in_vain = row["slow"] or (asks is not None and asks["before_end"] > 0)
        end_ns = row["end_ns"] if row["end_ns"] is not None else asks["last_ns"] if asks is not None else begin_ns
        if (row["end_ns"] is None or in_vain) and end_ns - begin_ns > GAP_MIN_NS:
            group, client = readers.names[row["number"]]
            gaps.append(
                {
                    "run": row["run"],
                    "partition_id": row["partition_id"],
                    "begin_ns": begin_ns,
                    "end_ns": end_ns,
                    "open": row["end_ns"] is None,
                    "group": group,
                    "client": client,
                }
            )
    return sorted(gaps, key=_place)


def _place(gap: Gap) -> tuple[int, int, int, str]:
    return gap["run"], gap["partition_id"], gap["begin_ns"], gap["group"] or gap["client"] or ""


FAMILY = Family(name=NAME, query=query)
