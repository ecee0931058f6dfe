"""Whose settings decide what retention and compaction may have removed of a log, and until when these were in force.

Each replica cleans its own log by its own broker's settings, and readers are given that of the leader: where brokers
differ those count that led after the record was sent, each up to the end of its time. A setting counts until brokers
have surely heard of the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.model.elections import led_until
from harness.checks.model.partition_history import PartitionHistory, heard_by
from harness.checks.model.settings import SettingsOverTime
from harness.history.schema.column_types import END_OF_TIME_NS

_OF_CLEANING = ("cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms", "min.compaction.lag.ms")


@dataclass(frozen=True, kw_only=True)
class Cleaner:
    """A broker whose removals readers saw, and until when; node None: all brokers have the same settings."""

    node: int | None
    until_ns: int


@dataclass(frozen=True, kw_only=True)
class InForce:
    """A value of a setting, and until when brokers may have used it."""

    value: str
    begin_ns: int
    until_ns: int


class Cleaners:
    """The brokers of one run, by its settings."""

    def __init__(self, settings: SettingsOverTime) -> None:
        self._settings = settings

    def of(self, history: PartitionHistory, sent_ns: int, gone_ns: int) -> tuple[Sequence[Cleaner], bool]:
        """Whose settings count for a record, and whether it is certain whose; else it may have been any of them."""
        if self._settings.agree(_OF_CLEANING, history.topic):
            return [Cleaner(node=None, until_ns=gone_ns)], True
        led = led_until(history.states, sent_ns, gone_ns) if history.exact else {}
        if led and all(map(self._settings.knows, led)):
            return [Cleaner(node=node, until_ns=until_ns) for node, until_ns in led.items()], True
        nodes = [node for node in self._settings.nodes if node in history.replicas]
        return [Cleaner(node=node, until_ns=gone_ns) for node in nodes or self._settings.nodes], False

    def cleaning(
        self, cleaner: Cleaner, policy: str, history: PartitionHistory, begin_ns: int
    ) -> Sequence[tuple[int, int]]:
        """The times since then in which this broker may have cleaned up the topic in this way."""
        end_ns = cleaner.until_ns
        if policy in self._settings.policies(history.topic, history.cleanup_policy, END_OF_TIME_NS, END_OF_TIME_NS):
            values = self._settings.values("cleanup.policy", history.topic, END_OF_TIME_NS, END_OF_TIME_NS)
            if not any(policy in value for value in values):
                return [(begin_ns, end_ns)]  # nothing recorded says since when
        spans = self.in_force(cleaner, history, "cleanup.policy", begin_ns, end_ns)
        return [(max(each.begin_ns, begin_ns), each.until_ns) for each in spans if policy in each.value]

    def in_force(
        self, cleaner: Cleaner, history: PartitionHistory, key: str, begin_ns: int, end_ns: int
    ) -> Sequence[InForce]:
        """The values that this broker may have used at a moment of [begin_ns, end_ns]."""
        found = []
        for span in self._settings.spans(key, history.topic, cleaner.node):
            until_ns = min(heard_by(history.faults, history.replicas, span.end_ns), end_ns)
            if span.begin_ns <= end_ns and until_ns >= begin_ns:
                found += [InForce(value=value, begin_ns=span.begin_ns, until_ns=until_ns) for value in span.values]
        return sorted(found, key=lambda each: (each.begin_ns, each.value))
