"""A Kafka that somebody else runs, of as many nodes and with the ids that he chose, each broker and controller at once.

`somebodys_kafka.py FOLDER start|stop|kill|pause|resume NODE` is what its operator has at hand; it knows these nodes and
no other process.
"""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from harness.cluster.brokers.kafka_jars import KafkaHome, installed
from harness.cluster.brokers.kafka_versions import resolve_version
from tests.interop.kafka_tools import java_command
from tests.loopback import free_port
from tests.waiting import until

SIGNALS: Mapping[str, int] = {
    "stop": signal.SIGTERM,
    "kill": signal.SIGKILL,
    "pause": signal.SIGSTOP,
    "resume": signal.SIGCONT,
}


@dataclass(frozen=True, kw_only=True)
class SomebodysKafka:
    folder: Path
    home: KafkaHome

    def prepare(self, nodes: Sequence[int]) -> None:
        """Configuration and formatted storage of each node."""
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = {str(node): [free_port("127.0.0.1"), free_port("127.0.0.1")] for node in nodes}
        (self.folder / "ports.json").write_text(json.dumps(ports))
        identity = base64.urlsafe_b64encode(b"somebodys-kafka-").decode().rstrip("=")
        for node in nodes:
            self._properties(node).write_text("".join(f"{key}={each}\n" for key, each in self._settings(node).items()))
            formatting = ["format", "-t", identity, "-c", str(self._properties(node))]
            command = java_command(self.home, "kafka.tools.StorageTool", *formatting)
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            assert ended.returncode == 0, ended.stdout + ended.stderr

    def _ports(self) -> dict[int, list[int]]:
        return {int(node): ports for node, ports in json.loads((self.folder / "ports.json").read_text()).items()}

    @property
    def nodes(self) -> Sequence[int]:
        return list(self._ports())

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{client}" for client, _ in self._ports().values())

    def _properties(self, node: int) -> Path:
        return self.folder / f"node-{node}.properties"

    def _settings(self, node: int) -> dict[str, str]:
        ports = self._ports()
        replicas = str(min(3, len(ports)))
        return {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{place}" for each, (_, place) in ports.items()),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{ports[node][0]},CONTROLLER://127.0.0.1:{ports[node][1]}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports[node][0]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / f"data-{node}"),
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(max(1, int(replicas) - 1)),
            "group.initial.rebalance.delay.ms": "100",
            "group.min.session.timeout.ms": "1000",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "replica.lag.time.max.ms": "3000",
            "log.cleaner.dedupe.buffer.size": "4194304",
            "num.network.threads": "2",
            "num.io.threads": "2",
        }

    # -- what the operator does -------------------------------------------------------------------------------------

    def start(self, node: int) -> None:
        if self.pid(node) is not None:
            return
        command = java_command(self.home, "kafka.Kafka", str(self._properties(node)))
        with (self.folder / f"node-{node}.log").open("ab") as log:
            started = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self.folder
            )
        (self.folder / f"node-{node}.pid").write_text(str(started.pid))

    def signal(self, node: int, act: str) -> None:
        """Returns when a process that is to end has."""
        pid = self.pid(node)
        if pid is None:
            return
        os.kill(pid, SIGNALS[act])
        if act in ("stop", "kill"):
            until(lambda: self.pid(node) is None, f"node {node} has ended")

    def end(self) -> None:
        for node in self.nodes:
            self.signal(node, "kill")

    def wait_until_up(self) -> None:
        def all_are_known() -> bool:
            try:
                with contextlib.closing(
                    KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))
                ) as administration:
                    return len(administration.describe_cluster()["brokers"]) == len(self.nodes)
            except KafkaError:
                return False

        until(all_are_known, "all nodes are registered", timeout_s=180)

    def pid(self, node: int) -> int | None:
        """None if it does not run."""
        note = self.folder / f"node-{node}.pid"
        if not note.is_file():
            return None
        pid = int(note.read_text())
        with contextlib.suppress(ChildProcessError):  # where another process is the parent
            os.waitpid(pid, os.WNOHANG)
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return None
        return pid if os.fsencode(self._properties(node)) in words else None

    def commands(self) -> str:
        """A table [attached] of all that the operator can do."""
        means = f"cd {Path.cwd()} && {sys.executable} -m {__name__} {self.folder}"
        return "[attached]\n" + "".join(f'{act} = "{means} {act} {{node}}"\n' for act in ("start", *SIGNALS))


def made(folder: Path) -> SomebodysKafka:
    home = installed(resolve_version("4.3.1"))
    assert home is not None, "its jars are fetched"
    return SomebodysKafka(folder=folder, home=home)


def main() -> None:
    kafka, act, node = made(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
    if act == "start":
        kafka.start(node)
    else:
        kafka.signal(node, act)


if __name__ == "__main__":
    main()
