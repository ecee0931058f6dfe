"""The growing columns of an imported history.

Records come in groups (the pairs of one key in one micro-operation), and what all records of an operation share stands
once, with the operation: spread over the records only when the tables are made. Keys and values are numbered in order
of first sight until then.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from harness.history.clojure_order import ARRAY_MAP_MAX, map_order
from harness.history.edn_reader import Keyword, frozen, written
from harness.history.imported import (
    KIND_STRAY_SEND,
    SCHEMAS,
    ImportedHistory,
    in_set_order,
    numbers_in_set_order,
    table_of,
)
from harness.history.schemas import KIND_SEND, STATUS_OK

NO_OFFSET = -(1 << 62)  # less than any offset that is read
Pairs: TypeAlias = Sequence[tuple[int, Any]]  # (offset or NO_OFFSET, value)
Group: TypeAlias = tuple[int, int, Any, Pairs]  # kind, place of the micro-operation, key, pairs
_TOLD_APART = frozenset((int, str, Keyword))
_SENDS = (KIND_SEND, KIND_STRAY_SEND)
_AT_ONCE = 1 << 16  # pairs: as many become columns together
_SMALL = 1 << 62


@dataclass(frozen=True, slots=True)
class Moment:
    """What an operation's invocation and completion are told by; the latter None where it never completed."""

    i0: int
    t0: int
    i1: int | None
    t1: int | None

    @property
    def op(self) -> int:
        return self.i0 if self.i1 is None else self.i1


class Numbers:
    """Numbers for keys or values in order of first sight."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.known: list[Any] = []

    def of(self, value: Any) -> int:
        # Python takes 1, 1.0 and True for one.
        same = value if type(value) in _TOLD_APART else (type(value), written(value))
        number = self._numbers.get(same)
        if number is None:
            number = self._numbers[same] = len(self.known)
            self.known.append(value if type(value) in _TOLD_APART else frozen(value))
        return number


class _PairColumns:
    """Offsets and values; small whole numbers, which most histories have only, go in bulk."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Any]] = []
        self._offsets: list[pa.Array] = []
        self._values: list[Any] = []  # arrays of numbers, or lists
        self._plain = True

    def add(self, pairs: Pairs, *, small: bool) -> None:
        """small: all values are known to be whole numbers of 63 bits."""
        if not small and self._plain and not all(_small(value) for _, value in pairs):
            self.flush()
            self._plain = False
        self._waiting.extend(pairs)
        if len(self._waiting) >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        count = len(self._waiting)
        if self._plain:
            told = np.fromiter(chain.from_iterable(self._waiting), np.int64, 2 * count).reshape(count, 2)
            offsets = told[:, 0]
            self._values.append(told[:, 1].copy())
        else:
            offsets = np.fromiter((off for off, _ in self._waiting), np.int64, count)
            self._values.append([value for _, value in self._waiting])
        self._offsets.append(pa.array(offsets, mask=offsets == NO_OFFSET))
        self._waiting.clear()
        self._plain = True

    def offsets(self) -> pa.Array:
        return pa.concat_arrays([pa.array([], pa.int64()), *self._offsets])

    def values(self) -> tuple[list[Any], Any]:
        """All values in set order, and the place in it of each record's."""
        if all(isinstance(part, np.ndarray) for part in self._values):
            encoded = pa.array(np.concatenate([np.empty(0, np.int64), *self._values])).dictionary_encode()
            known, number_of = numbers_in_set_order(encoded.dictionary.to_numpy())
            return known, number_of[encoded.indices.to_numpy()]
        numbers = Numbers()
        listed = chain.from_iterable(part.tolist() if isinstance(part, np.ndarray) else part for part in self._values)
        first_seen = np.fromiter(map(numbers.of, listed), np.int64)
        known, number_of = in_set_order(numbers.known)
        return known, number_of[first_seen]


def _small(value: Any) -> bool:
    return type(value) is int and -_SMALL < value < _SMALL


