"""The table records, grown column by column: machine integers while journals are read, numpy and Arrow at the end.

What is the same for all records of a poll is kept once. The table is put together a row group at a time, in order of
the operations, so that fifty million records never lie in memory as Python objects, nor twice.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.group_tables import IN_ABORTED, IN_UNKNOWN, NO_TRANSACTION, Transactions
from harness.history.schemas import KIND_SEND, ROW_GROUP, STATUS_FAIL, STATUS_OK, TABLES

NONE = np.iinfo(np.int64).min  # stands for null in the integer columns while they are built
NULL_ERROR = -1
_OF_BLOCK = ("kind", "count", "op", "process", "acks", "replica", "assignment", "first", "txn", "log_append")
_TOLD = ("tp", "status", "epoch", "t0", "t1", "error")


def _longs() -> "array[int]":
    return array("q")


@dataclass(kw_only=True)
class Columns:
    """Growing columns. A block: the records of a send, or of one partition in a poll.

    off and value have an entry per record; the others one per block, or one per record of the blocks that say so in
    `told_each`, `key_each`, `time_each`. `op` is the place of the operation until operations are put in order.
    """

    kind: "array[int]" = field(default_factory=_longs)
    count: "array[int]" = field(default_factory=_longs)
    op: "array[int]" = field(default_factory=_longs)
    process: "array[int]" = field(default_factory=_longs)
    acks: "array[int]" = field(default_factory=_longs)
    replica: "array[int]" = field(default_factory=_longs)
    assignment: "array[int]" = field(default_factory=_longs)
    first: "array[int]" = field(default_factory=_longs)  # i of the block's first row
    txn: "array[int]" = field(default_factory=_longs)  # the transaction's place, or NO_TRANSACTION
    log_append: "array[int]" = field(default_factory=_longs)
    told_each: "array[int]" = field(default_factory=_longs)
    key_each: "array[int]" = field(default_factory=_longs)
    time_each: "array[int]" = field(default_factory=_longs)
    off: "array[int]" = field(default_factory=_longs)
    value: "array[int]" = field(default_factory=_longs)
    tp: "array[int]" = field(default_factory=_longs)
    status: "array[int]" = field(default_factory=_longs)
    epoch: "array[int]" = field(default_factory=_longs)
    t0: "array[int]" = field(default_factory=_longs)
    t1: "array[int]" = field(default_factory=_longs)
    error: "array[int]" = field(default_factory=_longs)
    key: "array[int]" = field(default_factory=_longs)
    timestamp_ms: "array[int]" = field(default_factory=_longs)

    def beside(self, keys: Sequence[int | None], timestamps: Sequence[int | None], count: int) -> None:
        """Keys and timestamps of the block just begun: none, one for all its records, or one for each."""
        for column, entries, each in ((keys, self.key, self.key_each), (timestamps, self.timestamp_ms, self.time_each)):
            spread = len(column) == count
            each.append(int(spread))
            entries.extend(full(column, count) if spread else full(column[:1], 1))


def full(column: Sequence[int | None], count: int) -> Sequence[int]:
    """One entry per row from a column that may be written as nothing, or as the one value that all rows have."""
    if not column:
        return [NONE] * count
    if len(column) != count:
        return [NONE if column[0] is None else column[0]] * count
    return [NONE if entry is None else entry for entry in column]


class _Blocks:
    """The columns as numpy arrays, without a copy, and where each block's entries begin."""

    def __init__(self, columns: Columns, *, tp_ids: Any, rank: Any) -> None:
        def of(name: str) -> Any:
            return np.frombuffer(getattr(columns, name), np.int64)

        self.of_block = {name: of(name) for name in _OF_BLOCK}
        self.rows = {name: of(name) for name in ("off", "value")}
        self.told = {name: of(name) for name in _TOLD}
        self.beside = {"key": of("key"), "timestamp_ms": of("timestamp_ms")}
        self.each = {name: of(name) for name in ("told_each", "key_each", "time_each")}
        self.count = self.of_block["count"]
        self.start = np.cumsum(self.count) - self.count
        entries = {name: np.where(each > 0, self.count, 1) for name, each in self.each.items()}
        self.base = {name: np.cumsum(number) - number for name, number in entries.items()}
        self.rank = rank[self.of_block["op"]] if len(self.count) else self.count
        self.order = np.lexsort((self.of_block["first"], self.rank))
        self.tp_ids = tp_ids
        self.stamped = self._stamped_alike()

    def _stamped_alike(self) -> Any:
        """A broker does not tell a producer whose time it answers; its readers do, where all agree on a partition."""
        told, count = self.of_block["log_append"], len(self.tp_ids)
        read = (self.of_block["kind"] != KIND_SEND) & (told != NONE) & (self.count > 0)
        tp = self.tp_ids[self.told["tp"][self.base["told_each"][read]]] if read.any() else np.zeros(0, np.int64)
        weight, by_broker = self.count[read], told[read] == 1
        broker = np.bincount(tp[by_broker], weight[by_broker], minlength=count)
        client = np.bincount(tp[~by_broker], weight[~by_broker], minlength=count)
        agreed = np.where(client == 0, 1, np.where(broker == 0, 0, NONE))
        return np.where(broker + client == 0, NONE, agreed)

    def groups(self) -> Iterator[Any]:
        """The blocks in order of their operations, a row group at a time; an operation is never divided."""
        ends = np.cumsum(self.count[self.order])
        ranks = self.rank[self.order]
        heads = np.append(np.flatnonzero(np.append(True, ranks[1:] != ranks[:-1])), len(ranks))
        begin = 0
        while begin < len(ranks):
            before = ends[begin - 1] if begin else 0
            wanted = np.searchsorted(ends, before + ROW_GROUP, "right")
            place = np.searchsorted(heads, wanted, "right") - 1
            end = heads[place] if heads[place] > begin else heads[place + 1]
            yield self.order[begin:end]
            begin = int(end)


