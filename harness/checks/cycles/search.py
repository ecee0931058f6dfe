"""From the graph in columns to components and cycles: intervals, the edges inside them, one search per interval."""

import pickle
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.checks.cycles.evidence import with_evidence
from harness.checks.cycles.graph import OPERATION, Graph
from harness.checks.cycles.imported import imported_graph
from harness.checks.cycles.interval import Answer, in_jepsen_order, search_interval
from harness.checks.cycles.intervals import Intervals, bucketed, merged
from harness.checks.cycles.model import Component, Limits, Mode, NotSearched, Search
from harness.checks.cycles.realtime import Operation

_INTERVAL = ["run", "interval"]


def search_histories(
    spark: SparkSession,
    *,
    records: DataFrame,
    operations: DataFrame,
    orders: DataFrame,
    mode: Mode,
    ww_deps: bool | Collection[int] = True,
    limits: Limits | None = None,
    key_of: Callable[[int, int], object] | None = None,
) -> Search:
    """See the package. `key_of(run, partition_id)`: the key's own name, which selects Jepsen's evidence if many."""
    graph = imported_graph(records=records, operations=operations, orders=orders, mode=mode, ww_deps=ww_deps)
    with graph.kept():
        found = _search(spark, graph, mode, limits or Limits(), key_of)
        return replace(found, runs_with_edges=graph.runs_with_edges()) if mode is Mode.JEPSEN else found


def search_graph(spark: SparkSession, graph: Graph, mode: Mode, limits: Limits) -> Search:
    with graph.kept():
        return _search(spark, graph, mode, limits, None)


def _search(
    spark: SparkSession, graph: Graph, mode: Mode, limits: Limits, key_of: Callable[[int, int], object] | None
) -> Search:
    spans = merged(graph.backward()).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        intervals = bucketed(spark, spans)
        if intervals is None:
            return Search(mode=mode)
        answers, too_long = _search_intervals(spark, graph, intervals, mode, limits)
    finally:
        spans.unpersist()
    components: dict[int, list[Component]] = defaultdict(list)
    not_searched: dict[int, list[NotSearched]] = defaultdict(list)
    for left_out in too_long:
        not_searched[left_out.run].append(left_out)
    for answer in answers:
        for component in answer.components:
            components[component.run].append(component)
        for left_out in answer.not_searched:
            not_searched[left_out.run].append(left_out)
    explained = with_evidence(spark, graph, components, key_of)
    ordered = {
        run: in_jepsen_order(found) if mode is Mode.JEPSEN else sorted(found, key=lambda one: one.operations[0])
        for run, found in sorted(explained.items())
    }
    return Search(mode=mode, components=ordered, not_searched=dict(not_searched))


def _search_intervals(
    spark: SparkSession, graph: Graph, intervals: Intervals, mode: Mode, limits: Limits
) -> tuple[list[Answer], list[NotSearched]]:
    inside = intervals.of(graph.placed).persist(StorageLevel.MEMORY_AND_DISK)
    kept = inside
    try:
        sizes = inside.groupBy(*_INTERVAL).agg(
            sf.count("*").alias("operations"), sf.min("place").alias("first"), sf.max("place").alias("last")
        )
        totals = sizes.agg(sf.sum("operations"), sf.max("operations")).collect()[0]
        too_long: list[NotSearched] = []
        if totals[1] > limits.interval_operations:
            too_long = _too_long(sizes, limits)
            refused = [(left_out.run, left_out.interval) for left_out in too_long]
            inside = inside.join(
                sf.broadcast(spark.createDataFrame(refused, "run int, interval long")), _INTERVAL, "left_anti"
            )
        core = _core(graph, inside)
        if totals[0] <= limits.collected_edges:
            edges = core.limit(limits.collected_edges + 1).toArrow()
            if edges.num_rows <= limits.collected_edges:
                return list(_collected(inside, edges, mode, limits)), too_long
        return list(_in_workers(inside, core, mode, limits)), too_long
    finally:
        kept.unpersist()