class Columns:
    def __init__(self) -> None:
        self.keys = Numbers()
        self._pairs = _PairColumns()
        self._groups: dict[str, list[Any]] = {name: [] for name in ("kind", "mop", "tp", "count", "moved")}
        self._ops: dict[str, list[Any]] = {
            name: [] for name in ("process", "f", "status", "i0", "t0", "i1", "t1", "count", "error", "batch")
        }
        self._named_keys: dict[str, list[Any]] = {name: [] for name in ("op", "process", "status", "what", "tp", "off")}
        self._records = 0
        self._read: dict[int, None] = {}
        self._wide_reads: set[int] = set()
        self._wide_writes: set[int] = set()
        self._touched: set[int] = set()
        self._last_ok: tuple[int, int] | None = None
        self._fresh: tuple[frozenset[int], int, int] = (frozenset(), 0, 0)  # keys, and the groups that may have them

    def operation(
        self, f: str, status: int, process: int, when: Moment, *, error: str | None, batch: bool = False, count: int = 0
    ) -> None:
        ops = self._ops
        ops["process"].append(process)
        ops["f"].append(f)
        ops["status"].append(status)
        ops["i0"].append(when.i0)
        ops["t0"].append(when.t0)
        ops["i1"].append(when.i1)
        ops["t1"].append(when.t1)
        ops["count"].append(count)
        ops["error"].append(error)
        ops["batch"].append(batch)

    def with_records(
        self, f: str, status: int, process: int, when: Moment, groups: Iterable[Group], *,
        moved: Container[int] = (), error: str | None = None, batch: bool = False, small: bool = False,
    ) -> None:  # fmt: skip
        """An operation that sent or polled. moved: keys that its rebalance log names; small: see _PairColumns."""
        columns = self._groups
        before, first = self._records, len(columns["kind"])
        read: dict[int, int] = {}
        sent: set[int] = set()
        settled: set[int] = set()
        for kind, mop, key, pairs in groups:
            tp, count = self.keys.of(key), len(pairs)
            if kind in _SENDS:
                sent.add(tp)
                if kind == KIND_SEND:
                    settled.add(tp)
            else:
                read[tp] = read.get(tp, 0) + count
            columns["kind"].append(kind)
            columns["mop"].append(mop)
            columns["tp"].append(tp)
            columns["count"].append(count)
            columns["moved"].append(tp in moved)
            self._pairs.add(pairs, small=small)
            self._records += count
        if f == "send":
            read.clear()
        for tp, count in read.items():
            if count == 0:
                self.key(when.op, status, process, "read_nothing", tp)
            if status == STATUS_OK:
                self._read.setdefault(tp)
        if len(read) > ARRAY_MAP_MAX:
            self._wide_reads.add(when.op)
        if len(sent) > ARRAY_MAP_MAX:
            self._wide_writes.add(when.op)
        if status == STATUS_OK:  # what the last ok operation polled of keys that none had touched before it
            fresh = frozenset(tp for tp in read if tp not in self._touched and tp not in settled)
            self._touched.update(settled, read)
            assert when.t1 is not None, "an ok operation has completed"
            self._last_ok, self._fresh = (when.op, when.t1), (fresh, first, len(columns["kind"]))
        self.operation(f, status, process, when, error=error, batch=batch, count=self._records - before)

    def key(self, op: int, status: int, process: int, what: str, tp: int, off: int | None = None) -> None:
        row = {"op": op, "status": status, "process": process, "what": what, "tp": tp, "off": off}
        for name, column in self._named_keys.items():
            column.append(row[name])

    # -- the tables ---------------------------------------

    def finished(self, name: str, processes: Iterable[int]) -> ImportedHistory:
        self._pairs.flush()
        keys, tp_of = in_set_order(self.keys.known)
        values, numbers = self._pairs.values()
        groups = {column: np.array(rows, np.int64) for column, rows in self._groups.items()}
        group_tp = tp_of[groups["tp"]].astype(np.int32)
        named = {**self._named_keys, "tp": tp_of[np.array(self._named_keys["tp"], np.int64)].astype(np.int32)}
        texts = [written(key) for key in keys]
        parts = np.arange(len(keys), dtype=np.int32)
        ops = self._operations()
        tables = {
            "ops": table_of(SCHEMAS["ops"], ops),
            "records": table_of(SCHEMAS["records"], self._record_columns(ops, groups, group_tp, numbers, texts)),
            "partitions": table_of(SCHEMAS["partitions"], {"tp": parts, "topic": texts, "part": parts * 0}),
            "value_names": table_of(
                SCHEMAS["value_names"], {"value": np.arange(len(values)), "text": [written(value) for value in values]}
            ),
            "imported_keys": table_of(SCHEMAS["imported_keys"], named),
        }
        return ImportedHistory(
            name=name, tables=tables, keys=keys, values=values,
            process_order={process: place for place, process in enumerate(map_order(processes))},
            read_order=_map_order_of_tps(int(tp_of[tp]) for tp in self._read),
            last_ok=self._last_ok, first_read=self._first_read(tp_of, groups["count"], numbers),
            wide_reads=frozenset(self._wide_reads), wide_writes=frozenset(self._wide_writes),
        )  # fmt: skip

    def _operations(self) -> dict[str, Any]:
        told = self._ops
        never = np.array([t1 is None for t1 in told["t1"]], bool)
        i0 = np.array(told["i0"], np.int64)
        i1 = np.array([0 if i1 is None else i1 for i1 in told["i1"]], np.int64)
        process = pa.array(told["process"], pa.int32())
        return {
            "op": pa.array(np.where(never, i0, i1)), "process": process, "client": process.cast(pa.string()),
            "f": told["f"], "status": pa.array(told["status"], pa.int8()), "t0": pa.array(told["t0"], pa.int64()),
            "t1": pa.array(told["t1"], pa.int64()), "count": pa.array(told["count"], pa.int32()),
            "error": told["error"], "i0": pa.array(i0), "i1": pa.array(i1, mask=never),
        }  # fmt: skip

    def _record_columns(
        self, ops: Mapping[str, Any], groups: Mapping[str, Any], group_tp: Any, numbers: Any, texts: Sequence[str]
    ) -> dict[str, Any]:
        of_op = np.array(self._ops["count"], np.int64)
        within = np.arange(self._records) - np.repeat(np.cumsum(of_op) - of_op, of_op)
        of_group = groups["count"]
        tp = pa.array(np.repeat(group_tp, of_group))
        row = pa.array(np.repeat(np.arange(len(of_op)), of_op))
        spread = {name: ops[name].take(row) for name in ("op", "process", "status", "t0", "t1", "i0")}
        topics = pa.DictionaryArray.from_arrays(tp, pa.array(texts, pa.string()))
        return {
            **spread, "kind": pa.array(np.repeat(groups["kind"].astype(np.int8), of_group)),
            "mop": pa.array(np.repeat(groups["mop"].astype(np.int32), of_group)), "tp": tp,
            "moved": pa.array(np.repeat(groups["moved"].astype(bool), of_group)),
            "i": pa.array(within.astype(np.int32)), "off": self._pairs.offsets(), "value": pa.array(numbers),
            "txn": pa.array(spread["op"].to_numpy(), mask=np.repeat(np.array(self._ops["batch"], bool), of_op)),
            "topic": topics.cast(pa.string()), "part": pa.array(np.zeros(self._records, np.int32)),
        }  # fmt: skip

    def _first_read(self, tp_of: Any, counts: Any, numbers: Any) -> dict[int, list[int]]:
        fresh, first, end = self._fresh
        found: dict[int, set[int]] = {tp: set() for tp in fresh}
        starts = np.cumsum(counts) - counts
        for group in range(first, end) if fresh else ():
            tp = self._groups["tp"][group]
            if tp in found:
                found[tp].update(numbers[starts[group] : starts[group] + counts[group]].tolist())
        return {int(tp_of[tp]): sorted(values) for tp, values in found.items()}


def _map_order_of_tps(tps: Iterator[int]) -> list[int]:
    listed = list(tps)
    return listed if len(listed) <= ARRAY_MAP_MAX else sorted(listed)
