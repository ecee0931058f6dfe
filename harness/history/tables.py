"""Journals in, tables out: all tables that clients' journals give, with the column meanings of schemas.py.

Rows stay flat from the journal's lists to Arrow: Python touches each list once (extend), numpy does the rest. Journals
are read a piece at a time, be it while they are written, and records leave a row group at a time.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.client_tables import client_events_table
from harness.history.group_tables import Transactions, group_events_table, processes_table
from harness.history.merging import Merged, TopicPart, merged
from harness.history.operation_columns import operations_of
from harness.history.pieces import Journals
from harness.history.record_columns import record_tables
from harness.history.schemas import TABLES
from harness.history.values import ValueNames


class Conversion:
    """Takes journals (`add`), then gives the tables (`finish`). `names` may grow. `begun`: read beside a run."""

    def __init__(self, *, names: ValueNames, run: int = 0, begun: Journals | None = None) -> None:
        self._names = names
        self._run = run
        self._journals = Journals() if begun is None else begun

    def add(self, path: Path) -> None:
        while self._journals.take(path):
            pass

    def finish(self, known: Iterable[TopicPart] = ()) -> "Converted":
        """`known`: topic-partitions of the run that need not occur in any journal; they get ids all the same."""
        journals = self._journals.ended()
        all_of_them = merged(journals, self._names, list(known))
        columns, run, clients = all_of_them.columns, self._run, all_of_them.clients
        last_t = _last_t(all_of_them)
        transactions = Transactions(begun=columns["begun"], ended=columns["ended"], took=columns["took"])
        operations = operations_of(all_of_them, transactions, run=run, last_t=last_t)
        return Converted(
            ops=operations.table,
            record_tables=partial(record_tables, all_of_them, operations, transactions, run=run),
            processes=processes_table(clients, complete=all_of_them.complete, run=run),
            transactions=transactions.table(clients, list(all_of_them.words), run=run, last_t=last_t),
            group_events=group_events_table(
                columns["events"], columns["places"], transactions, run=run, clients=clients,
                names=list(all_of_them.tps), words=all_of_them.words,
            ),
            client_events=client_events_table(
                columns["met"], run=run, clients=clients, names=list(all_of_them.tps), words=list(all_of_them.words)
            ),
            tps=all_of_them.tps,
            cut_short=frozenset(each.path.stem for each in journals if each.is_complete is False),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Converted:
    """record_tables: the records, a row group at a time. tps: the dense ids of topic-partitions, in order of name.

    cut_short: the journals, by their stems, that are known to lack their end.
    """

    ops: pa.Table
    record_tables: Callable[[], Iterator[pa.Table]]
    processes: pa.Table
    transactions: pa.Table
    group_events: pa.Table
    client_events: pa.Table
    tps: dict[TopicPart, int]
    cut_short: frozenset[str] = frozenset()

    @property
    def records(self) -> pa.Table:
        """All of them at once, where they are few."""
        return pa.concat_tables([TABLES["records"].empty_table(), *self.record_tables()])


def _last_t(all_of_them: Merged) -> int:
    """The time of the last thing that any journal tells."""
    columns = all_of_them.columns
    times: list[Any] = [columns["operations"]["t0"], columns["operations"]["t1"]]
    times += [columns["begun"]["t0"], columns["ended"]["t1"], [client.t for client in all_of_them.clients]]
    return max((int(np.max(column)) for column in times if len(column)), default=0)
