"""Reads what a broker keeps of groups and transactions: its replicas of __consumer_offsets and __transaction_state.

Of a long log the newest records are kept: what a group has committed last is in them.
"""

from collections import deque
from collections.abc import Iterable
from pathlib import Path

from harness.cluster.books import coordinator_records
from harness.cluster.record_batches import StoredRecord, stored_records
from harness.cluster.replica_logs import coordinators_folders, may_be_held, read_log
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.host.clock import Anchor
from harness.ports.cluster import NodeId
from harness.ports.coordinator_logs import CoordinatorLog, CoordinatorRecord, OffsetsRecord, TransactionRecord

KEPT_RECORDS = 20_000  # of each replica


def read_coordinator_logs(node: NodeId, data: Path, *, t_ns: int, anchor: Anchor) -> list[CoordinatorLog]:
    """The replicas of a data directory that hold any record; most of the 50 partitions are empty."""
    replicas = may_be_held(coordinators_folders(data))
    logs = (_read(node, topic, part, folder, t_ns, anchor) for topic, part, folder in replicas)
    return [log for log in logs if log.log_end > 0]


def _read(node: NodeId, topic: str, partition: int, folder: Path, t_ns: int, anchor: Anchor) -> CoordinatorLog:
    log, content = read_log(node, topic, partition, folder, t_ns=t_ns)
    kept, dropped = _newest(stored_records(content))
    return CoordinatorLog(
        **vars(log),
        kept_from=kept[0].offset if dropped and kept else log.log_start,
        records=tuple(_decoded(topic, record) for record in kept),
        anchor=anchor,
    )


def _newest(records: Iterable[StoredRecord]) -> tuple[deque[StoredRecord], int]:
    """The last records, and how many were before them."""
    kept: deque[StoredRecord] = deque(maxlen=KEPT_RECORDS)
    count = 0
    for record in records:
        kept.append(record)
        count += 1
    return kept, count - len(kept)


def _decoded(topic: str, record: StoredRecord) -> CoordinatorRecord:
    content: OffsetsRecord | TransactionRecord
    if topic != GROUP_OFFSETS_TOPIC:
        content = coordinator_records.decode_transaction(record.key, record.value)
    elif record.control:
        content = coordinator_records.decode_marker(record.key)
    else:
        content = coordinator_records.decode(record.key, record.value)
    return CoordinatorRecord(
        offset=record.offset,
        epoch=record.epoch,
        wall_ms=record.timestamp_ms,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transactional=record.transactional,
        content=content,
    )
