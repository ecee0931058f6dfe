"""What ruling costs where much went wrong: `python benchmarks/many_partitions.py [--partitions N] [--faults N]`.

Each partition loses a record in each of some unclean elections; faults, steps and polled states are as many as a long
run under a nemesis has. By default 2,000 partitions, 5,000 faults and about 26,000 findings. CPU seconds stand beside
the wall clock because machines are shared; `--profile` shows where this process spent its own.
"""

import argparse
import cProfile
import json
import os
import pstats
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.process_tree import cpu_s, tree_of
from harness.checks.judge import Judgement, RunInput, judge_tables
from harness.checks.spark.session import spark_session
from harness.checks.spark.tables import tables_of
from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_SEND, STATUS_OK, TABLES
from harness.host.scratch import scratch_folder

SECOND = 10**9
NODES = (1, 2, 3)
EPOCH_RECORDS = 5  # acknowledged in an epoch; the next leader never had the last of them
Row = dict[str, Any]


def rows_of(partitions: int, faults: int, elections: int) -> dict[str, list[Row]]:
    length = faults * SECOND
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    rows["faults"] = [
        {
            "fault": number,
            "kind": "kill",
            "label_text": "kill",
            "nodes": [1 + number % 3],
            "asked_ns": number * SECOND,
            "begin_ns": number * SECOND,
            "end_ns": number * SECOND + 3 * SECOND,
            "proved": True,
            "proof_text": "gone",
        }
        for number in range(faults)
    ]
    rows["steps"] = [
        {
            "step": number,
            "kind": "act",
            "text": "kill",
            "invoked_ns": number * SECOND,
            "completed_ns": number * SECOND + SECOND,
            "outcome": "ok",
            "arguments": '{"kill": 1}',
        }
        for number in range(faults)
    ]
    rows["configuration"] = [
        {
            "time_ns": 0,
            "scope": "topic",
            "name": "t",
            "node": -1,
            "key": "unclean.leader.election.enable",
            "value": "true",
        },
        *(
            {
                "time_ns": number * SECOND,
                "scope": "topic",
                "name": "t",
                "node": -1,
                "key": "min.insync.replicas",
                "value": "1",
            }
            for number in range(500)
        ),
    ]
    for part in range(partitions):
        for table, table_rows in _partition(part, elections, length):
            rows[table].append(table_rows)
    return rows


def _partition(partition: int, elections: int, length: int) -> Iterator[tuple[str, Row]]:
    place = {"topic": "t", "partition": partition}
    kept = EPOCH_RECORDS - 1
    yield (
        "partitions",
        place
        | {
            "partition_id": partition,
            "replicas": list(NODES),
            "read_to_end": True,
            "end_offset": elections * kept + kept,
        },
    )
    before: list[int] | None = None
    for epoch in range(elections + 1):
        leader, t = NODES[epoch % 3], (epoch + 1) * length // (elections + 2) + partition
        start = epoch * kept
        state = {
            "uncertainty_ns": 0,
            "exact": True,
            "observer": -1,
            "leader": leader,
            "leader_epoch": epoch,
            "controller_epoch": 1,
            "replicas": list(NODES),
        }
        yield (
            "partition_states",
            place
            | state
            | {
                "time_ns": t,
                "partition_epoch": 2 * epoch,
                "isr": list(NODES),
                "isr_before": before,
                "leader_before": NODES[(epoch - 1) % 3],
                "unclean": epoch > 0,
            },
        )
        yield (
            "partition_states",
            place
            | state
            | {
                "time_ns": t + SECOND,
                "partition_epoch": 2 * epoch + 1,
                "isr": [leader],
                "isr_before": list(NODES),
                "leader_before": leader,
                "unclean": False,
            },
        )
        before = [leader]
        yield (
            "broker_events",
            place
            | {"node": leader, "time_ns": t, "event": "leadership_start", "leader_epoch": epoch, "from_offset": start},
        )
        if epoch:
            yield (
                "broker_events",
                place
                | {
                    "node": NODES[(epoch - 1) % 3],
                    "time_ns": t + 2,
                    "event": "truncation",
                    "leader_epoch": epoch,
                    "from_offset": start + 1,
                    "to_offset": start,
                    "reason_text": "diverging epoch",
                },
            )
        sent = EPOCH_RECORDS if epoch < elections else kept
        for number in range(sent):
            value, offset, invoked_ns = epoch * EPOCH_RECORDS + number, start + number, t + SECOND // 2 + number * 1000
            if number == kept:  # what is lost was acknowledged just before
                invoked_ns = (epoch + 2) * length // (elections + 2) + partition - SECOND
            record = place | {
                "partition_id": partition,
                "offset": offset,
                "value": value,
                "position": 0,
                "status": STATUS_OK,
            }
            yield (
                "records",
                record
                | {
                    "kind": KIND_SEND,
                    "acks": -1,
                    "operation": value,
                    "process": 1,
                    "invoked_ns": invoked_ns,
                    "completed_ns": invoked_ns + 500,
                },
            )
            if number < kept:
                yield (
                    "records",
                    record
                    | {
                        "kind": KIND_FINAL_POLL,
                        "operation": 10**6 + offset,
                        "process": 9,
                        "assignment": 0,
                        "leader_epoch": epoch,
                        "offset_step": None if offset == 0 else 1,
                        "last_of_poll": epoch == elections and number == kept - 1,
                        "invoked_ns": length,
                        "completed_ns": length + 1,
                    },
                )
    epochs = " ".join(f"{epoch}:{epoch * kept}" for epoch in range(elections + 1))
    for node in NODES:
        yield (
            "replica_snapshots",
            place
            | {
                "snapshot": partition * 3 + node,
                "node": node,
                "time_ns": length,
                "reason": "end",
                "log_start_offset": 0,
                "high_watermark": (elections + 1) * kept,
                "log_end_offset": (elections + 1) * kept,
                "leader_epochs": epochs,
            },
        )


def arrow_of(rows: dict[str, list[Row]]) -> dict[str, pa.Table]:
    return {
        name: pa.Table.from_pylist([{"run": 0} | row for row in rows[name]], schema=schema)
        for name, schema in TABLES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--faults", type=int, default=5_000)
    parser.add_argument("--elections", type=int, default=4, help="of each partition: three findings each")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    arrow = arrow_of(rows_of(options.partitions, options.faults, options.elections))
    profile = cProfile.Profile()
    with (
        scratch_folder("kafka-chaos-benchmark-") as folder,
        spark_session(master="local[2]") as spark,
    ):
        tables = tables_of(spark, Path(folder), arrow, 1)
        began, own, whole = time.perf_counter(), time.process_time(), sum(map(cpu_s, tree_of(os.getpid())))
        if options.profile:
            profile.enable()
        ((judgement, _),) = judge_tables(spark, tables, [RunInput(scenario=None)])
        profile.disable()
        results = _counts(judgement) | {
            "partitions": options.partitions,
            "faults": options.faults,
            "seconds": round(time.perf_counter() - began, 1),
            "own_cpu_s": round(time.process_time() - own, 1),
            "cpu_s": round(sum(map(cpu_s, tree_of(os.getpid()))) - whole, 1),
            "load": os.getloadavg()[0],
        }
    if options.profile:
        pstats.Stats(profile, stream=sys.stderr).sort_stats("cumulative").print_stats(45)
    print(json.dumps(results) if options.json else "\n".join(f"{name}: {value}" for name, value in results.items()))


def _counts(judgement: Judgement) -> dict[str, Any]:
    return {"verdict": judgement.verdict.value, "findings": len(judgement.findings), **judgement.counts}


if __name__ == "__main__":
    main()