def record_tables(
    columns: Columns,
    *,
    run: int,
    names: Sequence[tuple[str, int]],
    tp_ids: Any,
    rank: Any,
    t1_of_op: Any,
    errors: dict[str, int],
    transactions: Transactions,
) -> Iterator[pa.Table]:
    """names, tp_ids: the dense topic-partitions. rank, t1_of_op: the order of the operations, and their ends."""
    if not columns.count:
        return
    blocks = _Blocks(columns, tp_ids=tp_ids, rank=rank)
    topics = [topic for topic, _ in names]
    parts = np.array([part for _, part in names], np.int32)
    for chosen in blocks.groups():
        yield _table(blocks, chosen, run, topics, parts, t1_of_op, errors, transactions)


def _table(
    blocks: _Blocks, chosen: Any, run: int, topics: Sequence[str], parts: Any, t1_of_op: Any, errors: dict[str, int],
    transactions: Transactions,
) -> pa.Table:  # fmt: skip
    count = blocks.count[chosen]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)

    def entries(name: str) -> Any:
        return np.repeat(blocks.base[name][chosen], count) + within * np.repeat(blocks.each[name][chosen], count)

    of_block = {name: np.repeat(column[chosen], count) for name, column in blocks.of_block.items() if name != "count"}
    row, told = np.repeat(blocks.start[chosen], count) + within, entries("told_each")
    rows = {name: column[row] for name, column in blocks.rows.items()}
    rows |= {name: column[told] for name, column in blocks.told.items()}
    rows["key"] = blocks.beside["key"][entries("key_each")]
    rows["timestamp_ms"] = blocks.beside["timestamp_ms"][entries("time_each")]
    tp = blocks.tp_ids[rows["tp"]]
    open_end = rows["t1"] == NONE
    rows["t1"][open_end] = t1_of_op[of_block["op"][open_end]]
    op, i = np.repeat(blocks.rank[chosen], count), within + of_block["first"]
    step, last = _steps(op, tp, i, rows["off"], of_block["kind"])
    txn = _settle(of_block, rows, errors, transactions)
    sent = of_block["kind"] == KIND_SEND
    of_block["log_append"][sent] = blocks.stamped[tp[sent]]
    return pa.table(
        {
            "run": np.full(len(op), run, np.int32),
            "kind": of_block["kind"].astype(np.int8),
            "status": rows["status"].astype(np.int8),
            "acks": _nullable(of_block["acks"], pa.int8()),
            "op": op,
            "process": of_block["process"].astype(np.int32),
            "assignment": _nullable(of_block["assignment"], pa.int32()),
            "topic": texts(tp, topics),
            "part": parts[tp],
            "tp": tp,
            "i": i.astype(np.int32),
            "off": _nullable(rows["off"], pa.int64()),
            "step": _nullable(step, pa.int64()),
            "last": pa.array(last, pa.bool_(), mask=sent),
            "epoch": _nullable(rows["epoch"], pa.int32()),
            "value": rows["value"],
            "t0": rows["t0"],
            "t1": rows["t1"],
            "txn": _nullable(txn, pa.int64()),
            "replica": _nullable(of_block["replica"], pa.int32()),
            "error": texts(rows["error"], list(errors)),
            "mop": pa.nulls(len(op), pa.int32()),
            "key": _nullable(rows["key"], pa.int64()),
            "timestamp_ms": _nullable(rows["timestamp_ms"], pa.int64()),
            "log_append": _nullable(of_block["log_append"], pa.bool_()),
        },
        schema=TABLES["records"],
    )


def _settle(blocks: dict[str, Any], rows: dict[str, Any], errors: dict[str, int], transactions: Transactions) -> Any:
    """Gives sends inside transactions the status of their transaction; returns the transactions' numbers."""
    place = blocks["txn"]
    inside = place != NO_TRANSACTION
    if not inside.any():
        return np.full(len(place), NONE, np.int64)
    sent = inside & (blocks["kind"] == KIND_SEND)
    answered = rows["status"][sent]
    rows["status"][sent] = settled = transactions.settled_column(answered, place[sent])
    why = np.where(
        settled == STATUS_FAIL,
        errors.setdefault(IN_ABORTED, len(errors)),
        errors.setdefault(IN_UNKNOWN, len(errors)),
    )
    told = rows["error"][sent]
    rows["error"][sent] = np.where((told == NULL_ERROR) & (settled != STATUS_OK), why, told)
    return np.where(inside, np.append(transactions.numbers(), NONE)[place], NONE)


def _steps(op: Any, tp: Any, i: Any, off: Any, kind: Any) -> tuple[Any, Any]:
    """step and last of polls. Rows of one partition need not lie together within a poll."""
    step = np.full(len(op), NONE, np.int64)
    last = np.zeros(len(op), bool)
    read = np.flatnonzero(kind != KIND_SEND)
    if not len(read):
        return step, last
    order = read[np.lexsort((i[read], tp[read], op[read]))]
    same = (op[order][1:] == op[order][:-1]) & (tp[order][1:] == tp[order][:-1])
    later = order[1:][same]
    step[later] = off[later] - off[order[:-1][same]]
    last[order] = np.append(~same, True)
    return step, last


def _nullable(column: Any, kind: pa.DataType) -> pa.Array:
    absent = column == NONE
    filled = np.where(absent, 0, column)
    return pa.array(filled, mask=absent).cast(kind)


def texts(codes: Any, words: Sequence[str]) -> pa.Array:
    """The word for each code; null for a negative one."""
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string())).cast(pa.string())
