"""Jepsen's histories of the Kafka workload as the tables of a run.

A completion gives one row of `ops` (op = its :index) and one row of `records` per send and per polled pair. Keys become
topic-partitions: `topic` is the key as EDN, `tp` its place. Keys and values are numbered in the order in which
Clojure's sets would give them out, so that "the first of a set" is the least number. An invocation that was never
answered is an info operation whose t1 and i1 are null. What the tables have no place for is in IMPORTED_KEYS.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.errors import HarnessError, UsageError
from harness.history.clojure_order import ARRAY_MAP_MAX, map_order
from harness.history.edn_reader import Keyword, frozen, read_file, read_text, written
from harness.history.imported import (
    KIND_STRAY_POLL,
    KIND_STRAY_SEND,
    SCHEMAS,
    ImportedHistory,
    in_set_order,
    table_of,
)
from harness.history.schemas import KIND_POLL, KIND_SEND, STATUS_FAIL, STATUS_INFO, STATUS_OK

_K = {name: Keyword(name) for name in (
    "index", "time", "process", "type", "f", "value", "error", "invoke", "ok", "fail", "info", "send", "poll", "txn",
    "assign", "subscribe", "keys", "partitions", "seek-to-beginning?", "rebalance-log", "debug-topic-partitions",
    "end-offset", "offset", "batch?",
)}  # fmt: skip
_STATUS = {_K["ok"]: STATUS_OK, _K["fail"]: STATUS_FAIL, _K["info"]: STATUS_INFO}
_WITH_RECORDS = ("txn", "send", "poll")
_REMEDY = "Jepsen's Kafka histories are wanted (jepsen.tests.kafka)"
_BIG = 1 << 62
_PROCESS_MAX = 2**31 - 1
_TOLD_APART = frozenset((int, str, Keyword))


def read_history(path: Path) -> ImportedHistory:
    """The history of one .edn file, called by the file's stem."""
    return import_events(path.stem, ((f"{path}:{line}", event) for line, event in read_file(path)))


def import_text(name: str, text: str) -> ImportedHistory:
    return import_events(name, ((f"{name}:{line}", event) for line, event in read_text(text, place=name)))


