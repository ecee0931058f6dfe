"""Which settings Kafka's brokers and topics have, with their types, as the brokers themselves list them.

A broker takes any key that it does not know without a word, so a mistyped one shows only in what a run does not do.
Every Kafka prints the table of its documentation (`kafka.server.KafkaConfig`, `LogConfig`: a main class each); `python
-m harness.cluster.brokers.known_settings` asks every version that was fetched, and keeps the answers in settings.tsv.
"""

import csv
import functools
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

from harness.cluster.brokers.kafka_jars import KafkaHome, installed
from harness.cluster.brokers.kafka_versions import KAFKA_VERSIONS
from harness.errors import HarnessError
from harness.host.java import java_home

Scope = Literal["broker", "topic"]
TABLE = Path(__file__).parent / "settings.tsv"
_MAIN: Mapping[Scope, tuple[str, ...]] = {
    "broker": ("kafka.server.KafkaConfig",),
    "topic": ("org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig"),  # since 3.5, before
}
_COLUMNS = ("scope", "key", "type", "first", "last")
# Kafka's own documentation leaves these out (ConfigDef.defineInternal).
_INTERNAL: Mapping[str, str] = {
    "log.initial.task.delay.ms": "long",
    "unstable.api.versions.enable": "boolean",
    "unstable.feature.versions.enable": "boolean",
    "group.coordinator.new.enable": "boolean",
}
# The keys that say which node this is and where it listens and stores: the harness gives each node its own.
OF_THE_HARNESS = frozenset(
    (
        "advertised.host.name",
        "advertised.listeners",
        "advertised.port",
        "broker.id",
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "host.name",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "port",
        "process.roles",
        "security.inter.broker.protocol",
        "zookeeper.connect",
    )
)


@dataclass(frozen=True, kw_only=True)
class KnownSetting:
    """first, last: the oldest and the newest of the versions that were asked which has it; "" for an internal one."""

    type: str
    first: str
    last: str


@functools.cache
def known_settings(scope: Scope) -> Mapping[str, KnownSetting]:
    """By key: of every version that was asked."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["scope"] == scope]
    known = {row["key"]: KnownSetting(type=row["type"], first=row["first"], last=row["last"]) for row in rows}
    if scope == "broker":
        known |= {key: KnownSetting(type=kind, first="", last="") for key, kind in _INTERNAL.items()}
    return known


def unfit_value(kind: str, value: str) -> str | None:
    """What a value of this type must be, if it is not that. None if it may be one."""
    match kind:
        case "int" | "long" | "short":
            return None if value.strip().lstrip("+-").isdecimal() else "a whole number"
        case "boolean":
            return None if value.strip().lower() in ("true", "false") else "true or false"
        case "double":
            return None if _is_number(value) else "a number"
    return None


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


# ---- asking ---------------------------------------------------------------------------------------------------------


def listed_by(home: KafkaHome, scope: Scope) -> dict[str, str]:
    """The type of every setting by key, as this Kafka prints it. Raises HarnessError."""
    for main in _MAIN[scope]:
        command = [str(java_home() / "bin" / "java"), "-XX:TieredStopAtLevel=1", "-cp", home.class_path, main]
        answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            reader = _Documentation()
            reader.feed(answer.stdout)
            return reader.types
    raise HarnessError(f"Kafka {home.version} does not print its settings: {answer.stderr.strip()[:200]}")


class _Documentation(HTMLParser):
    """Two forms: a row of cells for each setting, or (since 2.6) a heading and a table of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.types: dict[str, str] = {}
        self._key = ""
        self._cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("h3", "h4"):
            self._key = ""
        elif tag == "a" and not self._key:
            self._key = dict(attrs).get("id") or ""
        elif tag == "tr":
            self._cells = []
        elif tag in ("th", "td"):
            self._cells.append("")

    def handle_data(self, data: str) -> None:
        if self._cells:
            self._cells[-1] += data

    def handle_endtag(self, tag: str) -> None:
        cells = [cell.strip() for cell in self._cells]
        if tag == "tr" and self._key and cells[:1] == ["Type:"]:
            self.types[self._key] = cells[1]
        elif tag == "tr" and not self._key and len(cells) > 3 and cells[0] != "Name":
            self.types[cells[0]] = cells[2]


def _rows(homes: list[KafkaHome]) -> Iterator[tuple[str, ...]]:
    """`homes`: the oldest first."""
    scopes: tuple[Scope, ...] = ("broker", "topic")
    for scope in scopes:
        found: dict[str, KnownSetting] = {}
        for home in homes:
            for key, kind in listed_by(home, scope).items():
                first = found[key].first if key in found else home.version.version
                found[key] = KnownSetting(type=kind, first=first, last=home.version.version)
        for key, known in sorted(found.items()):
            yield scope, key, known.type, known.first, known.last


def main() -> None:  # pragma: no cover  # for maintainers
    homes = [home for version in reversed(KAFKA_VERSIONS) if (home := installed(version)) is not None]
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows(_rows(homes))
    sys.stdout.write(f"{TABLE}: the settings of {', '.join(str(home.version) for home in homes)}\n")


if __name__ == "__main__":
    main()
