"""The tables of the clients' half of a history, each declared as the type of its rows (column_types.py).

`run` allows many histories to be judged in one job; it is numbered by whoever reads.
"""

from typing import Annotated, Literal, TypedDict

from harness.history.schema.column_types import (
    Acks,
    Added,
    Broker,
    Int8,
    Int16,
    Int32,
    Int64,
    LeaderEpoch,
    Nanoseconds,
    Natural16,
    Natural32,
    Natural64,
    Status,
    Within,
)
from harness.history.schema.typed_rows import RowsOf
from harness.values import GroupProtocol

Role = Literal["producer", "consumer", "both"]
Isolation = Literal["read_committed", "read_uncommitted"]
OffsetReset = Literal["earliest", "latest", "none"]
GroupEvent = Literal["assigned", "revoked", "lost", "committed", "fetched", "seek"]
ClientEvent = Literal["attempt_failed", "timeout", "disconnect", "connect", "leader", "request"]


class OperationRow(TypedDict):
    """One row per client operation; an empty poll has one too (count 0).

    operation: the index of the completion (by completed_ns) over the whole run, which records.operation refers to.
    function: send | poll | final_poll | assign | subscribe | seek | commit | crash | probe_send | probe_poll, and txn
    in imported histories. transaction: the one it was done in. invocation_index, completion_index: places among the
    events of imported histories.
    """

    run: Int32
    operation: Natural64
    process: Natural32
    client: str | None
    function: str
    status: Status
    invoked_ns: Nanoseconds
    completed_ns: Nanoseconds
    count: Natural32 | None
    error: str | None
    transaction: Natural64 | None
    invocation_index: Int64 | None
    completion_index: Int64 | None


class RecordRow(TypedDict):
    """One row per record of a send or a poll, in recorded order.

    value: unique per topic and partition, `producer << 40 | sequence` (values.py converts it to the text that was sent,
    and foreign texts to integers). position: its place in the operation. invoked_ns, completed_ns: of a send per record
    (call, answer). offset: null unless acknowledged with one. acks (sends): 0, 1, -1. error (sends): the error name of
    a fail or info outcome. transaction: the number within the run of the one it was sent or polled in. A transactional
    send's status: ok = committed, fail = aborted for certain, info = nobody knows.

    leader_epoch (polls): of the batch. offset_step: offset minus the one before it in the same poll and partition, null
    on a poll's first; last_of_poll: the last of its partition in its poll. assignment: counts how often this process
    gained this partition anew (assign or seek starts a new one). replica (final polls only): broker id when the read
    was made with that replica as the only leader, else null.

    timestamp_ms: polls: the record's, as the broker gave it; sends: the broker's answer, else what the client set.
    log_append: the topic's records are stamped by the broker (LogAppendTime). key: dense id of the record's key where
    the workload is keyed. tombstone: a key without a value, which deletes the key; `value` is then what else
    distinguishes the record. Null: unknown. The workloads send none, since a record of theirs is known by its value.
    micro_operation: its place in the operation (imported histories; null: the operation is one micro-operation).
    returned_ns (sends): when the call that handed the record to its client library had returned (the call, not the
    answer), or the answer if that came first: a later call follows it. Null: nobody recorded it.
    """

    run: Int32
    kind: Annotated[Int8, Within(0, 2)]
    status: Status
    acks: Acks | None
    operation: Natural64
    process: Natural32
    assignment: Int32 | None
    topic: str
    partition: Natural32
    partition_id: Natural32
    position: Natural32
    offset: Natural64 | None
    offset_step: Int64 | None
    last_of_poll: bool | None
    leader_epoch: LeaderEpoch | None
    value: Natural64
    invoked_ns: Nanoseconds
    completed_ns: Nanoseconds
    transaction: Natural64 | None
    replica: Natural32 | None
    error: str | None
    micro_operation: Int32 | None
    key: Int64 | None
    timestamp_ms: Int64 | None
    log_append: bool | None
    tombstone: bool | None
    returned_ns: Added[Nanoseconds | None]


class ProcessRow(TypedDict):
    """One row per client: a process number of the history. role: producer | consumer | both. acks: 0, 1, -1; null for
    one that never sends. isolation: read_committed | read_uncommitted. offset_reset: earliest | latest | none.
    tells_attempts: client_events has each of its attempts to produce a batch that failed; null: not known.
    journal_complete: the journal it is in came to its end, and was not cut short; null: not known. group_instance_id:
    of a static member (KIP-345). group_protocol: classic | consumer (KIP-848); null: not known. reads_for: the group of
    an application's consumer, of which no event is recorded; empty: it has none; null: nobody told it."""

    run: Int32
    process: Natural32
    client: str | None
    library: str | None
    role: Role | None
    acks: Acks | None
    idempotent: bool | None
    isolation: Isolation | None
    group: str | None
    transactional_id: str | None
    offset_reset: OffsetReset | None
    tells_attempts: bool | None
    journal_complete: bool | None
    group_instance_id: Added[str | None]
    group_protocol: Added[GroupProtocol | None]
    reads_for: Added[str | None]


