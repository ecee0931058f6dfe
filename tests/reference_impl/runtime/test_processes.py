"""Four processes from configuration files, with an unmodified kafka-python (idempotent, acks=all)."""

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from tests.reference_impl.runtime.broker_processes import BROKERS, COORDINATION, Processes, running
from tests.waiting import until

pytestmark = pytest.mark.cluster


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with running(Processes(tmp_path)) as made:
        yield made


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


def test_a_restarted_broker_leads_nothing_before_it_is_registered_anew(tmp_path: Path) -> None:
    """Its old registration stands until the session ends, and the controller goes on speaking to the broker that died:
    one that listened would lead with whatever its disk still has."""
    with running(Processes(tmp_path, properties="zookeeper.session.timeout.ms=4000\n")) as processes:
        controller = processes.znode("/controller")["brokerid"]
        leader, stopped = (node for node in BROKERS if node != controller)
        admin = KafkaAdminClient(bootstrap_servers=processes.bootstrap)
        replicas = {0: [leader, stopped, controller]}
        admin.create_topics([NewTopic("orders", -1, -1, replica_assignments=replicas)])
        admin.close()
        until(lambda: processes.events(leader)[-1] == "leadership_start")

        processes.end(leader)
        processes.start_broker(leader)
        until(lambda: processes.events(leader).count("broker_start") == 2)
        assert processes.end(stopped, signal.SIGTERM) == 0, "its replicas leave the ISR, and the leader is to know"
        assert processes.state("orders")["leader"] == leader, "the controller has not seen the leader die"
        until(lambda: processes.events(leader).count("broker_registered") == 2)
        assert processes.events(leader)[-2:] == ["broker_start", "broker_registered"]


def test_a_broker_whose_disk_takes_no_more_halts_and_what_was_acknowledged_stays(processes: Processes) -> None:
    """A limit on the size of its files stands for the full disk: a write is taken in part, and then refused."""
    admin = KafkaAdminClient(bootstrap_servers=processes.bootstrap)
    admin.create_topics([NewTopic("orders", -1, -1, replica_assignments={0: [2, 3, 1]})])
    producer = KafkaProducer(bootstrap_servers=processes.bootstrap, request_timeout_ms=1500, retry_backoff_ms=50)
    assert producer.send("orders", b"first", partition=0).get(20).offset == 0
    leader = processes.running.pop(2)
    resource.prlimit(leader.pid, resource.RLIMIT_FSIZE, (20_000, 20_000))
    values = [b"%06d" % number * 200 for number in range(40)]
    sent = [producer.send("orders", value, partition=0) for value in values]
    assert leader.wait(20) == 1
    assert "broker 2 halts: its only log directory failed" in (processes.folder / "2.log").read_text()
    assert [future.get(30).offset for future in sent] == list(range(1, 41))

    processes.start_broker(2)
    until(lambda: sorted(admin.describe_topics(["orders"])[0]["partitions"][0]["isr_nodes"]) == [1, 2, 3])
    assert read_values(processes, "orders", 41) == [b"first", *values]
    producer.close()
    admin.close()


def test_the_coordination_service_may_die_and_return(processes: Processes) -> None:
    admin = KafkaAdminClient(bootstrap_servers=processes.bootstrap)
    admin.create_topics([NewTopic("orders", -1, -1, replica_assignments={0: [2, 3, 1]})])
    producer = KafkaProducer(bootstrap_servers=processes.bootstrap, request_timeout_ms=1500, retry_backoff_ms=50)
    assert producer.send("orders", b"before", partition=0).get(20).offset == 0
    processes.end(COORDINATION)
    assert producer.send("orders", b"without", partition=0).get(20).offset == 1
    processes.start_coordination()
    until(lambda: processes.broker_count() == 3)
    processes.end(2)
    assert producer.send("orders", b"after", partition=0).get(30).offset == 2
    assert read_values(processes, "orders", 3) == [b"before", b"without", b"after"]
    producer.close()
    admin.close()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("broker.id=one\n", "server.properties: broker.id=one"),
        (
            "broker.id=1\nlisteners=INTERNAL://127.0.0.1:0\nlog.dirs={folder}/data\nzookeeper.connect=127.0.0.1:1\n"
            "chaos.cluster.secret.file={folder}/none\n",
            "none: No such file or directory; name a file with the cluster's secret",
        ),
    ],
)
def test_a_bad_configuration_is_one_line_and_exit_code_2(tmp_path: Path, lines: str, expected: str) -> None:
    path = tmp_path / "server.properties"
    path.write_text(lines.format(folder=tmp_path))
    ended = subprocess.run(
        [sys.executable, "-m", "reference_impl", "broker", "--config", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert expected in ended.stderr
