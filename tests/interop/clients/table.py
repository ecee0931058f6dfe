"""Client library x operation on the reference cluster: who can what, and what is said of what is not here.

Each library has a program beside this file that does the named operations, in order, and prints a line for each: its
name, the seconds it took, how it went (ok, fails, hangs, lacks), and what the library said. A program is made ready in
the user's cache: Go's is built, npm's package is installed there. The table of docs/clients.md is made by

    .venv/bin/python -m tests.interop.clients

and held by tests/interop/test_client_table.py.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.brokers.kafka_jars import installed
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.host.user_folders import made_in_cache

HERE = Path(__file__).parent
LEAVE_OUT = "KAFKA_CHAOS_CLIENTS_HERE" in os.environ  # what this machine has no toolchain for, rather than to skip it
OPERATIONS: Mapping[str, str] = {
    "topics": "create, delete and list topics",
    "partitions": "add partitions",
    "configuration": "describe a topic's configuration",
    "alter": "alter it",
    "elections": "elect the preferred leader",
    "codec-none": "produce, no compression",
    "codec-gzip": "produce, gzip",
    "codec-snappy": "produce, snappy",
    "codec-lz4": "produce, lz4",
    "codec-zstd": "produce, zstd",
    "idempotent": "produce, idempotent",
    "acks-0": "produce, acks=0",
    "acks-1": "produce, acks=1",
    "acks-all": "produce, acks=all",
    "read": "assign and read from the beginning",
    "read-named": "the same with a group's name set",
    "time": "look up an offset by time",
    "group": "subscribe as a group",
    "transaction": "commit a transaction",
}
LIMIT_S = 30
READY_S = 600
CELLS = {"ok": "yes", "fails": "refused", "hangs": "silent", "lacks": "-"}


class NotReady(Exception):
    """A program could not be made ready: a registry is out of reach, most likely."""


@dataclass(frozen=True, kw_only=True)
class OutsideClient:
    name: str
    lacking: Callable[[], str]  # what this machine has not; empty: nothing
    command: Callable[[], list[str]]  # made ready, or NotReady; bootstrap, topic, limit and operations follow


@dataclass(frozen=True, kw_only=True)
class Outcome:
    operation: str
    seconds: float
    kind: str
    reported: str

    @property
    def cell(self) -> str:
        return CELLS[self.kind]


def run(client: OutsideClient, bootstrap: str, topic: str) -> list[Outcome]:
    command = [*client.command(), bootstrap, topic, str(LIMIT_S), *OPERATIONS]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LIMIT_S * (len(OPERATIONS) + 1)
    )
    lines = [line.split("\t", 3) for line in ended.stdout.splitlines() if line.count("\t") >= 3]
    assert [line[0] for line in lines] == list(OPERATIONS), f"{client.name}: {ended.stdout}{ended.stderr}"
    return [
        Outcome(operation=name, seconds=float(elapsed_s), kind=kind, reported=reported)
        for name, elapsed_s, kind, reported in lines
    ]


def _needs(*programs: str) -> Callable[[], str]:
    return lambda: ", ".join(f"no {program}" for program in programs if shutil.which(program) is None)


def _python(name: str) -> OutsideClient:
    module = f"tests.interop.clients.{name.replace('-', '_')}_client"
    return OutsideClient(name=name, lacking=lambda: "", command=lambda: [sys.executable, "-m", module])


def maven_lacking() -> str:
    """Of docs/examples/java, whose test is run by Maven with Java 17 or newer."""
    return _needs("mvn")() or _needs("javac")()


def _java(version: str) -> OutsideClient:
    """The jars are those of `kafka-chaos fetch-kafka`."""

    def lacking() -> str:
        without_jars = installed(resolve_version(version)) is None
        return _needs("javac")() or (f"no Kafka {version} in the cache" if without_jars else "")

    def command() -> list[str]:
        home = installed(resolve_version(version))
        assert home is not None, lacking()
        quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-XX:TieredStopAtLevel=1"]
        return ["java", *quiet, "-cp", home.class_path, str(HERE / "java" / "Client.java")]

    return OutsideClient(name=f"java {version}", lacking=lacking, command=command)


def _folder_for(folder: Path) -> Path:
    """In the cache, one for each state of a program's files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return made_in_cache("clients") / f"{folder.name}-{digest.hexdigest()[:16]}"


def go_program(sources: Path) -> Path:
    """Built from them, once. Raises NotReady."""
    program = _folder_for(sources) / "program"
    if not program.exists():
        _ready(["go", "build", "-o", str(program.with_suffix(".new")), "."], sources)
        program.with_suffix(".new").replace(program)
    return program


go_lacking = _needs("go")


def _go(name: str) -> OutsideClient:
    return OutsideClient(name=name, lacking=go_lacking, command=lambda: [str(go_program(HERE / "go")), name])


def _kafkajs() -> OutsideClient:
    def command() -> list[str]:
        folder = _folder_for(HERE / "kafkajs")
        if not (folder / "node_modules" / "kafkajs" / "package.json").exists():
            folder.mkdir(exist_ok=True)
            shutil.copy(HERE / "kafkajs" / "package.json", folder)
            _ready(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], folder)
        shutil.copy(HERE / "kafkajs" / "client.js", folder)
        return ["node", str(folder / "client.js")]

    return OutsideClient(name="kafkajs", lacking=_needs("node", "npm"), command=command)


def _ready(command: list[str], folder: Path) -> None:
    environment = {**os.environ, "GOFLAGS": "-mod=readonly"}
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=READY_S
    )
    if ended.returncode:
        raise NotReady(f"{' '.join(command)}: {ended.stdout}{ended.stderr}")


CLIENTS = (
    _java("2.8.2"),
    _java("3.9.1"),
    _java("4.3.1"),
    _python("librdkafka"),
    _python("kafka-python"),
    _python("aiokafka"),
    _go("franz-go"),
    _go("sarama"),
    _go("segmentio"),
    _kafkajs(),
)
