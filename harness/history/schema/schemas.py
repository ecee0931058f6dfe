"""The tables of a run folder as Arrow schemas: the interface between running a scenario and judging it.

Every table is one Parquet file `RUN/tables/<name>.parquet` (zstd). Times are nanoseconds of CLOCK_MONOTONIC. Columns
may be added within a schema version; their meaning never changes within one. Names are whole words with the unit last;
columns that end in _text are for people, and nothing is decided by them. What a column means its row's type says:
client_rows.py, cluster_rows.py, internal_rows.py and evidence_rows.py.
"""

from collections.abc import Mapping

import pyarrow as pa

from harness.history.schema import client_rows, cluster_rows, evidence_rows, internal_rows
from harness.history.schema.typed_rows import AnyRow, RowsOf, arrow_schema, columns_of

SCHEMA_VERSION = 2

DERIVED = ("activity", "jumps")  # derived from the records alone
# an event of broker_events: an unreadable line of the broker's journal; detail has the reason
UNREADABLE_EVENT = "unreadable_line"
# a source of configuration: what a broker said at its start that it uses, defaults included
AT_START = "start"
ROW_GROUP = 131_072  # rows; few enough that a million are shared evenly

# records.kind
KIND_SEND, KIND_POLL, KIND_FINAL_POLL = 0, 1, 2
# records.status and operations.status
STATUS_OK, STATUS_FAIL, STATUS_INFO = 0, 1, 2
# transactions.outcome, beside the three of a status
NEVER_BEGUN = 3

# Tables that came within this version: its folders may lack them, and they are empty then.
ADDED_TABLES = (
    *DERIVED,
    "disk_events",
    "topics",
    "node_ends",
    "final_reads",
    "progress",
    "internal_broker_events",
    "flows",
    "value_origins",
)

_CLIENTS = (
    client_rows.OPERATIONS,
    client_rows.RECORDS,
    client_rows.PROCESSES,
    client_rows.CLIENT_EVENTS,
    client_rows.TRANSACTIONS,
    client_rows.GROUP_EVENTS,
    client_rows.FLOWS,
    client_rows.VALUE_ORIGINS,
)
_CLUSTER = (
    cluster_rows.FAULTS,
    cluster_rows.DISK_EVENTS,
    cluster_rows.STEPS,
    cluster_rows.PARTITION_STATES,
    cluster_rows.TOPICS,
    cluster_rows.CONTROLLERS,
    cluster_rows.BROKER_EVENTS,
    cluster_rows.NODE_ENDS,
    cluster_rows.CONFIGURATION,
    cluster_rows.REPLICA_SNAPSHOTS,
    cluster_rows.REPLICA_LOG,
    cluster_rows.PARTITIONS,
    cluster_rows.FINAL_READS,
    cluster_rows.PROGRESS,
)
_OF_VALUES = (client_rows.VALUE_NAMES, client_rows.JUMPS, client_rows.ACTIVITY, client_rows.BINS)
_INTERNAL = (
    internal_rows.INTERNAL_STATES,
    internal_rows.INTERNAL_EVENTS,
    internal_rows.INTERNAL_SNAPSHOTS,
    internal_rows.CONSUMER_OFFSETS,
    internal_rows.TRANSACTION_STATE,
)
_EVIDENCE = (
    evidence_rows.ACCOUNTING,
    evidence_rows.LOST_RECORDS,
    evidence_rows.LOG_ROWS,
    evidence_rows.SHOWN_OPERATIONS,
    evidence_rows.GAPS,
    evidence_rows.FAULT_MEASURES,
)


_ALL: tuple[RowsOf[AnyRow], ...] = (
    *_CLIENTS,
    *_CLUSTER,
    *_OF_VALUES,
    *_INTERNAL,
    *_EVIDENCE,
    evidence_rows.FINDINGS,
)
_VERSION = (("kafka_chaos_schema", str(SCHEMA_VERSION)),)

# Of every table, by its name: the type of its rows, and its schema.
ROWS: Mapping[str, type[AnyRow]] = {each.name: each.row for each in _ALL}
SCHEMAS: Mapping[str, pa.Schema] = {name: arrow_schema(row, _VERSION) for name, row in ROWS.items()}
FINDINGS = SCHEMAS["findings"]
EVIDENCE = {each.name.removeprefix("evidence_"): SCHEMAS[each.name] for each in _EVIDENCE}
TABLES = {each.name: SCHEMAS[each.name] for each in (*_CLIENTS, *_CLUSTER, *_OF_VALUES, *_INTERNAL)}
INTERNAL = tuple(each.name for each in _INTERNAL)  # of Kafka's internal topics, apart from all others
# Columns that came within this version: its folders may lack them, and they are null then.
ADDED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    table: added
    for table, row in ROWS.items()
    if (added := tuple(name for name, column in columns_of(row).items() if column.added))
}
