"""A broker without free file descriptors has not lost its disk."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from tests.loopback import address
from tests.reference_impl.runtime.broker_processes import Processes, running
from tests.waiting import until

pytestmark = pytest.mark.cluster

LIMITED, LIMIT = 1, 256


class Limited(Processes):
    """Broker 1 may have 256 descriptors; the coordination service and the others as many as this process."""

    def __init__(self, folder: Path, limit: str = f"ulimit -n {LIMIT}") -> None:
        super().__init__(folder)
        self._limit = limit

    def _start(self, node: int, command: list[str]) -> None:
        limited = ["sh", "-c", f'{self._limit} && exec "$@"', "sh", *command]
        super()._start(node, limited if node == LIMITED else command)

    def log(self) -> str:
        return (self.folder / f"{LIMITED}.log").read_text()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Limited]:
    with running(Limited(tmp_path)) as made:
        yield made


@contextmanager
def connections(to: tuple[str, int], count: int) -> Iterator[list[socket.socket]]:
    held = [socket.create_connection(to, timeout=10) for _ in range(count)]
    try:
        yield held
    finally:
        for each in held:
            each.close()


def is_refused(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def create(admin: KafkaAdminClient, name: str, partitions: int) -> None:
    admin.create_topics([NewTopic(name, -1, -1, replica_assignments={key: [LIMITED] for key in range(partitions)})])


def led(processes: Processes, topic: str) -> int:
    folders = (processes.folder / str(LIMITED) / "data").glob(f"{topic}-*/leader-epoch-checkpoint")
    return sum(1 for path in folders if not path.parent.name.endswith("-delete"))


def test_connections_that_the_descriptors_do_not_reach_for_are_refused_and_the_disk_stays(processes: Limited) -> None:
    admin = KafkaAdminClient(bootstrap_servers=processes.bootstrap)
    admin.create_topics([NewTopic("orders", -1, -1, replica_assignments={0: [LIMITED, 2, 3]})])
    producer = KafkaProducer(bootstrap_servers=processes.bootstrap)
    assert producer.send("orders", b"before", partition=0).get(20).offset == 0
    here = (address(10 + LIMITED), processes.client_port)
    with connections(here, LIMIT + 50) as held:
        until(lambda: sum(map(is_refused, held)) > 50)
        assert producer.send("orders", b"meanwhile", partition=0).get(20).offset == 1
        create(admin, "payments", 10)
        until(lambda: led(processes, "payments") == 10)
        assert processes.running[LIMITED].poll() is None
        assert "only the descriptors from 192 on are free" in processes.log()
    until(lambda: accepts(here))
    assert producer.send("orders", b"after", partition=0).get(20).offset == 2
    producer.close()
    admin.close()


def accepts(to: tuple[str, int]) -> bool:
    with connections(to, 1) as (connection,):
        return not is_refused(connection)


def test_replicas_that_the_descriptors_do_not_reach_for_come_when_others_have_gone(processes: Limited) -> None:
    admin = KafkaAdminClient(bootstrap_servers=processes.bootstrap)
    create(admin, "first", 150)
    until(lambda: led(processes, "first") == 150)
    create(admin, "second", 150)
    until(lambda: "replicas cannot be made" in processes.log())
    until(lambda: led(processes, "second") > 0)
    assert led(processes, "second") < 150
    assert processes.running[LIMITED].poll() is None
    admin.delete_topics(["first"])
    until(lambda: led(processes, "second") == 150)
    admin.close()


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    with running(Limited(tmp_path, "ulimit -Sn 100 && ulimit -Hn 4000")) as processes:
        limits = Path(f"/proc/{processes.running[LIMITED].pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
        assert line.split()[3:5] == ["4000", "4000"]
