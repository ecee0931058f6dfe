"""What a row of each table of the clients' half of a history holds (schemas.py says what the columns mean).

A column is `X | None` where it may be null by `lawful_rows.REQUIRED`; a test holds every type against its schema.
`run` is numbered by whoever reads.
"""

from typing import Literal, TypedDict

from harness.history.schema.typed_rows import RowsOf

Role = Literal["producer", "consumer", "both"]
Isolation = Literal["read_committed", "read_uncommitted"]
OffsetReset = Literal["earliest", "latest", "none"]
GroupProtocol = Literal["classic", "consumer"]
GroupEvent = Literal["assigned", "revoked", "lost", "committed", "fetched", "seek"]
ClientEvent = Literal["attempt_failed", "timeout", "disconnect", "connect", "leader", "request"]


class OperationRow(TypedDict):
    run: int
    operation: int
    process: int
    client: str | None
    function: str
    status: int
    invoked_ns: int
    completed_ns: int
    count: int | None
    error: str | None
    transaction: int | None
    invocation_index: int | None
    completion_index: int | None


class RecordRow(TypedDict):
    run: int
    kind: int
    status: int
    acks: int | None
    operation: int
    process: int
    assignment: int | None
    topic: str
    partition: int
    partition_id: int
    position: int
    offset: int | None
    offset_step: int | None
    last_of_poll: bool | None
    leader_epoch: int | None
    value: int
    invoked_ns: int
    completed_ns: int
    transaction: int | None
    replica: int | None
    error: str | None
    micro_operation: int | None
    key: int | None
    timestamp_ms: int | None
    log_append: bool | None
    tombstone: bool | None
    returned_ns: int | None


class ProcessRow(TypedDict):
    run: int
    process: int
    client: str | None
    library: str | None
    role: Role | None
    acks: int | None
    idempotent: bool | None
    isolation: Isolation | None
    group: str | None
    transactional_id: str | None
    offset_reset: OffsetReset | None
    tells_attempts: bool | None
    journal_complete: bool | None
    group_instance_id: str | None
    group_protocol: GroupProtocol | None


class ClientEventRow(TypedDict):
    run: int
    process: int
    time_ns: int
    event: ClientEvent
    node: int | None
    topic: str | None
    partition: int | None
    leader_epoch: int | None
    status: int | None
    error: str | None
    request: str | None
    version: int | None
    code: int | None


class TransactionRow(TypedDict):
    run: int
    transaction: int
    process: int
    transactional_id: str | None
    invoked_ns: int
    completed_ns: int
    outcome: int
    error: str | None
    group: str | None


class GroupEventRow(TypedDict):
    run: int
    process: int
    group: str
    event: GroupEvent
    generation: int | None
    member: str | None
    topic: str
    partition: int
    offset: int | None
    status: int
    invoked_ns: int
    completed_ns: int
    transaction: int | None
    error: str | None
    require_stable: bool | None


class ValueNameRow(TypedDict):
    run: int
    value: int
    name: str


class JumpRow(TypedDict):
    run: int
    partition_id: int
    value: int
    offset: int
    jump: int


class ActivityRow(TypedDict):
    run: int
    sends: int
    reads: int
    final_reads: int
    last_ns: int | None
    replica_reads_began_ns: int | None
    transactional: bool
    halting: bool
    log_append: bool


class BinRow(TypedDict):
    run: int
    time_ns: int
    width_ns: int
    ok: int
    info: int
    fail: int
    polled: int
    p50_ns: int | None
    p99_ns: int | None
    max_ns: int | None


OPERATIONS = RowsOf("operations", OperationRow)
RECORDS = RowsOf("records", RecordRow)
PROCESSES = RowsOf("processes", ProcessRow)
CLIENT_EVENTS = RowsOf("client_events", ClientEventRow)
TRANSACTIONS = RowsOf("transactions", TransactionRow)
GROUP_EVENTS = RowsOf("group_events", GroupEventRow)
VALUE_NAMES = RowsOf("value_names", ValueNameRow)
JUMPS = RowsOf("jumps", JumpRow)
ACTIVITY = RowsOf("activity", ActivityRow)
BINS = RowsOf("bins", BinRow)
