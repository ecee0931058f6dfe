"""Tables computed from the records while these are written, so that checks and pages need not compute them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.history.journals.journal_columns import NO_ANSWER
from harness.history.run_folder import RunFolder
from harness.history.schema.parquet_tables import check_footer, unsound
from harness.history.schema.schemas import (
    DERIVED,
    KIND_FINAL_POLL,
    KIND_POLL,
    KIND_SEND,
    STATUS_FAIL,
    STATUS_INFO,
    STATUS_OK,
    TABLES,
)

SLOW_NS = 500_000_000  # for a send that took longer, the partition may have paused meanwhile
_COUNTS = ("sends", "reads", "final_reads")
_MARKS = ("transactional", "halting", "log_append")
WIDTH_MIN_NS = 100_000_000
BINS_MAX = 1200
_READER = ("run", "process", "assignment", "partition_id")
_COLUMNS = (*_READER, "operation", "position", "offset", "status", "value")
_ABSENT = -(2**62)


class Activity:
    """The table `activity`: totals of a run, which show whether some queries can find anything at all.

    They are counted at almost no cost; queries about what did not occur are then skipped. Takes the records one row
    group at a time.
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._marks = dict.fromkeys(_MARKS, False)
        self._t_last: int | None = None
        self._apart: int | None = None  # time of the first read from a single replica

    def add(self, records: pa.Table) -> None:
        if not len(records):
            return
        kind, invoked_ns, completed_ns = (
            records.column(name).to_numpy() for name in ("kind", "invoked_ns", "completed_ns")
        )
        apart = np.asarray(records.column("replica").is_valid()) & (kind == KIND_FINAL_POLL)
        self._counts["sends"] += int((kind == KIND_SEND).sum())
        self._counts["reads"] += int((kind == KIND_POLL).sum())
        self._counts["final_reads"] += int(((kind == KIND_FINAL_POLL) & ~apart).sum())
        latest = int(completed_ns.max())
        self._t_last = latest if self._t_last is None else max(latest, self._t_last)
        if apart.any():
            began = int(invoked_ns[apart].min())
            self._apart = began if self._apart is None else min(began, self._apart)
        self._marks["transactional"] |= records.column("transaction").null_count < len(records)
        self._marks["log_append"] |= bool(pc.any(pc.fill_null(records.column("log_append"), False)).as_py())
        self._marks["halting"] |= _halting(records, kind == KIND_SEND, completed_ns - invoked_ns)

    def table(self, *, run: int = 0) -> pa.Table:
        if self._t_last is None:
            return TABLES["activity"].empty_table()
        row = {
            "run": run,
            **self._counts,
            **self._marks,
            "last_ns": self._t_last,
            "replica_reads_began_ns": self._apart,
        }
        return pa.Table.from_pylist([row], schema=TABLES["activity"])


def activity_of(records: pa.Table) -> pa.Table:
    """The rows of all the runs in a table of records."""
    parts = [TABLES["activity"].empty_table()]
    for run in pc.unique(records.column("run")).to_pylist():
        one = Activity()
        one.add(records.filter(pc.equal(records.column("run"), run)))
        parts.append(one.table(run=run))
    return pa.concat_tables(parts)


def _halting(records: pa.Table, sent: Any, took_ns: Any) -> bool:
    """True if a send that its partition should answer failed or took long (checks/families/cluster/availability.py)."""
    asked = sent & (np.asarray(pc.fill_null(records.column("acks"), -1)) != 0)
    bound = np.asarray(records.column("transaction").is_valid()) & np.asarray(records.column("offset").is_valid())
    taken = (records.column("status").to_numpy() == STATUS_OK) | bound
    return bool((asked & (~taken | (took_ns > SLOW_NS))).any())


