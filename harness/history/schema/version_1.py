"""Converts tables of schema version 1 to version 2; only this module knows the old names.

A file of version 1 is validated against its own schema, read in its own columns and converted; it is never changed. So
all code that judges, compares or shows a run knows one version. A file states its version; evidence of findings did not
in version 1 and is recognised by its columns. Facts that version 1 stored as words only are extracted once
(version_1_words.py); others are unknown.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.schema import version_1_words
from harness.history.schema.cluster_rows import DiskEventRow, FaultRow
from harness.history.schema.evidence_schemas import EVIDENCE, FINDINGS
from harness.history.schema.schemas import ADDED_COLUMNS, DERIVED, LINK, TABLES
from harness.history.schema.version_1_words import act_of, arguments_of, links_of, step_words

_VERSION = b"kafka_chaos_schema"
_FILES = {"operations": "ops"}  # files with other names

_PLACE = {"part": "partition"}
_AT = {"t": "time_ns"}
_SPAN = {"t0": "invoked_ns", "t1": "completed_ns"}
_ID = {"tp": "partition_id"}
_OFFSET = {"off": "offset"}
_EPOCH = {"epoch": "leader_epoch"}
_OPERATION = {"op": "operation"}
_TRANSACTION = {"txn": "transaction"}
_GAP = {"begin_t": "begin_ns", "end_t": "end_ns"}

# By table: a column's old name -> its new name.
NAMES: Mapping[str, Mapping[str, str]] = {
    "operations": _OPERATION | _SPAN | _TRANSACTION
    | {"f": "function", "i0": "invocation_index", "i1": "completion_index"},
    "records": _OPERATION | _PLACE | _ID | _OFFSET | _EPOCH | _SPAN | _TRANSACTION
    | {"i": "position", "step": "offset_step", "last": "last_of_poll", "mop": "micro_operation"},
    "client_events": _AT | _PLACE | _EPOCH,
    "transactions": _TRANSACTION | _SPAN,
    "group_events": _PLACE | _OFFSET | _SPAN | _TRANSACTION,
    "faults": {
        "label": "label_text", "trigger": "trigger_text", "proof": "proof_text", "healed_proof": "healed_proof_text",
        "t_asked": "asked_ns", "t_begin": "begin_ns", "t_end_asked": "end_asked_ns", "t_end": "end_ns",
    },
    "disk_events": _AT | _PLACE,
    "steps": {"text": "step_text", "t0": "begin_ns", "t1": "end_ns", "seen": "seen_text"},
    "partition_states": _AT | _PLACE,
    "controllers": _AT,
    "controller_seen": _AT,
    "broker_events": _AT | _PLACE | _EPOCH | {"reason": "reason_text", "detail": "detail_text"},
    "configuration": _AT,
    "replica_snapshots": _AT | _PLACE
    | {"log_start": "log_start_offset", "log_end": "log_end_offset", "epochs": "leader_epochs"},
    "replica_log": _PLACE | _ID | _OFFSET | _EPOCH,
    "partitions": _ID | _PLACE | {"note": "note_text", "log_start": "log_start_offset"},
    "value_names": {"text": "name"},
    "jumps": _ID | _OFFSET,
    "activity": {"t_last": "last_ns", "replica_reads_began": "replica_reads_began_ns"},
    "bins": _AT,
    "findings": _PLACE | _EPOCH
    | {"t_first": "first_ns", "t_last": "last_ns", "cause": "cause_text", "sentence": "sentence_text"},
    "evidence_accounting": _PLACE,
    "evidence_lost_records": _PLACE | _OFFSET | _EPOCH | _OPERATION | _SPAN,
    "evidence_log_rows": _PLACE | _OFFSET | _EPOCH
    | {"acknowledged_t": "acknowledged_ns", "truncated_t": "truncated_ns"},
    "evidence_operations": _PLACE | _OFFSET | _EPOCH | _OPERATION | _SPAN,
    "evidence_gaps": _PLACE | _GAP,
    "evidence_fault_measures": _GAP | {"label": "label_text"},
}  # fmt: skip
# Tables that a sealed folder may lack, because they were added within a version; and columns that one of version 1 may
# lack. They are empty, and null.
ADDED = (*DERIVED, "disk_events", "topics", "node_ends", "final_reads")
LATER: Mapping[str, tuple[str, ...]] = {
    "operations": ("transaction", "invocation_index", "completion_index"),
    "records": ("micro_operation", "key", "timestamp_ms", "log_append", "tombstone"),
    "processes": ("tells_attempts", "journal_complete"),
    "partition_states": ("elr", "topic_id"),
    "steps": ("arguments",),
    "replica_snapshots": ("digest", "topic_id"),
    "partitions": ("log_start_offset", "cleanup_policy", "last_stable_offset"),
}
# Columns that had another type in version 1, and those that it did not have.
_OTHER_TYPES: Mapping[tuple[str, str], pa.DataType] = {("faults", "links"): pa.string()}
_NEW: Mapping[str, Mapping[str, str]] = {"faults": {"proved": "proof"}, "steps": {"act": "text"}}  # and from which
# Keys in findings' JSON that were named after columns.
_IN_EVIDENCE = _OPERATION | _PLACE | _ID | _OFFSET | _EPOCH | _SPAN | _TRANSACTION | _AT | {
    "log_start": "log_start_offset", "log_end": "log_end_offset",
}  # fmt: skip


def schema_of(table: str) -> pa.Schema:
    """The current schema. table: the file's current name."""
    if table == "findings":
        return FINDINGS
    return EVIDENCE[table.removeprefix("evidence_")] if table.startswith("evidence_") else TABLES[table]


