"""The growing columns of an imported history.

Records come in groups (the pairs of one key in one micro-operation). Fields shared by all records of an operation are
stored once, with the operation, and copied to the records only in the tables. Until then keys and values are numbered
in order of first occurrence.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from harness.history.jepsen.clojure_order import ARRAY_MAP_MAX, map_order
from harness.history.jepsen.edn_reader import Keyword, frozen, written
from harness.history.jepsen.imported import (
    KIND_STRAY_SEND,
    SCHEMAS,
    ImportedHistory,
    in_set_order,
    numbers_in_set_order,
    table_of,
)
from harness.history.schema.schemas import KIND_SEND, STATUS_OK

NO_OFFSET = -(1 << 62)  # smaller than any valid offset
Pairs: TypeAlias = Sequence[tuple[int, Any]]  # (offset or NO_OFFSET, value)
Group: TypeAlias = tuple[int, int, Any, Pairs]  # kind, place of the micro-operation, key, pairs
_TOLD_APART = frozenset((int, str, Keyword))
_SENDS = (KIND_SEND, KIND_STRAY_SEND)
_AT_ONCE = 1 << 16  # number of pairs converted to columns at once
_SMALL = 1 << 62


@dataclass(frozen=True, slots=True)
class Moment:
    """An operation's invocation and completion event; the latter None if it never completed."""

    invocation_index: int
    invoked_ns: int
    completion_index: int | None
    completed_ns: int | None

    @property
    def operation(self) -> int:
        return self.invocation_index if self.completion_index is None else self.completion_index


