"""What proves each step of the chosen cycles: a value, and the micro-ops that sent and read it. Few rows, joined back.

Two operations are often joined by many values. Jepsen shows the first: keys as the target met them, values in order;
an operation of more than eight keys meets them in the order of a hash map, if keys are numbers.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.checks.cycles.graph import OPERATION, Graph
from harness.checks.cycles.model import REALTIME, RW, WR, WW, Component, Cycle, Step
from harness.history.jepsen.clojure_order import set_order

_PAIR = ["run", "source", "target", "relation"]
_ARRAY_MAP_KEYS = 8
KeyOf = Callable[[int, int], object]


def with_evidence(
    spark: SparkSession, graph: Graph, components: Mapping[int, Sequence[Component]], key_of: KeyOf | None
) -> dict[int, list[Component]]:
    pairs = {
        (run, step.source, step.target, step.relation)
        for run, found in components.items()
        for component in found
        for cycle in component.cycles
        for step in cycle.steps
        if step.relation != REALTIME
    }
    proofs = _proofs(spark, graph, sorted(pairs), key_of) if pairs else {}

    def proven(run: int, step: Step) -> Step:
        row = proofs.get((run, step.source, step.target, step.relation))
        if row is None:
            return step
        return replace(
            step,
            partition_id=row["partition_id"],
            value=row["value"],
            next_value=row["next_value"],
            source_mop=row["source_at"]["micro_operation"],
            target_mop=row["target_at"]["micro_operation"],
        )

    def proven_cycle(run: int, cycle: Cycle) -> Cycle:
        return replace(cycle, steps=[proven(run, step) for step in cycle.steps])

    return {
        run: [
            replace(component, cycles=[proven_cycle(run, cycle) for cycle in component.cycles]) for component in found
        ]
        for run, found in components.items()
    }


def _proofs(
    spark: SparkSession, graph: Graph, pairs: Sequence[tuple[int, int, int, int]], key_of: KeyOf | None
) -> dict[tuple[int, int, int, int], Mapping[str, Any]]:
    wanted = sf.broadcast(spark.createDataFrame(pairs, "run int, source long, target long, relation int"))
    named = sorted({(run, name) for run, source, target, _ in pairs for name in (source, target)})
    names = sf.broadcast(spark.createDataFrame(named, "run int, name long"))
    reads = graph.reads.join(names, OPERATION, "left_semi")
    writers = graph.writers.join(names, OPERATION, "left_semi")
    edges = {WW: lambda: graph.ww(writers), WR: lambda: graph.wr(reads, writers), RW: lambda: graph.rw(reads, writers)}
    asked = sorted({relation for _, _, _, relation in pairs})
    rows = reduce(DataFrame.unionByName, [edges[relation]() for relation in asked]).join(wanted, _PAIR)
    firsts = rows.groupBy(*_PAIR, "partition_id").agg(
        sf.min(sf.struct("target_at", "value", "next_value", "source_at")).alias("first")
    )
    found = [row.asDict(recursive=True) for row in firsts.select(*_PAIR, "partition_id", "first.*").collect()]
    several = Counter(tuple(row[name] for name in _PAIR) for row in found)
    if max(several.values(), default=0) > 1:
        _add_meetings(spark, graph, found)
    return _chosen(found, key_of)


def _add_meetings(spark: SparkSession, graph: Graph, rows: list[dict[str, Any]]) -> None:
    """Where the target met each key first, and how many keys it met: asked only where there is a choice."""
    targets = sf.broadcast(
        spark.createDataFrame(sorted({(row["run"], row["target"]) for row in rows}), "run int, name long")
    )
    met = _keys_met(graph.reads.join(targets, OPERATION, "left_semi"), WR).unionByName(
        _keys_met(graph.writes.join(targets, OPERATION, "left_semi"), WW)
    )
    at = {
        (row["run"], row["name"], row["partition_id"], row["relation"]): row.asDict(recursive=True)
        for row in met.collect()
    }
    for row in rows:
        row |= at.get((row["run"], row["target"], row["partition_id"], row["relation"]), {})


def _keys_met(rows: DataFrame, relation: int) -> DataFrame:
    """run, name, partition_id, relation, met (where the operation met the key first), keys (how many it met)."""
    keys = rows.groupBy(*OPERATION, "partition_id").agg(sf.min("at").alias("met"))
    count = keys.groupBy(*OPERATION).agg(sf.count("*").alias("keys"))
    return keys.join(count, OPERATION).withColumn("relation", sf.lit(relation))


def _chosen(
    rows: Iterable[Mapping[str, Any]], key_of: KeyOf | None
) -> dict[tuple[int, int, int, int], Mapping[str, Any]]:
    def order(row: Mapping[str, Any]) -> tuple[Any, ...]:
        met = (row["met"]["micro_operation"], row["met"]["position"]) if "met" in row else (0, 0)
        key = key_of(row["run"], row["partition_id"]) if key_of is not None else None
        if row.get("keys", 0) > _ARRAY_MAP_KEYS and isinstance(key, int):
            return (set_order(key), row["partition_id"])
        return (*met, row["partition_id"])

    best: dict[tuple[int, int, int, int], Mapping[str, Any]] = {}
    for row in sorted(rows, key=order):
        best.setdefault((row["run"], row["source"], row["target"], row["relation"]), row)
    return best
