"""Kafka's own command line tools, one JVM a call, from the jars that `kafka-chaos fetch-kafka` keeps."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cluster.brokers.kafka_jars import KafkaHome, installed
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.host.java import java_home

TIMEOUT_S = 90
QUICK_JVM = (
    *("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xmx256m"),
    "-Djava.net.preferIPv4Stack=true",
)


def kafka_home(version: str) -> KafkaHome:
    """To be called by a test module as it is read: without these jars the whole module is skipped, in one line."""
    home = installed(resolve_version(version))
    if home is None:
        pytest.skip(f"no Kafka {version} in the cache: kafka-chaos fetch-kafka {version}", allow_module_level=True)
    return home


def java_command(home: KafkaHome, main: str, *arguments: str) -> list[str]:
    return [str(java_home() / "bin" / "java"), *QUICK_JVM, "-cp", home.class_path, main, *arguments]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What a tool said before it ended."""

    code: int
    lines: Sequence[str]
    complaints: str

    def __str__(self) -> str:
        return "\n".join([*self.lines, self.complaints, f"exit code {self.code}"])


@dataclass(frozen=True, kw_only=True)
class KafkaTools:
    home: KafkaHome
    bootstrap: str

    def run(self, main: str, *arguments: str, stdin: str = "") -> Ran:
        """Main classes are named below org.apache.kafka.tools, or in full."""
        full = main if main.startswith("kafka.") else f"org.apache.kafka.tools.{main}"
        ended = subprocess.run(
            java_command(self.home, full, *arguments),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        return Ran(code=ended.returncode, lines=ended.stdout.splitlines(), complaints=ended.stderr)

    def ask(self, main: str, *arguments: str, stdin: str = "") -> Ran:
        """A tool that talks to the cluster, and succeeds."""
        ran = self.run(main, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin)
        assert ran.code == 0, ran
        return ran

    def start(self, main: str, *arguments: str, output: Path) -> "subprocess.Popen[bytes]":
        command = java_command(self.home, f"org.apache.kafka.tools.{main}", *arguments)
        with output.open("wb") as written:
            return subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT)
