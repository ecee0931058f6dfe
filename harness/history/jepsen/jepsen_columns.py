"""The growing columns of an imported history.

Records come in groups (the pairs of one key in one micro-operation). Fields shared by all records of an operation are
stored once, with the operation, and copied to the records only in the tables. Operations, groups and records are added
one by one or in blocks; `order` says where they belong among all. Until the end keys and values are numbered in order
of first occurrence.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from harness.history.jepsen.clojure_order import ARRAY_MAP_MAX, map_order
from harness.history.jepsen.edn_bulk import ranges
from harness.history.jepsen.edn_reader import Keyword, frozen, written
from harness.history.jepsen.imported import SCHEMAS, ImportedHistory, in_set_order, numbers_in_set_order, table_of
from harness.history.jepsen.key_facts import NEVER, KeyFacts, operation_of
from harness.history.jepsen.micro_operations import NO_OFFSET, SENDS, WITH_RECORDS, Group, Pairs
from harness.history.schema.schemas import KIND_POLL

Column: TypeAlias = Any  # an array of NumPy

_NOT_NAMED = -1  # the number of an error, where there is none
_TOLD_APART = frozenset((int, str, Keyword))
_AT_ONCE = 1 << 16  # number of pairs converted to columns at once
_SMALL = 1 << 62


@dataclass(frozen=True, slots=True)
class Moment:
    """An operation's invocation and completion event; the latter None if it never completed. order: its place among
    all operations."""

    order: int
    invocation_index: int
    invoked_ns: int
    completion_index: int | None
    completed_ns: int | None

    @property
    def operation(self) -> int:
        return self.invocation_index if self.completion_index is None else self.completion_index


class Numbers:
    """Numbers keys, values or names in order of first occurrence."""

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


class _Rows:
    """Columns of whole numbers that grow row by row or in blocks. Blocks stand behind the rows."""

    def __init__(self, **kinds: Any) -> None:
        self._kinds = {"order": np.int64, **kinds}
        self._rows: dict[str, list[int]] = {name: [] for name in self._kinds}
        self._blocks: list[dict[str, Column]] = []

    def add(self, **row: int) -> None:
        for name, column in self._rows.items():
            column.append(row[name])

    def add_block(self, columns: Mapping[str, Column]) -> None:
        self._blocks.append({name: columns[name].astype(kind, copy=False) for name, kind in self._kinds.items()})

    def finished(self) -> dict[str, Column]:
        blocks = [{name: np.array(self._rows[name], kind) for name, kind in self._kinds.items()}, *self._blocks]
        self._blocks = []
        return {name: np.concatenate([block.pop(name) for block in blocks]) for name in self._kinds}


class _Pairs:
    """Offsets and values; small integers, which most histories have only, are added in bulk. Blocks stand behind what
    was added pair by pair."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Any]] = []
        self._plain = True
        self._offsets: tuple[list[Column], list[Column]] = [], []
        self._values: tuple[list[Any], list[Any]] = [], []  # arrays of numbers, or lists

    def add(self, pairs: Pairs) -> None:
        if self._plain and not all(_small(value) for _, value in pairs):
            self._flush()
            self._plain = False
        self._waiting.extend(pairs)
        if len(self._waiting) >= _AT_ONCE:
            self._flush()

    def add_block(self, offsets: Column, values: Column) -> None:
        self._offsets[1].append(offsets)
        self._values[1].append(values)

    def _flush(self) -> None:
        count = len(self._waiting)
        if self._plain:
            columns = np.fromiter(chain.from_iterable(self._waiting), np.int64, 2 * count).reshape(count, 2)
            offsets = columns[:, 0]
            self._values[0].append(columns[:, 1].copy())
        else:
            offsets = np.fromiter((offset for offset, _ in self._waiting), np.int64, count)
            self._values[0].append([value for _, value in self._waiting])
        self._offsets[0].append(offsets)
        self._waiting.clear()
        self._plain = True

    def finished(self, order: Column | None) -> tuple[Column, list[Any], Column]:
        """The offsets, all values in set order, and each record's index in it. order: of the records; None: as is."""
        self._flush()
        offsets = _joined(self._offsets)
        if order is not None:
            offsets = offsets[order]
        if all(isinstance(part, np.ndarray) for parts in self._values for part in parts):
            values = _joined(self._values)
            encoded = pa.array(values if order is None else values[order]).dictionary_encode()
            known, number_of = numbers_in_set_order(encoded.dictionary.to_numpy())
            return offsets, known, number_of[encoded.indices.to_numpy()]
        parts = chain.from_iterable(self._values)
        listed = list(chain.from_iterable(part.tolist() if isinstance(part, np.ndarray) else part for part in parts))
        numbers = Numbers()
        in_order = listed if order is None else (listed[place] for place in order.tolist())
        first_seen = np.fromiter(map(numbers.of, in_order), np.int64)
        known, number_of = in_set_order(numbers.known)
        return offsets, known, number_of[first_seen]


