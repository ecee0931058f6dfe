"""The records that truncations cut, for brokers that do not keep them: taken from an earlier read of the disk.

Real Kafka logs that it truncates, and to which offset, but drops the records. The run reads a node's disk at each kill
and before each heal and restart, after which truncations happen: there the records above the new log end still exist.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.history.facts.values import text
from harness.history.journals.controller_rows import ROWS, read_rows
from harness.history.schema.client_rows import VALUE_NAMES
from harness.history.schema.cluster_rows import REPLICA_SNAPSHOTS
from harness.history.schema.parquet_tables import read_table
from harness.ports.cluster import BrokerEvent, ClusterHistory, LogRecord, NodeId, ReplicaLog

_Key = tuple[int, str | None, int | None]


def history_with_cuts(history: ClusterHistory, folder: Path) -> ClusterHistory:
    """Adds the cut records to the truncations. `folder`: where the controller wrote its rows and snapshots."""
    wanted = {_key(event) for event in history.broker_events if _lacks_cut(event)}
    events = events_with_cuts(history.broker_events, stored_snapshots(folder, wanted))
    return replace(history, broker_events=events)


def events_with_cuts(events: Iterable[BrokerEvent], snapshots: Iterable[ReplicaLog]) -> list[BrokerEvent]:
    """The events in order of time; truncations get the records they cut and, if unknown, the log end before.

    A snapshot is used until the next one; records that one truncation cut, a later one cannot cut again.
    """
    coming: dict[_Key, list[ReplicaLog]] = {}
    for log in sorted(snapshots, key=lambda log: log.t_ns, reverse=True):
        coming.setdefault(_key(log), []).append(log)
    known: dict[_Key, ReplicaLog] = {}
    events_so_far = []
    for event in sorted(events, key=lambda event: event.t_ns):
        if not _lacks_cut(event):
            events_so_far.append(event)
            continue
        key = _key(event)
        ahead = coming.get(key, [])
        while ahead and ahead[-1].t_ns <= event.t_ns:
            known[key] = ahead.pop()
        events_so_far.append(_with_cut(event, known[key]) if key in known else event)
        if key in known and event.to_offset is not None:
            known[key] = _shortened(known[key], event)
    return events_so_far


def stored_snapshots(folder: Path, wanted: Iterable[_Key]) -> list[ReplicaLog]:
    """The snapshots of those replicas as the recorder wrote them. Values contain only what identifies them."""
    rows = read_rows(folder / ROWS)
    names = {row["value"]: row["name"] for row in rows[VALUE_NAMES]}
    of = set(wanted)
    return [
        ReplicaLog(
            node=NodeId(row["node"]),
            topic=row["topic"],
            partition=row["partition"],
            t_ns=row["time_ns"],
            log_start=row["log_start_offset"] or 0,
            high_watermark=row["high_watermark"],
            log_end=row["log_end_offset"],
            epochs=(),
            records=tuple(
                LogRecord(
                    offset=record["offset"],
                    epoch=_epoch_in_log(record["leader_epoch"]),
                    value=text(record["value"], names).encode(),
                )
                for record in _records(folder / f"snapshot-{row['snapshot']:05d}.parquet")
            ),
        )
        for row in rows[REPLICA_SNAPSHOTS]
        if row["reason"] != "truncation" and (row["node"], row["topic"], row["partition"]) in of
    ]


def _epoch_in_log(epoch: int | None) -> int:
    """The epoch as a log writes it: -1 for a record from before brokers knew epochs."""
    return -1 if epoch is None else epoch


def _records(path: Path) -> list[dict[str, Any]]:
    table = read_table(path, "replica_log", columns=["offset", "leader_epoch", "value"])
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _key(where: BrokerEvent | ReplicaLog) -> _Key:
    return int(where.node), where.topic, where.partition


def _lacks_cut(event: BrokerEvent) -> bool:
    return event.event == "truncation" and not event.cut


def _drops_all(event: BrokerEvent) -> bool:
    """Whether the log starts again behind its old end, where the leader's begins."""
    return None not in (event.from_offset, event.to_offset) and (event.to_offset or 0) > (event.from_offset or 0)


def _cut(log: ReplicaLog, event: BrokerEvent) -> tuple[LogRecord, ...]:
    if event.to_offset is None:
        return ()
    return log.records if _drops_all(event) else tuple(r for r in log.records if r.offset >= event.to_offset)


def _with_cut(event: BrokerEvent, log: ReplicaLog) -> BrokerEvent:
    """An unknown earlier log end is taken from the snapshot: the truncation shows that it was above `to_offset`."""
    read = log.log_end if event.to_offset is not None and log.log_end > event.to_offset else None
    from_offset = event.from_offset if event.from_offset is not None else read
    return replace(event, from_offset=from_offset, cut=_cut(log, event))


def _shortened(log: ReplicaLog, event: BrokerEvent) -> ReplicaLog:
    to_offset = event.to_offset or 0
    kept = () if _drops_all(event) else tuple(record for record in log.records if record.offset < to_offset)
    return replace(log, records=kept, log_end=to_offset)
