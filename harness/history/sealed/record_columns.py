"""The table records, built from the run's columns one row group at a time, in order of the operations.

Fields shared by all records of a poll are stored once until then, so fifty million records are never in memory as
Python objects, nor twice.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.journals.journal_columns import NO_TRANSACTION, NO_WORD, NONE
from harness.history.journals.merging import Merged
from harness.history.schema.schemas import (
    KIND_FINAL_POLL,
    KIND_POLL,
    KIND_SEND,
    ROW_GROUP,
    STATUS_OK,
    TABLES,
)
from harness.history.sealed.group_tables import Transactions, nullable, numbers_of, texts_of
from harness.history.sealed.operation_columns import Operations

_EACH = ("told_each", "key_each", "time_each")


class _Blocks:
    """The records of a send, or of one partition in a poll, are a block; and where each block's entries begin.

    offset and value have an entry per record; the others one per block, or one per record of the blocks that say so in
    told_each, key_each, time_each.
    """

    def __init__(self, merged: Merged, operations: Operations) -> None:
        columns = merged.columns
        blocks, of_operation = columns["blocks"], columns["operations"]
        op, sent = blocks["operation"], blocks["sent"] == 1
        client = of_operation["client"][op]
        last_read = of_operation["word"][op] == merged.words.get("final_poll", NO_WORD)
        acks = np.array([each.acks for each in merged.clients], np.int64)
        replicas = np.array([NONE if each.replica is None else each.replica for each in merged.clients], np.int64)
        kind = np.where(sent, KIND_SEND, np.where(last_read, KIND_FINAL_POLL, KIND_POLL))
        self.of_block = {
            "kind": kind,
            "operation": op,
            "process": numbers_of(merged.clients)[client],
            "acks": np.where(sent, acks[client], NONE),
            "replica": np.where(kind == KIND_FINAL_POLL, replicas[client], NONE),
            "assignment": blocks["assignment"],
            "first": blocks["first"],
            "transaction": of_operation["transaction"][op],
            "log_append": blocks["log_append"],
        }
        self.rows = {name: columns[name][name] for name in ("offset", "value")}
        self.answered = columns["told"]
        self.beside = {name: columns[name][name] for name in ("key", "timestamp_ms")}
        self.each = {name: blocks[name] for name in _EACH}
        self.count = blocks["count"]
        self.start = np.cumsum(self.count) - self.count
        entries = {name: np.where(each > 0, self.count, 1) for name, each in self.each.items()}
        self.base = {name: np.cumsum(number) - number for name, number in entries.items()}
        self.rank = operations.rank[op]
        self.order = np.lexsort((self.of_block["first"], self.rank))
        self.before, self.goes_on = self._one_after_the_other()
        self.stamped = self._stamped_alike(len(merged.partition_ids))

    def _one_after_the_other(self) -> tuple[Any, Any]:
        """The last row before a block of the same partition in the same poll, or -1; and whether there is one after it.

        Rows of one partition need not be adjacent in a poll.
        """
        before, goes_on = np.full(len(self.count), -1, np.int64), np.zeros(len(self.count), bool)
        partition_id, read = self._partition_ids(), np.flatnonzero(self.of_block["kind"] != KIND_SEND)
        order = read[np.lexsort((self.of_block["first"][read], partition_id[read], self.rank[read]))]
        one, next_one = order[:-1], order[1:]
        same = (self.rank[one] == self.rank[next_one]) & (partition_id[one] == partition_id[next_one])
        goes_on[one[same]] = True
        before[next_one[same]] = (self.start + self.count - 1)[one[same]]
        return before, goes_on

    def _partition_ids(self) -> Any:
        """The partition of a block's first record; of a poll's blocks, of all their records."""
        return self.answered["partition_id"][self.base["told_each"]]

    def _stamped_alike(self, partition_ids: int) -> Any:
        """A broker's answer does not say whose timestamp it contains; the partition's readers show it, if all agree."""
        log_append = self.of_block["log_append"]
        read = (self.of_block["kind"] != KIND_SEND) & (log_append != NONE) & (self.count > 0)
        partition_id = self._partition_ids()[read]
        weight, by_broker = self.count[read], log_append[read] == 1
        broker = np.bincount(partition_id[by_broker], weight[by_broker], minlength=partition_ids)
        client = np.bincount(partition_id[~by_broker], weight[~by_broker], minlength=partition_ids)
        agreed = np.where(client == 0, 1, np.where(broker == 0, 0, NONE))
        return np.where(broker + client == 0, NONE, agreed)

    def groups(self) -> Iterator[Any]:
        """The blocks in order of their operations, one row group at a time; an operation is never split."""
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
    """The next group is built while the caller works with the current one."""
    if not len(merged.columns["blocks"]["operation"]):
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
    """Builds the rows of some blocks."""

    def __init__(self, merged: Merged, operations: Operations, transactions: Transactions, *, run: int) -> None:
        self.blocks = _Blocks(merged, operations)
        self._run = run
        self._t1_of_op = operations.completed_ns
        self._words = merged.words
        self._topics = [topic for topic, _ in merged.partition_ids]
        self._parts = np.array([part for _, part in merged.partition_ids], np.int32)
        self._transactions = transactions
        self._numbers = np.append(transactions.numbers(), NONE)

    def table(self, chosen: Any) -> pa.Table:
        blocks = self.blocks
        count = blocks.count[chosen]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)

        def entries(name: str) -> Any:
            return np.repeat(blocks.base[name][chosen], count) + within * np.repeat(blocks.each[name][chosen], count)

        of_block = {name: np.repeat(column[chosen], count) for name, column in blocks.of_block.items()}
        row, entry = np.repeat(blocks.start[chosen], count) + within, entries("told_each")
        rows = {name: column[row] for name, column in blocks.rows.items()}
        rows |= {name: column[entry] for name, column in blocks.answered.items()}
        rows["key"] = blocks.beside["key"][entries("key_each")]
        rows["timestamp_ms"] = blocks.beside["timestamp_ms"][entries("time_each")]
        partition_id = rows["partition_id"]
        open_end = rows["completed_ns"] == NONE
        rows["completed_ns"][open_end] = self._t1_of_op[of_block["operation"][open_end]]
        op, i = np.repeat(blocks.rank[chosen], count), within + of_block["first"]
        ends = within == np.repeat(count - 1, count)
        before = np.where(within > 0, row - 1, np.repeat(blocks.before[chosen], count))
        step = np.where(before >= 0, rows["offset"] - blocks.rows["offset"][before], NONE)
        step[of_block["kind"] == KIND_SEND] = NONE
        txn = self._settle(of_block, rows)
        sent = of_block["kind"] == KIND_SEND
        of_block["log_append"][sent] = blocks.stamped[partition_id[sent]]
        columns = {
            "run": np.full(len(op), self._run, np.int32),
            "kind": of_block["kind"].astype(np.int8),
            "status": rows["status"].astype(np.int8),
            "acks": nullable(of_block["acks"], pa.int8()),
            "operation": op,
            "process": of_block["process"],
            "assignment": nullable(of_block["assignment"], pa.int32()),
            "topic": texts_of(partition_id, self._topics),
            "partition": self._parts[partition_id],
            "partition_id": partition_id.astype(np.int32),
            "position": i.astype(np.int32),
            "offset": nullable(rows["offset"], pa.int64()),
            "offset_step": nullable(step, pa.int64()),
            "last_of_poll": pa.array(ends & ~np.repeat(blocks.goes_on[chosen], count), pa.bool_(), mask=sent),
            "leader_epoch": nullable(rows["leader_epoch"], pa.int32()),
            "value": rows["value"],
            "invoked_ns": rows["invoked_ns"],
            "completed_ns": rows["completed_ns"],
            "transaction": nullable(txn, pa.int64()),
            "replica": nullable(of_block["replica"], pa.int32()),
            "error": texts_of(rows["error"], list(self._words)),
            "micro_operation": pa.nulls(len(op), pa.int32()),
            "key": nullable(rows["key"], pa.int64()),
            "timestamp_ms": nullable(rows["timestamp_ms"], pa.int64()),
            "log_append": nullable(of_block["log_append"], pa.bool_()),
            "tombstone": pa.nulls(len(op), pa.bool_()),
            "returned_ns": nullable(rows["returned_ns"], pa.int64()),
        }
        return pa.table(columns, schema=TABLES["records"])

    def _settle(self, blocks: dict[str, Any], rows: dict[str, Any]) -> Any:
        """Gives sends in transactions the status of their transaction; returns the transactions' numbers."""
        place, words = blocks["transaction"], self._words
        inside = place != NO_TRANSACTION
        if not inside.any():
            return np.full(len(place), NONE, np.int64)
        sent = inside & (blocks["kind"] == KIND_SEND)
        rows["status"][sent] = settled = self._transactions.settled(rows["status"][sent], place[sent])
        why = self._transactions.why(place[sent], words)
        errors = rows["error"][sent]
        rows["error"][sent] = np.where((errors == NO_WORD) & (settled != STATUS_OK), why, errors)
        return np.where(inside, self._numbers[place], NONE)
