"""Synthetic run folders for benchmarks, as a run would have left them: journals, the controller's rows, replica logs.

Producers send one record an operation, consumers follow the log in polls of 25 and start over from the beginning as
often as it takes, the final read goes over it once more, and three replicas end with the same log.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.history.facts import values
from harness.history.files_below import FilesBelow
from harness.history.journals.controller_rows import BOOKS, write_snapshot
from harness.history.journals.journal import Assigned, Declare, Invoke, JournalFile, Part, Read, Sent
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.scenario.file import parse

TOPIC, PARTITIONS, PRODUCERS, CONSUMERS, POLL = "t", 4, 4, 8, 25
STEP_NS, RETURN_NS, ANSWER_NS = 200_000, 20_000, 2_000_000
SCENARIO = f"""# A synthetic history: every record acknowledged, read again and again, and read back in the end.
[[topics]]
name = "{TOPIC}"
partitions = {PARTITIONS}
"""
_LINES_AT_ONCE = 5_000


@dataclass(frozen=True, kw_only=True)
class Written:
    reads: int
    rows: int
    operations: int
    journal_bytes: int


@dataclass(frozen=True, kw_only=True)
class Log:
    """What one partition's log holds in the end, and when each record was acknowledged. end: the offset behind it."""

    partition: int
    offsets: Any
    end: int
    values: Any
    time_ns: Any


def new_run(folder: Path, *, seed: int) -> RunFolder:
    run = RunFolder.create(folder.parent, scenario="synthetic", clock=SystemClock(), seed=seed, stamp=folder.name)
    run.path.rename(folder)
    run = RunFolder(folder)
    run.write_scenario(SCENARIO, source=parse(SCENARIO, name="synthetic", place="benchmark").source)
    return run