def _too_long(sizes: DataFrame, limits: Limits) -> list[NotSearched]:
    long = sizes.where(sf.col("operations") > limits.interval_operations).orderBy("run", "first")
    return [
        NotSearched(
            **row.asDict(),
            reason=f"{row['operations']} operations lie between edges that run backward and were not searched for "
            f"cycles: more than {limits.interval_operations}",
        )
        for row in long.collect()
    ]


def _core(graph: Graph, inside: DataFrame) -> DataFrame:
    """The edges whose ends lie in one interval."""
    names = inside.select(*OPERATION, "interval")
    reads = graph.reads.join(names, OPERATION)
    writers = graph.writers.join(names, OPERATION)
    ok_reads = graph.reads.join(inside.where("ok").select(*OPERATION, "interval"), OPERATION)
    return graph.edges(reads, writers, ok_reads).select(*_INTERVAL, "source", "target", "relation").distinct()


def _collected(inside: DataFrame, core: pa.Table, mode: Mode, limits: Limits) -> Iterator[Answer]:
    """One interval at a time becomes Python objects; until then both tables stay in Arrow."""
    edges = _grouped(core, ("source", "target", "relation"))
    operations = _grouped(inside.select(*_INTERVAL, *_OPERATION).toArrow(), _OPERATION)
    for key in edges:
        yield search_interval(key[0], _operations(*operations[key]()), zip(*edges[key](), strict=True), mode, limits)


_OPERATION = ("name", "begin", "end", "ok")
_Columns: TypeAlias = Callable[[], Sequence[Sequence[Any]]]


def _grouped(table: pa.Table, columns: Sequence[str]) -> Mapping[tuple[int, int], _Columns]:
    lists = table.group_by(_INTERVAL, use_threads=False).aggregate([(name, "list") for name in columns])
    keys = zip(lists["run"].to_pylist(), lists["interval"].to_pylist(), strict=True)

    def at(place: int) -> _Columns:
        return lambda: [lists[f"{name}_list"][place].as_py() for name in columns]

    return {key: at(place) for place, key in enumerate(keys)}


def _operations(
    names: Iterable[int], begins: Iterable[int], ends: Iterable[int], oks: Iterable[bool]
) -> list[Operation]:
    found = [
        Operation(name, begin, end if ok else None)
        for name, begin, end, ok in zip(names, begins, ends, oks, strict=True)
    ]
    return sorted(found, key=lambda operation: (operation.begin, operation.name))


def _in_workers(inside: DataFrame, core: DataFrame, mode: Mode, limits: Limits) -> Iterator[Answer]:
    """More edges than the driver shall hold: each interval is searched where it lies, bounded by its length."""
    none = sf.lit(None)
    rows = core.select(
        *_INTERVAL,
        sf.col("source").alias("a"),
        sf.col("target").alias("b"),
        sf.col("relation").cast("long").alias("c"),
        none.cast("boolean").alias("ok"),
    ).unionByName(
        inside.select(*_INTERVAL, sf.col("name").alias("a"), sf.col("begin").alias("b"), sf.col("end").alias("c"), "ok")
    )

    def search(group: pa.Table) -> pa.Table:
        run = group["run"][0].as_py()
        operations, edges = [], []
        for a, b, c, ok in zip(*(group[name].to_pylist() for name in ("a", "b", "c", "ok")), strict=True):
            if ok is None:
                edges.append((a, b, c))
            else:
                operations.append(Operation(a, b, c if ok else None))
        operations.sort(key=lambda operation: (operation.begin, operation.name))
        answer = search_interval(run, operations, edges, mode, limits)
        kept = [pickle.dumps(answer)] if answer.components or answer.not_searched else []
        return pa.table({"answer": pa.array(kept, pa.binary())})

    for row in rows.groupBy(*_INTERVAL).applyInArrow(search, "answer binary").toLocalIterator():
        yield pickle.loads(row["answer"])
