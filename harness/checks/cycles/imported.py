"""The graph of imported histories: a completed txn, send or poll is an operation, and event indices are its times.

All of it is in memory since it was read, so its edges are joined there, and where one runs backward is seen at once.
"""

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.checks.cycles.graph import NO_END, OPERATION, VALUE, Facts, MicroOperations, edges_of
from harness.checks.cycles.interval import Answer, search_intervals, sizes_of, too_long
from harness.checks.cycles.model import Limits, Mode, NotSearched
from harness.history.schema.schemas import KIND_SEND, STATUS_OK

_SEARCHED = ("txn", "send", "poll")
_NOWHERE = -1


class ImportedGraph:
    """`operations`: run, name, begin, end, ok, reads. `writes`, `reads`: run, partition_id, value, name,
    micro_operation, position. `orders`: run, partition_id, index, value; none without ww."""

    def __init__(
        self,
        *,
        operations: pa.Table,
        writes: pa.Table,
        reads: pa.Table,
        orders: pa.Table,
        write_write: bool,
        read_write: bool,
    ) -> None:
        self._operations = operations
        self._writes = writes
        self._reads = reads
        self._orders = orders
        self._write_write = write_write
        self._read_write = read_write
        self._rows = operations.select(OPERATION).append_column("row", pa.array(np.arange(operations.num_rows)))

    def answers(self, mode: Mode, limits: Limits) -> tuple[Sequence[Answer], Sequence[NotSearched]]:
        place, _ = self._stands
        interval = self._intervals()
        inside = np.flatnonzero(interval != _NOWHERE)
        if not len(inside):
            return [], []
        stretch = self._operations.take(inside).append_column("interval", pa.array(interval[inside]))
        left_out = too_long(sizes_of(stretch.append_column("place", pa.array(place[inside]))), limits)
        if left_out:
            stretch = stretch.filter(pc.invert(pc.field("interval").isin([one.interval for one in left_out])))
        return list(search_intervals(stretch, self._edges, mode, limits)), left_out

    def micro_operations(self, names: Collection[tuple[int, int]]) -> MicroOperations:
        wanted = pa.table(
            {"run": pa.array([run for run, _ in names], pa.int32()), "name": pa.array([name for _, name in names])}
        )
        writes, reads = (table.join(wanted, OPERATION, join_type="left semi") for table in (self._writes, self._reads))
        named = pa.concat_tables([writes.select(VALUE), reads.select(VALUE)])
        return MicroOperations(
            writes=writes,
            writers=writes.join(self._writers, [*VALUE, "name"], join_type="left semi"),
            reads=reads,
            ordered=self._ordered.join(named, VALUE, join_type="left semi"),
        )

    def runs_with_edges(self) -> frozenset[int]:
        """Real time alone joins nearly every run's operations."""
        joined = set(self._edges["run"].to_pylist())
        for run in set(self._operations["run"].to_pylist()) - joined:
            here = self._operations.filter(pc.field("run") == run)
            first_end = pc.min(here.filter(pc.field("ok"))["end"]).as_py()
            if first_end is not None and first_end < pc.max(here["begin"]).as_py():
                joined.add(run)
        return frozenset(joined)

    @cached_property
    def _writers(self) -> pa.Table:
        """The last to try."""
        last = self._writes.group_by(VALUE, use_threads=False).aggregate([("name", "max")])
        return last.rename_columns([*VALUE, "name"])

    @cached_property
    def _ordered(self) -> pa.Table:
        """A value at several places stands at the last of them."""
        by_index = self._orders.sort_by(
            [("run", "ascending"), ("partition_id", "ascending"), ("index", "ascending")]
        ).combine_chunks()
        value = by_index["value"].to_numpy()
        goes_on = ~_begins(by_index)
        previous = pa.array(np.concatenate([value[:1], value[:-1]]), mask=~goes_on)
        placed = by_index.append_column("previous", previous)
        last = placed.group_by(VALUE, use_threads=False).aggregate([("index", "max")])
        return placed.join(last.rename_columns([*VALUE, "index"]), [*VALUE, "index"], join_type="left semi")

    @cached_property
    def _edges(self) -> pa.Table:
        ok = self._operations.select([*OPERATION, "ok"])
        facts = Facts(
            writers=self._writers,
            reads=self._reads.select([*VALUE, "name"]).join(ok, OPERATION, join_type="inner"),
            ordered=self._ordered,
        )
        return edges_of(facts, write_write=self._write_write, read_write=self._read_write)

    @cached_property
    def _stands(self) -> tuple[Any, Any]:
        """Of each operation its place on the line, and its rank among all: by place; among equals readers come last,
        and writers stand in the order of their logs."""
        begin, end, ok, reads = (
            self._operations[name].to_numpy(zero_copy_only=False) for name in ("begin", "end", "ok", "reads")
        )
        start = np.where(reads, end, begin)
        until = np.where(~reads & ~ok, NO_END, end)
        latest, index = np.full(len(start), -NO_END), np.full(len(start), -1)
        if self._write_write and not reads.all():
            pushed = self._ordered.join(self._writers, VALUE, join_type="inner")
            pushed = pushed.join(self._rows, OPERATION, join_type="inner").sort_by(
                [("run", "ascending"), ("partition_id", "ascending"), ("index", "ascending")]
            )
            row = pushed["row"].to_numpy()
            np.maximum.at(latest, row, _highest_so_far(start[row], _begins(pushed)))
            np.maximum.at(index, row, pushed["index"].to_numpy())
        place = np.where(reads, start, np.minimum(np.maximum(start, latest), until))
        rank = np.where(reads, NO_END, index)
        standing = np.empty(len(place), np.int64)
        standing[np.lexsort((self._operations["name"].to_numpy(), rank, place))] = np.arange(len(place))
        return place, standing

    def _intervals(self) -> Any:
        """The number of the interval in which each operation stands, or _NOWHERE: spans of edges that run backward,
        merged until none overlap. Outside of them no cycle can lie."""
        place, standing = self._stands
        source, target = (self._rows_of(end) for end in ("source", "target"))
        known = (source != _NOWHERE) & (target != _NOWHERE)
        source, target = source[known], target[known]
        backward = standing[source] > standing[target]
        source, target = source[backward], target[backward]
        run = self._operations["run"].to_numpy()
        found = np.full(len(place), _NOWHERE)
        count = 0
        for each in np.unique(run[source]):
            mine = run[source] == each
            low, high = _merged(place[target[mine]], place[source[mine]])
            here = np.flatnonzero(run == each)
            at = np.searchsorted(low, place[here], side="right") - 1
            inside = (at >= 0) & (place[here] <= high[at])
            found[here[inside]] = count + at[inside]
            count += len(low)
        return found

    def _rows_of(self, end: str) -> Any:
        """Where the operations at one end of the edges stand in `operations`."""
        edges = self._edges.select(["run", end]).append_column("edge", pa.array(np.arange(self._edges.num_rows)))
        joined = edges.join(self._rows.rename_columns(["run", end, "row"]), ["run", end], join_type="inner")
        found = np.full(self._edges.num_rows, _NOWHERE)
        found[joined["edge"].to_numpy()] = joined["row"].to_numpy()
        return found


