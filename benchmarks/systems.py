"""Two systems or more side by side: start-up to the first acknowledged record, throughput, memory.

`python benchmarks/systems.py [--system S]... [--repeat 3] [--json]`: the systems take turns, each time with a cluster
of its own in the local world: three brokers, RF 3, acks=all, min ISR 2, three partitions, 100-byte values, the clients
behind their links as in a run. Reported are medians, the least and the most, and each system's ratio to the last one.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaProducer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.needed import need
from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import RunOwnership, processes_of
from harness.host.clock import SystemClock
from harness.host.scratch import scratch_folder
from harness.ports.cluster import ClientId, TopicDefinition
from harness.scenario.model import ClusterSpec

SYSTEMS = ("reference", "kafka:4.3.1")
VALUE = b"x" * 100
PARTITIONS = 3
TOPIC = TopicDefinition(name="load", partitions=PARTITIONS, replication_factor=3, settings={"min.insync.replicas": "2"})
PATIENCE_S = 60
START, RSS_START, RSS_LOAD = "start to first acknowledged record, s", "memory after start, MB", "memory after load, MB"
Run = Mapping[str, float]


# ---- what is measured -----------------------------------------------------------------------------------------------


def first_acknowledged(bootstrap: str) -> float:
    """When a new client's first record was acknowledged, on the clock of time.perf_counter."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    producer.send(TOPIC.name, VALUE, partition=0).get(PATIENCE_S)
    acknowledged = time.perf_counter()
    producer.close()
    return acknowledged


def through_kafka_python(bootstrap: str, count: int) -> float:
    """Records per second with the client's defaults (it is idempotent), linger 5 ms."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    producer.send(TOPIC.name, VALUE, partition=0).get(PATIENCE_S)
    began = time.perf_counter()
    futures = [producer.send(TOPIC.name, VALUE, partition=number % PARTITIONS) for number in range(count)]
    producer.flush(PATIENCE_S)
    seconds = time.perf_counter() - began
    assert all(future.succeeded() for future in futures), "every record is acknowledged"
    producer.close()
    return count / seconds


def through_confluent_kafka(bootstrap: str, count: int, settings: Mapping[str, str] | None = None) -> float:
    """Records per second with the client's defaults (linger 5 ms), but for `settings`."""
    from confluent_kafka import Producer  # an extra: main has seen that it is there

    own = {"bootstrap.servers": bootstrap, "acks": "all", "queue.buffering.max.messages": count + 1}
    producer = Producer({**own, **(settings or {})})
    acknowledged = 0

    def delivered(error: object, _: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer.produce(TOPIC.name, VALUE, partition=0, on_delivery=delivered)
    producer.flush(PATIENCE_S)
    began = time.perf_counter()
    for number in range(count):
        producer.produce(TOPIC.name, VALUE, partition=number % PARTITIONS, on_delivery=delivered)
        producer.poll(0)
    producer.flush(PATIENCE_S)
    seconds = time.perf_counter() - began
    assert acknowledged == count + 1, "every record is acknowledged"
    return count / seconds


@dataclass(frozen=True, kw_only=True)
class Load:
    """One client's: `warm_up` records that do not count, then `count` that do."""

    client: str
    send: Callable[[str, int], float]
    warm_up: int
    count: int

    @property
    def title(self) -> str:
        return f"{self.client}, records/s"


LOADS = (
    Load(client="kafka-python", send=through_kafka_python, warm_up=10_000, count=60_000),
    Load(client="confluent-kafka", send=through_confluent_kafka, warm_up=100_000, count=600_000),
)


async def measure(system: str, loads: Sequence[Load] = LOADS) -> Run:
    """One cluster's life."""
    seen: dict[str, float] = {}
    with scratch_folder("kafka-chaos-benchmark-") as folder, RunOwnership(Path(folder)):
        spec = ClusterSpec(system=system)
        cluster = LocalCluster(run_path=Path(folder), system=system_of(spec), client_links=1, clock=SystemClock())
        began = time.perf_counter()
        try:
            await cluster.start()
            await cluster.create_topics([TOPIC])
            bootstrap = cluster.bootstrap(ClientId(1))
            seen[START] = await asyncio.to_thread(first_acknowledged, bootstrap) - began
            seen[RSS_START] = memory_mb(node_processes(Path(folder)))
            for load in loads:
                await asyncio.to_thread(load.send, bootstrap, load.warm_up)
                seen[load.title] = await asyncio.to_thread(load.send, bootstrap, load.count)
            seen[RSS_LOAD] = memory_mb(node_processes(Path(folder)))
        finally:
            await cluster.stop()
    return seen


def node_processes(run: Path) -> Iterator[int]:
    """Brokers, controllers and coordination services; the link fabric is no part of a system."""
    for pid in processes_of(run):
        if b"harness.cluster.local.fabric" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            yield pid


def memory_mb(pids: Iterator[int]) -> float:
    """Resident memory in all; what processes share counts once for each of them."""
    return sum(_resident_kib(Path(f"/proc/{pid}/status").read_text(encoding="ascii")) for pid in pids) * 1024 / 1e6


def _resident_kib(status: str) -> int:
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)