class Numbers:
    """Numbers keys or values in order of first occurrence."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.known: list[Any] = []

    def of(self, value: Any) -> int:
        # 1, 1.0 and True are equal in Python.
        same = value if type(value) in _TOLD_APART else (type(value), written(value))
        number = self._numbers.get(same)
        if number is None:
            number = self._numbers[same] = len(self.known)
            self.known.append(value if type(value) in _TOLD_APART else frozen(value))
        return number


class _PairColumns:
    """Offsets and values; small integers, which most histories have only, are added in bulk."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Any]] = []
        self._offsets: list[pa.Array] = []
        self._values: list[Any] = []  # arrays of numbers, or lists
        self._plain = True

    def add(self, pairs: Pairs, *, small: bool) -> None:
        """small: all values are known to be 63-bit integers."""
        if not small and self._plain and not all(_small(value) for _, value in pairs):
            self.flush()
            self._plain = False
        self._waiting.extend(pairs)
        if len(self._waiting) >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        count = len(self._waiting)
        if self._plain:
            columns = np.fromiter(chain.from_iterable(self._waiting), np.int64, 2 * count).reshape(count, 2)
            offsets = columns[:, 0]
            self._values.append(columns[:, 1].copy())
        else:
            offsets = np.fromiter((offset for offset, _ in self._waiting), np.int64, count)
            self._values.append([value for _, value in self._waiting])
        self._offsets.append(pa.array(offsets, mask=offsets == NO_OFFSET))
        self._waiting.clear()
        self._plain = True

    def offsets(self) -> pa.Array:
        return pa.concat_arrays([pa.array([], pa.int64()), *self._offsets])

    def values(self) -> tuple[list[Any], Any]:
        """All values in set order, and each record's index in it."""
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
        self._groups: dict[str, list[Any]] = {
            name: [] for name in ("kind", "micro_operation", "partition_id", "count", "moved")
        }
        self._ops: dict[str, list[Any]] = {
            name: []
            for name in (
                "process",
                "function",
                "status",
                "invocation_index",
                "invoked_ns",
                "completion_index",
                "completed_ns",
                "count",
                "error",
                "batch",
            )
        }
        self._named_keys: dict[str, list[Any]] = {
            name: [] for name in ("operation", "process", "status", "what", "partition_id", "offset")
        }
        self._records = 0
        self._read: dict[int, None] = {}
        self._wide_reads: set[int] = set()
        self._wide_writes: set[int] = set()
        self._touched: set[int] = set()
        self._last_ok: tuple[int, int] | None = None
        # keys, and the groups of records that may contain them
        self._fresh: tuple[frozenset[int], int, int] = (frozenset(), 0, 0)

    def operation(
        self, f: str, status: int, process: int, when: Moment, *, error: str | None, batch: bool = False, count: int = 0
    ) -> None:
        ops = self._ops
        ops["process"].append(process)
        ops["function"].append(f)
        ops["status"].append(status)
        ops["invocation_index"].append(when.invocation_index)
        ops["invoked_ns"].append(when.invoked_ns)
        ops["completion_index"].append(when.completion_index)
        ops["completed_ns"].append(when.completed_ns)
        ops["count"].append(count)
        ops["error"].append(error)
        ops["batch"].append(batch)

    def with_records(
        self,
        f: str,
        status: int,
        process: int,
        when: Moment,
        groups: Iterable[Group],
        *,
        moved: Container[int] = (),
        error: str | None = None,
        batch: bool = False,
        small: bool = False,
    ) -> None:
        """An operation that sent or polled. moved: keys in its rebalance log; small: see _PairColumns."""
        columns = self._groups
        before, first = self._records, len(columns["kind"])
        read: dict[int, int] = {}
        sent: set[int] = set()
        settled: set[int] = set()
        for kind, mop, key, pairs in groups:
            partition_id, count = self.keys.of(key), len(pairs)
            if kind in _SENDS:
                sent.add(partition_id)
                if kind == KIND_SEND:
                    settled.add(partition_id)
            else:
                read[partition_id] = read.get(partition_id, 0) + count
            columns["kind"].append(kind)
            columns["micro_operation"].append(mop)
            columns["partition_id"].append(partition_id)
            columns["count"].append(count)
            columns["moved"].append(partition_id in moved)
            self._pairs.add(pairs, small=small)
            self._records += count
        if f == "send":
            read.clear()
        for partition_id, count in read.items():
            if count == 0:
                self.key(when.operation, status, process, "read_nothing", partition_id)
            if status == STATUS_OK:
                self._read.setdefault(partition_id)
        if len(read) > ARRAY_MAP_MAX:
            self._wide_reads.add(when.operation)
        if len(sent) > ARRAY_MAP_MAX:
            self._wide_writes.add(when.operation)
        if status == STATUS_OK:  # what the last ok operation polled of keys that no earlier one had used
            fresh = frozenset(
                partition_id
                for partition_id in read
                if partition_id not in self._touched and partition_id not in settled
            )
            self._touched.update(settled, read)
            assert when.completed_ns is not None, "an ok operation has completed"
            self._last_ok, self._fresh = (when.operation, when.completed_ns), (fresh, first, len(columns["kind"]))
        self.operation(f, status, process, when, error=error, batch=batch, count=self._records - before)

    def key(
        self, operation: int, status: int, process: int, what: str, partition_id: int, offset: int | None = None
    ) -> None:
        row = {
            "operation": operation,
            "status": status,
            "process": process,
            "what": what,
            "partition_id": partition_id,
            "offset": offset,
        }
        for name, column in self._named_keys.items():
            column.append(row[name])

    # -- the tables ---------------------------------------

    def finished(self, name: str, processes: Iterable[int]) -> ImportedHistory:
        self._pairs.flush()
        keys, number_of_old = in_set_order(self.keys.known)
        values, numbers = self._pairs.values()
        groups = {column: np.array(rows, np.int64) for column, rows in self._groups.items()}
        group_partition_id = number_of_old[groups["partition_id"]].astype(np.int32)
        named = {
            **self._named_keys,
            "partition_id": number_of_old[np.array(self._named_keys["partition_id"], np.int64)].astype(np.int32),
        }
        texts = [written(key) for key in keys]
        parts = np.arange(len(keys), dtype=np.int32)
        ops = self._operations()
        tables = {
            "operations": table_of(SCHEMAS["operations"], ops),
            "records": table_of(
                SCHEMAS["records"], self._record_columns(ops, groups, group_partition_id, numbers, texts)
            ),
            "partitions": table_of(
                SCHEMAS["partitions"], {"partition_id": parts, "topic": texts, "partition": parts * 0}
            ),
            "value_names": table_of(
                SCHEMAS["value_names"], {"value": np.arange(len(values)), "name": [written(value) for value in values]}
            ),
            "imported_keys": table_of(SCHEMAS["imported_keys"], named),
        }
        return ImportedHistory(
            name=name,
            tables=tables,
            keys=keys,
            values=values,
            process_order={process: place for place, process in enumerate(map_order(processes))},
            read_order=_map_order_of_tps(int(number_of_old[partition_id]) for partition_id in self._read),
            last_ok=self._last_ok,
            first_read=self._first_read(number_of_old, groups["count"], numbers),
            wide_reads=frozenset(self._wide_reads),
            wide_writes=frozenset(self._wide_writes),
        )

    def _operations(self) -> dict[str, Any]:
        columns = self._ops
        never = np.array([completed_ns is None for completed_ns in columns["completed_ns"]], bool)
        i0 = np.array(columns["invocation_index"], np.int64)
        i1 = np.array([0 if i1 is None else i1 for i1 in columns["completion_index"]], np.int64)
        process = pa.array(columns["process"], pa.int32())
        return {
            "operation": pa.array(np.where(never, i0, i1)),
            "process": process,
            "client": process.cast(pa.string()),
            "function": columns["function"],
            "status": pa.array(columns["status"], pa.int8()),
            "invoked_ns": pa.array(columns["invoked_ns"], pa.int64()),
            "completed_ns": pa.array(columns["completed_ns"], pa.int64()),
            "count": pa.array(columns["count"], pa.int32()),
            "error": columns["error"],
            "invocation_index": pa.array(i0),
            "completion_index": pa.array(i1, mask=never),
        }

    def _record_columns(
        self,
        operations: Mapping[str, Any],
        groups: Mapping[str, Any],
        group_partition_id: Any,
        numbers: Any,
        texts: Sequence[str],
    ) -> dict[str, Any]:
        of_op = np.array(self._ops["count"], np.int64)
        within = np.arange(self._records) - np.repeat(np.cumsum(of_op) - of_op, of_op)
        of_group = groups["count"]
        partition_id = pa.array(np.repeat(group_partition_id, of_group))
        row = pa.array(np.repeat(np.arange(len(of_op)), of_op))
        spread = {
            name: operations[name].take(row)
            for name in ("operation", "process", "status", "invoked_ns", "completed_ns", "invocation_index")
        }
        topics = pa.DictionaryArray.from_arrays(partition_id, pa.array(texts, pa.string()))
        return {
            **spread,
            "kind": pa.array(np.repeat(groups["kind"].astype(np.int8), of_group)),
            "micro_operation": pa.array(np.repeat(groups["micro_operation"].astype(np.int32), of_group)),
            "partition_id": partition_id,
            "moved": pa.array(np.repeat(groups["moved"].astype(bool), of_group)),
            "position": pa.array(within.astype(np.int32)),
            "offset": self._pairs.offsets(),
            "value": pa.array(numbers),
            "transaction": pa.array(
                spread["operation"].to_numpy(), mask=np.repeat(np.array(self._ops["batch"], bool), of_op)
            ),
            "topic": topics.cast(pa.string()),
            "partition": pa.array(np.zeros(self._records, np.int32)),
        }

    def _first_read(self, number_of_old: Any, counts: Any, numbers: Any) -> dict[int, list[int]]:
        fresh, first, end = self._fresh
        found: dict[int, set[int]] = {partition_id: set() for partition_id in fresh}
        starts = np.cumsum(counts) - counts
        for group in range(first, end) if fresh else ():
            partition_id = self._groups["partition_id"][group]
            if partition_id in found:
                found[partition_id].update(numbers[starts[group] : starts[group] + counts[group]].tolist())
        return {int(number_of_old[partition_id]): sorted(values) for partition_id, values in found.items()}


def _map_order_of_tps(partition_ids: Iterator[int]) -> list[int]:
    listed = list(partition_ids)
    return listed if len(listed) <= ARRAY_MAP_MAX else sorted(listed)
