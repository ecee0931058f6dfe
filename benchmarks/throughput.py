"""Records per second through the reference cluster, RF 3, acks=all, and the time to the first acknowledgement.

`python benchmarks/throughput.py [--repeat 3]`: starts a cluster of its own for each repetition and prints medians.
Clients go through their links, as in a run.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from kafka import KafkaProducer

from harness.clock import SystemClock
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import RunOwnership
from harness.interfaces import ClientId, TopicDefinition
from harness.scenario import ClusterSpec

VALUE = b"x" * 100
TOPIC = TopicDefinition(name="load", partitions=3, replication_factor=3, settings={"min.insync.replicas": "2"})


def through_kafka_python(bootstrap: str, count: int) -> float:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    producer.send("load", VALUE, partition=0).get(10)
    began = time.perf_counter()
    futures = [producer.send("load", VALUE, partition=number % 3) for number in range(count)]
    producer.flush()
    seconds = time.perf_counter() - began
    assert all(future.succeeded() for future in futures)
    producer.close()
    return count / seconds


def through_confluent_kafka(bootstrap: str, count: int) -> float:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "queue.buffering.max.messages": count + 1})
    acknowledged = 0

    def delivered(error: object, _: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    began = time.perf_counter()
    for number in range(count):
        producer.produce("load", VALUE, partition=number % 3, on_delivery=delivered)
        producer.poll(0)
    producer.flush(60)
    seconds = time.perf_counter() - began
    assert acknowledged == count
    return count / seconds


async def measure(count: int) -> dict[str, float]:
    seen: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, RunOwnership(Path(folder)):
        cluster = LocalCluster(run_path=Path(folder), spec=ClusterSpec(), client_links=2, clock=SystemClock())
        began = time.perf_counter()
        try:
            await cluster.start()
            await cluster.create_topics([TOPIC])
            await asyncio.to_thread(through_kafka_python, cluster.bootstrap(ClientId(1)), 1)
            seen["start to first acknowledged record, s"] = time.perf_counter() - began
            clients: dict[str, Callable[[str, int], float]] = {
                "kafka-python, records/s": through_kafka_python,
                "confluent-kafka, records/s": through_confluent_kafka,
            }
            for number, (name, send) in enumerate(clients.items(), 1):
                seen[name] = await asyncio.to_thread(send, cluster.bootstrap(ClientId(number)), count)
        finally:
            await cluster.stop()
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--count", type=int, default=50_000, help="records per client and repetition")
    options = parser.parse_args()
    runs = [asyncio.run(measure(options.count)) for _ in range(options.repeat)]
    for name in runs[0]:
        values = [run[name] for run in runs]
        print(f"{name:<40} median {statistics.median(values):>10.1f}   of {', '.join(f'{v:.1f}' for v in values)}")


if __name__ == "__main__":
    main()
