"""The tables of what coordinators keep of groups and transactions, in Kafka's internal topics.

They are apart from the tables of the scenario's topics, so that nobody takes an internal topic for one of these.
`internal_partition_states` has the columns of `partition_states`: leader, ISR and epochs of those partitions of
__consumer_offsets and __transaction_state that the run's groups and transactional ids belong to (internal_topics.py).
Runs that were sealed before there were these tables lack them: nothing is known then.
"""

import pyarrow as pa

from harness.history.schema.schema_version import schema_with

_STRING = pa.string()
_NS = pa.int64()
PLACE = pa.struct({"topic": _STRING, "partition": pa.int32()})


def _schema(**columns: pa.DataType) -> pa.Schema:
    return schema_with(columns)


INTERNAL: dict[str, pa.Schema] = {
    # Replicas of those partitions, as they were read: before each wipe, and at the end. kept_from: the first offset of
    # which records are in the next two tables; of a long log only the newest are.
    "internal_replica_snapshots": _schema(
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
        topic_id=_STRING,
        kept_from=pa.int64(),
    ),
    # Their records, each once: in those snapshots. time_ns: when the broker wrote it, by its clock. producer_id,
    # producer_epoch, transactional: of its batch (an offset that was sent to a transaction counts only when a marker of
    # its producer has committed it). kind: offset (of group, topic and topic_partition) | group (its generation and
    # members; classic protocol) | group_epoch | assignment_epoch | member_epoch (KIP-848; generation has the epoch) |
    # marker (commits: or aborts) | other. removed: a tombstone.
    "consumer_offsets": _schema(
        run=pa.int32(),
        snapshots=pa.list_(pa.int32()),
        partition=pa.int32(),
        offset=pa.int64(),
        leader_epoch=pa.int32(),
        time_ns=_NS,
        producer_id=pa.int64(),
        producer_epoch=pa.int32(),
        transactional=pa.bool_(),
        kind=_STRING,
        removed=pa.bool_(),
        group=_STRING,
        topic=_STRING,
        topic_partition=pa.int32(),
        committed_offset=pa.int64(),
        committed_leader_epoch=pa.int32(),
        commit_ns=_NS,
        expire_ns=_NS,
        generation=pa.int32(),
        member=_STRING,
        members=pa.list_(_STRING),
        commits=pa.bool_(),
    ),
    # state: as Kafka calls it: Empty | Ongoing | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort | Dead |
    # PrepareEpochFence. begun_ns: when the transaction began, by the broker's clock.
    "transaction_state": _schema(
        run=pa.int32(),
        snapshots=pa.list_(pa.int32()),
        partition=pa.int32(),
        offset=pa.int64(),
        leader_epoch=pa.int32(),
        time_ns=_NS,
        transactional_id=_STRING,
        removed=pa.bool_(),
        producer_id=pa.int64(),
        producer_epoch=pa.int32(),
        state=_STRING,
        timeout_ms=pa.int32(),
        begun_ns=_NS,
        partitions=pa.list_(PLACE),
    ),
}
