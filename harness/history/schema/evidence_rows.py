"""What a row of the findings, and of each table that explains them, holds (evidence_schemas.py).

A column is `X | None` where it may be null by `lawful_rows`; a test holds every type against its schema.
"""

from typing import Literal, TypedDict

from harness.history.schema.typed_rows import RowsOf

Classification = Literal["violation", "permitted", "observation"]


class FindingRow(TypedDict):
    run: int
    finding: str
    check: str
    classification: Classification
    kind: str | None
    topic: str | None
    partition: int | None
    offset_first: int | None
    offset_last: int | None
    count: int
    values: list[int] | None
    offsets: list[int] | None
    operations: list[int] | None
    first_ns: int | None
    last_ns: int | None
    faults: list[int] | None
    leader_epoch: int | None
    cause_text: str | None
    sentence_text: str
    fingerprint: str
    evidence: str | None


class AccountingRow(TypedDict):
    run: int
    topic: str
    partition: int
    outcome: str
    acks: int | None
    in_final_log: bool
    count: int
    duplicates: int | None
    read: int | None


class LostRecordRow(TypedDict):
    run: int
    finding: str
    classification: str
    topic: str
    partition: int
    value: int
    offset: int | None
    acks: int | None
    leader_epoch: int | None
    process: int | None
    operation: int | None
    invoked_ns: int | None
    completed_ns: int | None


class LogComparisonRow(TypedDict):
    run: int
    finding: str
    topic: str | None
    partition: int | None
    offset: int
    acknowledged_value: int | None
    acknowledged_ns: int | None
    acknowledged_acks: int | None
    replica: int
    leader_epoch: int | None
    value: int | None
    truncated: bool
    truncated_ns: int | None
    end_epoch: int | None
    end_value: int | None
    final_epoch: int | None
    final_value: int | None
    read: bool | None


class ShownOperationRow(TypedDict):
    run: int
    finding: str
    kind: str
    operation: int | None
    process: int | None
    status: str
    acks: int | None
    topic: str | None
    partition: int | None
    offset: int | None
    value: int
    leader_epoch: int | None
    invoked_ns: int | None
    completed_ns: int | None
    replica: int | None
    error: str | None


class GapRow(TypedDict):
    run: int
    topic: str
    partition: int
    begin_ns: int
    end_ns: int | None
    open: bool
    reader: str | None


class FaultMeasureRow(TypedDict):
    run: int
    fault: int
    kind: str
    label_text: str | None
    begin_ns: int
    end_ns: int | None
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