def write_run(folder: Path, reads: int, *, reads_per_send: int = 25, hot: bool = False, seed: int = 1) -> Written:
    """A run whose consumers and final read read `reads` records in all (or a few less: whole passes)."""
    sends = max(1, reads // reads_per_send)
    run = new_run(folder, seed=seed)
    chance = np.random.default_rng(seed)
    weights = [0.8] + [0.2 / (PARTITIONS - 1)] * (PARTITIONS - 1) if hot else [1 / PARTITIONS] * PARTITIONS
    part = chance.choice(PARTITIONS, sends, p=weights)
    began = STEP_NS * np.arange(sends, dtype=np.int64) + 10**9
    answered = began + ANSWER_NS
    producer = np.arange(sends) % PRODUCERS
    numbers = (producer.astype(np.int64) << values.SEQUENCE_BITS) | (np.arange(sends) // PRODUCERS)
    logs, offsets = [], np.empty(sends, np.int64)
    for number in range(PARTITIONS):
        rows = np.flatnonzero(part == number)
        offsets[rows] = np.arange(len(rows))
        logs.append(
            Log(
                partition=number,
                offsets=offsets[rows],
                end=len(rows),
                values=numbers[rows],
                time_ns=answered[rows],
            )
        )
    operations = sends
    for number in range(PRODUCERS):
        rows = np.flatnonzero(producer == number)
        _write_sends(run, number, part[rows], offsets[rows], numbers[rows], began[rows], answered[rows])
    passes = reads_per_send - 1
    for consumer in range(min(CONSUMERS, passes)):
        own = passes // CONSUMERS + (consumer < passes % CONSUMERS)
        operations += _write_reads(run, f"consumer-{consumer}", 10 + consumer, "poll", logs, passes=own)
    operations += _write_reads(run, "final-read", 50, "final_poll", logs, passes=1)
    write_cluster(run, logs)
    run.update(status="complete")
    size = sum(path.stat().st_size for path in run.history.glob("*.jsonl"))
    return Written(
        reads=sends * reads_per_send, rows=sends * (1 + reads_per_send), operations=operations, journal_bytes=size
    )


def _journal(run: RunFolder, name: str, process: int) -> JournalFile:
    journal = JournalFile(run.history / f"{name}.jsonl", worker=name, clock=SystemClock())
    journal.begin_process(process, client=name, acks="all")
    for part in range(PARTITIONS):
        journal._write(Declare(part, TOPIC, part))
    return journal


def _write_sends(
    run: RunFolder, number: int, partition: Any, offsets: Any, sent: Any, began: Any, answered: Any
) -> None:
    def lines() -> Iterator[Any]:
        columns = zip(
            partition.tolist(), offsets.tolist(), sent.tolist(), began.tolist(), answered.tolist(), strict=True
        )
        for operation, (partition_id, offset, value, invoked_ns, completed_ns) in enumerate(columns, start=1):
            yield Invoke(operation, "send", invoked_ns, [partition_id], [value], [])
            returned = [invoked_ns + RETURN_NS]
            yield Sent(operation, completed_ns, [0], [offset], [None], [invoked_ns], [completed_ns], [], returned)

    _write_lines(_journal(run, f"producer-{number}", number), lines())


def _write_reads(run: RunFolder, name: str, process: int, f: str, logs: list[Log], *, passes: int) -> int:
    span = max(int(log.time_ns[-1]) for log in logs if len(log.time_ns))
    batches = sorted(
        (int(log.time_ns[min(first + POLL, len(log.time_ns)) - 1]), log.partition, first)
        for log in logs
        for first in range(0, len(log.time_ns), POLL)
    )
    late = span * 4 if f == "final_poll" else 0

    def lines() -> Iterator[Any]:
        operation = answered = 0
        for again in range(passes):
            yield Assigned(late + again * span, list(range(PARTITIONS)))
            for t, part, first in batches:
                operation += 1
                t = max(t + late + again * span + process * 1_000, answered)
                answered = t + ANSWER_NS
                read = logs[part].values[first : first + POLL].tolist()
                yield Invoke(operation, f, t, [], [], [])
                block = Part(part, list(range(first, first + len(read))), [0], read, [])
                yield Read(operation, answered, [block], None)

    _write_lines(_journal(run, name, process), lines())
    return passes * len(batches)


def _write_lines(journal: JournalFile, lines: Iterator[Any]) -> None:
    """Line by line as the journal itself would, only with fewer calls of the system."""
    from harness.history.journals.journal import _ENCODER

    waiting: list[bytes] = []
    for line in lines:
        waiting.append(_ENCODER.encode(line))
        journal._lines += 1
        if len(waiting) >= _LINES_AT_ONCE:
            os.write(journal._file, b"\n".join(waiting) + b"\n")
            waiting.clear()
    os.write(journal._file, b"".join(line + b"\n" for line in waiting))
    journal.close()


def write_cluster(run: RunFolder, logs: list[Log]) -> None:
    """The controller's rows and, beside them, what the three replicas' disks held in the end."""
    import msgspec

    nodes = [1, 2, 3]
    rows: list[tuple[str, dict[str, Any]]] = []
    snapshot = 0
    (run.history / BOOKS).mkdir(exist_ok=True)
    for log in logs:
        end = log.end
        place = {"run": 0, "topic": TOPIC, "partition": log.partition}
        rows.append(
            ("partitions", place | {"replicas": nodes, "read_to_end": True, "end_offset": end, "note_text": ""})
        )
        state = {"time_ns": 1, "uncertainty_ns": 0, "exact": True, "observer": -1, "leader": 1, "leader_epoch": 0}
        rest = {"partition_epoch": 0, "controller_epoch": 1, "isr": nodes, "unclean": False, "replicas": nodes}
        rows.append(("partition_states", place | state | rest))
        for node in nodes:
            write_snapshot(
                FilesBelow(run.history),
                run=0,
                snapshot=snapshot,
                node=node,
                topic=TOPIC,
                partition=log.partition,
                offsets=log.offsets.tolist(),
                epochs=[0] * len(log.values),
                values=log.values,
            )
            taken = {"snapshot": snapshot, "node": node, "time_ns": 2**61, "reason": "end", "log_start_offset": 0}
            rows.append(
                (
                    "replica_snapshots",
                    place | taken | {"high_watermark": end, "log_end_offset": end, "leader_epochs": "0:0"},
                )
            )
            snapshot += 1
    text = b"".join(msgspec.json.encode({"table": table, "row": row}) + b"\n" for table, row in rows)
    (run.history / "controller.jsonl").write_bytes(text)


def write_many(place: Path, count: int) -> Path:
    """`count` small sealed run folders of about a hundred records each."""
    from harness.history.sealed.sealing import seal

    for number in range(count):
        folder = place / f"run-{number:05d}"
        write_run(folder, 80, reads_per_send=4, seed=number)
        seal(RunFolder(folder))
    return place
