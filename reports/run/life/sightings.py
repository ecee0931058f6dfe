"""What was recorded of one lost record: when it was sent, acknowledged and read, and what each log had at its offset.

A log is seen where its disk was read, where its leader answered for it, and where a broker said that it cut it. Between
two sightings nothing is concluded here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harness.history.facts.disk_facts import disk_events
from harness.history.facts.finding_facts import chain_of
from harness.history.schema.cluster_rows import (
    BROKER_EVENTS,
    DISK_EVENTS,
    FAULTS,
    PARTITION_STATES,
    REPLICA_SNAPSHOTS,
)
from harness.history.schema.evidence_rows import LOG_ROWS, SHOWN_OPERATIONS, FindingRow
from harness.history.schema.parquet_tables import read_table
from harness.history.schema.schemas import KIND_SEND, STATUS_OK
from reports.run.story import evidence_of
from reports.run_data import RunData

_READS_MAX = 3
_REASONS = {"kill": "it was killed", "heal": "faults were healed", "wipe": "its disk was wiped", "end": "the run ended"}
_ACKS = {-1: "acks=all", 0: "acks=0", 1: "acks=1"}
State = Literal["record", "nothing", "other"]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a node's log had at the offset at a moment; change: from then on, by a cut or a lost disk."""

    time_ns: int
    node: int
    state: State
    what: str
    source: str
    change: bool = False


@dataclass(frozen=True, kw_only=True)
class ClientReport:
    """What a client was answered or found."""

    time_ns: int
    style: Literal["sent", "told", "read"]
    label: str
    what: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Followed:
    """One record: where it was to be, who sent it, and the epoch that acknowledged it with its leader, if known."""

    topic: str
    partition: int
    offset: int
    value: int
    process: int
    acks: int | None
    sent_ns: int
    answered_ns: int
    epoch: int | None
    leader: int | None

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}"

    def is_of(self, row: Mapping[str, Any]) -> bool:
        return (row["topic"], row["partition"]) == (self.topic, self.partition)


def followed(data: RunData, finding: FindingRow) -> Followed | None:
    """The first of the finding's lost records of which sending and acknowledgement are recorded."""
    topic, partition = finding["topic"], finding["partition"]
    if finding["check"] != "lost-write" or topic is None or partition is None:
        return None
    epochs = (link.epoch_before for link in chain_of(evidence_of(finding)) if link.event == "acknowledged")
    epoch = next((each for each in epochs if each is not None), None)
    lost = set(zip(finding["values"] or (), finding["offsets"] or (), strict=False))
    found = []
    for row in data.evidence_of_finding(SHOWN_OPERATIONS, finding["finding"]):
        offset, process, sent, answered_ns = row["offset"], row["process"], row["invoked_ns"], row["completed_ns"]
        if row["kind"] != "send" or row["status"] != "ok" or (row["value"], offset) not in lost:
            continue
        if offset is not None and process is not None and sent is not None and answered_ns is not None:
            found.append(
                Followed(
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    value=row["value"],
                    process=process,
                    acks=row["acks"],
                    sent_ns=sent,
                    answered_ns=answered_ns,
                    epoch=epoch,
                    leader=_leader_of(data, (topic, partition), epoch),
                )
            )
    return min(found, key=lambda record: record.offset, default=None)


def _leader_of(data: RunData, place: tuple[str, int], epoch: int | None) -> int | None:
    leaders = {
        row["leader"]
        for row in data.rows(PARTITION_STATES)
        if (row["topic"], row["partition"]) == place and row["leader_epoch"] == epoch and row["leader"] >= 0
    }
    return leaders.pop() if len(leaders) == 1 else None


# ---- clients --------------------------------------------------------------------------------------------------------


def reports_to_clients(data: RunData, record: Followed, finding: str) -> list[ClientReport]:
    journal = f"journal of p{record.process}"
    acks = "unknown acks" if record.acks is None else _ACKS.get(record.acks, "unknown acks")
    sent = ClientReport(
        time_ns=record.sent_ns, style="sent", label="sent", what=f"p{record.process} sends it", source=journal
    )
    report = ClientReport(
        time_ns=record.answered_ns,
        style="told",
        label="acknowledged",
        what=f"p{record.process} is told that it has offset {record.offset} ({acks})",
        source=journal,
    )
    reads = sorted(
        (row["completed_ns"], row["process"])
        for row in data.evidence_of_finding(SHOWN_OPERATIONS, finding)
        if row["kind"] == "poll" and row["value"] == record.value and row["completed_ns"] is not None
    )
    read = [
        ClientReport(
            time_ns=at, style="read", label=f"read by p{who}", what=f"p{who} reads it", source=f"journal of p{who}"
        )
        for at, who in reads[:_READS_MAX]
    ]
    return [sent, report, *read, *_readable(data, record)]


def _readable(data: RunData, record: Followed) -> list[ClientReport]:
    """The first high watermark above it that its leader wrote down, while it led in the record's epoch."""
    if record.leader is None or record.epoch is None:
        return []
    ends = [
        row["time_ns"]
        for row in data.rows(PARTITION_STATES)
        if record.is_of(row) and row["leader_epoch"] > record.epoch
    ]
    marks = sorted(
        (row["time_ns"], row["to_offset"])
        for row in data.rows(BROKER_EVENTS)
        if row["event"] == "high_watermark_checkpoint"
        and record.is_of(row)
        and row["node"] == record.leader
        and (row["to_offset"] or 0) > record.offset
        and record.sent_ns <= row["time_ns"] < min(ends, default=2**63)
    )
    return [
        ClientReport(
            time_ns=at,
            style="read",
            label="readable",
            what=f"consumers may read it by now: the high watermark of broker {record.leader} stands at {mark}",
            source=f"what broker {record.leader} wrote down of itself",
        )
        for at, mark in marks[:1]
    ]


