"""The real thing: four processes from configuration files, and an unmodified kafka-python (idempotent, acks=all)."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError

from reference_impl.runtime.loopback import address, free_port

BROKERS = (1, 2, 3)


class Processes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        everywhere = [address(node) for node in (10, 11, 12, 13)]
        self.coordination_port, self.internal_port, self.client_port = (free_port(*everywhere) for _ in range(3))
        self.bootstrap = [f"{address(10 + node)}:{self.client_port}" for node in BROKERS]
        names = [f"{address(10)} node0", *(f"{address(10 + node)} node{node}" for node in BROKERS)]
        (folder / "hosts").write_text("\n".join(names) + "\n")

    def start_coordination(self) -> None:
        path = self.folder / "zoo.cfg"
        path.write_text(
            f"dataDir={self.folder}/zookeeper\nclientPort={self.coordination_port}\n"
            f"clientPortAddress={address(10)}\nminSessionTimeout=500\n"
        )
        self._start(0, "coordination", "--config", str(path))

    def start_broker(self, node: int) -> None:
        path = self.folder / f"server{node}.properties"
        host = address(10 + node)
        path.write_text(
            f"broker.id={node}\n"
            f"listeners=INTERNAL://{host}:{self.internal_port},CLIENT1://{host}:{self.client_port}\n"
            f"advertised.listeners=INTERNAL://node{node}:{self.internal_port},CLIENT1://{host}:{self.client_port}\n"
            f"inter.broker.listener.name=INTERNAL\nlog.dirs={self.folder}/{node}/data\n"
            f"zookeeper.connect=node0:{self.coordination_port}\nzookeeper.session.timeout.ms=1500\n"
            "replica.lag.time.max.ms=1500\nreplica.fetch.backoff.ms=100\nreplica.socket.timeout.ms=1000\n"
            "min.insync.replicas=2\ncontroller.socket.timeout.ms=3000\n"
        )
        self._start(node, "broker", "--config", str(path), "--hosts", str(self.folder / "hosts"))

    def _start(self, node: int, *arguments: str) -> None:
        with (self.folder / f"{node}.log").open("ab") as log:
            self.running[node] = subprocess.Popen([sys.executable, "-m", "reference_impl", *arguments], stderr=log)

    def end(self, node: int, number: int = signal.SIGKILL) -> int:
        process = self.running.pop(node)
        process.send_signal(number)
        return process.wait(20)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    try:
        made.start_coordination()
        for node in BROKERS:
            made.start_broker(node)
        until(lambda: broker_count(made) == 3)
        yield made
    finally:
        for node in list(made.running):
            made.end(node)


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come about in time"
        time.sleep(0.05)


def broker_count(processes: Processes) -> int:
    try:
        admin = KafkaAdminClient(bootstrap_servers=processes.bootstrap, request_timeout_ms=2000)
    except KafkaError:
        return 0
    try:
        return len(admin.describe_cluster()["brokers"])
    finally:
        admin.close()


def read_values(processes: Processes, topic: str, end: int) -> list[bytes]:
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=processes.bootstrap, enable_auto_commit=False)
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        until(lambda: consumer.end_offsets([partition])[partition] >= end)
        values: list[bytes] = []
        while len(values) < end:
            for records in consumer.poll(timeout_ms=1000).values():
                values += [record.value for record in records]
        return values
    finally:
        consumer.close()


def test_a_round_trip_a_killed_leader_and_a_clean_stop(processes: Processes) -> None:
    admin = KafkaAdminClient(bootstrap_servers=processes.bootstrap)
    admin.create_topics([NewTopic("orders", -1, -1, replica_assignments={0: [2, 3, 1]})])
    producer = KafkaProducer(bootstrap_servers=processes.bootstrap, request_timeout_ms=5000, retry_backoff_ms=50)
    first = [producer.send("orders", b"%06d" % number, partition=0) for number in range(500)]
    assert [future.get(20).offset for future in first] == list(range(500))

    processes.end(2)
    second = [producer.send("orders", b"%06d" % number, partition=0) for number in range(500, 1000)]
    assert [future.get(30).offset for future in second] == list(range(500, 1000))
    assert read_values(processes, "orders", 1000) == [b"%06d" % number for number in range(1000)]

    processes.start_broker(2)
    until(lambda: sorted(admin.describe_topics(["orders"])[0]["partitions"][0]["isr_nodes"]) == [1, 2, 3])
    assert processes.end(3, signal.SIGTERM) == 0
    assert (processes.folder / "3" / "data" / ".kafka_cleanshutdown").exists()
    assert producer.send("orders", b"last", partition=0).get(20).offset == 1000
    producer.close()
    admin.close()


def test_a_paused_leader_comes_back_as_a_follower_with_nothing_lost(processes: Processes) -> None:
    """It wakes as a zombie: its session has expired, its partition is led elsewhere, it must register anew."""
    admin = KafkaAdminClient(bootstrap_servers=processes.bootstrap)
    admin.create_topics([NewTopic("orders", -1, -1, replica_assignments={0: [2, 3, 1]})])
    producer = KafkaProducer(bootstrap_servers=processes.bootstrap, request_timeout_ms=1500, retry_backoff_ms=50)
    for number in range(100):
        producer.send("orders", b"%06d" % number, partition=0)
    producer.flush(20)
    processes.running[2].send_signal(signal.SIGSTOP)
    during = [producer.send("orders", b"%06d" % number, partition=0) for number in range(100, 200)]
    assert [future.get(30).offset for future in during] == list(range(100, 200))
    processes.running[2].send_signal(signal.SIGCONT)

    def isr() -> list[int]:
        return sorted(admin.describe_topics(["orders"])[0]["partitions"][0]["isr_nodes"])

    until(lambda: isr() == [1, 2, 3])
    assert read_values(processes, "orders", 200) == [b"%06d" % number for number in range(200)]
    producer.close()
    admin.close()


def test_the_coordination_service_may_die_and_return(processes: Processes) -> None:
    admin = KafkaAdminClient(bootstrap_servers=processes.bootstrap)
    admin.create_topics([NewTopic("orders", -1, -1, replica_assignments={0: [2, 3, 1]})])
    producer = KafkaProducer(bootstrap_servers=processes.bootstrap, request_timeout_ms=1500, retry_backoff_ms=50)
    assert producer.send("orders", b"before", partition=0).get(20).offset == 0
    processes.end(0)
    assert producer.send("orders", b"without", partition=0).get(20).offset == 1
    processes.start_coordination()
    until(lambda: broker_count(processes) == 3)
    processes.end(2)
    assert producer.send("orders", b"after", partition=0).get(30).offset == 2
    assert read_values(processes, "orders", 3) == [b"before", b"without", b"after"]
    producer.close()
    admin.close()


def test_a_bad_configuration_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("broker.id=one\n")
    ended = subprocess.run(
        [sys.executable, "-m", "reference_impl", "broker", "--config", str(path)],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert f"{path}: broker.id=one" in ended.stderr
