"""Which histories are searched for cycles: those in which an edge runs backward at all (checks/cycles/graph.py).

A history of plain sends and polls has none as long as nobody reads a value before its send began, and most have none.
What shows that of a history's values is one pass over its columns; the search is for the others.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.checks.cycles import Mode, Search, search_histories
from harness.checks.jepsen.columns import NONE, Column, Records, highest, lowest
from harness.history.jepsen.imported import ImportedHistory
from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_POLL, STATUS_OK

_SEARCHED = ("txn", "send", "poll")
_RECORD_COLUMNS = ["run", "operation", "kind", "partition_id", "value", "micro_operation", "position"]
_OP_COLUMNS = [
    "run",
    "operation",
    "function",
    "status",
    "invoked_ns",
    "completed_ns",
    "invocation_index",
    "completion_index",
]


class Searches:
    def __init__(
        self,
        histories: Sequence[ImportedHistory],
        tables: Mapping[str, pa.Table],
        records: Records,
        orders: pa.Table,
    ) -> None:
        self._histories = histories
        self._tables = tables
        self._records = records
        self._orders = orders
        searched = pc.field("function").isin(_SEARCHED) & pc.field("completion_index").is_valid()
        self._ops = tables["operations"].filter(searched).select(_OP_COLUMNS)

    def as_jepsen(self, with_edges: Collection[int]) -> Search:
        """with_edges: the histories that infer edges between writes."""
        backward, related = self._read_edges()
        joined = self._joined_by_time() | related
        wanted = sorted(set(with_edges) | backward)
        found = self._search(wanted, Mode.JEPSEN, with_edges)
        return replace(found, runs_with_edges=found.runs_with_edges | frozenset(joined - set(wanted)))

    def between_transactions(self) -> Search:
        """With all edges, those from reads to writes too: see READ_WRITE_CYCLES."""
        self._ops = self._ops.filter(pc.field("function") == "txn")
        wanted = sorted(set(self._ops["run"].to_pylist()))
        return self._search(wanted, Mode.UNTIMED, True)

    def _search(self, runs: Sequence[int], mode: Mode, with_edges: bool | Collection[int]) -> Search:
        if not runs:
            return Search(mode=mode)
        here, kept = (
            pc.field("run").isin(list(runs)),
            pc.field("completed") & (pc.field("kind") < KIND_FINAL_POLL),
        )
        ops = self._ops.filter(here)
        rows = self._tables["records"].filter(here & kept).select(_RECORD_COLUMNS)
        if mode is Mode.UNTIMED:
            rows = rows.join(ops.select(["run", "operation"]), ["run", "operation"], join_type="left semi")
        return search_histories(
            records=rows,
            operations=ops,
            orders=self._orders.filter(here),
            mode=mode,
            ww_deps=with_edges,
            key_of=lambda run, partition_id: self._histories[run].keys[partition_id],
        )

    def _joined_by_time(self) -> set[int]:
        """The runs in which an operation began after an ok one had ended."""
        runs = self._ops["run"].to_numpy()
        ok = self._ops["status"].to_numpy() == STATUS_OK
        first_end = lowest(len(self._histories), runs[ok], self._ops["completion_index"].to_numpy()[ok])
        last_begin = highest(len(self._histories), runs, self._ops["invocation_index"].to_numpy())
        return set(np.flatnonzero((first_end != NONE) & (first_end < last_begin)).tolist())

    def _read_edges(self) -> tuple[set[int], set[int]]:
        """The runs in which a read comes before its value's last send in the graph, and those with any read of
        another's value. A poll stands at its end, as a transaction does; a plain send where it began.
        """
        records = self._records
        sends = np.flatnonzero(records.sends & records.completed)
        polls = np.flatnonzero((records.kind == KIND_POLL) & records.completed)
        writer = highest(records.ids, records.id[sends], records.operation[sends])
        last = sends[records.operation[sends] == writer[records.id[sends]]]
        begin = np.full(records.ids, NONE)
        plain = self._plain_sends(records, last)
        begin[records.id[last]] = np.where(plain, records.invocation_index[last], records.operation[last])
        reader = lowest(records.ids, records.id[polls], records.operation[polls])
        backward = (begin != NONE) & (reader != NONE) & (begin > reader)
        others = polls[(writer[records.id[polls]] != NONE) & (writer[records.id[polls]] != records.operation[polls])]
        return set(records.of_id[0][backward].tolist()), set(records.run[others].tolist())

    def _plain_sends(self, records: Records, rows: Column) -> Column:
        """Whether each record's operation is called :send: all but those of transactions are."""
        runs, ops = (self._ops.filter(pc.field("function") == "txn")[name].to_numpy() for name in ("run", "operation"))
        if not len(runs):
            return np.ones(len(rows), bool)
        plain = np.ones(len(rows), bool)
        for run in np.unique(runs):
            here = records.run[rows] == run
            plain[here] = ~np.isin(records.operation[rows][here], ops[runs == run])
        return plain
