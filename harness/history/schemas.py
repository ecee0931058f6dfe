"""The tables of a run folder, as Arrow schemas: the one joint between what was done and what is learnt.

Every table is one Parquet file `RUN/tables/<name>.parquet` (zstd). Times are nanoseconds of CLOCK_MONOTONIC. Columns
may be added within a schema version; meanings never change within one. `run` lets many histories be judged as one job.

A record's value is an integer, unique per topic-partition: `producer << 40 | sequence` (`values.py` turns it into the
text that was sent, and foreign texts into integers).
"""

import pyarrow as pa

SCHEMA_VERSION = 1
DERIVED = ("activity", "jumps")  # told of the records alone; runs that were sealed before there were such lack them
ADDED = (*DERIVED, "disk_events", "topics")  # tables that a folder sealed by an older version may lack
UNREADABLE_EVENT = "unreadable_line"  # of broker_events: a line of the broker's journal; detail says which
ROW_GROUP = 131_072  # rows: few enough that a million are shared out evenly

# records.kind
KIND_SEND, KIND_POLL, KIND_FINAL_POLL = 0, 1, 2
# records.status and ops.status
STATUS_OK, STATUS_FAIL, STATUS_INFO = 0, 1, 2

_STRING = pa.string()
_NS = pa.int64()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(
        [pa.field(name, kind) for name, kind in columns.items()],
        metadata={b"kafka_chaos_schema": str(SCHEMA_VERSION).encode()},
    )


