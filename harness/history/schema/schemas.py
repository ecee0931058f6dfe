"""The tables of a run folder as Arrow schemas: the interface between running a scenario and judging it.

Every table is one Parquet file `RUN/tables/<name>.parquet` (zstd). Times are nanoseconds of CLOCK_MONOTONIC. Columns
may be added within a schema version; their meaning never changes within one. Names are whole words with the unit last;
columns that end in _text are for people, and nothing is decided by them. `run` allows many histories to be judged in
one job.

A record's value is an integer, unique per topic-partition: `producer << 40 | sequence` (`values.py` converts it to the
text that was sent, and foreign texts to integers).
"""

from collections.abc import Mapping

import pyarrow as pa

from harness.history.schema.internal_schemas import INTERNAL
from harness.history.schema.schema_version import schema_with

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

_STRING = pa.string()
_NS = pa.int64()
OPEN_TRANSACTION = pa.struct(
    {"producer_id": _NS, "producer_epoch": pa.int32(), "first_offset": _NS, "last_offset": _NS, "begun_ms": _NS}
)
LINK = pa.struct({"source": pa.int32(), "client": pa.int32(), "target": pa.int32()})

# Tables and columns that came within this version: its folders may lack them, and they are empty and null then.
ADDED_TABLES = (*DERIVED, "disk_events", "topics", "node_ends", "final_reads", "progress")
ADDED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "faults": ("planned_ns", "scheduled"),
    "configuration": ("source",),
    "processes": ("group_instance_id", "group_protocol"),
    "client_events": ("request", "version", "code"),
    "group_events": ("require_stable",),
    "replica_snapshots": ("open_transactions",),
    "evidence_gaps": ("reader",),
    "records": ("returned_ns",),
}


def _schema(**columns: pa.DataType) -> pa.Schema:
    return schema_with(columns)


