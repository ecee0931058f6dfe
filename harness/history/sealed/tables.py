"""Converts journals to tables: all tables that come from clients' journals, with the columns of schemas.py.

Rows stay flat from the journal's lists to Arrow: Python handles each list once (extend), numpy does the rest. Records
are written one row group at a time.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.facts.values import ValueNames
from harness.history.journals.journal import Process
from harness.history.journals.journal_columns import NO_PARTITION, JournalColumns
from harness.history.journals.merging import Merged, TopicPart, merged
from harness.history.schema.schemas import TABLES
from harness.history.sealed.group_tables import (
    Transactions,
    group_events_table,
    nullable,
    numbers_of,
    processes_table,
    texts_of,
)
from harness.history.sealed.operation_columns import operations_of
from harness.history.sealed.record_columns import record_tables

_NUMBERS_OF_EVENTS = ("node", "leader_epoch", "status", "version", "code")


class Conversion:
    """Takes journals (`add`), in the order in which the tables have them, then returns the tables (`finish`), once.
    `names` may grow."""

    def __init__(self, *, names: ValueNames, run: int = 0) -> None:
        self._names = names
        self._run = run
        self._journals: list[JournalColumns] = []

    def add(self, path: Path) -> None:
        """Raises JournalUnfit."""
        with _no_collection():
            self._journals.append(JournalColumns(path))

    def finish(self, known: Iterable[TopicPart] = ()) -> "Converted":
        """`known`: topic-partitions of the run that need not occur in any journal; they get ids all the same."""
        journals = self._journals
        all_of_them = merged(journals, self._names, list(known))
        columns, run, clients = all_of_them.columns, self._run, all_of_them.clients
        last_ns = _last_ns(all_of_them)
        transactions = Transactions(begun=columns["begun"], ended=columns["ended"], in_transactions=columns["took"])
        operations = operations_of(all_of_them, transactions, run=run, last_ns=last_ns)
        return Converted(
            operations=operations.table,
            record_tables=partial(record_tables, all_of_them, operations, transactions, run=run),
            processes=processes_table(clients, complete=all_of_them.complete, run=run),
            transactions=transactions.table(clients, list(all_of_them.words), run=run, last_ns=last_ns),
            group_events=group_events_table(
                columns["events"],
                columns["places"],
                transactions,
                run=run,
                clients=clients,
                names=list(all_of_them.partition_ids),
                words=all_of_them.words,
            ),
            client_events=client_events_table(
                columns["met"],
                run=run,
                clients=clients,
                names=list(all_of_them.partition_ids),
                words=list(all_of_them.words),
            ),
            value_origins=value_origins_table(columns["origins"], run=run, words=list(all_of_them.words)),
            partition_ids=all_of_them.partition_ids,
            cut_short=frozenset(each.path.stem for each in journals if each.is_complete is False),
        )


@dataclass(frozen=True, kw_only=True)
class Converted:
    """record_tables: the records, one row group at a time. partition_ids: the dense ids of
    topic-partitions, ordered by name.

    cut_short: the journals, by stem, that are known to be incomplete.
    """

    operations: pa.Table
    record_tables: Callable[[], Iterator[pa.Table]]
    processes: pa.Table
    transactions: pa.Table
    group_events: pa.Table
    client_events: pa.Table
    value_origins: pa.Table
    partition_ids: dict[TopicPart, int]
    cut_short: frozenset[str] = frozenset()

    @property
    def small(self) -> dict[str, pa.Table]:
        """Those that are written as they are."""
        return {
            "processes": self.processes,
            "transactions": self.transactions,
            "group_events": self.group_events,
            "client_events": self.client_events,
            "value_origins": self.value_origins,
        }

    @property
    def records(self) -> pa.Table:
        """All of them at once, if they are few."""
        return pa.concat_tables([TABLES["records"].empty_table(), *self.record_tables()])


def _last_ns(all_of_them: Merged) -> int:
    """The time of the last line in any journal."""
    columns = all_of_them.columns
    times: list[Any] = [columns["operations"]["invoked_ns"], columns["operations"]["completed_ns"]]
    times += [
        columns["begun"]["invoked_ns"],
        columns["ended"]["completed_ns"],
        [client.time_ns for client in all_of_them.clients],
    ]
    return max((int(np.max(column)) for column in times if len(column)), default=0)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Switches the garbage collector off: millions of small lists without cycles would be searched in vain."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def client_events_table(
    events: Mapping[str, Any],
    *,
    run: int,
    clients: Sequence[Process],
    names: Sequence[tuple[str, int]],
    words: Sequence[str],
) -> pa.Table:
    """`names`: the topic-partitions by number. Events of one moment keep their order in the journals."""
    row = np.argsort(events["invoked_ns"], kind="stable")
    event_columns = {name: column[row] for name, column in events.items()}
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
        **{name: nullable(event_columns[name], schema.field(name).type) for name in _NUMBERS_OF_EVENTS},
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def value_origins_table(origins: Mapping[str, Any], *, run: int, words: Sequence[str]) -> pa.Table:
    """Each once, whichever journals say it."""
    schema = TABLES["value_origins"]
    columns = {
        "run": np.full(len(origins["value"]), run, np.int32),
        "topic": texts_of(origins["word"], words),
        "value": origins["value"],
        "origin": nullable(origins["origin"], pa.int64()),
    }
    table = pa.table({name: columns[name] for name in schema.names}, schema=schema)
    return table.group_by(schema.names, use_threads=False).aggregate([]).cast(schema)
