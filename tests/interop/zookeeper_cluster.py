"""The reference's brokers on a real ZooKeeper, the one of Kafka 3.9.1, and clients that know each value's offset."""

import socket
from collections.abc import Sequence
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaConnectionError, NodeNotReadyError, TopicAlreadyExistsError, UnknownBrokerIdError

from harness.cluster.brokers.kafka_jars import KafkaHome
from tests.interop.kafka_tools import java_command
from tests.loopback import address
from tests.reference_impl.runtime.broker_processes import BROKERS, COORDINATION, Processes
from tests.waiting import until

SLOW_MACHINE_S = 40.0


class WithRealZookeeper(Processes):
    def __init__(self, folder: Path, home: KafkaHome) -> None:
        super().__init__(folder)
        self.home = home

    def start_coordination(self) -> None:
        """Short ticks: a session may be as short as two of them."""
        path = self.folder / "zoo.cfg"
        path.write_text(
            f"dataDir={self.folder}/zookeeper\nclientPort={self.coordination_port}\n"
            f"clientPortAddress={address(COORDINATION)}\ntickTime=500\nadmin.enableServer=false\n"
        )
        self._start(COORDINATION, java_command(self.home, self.home.version.zookeeper_main, str(path)))

    def zookeeper_version(self) -> str:
        """Its own word (the four-letter command `srvr`)."""
        with socket.create_connection((address(COORDINATION), self.coordination_port), timeout=10) as connection:
            connection.sendall(b"srvr")
            said = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        return said.partition("\n")[0]

    def start_kafka(self, node: int) -> None:
        """Apache Kafka in a reference broker's place: its id, its data directory, its address."""
        path, address_of = self.folder / f"kafka{node}.properties", f"{address(10 + node)}:{self.client_port}"
        path.write_text(
            f"broker.id={node}\nlisteners=PLAINTEXT://{address_of}\nlog.dirs={self.data(node)}\n"
            f"zookeeper.connect={address(COORDINATION)}:{self.coordination_port}\nlog.cleaner.enable=false\n"
            "min.insync.replicas=1\ncontrolled.shutdown.enable=false\n"
        )
        self._start(node, java_command(self.home, "kafka.Kafka", str(path)))
        until(lambda: self._kafka_serves(node), f"Kafka {node} is registered and listens", timeout_s=2 * SLOW_MACHINE_S)

    def _kafka_serves(self, node: int) -> bool:
        """Kafka opens its port only some time after it is registered: a client refused meanwhile would wait ever longer
        between its tries, up to half a minute, and give up."""
        assert self.running[node].poll() is None, (self.folder / f"{node}.log").read_text(errors="replace")[-4000:]
        registered = self.znode(f"/brokers/ids/{node}")
        if registered is None or not registered["endpoints"][0].startswith("PLAINTEXT"):
            return False
        with socket.socket() as connection:
            return connection.connect_ex((address(10 + node), self.client_port)) == 0


def create(cluster: Processes, topic: str, replicas: Sequence[int]) -> None:
    until(lambda: _created(cluster, NewTopic(topic, -1, -1, replica_assignments={0: list(replicas)})))


def _created(cluster: Processes, topic: NewTopic) -> bool:
    """Brokers may still name a controller that was killed just now: the client does not reach it, does not find it
    among the brokers, or is told twice that another one is it (RuntimeError)."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        admin.create_topics([topic])
    except (KafkaConnectionError, NodeNotReadyError, UnknownBrokerIdError, RuntimeError):
        return False
    except TopicAlreadyExistsError:
        return True  # by a request of which only the answer was lost
    finally:
        admin.close()
    return True


def write(producer: KafkaProducer, topic: str, numbers: range) -> None:
    """Values that are their offsets."""
    sent = [producer.send(topic, b"%d" % number, partition=0) for number in numbers]
    assert [future.get(SLOW_MACHINE_S).offset for future in sent] == list(numbers)


def read(cluster: Processes, topic: str, end: int) -> list[bytes]:
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, enable_auto_commit=False)
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


def all_in_sync(cluster: Processes, topic: str) -> None:
    until(lambda: sorted(cluster.state(topic)["isr"]) == list(BROKERS), timeout_s=SLOW_MACHINE_S)