TABLES: dict[str, pa.Schema] = {
    # One row per client operation. `operation` is the index of the completion (by completed_ns) over the whole
    # run and is what records.operation refers to. function: send | poll | final_poll | assign | subscribe | seek |
    # commit | crash | probe_send | probe_poll, and txn in imported histories. An empty poll has a row too (count 0).
    # transaction: the one it was done in. invocation_index, completion_index: places among the events of imported
    # histories.
    "operations": _schema(
        run=pa.int32(),
        operation=pa.int64(),
        process=pa.int32(),
        client=_STRING,
        function=_STRING,
        status=pa.int8(),
        invoked_ns=_NS,
        completed_ns=_NS,
        count=pa.int32(),
        error=_STRING,
        transaction=pa.int64(),
        invocation_index=pa.int64(),
        completion_index=pa.int64(),
    ),
    # One row per record of a send or a poll, in recorded order. For sends, invoked_ns and completed_ns are per
    # record (call, answer). position: its place in the operation. offset: null unless acknowledged with one. acks
    # (sends): 0, 1, -1. leader_epoch (polls): of the batch. offset_step: offset minus the one before it in the same
    # poll and partition, null on a poll's first; last_of_poll: the last of its partition in its poll.
    # assignment: counts how often this process gained this partition anew (assign or seek starts a new one).
    # replica (final polls only): broker id when the read was made with that replica as the only leader, else null.
    # error (sends): the error name of a fail or info outcome.
    # transaction: the number within the run of the one it was sent or polled in. A transactional send's status: ok =
    # committed, fail = aborted for certain, info = nobody knows.
    # micro_operation: its place in the operation (imported histories; null: the operation is one micro-operation).
    # key: dense id of the record's key where the workload is keyed.
    # timestamp_ms: polls: the record's, as the broker gave it; sends: the broker's answer, else what the client set.
    # log_append: the topic's records are stamped by the broker (LogAppendTime).
    # tombstone: a key without a value, which deletes the key; `value` is then what else distinguishes the record.
    # Null: unknown. The workloads send none, since a record of theirs is known by its value.
    # returned_ns (sends): when the call that handed the record to its client library had returned (the call, not the
    # answer), or the answer if that came first: a later call follows it. Null: nobody recorded it.
    "records": _schema(
        run=pa.int32(),
        kind=pa.int8(),
        status=pa.int8(),
        acks=pa.int8(),
        operation=pa.int64(),
        process=pa.int32(),
        assignment=pa.int32(),
        topic=_STRING,
        partition=pa.int32(),
        partition_id=pa.int32(),
        position=pa.int32(),
        offset=pa.int64(),
        offset_step=pa.int64(),
        last_of_poll=pa.bool_(),
        leader_epoch=pa.int32(),
        value=pa.int64(),
        invoked_ns=_NS,
        completed_ns=_NS,
        transaction=pa.int64(),
        replica=pa.int32(),
        error=_STRING,
        micro_operation=pa.int32(),
        key=pa.int64(),
        timestamp_ms=pa.int64(),
        log_append=pa.bool_(),
        tombstone=pa.bool_(),
        returned_ns=_NS,
    ),
    # One row per client: a process number of the history. role: producer | consumer | both. acks: 0, 1, -1; null for
    # one that never sends. isolation: read_committed | read_uncommitted. offset_reset: earliest | latest | none.
    # tells_attempts: client_events has each of its attempts to produce a batch that failed; null: not known.
    # journal_complete: the journal it is in came to its end, and was not cut short; null: not known.
    # group_instance_id: of a static member (KIP-345). group_protocol: classic | consumer (KIP-848); null: not known.
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
        group_instance_id=_STRING,
        group_protocol=_STRING,
    ),
    # What clients met, in order of time (harness/ports/client_events.py). event: attempt_failed | timeout |
    # disconnect | connect | leader | request. node: the other end; of `leader` the leader that metadata named, -1: none
    # is. topic, partition: of attempt_failed and leader. request: from now on the client sends requests of this
    # kind (Produce, OffsetFetch, EndTxn ...) to the node in this version. status (attempt_failed): 1 it was refused
    # before the append, 2 nobody knows. code: the number of the error that a broker answered (facts/error_codes.py).
    # Runs sealed before there was this table lack it.
    "client_events": _schema(
        run=pa.int32(),
        process=pa.int32(),
        time_ns=_NS,
        event=_STRING,
        node=pa.int32(),
        topic=_STRING,
        partition=pa.int32(),
        leader_epoch=pa.int32(),
        status=pa.int8(),
        error=_STRING,
        request=_STRING,
        version=pa.int16(),
        code=pa.int16(),
    ),
    # One row per transaction. invoked_ns: begin was called; completed_ns: commit or abort was answered, or the
    # last moment of the run.
    # outcome: 0 committed, 1 aborted, 2 nobody knows, 3 never begun: no broker was told of it (in older tables these
    # are among the aborted). group: whose offsets were sent to it.
    "transactions": _schema(
        run=pa.int32(),
        transaction=pa.int64(),
        process=pa.int32(),
        transactional_id=_STRING,
        invoked_ns=_NS,
        completed_ns=_NS,
        outcome=pa.int8(),
        error=_STRING,
        group=_STRING,
    ),
    # One row per event and partition, in order. event: assigned | revoked | lost | committed | fetched | seek.
    # generation: committed: of the request, below 0 or null without one. offset: committed: the offset stored; fetched:
    # the committed offset as answered; seek: the target; assigned: the position started from, if known. status: 0 ok,
    # 1 fail, 2 info. transaction: the offsets were sent to it; status is then the transaction's outcome. require_stable
    # (fetched): the request asked for offsets that no open transaction is about to replace (OffsetFetch 7, KIP-447);
    # null: not known.
    "group_events": _schema(
        run=pa.int32(),
        process=pa.int32(),
        group=_STRING,
        event=_STRING,
        generation=pa.int32(),
        member=_STRING,
        topic=_STRING,
        partition=pa.int32(),
        offset=pa.int64(),
        status=pa.int8(),
        invoked_ns=_NS,
        completed_ns=_NS,
        transaction=pa.int64(),
        error=_STRING,
        require_stable=pa.bool_(),
    ),
    # One row per fault. begin_ns/end_ns: null when the effect was never seen; proved: it was seen on the victims.
    # kind: kill | stop | pause | cut | slow | impair | wipe | full ... nodes: the victims. links: those that were
    # struck, each from a broker or node (source) or a client to a node (target); null: not known which.
    # planned_ns: when the plan wanted it to begin; asked_ns: when it was begun; begin_ns: when its effect was seen.
    # scheduled: its place in the scenario's [[faults]], step: in its [[steps]], both from 0; one fault of the plan has
    # a row for each victim.
    "faults": _schema(
        run=pa.int32(),
        fault=pa.int32(),
        kind=_STRING,
        label_text=_STRING,
        nodes=pa.list_(pa.int32()),
        links=pa.list_(LINK),
        proved=pa.bool_(),
        trigger_text=_STRING,
        asked_ns=_NS,
        begin_ns=_NS,
        end_asked_ns=_NS,
        end_ns=_NS,
        proof_text=_STRING,
        healed_proof_text=_STRING,
        step=pa.int32(),
        planned_ns=_NS,
        scheduled=pa.int32(),
    ),
    # What a fault destroyed on a disk, one row per node and place (disk_facts.py says what each extent means).
    "disk_events": _schema(
        run=pa.int32(),
        node=pa.int32(),
        time_ns=_NS,
        fault=pa.int32(),
        extent=_STRING,
        topic=_STRING,
        partition=pa.int32(),
        from_offset=pa.int64(),
        to_offset=pa.int64(),
    ),
    # One row per step of an ordered plan. kind: act | wait | expect. outcome: ok | failed | timeout | skipped.
    # act: what was done, waited for or expected, as the scenario calls it. arguments: its table there, as JSON:
    # {"elect": "unclean", "topic": "orders"}. Either null: not known.
    "steps": _schema(
        run=pa.int32(),
        step=pa.int32(),
        kind=_STRING,
        act=_STRING,
        step_text=_STRING,
        begin_ns=_NS,
        end_ns=_NS,
        outcome=_STRING,
        seen_text=_STRING,
        arguments=_STRING,
    ),
    # The state of a partition from time_ns on, until the next row of the same (topic, partition, observer).
    # exact=true: from the coordination log (observer -1); exact=false: polled from broker `observer`.
    # leader -1 = none. isr_before: the ISR in the state before; elr: the eligible leader replicas (KIP-966; null where
    # the system has none, and in runs stored before this column). unclean: the new leader was in neither before, nor,
    # when both were empty, the last known leader.
    # partition_epoch: znode version (null when polled). uncertainty_ns: half-width of time_ns.
    "partition_states": _schema(
        run=pa.int32(),
        topic=_STRING,
        partition=pa.int32(),
        time_ns=_NS,
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
    # One row per topic that the cluster's books mention: a topic deleted and created anew is another one. topic: what
    # it is called in every table: of several of one name the newest has it, those before are NAME#1, NAME#2 ...
    # name: what clients call it. created_ns, deleted_ns: null where not known, or never.
    # undecided: no topic, but NAME#0: the acknowledged records of which it is unknown which of the topics had them.
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
    # The controller from time_ns on. node -1 = none.
    "controllers": _schema(
        run=pa.int32(), time_ns=_NS, uncertainty_ns=_NS, node=pa.int32(), controller_epoch=pa.int32()
    ),
    # What brokers journalled about themselves. event: truncation | leadership_start | leadership_end |
    # high_watermark_checkpoint | broker_start | broker_registered | directory_lost (from the coordination log) ...
    # unclean_election: node is the broker that was elected, by its own log or its controller's.
    # truncation: log end went from from_offset down to to_offset (the new log end); leader_epoch: the one followed.
    "broker_events": _schema(
        run=pa.int32(),
        node=pa.int32(),
        time_ns=_NS,
        event=_STRING,
        topic=_STRING,
        partition=pa.int32(),
        leader_epoch=pa.int32(),
        from_offset=pa.int64(),
        to_offset=pa.int64(),
        reason_text=_STRING,
        detail_text=_STRING,
    ),
    # One row per end of a node that no fault had down, as it was seen. Runs sealed before there was this table lack it.
    # exit_status, signal: of its process; a status of 128 and more tells the signal that it ended for. Both null: not
    # known. reason, line_text: by its log's last seconds, null: that could not be read. back_ns: when it ran again,
    # null: never. uncertainty_ns: it ended so long before time_ns at most. fresh: the cluster was started for this run,
    # so that nothing struck it before; null: not known.
    "node_ends": _schema(
        run=pa.int32(),
        node=pa.int32(),
        time_ns=_NS,
        uncertainty_ns=_NS,
        exit_status=pa.int32(),
        signal=pa.int32(),
        reason=_STRING,
        line_text=_STRING,
        back_ns=_NS,
        fresh=pa.bool_(),
    ),
    # Configuration over time, of topics and brokers. node -1 = a topic's or the cluster's. scope: topic | broker |
    # cluster, or feature: the level that the cluster finalized of a feature (key), as transaction.version (KIP-584).
    # source: start = what a broker said of itself when it started (static settings and defaults, under the brokers'
    # names); null: a change in the books.
    "configuration": _schema(
        run=pa.int32(),
        time_ns=_NS,
        scope=_STRING,
        name=_STRING,
        node=pa.int32(),
        key=_STRING,
        value=_STRING,
        source=_STRING,
    ),
    # One row per (snapshot, partition): what one replica's log was when it was read from disk.
    # reason: kill | heal | wipe | restart | truncation (cut batches only) | end
    # digest: of its records below its high watermark (log_digest.py); null where that is not known. topic_id: by the
    # replica's own file. open_transactions: those that no marker had ended at the log's end, by their first offsets;
    # begun_ms: the timestamp of the first batch. Null: not known.
    "replica_snapshots": _schema(
        run=pa.int32(),
        snapshot=pa.int32(),
        node=pa.int32(),
        time_ns=_NS,
        reason=_STRING,
        topic=_STRING,
        partition=pa.int32(),
        log_start_offset=pa.int64(),
        high_watermark=pa.int64(),
        log_end_offset=pa.int64(),
        leader_epochs=_STRING,
        digest=pa.int64(),
        topic_id=_STRING,
        open_transactions=pa.list_(OPEN_TRANSACTION),
    ),
    # The records of those snapshots. For reason "truncation" only the batches that were cut.
    "replica_log": _schema(
        run=pa.int32(),
        snapshot=pa.int32(),
        node=pa.int32(),
        topic=_STRING,
        partition=pa.int32(),
        partition_id=pa.int32(),
        offset=pa.int64(),
        leader_epoch=pa.int32(),
        value=pa.int64(),
    ),
    # Partitions of the run: the dense id, the assignment (AR), and how the final read of it went.
    # read_to_end: the final read reached the end offset that the leader answered; end_offset: that offset.
    # log_start: the earliest offset when the final read began. last_stable_offset: at the end of the run.
    "partitions": _schema(
        run=pa.int32(),
        partition_id=pa.int32(),
        topic=_STRING,
        partition=pa.int32(),
        replicas=pa.list_(pa.int32()),
        read_to_end=pa.bool_(),
        end_offset=pa.int64(),
        note_text=_STRING,
        log_start_offset=pa.int64(),
        cleanup_policy=_STRING,
        last_stable_offset=pa.int64(),
    ),
    # What the final read was told and what it fetched again. event: end | stable | again.
    # end: read_uncommitted was answered that the log ends at to_offset, first and last asked at invoked_ns and
    # answered at completed_ns; from_offset: how far the reader had come when this answer was last given. node: the
    # leader that the client knew, if any. stable: the same of read_committed, which is answered the last stable offset.
    # again: offsets from_offset to to_offset - 1 were fetched once more at their place between invoked_ns and
    # completed_ns, since `known` offsets in it, acknowledged or read before, had not been returned when the final read
    # came to its end at since_ns; found: how many of these came. Runs sealed before there was this table lack it.
    "final_reads": _schema(
        run=pa.int32(),
        topic=_STRING,
        partition=pa.int32(),
        event=_STRING,
        process=pa.int32(),
        node=pa.int32(),
        leader_epoch=pa.int32(),
        since_ns=_NS,
        invoked_ns=_NS,
        completed_ns=_NS,
        from_offset=pa.int64(),
        to_offset=pa.int64(),
        known=pa.int64(),
        found=pa.int64(),
    ),
    # What clients got after the last heal, when each partition and each group was asked for it: one row per client or
    # group, thing and partition. age: old, a client of the load; fresh, one that began after the load's had stopped.
    # what: write, an answer to acks=all (old: to the load's own acks); membership, a group's member was given the
    # partition; read, a record of it came; stable, the last stable offset (offset) passed the fresh write.
    # outcome: done | refused (of `error`, with Kafka's `code` if a broker answered one) | unanswered | not_asked (for
    # `reason`). asked_ns, until_ns: from the first asking to the answer, or to the end of the asking. leader, isr: as
    # last seen when it was over. A fresh client's write is no record of the run: it comes after all that is judged was
    # read, and stands nowhere else. Runs sealed before there was this table lack it.
    "progress": _schema(
        run=pa.int32(),
        age=_STRING,
        what=_STRING,
        topic=_STRING,
        partition=pa.int32(),
        client=_STRING,
        group=_STRING,
        outcome=_STRING,
        reason=_STRING,
        error=_STRING,
        code=pa.int16(),
        asked_ns=_NS,
        until_ns=_NS,
        offset=_NS,
        leader=pa.int32(),
        isr=pa.list_(pa.int32()),
    ),
    # Names for values that were not made by a producer of the workload (probes, imported histories).
    "value_names": _schema(run=pa.int32(), value=pa.int64(), name=_STRING),
    # First records of polls whose offset is not the one after the end of their consumer's poll before: offset - that
    # end.
    "jumps": _schema(run=pa.int32(), partition_id=pa.int32(), value=pa.int64(), offset=pa.int64(), jump=pa.int64()),
    # One row per run. sends, reads, final_reads: records. last_ns: when the last operation ended.
    # replica_reads_began_ns: of the final reads from single replicas. transactional, halting, log_append: whether there
    # was any record in a transaction; any send that was not answered well and soon; any record with its broker's
    # timestamp.
    "activity": _schema(
        run=pa.int32(),
        sends=pa.int64(),
        reads=pa.int64(),
        final_reads=pa.int64(),
        last_ns=_NS,
        replica_reads_began_ns=_NS,
        transactional=pa.bool_(),
        halting=pa.bool_(),
        log_append=pa.bool_(),
    ),
    # Throughput and latency of sends in bins of the run, made at sealing (kept: min and max survive binning).
    "bins": _schema(
        run=pa.int32(),
        time_ns=_NS,
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

# Those of Kafka's internal topics, apart from all others.
TABLES |= {"internal_partition_states": TABLES["partition_states"], **INTERNAL}
