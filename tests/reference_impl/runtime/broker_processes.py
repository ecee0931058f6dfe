"""A reference cluster as processes from configuration files: three brokers and a coordination service, node 100."""

import json
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from reference_impl.runtime.handlers.broker_authentication import write_secret
from tests.loopback import address, free_port
from tests.waiting import until

BROKERS = (1, 2, 3)
COORDINATION = 100


class Processes:
    def __init__(self, folder: Path, *, properties: str = "") -> None:
        """`properties` are lines for every broker, after those that are written here and stronger."""
        self.folder = folder
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self._properties = properties
        self._kazoo: KazooClient | None = None
        everywhere = [address(node) for node in (COORDINATION, *(10 + node for node in BROKERS))]
        self.coordination_port, self.internal_port, self.client_port = (free_port(*everywhere) for _ in range(3))
        self.bootstrap = [f"{address(10 + node)}:{self.client_port}" for node in BROKERS]
        names = [f"{address(10 + node)} node{node}" for node in BROKERS]
        write_secret(folder / "cluster-secret", secrets.token_hex())
        (folder / "hosts").write_text("\n".join([f"{address(COORDINATION)} node{COORDINATION}", *names]) + "\n")

    def start(self) -> None:
        self.start_coordination()
        for node in BROKERS:
            self.start_broker(node)
        until(lambda: self.broker_count() == len(BROKERS))

    def start_coordination(self) -> None:
        path = self.folder / "zoo.cfg"
        path.write_text(
            f"dataDir={self.folder}/zookeeper\nclientPort={self.coordination_port}\n"
            f"clientPortAddress={address(COORDINATION)}\nminSessionTimeout=500\n"
        )
        self._start_reference(COORDINATION, "coordination", "--config", str(path))

    def start_broker(self, node: int) -> None:
        path = self.folder / f"server{node}.properties"
        host = address(10 + node)
        path.write_text(
            f"broker.id={node}\n"
            f"listeners=INTERNAL://{host}:{self.internal_port},CLIENT1://{host}:{self.client_port}\n"
            f"advertised.listeners=INTERNAL://node{node}:{self.internal_port},CLIENT1://{host}:{self.client_port}\n"
            f"inter.broker.listener.name=INTERNAL\nlog.dirs={self.data(node)}\n"
            f"zookeeper.connect=node{COORDINATION}:{self.coordination_port}\nzookeeper.session.timeout.ms=1500\n"
            "replica.lag.time.max.ms=1500\nreplica.fetch.backoff.ms=100\nreplica.socket.timeout.ms=1000\n"
            "min.insync.replicas=2\ncontroller.socket.timeout.ms=3000\n"
            f"chaos.cluster.secret.file={self.folder}/cluster-secret\n" + self._properties
        )
        self._start_reference(node, "broker", "--config", str(path), "--hosts", str(self.folder / "hosts"))

    def _start_reference(self, node: int, *arguments: str) -> None:
        self._start(node, [sys.executable, "-m", "reference_impl", *arguments])

    def _start(self, node: int, command: list[str]) -> None:
        with (self.folder / f"{node}.log").open("ab") as log:
            self.running[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def data(self, node: int) -> Path:
        return self.folder / str(node) / "data"

    def events(self, node: int) -> list[str]:
        """The kinds of what the broker put into its evidence journal, in its order."""
        lines = (self.data(node).parent / "evidence" / "events.jsonl").read_text().splitlines()
        return [json.loads(line)["event"] for line in lines]

    def end(self, node: int, number: int = signal.SIGKILL) -> int:
        process = self.running.pop(node)
        process.send_signal(number)
        return process.wait(20)

    def end_all(self) -> None:
        if self._kazoo is not None:
            self._kazoo.stop()
            self._kazoo.close()
        for node in list(self.running):
            self.end(node)

    def broker_count(self) -> int:
        """How many the brokers themselves know of."""
        try:
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap, request_timeout_ms=2000)
            try:
                return len(admin.describe_cluster()["brokers"])
            finally:
                admin.close()
        except KafkaError:
            return 0

    # Contents of the coordination service, read by an independent client.

    @property
    def _books(self) -> KazooClient:
        if self._kazoo is None:
            self._kazoo = KazooClient(
                f"{address(COORDINATION)}:{self.coordination_port}",
                connection_retry={"max_tries": -1, "max_delay": 0.2},
                command_retry={"max_tries": -1, "max_delay": 0.2},
            )
            self._kazoo.start(40)
        return self._kazoo

    def znode(self, path: str) -> Any:
        """None: there is no such node."""
        try:
            return json.loads(self._books.retry(self._books.get, path)[0])
        except NoNodeError:
            return None

    def children(self, path: str) -> list[str]:
        found: list[str] = self._books.retry(self._books.get_children, path)
        return found

    def state(self, topic: str, partition: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.znode(f"/brokers/topics/{topic}/partitions/{partition}/state")
        return found


Kind = TypeVar("Kind", bound=Processes)


@contextmanager
def running(made: Kind) -> Iterator[Kind]:
    try:
        made.start()
        yield made
    finally:
        made.end_all()
