"""The tables of a run folder as the harness would have recorded a history of the world, less what is withheld."""

from collections.abc import Mapping, Sequence
from random import Random
from signal import SIGKILL
from typing import Any

import pyarrow as pa

from harness.history.facts.log_digest import with_digests
from harness.history.schema.cluster_rows import SnapshotRow
from harness.history.schema.schemas import TABLES
from tests.rows import row_of
from tests.world.chronicle import (
    Cause,
    Committed,
    Cut,
    Fault,
    Led,
    Node,
    NodeEnd,
    Partition,
    Reported,
    Snapshot,
)
from tests.world.client_evidence import WALL_MS, client_events, group_events, operations, processes, transactions
from tests.world.histories import History
from tests.world.internal_evidence import internal_rows
from tests.world.observed import observer_gaps, polled_states
from tests.world.visibility import Visibility
from tests.world.world import BEGIN, MS

Row = dict[str, Any]
_FROM_BOOKS = ("broker_registered", "broker_gone", "directory_lost")


def tables(histories: Sequence[tuple[History, Visibility]]) -> dict[str, pa.Table]:
    """The tables of run 0, 1, ... as one set."""
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    for run, (history, visibility) in enumerate(histories):
        for name, of_run in rows_of(history, visibility).items():
            rows[name].extend({**row, "run": run} for row in of_run)
    return {name: arrow(name, of_table) for name, of_table in rows.items()}


