"""The tables that a check writes: its findings, and RUN/tables/evidence_<name>.parquet with what a page explains them
with."""

from collections.abc import Mapping

import pyarrow as pa

from harness.history.schema.schema_version import schema_with

_i32, _i64, _f64, _s, _b = pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_()

# Written by harness.checks, read by reports, JUnit and comparison. class: violation | permitted | observation.
# `values` and `operations` hold at most 200 examples; `count` is exact. `evidence` is JSON (see checks/contract.py).
FINDINGS: pa.Schema = schema_with(
    {
        "run": _i32,
        "finding": _s,
        "check": _s,
        "classification": _s,
        "kind": _s,
        "topic": _s,
        "partition": _i32,
        "offset_first": _i64,
        "offset_last": _i64,
        "count": _i64,
        "values": pa.list_(_i64),
        "offsets": pa.list_(_i64),
        "operations": pa.list_(_i64),
        "first_ns": _i64,
        "last_ns": _i64,
        "faults": pa.list_(_i32),
        "leader_epoch": _i32,
        "cause_text": _s,
        "sentence_text": _s,
        "fingerprint": _s,
        "evidence": _s,
    }
)

EVIDENCE: Mapping[str, pa.Schema] = {
    name: schema_with(columns)
    for name, columns in {
        # Values by the sender's answer and whether the final log has them. duplicates: further copies in it.
        "accounting": {
            "run": _i32, "topic": _s, "partition": _i32, "outcome": _s, "acks": _i32, "in_final_log": _b, "count": _i64,
            "duplicates": _i64, "read": _i64,
        },
        # Every lost acknowledged record.
        "lost_records": {
            "run": _i32, "finding": _s, "classification": _s, "topic": _s, "partition": _i32, "value": _i64,
            "offset": _i64, "acks": _i32, "leader_epoch": _i32, "process": _i32, "operation": _i64, "invoked_ns": _i64,
            "completed_ns": _i64,
        },
        # Around a finding's offsets, per replica: its record from before the deciding election, and its final one.
        "log_rows": {
            "run": _i32, "finding": _s, "topic": _s, "partition": _i32, "offset": _i64, "acknowledged_value": _i64,
            "acknowledged_ns": _i64, "acknowledged_acks": _i32, "replica": _i32, "leader_epoch": _i32, "value": _i64,
            "truncated": _b, "truncated_ns": _i64, "end_epoch": _i32, "end_value": _i64, "final_epoch": _i32,
            "final_value": _i64, "read": _b,
        },
        # What clients did to and saw of a finding's example values. kind: send | poll | final_poll.
        "operations": {
            "run": _i32, "finding": _s, "kind": _s, "operation": _i64, "process": _i32, "status": _s, "acks": _i32,
            "topic": _s, "partition": _i32, "offset": _i64, "value": _i64, "leader_epoch": _i32, "invoked_ns": _i64,
            "completed_ns": _i64, "replica": _i32, "error": _s,
        },
        # reader: who was given nothing; null: no write was taken.
        "gaps": {
            "run": _i32, "topic": _s, "partition": _i32, "begin_ns": _i64, "end_ns": _i64, "open": _b, "reader": _s,
        },
        # What each fault whose effect was seen did (history/fault_measures.py): seconds from its effect until the last
        # partition it took the leader from had one, until the last ISR it took a victim from was whole, and the longest
        # time within it and after it that a partition took no write; null: no leader, no ISR, no such time. never: it
        # did not end, and the seconds are a lower bound.
        "fault_measures": {
            "run": _i32, "fault": _i32, "kind": _s, "label_text": _s, "begin_ns": _i64, "end_ns": _i64,
            "leader_s": _f64, "leader_never": _b, "in_sync_s": _f64, "in_sync_never": _b, "gap_s": _f64,
            "gap_never": _b,
        },
    }.items()
}  # fmt: skip

# Columns of theirs that are never null.
EVIDENCE_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "accounting": ("topic", "partition", "outcome", "in_final_log", "count"),
    "lost_records": ("finding", "classification", "topic", "partition", "value"),
    "log_rows": ("finding", "offset", "replica", "truncated"),
    "operations": ("finding", "kind", "status", "value"),
    "gaps": ("topic", "partition", "begin_ns", "open"),
    "fault_measures": ("fault", "kind", "begin_ns"),
}
