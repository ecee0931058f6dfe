"""Seals a run folder: converts the journals, the controller's rows and the snapshots to tables.

It needs nothing but the folder, so any later command can seal a run whose harness was killed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa

from harness.history.facts.incarnations import Incarnations, client_name
from harness.history.facts.log_digest import with_digests
from harness.history.facts.values import ValueNames
from harness.history.journals.controller_rows import BOOKS, CONTROLLER_SEEN, ROWS, read_rows, read_snapshots
from harness.history.journals.journal_files import check_journals, journal_paths, may_lack_their_end
from harness.history.journals.merging import TopicPart
from harness.history.run_folder import RunFolder
from harness.history.schema.client_rows import VALUE_NAMES, ValueNameRow
from harness.history.schema.cluster_rows import (
    CONTROLLERS,
    FAULTS,
    PARTITION_STATES,
    PARTITIONS,
    REPLICA_SNAPSHOTS,
    TOPICS,
    ControllerRow,
    PartitionRow,
)
from harness.history.schema.schemas import INTERNAL, ROW_GROUP, TABLES
from harness.history.schema.typed_rows import AnyRow, TypedRows
from harness.history.sealed.derived_tables import Derived
from harness.history.sealed.tables import Conversion, Converted

_FINAL_READ = "final-read"
_FROM_ROWS = (
    "faults",
    "disk_events",
    "steps",
    "partition_states",
    "broker_events",
    "node_ends",
    "configuration",
    "final_reads",
    "progress",
    "flows",
    *INTERNAL,
)


def seal(folder: RunFolder) -> None:
    """Writes every table, empty ones too. Can be repeated: the sources stay. Raises HarnessError.

    What is missing is stored in run.json, and the checks report it.
    """
    check_journals(folder)
    rows = read_rows(folder.history / ROWS) + read_rows(folder.history / BOOKS / ROWS)
    converted, names = _converted(folder, rows)
    topics = Incarnations(rows[TOPICS], rows[FAULTS])
    undecided: set[str] = set()
    if topics:
        rows = topics.renamed(rows)
        converted, undecided = _parted(topics, converted)
    derived = Derived()
    with ThreadPoolExecutor(1, thread_name_prefix="beside-records") as beside:
        written = beside.submit(folder.write_table, "operations", converted.operations)
        pieces = _passed_on(converted.record_tables(), lambda piece: beside.submit(derived.add, piece))
        folder.write_tables("records", pieces)
        written.result()
    for name, table in (converted.small | derived.tables()).items():
        folder.write_table(name, table)
    folder.write_table("value_names", _table("value_names", _named(names)))
    folder.write_table("partitions", _table("partitions", _partitions(rows, converted)))
    folder.write_table("topics", _table("topics", topics.topics(undecided)))
    folder.write_table("controllers", _table("controllers", _controllers(rows)))
    snapshots = [read_snapshots(folder.history), read_snapshots(folder.history / BOOKS)]
    log = pa.concat_tables(snapshots)
    log = _with_tp(topics.logs(log, rows[REPLICA_SNAPSHOTS]) if topics else log, converted.partition_ids)
    folder.write_table("replica_log", log)
    folder.write_table("replica_snapshots", _table("replica_snapshots", with_digests(rows[REPLICA_SNAPSHOTS], log)))
    for table in _FROM_ROWS:
        folder.write_table(table, _table(table, rows.named(table)))
    missing = _missing(folder, rows, converted)
    if missing != folder.run.get("missing", []):
        folder.update(missing=missing)
    if may_lack_their_end(folder):
        folder.update(journals_may_lack_their_end=True)


def _converted(folder: RunFolder, rows: TypedRows) -> tuple[Converted, ValueNames]:
    names = ValueNames((row["value"], row["name"]) for row in rows[VALUE_NAMES])
    conversion = Conversion(names=names)
    for path in journal_paths(folder.history):
        conversion.add(path)
    return conversion.finish(_mentioned(rows)), names


def _parted(topics: Incarnations, converted: Converted) -> tuple[Converted, set[str]]:
    """Moves clients' operations on a name to the topic's incarnation; returns the names with records that could not be
    assigned."""
    records, tps = topics.placed(converted.records, converted.partition_ids)
    undecided = {client_name(topic) for topic, _ in tps if topics.is_set_apart(topic)}
    parted = replace(
        converted,
        record_tables=lambda: _in_row_groups(records),
        partition_ids=tps,
        group_events=topics.events(converted.group_events),
        client_events=topics.client_events(converted.client_events),
    )
    return parted, undecided


def _in_row_groups(records: pa.Table) -> Iterator[pa.Table]:
    for begin in range(0, len(records), ROW_GROUP):
        yield records.slice(begin, ROW_GROUP)


def _passed_on(pieces: Iterable[pa.Table], tell: Callable[[pa.Table], "Future[None]"]) -> Iterator[pa.Table]:
    """Passes each piece to the derived tables while it is written; done when the next piece comes."""
    for piece in pieces:
        telling = tell(piece)
        yield piece
        telling.result()


def _table(name: str, rows: Sequence[AnyRow]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=TABLES[name])


def _mentioned(rows: TypedRows) -> set[TopicPart]:
    return {
        (row["topic"], row["partition"])
        for of_places in (rows[PARTITIONS], rows[PARTITION_STATES], rows[REPLICA_SNAPSHOTS])
        for row in of_places
    }


def _named(names: ValueNames) -> list[ValueNameRow]:
    return [{"run": 0, "value": value, "name": text} for value, text in names.items()]


def _partitions(rows: TypedRows, converted: Converted) -> list[PartitionRow]:
    """A final read whose journal is incomplete may have reached the end of a partition: it is not held responsible."""
    recorded = {(row["topic"], row["partition"]): row for row in rows[PARTITIONS]}
    is_cut = _FINAL_READ in converted.cut_short
    table: list[PartitionRow] = []
    for (topic, part), partition_id in converted.partition_ids.items():
        blank: PartitionRow = {
            "run": 0,
            "partition_id": partition_id,
            "topic": topic,
            "partition": part,
            "replicas": None,
            "read_to_end": False,
            "end_offset": None,
            "note_text": "not read",
            "log_start_offset": None,
            "cleanup_policy": None,
            "last_stable_offset": None,
        }
        row: PartitionRow = {**recorded.get((topic, part), blank), "partition_id": partition_id}
        if is_cut:
            row = {**row, "read_to_end": False, "note_text": "the journal of the final read has no end"}
        table.append(row)
    return table


def _missing(folder: RunFolder, rows: TypedRows, converted: Converted) -> list[str]:
    """The partitions of a finished run of which no leader and ISR is known."""
    if not converted.partition_ids or folder.run.get("status") in (None, "error"):
        return []
    stated = {(client_name(row["topic"]), row["partition"]) for row in rows[PARTITION_STATES]}
    without = [f"{topic}-{part}" for topic, part in converted.partition_ids if (client_name(topic), part) not in stated]
    if not without:
        return []
    names = ", ".join(without[:5]) + (", ..." if len(without) > 5 else "")
    return [f"No state of {names} is known: neither books nor brokers report who led and who was in sync."]


def _controllers(rows: TypedRows) -> Sequence[ControllerRow]:
    """The exact rows if the system keeps records; otherwise those polled, late by up to one polling round."""
    polled: list[ControllerRow] = [
        {**row, "uncertainty_ns": 200_000_000, "controller_epoch": None} for row in rows[CONTROLLER_SEEN]
    ]
    return rows[CONTROLLERS] or polled


def _with_tp(table: pa.Table, partition_ids: dict[TopicPart, int]) -> pa.Table:
    partition_id = np.zeros(len(table), np.int32)
    topics = table.column("topic").combine_chunks().dictionary_encode()
    codes = np.asarray(topics.indices)
    parts = table.column("partition").to_numpy()
    for (topic, part), number in partition_ids.items():
        code = topics.dictionary.index(topic).as_py()
        if code >= 0:
            partition_id[(codes == code) & (parts == part)] = number
    return table.set_column(
        table.schema.get_field_index("partition_id"),
        TABLES["replica_log"].field("partition_id"),
        pa.array(partition_id),
    )