def path_of(tables: Path, table: str) -> Path:
    """The table's file in RUN/tables, under its old name if it has that."""
    path = tables / f"{table}.parquet"
    was = tables / f"{_FILES.get(table, table)}.parquet"
    return was if was != path and not path.exists() and was.exists() else path


def is_old(found: pa.Schema, table: str) -> bool:
    """True if a file of this schema is of version 1."""
    version = (found.metadata or {}).get(_VERSION)
    if version is not None:
        return bool(version == b"1")
    names = NAMES.get(table, {})
    return any(was in found.names and now not in found.names for was, now in names.items())


def old_schema(table: str) -> pa.Schema:
    """The schema in version 1."""
    was = {now: old for old, now in NAMES.get(table, {}).items()}
    return pa.schema(
        [
            pa.field(was.get(field.name, field.name), _OTHER_TYPES.get((table, field.name), field.type))
            for field in schema_of(table)
            if field.name not in _NEW.get(table, ())
        ]
    )


def may_lack(table: str, found: pa.Schema, *, old: bool) -> list[str]:
    """The columns, by their names there, that a valid file may lack because it is older than they are."""
    added = ADDED_COLUMNS.get(table, ())
    later = (*LATER.get(table, ()), *added)
    if old:
        return old_names(table, later)
    return list(added if _VERSION in (found.metadata or {}) else later)


def old_names(table: str, columns: Iterable[str]) -> list[str]:
    """The old columns from which these current columns are computed."""
    was = {now: old for old, now in NAMES.get(table, {}).items()} | dict(_NEW.get(table, {}))
    return list(dict.fromkeys(was.get(name, name) for name in columns))


def old_filters(table: str, filters: Sequence[tuple[str, str, Any]] | None) -> list[tuple[str, str, Any]] | None:
    if filters is None:
        return None
    return [(old_names(table, [name])[0], relation, value) for name, relation, value in filters]


def converted(table: str, found: pa.Table) -> pa.Table:
    """Converts any columns of version 1."""
    names = NAMES.get(table, {})
    columns = found.rename_columns([names.get(name, name) for name in found.column_names])
    if table == "findings" and "evidence" in columns.column_names:
        place = columns.column_names.index("evidence")
        texts = [None if text is None else _evidence(text) for text in columns.column("evidence").to_pylist()]
        columns = columns.set_column(place, "evidence", pa.array(texts, pa.string()))
    if table == "faults":
        return _faults(columns)
    return _steps(columns) if table == "steps" else columns


def _faults(columns: pa.Table) -> pa.Table:
    if "links" in columns.column_names:
        links = [links_of(text) for text in columns.column("links").to_pylist()]
        columns = columns.set_column(columns.column_names.index("links"), "links", pa.array(links, pa.list_(LINK)))
    if "proof_text" in columns.column_names:
        proved = [bool(text) for text in columns.column("proof_text").to_pylist()]
        columns = columns.append_column("proved", pa.array(proved, pa.bool_()))
    return columns


def _steps(columns: pa.Table) -> pa.Table:
    if not {"kind", "step_text", "arguments"} <= set(columns.column_names):
        return columns
    rows = [_step(row) for row in columns.to_pylist()]
    for name in ("step_text", "arguments"):
        columns = columns.set_column(
            columns.column_names.index(name), name, pa.array([row[name] for row in rows], pa.string())
        )
    return columns.append_column("act", pa.array([row["act"] for row in rows], pa.string()))


def _step(row: Mapping[str, Any]) -> dict[str, Any]:
    words = step_words(row.get("kind"), row.get("step_text"))
    arguments = row.get("arguments")
    if arguments is None:
        arguments = arguments_of(words)
    return {**row, "step_text": words, "arguments": arguments, "act": act_of(words, arguments)}


def disk_events(tables: Path, faults: Sequence[FaultRow], recorded: Sequence[DiskEventRow]) -> list[DiskEventRow]:
    """Rows of `disk_events` that a folder of version 1 had only in its faults' proofs; otherwise none.

    faults, recorded: its rows in the current columns.
    """
    found = disk_events_of(faults, recorded)
    return found if found and is_old(pq.read_schema(path_of(tables, "faults")), "faults") else []


def disk_events_of(faults: Sequence[FaultRow], recorded: Sequence[DiskEventRow]) -> list[DiskEventRow]:
    return version_1_words.disk_events(faults, (row["fault"] for row in recorded))


def row(table: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the controller's file of a run; it states no version, but no current name was an old one."""
    names = NAMES.get(table, {})
    now = {names.get(name, name): value for name, value in stored.items()}
    if table == "faults" and "proof" in stored:
        text = now.get("links")
        return now | {"links": links_of(text) if isinstance(text, str) else None, "proved": bool(stored["proof"])}
    return _step(now) if table == "steps" and "text" in stored else now


def is_old_row(table: str, stored: Mapping[str, Any]) -> bool:
    """True if a row of the controller's file is of version 1."""
    return not NAMES.get(table, {}).keys().isdisjoint(stored)


def _evidence(text: str) -> str:
    try:
        return json.dumps(_renamed(json.loads(text)), sort_keys=True)
    except (ValueError, RecursionError):
        return text  # its reader reports the error


def _renamed(stored: Any) -> Any:
    if isinstance(stored, dict):
        return {_IN_EVIDENCE.get(key, key): _renamed(each) for key, each in stored.items()}
    return [_renamed(each) for each in stored] if isinstance(stored, list) else stored
