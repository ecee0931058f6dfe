"""The table records, put together from the run's columns a row group at a time, in order of the operations.

What is the same for all records of a poll is kept once until then, so that fifty million records never lie in memory as
Python objects, nor twice.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.group_tables import IN_ABORTED, IN_UNKNOWN, Transactions, nullable, numbers_of, texts_of
from harness.history.journal_columns import NO_TRANSACTION, NO_WORD, NONE
from harness.history.merging import Merged
from harness.history.operation_columns import Operations
from harness.history.schemas import (
    KIND_FINAL_POLL,
    KIND_POLL,
    KIND_SEND,
    ROW_GROUP,
    STATUS_FAIL,
    STATUS_OK,
    TABLES,
)

_EACH = ("told_each", "key_each", "time_each")


class _Blocks:
    """The records of a send, or of one partition in a poll, are a block; and where each block's entries begin.

    off and value have an entry per record; the others one per block, or one per record of the blocks that say so in
    told_each, key_each, time_each.
    """

    def __init__(self, merged: Merged, operations: Operations) -> None:
        columns = merged.columns
        blocks, of_operation = columns["blocks"], columns["operations"]
        op, sent = blocks["op"], blocks["sent"] == 1
        client = of_operation["client"][op]
        last_read = of_operation["word"][op] == merged.words.get("final_poll", NO_WORD)
        acks = np.array([each.acks for each in merged.clients], np.int64)
        replicas = np.array([NONE if each.replica is None else each.replica for each in merged.clients], np.int64)
        kind = np.where(sent, KIND_SEND, np.where(last_read, KIND_FINAL_POLL, KIND_POLL))
        self.of_block = {
            "kind": kind,
            "op": op,
            "process": numbers_of(merged.clients)[client],
            "acks": np.where(sent, acks[client], NONE),
            "replica": np.where(kind == KIND_FINAL_POLL, replicas[client], NONE),
            "assignment": blocks["assignment"],
            "first": blocks["first"],
            "txn": of_operation["txn"][op],
            "log_append": blocks["log_append"],
        }
        self.rows = {name: columns[name][name] for name in ("off", "value")}
        self.told = columns["told"]
        self.beside = {name: columns[name][name] for name in ("key", "timestamp_ms")}
        self.each = {name: blocks[name] for name in _EACH}
        self.count = blocks["count"]
        self.start = np.cumsum(self.count) - self.count
        entries = {name: np.where(each > 0, self.count, 1) for name, each in self.each.items()}
        self.base = {name: np.cumsum(number) - number for name, number in entries.items()}
        self.rank = operations.rank[op]
        self.order = np.lexsort((self.of_block["first"], self.rank))
        self.before, self.goes_on = self._one_after_the_other()
        self.stamped = self._stamped_alike(len(merged.tps))

    def _one_after_the_other(self) -> tuple[Any, Any]:
        """The last row before a block of the same partition in the same poll, or -1; and whether there is one after it.

        Rows of one partition need not lie together within a poll.
        """
        before, goes_on = np.full(len(self.count), -1, np.int64), np.zeros(len(self.count), bool)
        tp, read = self._tp(), np.flatnonzero(self.of_block["kind"] != KIND_SEND)
        order = read[np.lexsort((self.of_block["first"][read], tp[read], self.rank[read]))]
        one, next_one = order[:-1], order[1:]
        same = (self.rank[one] == self.rank[next_one]) & (tp[one] == tp[next_one])
        goes_on[one[same]] = True
        before[next_one[same]] = (self.start + self.count - 1)[one[same]]
        return before, goes_on

    def _tp(self) -> Any:
        """The partition of a block's first record; of a poll's blocks, of all their records."""
        return self.told["tp"][self.base["told_each"]]

    def _stamped_alike(self, tps: int) -> Any:
        """A broker does not tell a producer whose time it answers; its readers do, where all agree on a partition."""
        told = self.of_block["log_append"]
        read = (self.of_block["kind"] != KIND_SEND) & (told != NONE) & (self.count > 0)
        tp = self._tp()[read]
        weight, by_broker = self.count[read], told[read] == 1
        broker = np.bincount(tp[by_broker], weight[by_broker], minlength=tps)
        client = np.bincount(tp[~by_broker], weight[~by_broker], minlength=tps)
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
    merged: Merged, operations: Operations, transactions: Transactions, *, run: int
) -> Iterator[pa.Table]:
    """The next one is made while whoever asked for this one is at work with it."""
    if not len(merged.columns["blocks"]["op"]):
        return
    maker = _Maker(merged, operations, transactions, run=run)
    with ThreadPoolExecutor(1, thread_name_prefix="records") as pool:
        coming = None
        for chosen in maker.blocks.groups():
            made, coming = coming, pool.submit(maker.table, chosen)
            if made is not None:
                yield made.result()
        if coming is not None:
            yield coming.result()


class _Maker:
    """Makes the rows of some blocks."""

    def __init__(self, merged: Merged, operations: Operations, transactions: Transactions, *, run: int) -> None:
        self.blocks = _Blocks(merged, operations)
        self._run = run
        self._t1_of_op = operations.t1
        self._words = merged.words
        self._topics = [topic for topic, _ in merged.tps]
        self._parts = np.array([part for _, part in merged.tps], np.int32)
        self._transactions = transactions
        self._numbers = np.append(transactions.numbers(), NONE)

    def table(self, chosen: Any) -> pa.Table:
        blocks = self.blocks
        count = blocks.count[chosen]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)

        def entries(name: str) -> Any:
            return np.repeat(blocks.base[name][chosen], count) + within * np.repeat(blocks.each[name][chosen], count)

        of_block = {name: np.repeat(column[chosen], count) for name, column in blocks.of_block.items()}
        row, told = np.repeat(blocks.start[chosen], count) + within, entries("told_each")
        rows = {name: column[row] for name, column in blocks.rows.items()}
        rows |= {name: column[told] for name, column in blocks.told.items()}
        rows["key"] = blocks.beside["key"][entries("key_each")]
        rows["timestamp_ms"] = blocks.beside["timestamp_ms"][entries("time_each")]
        tp = rows["tp"]
        open_end = rows["t1"] == NONE
        rows["t1"][open_end] = self._t1_of_op[of_block["op"][open_end]]
        op, i = np.repeat(blocks.rank[chosen], count), within + of_block["first"]
        ends = within == np.repeat(count - 1, count)
        before = np.where(within > 0, row - 1, np.repeat(blocks.before[chosen], count))
        step = np.where(before >= 0, rows["off"] - blocks.rows["off"][before], NONE)
        step[of_block["kind"] == KIND_SEND] = NONE
        txn = self._settle(of_block, rows)
        sent = of_block["kind"] == KIND_SEND
        of_block["log_append"][sent] = blocks.stamped[tp[sent]]
        columns = {
            "run": np.full(len(op), self._run, np.int32),
            "kind": of_block["kind"].astype(np.int8),
            "status": rows["status"].astype(np.int8),
            "acks": nullable(of_block["acks"], pa.int8()),
            "op": op,
            "process": of_block["process"],
            "assignment": nullable(of_block["assignment"], pa.int32()),
            "topic": texts_of(tp, self._topics),
            "part": self._parts[tp],
            "tp": tp.astype(np.int32),
            "i": i.astype(np.int32),
            "off": nullable(rows["off"], pa.int64()),
            "step": nullable(step, pa.int64()),
            "last": pa.array(ends & ~np.repeat(blocks.goes_on[chosen], count), pa.bool_(), mask=sent),
            "epoch": nullable(rows["epoch"], pa.int32()),
            "value": rows["value"],
            "t0": rows["t0"],
            "t1": rows["t1"],
            "txn": nullable(txn, pa.int64()),
            "replica": nullable(of_block["replica"], pa.int32()),
            "error": texts_of(rows["error"], list(self._words)),
            "mop": pa.nulls(len(op), pa.int32()),
            "key": nullable(rows["key"], pa.int64()),
            "timestamp_ms": nullable(rows["timestamp_ms"], pa.int64()),
            "log_append": nullable(of_block["log_append"], pa.bool_()),
            "tombstone": pa.nulls(len(op), pa.bool_()),
        }
        return pa.table(columns, schema=TABLES["records"])

    def _settle(self, blocks: dict[str, Any], rows: dict[str, Any]) -> Any:
        """Gives sends inside transactions the status of their transaction; returns the transactions' numbers."""
        place, words = blocks["txn"], self._words
        inside = place != NO_TRANSACTION
        if not inside.any():
            return np.full(len(place), NONE, np.int64)
        sent = inside & (blocks["kind"] == KIND_SEND)
        rows["status"][sent] = settled = self._transactions.settled(rows["status"][sent], place[sent])
        aborted, unknown = (words.setdefault(why, len(words)) for why in (IN_ABORTED, IN_UNKNOWN))
        why = np.where(settled == STATUS_FAIL, aborted, unknown)
        told = rows["error"][sent]
        rows["error"][sent] = np.where((told == NO_WORD) & (settled != STATUS_OK), why, told)
        return np.where(inside, self._numbers[place], NONE)