def _joined(parts: tuple[list[Any], list[Any]]) -> Column:
    found = np.concatenate([np.empty(0, np.int64), *parts[0], *parts[1]])
    for some in parts:
        some.clear()
    return found


def _texts(values: Sequence[Any]) -> Any:
    if all(map(_small, values)):
        return pa.array(values, pa.int64()).cast(pa.string())
    return [written(value) for value in values]


def _small(value: Any) -> bool:
    return type(value) is int and -_SMALL < value < _SMALL


class Columns:
    def __init__(self) -> None:
        self.keys = Numbers()
        self._names = Numbers()  # functions and errors
        self._pairs = _Pairs()
        self._groups = _Rows(kind=np.int8, micro_operation=np.int32, key=np.int64, count=np.int64, moved=np.bool_)
        self._operations = _Rows(
            process=np.int32,
            function=np.int64,
            status=np.int8,
            invocation_index=np.int64,
            invoked_ns=np.int64,
            completion_index=np.int64,
            completed_ns=np.int64,
            error=np.int64,
            batch=np.bool_,
        )
        self._named_keys = _Rows(
            operation=np.int64, process=np.int32, status=np.int8, what=np.int64, key=np.int64, offset=np.int64
        )

    def operation(
        self, function: str, status: int, process: int, when: Moment, *, error: str | None, batch: bool = False
    ) -> None:
        completed = when.completion_index is not None and when.completed_ns is not None
        self._operations.add(
            order=when.order,
            process=process,
            function=self._names.of(function),
            status=status,
            invocation_index=when.invocation_index,
            invoked_ns=when.invoked_ns,
            completion_index=(when.completion_index or 0) if completed else NEVER,
            completed_ns=(when.completed_ns or 0) if completed else NEVER,
            error=self.name(error),
            batch=batch,
        )

    def with_records(self, when: Moment, groups: Iterable[Group], *, moved: Container[int] = ()) -> None:
        """What an operation sent or polled. moved: keys in its rebalance log."""
        for kind, micro_operation, key, pairs in groups:
            number = self.keys.of(key)
            self._groups.add(
                order=when.order,
                kind=kind,
                micro_operation=micro_operation,
                key=number,
                count=len(pairs),
                moved=number in moved,
            )
            self._pairs.add(pairs)

    def key(self, when: Moment, status: int, process: int, what: str, key: int, offset: int | None = None) -> None:
        self._named_keys.add(
            order=when.order,
            operation=when.operation,
            process=process,
            status=status,
            what=self._names.of(what),
            key=key,
            offset=NO_OFFSET if offset is None else offset,
        )

    # -- many at once -------------------------------------

    def name(self, text: str | None) -> int:
        return _NOT_NAMED if text is None else self._names.of(text)

    def operations(self, **columns: Column) -> None:
        """Completed ones, in the columns of `operation`; function and error as `name` numbers them."""
        self._operations.add_block(columns)

    def records(self, keys: Sequence[int], groups: Mapping[str, Column], offsets: Column, values: Column) -> None:
        """groups: order, kind, micro_operation, key (its place in keys) and count of each."""
        numbers = np.array([self.keys.of(key) for key in keys], np.int64)
        self._groups.add_block({**groups, "key": numbers[groups["key"]], "moved": np.zeros(len(groups["key"]), bool)})
        self._pairs.add_block(offsets, values)

    # -- the tables ---------------------------------------

    def finished(self, name: str, processes: Iterable[int]) -> ImportedHistory:
        keys, number_of_old = in_set_order(self.keys.known)
        operations, _ = _in_order(self._operations.finished())
        groups, places = _in_order(self._groups.finished())
        order = None
        if places is not None:
            counts = np.empty(len(places), np.int64)
            counts[places] = groups["count"]
            order = ranges((np.cumsum(counts) - counts)[places], groups["count"])
        offsets, values, numbers = self._pairs.finished(order)
        del order
        with_records = [number for number, text in enumerate(self._names.known) if text in WITH_RECORDS]
        facts = KeyFacts(operations, groups, len(keys), np.isin(operations["function"], with_records))
        operations["count"] = facts.counts()
        texts = [written(key) for key in keys]
        parts = np.arange(len(keys), dtype=np.int32)
        tables = {
            "operations": self._operation_table(operations),
            "records": _record_table(operations, groups, number_of_old, offsets, numbers),
            "partitions": table_of(
                SCHEMAS["partitions"], {"partition_id": parts, "topic": texts, "partition": parts * 0}
            ),
            "value_names": table_of(SCHEMAS["value_names"], {"value": np.arange(len(values)), "name": _texts(values)}),
            "imported_keys": self._key_table(facts, number_of_old),
        }
        read = number_of_old[facts.read_by_ok()].tolist()
        return ImportedHistory(
            name=name,
            tables=tables,
            keys=keys,
            values=values,
            process_order={process: place for place, process in enumerate(map_order(processes))},
            read_order=read if len(read) <= ARRAY_MAP_MAX else sorted(read),
            last_ok=facts.last_ok(),
            first_read={int(number_of_old[key]): found for key, found in facts.first_read(numbers).items()},
            wide_reads=facts.wide(groups["kind"] == KIND_POLL),
            wide_writes=facts.wide(np.isin(groups["kind"], SENDS)),
        )

    def _operation_table(self, columns: Mapping[str, Column]) -> pa.Table:
        never = columns["completed_ns"] == NEVER
        process = pa.array(columns["process"])
        names = pa.array(self._names.known, pa.string())
        return table_of(
            SCHEMAS["operations"],
            {
                "operation": pa.array(operation_of(columns)),
                "process": process,
                "client": process.cast(pa.string()),
                "function": names.take(pa.array(columns["function"])),
                "status": pa.array(columns["status"]),
                "invoked_ns": pa.array(columns["invoked_ns"]),
                "completed_ns": pa.array(columns["completed_ns"], mask=never),
                "count": pa.array(columns["count"].astype(np.int32)),
                "error": names.take(pa.array(columns["error"], mask=columns["error"] == _NOT_NAMED)),
                "invocation_index": pa.array(columns["invocation_index"]),
                "completion_index": pa.array(columns["completion_index"], mask=never),
            },
        )

    def _key_table(self, facts: KeyFacts, number_of_old: Column) -> pa.Table:
        """The keys that operations named, and behind those of each the ones of which it read nothing."""
        nothing = facts.read_nothing()
        what = np.full(len(nothing["order"]), self._names.of("read_nothing"))
        self._named_keys.add_block({**nothing, "what": what, "offset": np.full(len(what), NO_OFFSET)})
        columns, _ = _in_order(self._named_keys.finished())
        names = pa.array(self._names.known, pa.string())
        return table_of(
            SCHEMAS["imported_keys"],
            {
                **{name: pa.array(columns[name]) for name in ("operation", "process", "status")},
                "what": names.take(pa.array(columns["what"])),
                "partition_id": pa.array(number_of_old[columns["key"]].astype(np.int32)),
                "offset": pa.array(columns["offset"], mask=columns["offset"] == NO_OFFSET),
            },
        )


