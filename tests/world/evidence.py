"""The tables of a run folder as the harness would have recorded a history of the world, less what is withheld."""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from harness.history.log_digest import with_digests
from harness.history.schemas import KIND_FINAL_POLL, KIND_POLL, KIND_SEND, TABLES
from tests.world.chronicle import Cause, Chronicle, Committed, Cut, Led, Node, Partition, Poll, Send, Snapshot, Told
from tests.world.clients import INFO, OK
from tests.world.histories import History
from tests.world.observed import observer_gaps, polled_states
from tests.world.sight import Sight
from tests.world.world import BEGIN, MS

Row = dict[str, Any]
WALL_MS = 1_795_343_000_000  # the wall clock at the monotonic clock's zero
_FROM_BOOKS = ("broker_registered", "broker_gone", "directory_lost")


def tables(histories: Sequence[tuple[History, Sight]]) -> dict[str, pa.Table]:
    """The tables of run 0, 1, ... as one set."""
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    for run, (history, sight) in enumerate(histories):
        for name, of_run in rows_of(history, sight).items():
            rows[name].extend({**row, "run": run} for row in of_run)
    return {name: arrow(name, of_table) for name, of_table in rows.items()}


def arrow(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    schema, told = TABLES[name], {key for row in rows for key in row}
    columns = [
        pa.array([row.get(field.name) for row in rows], field.type)
        if field.name in told
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def run_facts(history: History) -> Row:
    """What of run.json the checks read."""
    chronicle = history.chronicle
    return {
        "id": f"world-{history.setup.seed}", "status": "complete", "collected": True, "interrupted": False,
        "inconclusive": [], "error": None, "read_every_replica": False, "observer_gaps": observer_gaps(chronicle),
    }  # fmt: skip


def rows_of(history: History, sight: Sight) -> dict[str, list[Row]]:
    chronicle = history.chronicle
    places = {partition: tp for tp, partition in enumerate(history.partitions)}
    snapshots, log = _snapshots(history, sight, places)
    ops, records = _operations(history, sight, places)
    polled = polled_states(history, with_epochs=sight.epochs) if sight.polled else []
    return {
        "ops": ops,
        "records": records,
        "processes": _processes(history),
        "faults": [_fault(fault) for fault in chronicle.faults],
        "partition_states": polled + (_exact_states(history, sight) if sight.books else []),
        "controllers": [{"t": BEGIN, "uncertainty_ns": MS, "node": history.setup.brokers[-1], "controller_epoch": 1}],
        "broker_events": _broker_events(chronicle, sight),
        "configuration": [
            {"t": t, "scope": "topic", "name": topic, "node": -1, "key": key, "value": value}
            for t, topic, key, value in chronicle.configuration
        ],
        "replica_snapshots": snapshots,
        "replica_log": log,
        "partitions": [_partition(history, partition, tp) for partition, tp in places.items()],
    }


# ---- clients --------------------------------------------------------------------------------------------------------


def _operations(history: History, sight: Sight, places: Mapping[Partition, int]) -> tuple[list[Row], list[Row]]:
    """`ops` numbered by the end of each, and the records in that order."""
    chronicle = history.chronicle
    written = {value: send.t0 // MS for send in chronicle.sends for value in send.values}
    ended: list[tuple[int, int, Send | Poll | Row]] = []
    for assigned in chronicle.assigned:
        row = _op(history, assigned.process, "assign", OK, assigned.t, assigned.t, assigned.count)
        ended.append((assigned.t, 0, row))
    ended += [(poll.t1, 1, poll) for poll in chronicle.polls if poll.final or sight.reads]
    ended += [(max(send.t1, send.t0), 2, send) for send in chronicle.sends]
    ops: list[Row] = []
    records: list[Row] = []
    for op, (_, _, each) in enumerate(sorted(ended, key=lambda end: end[:2])):
        match each:
            case Send():
                status = each.status if each.t1 >= 0 else INFO
                row = _op(history, each.process, "send", status, each.t0, max(each.t1, each.t0), len(each.values))
                row["error"] = each.error
                records += _sent(each, op, places, status)
            case Poll():
                f = "final_poll" if each.final else "poll"
                count = sum(len(read.entries) for read in each.reads)
                row = _op(history, each.process, f, OK if each.error is None else 1, each.t0, each.t1, count)
                row["error"] = each.error
                records += _polled(each, op, places, written, sight)
            case _:
                row = each
        ops.append({**row, "op": op})
    return ops, records


def _op(history: History, process: int, f: str, status: int, t0: int, t1: int, count: int) -> Row:
    client = history.processes.names[process][0]
    return {"process": process, "client": client, "f": f, "status": status, "t0": t0, "t1": t1, "count": count}


def _sent(send: Send, op: int, places: Mapping[Partition, int], status: int) -> Iterable[Row]:
    topic, part = send.partition
    for i, value in enumerate(send.values):
        yield {
            "kind": KIND_SEND, "status": status, "acks": send.acks, "op": op, "process": send.process, "topic": topic,
            "part": part, "tp": places[send.partition], "i": i,
            "off": send.base + i if status == OK and send.base is not None else None, "value": value,
            "t0": send.t0, "t1": max(send.t1, send.t0), "error": send.error,
            "timestamp_ms": WALL_MS + send.t0 // MS if status == OK else None, "log_append": False,
        }  # fmt: skip


def _polled(
    poll: Poll, op: int, places: Mapping[Partition, int], written: Mapping[int, int], sight: Sight
) -> Iterable[Row]:
    i = 0
    for read in poll.reads:
        topic, part = read.partition
        for place, entry in enumerate(read.entries):
            yield {
                "kind": KIND_FINAL_POLL if poll.final else KIND_POLL, "status": OK, "op": op, "process": poll.process,
                "assignment": poll.assignment, "topic": topic, "part": part, "tp": places[read.partition], "i": i,
                "off": read.first + place, "step": None if place == 0 else 1, "last": place == len(read.entries) - 1,
                "epoch": entry.epoch if sight.epochs else None, "value": entry.value, "t0": poll.t0, "t1": poll.t1,
                "timestamp_ms": WALL_MS + written[entry.value], "log_append": False,
            }  # fmt: skip
            i += 1


def _processes(history: History) -> list[Row]:
    return [
        {
            "process": process, "client": client, "library": None if client == "final-read" else "kafka-python",
            "role": "producer" if produces else "consumer", "acks": acks, "idempotent": idempotent,
            "isolation": None if produces else "read_uncommitted", "offset_reset": None if produces else "none",
        }
        for process, (client, produces, acks, idempotent) in enumerate(history.processes.names)
    ]  # fmt: skip


# ---- the cluster ----------------------------------------------------------------------------------------------------


def _fault(fault: Any) -> Row:
    ended = fault.t_end
    return {
        "fault": fault.number, "kind": fault.kind, "label": fault.label, "nodes": list(fault.nodes),
        "links": fault.links, "trigger": "", "t_asked": fault.t_begin - 5 * MS, "t_begin": fault.t_begin,
        "t_end_asked": None if ended is None else ended - 2 * MS, "t_end": ended, "proof": fault.proof,
        "healed_proof": fault.healed_proof, "step": None,
    }  # fmt: skip


def _exact_states(history: History, sight: Sight) -> list[Row]:
    random, rows = Random(history.setup.seed), []
    latest: dict[Partition, int] = {}
    for each in history.chronicle.happenings:
        if not isinstance(each, Committed):
            continue
        state, before = each.state, each.before
        told = each.t + random.randint(-sight.blur_ns, sight.blur_ns) if before is not None else each.t
        latest[each.partition] = told = max(told, latest.get(each.partition, 0) + 1)  # books keep their order
        rows.append(
            {
                "topic": each.partition[0], "part": each.partition[1], "t": told, "uncertainty_ns": sight.blur_ns,
                "exact": True, "observer": -1, "leader": state.leader, "leader_epoch": state.epoch,
                "partition_epoch": state.partition_epoch, "controller_epoch": 1, "isr": list(state.isr),
                "isr_before": None if before is None else list(before.isr),
                "leader_before": None if before is None else before.leader,
                "unclean": each.unclean and before is not None and state.epoch != before.epoch,
                "replicas": list(history.replicas[each.partition]), "elr": None,
            }
        )  # fmt: skip
    return rows


def _broker_events(chronicle: Chronicle, sight: Sight) -> list[Row]:
    rows: list[Row] = []
    for each in chronicle.happenings:
        match each:
            case Told():
                if sight.books if each.event in _FROM_BOOKS else sight.journals:
                    rows.append({"node": each.node, "t": each.t, "event": each.event, "detail": each.detail or None})
            case Led() if sight.journals:
                rows.append(_event(each, "leadership_start", each.epoch, from_offset=each.start))
            case Cut() if sight.truncations and each.journalled:
                epoch = each.epoch if sight.epochs else None
                if each.cause is Cause.DAMAGED:
                    rows.append(_event(each, "corrupt_batch", None, to_offset=each.to))
                rows.append(_event(each, "truncation", epoch, each.end, each.to, _reason(each)))
            case _ if sight.journals and hasattr(each, "high_watermark"):
                rows.append(_event(each, "high_watermark_checkpoint", None, to_offset=each.high_watermark))
            case _:
                pass
    return rows


def _event(
    each: Any, event: str, epoch: int | None, from_offset: int | None = None, to_offset: int | None = None,
    reason: str | None = None,
) -> Row:  # fmt: skip
    topic, part = each.partition
    return {
        "node": each.node, "t": each.t, "event": event, "topic": topic, "part": part, "epoch": epoch,
        "from_offset": from_offset, "to_offset": to_offset, "reason": reason,
    }  # fmt: skip


def _reason(cut: Cut) -> str:
    if cut.cause is Cause.DAMAGED:
        return "corrupt batch found in recovery"
    return f"diverged: the leader's epoch ends at {cut.to}" if cut.cause is Cause.FOLLOWED else "log truncated"


# ---- the replicas' logs ---------------------------------------------------------------------------------------------


def _snapshots(history: History, sight: Sight, places: Mapping[Partition, int]) -> tuple[list[Row], list[Row]]:
    taken = [each for each in history.chronicle.snapshots if each.reason in sight.snapshots]
    if "truncation" in sight.snapshots and sight.truncations:
        cuts = [each for each in history.chronicle.happenings if isinstance(each, Cut) and each.journalled]
        taken += [_cut_part(cut) for cut in cuts if cut.cause is not Cause.DAMAGED]
    rows, log = [], []
    for number, each in enumerate(taken):
        topic, part = each.partition
        epochs = " ".join(f"{epoch}:{start}" for epoch, start in each.epochs) if sight.epochs else ""
        rows.append(
            {
                "snapshot": number, "node": each.node, "t": each.t, "reason": each.reason, "topic": topic, "part": part,
                "log_start": each.log_start, "high_watermark": each.high_watermark, "log_end": each.log_end,
                "epochs": epochs,
            }
        )  # fmt: skip
        first = each.log_start
        log += [
            {
                "snapshot": number, "node": each.node, "topic": topic, "part": part, "tp": places[each.partition],
                "off": first + place, "epoch": entry.epoch if sight.epochs else None, "value": entry.value,
            }
            for place, entry in enumerate(each.entries)
        ]  # fmt: skip
    return with_digests(rows, arrow("replica_log", [{**row, "run": 0} for row in log])), log


def _cut_part(cut: Cut) -> Snapshot:
    return Snapshot(
        t=cut.t, partition=cut.partition, node=cut.node, reason="truncation", log_start=cut.to, log_end=cut.end,
        entries=cut.entries, high_watermark=None, epochs=(),
    )  # fmt: skip


def _partition(history: History, partition: Partition, tp: int) -> Row:
    final = history.chronicle.final[partition]
    replicas: Sequence[Node] = history.replicas[partition]
    return {
        "tp": tp, "topic": partition[0], "part": partition[1], "replicas": list(replicas),
        "read_to_end": final.read_to_end, "end_offset": final.end, "log_start": final.log_start,
        "note": "" if final.read_to_end else "no leader answered",
    }  # fmt: skip
