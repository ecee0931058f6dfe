"""The dependency graph: who wrote, who read, and where an operation stands on a line along which time runs.

An operation may stand anywhere between its invocation and its completion (later too, when nothing can follow it): then
every realtime edge runs forward. The places are chosen so that few other edges run backward: a reader at its end, a
writer at the latest beginning of those before it in the version order. What still runs backward may close a cycle.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from harness.checks.cycles.interval import Answer
from harness.checks.cycles.model import RW, WR, WW, Limits, Mode, NotSearched

VALUE = ["run", "partition_id", "value"]
OPERATION = ["run", "name"]
NO_END = 1 << 62  # as a place: nothing bounds it; as a rank: behind every writer at the same place
EDGES: pa.Schema = pa.schema(
    [("run", pa.int32()), ("source", pa.int64()), ("target", pa.int64()), ("relation", pa.int32())]
)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Of some operations, what they wrote and read, and where these values stand in the version orders.

    writers: run, partition_id, value, name: the one writer of each value. reads: the same, and ok. ordered: run,
    partition_id, value, index (rising), previous (the value before it, or null).
    """

    writers: pa.Table
    reads: pa.Table
    ordered: pa.Table


@dataclass(frozen=True, kw_only=True)
class MicroOperations:
    """Of a few operations, each record that they wrote or read, in which micro-operation and at which place there.

    writes, writers (the one writer of each value), reads: run, partition_id, value, name, micro_operation, position.
    ordered: of these values, as in Facts.
    """

    writes: pa.Table
    writers: pa.Table
    reads: pa.Table
    ordered: pa.Table


class Graph(Protocol):
    def answers(self, mode: Mode, limits: Limits) -> tuple[Sequence[Answer], Sequence[NotSearched]]:
        """Of each stretch of the line in which a cycle can lie; and the stretches that were too long."""
        ...

    def micro_operations(self, names: Collection[tuple[int, int]]) -> MicroOperations:
        """names: (run, name) of operations."""
        ...


def edges_of(facts: Facts, *, write_write: bool, read_write: bool) -> pa.Table:
    """EDGES, each once, in order. Who failed has seen what he read, but waited for no one: no rw edge leaves him."""
    written = facts.writers.select([*VALUE, "name"])
    sources = written.rename_columns([*VALUE, "source"])
    targets = written.rename_columns([*VALUE, "target"])
    read = facts.reads.select([*VALUE, "name"]).rename_columns([*VALUE, "target"])
    found = [_related(read.join(sources, VALUE, join_type="inner"), WR)]
    if write_write or read_write:
        after = facts.ordered.filter(pc.is_valid(pc.field("previous"))).join(targets, VALUE, join_type="inner")
        following = after.select(["run", "partition_id", "previous", "target"]).rename_columns([*VALUE, "target"])
        if write_write:
            found.append(_related(following.join(sources, VALUE, join_type="inner"), WW))
        if read_write:
            found.append(_related(_last_read(facts).join(following, VALUE, join_type="inner"), RW))
    edges = pa.concat_tables(found).group_by(EDGES.names, use_threads=False).aggregate([])
    return edges.sort_by([(name, "ascending") for name in EDGES.names])


def _last_read(facts: Facts) -> pa.Table:
    """Of each operation that succeeded and each partition, the value that it read there last: by its place in the log,
    for a poll goes along it."""
    ok = facts.reads.filter(pc.field("ok")).select([*VALUE, "name"])
    where = ["run", "partition_id", "name"]
    placed = ok.join(facts.ordered.select([*VALUE, "index"]), VALUE, join_type="inner")
    last = placed.group_by(where, use_threads=False).aggregate([("index", "max")])
    last = last.rename_columns([*where, "index"])
    at = ["run", "partition_id", "index"]
    read = last.join(facts.ordered.select([*at, "value"]), at, join_type="inner")
    return read.select([*VALUE, "name"]).rename_columns([*VALUE, "source"])


def _related(rows: pa.Table, relation: int) -> pa.Table:
    kept = rows.filter(pc.field("source") != pc.field("target"))
    columns = [kept["run"], kept["source"], kept["target"], pa.repeat(relation, kept.num_rows)]
    return pa.table(columns, names=EDGES.names).cast(EDGES)
