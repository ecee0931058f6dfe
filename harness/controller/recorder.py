"""Records what the controller saw and did, as rows of the history's tables, without losing any.

Each row is written at once, unbuffered, to RUN/history/controller.jsonl; replica logs, which are long, go to separate
Parquet files beside it. A row with an identity (a fault, a step) may be written again when more is known: the last one
counts. So a harness that is killed at any moment leaves a folder that can be sealed (history/sealed/sealing.py).
"""

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.controller.coordinators import rows_of_logs, snapshot_row
from harness.errors import HarnessError
from harness.history.facts.internal_topics import COORDINATORS_TOPICS
from harness.history.facts.step_facts import arguments_text
from harness.history.facts.values import ValueNames
from harness.history.files_below import FilesBelow
from harness.history.journals.controller_rows import ROWS, Identity, write_snapshot
from harness.history.schema.cluster_rows import (
    BROKER_EVENTS,
    CONFIGURATION,
    CONTROLLERS,
    DISK_EVENTS,
    NODE_ENDS,
    PARTITION_STATES,
    TOPICS,
)
from harness.history.schema.internal_rows import INTERNAL_EVENTS, INTERNAL_STATES
from harness.history.schema.typed_rows import R, RowsOf, row_of
from harness.host.clock import Clock
from harness.ports.cluster import (
    BrokerEvent,
    ClusterHistory,
    Evidence,
    Link,
    LogRecord,
    NodeEnd,
    OpenTransaction,
    PartitionState,
    ReplicaLog,
)
from harness.ports.coordinator_logs import CoordinatorLog


@dataclass(frozen=True, kw_only=True)
class SoFar:
    """The state of a recorder: its value names, which are shared, and how many snapshots it wrote."""

    names: ValueNames
    snapshots: int