def imported_graph(
    *, records: pa.Table, operations: pa.Table, orders: pa.Table, mode: Mode, ww_deps: bool | Collection[int]
) -> ImportedGraph:
    operations = operations.filter(pc.field("function").isin(_SEARCHED))
    searched = pa.table(
        {
            "run": operations["run"],
            "name": operations["operation"],
            "begin": _either(operations, "invocation_index", "invoked_ns"),
            "end": _either(operations, "completion_index", "completed_ns"),
            "ok": pc.equal(operations["status"], STATUS_OK),
            "reads": pc.not_equal(operations["function"], "send"),
        }
    )
    rows = pa.table(
        {
            "run": records["run"],
            "partition_id": records["partition_id"],
            "value": records["value"],
            "name": records["operation"],
            "micro_operation": pc.fill_null(records["micro_operation"], 0),
            "position": records["position"],
        }
    )
    sends = pc.equal(records["kind"], KIND_SEND)
    known = pa.table({name: orders[name] for name in ("run", "partition_id", "index", "value")})
    if mode is Mode.JEPSEN and ww_deps is not True:
        known = known.filter(pc.field("run").isin([] if ww_deps is False else sorted(ww_deps)))
    return ImportedGraph(
        operations=_plain(searched),
        writes=_plain(rows.filter(sends)),
        reads=_plain(rows.filter(pc.invert(sends))),
        orders=_plain(known),
        write_write=mode is not Mode.JEPSEN or bool(ww_deps),
        read_write=mode is not Mode.JEPSEN,
    )


def _either(operations: pa.Table, index: str, time: str) -> pa.ChunkedArray:
    """Event indices where the history has them: they are its order, its times only nearly so."""
    return pc.coalesce(operations[index].cast(pa.int64()), operations[time].cast(pa.int64()))


_KINDS = {"run": pa.int32(), "partition_id": pa.int32(), "ok": pa.bool_(), "reads": pa.bool_()}


def _plain(table: pa.Table) -> pa.Table:
    """In one piece, and in the types by which tables are joined."""
    schema = pa.schema([(name, _KINDS.get(name, pa.int64())) for name in table.column_names])
    return table.cast(schema).combine_chunks()


def _begins(rows: pa.Table) -> Any:
    """Which rows, ordered by partition, are the first of theirs."""
    run, partition_id = rows["run"].to_numpy(), rows["partition_id"].to_numpy()
    first = np.ones(len(run), bool)
    first[1:] = (run[1:] != run[:-1]) | (partition_id[1:] != partition_id[:-1])
    return first


def _highest_so_far(numbers: Any, first: Any) -> Any:
    """In groups that lie together. By ranks, which leave room to set each group above the one before."""
    known, rank = np.unique(numbers, return_inverse=True)
    lift = (np.cumsum(first) - 1) * len(known)
    return known[np.maximum.accumulate(rank + lift) - lift]


def _merged(low: Any, high: Any) -> tuple[Any, Any]:
    """Spans that overlap or touch become one."""
    order = np.argsort(low, kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order])
    opens = np.flatnonzero(np.concatenate([[True], low[1:] > reach[:-1]]))
    return low[opens], reach[np.append(opens[1:], len(low)) - 1]
