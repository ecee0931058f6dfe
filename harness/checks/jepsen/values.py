"""What became of every value: one row per (run, partition_id, value)."""

from dataclasses import dataclass

import numpy as np

from harness.checks.jepsen.columns import Column, Records, highest, lowest, mark
from harness.checks.jepsen.version_orders import VersionOrders
from harness.history.schema.schemas import KIND_POLL, STATUS_FAIL, STATUS_INFO, STATUS_OK


@dataclass(frozen=True, kw_only=True)
class Values:
    """By id; NONE where nothing was said. `present`: whether anything was.

    writer: the last completed send, `committed` if its operation must have been; first_writer. invoked: event index of
    the first send's invocation. at: the last index where the order keeps the value; first_at, last_at: where the log
    has it. read_ok: by an ok poll; read_any: by any; first_reader: the first of any.
    """

    present: Column
    writer: Column
    writer_status: Column
    first_writer: Column
    failed: Column
    acked: Column
    ack_off: Column
    invoked: Column
    read_ok: Column
    read_any: Column
    first_reader: Column
    at: Column
    first_at: Column
    last_at: Column
    committed: Column


def values_of(records: Records, versions: VersionOrders) -> Values:
    sends, polls = np.flatnonzero(records.sends), np.flatnonzero(records.kind == KIND_POLL)
    ids, sent, status = records.ids, records.id[sends], records.status[sends]
    writer = highest(ids, sent, records.operation[sends])
    last = records.operation[sends] == writer[sent]
    writer_status = highest(ids, sent[last], status[last])
    acked = sends[status == STATUS_OK]
    kept = versions.kept(records)
    proven = mark(ids, sent[last & versions.proven[sends]])
    return Values(
        present=mark(ids, np.concatenate([records.id[sends], records.id[polls], versions.id])),
        writer=writer,
        writer_status=writer_status,
        first_writer=lowest(ids, sent, records.operation[sends]),
        failed=mark(ids, sent[status == STATUS_FAIL]),
        acked=mark(ids, records.id[acked]),
        ack_off=highest(ids, records.id[acked], records.offset[acked]),
        invoked=lowest(ids, sent, records.invocation_index[sends]),
        read_ok=mark(ids, records.id[polls[records.status[polls] == STATUS_OK]]),
        read_any=mark(ids, records.id[polls]),
        first_reader=lowest(ids, records.id[polls], records.operation[polls]),
        at=highest(ids, versions.id[kept], versions.index[kept]),
        first_at=lowest(ids, versions.id, versions.index),
        last_at=highest(ids, versions.id, versions.index),
        committed=(writer_status == STATUS_OK) | (writer_status == STATUS_INFO) & proven,
    )