class Recorder:
    """Writes the controller's rows. `run` is the number of the run in tables that hold several; a fresh run is 0.

    A second recorder writes the cluster's books to another folder: `after` is the state of the first one.
    """

    def __init__(self, *, folder: Path, clock: Clock, run: int = 0, after: "SoFar | None" = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._clock = clock
        self._run = run
        self._files = FilesBelow(folder, is_real=True)
        self._file = self._files.append(ROWS)
        self._encoder = msgspec.json.Encoder()
        self._failed = ""  # why a line could not be written
        self._faults: dict[int, dict[str, Any]] = {}
        self._steps: dict[int, dict[str, Any]] = {}
        self._last_states: dict[tuple[str, int, int, str | None], PartitionState] = {}
        self._snapshots: int = after.snapshots if after is not None else 0
        self._lock = threading.Lock()  # replica logs are read and recorded in threads
        self._pen = threading.Lock()
        self.names: ValueNames = after.names if after is not None else ValueNames()

    @property
    def so_far(self) -> "SoFar":
        return SoFar(names=self.names, snapshots=self._snapshots)

    def close(self) -> None:
        with self._pen:
            self._file.close()

    def write(self, table: str, row: Mapping[str, Any], identity: Identity | None = None) -> None:
        """Appends a row of any table of schemas.py. A later row of the same table and identity replaces it."""
        line: dict[str, Any] = {"table": table, "row": {"run": self._run, **row}}
        if identity is not None:
            line["identity"] = identity
        encoded = self._encoder.encode(line) + b"\n"
        with self._pen:
            if not self._file.closed:
                self._append(encoded)

    def _write_row(self, table: RowsOf[R], what: object, *, identity: Identity | None = None, **others: object) -> None:
        """others: columns that `what` does not have under their names."""
        self.write(table.name, row_of(table, what, **others), identity)

    def _append(self, encoded: bytes) -> None:
        """Raises HarnessError at the first line that could not be written completely, and at every later one."""
        if not self._failed:
            try:
                whole = self._file.write(encoded) == len(encoded)
                self._failed = "" if whole else "the disk is full"
            except OSError as error:
                self._failed = str(error.strerror)
        if self._failed:
            raise HarnessError(f"{self._files.top / ROWS} cannot be written: {self._failed}")

    # -- faults ----------------------------------------

    def fault_asked(
        self,
        *,
        kind: str,
        label: str,
        nodes: Sequence[int] = (),
        trigger: str = "",
        step: int | None = None,
        planned_ns: int | None = None,
        scheduled: int | None = None,
    ) -> int:
        """A fault is about to begin. Returns its number, which the later calls need."""
        fault = len(self._faults)
        self._faults[fault] = {
            "fault": fault,
            "kind": kind,
            "label_text": label,
            "nodes": [int(node) for node in nodes],
            "links": [],
            "proved": False,
            "trigger_text": trigger,
            "asked_ns": self._clock.monotonic_ns(),
            "begin_ns": None,
            "end_asked_ns": None,
            "end_ns": None,
            "proof_text": None,
            "healed_proof_text": None,
            "step": step,
            "planned_ns": planned_ns,
            "scheduled": scheduled,
        }
        return self._fault_changed(fault)

    def fault_begun(self, fault: int, evidence: Evidence, *, links: Sequence[Link] = ()) -> None:
        """The fault's effect was seen on the victims."""
        if evidence.only:
            label = f"{evidence.only}, no {self._faults[fault]['label_text']}"
            self._faults[fault] |= {"kind": evidence.only, "label_text": label}
        self._faults[fault] |= {
            "begin_ns": evidence.t_ns,
            "links": [{"source": link.source, "client": link.client, "target": link.target} for link in links],
            "proved": True,
            "proof_text": evidence.sentence,
        }
        for event in evidence.destroyed:
            self._write_row(DISK_EVENTS, event, fault=fault)
        self._fault_changed(fault)

    def fault_end_asked(self, fault: int) -> None:
        self._faults[fault]["end_asked_ns"] = self._clock.monotonic_ns()
        self._fault_changed(fault)

    def fault_ended(self, fault: int, evidence: Evidence) -> None:
        self._faults[fault] |= {"end_ns": evidence.t_ns, "healed_proof_text": evidence.sentence}
        self._fault_changed(fault)

    def _fault_changed(self, fault: int) -> int:
        self.write("faults", self._faults[fault], ["fault", fault])
        return fault

    def faults_in_force(self) -> list[str]:
        """The labels of the faults that have begun and not ended, for the live display."""
        return [
            row["label_text"] for row in self._faults.values() if row["begin_ns"] is not None and row["end_ns"] is None
        ]

    # -- steps ----------------------------------------

    def step_began(self, step: int, *, kind: str, act: str, text: str, arguments: Mapping[str, Any]) -> None:
        """Until it ends, a step counts as skipped: so it is right if the run is interrupted before that."""
        now = self._clock.monotonic_ns()
        row = {
            "step": step,
            "kind": kind,
            "act": act,
            "step_text": text,
            "begin_ns": now,
            "end_ns": now,
            "outcome": "skipped",
            "seen_text": "",
        }
        row["arguments"] = arguments_text(arguments)
        self._steps[step] = row
        self.write("steps", row, ["step", step])

    def step_ended(self, step: int, *, outcome: str, seen: str) -> None:
        assert outcome in ("ok", "failed", "timeout", "skipped"), outcome
        self._steps[step] |= {"end_ns": self._clock.monotonic_ns(), "outcome": outcome, "seen_text": seen}
        self.write("steps", self._steps[step], ["step", step])

    # -- the cluster's state ----------------------------------------

    def partition_state(self, state: PartitionState) -> None:
        """Writes a state if it differs from the last one of this partition by the same observer."""
        key = (state.topic, state.partition, state.observer, state.topic_id)
        before = self._last_states.get(key)
        if before is not None and _content(before) == _content(state):
            return
        self._last_states[key] = state
        changed_leader = before is not None and before.leader_epoch != state.leader_epoch and state.leader >= 0
        self._write_row(
            INTERNAL_STATES if state.topic in COORDINATORS_TOPICS else PARTITION_STATES,
            state,
            time_ns=state.t_ns,
            isr_before=before and before.isr,
            leader_before=before and before.leader,
            unclean=before is not None and changed_leader and state.leader not in _eligible(before, state),
        )

    def replica_logs(self, reason: str, node: int, logs: Sequence[ReplicaLog]) -> None:
        """Records what one node's disk held. Safe to call from a thread."""
        with self._lock:
            for log in logs:
                self._snapshot(reason, node, log)

    def _snapshot(self, reason: str, node: int, log: ReplicaLog) -> None:
        snapshot = self._snapshots
        self._snapshots += 1
        known = len(self.names.items())
        values = [self.names.number(record.value) for record in log.records]
        for value, name in self.names.items()[known:]:
            self.write("value_names", {"value": value, "name": name})
        write_snapshot(
            self._files,
            run=self._run,
            snapshot=snapshot,
            node=node,
            topic=log.topic,
            partition=log.partition,
            offsets=[record.offset for record in log.records],
            epochs=[record.epoch for record in log.records],
            values=values,
        )
        unended = log.open_transactions
        opened = None if unended is None else [_open_transaction(each) for each in unended]
        self.write("replica_snapshots", snapshot_row(snapshot, node, reason, log) | {"open_transactions": opened})

    def coordinator_logs(self, reason: str, logs: Sequence[CoordinatorLog]) -> None:
        """Records what brokers keep of groups and transactions. Safe to call from a thread."""
        with self._lock:
            for table, row in rows_of_logs(reason, logs, first=self._snapshots):
                self.write(table, row)
            self._snapshots += len(logs)

    def cluster_history(self, history: ClusterHistory) -> None:
        """Records the cluster's own books, once, after the nodes were read for the last time."""
        for life in history.topics:
            self._write_row(TOPICS, life)
        for state in history.partition_states:
            self.partition_state(state)
        for controller in history.controllers:
            self._write_row(CONTROLLERS, controller, time_ns=controller.t_ns)
        for change in history.configuration:
            self._write_row(CONFIGURATION, change, time_ns=change.t_ns)
        for event in history.broker_events:
            self.broker_event(event)

    def broker_event(self, event: BrokerEvent) -> None:
        is_internal = event.topic in COORDINATORS_TOPICS
        self._write_row(
            INTERNAL_EVENTS if is_internal else BROKER_EVENTS,
            event,
            time_ns=event.t_ns,
            leader_epoch=event.epoch,
            reason_text=event.reason,
            detail_text=event.detail,
        )
        if event.cut and not is_internal and event.topic is not None and event.partition is not None:
            self.replica_logs("truncation", int(event.node), [_cut_part(event, event.topic, event.partition)])

    def node_end(self, number: int, end: NodeEnd) -> None:
        """Records the number-th end of a node that nobody ordered; again when it runs again."""
        self._write_row(NODE_ENDS, end, identity=["node_end", number], time_ns=end.t_ns, line_text=end.line)

    def partition(
        self,
        *,
        topic: str,
        partition: int,
        replicas: Sequence[int],
        read_to_end: bool,
        end_offset: int | None,
        note: str,
        log_start: int | None = None,
        last_stable_offset: int | None = None,
        cleanup_policy: str | None = None,
    ) -> None:
        """Records a partition's replicas and the result of its final read; the last row written counts."""
        self.write(
            "partitions",
            {
                "topic": topic,
                "partition": partition,
                "replicas": list(replicas),
                "read_to_end": read_to_end,
                "end_offset": end_offset,
                "note_text": note,
                "log_start_offset": log_start,
                "last_stable_offset": last_stable_offset,
                "cleanup_policy": cleanup_policy,
            },
            ["partition", topic, partition],
        )


def _open_transaction(each: OpenTransaction) -> dict[str, Any]:
    row = dataclasses.asdict(each)
    return {**row, "begun_ms": row.pop("wall_ms")}


def _content(state: PartitionState) -> tuple[object, ...]:
    """What makes two states of a partition differ; a new controller epoch alone counts only in the exact books."""
    return (state.leader, state.leader_epoch, state.partition_epoch, state.isr, state.elr, state.replicas)


def _eligible(before: PartitionState, now: PartitionState) -> tuple[int, ...]:
    """The replicas whose election is clean: eligible leader replicas have every committed record too (KIP-966).

    When the last of them is gone, perhaps by the same change, the last member of the ISR leads, as without them. If
    one of them is only down, that member's election is unclean, and clears them too.
    """
    copies = (*before.isr, *(before.elr or ()))
    waited_for = before.last_known_leader
    away = not set(before.elr or ()) <= set(now.elr_dropped)
    return copies if before.isr or now.elr or away or waited_for is None else (*copies, waited_for)


def _cut_part(event: BrokerEvent, topic: str, partition: int) -> ReplicaLog:
    records: tuple[LogRecord, ...] = event.cut
    start = event.to_offset if event.to_offset is not None else records[0].offset
    return ReplicaLog(
        node=event.node,
        topic=topic,
        partition=partition,
        t_ns=event.t_ns,
        log_start=start,
        high_watermark=None,
        log_end=event.from_offset if event.from_offset is not None else records[-1].offset + 1,
        epochs=(),
        records=records,
    )
