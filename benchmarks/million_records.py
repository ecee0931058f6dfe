"""History size and check time at a million acknowledged records: `python benchmarks/million_records.py [--count N]`.

Writes the journals of two producers and one consumer as a run would have, seals them, and judges the folder.
"""

import argparse
import tempfile
import time
from pathlib import Path

from harness import compose
from harness.clock import SystemClock
from harness.controller.recorder import Recorder
from harness.history import values
from harness.history.journal import JournalFile
from harness.history.run_folder import RunFolder
from harness.history.sealing import seal
from harness.interfaces import ReadRecord, Send, SendOutcome, TopicPartition
from harness.scenario_file import parse

SCENARIO = """# A synthetic history: every record acknowledged, read by a consumer and read back in the end.
[[topics]]
name = "t"
partitions = 3
"""
BATCH = 200
PARTITIONS = 3


def write_history(folder: RunFolder, count: int) -> None:
    clock = SystemClock()
    ends = [0] * PARTITIONS
    logs: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    producer = JournalFile(folder.history / "producer-1.jsonl", worker="producer-1", clock=clock)
    producer.begin_process(1, client="producer-1", acks="all")
    for first in range(0, count, BATCH):
        records, outcomes = [], []
        for sequence in range(first, min(first + BATCH, count)):
            part = sequence % PARTITIONS
            value = values.encode(1, sequence, 32)
            records.append(Send(topic="t", partition=part, value=value))
            outcomes.append(
                SendOutcome(
                    status="ok", offset=ends[part], error=None, t0_ns=clock.monotonic_ns(), t1_ns=clock.monotonic_ns()
                )
            )
            ends[part] += 1
            logs[part].append(value)
        operation = producer.invoke("send", records)
        producer.complete_send(operation, outcomes)
    producer.close()
    recorder = Recorder(folder=folder.history, clock=clock)
    for part, end in enumerate(ends):
        recorder.partition(topic="t", partition=part, replicas=(1, 2, 3), read_to_end=True, end_offset=end, note="")
    recorder.close()
    for name, f in (("consumer-1", "poll"), ("final-read", "final_poll")):
        _read_all(folder, name, f, logs)


def _read_all(folder: RunFolder, name: str, f: str, logs: list[list[bytes]]) -> None:
    journal = JournalFile(folder.history / f"{name}.jsonl", worker=name, clock=SystemClock())
    journal.begin_process(2 if f == "poll" else 3, client=name, acks="all")
    journal.assigned([TopicPartition(topic="t", partition=part) for part in range(PARTITIONS)])
    for part, log in enumerate(logs):
        for first in range(0, len(log), BATCH):
            operation = journal.invoke(f)
            records = [
                ReadRecord(topic="t", partition=part, offset=first + place, epoch=0, value=value)
                for place, value in enumerate(log[first : first + BATCH])
            ]
            journal.complete_poll(operation, records)
    journal.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        clock = SystemClock()
        folder = RunFolder.create(Path(place), scenario="synthetic", clock=clock, seed=1, stamp="synthetic")
        scenario = parse(SCENARIO, name="synthetic", place="benchmark")
        folder.write_scenario(SCENARIO, source=scenario.source)
        write_history(folder, options.count)
        journals = sum(path.stat().st_size for path in folder.history.glob("*.jsonl"))
        began = time.perf_counter()
        seal(folder)
        folder.update(status="complete")
        sealed = time.perf_counter()
        tables = sum(path.stat().st_size for path in (folder.path / "tables").glob("*.parquet"))
        bench = compose.Bench()
        try:
            judged = bench.judge(folder.path)
        finally:
            bench.close()
        checked = time.perf_counter()
        print(f"records acknowledged  {options.count}")
        print(f"journals              {journals / 1e6:.1f} MB")
        print(f"tables                {tables / 1e6:.1f} MB")
        print(f"sealing               {sealed - began:.1f} s")
        print(f"check, cold JVM, page {checked - sealed:.1f} s: {judged.judgement.sentence}")


if __name__ == "__main__":
    main()
