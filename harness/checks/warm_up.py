"""Judges an artificial run of a few records while the real one still goes on: the first run of a query costs seconds.

The artificial run contains what makes the families ask, so that each question that small runs lead to runs once: a loss
that was read, another record in its place, a pause, a reader that begins late. It leaves nothing behind.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from harness.checks.judge import RunInput, judge_tables
from harness.checks.spark.concurrent_queries import Progress
from harness.checks.spark.tables import tables_of
from harness.history.facts.extent import FEW_ROWS
from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_POLL, KIND_SEND, STATUS_INFO, STATUS_OK, TABLES
from harness.host.scratch import scratch_folder

_RECORDS, _LOST, _UNKNOWN = 8, 5, 6
_ANSWERED_LATE_NS = {_RECORDS - 1: 3 * 10**9}
_READER, _FINAL_READER = 9, 10
_NODES = [1, 2, 3]


def warm_up(spark: SparkSession, *, progress: Progress | None = None) -> None:
    """Takes about as long as the first checks of a small run and of a larger one; the next finds everything loaded.

    `progress` is called with each stage and may stop the warm-up by raising.
    """
    rows = _rows()
    arrow = {
        name: pa.Table.from_pylist(
            [dict.fromkeys(schema.names) | {"run": 0} | row for row in rows.get(name, ())], schema
        )
        for name, schema in TABLES.items()
    }
    for at_least in (0, FEW_ROWS + 1):  # interpreted, and compiled
        with scratch_folder("kafka-chaos-warm-up-") as folder:
            tables = tables_of(spark, folder, arrow, 1, at_least=at_least)
            judge_tables(spark, tables, [RunInput(scenario=None)], progress=progress)


def _rows() -> dict[str, list[dict[str, Any]]]:
    place = {"topic": "t", "partition": 0}
    partition = place | {"partition_id": 0, "replicas": _NODES, "read_to_end": True, "end_offset": _RECORDS}
    state = place | {"time_ns": 0, "uncertainty_ns": 0, "exact": True, "observer": -1, "leader": 1, "leader_epoch": 0}
    snapshot = {
        "reason": "end",
        "log_start_offset": 0,
        "high_watermark": _RECORDS,
        "log_end_offset": _RECORDS,
        "leader_epochs": f"0:0 1:{_LOST}",
    }
    read = {offset: offset for offset in range(1, _RECORDS) if offset != _UNKNOWN}
    kept = {0: 0} | read | {_LOST: _UNKNOWN}
    return {
        "records": [*_sends(), *_reads(KIND_POLL, _READER, read), *_reads(KIND_FINAL_POLL, _FINAL_READER, kept)],
        "processes": [{"process": _READER, "role": "consumer", "client": "reader", "offset_reset": "earliest"}],
        "partitions": [partition],
        "partition_states": [state | {"partition_epoch": 0, "isr": _NODES, "replicas": _NODES, "unclean": False}],
        "replica_snapshots": [place | snapshot | {"snapshot": node, "node": node, "time_ns": 10**9} for node in _NODES],
        "replica_log": [
            place
            | {"snapshot": node, "node": node, "partition_id": 0, "offset": offset, "leader_epoch": 0, "value": value}
            for node in _NODES
            for offset, value in kept.items()
        ],
    }


def _sends() -> list[dict[str, Any]]:
    return [
        {
            "kind": KIND_SEND,
            "status": STATUS_INFO if offset == _UNKNOWN else STATUS_OK,
            "acks": -1,
            "operation": offset,
            "process": 1,
            "topic": "t",
            "partition": 0,
            "partition_id": 0,
            "position": 0,
            "offset": None if offset == _UNKNOWN else offset,
            "value": offset,
            "invoked_ns": 1000 * offset,
            "completed_ns": _ANSWERED_LATE_NS.get(offset, 1000 * offset + 500),
            "error": "TimeoutError" if offset == _UNKNOWN else None,
        }
        for offset in range(_RECORDS)
    ]


def _reads(kind: int, process: int, values: Mapping[int, int]) -> list[dict[str, Any]]:
    """By offset the values that one poll returned."""
    offsets = list(values)
    return [
        {
            "kind": kind,
            "status": STATUS_OK,
            "operation": _RECORDS + process,
            "process": process,
            "assignment": 0,
            "topic": "t",
            "partition": 0,
            "partition_id": 0,
            "position": i,
            "offset": offset,
            "offset_step": offset - offsets[i - 1] if i else None,
            "last_of_poll": i == len(offsets) - 1,
            "leader_epoch": 0,
            "value": values[offset],
            "invoked_ns": 10**6 * process,
            "completed_ns": 10**6 * process + 500,
            "timestamp_ms": process,
        }
        for i, offset in enumerate(offsets)
    ]