TABLES: dict[str, pa.Schema] = {
    # One row per client operation. `op` is the index of the completion (by t1) over the whole run and is what
    # records.op refers to. f: send | poll | final_poll | assign | subscribe | seek | commit | crash | probe_send |
    # probe_poll, and txn in imported histories. An empty poll has a row too (count 0).
    # txn: the transaction it was done in. i0, i1: event index of invocation and completion, in imported histories.
    "ops": _schema(
        run=pa.int32(),
        op=pa.int64(),
        process=pa.int32(),
        client=_STRING,
        f=_STRING,
        status=pa.int8(),
        t0=_NS,
        t1=_NS,
        count=pa.int32(),
        error=_STRING,
        txn=pa.int64(),
        i0=pa.int64(),
        i1=pa.int64(),
    ),
    # One row per record of a send or a poll, in recorded order. For sends, t0/t1 are per record (call, answer).
    # off: null unless acknowledged with an offset. acks (sends): 0, 1, -1. epoch (polls): leader epoch of the batch.
    # step: off minus the offset before it in the same poll and partition, null on a poll's first; last: its last.
    # assignment: counts how often this process gained this partition anew (assign or seek starts a new one).
    # replica (final polls only): broker id when the read was made with that replica as the only leader, else null.
    # error (sends): the error name of a fail or info outcome.
    # txn: the number within the run of the transaction it was sent or polled in. A transactional send's status: ok =
    # committed, fail = aborted for certain, info = nobody knows.
    # mop: place of the micro-op in its operation (imported histories; null: the operation is one micro-op).
    # key: dense id of the record's key where the workload is keyed.
    # timestamp_ms: polls: the record's, as the broker gave it; sends: the broker's answer, else what the client set.
    # log_append: the topic's records are stamped by the broker (LogAppendTime).
    # tombstone: a key without a value, which deletes the key; `value` is then what else tells the record from others.
    # Null: not told. The workloads send none, since a record of theirs is known by its value.
    "records": _schema(
        run=pa.int32(),
        kind=pa.int8(),
        status=pa.int8(),
        acks=pa.int8(),
        op=pa.int64(),
        process=pa.int32(),
        assignment=pa.int32(),
        topic=_STRING,
        part=pa.int32(),
        tp=pa.int32(),
        i=pa.int32(),
        off=pa.int64(),
        step=pa.int64(),
        last=pa.bool_(),
        epoch=pa.int32(),
        value=pa.int64(),
        t0=_NS,
        t1=_NS,
        txn=pa.int64(),
        replica=pa.int32(),
        error=_STRING,
        mop=pa.int32(),
        key=pa.int64(),
        timestamp_ms=pa.int64(),
        log_append=pa.bool_(),
        tombstone=pa.bool_(),
    ),
    # One row per client: a process number of the history. role: producer | consumer | both. acks: 0, 1, -1; null for
    # one that never sends. isolation: read_committed | read_uncommitted. offset_reset: earliest | latest | none.
    # tells_attempts: client_events has each of its attempts to produce a batch that failed; null: not known.
    # journal_complete: the journal it is in came to its end, and was not cut short; null: not known.
    "processes": _schema(
        run=pa.int32(),
        process=pa.int32(),
        client=_STRING,
        library=_STRING,
        role=_STRING,
        acks=pa.int8(),
        idempotent=pa.bool_(),
        isolation=_STRING,
        group=_STRING,
        transactional_id=_STRING,
        offset_reset=_STRING,
        tells_attempts=pa.bool_(),
        journal_complete=pa.bool_(),
    ),
    # What clients met, in order of time (harness/client_events.py). event: attempt_failed | timeout | disconnect |
    # connect | leader. node: the other end; of `leader` the leader that metadata named, -1 where there is none.
    # topic, part: of attempt_failed and leader. status (attempt_failed): 1 it was refused before the append, 2 nobody
    # knows. Runs sealed before there was this table lack it.
    "client_events": _schema(
        run=pa.int32(),
        process=pa.int32(),
        t=_NS,
        event=_STRING,
        node=pa.int32(),
        topic=_STRING,
        part=pa.int32(),
        epoch=pa.int32(),
        status=pa.int8(),
        error=_STRING,
    ),
    # One row per transaction. t0: begin was called; t1: commit or abort was answered, or the last moment of the run.
    # outcome: 0 committed, 1 aborted, 2 nobody knows. group: whose offsets were sent to it.
    "transactions": _schema(
        run=pa.int32(),
        txn=pa.int64(),
        process=pa.int32(),
        transactional_id=_STRING,
        t0=_NS,
        t1=_NS,
        outcome=pa.int8(),
        error=_STRING,
        group=_STRING,
    ),
    # One row per event and partition, in the order told. event: assigned | revoked | lost | committed | fetched | seek.
    # off: committed: the offset stored; fetched: the committed offset as answered; seek: the target; assigned: the
    # position started from, if known. status: 0 ok, 1 fail, 2 info. txn: the offsets were sent to that transaction;
    # status is then the transaction's outcome.
    "group_events": _schema(
        run=pa.int32(),
        process=pa.int32(),
        group=_STRING,
        event=_STRING,
        generation=pa.int32(),
        member=_STRING,
        topic=_STRING,
        part=pa.int32(),
        off=pa.int64(),
        status=pa.int8(),
        t0=_NS,
        t1=_NS,
        txn=pa.int64(),
        error=_STRING,
    ),
    # One row per fault. t_begin/t_end: null when the effect was never seen. nodes: the victims. links: "1>2 2>1".
    # kind: kill | stop | pause | cut | slow | wipe | hold ...; planned: what the plan says, in words.
    "faults": _schema(
        run=pa.int32(),
        fault=pa.int32(),
        kind=_STRING,
        label=_STRING,
        nodes=pa.list_(pa.int32()),
        links=_STRING,
        trigger=_STRING,
        t_asked=_NS,
        t_begin=_NS,
        t_end_asked=_NS,
        t_end=_NS,
        proof=_STRING,
        healed_proof=_STRING,
        step=pa.int32(),
    ),
    # What a fault destroyed on a disk, one row per node and place (disk_facts.py says what each extent means).
    "disk_events": _schema(
        run=pa.int32(),
        node=pa.int32(),
        t=_NS,
        fault=pa.int32(),
        extent=_STRING,
        topic=_STRING,
        part=pa.int32(),
        from_offset=pa.int64(),
        to_offset=pa.int64(),
    ),
    # One row per step of an ordered plan. kind: act | wait | expect. outcome: ok | failed | timeout | skipped.
    # arguments: what was asked, as JSON: {"elect": "unclean", "topic": "orders"}; null in runs stored before.
    "steps": _schema(
        run=pa.int32(),
        step=pa.int32(),
        kind=_STRING,
        text=_STRING,
        t0=_NS,
        t1=_NS,
        outcome=_STRING,
        seen=_STRING,
        arguments=_STRING,
    ),
    # The state of a partition from t on, until the next row of the same (topic, part, observer).
    # exact=true: from the coordination log (observer -1); exact=false: polled from broker `observer`.
    # leader -1 = none. isr_before: the ISR in the state before; elr: the eligible leader replicas (KIP-966; null where
    # the system has none, and in runs stored before this column). unclean: the new leader was in neither before, nor,
    # when both were empty, the last known leader.
    # partition_epoch: znode version (null when polled). uncertainty_ns: half-width of t. topic_id: null: not known.
    "partition_states": _schema(
        run=pa.int32(),
        topic=_STRING,
        part=pa.int32(),
        t=_NS,
        uncertainty_ns=_NS,
        exact=pa.bool_(),
        observer=pa.int32(),
        leader=pa.int32(),
        leader_epoch=pa.int32(),
        partition_epoch=pa.int32(),
        controller_epoch=pa.int32(),
        isr=pa.list_(pa.int32()),
        isr_before=pa.list_(pa.int32()),
        leader_before=pa.int32(),
        unclean=pa.bool_(),
        replicas=pa.list_(pa.int32()),
        elr=pa.list_(pa.int32()),
        topic_id=_STRING,
    ),
    # One row per topic that the cluster's books tell of: a topic deleted and created anew is another one. topic: what
    # it is called in every table: of several of one name the newest has it, those before are NAME#1, NAME#2 ...
    # name: what clients call it. created_ns, deleted_ns: null where not known, or never.
    # undecided: no topic, but NAME#0: the acknowledged records of which nobody can tell which of the topics had them.
    "topics": _schema(
        run=pa.int32(),
        topic=_STRING,
        name=_STRING,
        topic_id=_STRING,
        created_ns=_NS,
        deleted_ns=_NS,
        uncertainty_ns=_NS,
        undecided=pa.bool_(),
    ),
    # The controller from t on. node -1 = none.
    "controllers": _schema(run=pa.int32(), t=_NS, uncertainty_ns=_NS, node=pa.int32(), controller_epoch=pa.int32()),
    # What brokers journalled about themselves. event: truncation | leadership_start | leadership_end |
    # high_watermark_checkpoint | broker_start | broker_registered | directory_lost (from the coordination log) |
    # unreadable_line (of its journal) ...
    # truncation: log end went from from_offset down to to_offset (the new log end); epoch: leader epoch followed.
    "broker_events": _schema(
        run=pa.int32(),
        node=pa.int32(),
        t=_NS,
        event=_STRING,
        topic=_STRING,
        part=pa.int32(),
        epoch=pa.int32(),
        from_offset=pa.int64(),
        to_offset=pa.int64(),
        reason=_STRING,
        detail=_STRING,
    ),
    # Topic and broker configuration over time. node -1 = a topic's or the cluster's.
    "configuration": _schema(
        run=pa.int32(),
        t=_NS,
        scope=_STRING,
        name=_STRING,
        node=pa.int32(),
        key=_STRING,
        value=_STRING,
    ),
    # One row per (snapshot, partition): what one replica's log was when it was read from disk.
    # reason: kill | heal | wipe | restart | truncation (cut batches only) | end
    # digest: of its records below its high watermark (log_digest.py); null where that is not known. topic_id: by the
    # replica's own file.
    "replica_snapshots": _schema(
        run=pa.int32(),
        snapshot=pa.int32(),
        node=pa.int32(),
        t=_NS,
        reason=_STRING,
        topic=_STRING,
        part=pa.int32(),
        log_start=pa.int64(),
        high_watermark=pa.int64(),
        log_end=pa.int64(),
        epochs=_STRING,
        digest=pa.int64(),
        topic_id=_STRING,
    ),
    # The records of those snapshots. For reason "truncation" only the batches that were cut.
    "replica_log": _schema(
        run=pa.int32(),
        snapshot=pa.int32(),
        node=pa.int32(),
        topic=_STRING,
        part=pa.int32(),
        tp=pa.int32(),
        off=pa.int64(),
        epoch=pa.int32(),
        value=pa.int64(),
    ),
    # Partitions of the run: the dense id, the assignment (AR), and how the final read of it went.
    # read_to_end: the final read reached the end offset that the leader answered; end_offset: that offset.
    # log_start: the earliest offset when the final read began. last_stable_offset: at the end of the run.
    "partitions": _schema(
        run=pa.int32(),
        tp=pa.int32(),
        topic=_STRING,
        part=pa.int32(),
        replicas=pa.list_(pa.int32()),
        read_to_end=pa.bool_(),
        end_offset=pa.int64(),
        note=_STRING,
        log_start=pa.int64(),
        cleanup_policy=_STRING,
        last_stable_offset=pa.int64(),
    ),
    # Names for values that were not made by a producer of the workload (probes, imported histories).
    "value_names": _schema(run=pa.int32(), value=pa.int64(), text=_STRING),
    # First records of polls whose offset is not the one after the end of their consumer's poll before: off - that end.
    "jumps": _schema(run=pa.int32(), tp=pa.int32(), value=pa.int64(), off=pa.int64(), jump=pa.int64()),
    # One row per run. sends, reads, final_reads: records. t_last: when the last operation ended. replica_reads_began:
    # of the final reads from single replicas. transactional, halting, log_append: whether there was any record in a
    # transaction; any send that was not answered well and soon; any record with its broker's timestamp.
    "activity": _schema(
        run=pa.int32(),
        sends=pa.int64(),
        reads=pa.int64(),
        final_reads=pa.int64(),
        t_last=_NS,
        replica_reads_began=_NS,
        transactional=pa.bool_(),
        halting=pa.bool_(),
        log_append=pa.bool_(),
    ),
    # Throughput and latency of sends in bins of the run, made at sealing (kept: min and max survive binning).
    "bins": _schema(
        run=pa.int32(),
        t=_NS,
        width_ns=_NS,
        ok=pa.int64(),
        info=pa.int64(),
        fail=pa.int64(),
        polled=pa.int64(),
        p50_ns=_NS,
        p99_ns=_NS,
        max_ns=_NS,
    ),
}

