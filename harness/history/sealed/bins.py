"""The table `bins`: throughput and latency over the run, small enough to draw; minima and maxima
survive the binning."""

from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.journals.journal_columns import NO_ANSWER
from harness.history.schema.schemas import KIND_POLL, KIND_SEND, STATUS_FAIL, STATUS_INFO, STATUS_OK, TABLES

WIDTH_MIN_NS = 100_000_000
BINS_MAX = 1200


class Bins:
    """Takes the records one row group at a time. Of a poll it keeps only its end and its number of records."""

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
