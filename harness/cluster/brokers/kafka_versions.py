"""The supported Kafka versions and what each needs: modules, modes, Java.

One row per line of versions. Any version of a known line uses the row's recipe, so 4.2.0 works like 4.3.1; the row's
own version is the one that was tried.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from harness.errors import UsageError

Mode = Literal["kraft", "zookeeper"]
GROUP = "org.apache.kafka"
_ZOOKEEPER_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module of a Maven repository. `alone`: its jar without dependencies."""

    group: str
    name: str
    version: str
    alone: bool = False

    @property
    def jar(self) -> str:
        return f"{self.name}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


@dataclass(frozen=True, kw_only=True)
class KafkaVersion:
    """One version and its recipe. `zookeeper_main` is empty if there is no ZooKeeper mode."""

    version: str
    artifact: str
    modes: tuple[Mode, ...]
    oldest_java: int
    log4j: Literal[1, 2]
    tools_apart: bool = False
    extra: tuple[Module, ...] = ()
    zookeeper_main: str = ""

    def __str__(self) -> str:
        return self.version

    @property
    def numbers(self) -> tuple[int, ...]:
        return numbers_of(self.version)

    def modules(self) -> tuple[Module, ...]:
        """The modules to download. kafka-tools comes alone: its dependencies belong to Connect, Jetty and Jersey."""
        broker = Module(group=GROUP, name=self.artifact, version=self.version)
        tools = Module(group=GROUP, name="kafka-tools", version=self.version, alone=True)
        return (broker, *((tools,) if self.tools_apart else ()), *self.extra)

    def needed_jars(self) -> tuple[str, ...]:
        """The jars that prove a successful resolution, because a resolver's exit code does not."""
        return (*(module.jar for module in self.modules()), f"kafka-clients-{self.version}.jar")

    def log_option(self, configuration: Path) -> str:
        """The Java option for the logging configuration: XML or properties of log4j 2 or of log4j 1.2."""
        if self.log4j == 2:
            return f"-Dlog4j2.configurationFile={configuration}"
        return f"-Dlog4j.configuration=file:{configuration}"


# Log bindings: 4.x includes log4j 2 but no bridge from slf4j 1.7; 1.x to 3.x leave log4j 1.2 to the packager.
_LOG4J_2 = Module(group="org.apache.logging.log4j", name="log4j-slf4j-impl", version="2.25.4")
# ZooKeeper 3.4 registers log4j with JMX by classes that reload4j no longer has: 1.x gets the log4j of its time.
_LOG4J_1 = Module(group="org.slf4j", name="slf4j-log4j12", version="1.7.25")
_RELOAD4J = Module(group="org.slf4j", name="slf4j-reload4j", version="1.7.36")
# 0.10 needs javax.xml.bind from the JDK, which Java 11 removed.
_JAXB = (
    Module(group="javax.xml.bind", name="jaxb-api", version="2.3.1"),
    Module(group="javax.activation", name="javax.activation-api", version="1.2.0"),
)

_NEWEST = KafkaVersion(
    version="4.3.1",
    artifact="kafka_2.13",
    modes=("kraft",),
    oldest_java=17,
    log4j=2,
    tools_apart=True,
    extra=(_LOG4J_2,),
)
_WITH_ZOOKEEPER = KafkaVersion(
    version="2.8.2",
    artifact="kafka_2.13",
    modes=("zookeeper",),
    oldest_java=8,
    log4j=1,
    extra=(_RELOAD4J,),
    zookeeper_main=_ZOOKEEPER_MAIN,
)
KAFKA_VERSIONS: tuple[KafkaVersion, ...] = (
    _NEWEST,
    replace(_NEWEST, version="4.1.2"),
    replace(_WITH_ZOOKEEPER, version="3.9.1", modes=("kraft", "zookeeper"), tools_apart=True),
    _WITH_ZOOKEEPER,
    replace(_WITH_ZOOKEEPER, version="1.1.1", artifact="kafka_2.12", extra=(_LOG4J_1,)),
    replace(_WITH_ZOOKEEPER, version="0.10.2.2", artifact="kafka_2.11", oldest_java=7, extra=_JAXB),
    replace(_WITH_ZOOKEEPER, version="0.9.0.1", artifact="kafka_2.11", oldest_java=7, extra=()),
)


def numbers_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split("."))


def resolve_version(text: str) -> KafkaVersion:
    """Resolves `4.3.1`, a prefix of it (`4`, `4.3`), or another full version of a known line (`4.2.0`)."""
    wanted = text.strip().split(".")
    for row in KAFKA_VERSIONS:  # newest first
        if row.version.split(".")[: len(wanted)] == wanted:
            return row
    if _is_full(text.strip()):
        for row in KAFKA_VERSIONS:
            if _line(row.version) == _line(text.strip()):
                return replace(row, version=text.strip())
    raise UsageError(f"Kafka {text!r} is not known; known are {_listed(KAFKA_VERSIONS)}, and others of their lines")


def _is_full(text: str) -> bool:
    """Three numbers, four before 1.0; a distribution may append a suffix (4.4.0-SNAPSHOT)."""
    numbers = 3 if text.startswith("0.") else 2
    return re.fullmatch(rf"\d+(\.\d+){{{numbers}}}(-[\w.-]+)?", text) is not None


def _line(version: str) -> tuple[str, ...]:
    """The key of a recipe: the major version; before 1.0 the number after the zero."""
    parts = version.split(".")
    return tuple(parts[:2]) if parts[0] == "0" else tuple(parts[:1])


def _listed(rows: Sequence[KafkaVersion]) -> str:
    return ", ".join(row.version for row in rows)
