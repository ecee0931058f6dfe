"""The settings of a run over time, in Kafka's order: a topic's own, a broker's dynamic one, the dynamic one of all
brokers, what a broker started with, and last the default of the release.

What a broker started with is what it said itself, otherwise what the scenario gave it. A topic's own value is what the
books say, and until their first word on it what the scenario says; a removed one gives way to the next in this order.
Brokers may differ: then the value of the one that is asked for counts, and where nobody knows which, each.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.history.facts.finding_facts import Setting
from harness.history.facts.incarnations import client_name
from harness.history.facts.releases import Release, default_of, or_newest
from harness.history.schema.cluster_rows import ConfigurationRow
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import AT_START
from harness.scenario.model import Scenario

_ALL_BROKERS = -1
# The brokers' names of topic settings, the finest first, and how many of the topic's units one of theirs has.
_BROKER_NAMES: Mapping[str, tuple[tuple[str, int], ...]] = {
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "retention.bytes": (("log.retention.bytes", 1),),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
}


@dataclass(frozen=True, kw_only=True)
class Span:
    """A time, from `begin_ns` up to and without `end_ns`, and the values that were in force in it."""

    begin_ns: int
    end_ns: int
    values: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class _Changes:
    """The words on one name of one place, in order of time."""

    times: list[int] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    def at(self, time_ns: int) -> str | None:
        """The last word by then, "" where it was removed; None: none yet."""
        place = bisect_right(self.times, time_ns)
        return self.values[place - 1] if place else None


_NO_CHANGES = _Changes()


class SettingsOverTime:
    def __init__(self, configuration: Iterable[ConfigurationRow] = (), scenario: Scenario | None = None) -> None:
        self._of_topic: dict[tuple[str, str | None], _Changes] = {}
        self._of_broker: dict[tuple[str, int, bool], _Changes] = {}  # (name, node, whether at its start)
        nodes = set(scenario.cluster.brokers) if scenario is not None else set()
        for row in sorted(configuration, key=lambda row: row["time_ns"]):
            if row["scope"] == "topic":
                changes = self._of_topic.setdefault((row["key"], row["name"]), _Changes())
            else:
                node = _ALL_BROKERS if row["node"] is None or row["node"] < 0 else row["node"]
                nodes |= {node} - {_ALL_BROKERS}
                changes = self._of_broker.setdefault((row["key"], node, row["source"] == AT_START), _Changes())
            changes.times.append(row["time_ns"])
            changes.values.append("" if row["value"] in (None, "null") else row["value"] or "")
        self.nodes = tuple(sorted(nodes)) or (_ALL_BROKERS,)
        self._topics = {spec.name: spec.settings for spec in scenario.topics} if scenario is not None else {}
        self._started_with = scenario.cluster.settings if scenario is not None else {}
        self.release: Release = or_newest(None if scenario is None else scenario.cluster.release)
        self._spans: dict[tuple[str, str | None, int | None], list[Span]] = {}

    # -- at one moment ------------------------------------

    def of_topic(self, key: str, topic: str, time_ns: int) -> Setting | None:
        """The topic's own."""
        changed = self._of_topic.get((key, topic), _NO_CHANGES).at(time_ns)
        stated = self._topics.get(client_name(topic), {}).get(key) if changed is None else None
        value = changed or stated
        return Setting(key=key, value=value, scope="topic", of_scenario=not changed) if value else None

    def of_broker(self, key: str, node: int, time_ns: int) -> Setting | None:
        """What this broker would use for a topic without an own one; None for a key without a default."""
        dynamic = self._layer(key, node, time_ns) or self._layer(key, _ALL_BROKERS, time_ns)
        if dynamic is not None:
            return Setting(key=key, value=dynamic, scope="broker")
        default = default_of(key, self.release)
        stated = next((value for value in self._named(key, self._started_with.get) if value), None)
        said = self._layer(key, node, time_ns, at_start=True)
        if stated is not None and said in (None, stated):
            return Setting(key=key, value=stated, scope="broker", of_scenario=True)
        value = said or default
        if value is None:
            return None
        return Setting(key=key, value=value, scope="default" if value == default else "broker")

    def _layer(self, key: str, node: int, time_ns: int, *, at_start: bool = False) -> str | None:
        def recorded(name: str) -> str | None:
            return self._of_broker.get((name, node, at_start), _NO_CHANGES).at(time_ns)

        return next((value for value in self._named(key, recorded) if value), None)

    @staticmethod
    def _named(key: str, recorded: Callable[[str], str | None]) -> Iterable[str | None]:
        """What is told of a key under each of its names, in the key's own unit."""
        for name, factor in ((key, 1), *_BROKER_NAMES.get(key, ())):
            value = recorded(name)
            yield str(int(value) * factor) if value and factor > 1 and is_number(value) else value

    # -- over time ----------------------------------------

    def spans(self, key: str, topic: str | None = None, node: int | None = None) -> Sequence[Span]:
        """The whole time, split at each change. node: the broker that uses it; None: any may be."""
        if (key, topic, node) not in self._spans:
            times = sorted({0, *self._times(key, topic)})
            self._spans[key, topic, node] = [
                Span(begin_ns=begin, end_ns=end, values=self._values_at(key, topic, begin, node))
                for begin, end in zip(times, [*times[1:], END_OF_TIME_NS], strict=True)
            ]
        return self._spans[key, topic, node]

    def _times(self, key: str, topic: str | None) -> set[int]:
        names = {name for name, _ in ((key, 1), *_BROKER_NAMES.get(key, ()))}
        own = self._of_topic.get((key, topic), _NO_CHANGES).times if topic is not None else []
        return {*own, *(t for (name, *_), found in self._of_broker.items() if name in names for t in found.times)}

    def _values_at(self, key: str, topic: str | None, time_ns: int, node: int | None) -> frozenset[str]:
        own = self.of_topic(key, topic, time_ns) if topic is not None else None
        if own is not None:
            return frozenset({own.value})
        found = (self.of_broker(key, each, time_ns) for each in (self.nodes if node is None else (node,)))
        return frozenset(setting.value for setting in found if setting is not None)

    def within(
        self, key: str, topic: str | None, begin_ns: int, end_ns: int, node: int | None = None
    ) -> Sequence[Span]:
        """The spans with a moment in [begin_ns, end_ns]."""
        spans = self.spans(key, topic, node)
        first = bisect_right(spans, begin_ns, key=lambda span: span.begin_ns) - 1
        return spans[max(first, 0) : bisect_right(spans, end_ns, key=lambda span: span.begin_ns)]

    def values(
        self, key: str, topic: str | None, begin_ns: int, end_ns: int, node: int | None = None
    ) -> frozenset[str]:
        return frozenset().union(*(span.values for span in self.within(key, topic, begin_ns, end_ns, node)))

    def numbers(self, key: str, topic: str | None, begin_ns: int, end_ns: int, node: int | None = None) -> list[int]:
        """The values in order; what is no number is no value, and without any the default is."""
        found = sorted(int(value) for value in self.values(key, topic, begin_ns, end_ns, node) if is_number(value))
        return found or [int(default_of(key, self.release) or 0)]

    def knows(self, node: int) -> bool:
        """Whether this broker said what it started with, as far as any did: else it may have had anything."""
        recorded = {each for _, each, at_start in self._of_broker if at_start}
        return not recorded or node in recorded

    def agree(self, keys: Iterable[str], topic: str | None) -> bool:
        """Whether these were the same on all brokers at all times."""
        return all(len(span.values) <= 1 for key in keys for span in self.spans(key, topic))

    def policies(self, topic: str, at_the_end: str | None, begin_ns: int, end_ns: int) -> frozenset[str]:
        """The policies of clean-up, "delete" and "compact", with a moment in [begin_ns, end_ns].

        at_the_end: the topic's cleanup.policy as its brokers said at the end of the run: one that nothing explains held
        at an unknown time before, too.
        """
        found = _policies(self.values("cleanup.policy", topic, begin_ns, end_ns))
        said = _policies([at_the_end or ""])
        known = _policies(self.values("cleanup.policy", topic, END_OF_TIME_NS, END_OF_TIME_NS))
        return found | (said - known)

    def changes(self, key: str, topic: str | None, begin_ns: int, end_ns: int) -> Sequence[int]:
        """The times of its changes, after `begin_ns` and before `end_ns`."""
        times = [span.begin_ns for span in self.spans(key, topic)]
        return times[bisect_right(times, begin_ns) : bisect_left(times, end_ns)]


def _policies(values: Iterable[str]) -> frozenset[str]:
    return frozenset(policy for policy in ("delete", "compact") if any(policy in value for value in values))


def is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
