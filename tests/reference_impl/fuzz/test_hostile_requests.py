"""20,000 hostile requests to every listener of a cluster of processes leave no trace; 300,000 with
`--hypothesis-profile nightly`. A seed determines a run, so a failure can be repeated."""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from tests.loopback import address
from tests.reference_impl.fuzz.hostile import LOOKED_AT, PARTITIONS, STRUCK, Hostile
from tests.reference_impl.runtime.broker_processes import BROKERS, COORDINATION, Processes, running
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NIGHTLY = settings.get_current_profile_name() == "nightly"
REQUESTS = 300_000 if NIGHTLY else 20_000
SEED = 20_261_122
KEPT = "kept"  # a topic that no hostile request names
AT_ONCE = 16
PATIENCE_S = 0.05  # of a hostile client that wants an answer: a request may lawfully wait for days
GROWTH_MAX_MB = 32
ASKED = 2 * (len(BROKERS) - 1)  # a broker keeps one connection to each other one for verifying transactions (R86)
UNFORESEEN = re.compile(r"Traceback|handler failed|never retrieved|CRITICAL|timer \S+ failed|fetching from .* failed")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    with running(Processes(tmp_path)) as made:
        yield made


def produce(cluster: Processes, values: list[bytes]) -> list[int]:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    try:
        futures = [producer.send(KEPT, value, partition=0) for value in values]
        return [future.get(30).offset for future in futures]
    finally:
        producer.close()


def consume(cluster: Processes, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", group_id=None)
    try:
        consumer.assign([TopicPartition(KEPT, 0)])
        return [next(consumer).value for _ in range(count)]
    finally:
        consumer.close()


def sockets(process: int) -> int:
    return sum(1 for link in Path(f"/proc/{process}/fd").iterdir() if _target(link).startswith("socket:"))


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""


def memory_mb(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024


def of_each(cluster: Processes, measure: Callable[[int], float]) -> dict[int, float]:
    return {node: measure(process.pid) for node, process in cluster.running.items()}


async def strike(cluster: Processes, seeds: Iterable[int]) -> None:
    """To the clients' listener, the brokers' own and the coordination service in turn, each on its own connection."""
    left = iter(seeds)
    doors = [(address(10 + node), port) for node in BROKERS for port in (cluster.client_port, cluster.internal_port)]
    doors += [(address(COORDINATION), cluster.coordination_port)] * len(BROKERS)

    async def keep_striking() -> None:
        for number in left:
            door = doors[number % len(doors)]
            hostile = Hostile(number)
            is_broker = door[1] != cluster.coordination_port
            content = hostile.to_broker() if is_broker else hostile.to_coordination()
            await strike_once(door, content, waits=number % 2 == 0)

    await asyncio.gather(*(keep_striking() for _ in range(AT_ONCE)))


async def heard(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(4), PATIENCE_S) != b""
    except TimeoutError:
        return False


async def strike_once(door: tuple[str, int], content: bytes, *, waits: bool) -> None:
    """Goes away at once, or when it has the beginning of an answer."""
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*door)
        try:
            writer.write(content)
            if waits:
                await heard(reader)
            writer.write_eof()
            while await reader.read(1 << 16):
                pass
        except ConnectionError:
            return  # closed before the end: so it may be
        finally:
            writer.close()


def unforeseen(cluster: Processes, node: int) -> str:
    """The first unexpected failure in the node's log."""
    said = (cluster.folder / f"{node}.log").read_text(encoding="utf-8")
    found = UNFORESEEN.search(said)
    return "" if found is None else said[max(0, found.start() - 300) : found.start() + 4000]


def logs_of(cluster: Processes, partition: str) -> set[bytes]:
    folders = [cluster.data(node) / partition for node in BROKERS]
    return {b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))) for folder in folders}


@pytest.mark.timeout(3600 if NIGHTLY else 1200)
def test_hostile_requests_leave_a_cluster_as_it_was(cluster: Processes) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    led_by_each = {number: [*BROKERS[number:], *BROKERS[:number]] for number in range(PARTITIONS)}
    looked_at = {"message.timestamp.before.max.ms": "86400000"}
    admin.create_topics(
        [
            NewTopic(KEPT, -1, -1, {0: list(BROKERS)}),
            NewTopic(STRUCK, -1, -1, led_by_each),
            NewTopic(LOOKED_AT, -1, -1, led_by_each, topic_configs=looked_at),
        ]
    )
    admin.close()
    before = [b"before-%03d" % number for number in range(200)]
    assert produce(cluster, before) == list(range(200))
    warm_up = REQUESTS // 10  # what the first request of each kind costs is no leak
    asyncio.run(strike(cluster, range(SEED, SEED + warm_up)))
    sockets_then, memory_then = of_each(cluster, sockets), of_each(cluster, memory_mb)

    asyncio.run(strike(cluster, range(SEED + warm_up, SEED + REQUESTS)))

    assert {node: process.poll() for node, process in cluster.running.items()} == dict.fromkeys(cluster.running)
    assert {node: found for node in cluster.running if (found := unforeseen(cluster, node))} == {}
    # In all: a session that ran out meanwhile moves the controller, and its connections with it, to another broker.
    until(
        lambda: sum(of_each(cluster, sockets).values()) <= sum(sockets_then.values()) + ASKED * len(BROKERS),
        lambda: f"as many sockets as at first, {sockets_then}; now {of_each(cluster, sockets)}",
    )
    grown = {node: now - memory_then[node] for node, now in of_each(cluster, memory_mb).items()}
    assert max(grown.values()) < GROWTH_MAX_MB, grown

    after = [b"after-%03d" % number for number in range(200)]
    assert produce(cluster, after) == list(range(200, 400))
    assert consume(cluster, 400) == before + after
    for partition in (f"{KEPT}-0", *(f"{topic}-{n}" for topic in (STRUCK, LOOKED_AT) for n in range(PARTITIONS))):
        until(lambda partition=partition: len(logs_of(cluster, partition)) == 1, f"equal replicas of {partition}")  # type: ignore[misc]
        assert logs_of(cluster, partition) != {b""}
