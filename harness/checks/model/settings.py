"""The values of a setting during a run, for a topic or for the brokers: all values in force, or Kafka's default.

A topic's own values come first, then the brokers', from the configuration that was read, otherwise from the scenario.
"""

from collections.abc import Sequence

from harness.checks.findings import RunContext
from harness.history.facts.incarnations import client_name
from harness.history.schema.cluster_rows import CONFIGURATION

# The brokers' names of topic settings.
_BROKER_NAMES = {
    "retention.ms": ("log.retention.ms",),
    "retention.bytes": ("log.retention.bytes",),
    "cleanup.policy": ("log.cleanup.policy",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "segment.bytes": ("log.segment.bytes",),
}


class Settings:
    def __init__(self, context: RunContext) -> None:
        self._rows = context.tables[CONFIGURATION]
        self._scenario = context.history.scenario

    def values(self, key: str, *, topic: str | None, default: str) -> list[str]:
        """Every value that was ever in force, or the default."""
        own: list[str] = []
        if topic is not None:
            rows = [row for row in self._rows if row["scope"] == "topic" and row["name"] == topic and row["key"] == key]
            specs = self._scenario.topics if self._scenario is not None else ()
            own = [row["value"] for row in rows if row["value"]]
            own += [spec.settings[key] for spec in specs if spec.name == client_name(topic) and key in spec.settings]
        return list(dict.fromkeys(own or self._general(key) or [default]))

    def _general(self, key: str) -> list[str]:
        names = (key, *_BROKER_NAMES.get(key, ()))
        read = [row["value"] for row in self._rows if row["scope"] != "topic" and row["key"] in names and row["value"]]
        if self._scenario is not None:
            read += [value for name, value in self._scenario.cluster.settings.items() if name in names]
        return read

    def numbers(self, key: str, *, topic: str | None, default: str) -> Sequence[int]:
        values = [value for value in self.values(key, topic=topic, default=default) if _is_number(value)]
        return [int(value) for value in values] or [int(default)]


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