# What tables have had since they were first written; runs that were sealed before lack it, and it is null in them.
LATER: dict[str, tuple[str, ...]] = {
    "ops": ("txn", "i0", "i1"),
    "records": ("mop", "key", "timestamp_ms", "log_append", "tombstone"),
    "processes": ("tells_attempts", "journal_complete"),
    "partition_states": ("elr", "topic_id"),
    "steps": ("arguments",),
    "replica_snapshots": ("digest", "topic_id"),
    "partitions": ("log_start", "cleanup_policy", "last_stable_offset"),
}

# Written by harness.checks, read by reports, JUnit and comparison. class: violation | permitted | observation.
# `values` and `operations` hold at most 200 examples; `count` is exact. `evidence` is JSON (see checks/contract.py).
FINDINGS: pa.Schema = _schema(
    run=pa.int32(),
    finding=_STRING,
    check=_STRING,
    classification=_STRING,
    kind=_STRING,
    topic=_STRING,
    part=pa.int32(),
    offset_first=pa.int64(),
    offset_last=pa.int64(),
    count=pa.int64(),
    values=pa.list_(pa.int64()),
    offsets=pa.list_(pa.int64()),
    operations=pa.list_(pa.int64()),
    t_first=_NS,
    t_last=_NS,
    faults=pa.list_(pa.int32()),
    epoch=pa.int32(),
    cause=_STRING,
    sentence=_STRING,
    fingerprint=_STRING,
    evidence=_STRING,
)