class ClientEventRow(TypedDict):
    """What clients met, in order of time (harness/ports/clients.py). event: attempt_failed | timeout | disconnect
    | connect | leader | request. node: the other end; of `leader` the leader that metadata named, -1: none is. topic,
    partition: of attempt_failed and leader. request: from now on the client sends requests of this kind (Produce,
    OffsetFetch, EndTxn ...) to the node in this version. status (attempt_failed): 1 it was refused before the append, 2
    nobody knows. code: the number of the error that a broker answered (facts/error_codes.py). Runs sealed before there
    was this table lack it."""

    run: Int32
    process: Natural32
    time_ns: Nanoseconds
    event: ClientEvent
    node: Broker | None
    topic: str | None
    partition: Natural32 | None
    leader_epoch: LeaderEpoch | None
    status: Status | None
    error: str | None
    request: Added[str | None]
    version: Added[Natural16 | None]
    code: Added[Int16 | None]


class TransactionRow(TypedDict):
    """One row per transaction. invoked_ns: begin was called; completed_ns: commit or abort was answered, or the last
    moment of the run. outcome: 0 committed, 1 aborted, 2 nobody knows, 3 never begun: no broker was told of it (in
    older tables these are among the aborted). group: whose offsets were sent to it."""

    run: Int32
    transaction: Natural64
    process: Natural32
    transactional_id: str | None
    invoked_ns: Nanoseconds
    completed_ns: Nanoseconds
    outcome: Annotated[Int8, Within(0, 3)]
    error: str | None
    group: str | None


class GroupEventRow(TypedDict):
    """One row per event and partition, in order. event: assigned | revoked | lost | committed | fetched | seek.
    generation: committed: of the request, below 0 or null without one. offset: committed: the offset stored; fetched:
    the committed offset as answered; seek: the target, if recorded, and group "" of a client without one; assigned: the
    position started from, if known. status: 0 ok, 1 fail, 2 info. transaction: the offsets were sent to it; status is
    then the transaction's outcome. require_stable (fetched): the request asked for offsets that no open transaction is
    about to replace (OffsetFetch 7, KIP-447); null: not known."""

    run: Int32
    process: Natural32
    group: str
    event: GroupEvent
    generation: Int32 | None
    member: str | None
    topic: str
    partition: Natural32
    offset: Int64 | None
    status: Status
    invoked_ns: Nanoseconds
    completed_ns: Nanoseconds
    transaction: Natural64 | None
    error: str | None
    require_stable: Added[bool | None]


class ValueNameRow(TypedDict):
    """Names for values that were not made by a producer of the workload (probes, imported histories)."""

    run: Int32
    value: Natural64
    name: str


class FlowRow(TypedDict):
    """What an application is held to: what its group commits of the input topic has come out in the output topic.
    asked_ns: what was committed until then counts. group: null: the one that did so. exactly_once: and only once.
    input_told, output_told: value_origins says which input each value of that topic is of; else it is its own."""

    run: Int32
    flow: Natural32
    input: str
    output: str
    group: str | None
    exactly_once: bool
    input_told: bool
    output_told: bool
    asked_ns: Nanoseconds


class ValueOriginRow(TypedDict):
    """Which input the records of a value in a topic are of, as the application's test told it: a value is the id of an
    input. origin: null: of none."""

    run: Int32
    topic: str
    value: Natural64
    origin: Natural64 | None


class JumpRow(TypedDict):
    """First records of polls whose offset is not the one after the end of their consumer's poll before: offset - that
    end."""

    run: Int32
    partition_id: Natural32
    value: Natural64
    offset: Natural64
    jump: Int64


class ActivityRow(TypedDict):
    """One row per run. sends, reads, final_reads: records. last_ns: when the last operation ended.
    replica_reads_began_ns: of the final reads from single replicas. transactional, halting, log_append: whether there
    was any record in a transaction; any send that was not answered well and soon; any record with its broker's
    timestamp."""

    run: Int32
    sends: Natural64
    reads: Natural64
    final_reads: Natural64
    last_ns: Nanoseconds | None
    replica_reads_began_ns: Nanoseconds | None
    transactional: bool
    halting: bool
    log_append: bool


class BinRow(TypedDict):
    """Throughput and latency of sends in bins of the run, made at sealing (kept: min and max survive binning)."""

    run: Int32
    time_ns: Nanoseconds
    width_ns: Nanoseconds
    ok: Int64
    info: Int64
    fail: Int64
    polled: Int64
    p50_ns: Nanoseconds | None
    p99_ns: Nanoseconds | None
    max_ns: Nanoseconds | None


OPERATIONS = RowsOf("operations", OperationRow)
RECORDS = RowsOf("records", RecordRow)
PROCESSES = RowsOf("processes", ProcessRow)
CLIENT_EVENTS = RowsOf("client_events", ClientEventRow)
TRANSACTIONS = RowsOf("transactions", TransactionRow)
GROUP_EVENTS = RowsOf("group_events", GroupEventRow)
VALUE_NAMES = RowsOf("value_names", ValueNameRow)
FLOWS = RowsOf("flows", FlowRow)
VALUE_ORIGINS = RowsOf("value_origins", ValueOriginRow)
JUMPS = RowsOf("jumps", JumpRow)
ACTIVITY = RowsOf("activity", ActivityRow)
BINS = RowsOf("bins", BinRow)
