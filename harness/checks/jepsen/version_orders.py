"""The version order of every key: which value lies at which offset, and at which index once gaps are closed.

Offsets are learnt from all polls, whatever became of them, and from the sends that must have been committed: those of
an ok operation, or of an info operation one of whose values an ok poll read. Where several values share an offset the
order keeps the least number, which the import gives to the one that Clojure's sets give out first. Rows are records,
never offsets: a log with two records at 0 and 30,000,000 has two rows.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from harness.checks.jepsen.columns import NONE, Column, Records, begins_of, mark
from harness.history.jepsen.imported import KIND_STRAY_POLL
from harness.history.schema.schemas import KIND_POLL, STATUS_INFO, STATUS_OK


@dataclass(frozen=True, kw_only=True)
class VersionOrders:
    """Rows by key, offset and value: id, offset, index, values_at (how many share the offset), picked (the value
    that the order keeps), offsets (of the value). proven: whether an operation must have been committed, by record.
    """

    id: Column
    offset: Column
    index: Column
    values_at: Column
    picked: Column
    offsets: Column
    proven: Column

    def orders(self, records: Records) -> pa.Table:
        """One value per index."""
        kept = self.kept(records)
        run, partition_id, value = (of[self.id[kept]] for of in records.of_id)
        return pa.table({"run": run, "partition_id": partition_id, "index": self.index[kept], "value": value})

    def kept(self, records: Records) -> Column:
        return np.flatnonzero(self.picked == records.of_id[2][self.id])


def version_orders(records: Records) -> VersionOrders:
    proven = _proven(records)
    polled = (records.kind == KIND_POLL) | (records.kind == KIND_STRAY_POLL)
    known = (records.offset != NONE) & (polled | (records.status == STATUS_OK) | proven)
    number, offset = _distinct(records.id[known], records.offset[known], records.ids)
    run, partition_id, value = (of[number] for of in records.of_id)
    order = np.lexsort((value, offset, partition_id, run))
    number, offset, run, partition_id, value = (column[order] for column in (number, offset, run, partition_id, value))
    places = begins_of(run, partition_id, offset)  # of one key and offset
    shared = np.diff(places, append=len(number))
    place = np.repeat(np.arange(len(places)), shared)
    keys = begins_of(run[places], partition_id[places])
    within = np.arange(len(places)) - np.repeat(keys, np.diff(keys, append=len(places)))
    return VersionOrders(
        id=number,
        offset=offset,
        index=within[place],
        values_at=shared[place],
        picked=value[places][place],
        offsets=np.bincount(number, minlength=records.ids)[number],
        proven=proven,
    )


def _proven(records: Records) -> Column:
    """Of each record, whether its operation is of unknown outcome and one of its values was read by an ok poll."""
    unknown = records.sends & (records.status == STATUS_INFO)
    if not unknown.any():
        return unknown
    read = mark(records.ids, records.id[(records.kind == KIND_POLL) & (records.status == STATUS_OK)])
    operations = int(records.operation_rank.max(initial=-1)) + 1
    return mark(operations, records.operation_rank[unknown & read[records.id]])[records.operation_rank]


def _distinct(number: Column, offset: Column, ids: int) -> tuple[Column, Column]:
    """The pairs of value and offset, each once. Nearly all values are at one offset only."""
    one = np.full(ids, NONE)
    one[number] = offset
    other = one[number] != offset
    plain = np.flatnonzero(one != NONE)
    if not other.any():
        return plain, one[plain]
    number, offset = number[other], offset[other]
    order = np.lexsort((offset, number))
    number, offset = number[order], offset[order]
    first = begins_of(number, offset)
    return np.concatenate([plain, number[first]]), np.concatenate([one[plain], offset[first]])