def arrow(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    schema, reported = TABLES[name], {key for row in rows for key in row}
    columns = [
        pa.array([row.get(field.name) for row in rows], field.type)
        if field.name in reported
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def run_facts(history: History) -> Row:
    """What of run.json the checks read."""
    chronicle = history.chronicle
    return {
        "id": f"world-{history.setup.seed}",
        "status": "complete",
        "collected": True,
        "interrupted": False,
        "inconclusive": [],
        "error": None,
        "anchors": _anchors(history),
        "read_every_replica": False,
        "observer_gaps": observer_gaps(chronicle),
    }


def _anchors(history: History) -> list[Row]:
    """Of records that somebody deleted on request, which no table says, nobody knows the age."""
    return [{"wall_ns": WALL_MS * MS, "monotonic_ns": 0}] if history.setup.settings_change else []


def rows_of(history: History, visibility: Visibility) -> dict[str, list[Row]]:
    chronicle = history.chronicle
    places = {partition: partition_id for partition_id, partition in enumerate(history.partitions)}
    snapshots, log = _snapshots(history, visibility, places)
    ops, records = operations(history, visibility, places)
    polled = polled_states(history, with_epochs=visibility.epochs) if visibility.polled else []
    return {
        "operations": ops,
        "records": records,
        "processes": processes(history, visibility),
        "client_events": client_events(history, visibility),
        "transactions": transactions(chronicle),
        "value_names": [{"value": value, "name": name} for value, name in chronicle.names.items()],
        "group_events": group_events(history),
        "faults": [_fault(fault) for fault in chronicle.faults if visibility.ordered or fault.kind != "kill"],
        "node_ends": [_end(fault) for fault in chronicle.faults if not visibility.ordered and fault.kind == "kill"]
        + [_own_end(end) for end in chronicle.node_ends],
        "disk_events": [row for fault in chronicle.faults for row in _disk_events(fault)],
        "partition_states": polled + (_exact_states(history, visibility) if visibility.books else []),
        "controllers": [
            {"time_ns": BEGIN, "uncertainty_ns": MS, "node": history.setup.brokers[-1], "controller_epoch": 1}
        ],
        "broker_events": _broker_events(history, visibility),
        "internal_broker_events": _broker_events(history, visibility, internal=True),
        "configuration": [
            {"time_ns": t, "scope": "topic", "name": topic, "node": -1, "key": key, "value": value}
            for t, topic, key, value in chronicle.configuration
        ],
        "replica_snapshots": snapshots,
        "replica_log": log,
        "partitions": [_partition(history, partition, partition_id) for partition, partition_id in places.items()],
        **internal_rows(history, visibility),
    }


# ---- the cluster ----------------------------------------------------------------------------------------------------


def _end(kill: Fault) -> Row:
    """A kill as it shows where nobody of the harness sent the signal."""
    return {
        "node": kill.nodes[0],
        "time_ns": kill.begin_ns,
        "uncertainty_ns": 0,
        "signal": SIGKILL,
        "reason": "none",
        "line_text": "",
        "back_ns": kill.end_ns,
        "fresh": True,
    }


def _own_end(end: NodeEnd) -> Row:
    return {
        "node": end.node,
        "time_ns": end.time_ns,
        "uncertainty_ns": 0,
        "exit_status": end.exit_status,
        "signal": end.signal,
        "reason": end.reason,
        "line_text": end.line,
        "back_ns": end.back_ns,
        "fresh": True,
    }


def _fault(fault: Any) -> Row:
    ended = fault.end_ns
    return {
        "fault": fault.number,
        "kind": fault.kind,
        "label_text": fault.label,
        "nodes": list(fault.nodes),
        "links": list(fault.links),
        "proved": True,
        "trigger_text": "",
        "asked_ns": fault.begin_ns - 5 * MS,
        "begin_ns": fault.begin_ns,
        "end_asked_ns": None if ended is None else ended - 2 * MS,
        "end_ns": ended,
        "proof_text": fault.proof,
        "healed_proof_text": fault.healed_proof,
        "step": None,
    }


def _disk_events(fault: Any) -> list[Row]:
    return [
        {
            "node": each.node,
            "time_ns": fault.begin_ns,
            "fault": fault.number,
            "extent": each.extent,
            "topic": None if each.partition is None else each.partition[0],
            "partition": None if each.partition is None else each.partition[1],
            "from_offset": each.from_offset,
            "to_offset": each.to_offset,
        }
        for each in fault.destroyed
    ]


def _exact_states(history: History, visibility: Visibility) -> list[Row]:
    random, rows, of_clients = Random(history.setup.seed), list[Row](), set(history.partitions)
    latest: dict[Partition, int] = {}
    for each in history.chronicle.happenings:
        if not isinstance(each, Committed) or each.partition not in of_clients:
            continue
        state, before = each.state, each.before
        reported = (
            each.time_ns + random.randint(-visibility.blur_ns, visibility.blur_ns)
            if before is not None
            else each.time_ns
        )
        latest[each.partition] = reported = max(reported, latest.get(each.partition, 0) + 1)  # books keep their order
        rows.append(
            {
                "topic": each.partition[0],
                "partition": each.partition[1],
                "time_ns": reported,
                "uncertainty_ns": visibility.blur_ns,
                "exact": True,
                "observer": -1,
                "leader": state.leader,
                "leader_epoch": state.epoch,
                "partition_epoch": state.partition_epoch,
                "controller_epoch": 1,
                "isr": list(state.isr),
                "isr_before": None if before is None else list(before.isr),
                "leader_before": None if before is None else before.leader,
                "unclean": each.unclean and before is not None and state.epoch != before.epoch,
                "replicas": list(history.replicas[each.partition]),
                "elr": None,
            }
        )
    return rows


def _broker_events(history: History, visibility: Visibility, *, internal: bool = False) -> list[Row]:
    """Of the run's partitions and of the brokers themselves; or of the partitions of coordinators."""
    rows: list[Row] = []
    for each in history.chronicle.happenings:
        if (getattr(each, "partition", history.partitions[0]) not in history.partitions) is not internal:
            continue
        match each:
            case Reported():
                if visibility.books if each.event in _FROM_BOOKS else visibility.journals:
                    rows.append(
                        {
                            "node": each.node,
                            "time_ns": each.time_ns,
                            "event": each.event,
                            "detail_text": each.detail or None,
                        }
                    )
            case Led() if visibility.journals:
                rows.append(_event(each, "leadership_start", each.epoch, from_offset=each.start))
            case Cut() if visibility.truncations and each.journalled:
                epoch = each.epoch if visibility.epochs else None
                if each.cause is Cause.DAMAGED:
                    rows.append(_event(each, "corrupt_batch", None, to_offset=each.to))
                rows.append(_event(each, "truncation", epoch, each.end, each.to, _reason(each)))
            case _ if visibility.journals and hasattr(each, "high_watermark"):
                rows.append(_event(each, "high_watermark_checkpoint", None, to_offset=each.high_watermark))
            case _:
                pass
    return rows


def _event(
    each: Any,
    event: str,
    epoch: int | None,
    from_offset: int | None = None,
    to_offset: int | None = None,
    reason: str | None = None,
) -> Row:
    topic, part = each.partition
    return {
        "node": each.node,
        "time_ns": each.time_ns,
        "event": event,
        "topic": topic,
        "partition": part,
        "leader_epoch": epoch,
        "from_offset": from_offset,
        "to_offset": to_offset,
        "reason_text": reason,
    }


def _reason(cut: Cut) -> str:
    if cut.cause is Cause.DAMAGED:
        return "corrupt batch found in recovery"
    return f"diverged: the leader's epoch ends at {cut.to}" if cut.cause is Cause.FOLLOWED else "log truncated"


# ---- the replicas' logs ---------------------------------------------------------------------------------------------


def _snapshots(
    history: History, visibility: Visibility, places: Mapping[Partition, int]
) -> tuple[list[Row], list[Row]]:
    taken = [
        each for each in history.chronicle.snapshots if each.reason in visibility.snapshots and each.partition in places
    ]
    if "truncation" in visibility.snapshots and visibility.truncations:
        cuts = [each for each in history.chronicle.happenings if isinstance(each, Cut) and each.journalled]
        cuts = [cut for cut in cuts if cut.partition in places]
        taken += [_cut_part(cut) for cut in cuts if cut.cause is not Cause.DAMAGED]
    rows, log = [], []
    for number, each in enumerate(taken):
        topic, part = each.partition
        epochs = " ".join(f"{epoch}:{start}" for epoch, start in each.epochs) if visibility.epochs else ""
        rows.append(
            {
                "snapshot": number,
                "node": each.node,
                "time_ns": each.time_ns,
                "reason": each.reason,
                "topic": topic,
                "partition": part,
                "log_start_offset": each.log_start,
                "high_watermark": each.high_watermark,
                "log_end_offset": each.log_end,
                "leader_epochs": epochs,
            }
        )
        first = each.log_start
        log += [
            {
                "snapshot": number,
                "node": each.node,
                "topic": topic,
                "partition": part,
                "partition_id": places[each.partition],
                "offset": first + place,
                "leader_epoch": entry.epoch if visibility.epochs else None,
                "value": entry.value,
            }
            for place, entry in enumerate(each.entries)
            if entry.marks is None and entry.value >= 0
        ]
    snapshots = [row_of(SnapshotRow, **row) for row in rows]
    return [dict(row) for row in with_digests(snapshots, arrow("replica_log", [{**row, "run": 0} for row in log]))], log


def _cut_part(cut: Cut) -> Snapshot:
    return Snapshot(
        time_ns=cut.time_ns,
        partition=cut.partition,
        node=cut.node,
        reason="truncation",
        log_start=cut.to,
        log_end=cut.end,
        entries=cut.entries,
        high_watermark=None,
        epochs=(),
    )


def _partition(history: History, partition: Partition, partition_id: int) -> Row:
    final = history.chronicle.final[partition]
    replicas: Sequence[Node] = history.replicas[partition]
    return {
        "partition_id": partition_id,
        "topic": partition[0],
        "partition": partition[1],
        "replicas": list(replicas),
        "read_to_end": final.read_to_end,
        "end_offset": final.end,
        "log_start_offset": final.log_start,
        "note_text": "" if final.read_to_end else "no leader answered",
        "last_stable_offset": final.stable,
    }
