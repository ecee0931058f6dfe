"""What happened around a finding: to the cluster, and to the groups and transactions that it is about."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from reports.model import OperationRow
from reports.run_data import RunData
from reports.story import evidence_of, fault_title

EVENTS_MAX = 30
Timed = tuple[int, OperationRow]
_STATUS = {0: "ok", 1: "refused", 2: "no answer"}
_OUTCOMES = {0: "committed", 1: "aborted", 2: "nobody knows how"}


def nearest(data: RunData, events: Sequence[Timed], begin: int, end: int) -> list[Timed]:
    """All events while they are few; else the deciding ones and those nearest to the operations, the rest counted."""
    if len(events) <= EVENTS_MAX:
        return list(events)

    def distance(one: Timed) -> tuple[bool, int]:
        at, row = one
        return row.tone != "key", max(begin - at, at - end, 0)

    kept = sorted(events, key=distance)[:EVENTS_MAX]
    last = max(at for at, _ in kept)
    told = f"{len(events) - len(kept)} more events are in the run's tables; --all of kafka-chaos show prints them"
    return [*kept, (last, event(data, last, told, key=False))]


def event(data: RunData, at: int, text: str, *, key: bool) -> OperationRow:
    tone: Literal["event", "key"] = "key" if key else "event"
    return OperationRow(
        begin=data.moment(at), end="", client="", operation=text, value="", offset="", outcome="", tone=tone
    )


def cluster_events(data: RunData, finding: Mapping[str, Any]) -> list[Timed]:
    where = (finding["topic"], finding["part"])
    events: list[tuple[int, str, bool]] = []
    for row in data.rows("partition_states"):
        if not row["exact"] or (row["topic"], row["part"]) != where or row["leader_before"] is None:
            continue
        if row["leader"] != row["leader_before"]:
            who = f"broker {row['leader']} leads" if row["leader"] >= 0 else "no leader"
            how = ", elected uncleanly" if row["unclean"] else ""
            elr = f", eligible leader replicas {list(row['elr'])}" if row.get("elr") else ""
            text = f"Epoch {row['leader_epoch']}: {who}{how}; ISR {list(row['isr'])}{elr}"
            events.append((row["t"], text, bool(row["unclean"])))
        elif row["isr_before"] is not None and list(row["isr"]) != list(row["isr_before"]):
            events.append((row["t"], f"ISR {list(row['isr_before'])} becomes {list(row['isr'])}", False))
    for row in data.rows("faults"):
        events += [(row["t_begin"], fault_title(data, row), False)] if row["t_begin"] is not None else []
        events += [(row["t_end"], f"Over: {data.readable(row['label'])}", False)] if row["t_end"] is not None else []
    for row in data.rows("broker_events"):
        if row["event"] == "truncation" and (row["topic"], row["part"]) == where:
            text = f"Broker {row['node']} truncates its log from {row['from_offset']} to {row['to_offset']}"
            events.append((row["t"], text, True))
    return [(at, event(data, at, text, key=key)) for at, text, key in events]


def client_events(data: RunData, finding: Mapping[str, Any]) -> list[Timed]:
    """Assignments, commits and fetched offsets of the group, and begin and end of the transactions, that it names."""
    evidence = evidence_of(finding)
    told = []
    if evidence.get("group") and data.folder.has_table("group_events"):
        where = (finding["topic"], finding["part"])
        told += [
            (row["t1"], _group_event(row))
            for row in data.rows("group_events")
            if row["group"] == evidence["group"] and (row["topic"], row["part"]) == where and row["t1"] is not None
        ]
    wanted = {each["txn"] if isinstance(each, Mapping) else each for each in evidence.get("transactions") or ()}
    if wanted and data.folder.has_table("transactions"):
        for row in data.rows("transactions"):
            if row["txn"] in wanted:
                who = f"Transaction {row['txn']} of p{row['process']}"
                told += [(row["t0"], f"{who} begins")] if row["t0"] is not None else []
                error = f" ({row['error']})" if row["error"] else ""
                ended = f"{who} ends: {_OUTCOMES.get(row['outcome'], 'unknown')}{error}"
                told += [(row["t1"], ended)] if row["t1"] is not None else []
    return sorted(((at, event(data, at, text, key=False)) for at, text in told), key=lambda one: one[0])


def _group_event(row: Mapping[str, Any]) -> str:
    who, where = f"p{row['process']}", f"{row['topic']}-{row['part']}"
    generation = f" (generation {row['generation']})" if row["generation"] is not None else ""
    offset = "none" if row["off"] is None or row["off"] < 0 else str(row["off"])
    status = _STATUS.get(row["status"], "unknown") + (f", {row['error']}" if row["error"] else "")
    match row["event"]:
        case "committed":
            return f"{who} commits offset {offset} of {where}{generation}: {status}"
        case "fetched":
            return f"{who} asks for the committed offset of {where}: {offset} ({status})"
        case "assigned":
            return f"{who} is assigned {where}{generation}"
        case "seek":
            return f"{who} seeks to {offset} in {where}"
        case "lost":
            return f"{who} has lost {where}{generation}"
    return f"{where} is {row['event']} from {who}{generation}"
