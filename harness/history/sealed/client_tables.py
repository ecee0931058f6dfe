"""The table client_events: events of all journals' clients in order of time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.journals.journal import Process
from harness.history.journals.journal_columns import NO_PARTITION
from harness.history.schema.schemas import TABLES
from harness.history.sealed.group_tables import nullable, numbers_of, texts_of

_NUMBERS = ("node", "leader_epoch", "status", "version", "code")


def client_events_table(
    met: Mapping[str, Any],
    *,
    run: int,
    clients: Sequence[Process],
    names: Sequence[tuple[str, int]],
    words: Sequence[str],
) -> pa.Table:
    """`names`: the topic-partitions by number. Events of one moment keep their order in the journals."""
    row = np.argsort(met["invoked_ns"], kind="stable")
    event_columns = {name: column[row] for name, column in met.items()}
    partition_id, schema = event_columns["of_tp"], TABLES["client_events"]
    parts = np.array([*(part for _, part in names), 0], np.int32)
    columns = {
        "run": np.full(len(row), run, np.int32),
        "process": numbers_of(clients)[event_columns["client"]],
        "time_ns": event_columns["invoked_ns"],
        "event": texts_of(event_columns["word"], words),
        "topic": texts_of(partition_id, [topic for topic, _ in names]),
        "partition": pa.array(parts[partition_id], mask=partition_id == NO_PARTITION),
        "error": texts_of(event_columns["error"], words),
        "request": texts_of(event_columns["request"], words),
        **{name: nullable(event_columns[name], schema.field(name).type) for name in _NUMBERS},
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)
