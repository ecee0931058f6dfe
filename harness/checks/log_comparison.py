"""Evidence table `log_rows`: each replica's log around a finding's offsets, before and at the end, side by side."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from harness.checks.evidence_tables import ROWS_MAX, Named, chosen
from harness.checks.findings import Finding, RunContext
from harness.checks.spark.passing_by import grouped, log_rows_at, records_at
from harness.checks.spark.tables import Tables, small_table
from harness.history.schema.cluster_rows import REPLICA_SNAPSHOTS, SnapshotRow
from harness.history.schema.evidence_rows import LogComparisonRow
from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_POLL, KIND_SEND, STATUS_OK
from harness.history.schema.typed_rows import typed

AROUND = 5
OFFSETS_MAX = 220
_OFFSET = ("run", "partition_id", "offset")
_EXPLAINED = (
    "lost-write",
    "dirty-read",
    "unreadable",
    "inconsistent-offsets",
    "replica-divergence",
    "duplicate",
    "compacted-away",
    "acknowledged-regression",
)


def shown_offsets(finding: Finding) -> list[tuple[int, int]]:
    """Closed ranges: all offsets of a short loss with some around them, or the two ends of a long one."""
    if not finding.offsets:
        return []
    first, last = max(0, min(finding.offsets) - AROUND), max(finding.offsets) + AROUND
    if last - first < OFFSETS_MAX:
        return [(first, last)]
    half = OFFSETS_MAX // 2
    return [(first, first + half - 1), (last - half + 1, last)]


def log_rows(tables: Tables, contexts: Mapping[int, RunContext], findings: Named) -> list[LogComparisonRow]:
    explained = [(name, each) for name, each in chosen(findings) if each.check in _EXPLAINED and each.offsets]
    explained = explained[:100]
    numbers = {
        (run, history.topic, history.partition): partition_id
        for run, c in contexts.items()
        for partition_id, history in c.history.partitions.items()
    }
    spans = {
        (finding.run, partition_id, low, high)
        for _, finding in explained
        for partition_id in [numbers.get((finding.run, finding.topic or "", finding.partition or 0))]
        if partition_id is not None
        for low, high in shown_offsets(finding)
    }
    if not spans:
        return []
    places = {(run, number, offset) for run, number, low, high in spans for offset in range(low, high + 1)}
    wanted = small_table(_OFFSET, [dict(zip(_OFFSET, place, strict=True)) for place in sorted(places)])
    held = _held(tables, wanted)
    seen = _seen(tables, wanted)
    snapshots = {(row["run"], row["snapshot"], row["node"]): row for row in tables.every(REPLICA_SNAPSHOTS)}
    rows: list[LogComparisonRow] = []
    for name, finding in explained:
        partition_id = numbers.get((finding.run, finding.topic or "", finding.partition or 0))
        if partition_id is None:
            continue
        history = contexts[finding.run].partition(partition_id)
        decisive = finding.ruling.cause_epoch if finding.ruling else None
        for low, high in shown_offsets(finding):
            for offset in range(low, high + 1):
                place = (finding.run, partition_id, offset)
                head = _head(name, finding, offset, seen.get(place, ()))
                nodes = sorted({*history.replicas, *held.get(place, {})})
                for node in nodes:
                    copies = held.get(place, {}).get(node, [])
                    rows.append({**head, **_replica(finding.run, node, copies, snapshots, decisive, head)})
    return rows[:ROWS_MAX]


class _CopyRow(TypedDict):
    run: int
    partition_id: int
    offset: int
    node: int
    snapshot: int
    leader_epoch: int | None
    value: int


class _SeenRow(TypedDict):
    """What clients know of a value at an offset; leader_epoch: from the final read."""

    run: int
    partition_id: int
    offset: int
    value: int
    acknowledged_ns: int | None
    acks: int | None
    in_final: bool
    polled: bool
    leader_epoch: int | None


class _Head(TypedDict):
    """The columns of `log_rows` that are the same for each replica."""

    run: int
    finding: str
    topic: str | None
    partition: int | None
    offset: int
    acknowledged_value: int | None
    acknowledged_ns: int | None
    acknowledged_acks: int | None
    final_epoch: int | None
    final_value: int | None
    read: bool | None


class _OfReplica(TypedDict):
    """The columns of `log_rows` that differ for each replica."""

    replica: int
    leader_epoch: int | None
    value: int | None
    truncated: bool
    truncated_ns: int | None
    end_epoch: int | None
    end_value: int | None


def _held(tables: Tables, wanted: pa.Table) -> dict[tuple[int, int, int], dict[int, list[_CopyRow]]]:
    held: dict[tuple[int, int, int], dict[int, list[_CopyRow]]] = {}
    for found in log_rows_at(tables, wanted, list(_CopyRow.__annotations__)):
        for row in typed(_CopyRow, found):
            copies = held.setdefault((row["run"], row["partition_id"], row["offset"]), {}).setdefault(row["node"], [])
            if row not in copies:
                copies.append(row)
    return held


def _seen(tables: Tables, wanted: pa.Table) -> dict[tuple[int, int, int], list[_SeenRow]]:
    columns = [*_OFFSET, "value", "kind", "status", "completed_ns", "acks", "replica", "leader_epoch"]
    near = grouped(
        map(_as_clients_know, records_at(tables, wanted, columns)),
        (*_OFFSET, "value"),
        {
            "acknowledged_ns": ("acknowledged_ns", "min"),
            "acks": ("acks", "min"),
            "in_final": ("in_final", "max"),
            "polled": ("polled", "max"),
            "leader_epoch": ("leader_epoch", "max"),
        },
    )
    found = [] if near is None else typed(_SeenRow, near.slice(0, ROWS_MAX))
    seen: dict[tuple[int, int, int], list[_SeenRow]] = {}
    for row in found:
        seen.setdefault((row["run"], row["partition_id"], row["offset"]), []).append(row)
    return seen


def _as_clients_know(records: pa.Table) -> pa.Table:
    kind = records.column("kind")
    acknowledged = pc.and_(pc.equal(kind, KIND_SEND), pc.equal(records.column("status"), STATUS_OK))
    in_final = pc.and_(pc.equal(kind, KIND_FINAL_POLL), records.column("replica").is_null())
    return pa.table(
        {name: records.column(name) for name in (*_OFFSET, "value")}
        | {
            "acknowledged_ns": pc.if_else(acknowledged, records.column("completed_ns"), None),
            "acks": pc.if_else(acknowledged, records.column("acks"), None),
            "in_final": in_final,
            "polled": pc.equal(kind, KIND_POLL),
            "leader_epoch": pc.if_else(in_final, records.column("leader_epoch"), None),
        }
    )


def _head(name: str, finding: Finding, offset: int, seen: Sequence[_SeenRow]) -> _Head:
    """What clients know of the offset. If several values were acknowledged, the lost one is shown."""
    acknowledged = sorted(
        (row for row in seen if row["acknowledged_ns"] is not None),
        key=lambda row: (row["in_final"], row["acknowledged_ns"] or 0),
    )
    finals = [row for row in seen if row["in_final"]]
    first = acknowledged[0] if acknowledged else None
    return {
        "run": finding.run,
        "finding": name,
        "topic": finding.topic,
        "partition": finding.partition,
        "offset": offset,
        "acknowledged_value": first["value"] if first else None,
        "acknowledged_ns": first["acknowledged_ns"] if first else None,
        "acknowledged_acks": first["acks"] if first else None,
        "final_epoch": finals[0]["leader_epoch"] if finals else None,
        "final_value": finals[0]["value"] if finals else None,
        "read": any(row["polled"] for row in seen),
    }


def _replica(
    run: int,
    node: int,
    copies: Sequence[_CopyRow],
    snapshots: Mapping[tuple[int, int, int], SnapshotRow],
    decisive: int | None,
    head: _Head,
) -> _OfReplica:
    """The replica's record from before the deciding epoch (or the acknowledged one), and its record at the end."""

    def reason(row: _CopyRow) -> str:
        snapshot = snapshots.get((run, row["snapshot"], row["node"]))
        return snapshot["reason"] if snapshot else ""

    ended = [row for row in copies if reason(row) == "end"]
    end = ended[-1] if ended else None
    # Records from before Kafka 0.11 have no epoch: only their value distinguishes old from new ones.
    epochs = [row["leader_epoch"] for row in copies]
    if decisive is not None and None not in epochs:
        older = [row for row, epoch in zip(copies, epochs, strict=True) if epoch is not None and epoch < decisive]
    else:
        older = [row for row in copies if row["value"] == head["acknowledged_value"]] or list(ended)
    before = max(
        older,
        key=lambda row: (-1 if row["leader_epoch"] is None else row["leader_epoch"], row["snapshot"]),
        default=None,
    )
    gone = before is not None and (
        end is None or (end["leader_epoch"], end["value"]) != (before["leader_epoch"], before["value"])
    )
    cuts = [
        snapshots[run, row["snapshot"], row["node"]]["time_ns"]
        for row in copies
        if before is not None and reason(row) == "truncation" and row["value"] == before["value"]
    ]
    return {
        "replica": node,
        "leader_epoch": before["leader_epoch"] if before else None,
        "value": before["value"] if before else None,
        "truncated": gone,
        "truncated_ns": min(cuts, default=None),
        "end_epoch": end["leader_epoch"] if end else None,
        "end_value": end["value"] if end else None,
    }
