"""The tables that a check writes, each declared as the type of its rows (column_types.py): its findings, and
RUN/tables/evidence_<name>.parquet with what a page explains them with."""

from typing import Annotated, Literal, TypedDict

from harness.history.schema.column_types import (
    Added,
    Int32,
    Int64,
    LeaderEpoch,
    Nanoseconds,
    Natural32,
    Natural64,
    Within,
)
from harness.history.schema.typed_rows import RowsOf

Classification = Literal["violation", "permitted", "observation"]


class FindingRow(TypedDict):
    """Written by harness.checks, read by reports, JUnit and comparison.

    `values` and `operations` hold at most 200 examples; `count` is exact. `evidence` is JSON (evidence_texts.py).
    """

    run: Int32
    finding: str
    check: str
    classification: Classification
    kind: str | None
    topic: str | None
    partition: Natural32 | None
    offset_first: Int64 | None
    offset_last: Int64 | None
    count: Natural64
    values: list[Int64] | None
    offsets: list[Int64] | None
    operations: list[Int64] | None
    first_ns: Nanoseconds | None
    last_ns: Nanoseconds | None
    faults: list[Int32] | None
    leader_epoch: LeaderEpoch | None
    cause_text: str | None
    sentence_text: str
    fingerprint: str
    evidence: str | None


class AccountingRow(TypedDict):
    """Values by the sender's answer and whether the final log has them. duplicates: further copies in it."""

    run: Int32
    topic: str
    partition: Natural32
    outcome: str
    acks: Annotated[Int32, Within(-1, 1)] | None
    in_final_log: bool
    count: Natural64
    duplicates: Int64 | None
    read: Int64 | None


class LostRecordRow(TypedDict):
    """Every lost acknowledged record."""

    run: Int32
    finding: str
    classification: str
    topic: str
    partition: Natural32
    value: Natural64
    offset: Int64 | None
    acks: Annotated[Int32, Within(-1, 1)] | None
    leader_epoch: LeaderEpoch | None
    process: Natural32 | None
    operation: Natural64 | None
    invoked_ns: Nanoseconds | None
    completed_ns: Nanoseconds | None


class LogComparisonRow(TypedDict):
    """Around a finding's offsets, per replica: its record from before the deciding election, and its final one."""

    run: Int32
    finding: str
    topic: str | None
    partition: Natural32 | None
    offset: Int64
    acknowledged_value: Int64 | None
    acknowledged_ns: Nanoseconds | None
    acknowledged_acks: Int32 | None
    replica: Natural32
    leader_epoch: LeaderEpoch | None
    value: Natural64 | None
    truncated: bool
    truncated_ns: Nanoseconds | None
    end_epoch: Int32 | None
    end_value: Int64 | None
    final_epoch: Int32 | None
    final_value: Int64 | None
    read: bool | None


class ShownOperationRow(TypedDict):
    """What clients did to and saw of a finding's example values. kind: send | poll | final_poll."""

    run: Int32
    finding: str
    kind: str
    operation: Natural64 | None
    process: Natural32 | None
    status: str
    acks: Annotated[Int32, Within(-1, 1)] | None
    topic: str | None
    partition: Natural32 | None
    offset: Int64 | None
    value: Natural64
    leader_epoch: LeaderEpoch | None
    invoked_ns: Nanoseconds | None
    completed_ns: Nanoseconds | None
    replica: Natural32 | None
    error: str | None


class GapRow(TypedDict):
    """reader: who was given nothing; null: no write was taken."""

    run: Int32
    topic: str
    partition: Natural32
    begin_ns: Nanoseconds
    end_ns: Nanoseconds | None
    open: bool
    reader: Added[str | None]


class FaultMeasureRow(TypedDict):
    """What each fault whose effect was seen did (facts/fault_measures.py): seconds from its effect until the last
    partition it took the leader from had one, until the last ISR it took a victim from was whole, and the longest time
    within it and after it that a partition took no write; null: no leader, no ISR, no such time. never: it did not end,
    and the seconds are a lower bound."""

    run: Int32
    fault: Natural32
    kind: str
    label_text: str | None
    begin_ns: Nanoseconds
    end_ns: Nanoseconds | None
    leader_s: float | None
    leader_never: bool | None
    in_sync_s: float | None
    in_sync_never: bool | None
    gap_s: float | None
    gap_never: bool | None


FINDINGS = RowsOf("findings", FindingRow)
ACCOUNTING = RowsOf("evidence_accounting", AccountingRow)
LOST_RECORDS = RowsOf("evidence_lost_records", LostRecordRow)
LOG_ROWS = RowsOf("evidence_log_rows", LogComparisonRow)
SHOWN_OPERATIONS = RowsOf("evidence_operations", ShownOperationRow)
GAPS = RowsOf("evidence_gaps", GapRow)
FAULT_MEASURES = RowsOf("evidence_fault_measures", FaultMeasureRow)