class Bins:
    """The table `bins`: throughput and latency over the run, small enough to draw; minima and maxima survive.

    Takes the records one row group at a time. Of a poll it keeps only its end and its number of records.
    """

    def __init__(self) -> None:
        self._sends: list[tuple[Any, Any, Any]] = []  # time, latency, status
        self._polls: list[tuple[Any, Any]] = []  # time, number of records

    def add(self, records: pa.Table) -> None:
        """A send belongs to the bin of its answer, or of its call if unanswered. Final reads are left out."""
        kind, status, invoked_ns, completed_ns = (
            records.column(name).to_numpy() for name in ("kind", "status", "invoked_ns", "completed_ns")
        )
        unanswered = np.asarray(pa.compute.fill_null(pa.compute.equal(records.column("error"), NO_ANSWER), False))
        sent = kind == KIND_SEND
        t = np.where(unanswered, invoked_ns, completed_ns)
        self._sends.append((t[sent], (completed_ns - invoked_ns)[sent], status[sent]))
        self._polls.append(np.unique(t[kind == KIND_POLL], return_counts=True))

    def table(self, *, run: int = 0) -> pa.Table:
        if not self._sends:
            return TABLES["bins"].empty_table()
        t, latency, status = (np.concatenate(columns) for columns in zip(*self._sends, strict=True))
        poll_t, polled = (np.concatenate(columns) for columns in zip(*self._polls, strict=True))
        if not len(t) and not len(poll_t):
            return TABLES["bins"].empty_table()
        start = min(int(times.min()) for times in (t, poll_t) if len(times))
        end = max(int(times.max()) for times in (t, poll_t) if len(times))
        width = max(WIDTH_MIN_NS, -(-(end - start) // BINS_MAX // WIDTH_MIN_NS) * WIDTH_MIN_NS)
        count = (end - start) // width + 1
        place = (t - start) // width
        acknowledged = status == STATUS_OK

        def number(rows: Any) -> Any:
            return np.bincount(place[rows], minlength=count)

        p50, p99, highest = _latencies(place[acknowledged], latency[acknowledged], count)
        return pa.table(
            {
                "run": np.full(count, run, np.int32),
                "time_ns": start + width * np.arange(count, dtype=np.int64),
                "width_ns": np.full(count, width, np.int64),
                "ok": number(acknowledged),
                "info": number(status == STATUS_INFO),
                "fail": number(status == STATUS_FAIL),
                "polled": np.bincount((poll_t - start) // width, polled, minlength=count).astype(np.int64),
                "p50_ns": p50,
                "p99_ns": p99,
                "max_ns": highest,
            },
            schema=TABLES["bins"],
        )


def bins_of(records: pa.Table, *, run: int = 0) -> pa.Table:
    bins = Bins()
    bins.add(records)
    return bins.table(run=run)


def _latencies(place: Any, latency: Any, count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Nearest-rank percentiles per bin; null if nothing was acknowledged."""
    order = np.lexsort((latency, place))
    sizes = np.bincount(place, minlength=count)
    starts = np.cumsum(sizes) - sizes
    empty = sizes == 0
    ordered = np.append(latency[order], 0)

    def rank(share: float) -> pa.Array:
        at = starts + np.maximum(np.ceil(sizes * share).astype(np.int64) - 1, 0)
        return pa.array(np.where(empty, 0, ordered[np.minimum(at, len(ordered) - 1)]), pa.int64(), mask=empty)

    return rank(0.5), rank(0.99), rank(1.0)


class Jumps:
    """The table `jumps`: first records of polls that do not continue where their consumer's previous poll ended.

    A consumer usually continues, so there are few, whatever the run's size; the detection query
    (checks/spark/detection.py) decides which went back and which left something out. A failed poll's records count, but
    the consumer may not have moved on. Takes the records one row group at a time, in order of the operations.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}  # the last offset of a reader's previous polls
        self._found: list[pa.Table] = []

    def add(self, records: pa.Table) -> None:
        first = pc.is_null(records.column("offset_step"))
        read = pc.not_equal(records.column("kind"), KIND_SEND)
        edges = pc.and_(read, pc.or_(first, pc.fill_null(records.column("last_of_poll"), False)))
        rows = records.append_column("first", first).filter(edges).select([*_COLUMNS, "first"])
        if len(rows):
            self._take({name: _numbers(rows, name) for name in (*_COLUMNS, "first")})

    def table(self) -> pa.Table:
        return pa.concat_tables([TABLES["jumps"].empty_table(), *self._found])

    def _take(self, rows: dict[str, Any]) -> None:
        order = np.lexsort([rows[name] for name in ("position", "operation", *reversed(_READER))])
        rows = {name: column[order] for name, column in rows.items()}
        count = len(order)
        new = np.append(True, np.any([rows[name][1:] != rows[name][:-1] for name in _READER], axis=0))
        heads = np.flatnonzero(new)
        head = np.repeat(heads, np.diff(np.append(heads, count)))
        moved_on = (rows["status"] == STATUS_OK) & (rows["offset"] != _ABSENT)
        latest = np.maximum.accumulate(np.where(moved_on, np.arange(count), -1))
        before = np.append(-1, latest[:-1])
        known = before >= head
        end = np.where(known, rows["offset"][before], _ABSENT)
        for place in np.flatnonzero(~known):
            end[place] = self._ends.get(_reader(rows, place), _ABSENT)
        for place in np.append(heads[1:], count) - 1:
            if latest[place] >= head[place]:
                self._ends[_reader(rows, place)] = int(rows["offset"][latest[place]])
        jump = rows["offset"] - end
        chosen = (rows["first"] == 1) & (end != _ABSENT) & (rows["offset"] != _ABSENT) & (jump != 1)
        if chosen.any():
            found = {name: rows[name][chosen] for name in ("run", "partition_id", "value", "offset")} | {
                "jump": jump[chosen]
            }
            columns = {name: pa.array(column, mask=column == _ABSENT) for name, column in found.items()}
            self._found.append(pa.table(columns).cast(TABLES["jumps"]))


def jumps_of(records: pa.Table) -> pa.Table:
    """The jumps of all the runs in a table of records."""
    jumps = Jumps()
    jumps.add(records)
    return jumps.table()


def _reader(rows: dict[str, Any], place: Any) -> tuple[int, ...]:
    return tuple(int(rows[name][place]) for name in _READER)


def _numbers(rows: pa.Table, name: str) -> Any:
    return pc.fill_null(rows.column(name).cast(pa.int64()), _ABSENT).combine_chunks().to_numpy()


class Derived:
    """Takes one run's records one row group at a time, in order of the operations."""

    def __init__(self) -> None:
        self._takers: dict[str, Activity | Bins | Jumps] = {"bins": Bins(), "activity": Activity(), "jumps": Jumps()}

    def add(self, records: pa.Table) -> None:
        for taker in self._takers.values():
            taker.add(records)

    def tables(self) -> dict[str, pa.Table]:
        return {name: taker.table() for name, taker in self._takers.items()}


def derived_of(records: pa.Table) -> dict[str, pa.Table]:
    """The tables that a check needs, for records of any number of runs."""
    return {"activity": activity_of(records), "jumps": jumps_of(records)}


def complete(folder: RunFolder) -> None:
    """Writes the tables that a run sealed by an older version lacks; its other tables stay as they are.

    An empty table `activity` counts as missing, and so do the tables written with it.
    """
    is_counted = folder.has_table("activity") and folder.table("activity").num_rows
    missing = [name for name in DERIVED if not (is_counted and folder.has_table(name))]
    if not missing:
        return
    from pyarrow.dataset import dataset  # with pandas: a third of what a command takes to begin

    derived, schema = Derived(), TABLES["records"]
    if folder.has_table("records"):
        path = folder.path / "tables" / "records.parquet"
        try:
            check_footer(path, pq.read_metadata(path), "records")
            for batch in dataset(path, schema=schema).to_batches():
                derived.add(pa.Table.from_batches([batch]))
        except (pa.ArrowException, OSError) as error:
            raise HarnessError(unsound(path, error)) from error
    tables = derived.tables()
    for name in missing:
        folder.write_table(name, tables[name])