def read_histories(paths: Sequence[Path]) -> list[ImportedHistory]:
    """Of files, and of all .edn files below folders, in order of name."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.rglob("*.edn")) if path.is_dir() else [path]
        if not found:
            raise UsageError(f"{path} has no .edn file: name files of Jepsen histories, or a folder of them")
        files.extend(found)
    return [read_history(file) for file in files]


def import_events(name: str, events: Iterable[tuple[str, Any]]) -> ImportedHistory:
    """events: (place for messages, event map) in order."""
    columns = _Import()
    for position, (place, event) in enumerate(events):
        columns.event(place, event, position)
    return columns.finished(name)


@dataclass(kw_only=True)
class _Columns:
    """Growing columns of the tables; keys and values are still in order of first sight."""

    ops: dict[str, list[Any]] = field(
        default_factory=lambda: {
            name: [] for name in ("op", "process", "client", "f", "status", "t0", "t1", "count", "error", "i0", "i1")
        }
    )
    records: dict[str, list[Any]] = field(
        default_factory=lambda: {
            name: []
            for name in (
                "kind",
                "status",
                "op",
                "process",
                "tp",
                "i",
                "off",
                "value",
                "t0",
                "t1",
                "mop",
                "txn",
                "i0",
                "moved",
            )
        }
    )
    keys: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in ("op", "process", "status", "what", "tp", "off")}
    )


class _Numbers:
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


class _Import:
    def __init__(self) -> None:
        self._columns = _Columns()
        self._keys, self._values = _Numbers(), _Numbers()
        self._open: dict[int, tuple[str, Mapping[Any, Any], int, int]] = {}
        self._processes: dict[int, None] = {}
        self._read: dict[int, None] = {}
        self._wide_reads: set[int] = set()
        self._touched: set[int] = set()
        self._named: dict[int, int] = {}
        self._last_ok: tuple[int, int] | None = None
        self._first_read: dict[int, list[int]] = {}
        self._wide_writes: set[int] = set()

    def event(self, place: str, event: Any, position: int) -> None:
        if not isinstance(event, dict):
            raise UsageError(f"{place}: {written(event)[:60]} is no event (a map): {_REMEDY}")
        process, kind = event.get(_K["process"]), event.get(_K["type"])
        if not isinstance(process, int) or isinstance(process, bool):
            if process is None:
                raise UsageError(f"{place}: the event has no :process: {_REMEDY}")
            return  # the nemesis
        if not -_PROCESS_MAX <= process <= _PROCESS_MAX:
            raise HarnessError(f"{place}: :process is {written(process)[:60]}, more than 32 bits: {_REMEDY}")
        index = _whole(place, event.get(_K["index"], position), ":index")
        time = _whole(place, event.get(_K["time"], index), ":time")
        self._processes.setdefault(process)
        if kind == _K["invoke"]:
            if process in self._open:
                raise UsageError(f"{place}: process {process} invokes while its operation before is open: {_REMEDY}")
            self._open[process] = (place, event, index, time)
        elif kind in _STATUS:
            invocation = self._open.pop(process, None)
            if invocation is None:
                raise UsageError(f"{place}: process {process} completes what it never invoked: {_REMEDY}")
            self._completed(place, event, _STATUS[kind], (invocation[2], invocation[3]), (index, time))
        else:
            found = "no :type" if kind is None else f":type {written(kind)}"
            raise UsageError(f"{place}: the event has {found}, not :invoke, :ok, :fail or :info: {_REMEDY}")

    def _completed(
        self, place: str, event: Mapping[Any, Any], status: int, begun: tuple[int, int], ended: tuple[int, int] | None
    ) -> None:
        f = event.get(_K["f"])
        if not isinstance(f, Keyword):
            raise UsageError(f"{place}: the event has no :f: {_REMEDY}")
        process, value = event[_K["process"]], event.get(_K["value"])
        index, time = begun if ended is None else ended
        moved = self._rebalanced(place, event, status, index) if event.get(_K["rebalance-log"]) else ()
        records = self._columns.records
        first = len(records["kind"])
        if f.name in _WITH_RECORDS:
            self._micro_ops(place, f.name, status, index, process, value)
            count = len(records["kind"]) - first
            records["status"].extend([status] * count)
            records["op"].extend([index] * count)
            records["process"].extend([process] * count)
            records["i"].extend(range(count))
            records["t0"].extend([begun[1]] * count)
            records["t1"].extend([None if ended is None else time] * count)
            records["txn"].extend([None if event.get(_K["batch?"]) is True else index] * count)
            records["i0"].extend([begun[0]] * count)
            records["moved"].extend([tp in moved for tp in records["tp"][first:]])
            if status == STATUS_OK:
                self._settled(index, time, first)
        elif f.name in ("assign", "subscribe") and ended is not None:
            self._assigned(place, event, index, status, process, value)
        elif f == _K["debug-topic-partitions"] and status == STATUS_OK:
            self._end_offsets(place, index, process, value)
        error = event.get(_K["error"])
        for name, column in (
            ("op", index), ("process", process), ("client", str(process)), ("f", f.name), ("status", status),
            ("t0", begun[1]), ("t1", None if ended is None else time), ("count", len(records["kind"]) - first),
            ("error", None if error is None else written(error)), ("i0", begun[0]),
            ("i1", None if ended is None else index),
        ):  # fmt: skip
            self._columns.ops[name].append(column)

    # -- what an operation did ----------------------------

    def _micro_ops(self, place: str, f: str, status: int, op: int, process: int, value: Any) -> None:
        read: dict[int, int] = {}
        sent: set[int] = set()
        self._named = read
        for mop, micro in enumerate(_elements(place, value, ":value")):
            name, *rest = _elements(place, micro, "a micro-operation") or [None]
            if name == _K["send"] and len(rest) == 2:
                pair = rest[1] if isinstance(rest[1], list) else [None, rest[1]]
                off, sent_value = (*pair, None, None)[:2]
                tp = self._keys.of(rest[0])
                sent.add(tp)
                self._record(place, KIND_SEND if f != "poll" else KIND_STRAY_SEND, tp, mop, off, sent_value)
            elif name == _K["poll"] and len(rest) <= 1:
                kind = KIND_POLL if f != "send" else KIND_STRAY_POLL
                self._polled(place, kind, mop, rest[0] if rest else None, read)
            else:
                raise UsageError(f"{place}: {written(micro)[:60]} is neither a [:send k v] nor a [:poll]: {_REMEDY}")
        if f == "send":
            read.clear()
        for tp, count in read.items():
            if count == 0:
                self._key(op, status, process, "read_nothing", tp)
            if status == STATUS_OK:
                self._read.setdefault(tp)
        if len(read) > ARRAY_MAP_MAX:
            self._wide_reads.add(op)
        if len(sent) > ARRAY_MAP_MAX:
            self._wide_writes.add(op)

    def _settled(self, op: int, time: int, first: int) -> None:
        """Notes what the last ok operation polled of keys that no ok operation had touched before."""
        records = self._columns.records
        sent = {tp for kind, tp in zip(records["kind"][first:], records["tp"][first:], strict=True) if not kind}
        fresh: dict[int, list[int]] = {tp: [] for tp in self._named if tp not in self._touched and tp not in sent}
        self._touched.update(sent, self._named)
        self._last_ok, self._first_read = (op, time), fresh
        for place in range(first, len(records["kind"])) if fresh else ():
            if records["tp"][place] in fresh:
                fresh[records["tp"][place]].append(records["value"][place])

    def _polled(self, place: str, kind: int, mop: int, polled: Any, read: dict[int, int]) -> None:
        if polled is None:
            return
        if not isinstance(polled, dict):
            raise UsageError(f"{place}: {written(polled)[:60]} is no map of what a poll read: {_REMEDY}")
        for key in map_order(polled):
            tp = self._keys.of(key)
            pairs = _elements(place, polled[key], "the pairs of a poll")
            read[tp] = read.get(tp, 0) + len(pairs)
            for pair in pairs:
                if not isinstance(pair, list) or len(pair) != 2:
                    raise UsageError(f"{place}: {written(pair)[:60]} is no [offset value] of a poll: {_REMEDY}")
            records, count = self._columns.records, len(pairs)
            records["kind"].extend([kind] * count)
            records["tp"].extend([tp] * count)
            records["mop"].extend([mop] * count)
            records["off"].extend(
                [off if type(off) is int and -_BIG < off < _BIG else _offset(place, off) for off, _ in pairs]
            )
            records["value"].extend(map(self._values.of, [value for _, value in pairs]))

    def _record(self, place: str, kind: int, tp: int, mop: int, off: Any, value: Any) -> None:
        records = self._columns.records
        records["kind"].append(kind)
        records["tp"].append(tp)
        records["mop"].append(mop)
        records["off"].append(_offset(place, off))
        records["value"].append(self._values.of(value))

    def _assigned(self, place: str, event: Mapping[Any, Any], op: int, status: int, process: int, value: Any) -> None:
        sought = event.get(_K["seek-to-beginning?"]) is True
        for key in dict.fromkeys(map(frozen, _elements(place, value, ":value"))):
            self._key(op, status, process, "assigned", self._keys.of(key))
            if event[_K["f"]] == _K["assign"] and status == STATUS_OK:
                self._key(op, status, process, "direct", self._keys.of(key))
            if sought:
                self._key(op, status, process, "sought", self._keys.of(key))

    def _rebalanced(self, place: str, event: Mapping[Any, Any], status: int, op: int) -> Container[int]:
        process = event[_K["process"]]
        last: dict[int, Any] = {}
        for entry in _elements(place, event[_K["rebalance-log"]], ":rebalance-log"):
            if not isinstance(entry, dict):
                raise UsageError(f"{place}: {written(entry)[:60]} is no map of a rebalance log: {_REMEDY}")
            for key in _elements(place, entry.get(_K["keys"]), ":keys of a rebalance log"):
                last[self._keys.of(key)] = entry.get(_K["type"])
        for tp, kind in last.items():
            self._key(op, status, process, "rebalanced", tp)
            if isinstance(kind, Keyword) and kind.name in ("revoked", "lost"):
                self._key(op, status, process, "left", tp)
        return last

    def _end_offsets(self, place: str, op: int, process: int, value: Any) -> None:
        told = value.get(_K["partitions"], value) if isinstance(value, dict) else {}
        for key, state in told.items() if isinstance(told, dict) else ():
            end = state.get(_K["end-offset"], state.get(_K["offset"])) if isinstance(state, dict) else None
            if isinstance(end, int) and not isinstance(end, bool):
                self._key(op, STATUS_OK, process, "end", self._keys.of(key), _whole(place, end, "an end offset"))

    def _key(self, op: int, status: int, process: int, what: str, tp: int, off: int | None = None) -> None:
        row = {"op": op, "status": status, "process": process, "what": what, "tp": tp, "off": off}
        for name, column in self._columns.keys.items():
            column.append(row[name])

    # -- the tables ---------------------------------------

    def finished(self, name: str) -> ImportedHistory:
        for place, event, index, time in self._open.values():
            self._completed(place, event, STATUS_INFO, (index, time), None)
        keys, tp_of = in_set_order(self._keys.known)
        values, value_of = in_set_order(self._values.known)
        columns = self._columns
        for table in (columns.records, columns.keys):
            table["tp"] = tp_of[np.array(table["tp"], np.int64)].astype(np.int32)
        columns.records["value"] = value_of[np.array(columns.records["value"], np.int64)]
        texts = [written(key) for key in keys]
        parts = np.arange(len(keys), dtype=np.int32)
        topics = pa.DictionaryArray.from_arrays(pa.array(columns.records["tp"]), pa.array(texts, pa.string()))
        records = {**columns.records, "topic": topics.cast(pa.string())}
        records["part"] = np.zeros(len(records["op"]), np.int32)
        tables = {
            "ops": table_of(SCHEMAS["ops"], columns.ops),
            "records": table_of(SCHEMAS["records"], records),
            "partitions": table_of(SCHEMAS["partitions"], {"tp": parts, "topic": texts, "part": parts * 0}),
            "value_names": table_of(
                SCHEMAS["value_names"], {"value": np.arange(len(values)), "text": [written(value) for value in values]}
            ),
            "imported_keys": table_of(SCHEMAS["imported_keys"], columns.keys),
        }
        processes = map_order(self._processes)
        return ImportedHistory(
            name=name, tables=tables, keys=keys, values=values,
            process_order={process: place for place, process in enumerate(processes)},
            read_order=_map_order_of_tps(int(tp_of[tp]) for tp in self._read),
            last_ok=self._last_ok,
            first_read={
                int(tp_of[tp]): sorted({int(value_of[value]) for value in values})
                for tp, values in self._first_read.items()
            },
            wide_reads=frozenset(self._wide_reads), wide_writes=frozenset(self._wide_writes),
        )  # fmt: skip


def _map_order_of_tps(tps: Iterator[int]) -> list[int]:
    listed = list(tps)
    return listed if len(listed) <= ARRAY_MAP_MAX else sorted(listed)


def _offset(place: str, off: Any) -> int | None:
    return None if off is None or off is False else _whole(place, off, "an offset")


def _whole(place: str, value: Any, what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -_BIG < value < _BIG:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        raise HarnessError(f"{place}: {what} is {written(value)[:60]}, more than 62 bits: {_REMEDY}")
    raise UsageError(f"{place}: {what} is {written(value)[:60]}, not a whole number: {_REMEDY}")


def _elements(place: str, value: Any, what: str) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        return value
    raise UsageError(f"{place}: {what} is {written(value)[:60]}, not a vector: {_REMEDY}")