# ---- what is reported ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One measure of one system."""

    system: str
    measure: str
    values: tuple[float, ...]  # in the order of the turns

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def ratio_to(self, other: "Summary") -> float:
        return self.median / other.median


def turns(systems: Sequence[str], repeat: int) -> list[str]:
    """A B A B A B: what disturbs the machine for a while disturbs all."""
    return [system for _ in range(repeat) for system in systems]


def summaries(runs: Sequence[tuple[str, Run]]) -> list[Summary]:
    """Measure by measure, the systems of each side by side."""
    systems = list(dict.fromkeys(system for system, _ in runs))
    measures = list(dict.fromkeys(name for _, run in runs for name in run))
    return [
        Summary(system=system, measure=name, values=tuple(run[name] for of, run in runs if of == system))
        for name in measures
        for system in systems
    ]


def table(found: Sequence[Summary]) -> str:
    last = found[-1].system
    lines = [f"{'':<38} {'system':<14} {'median':>9} {'least':>9} {'most':>9} {'to ' + last:>15}"]
    for each in found:
        other = next(one for one in found if one.system == last and one.measure == each.measure)
        ratio = "" if each is other else f"{each.ratio_to(other):.2f}"
        numbers = " ".join(f"{_rounded(value):>9}" for value in (each.median, min(each.values), max(each.values)))
        lines.append(f"{each.measure:<38} {each.system:<14} {numbers} {ratio:>15}".rstrip())
    return "\n".join(lines)


def as_json(found: Sequence[Summary]) -> str:
    last = found[-1].system
    systems: dict[str, dict[str, object]] = {}
    for each in found:
        other = next(one for one in found if one.system == last and one.measure == each.measure)
        systems.setdefault(each.measure, {})[each.system] = {
            "median": each.median,
            "values": list(each.values),
            f"ratio_to_{last}": each.ratio_to(other),
        }
    return json.dumps(systems, indent=1)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", action="append", help=f"may be given again and again; else {' and '.join(SYSTEMS)}")
    parser.add_argument("--repeat", type=int, default=3, help="turns of each system")
    parser.add_argument("--json", action="store_true", help="every value as JSON on standard output, no table")
    options = parser.parse_args()
    need("confluent_kafka")
    runs = []
    for system in turns(options.system or SYSTEMS, options.repeat):
        run = asyncio.run(measure(system))
        runs.append((system, run))
        print(f"{system}: {', '.join(f'{name} {_rounded(value)}' for name, value in run.items())}", file=sys.stderr)
    found = summaries(runs)
    print(as_json(found) if options.json else table(found))


if __name__ == "__main__":
    main()