def _in_order(columns: dict[str, Column]) -> tuple[dict[str, Column], Column | None]:
    """Sorted by order, and where each row was; None if they were in order."""
    order = columns["order"]
    if (order[1:] >= order[:-1]).all():
        return columns, None
    places = np.argsort(order, kind="stable")
    return {name: column[places] for name, column in columns.items()}, places


def _record_table(
    operations: Mapping[str, Column],
    groups: Mapping[str, Column],
    number_of_old: Column,
    offsets: Column,
    numbers: Column,
) -> pa.Table:
    of_operation, of_group = operations["count"], groups["count"]
    first = np.cumsum(of_operation) - of_operation
    spread = {
        "operation": operation_of(operations),
        "completed": operations["completed_ns"] != NEVER,
        "transactional": ~operations["batch"],
        **{name: operations[name] for name in ("process", "status", "invocation_index")},
    }
    by_group = {
        "partition_id": number_of_old[groups["key"]].astype(np.int32),
        **{name: groups[name] for name in ("kind", "micro_operation", "moved")},
    }
    return table_of(
        SCHEMAS["records"],
        {
            **{name: pa.array(np.repeat(column, of_operation)) for name, column in spread.items()},
            **{name: pa.array(np.repeat(column, of_group)) for name, column in by_group.items()},
            "position": pa.array((np.arange(len(numbers)) - np.repeat(first, of_operation)).astype(np.int32)),
            "offset": pa.array(offsets, mask=offsets == NO_OFFSET),
            "value": pa.array(numbers),
        },
    )
