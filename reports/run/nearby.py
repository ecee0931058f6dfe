"""What happened around a finding: to the cluster, and to the groups and transactions that it is about."""

from collections.abc import Mapping, Sequence
from typing import Literal

from harness.history.schema.client_rows import GROUP_EVENTS, TRANSACTIONS, GroupEventRow
from harness.history.schema.cluster_rows import BROKER_EVENTS, FAULTS, NODE_ENDS, PARTITION_STATES
from harness.history.schema.evidence_rows import FindingRow
from reports.evidence_model import OperationRow
from reports.run.story import evidence_of, fault_title
from reports.run_data import RunData

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
    remark = f"{len(events) - len(kept)} more events are in the run's tables; --all of kafka-chaos show prints them"
    return [*kept, (last, event(data, last, remark, key=False))]


def event(data: RunData, at: int, text: str, *, key: bool) -> OperationRow:
    tone: Literal["event", "key"] = "key" if key else "event"
    return OperationRow(
        begin=data.moment(at), end="", client="", operation=text, value="", offset="", outcome="", tone=tone
    )


def cluster_events(data: RunData, finding: FindingRow) -> list[Timed]:
    where = (finding["topic"], finding["partition"])
    events: list[tuple[int, str, bool]] = []
    for row in data.rows(PARTITION_STATES):
        if not row["exact"] or (row["topic"], row["partition"]) != where or row["leader_before"] is None:
            continue
        if row["leader"] != row["leader_before"]:
            who = f"broker {row['leader']} leads" if row["leader"] >= 0 else "no leader"
            how = ", elected uncleanly" if row["unclean"] else ""
            elr = f", eligible leader replicas {row['elr']}" if row["elr"] else ""
            text = f"Epoch {row['leader_epoch']}: {who}{how}; ISR {row['isr']}{elr}"
            events.append((row["time_ns"], text, bool(row["unclean"])))
        elif row["isr_before"] is not None and row["isr"] != row["isr_before"]:
            events.append((row["time_ns"], f"ISR {row['isr_before']} becomes {row['isr']}", False))
    for fault in data.rows(FAULTS):
        if fault["begin_ns"] is not None:
            events.append((fault["begin_ns"], fault_title(data, fault), False))
        if fault["end_ns"] is not None:
            label = data.readable(fault["label_text"] or fault["kind"])
            events.append((fault["end_ns"], f"Over: {label}", False))
    for ended in data.rows(NODE_ENDS):
        events.append((ended["time_ns"], data.ended_words(ended), False))
        if ended["back_ns"] is not None:
            events.append((ended["back_ns"], f"{data.node_title(ended['node'])} runs again", False))
    for event_row in data.rows(BROKER_EVENTS):
        if event_row["event"] == "truncation" and (event_row["topic"], event_row["partition"]) == where:
            begin, end = event_row["from_offset"], event_row["to_offset"]
            is_cut = (begin or 0) >= (end or 0)
            did = f"truncates its log from {begin} to {end}" if is_cut else f"begins its log anew at {end}"
            text = f"Broker {event_row['node']} {did}"
            events.append((event_row["time_ns"], text, True))
    return [(at, event(data, at, text, key=key)) for at, text, key in events]


def client_events(data: RunData, finding: FindingRow) -> list[Timed]:
    """Assignments, commits and fetched offsets of the group, and begin and end of the transactions, that it names."""
    evidence = evidence_of(finding)
    lines = []
    if evidence.get("group") and data.folder.has_table("group_events"):
        where = (finding["topic"], finding["partition"])
        lines += [
            (row["completed_ns"], _group_event(row))
            for row in data.rows(GROUP_EVENTS)
            if row["group"] == evidence["group"]
            and (row["topic"], row["partition"]) == where
            and row["completed_ns"] is not None
        ]
    wanted = {each["transaction"] if isinstance(each, Mapping) else each for each in evidence.get("transactions") or ()}
    if wanted and data.folder.has_table("transactions"):
        for row in data.rows(TRANSACTIONS):
            if row["transaction"] in wanted:
                who = f"Transaction {row['transaction']} of p{row['process']}"
                lines += [(row["invoked_ns"], f"{who} begins")] if row["invoked_ns"] is not None else []
                error = f" ({row['error']})" if row["error"] else ""
                ended = f"{who} ends: {_OUTCOMES.get(row['outcome'], 'unknown')}{error}"
                lines += [(row["completed_ns"], ended)] if row["completed_ns"] is not None else []
    return sorted(((at, event(data, at, text, key=False)) for at, text in lines), key=lambda one: one[0])


def _group_event(row: GroupEventRow) -> str:
    who, where = f"p{row['process']}", f"{row['topic']}-{row['partition']}"
    generation = f" (generation {row['generation']})" if row["generation"] is not None else ""
    offset = "none" if row["offset"] is None or row["offset"] < 0 else str(row["offset"])
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
