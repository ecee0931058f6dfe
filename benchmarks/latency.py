"""How long acks=all takes at a steady rate: `python benchmarks/latency.py [--partitions N]... [--system S]...`.

The systems take turns, each with a cluster of its own in the local world for each number of partitions: three brokers,
RF 3, min ISR 2, 100-byte values, 200 records a second spread over all partitions, each sent on its own (linger 0) by
confluent-kafka. It reports the median and the 99th percentile from the call to the acknowledgement, in ms, as medians
of the turns, with each system's ratio to the last one. Records of the first seconds do not count.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.needed import need
from benchmarks.systems import PATIENCE_S, SYSTEMS, VALUE, Run, as_json, summaries, table, turns
from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import RunOwnership
from harness.host.clock import SystemClock
from harness.host.scratch import scratch_folder
from harness.ports.cluster import ClientId, TopicDefinition
from harness.scenario.model import ClusterSpec

PARTITIONS = (3, 300)
RECORDS_A_SECOND = 200
WARM_UP_S = 5
TOPIC = "load"


def latencies_ms(bootstrap: str, partitions: int, seconds: float) -> list[float]:
    """Of every record but those of the warm-up."""
    from confluent_kafka import Producer  # an extra: main has seen that it is there

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    found: list[float] = []
    failed: list[object] = []

    def send(number: int, *, counts: bool) -> None:
        began = time.perf_counter()

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)
            elif counts:
                found.append((time.perf_counter() - began) * 1000)

        producer.produce(TOPIC, VALUE, partition=number % partitions, on_delivery=delivered)

    for partition in range(partitions):  # each leader is known and connected before the clock runs
        send(partition, counts=False)
    producer.flush(PATIENCE_S)
    began, count = time.perf_counter(), int((WARM_UP_S + seconds) * RECORDS_A_SECOND)
    for number in range(count):
        due = began + number / RECORDS_A_SECOND
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
        send(number, counts=number >= WARM_UP_S * RECORDS_A_SECOND)
    producer.flush(PATIENCE_S)
    assert not failed, f"every record is acknowledged, but: {failed[:3]}"
    return found


async def measure(system: str, partitions: Sequence[int], seconds: float) -> Run:
    results: dict[str, float] = {}
    for number in partitions:
        with scratch_folder("kafka-chaos-benchmark-") as folder, RunOwnership(Path(folder)):
            spec = ClusterSpec(system=system)
            cluster = LocalCluster(run_path=Path(folder), system=system_of(spec), client_links=1, clock=SystemClock())
            try:
                await cluster.start()
                settings = {"min.insync.replicas": "2"}
                topic = TopicDefinition(name=TOPIC, partitions=number, replication_factor=3, settings=settings)
                await cluster.create_topics([topic])
                found = await asyncio.to_thread(latencies_ms, cluster.bootstrap(ClientId(1)), number, seconds)
            finally:
                await cluster.stop()
        results[f"{number} partitions, median ms"] = statistics.median(found)
        results[f"{number} partitions, p99 ms"] = statistics.quantiles(found, n=100)[98]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", action="append", help=f"may be given again and again; else {' and '.join(SYSTEMS)}")
    parser.add_argument("--partitions", action="append", type=int, help=f"again and again; else {PARTITIONS}")
    parser.add_argument("--seconds", type=float, default=20, help="that count, of each turn")
    parser.add_argument("--repeat", type=int, default=3, help="turns of each system")
    parser.add_argument("--json", action="store_true", help="every value as JSON on standard output, no table")
    options = parser.parse_args()
    need("confluent_kafka")
    runs = [
        (system, asyncio.run(measure(system, options.partitions or PARTITIONS, options.seconds)))
        for system in turns(options.system or SYSTEMS, options.repeat)
    ]
    found = summaries(runs)
    print(as_json(found) if options.json else table(found))


if __name__ == "__main__":
    main()
