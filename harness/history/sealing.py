"""Seals a run folder: turns the journals, the controller's rows and the snapshots into tables.

Needs nothing but the folder, so that a run whose harness was killed can be sealed by any later command. Where journals
were converted beside the run (following.py), it goes on from there; the tables are the same.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from harness.clock import SystemClock
from harness.history.controller_rows import BOOKS, ROWS, read_rows, read_snapshots
from harness.history.derived import Derived
from harness.history.halves import begun_journals
from harness.history.incarnations import Incarnations, client_name
from harness.history.journal_columns import JournalChanged
from harness.history.log_digest import with_digests
from harness.history.merging import TopicPart
from harness.history.opened_journals import check_journals, may_lack_their_end
from harness.history.pieces import FOLDER, Journals, PiecesUnfit, journal_paths
from harness.history.run_folder import RunFolder
from harness.history.schemas import ROW_GROUP, TABLES
from harness.history.tables import Conversion, Converted
from harness.history.values import ValueNames
from harness.printable import printable

_FINAL_READ = "final-read"
_FROM_ROWS = ("faults", "disk_events", "steps", "partition_states", "broker_events", "configuration")

Rows = dict[str, list[dict[str, Any]]]


def seal(folder: RunFolder) -> None:
    """Writes every table, the empty ones too. Can be repeated: the sources stay. Raises HarnessError.

    What it finds missing is kept in run.json: the checks say so.
    """
    check_journals(folder)
    rows = read_rows(folder.history / ROWS)
    for table, more in read_rows(folder.history / BOOKS / ROWS).items():
        rows.setdefault(table, []).extend(more)
    converted, names = _converted(folder, rows)
    topics = Incarnations(rows.get("topics", ()), rows.get("faults", ()))
    undecided: set[str] = set()
    if topics:
        rows = topics.renamed(rows)
        converted, undecided = _parted(topics, converted)
    derived = Derived()
    with ThreadPoolExecutor(1, thread_name_prefix="beside-records") as beside:
        written = beside.submit(folder.write_table, "ops", converted.ops)
        pieces = _told(converted.record_tables(), lambda piece: beside.submit(derived.add, piece))
        folder.write_tables("records", pieces)
        written.result()
    folder.write_table("processes", converted.processes)
    folder.write_table("transactions", converted.transactions)
    folder.write_table("group_events", converted.group_events)
    folder.write_table("client_events", converted.client_events)
    for name, table in derived.tables().items():
        folder.write_table(name, table)
    folder.write_table("value_names", _table("value_names", _named(names)))
    folder.write_table("partitions", _table("partitions", _partitions(rows, converted)))
    folder.write_table("topics", _table("topics", [{"run": 0} | row for row in topics.topics(undecided)]))
    folder.write_table("controllers", _table("controllers", _controllers(rows)))
    snapshots = [read_snapshots(folder.history), read_snapshots(folder.history / BOOKS)]
    log = pa.concat_tables(snapshots)
    log = _with_tp(topics.logs(log, rows.get("replica_snapshots", ())) if topics else log, converted.tps)
    folder.write_table("replica_log", log)
    folder.write_table(
        "replica_snapshots", _table("replica_snapshots", with_digests(rows.get("replica_snapshots", []), log))
    )
    for table in _FROM_ROWS:
        folder.write_table(table, _table(table, rows.get(table, [])))
    folder.files.remove_folder(FOLDER)
    missing = _missing(folder, rows, converted)
    if missing != folder.run.get("missing", []):
        folder.update(missing=missing)
    if may_lack_their_end(folder):
        folder.update(journals_may_lack_their_end=True)


def note(folder: RunFolder, line: str) -> None:
    """Writes a line into harness.log, whoever is at work on the folder."""
    moment = datetime.fromtimestamp(SystemClock().wall_ns() / 1e9)
    with folder.files.append("harness.log") as log:
        log.write(f"{moment:%Y-%m-%d %H:%M:%S} INFO seal: {printable(line)}\n".encode())


def _converted(folder: RunFolder, rows: Rows) -> tuple[Converted, ValueNames]:
    try:
        return _finished(folder, rows, begun_journals(folder.files))
    except (PiecesUnfit, JournalChanged) as error:
        note(folder, f"{error}; the journals are converted from their beginning")
        return _finished(folder, rows, Journals())


def _finished(folder: RunFolder, rows: Rows, begun: Journals) -> tuple[Converted, ValueNames]:
    names = ValueNames((row["value"], row["text"]) for row in rows.get("value_names", ()))
    conversion = Conversion(names=names, begun=begun)
    for path in journal_paths(folder.history):
        conversion.add(path)
    return conversion.finish(_mentioned(rows)), names


def _parted(topics: Incarnations, converted: Converted) -> tuple[Converted, set[str]]:
    """What clients did with a name, under the topic it was done to; and the names of which some could not be placed."""
    records, tps = topics.placed(converted.records, converted.tps)
    undecided = {client_name(topic) for topic, _ in tps if topics.is_set_apart(topic)}
    parted = replace(
        converted, record_tables=lambda: _in_row_groups(records), tps=tps,
        group_events=topics.events(converted.group_events), client_events=topics.met(converted.client_events),
    )  # fmt: skip
    return parted, undecided


def _in_row_groups(records: pa.Table) -> Iterator[pa.Table]:
    for begin in range(0, len(records), ROW_GROUP):
        yield records.slice(begin, ROW_GROUP)


def _told(pieces: Iterable[pa.Table], tell: Callable[[pa.Table], "Future[None]"]) -> Iterator[pa.Table]:
    """Each piece is told while it is written, and has been when the next one comes."""
    for piece in pieces:
        telling = tell(piece)
        yield piece
        telling.result()


def _table(name: str, rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=TABLES[name])


def _mentioned(rows: Rows) -> set[TopicPart]:
    tables = ("partitions", "partition_states", "replica_snapshots")
    return {(row["topic"], row["part"]) for table in tables for row in rows.get(table, ())}


def _named(names: ValueNames) -> list[dict[str, Any]]:
    return [{"run": 0, "value": value, "text": text} for value, text in names.items()]


def _partitions(rows: Rows, converted: Converted) -> list[dict[str, Any]]:
    """A final read whose journal lacks its end may have come to the end of a partition: nobody can hold it to that."""
    told = {(row["topic"], row["part"]): row for row in rows.get("partitions", ())}
    cut = {"read_to_end": False, "note": "the journal of the final read has no end"}
    over = cut if _FINAL_READ in converted.cut_short else {}
    table = []
    for (topic, part), tp in converted.tps.items():
        blank = {"run": 0, "topic": topic, "part": part, "read_to_end": False, "note": "not read"}
        table.append(blank | told.get((topic, part), {}) | over | {"tp": tp})
    return table


def _missing(folder: RunFolder, rows: Rows, converted: Converted) -> list[str]:
    """Nothing tells of the leaders and the in-sync replicas of partitions that a finished run knows."""
    if not converted.tps or folder.run.get("status") in (None, "error"):
        return []
    stated = {(client_name(row["topic"]), row["part"]) for row in rows.get("partition_states", ())}
    without = [f"{topic}-{part}" for topic, part in converted.tps if (client_name(topic), part) not in stated]
    if not without:
        return []
    names = ", ".join(without[:5]) + (", ..." if len(without) > 5 else "")
    return [f"No state of {names} is known: neither books nor brokers tell who led and who was in sync."]


def _controllers(rows: Rows) -> list[dict[str, Any]]:
    """The exact ones where the system keeps books; else what the observer polled, late by up to a round."""
    exact = rows.get("controllers", [])
    if exact:
        return exact
    return [row | {"uncertainty_ns": 200_000_000, "controller_epoch": None} for row in rows.get("controller_seen", ())]


def _with_tp(table: pa.Table, tps: dict[TopicPart, int]) -> pa.Table:
    tp = np.zeros(len(table), np.int32)
    topics = table.column("topic").combine_chunks().dictionary_encode()
    codes = np.asarray(topics.indices)
    parts = table.column("part").to_numpy()
    for (topic, part), number in tps.items():
        code = topics.dictionary.index(topic).as_py()
        if code >= 0:
            tp[(codes == code) & (parts == part)] = number
    return table.set_column(table.schema.get_field_index("tp"), TABLES["replica_log"].field("tp"), pa.array(tp))