# ---- logs -----------------------------------------------------------------------------------------------------------


def seen_in_logs(data: RunData, record: Followed, finding: FindingRow) -> list[Seen]:
    """In order of time; nothing from before it was sent."""
    found = [
        *_answered(record),
        *_snapshots(data, record),
        *_cuts(data, record),
        *_destroyed(data, record),
        *_elected(record, finding),
        *_overwritten(data, record, finding["finding"]),
    ]
    return sorted((one for one in found if one.time_ns >= record.sent_ns), key=lambda one: (one.time_ns, one.change))


def _answered(record: Followed) -> Iterator[Seen]:
    if record.leader is not None and record.acks in (1, -1):
        yield Seen(
            time_ns=record.answered_ns,
            node=record.leader,
            state="record",
            what="has appended it by now",
            source="its acknowledgement",
        )


def _snapshots(data: RunData, record: Followed) -> Iterator[Seen]:
    path = data.path / "tables" / "replica_log.parquet"
    if not path.is_file():
        return
    where = [("topic", "=", record.topic), ("partition", "=", record.partition), ("offset", "=", record.offset)]
    rows = read_table(path, "replica_log", columns=["node", "snapshot", "value"], filters=where).to_pylist()
    held = {(row["node"], row["snapshot"]): row["value"] for row in rows}
    for log in data.rows(REPLICA_SNAPSHOTS):
        if not record.is_of(log) or log["reason"] == "truncation":
            continue
        at, node, source = (
            log["time_ns"],
            log["node"],
            f"its disk, read when {_REASONS.get(log['reason'], 'it stopped')}",
        )
        value = held.get((node, log["snapshot"]))
        if value == record.value:
            yield Seen(time_ns=at, node=node, state="record", what="has it", source=source)
        elif value is not None:
            what = f"has {data.value(value)} in its place"
            yield Seen(time_ns=at, node=node, state="other", what=what, source=source)
        elif log["log_end_offset"] <= record.offset:
            what = f"does not have it: its log ends at {log['log_end_offset']}"
            yield Seen(time_ns=at, node=node, state="nothing", what=what, source=source)


def _cuts(data: RunData, record: Followed) -> Iterator[Seen]:
    for row in data.rows(BROKER_EVENTS):
        if row["event"] != "truncation" or not record.is_of(row):
            continue
        if (row["to_offset"] or 0) <= record.offset < (row["from_offset"] or 0):
            yield Seen(
                time_ns=row["time_ns"],
                node=row["node"],
                state="nothing",
                what=f"truncates its log from {row['from_offset']} to {row['to_offset']}, and loses what it had there",
                source="what the broker wrote down of itself",
                change=True,
            )


def _destroyed(data: RunData, record: Followed) -> Iterator[Seen]:
    for event in disk_events(data.rows(DISK_EVENTS), data.rows(FAULTS)):
        if event.destroyed(record.topic, record.partition, record.offset) is True:
            yield Seen(
                time_ns=event.time_ns,
                node=event.node,
                state="nothing",
                what="loses what its disk had of it",
                source="the fault that took it",
                change=True,
            )


def _elected(record: Followed, finding: FindingRow) -> Iterator[Seen]:
    evidence = evidence_of(finding)
    election = next((link for link in chain_of(evidence) if link.event == "election"), None)
    node, start = evidence.get("elected"), evidence.get("elected_log_end")
    if election is not None and node is not None and start is not None and start <= record.offset:
        yield Seen(
            time_ns=election.t_ns,
            node=node,
            state="nothing",
            what=f"is elected with a log that ends at {start}, and does not have it",
            source=str(evidence.get("elected_log_end_from") or "the cluster's books"),
        )


def _overwritten(data: RunData, record: Followed, finding: str) -> Iterator[Seen]:
    """The record that stands there in the end, when its sender was answered so, on the leader that answered."""
    ends = {
        (row["final_value"], row["final_epoch"])
        for row in data.evidence_of_finding(LOG_ROWS, finding)
        if row["offset"] == record.offset and row["final_value"] not in (None, record.value)
    }
    path = data.path / "tables" / "records.parquet"
    if len(ends) != 1 or not path.is_file():
        return
    ((value, epoch),) = ends
    leader = _leader_of(data, (record.topic, record.partition), epoch)
    sends = read_table(
        path,
        "records",
        columns=["offset", "completed_ns", "process"],
        filters=[
            ("topic", "=", record.topic),
            ("partition", "=", record.partition),
            ("value", "=", value),
            ("kind", "=", KIND_SEND),
            ("status", "=", STATUS_OK),
        ],
    ).to_pylist()
    for row in sends:
        if row["offset"] == record.offset and leader is not None:
            yield Seen(
                time_ns=row["completed_ns"],
                node=leader,
                state="other",
                what=f"has {data.value(value)} in its place by now, and acknowledged that one",
                source=f"journal of p{row['process']}",
            )
