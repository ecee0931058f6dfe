"""The table client_events: what clients met, brought together from their journals in order of time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.group_tables import nullable, numbers_of, texts_of
from harness.history.journal import Process
from harness.history.journal_columns import NO_PARTITION
from harness.history.schemas import TABLES


def client_events_table(
    met: Mapping[str, Any], *, run: int, clients: Sequence[Process], names: Sequence[tuple[str, int]],
    words: Sequence[str],
) -> pa.Table:  # fmt: skip
    """`names`: the topic-partitions by number. Those of one moment stay in the order in which they were told."""
    row = np.argsort(met["t0"], kind="stable")
    told = {name: column[row] for name, column in met.items()}
    tp, schema = told["of_tp"], TABLES["client_events"]
    parts = np.array([*(part for _, part in names), 0], np.int32)
    columns = {
        "run": np.full(len(row), run, np.int32),
        "process": numbers_of(clients)[told["client"]],
        "t": told["t0"],
        "event": texts_of(told["word"], words),
        "topic": texts_of(tp, [topic for topic, _ in names]),
        "part": pa.array(parts[tp], mask=tp == NO_PARTITION),
        "error": texts_of(told["error"], words),
        **{name: nullable(told[name], schema.field(name).type) for name in ("node", "epoch", "status")},
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)
