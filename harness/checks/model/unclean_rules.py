"""Whether an unclean election of a partition was allowed at a moment, and by which setting or request.

A topic's own setting overrides the brokers', an operator's request overrides both. Settings of another topic, requests
for another partition and settings of a broker that does not decide are ignored; if it is unknown who decided, the
answer is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.history.facts.finding_facts import Scope, Setting
from harness.history.facts.incarnations import client_name
from harness.history.facts.step_facts import elections_asked, unclean_elections_asked
from harness.history.schema.cluster_rows import ConfigurationRow, ControllerRow, FaultRow, StepRow
from harness.scenario.model import Scenario

UNCLEAN_KEY = "unclean.leader.election.enable"
END_OF_TIME_NS = 2**62
# A requested election is committed before its answer, or at most this long after a lost answer.
_CARRIED_OUT_NS = 30 * 10**9


# What decides: an operator who requested it (or may have), a setting, brokers with different settings, or a setting
# that was changed at about the time of the election.
PermissionSource = Literal[
    "operator", "operator-perhaps", "setting", "default-setting", "brokers-differ", "setting-changed"
]


@dataclass(frozen=True, kw_only=True)
class Permission:
    """allowed: None if unknown. setting: the one that decides, if there is one."""

    allowed: bool | None
    source: PermissionSource
    setting: Setting | None = None


class UncleanRules:
    """controllers: rows of that table, in order of time; the controller decides if brokers have different settings."""

    def __init__(
        self, configuration: Sequence[ConfigurationRow], steps: Sequence[StepRow], scenario: Scenario | None,
        controllers: Sequence[ControllerRow] = (), faults: Sequence[FaultRow] = (),
    ) -> None:  # fmt: skip
        self._changes = sorted(
            (row for row in configuration if row["key"] == UNCLEAN_KEY), key=lambda row: row["time_ns"]
        )
        topics = [topic.name for topic in scenario.topics] if scenario is not None else []
        self._asked = [asked for asked in elections_asked(steps, topics) if asked.kind == "unclean"]
        self._asked += unclean_elections_asked(faults, scenario)
        self._scenario = scenario
        self._controllers = sorted(controllers, key=lambda row: row["time_ns"])
        self._told = bool(configuration)

    def at(self, topic: str, partition: int, *, begin: int, end: int) -> Permission:
        """For an election of this partition that happened at some moment of [begin, end]."""
        asked = self._by_operator(topic, partition, begin, end)
        if asked is not None and asked.allowed:
            return asked
        by_setting = self._by_setting_between(topic, begin, end)
        return asked if asked is not None and not by_setting.allowed else by_setting

    def _by_setting_between(self, topic: str, begin: int, end: int) -> Permission:
        """By the setting at the end; unknown if that forbids it, and one that was in force since `begin` did not."""
        last = self._by_setting(topic, end)
        if last.allowed is not False:
            return last
        moments = [begin, *(row["time_ns"] for row in self._changes if begin < row["time_ns"] < end)]
        if all(self._by_setting(topic, t).allowed is False for t in moments):
            return last
        return Permission(allowed=None, source="setting-changed", setting=last.setting)

    def ever(self, topic: str) -> bool | None:
        """Whether an unclean election of the topic was allowed at any recorded moment of the run."""
        moments = [0, *(row["time_ns"] for row in self._changes), END_OF_TIME_NS]
        found = {self._by_setting(topic, t).allowed for t in moments}
        if any(asked.granted != "no" and asked.topic in (None, topic) for asked in self._asked):
            found.add(None)
        return True if True in found else None if None in found else False

    def _by_operator(self, topic: str, partition: int, begin: int, end: int) -> Permission | None:
        maybe = False
        for asked in self._asked:
            if asked.granted == "no" or not asked.may_concern(client_name(topic), partition) or end < asked.begin_ns:
                continue
            in_time = asked.end_ns is None or begin <= asked.end_ns
            if in_time and asked.granted == "yes" and asked.surely_concerns(client_name(topic), partition):
                return Permission(allowed=True, source="operator")
            late = asked.granted == "unknown" and asked.end_ns is not None and begin <= asked.end_ns + _CARRIED_OUT_NS
            maybe |= in_time or late
        return Permission(allowed=None, source="operator-perhaps") if maybe else None

    def _by_setting(self, topic: str, time_ns: int) -> Permission:
        own = self._last([row for row in self._changes if row["scope"] == "topic" and row["name"] == topic], time_ns)
        if own is not None:
            return _set("topic", own)
        spec = self._scenario_setting(topic)
        if spec is not None and not self._changed_for(topic, time_ns):
            return _set("topic", spec, of_scenario=True)
        return self._by_brokers(time_ns)

    def _changed_for(self, topic: str, time_ns: int) -> bool:
        """Whether the books had a value of the topic's setting by then: without one now, it was removed."""
        return any(
            row["scope"] == "topic" and row["name"] == topic and row["time_ns"] <= time_ns for row in self._changes
        )

    def _scenario_setting(self, topic: str) -> bool | None:
        specs = self._scenario.topics if self._scenario is not None else ()
        return next((_truth(spec.settings.get(UNCLEAN_KEY)) for spec in specs if spec.name == client_name(topic)), None)

    def _by_brokers(self, time_ns: int) -> Permission:
        rows = [row for row in self._changes if row["scope"] != "topic"]
        general = self._last([row for row in rows if row["node"] is None or row["node"] < 0], time_ns)
        of_scenario = False
        if general is None and self._scenario is not None:
            general = _truth(self._scenario.cluster.settings.get(UNCLEAN_KEY))
            of_scenario = True
        fallback = DEFAULT_PERMISSION if general is None else _set("broker", general, of_scenario=of_scenario)
        own = {node: self._last([row for row in rows if row["node"] == node], time_ns) for node in self._nodes(rows)}
        if not any(value is not None and value != fallback.allowed for value in own.values()):
            return fallback
        # Brokers differ: the controller elects, with its own setting.
        controller = self._controller_at(time_ns)
        if controller is None:
            return Permission(allowed=None, source="brokers-differ")
        value = own.get(controller)
        return fallback if value is None else _set("broker", value)

    @staticmethod
    def _nodes(rows: Sequence[ConfigurationRow]) -> set[int]:
        return {row["node"] for row in rows if row["node"] is not None and row["node"] >= 0}

    def _controller_at(self, time_ns: int) -> int | None:
        before = [row["node"] for row in self._controllers if row["time_ns"] <= time_ns]
        return before[-1] if before and before[-1] >= 0 else None

    @staticmethod
    def _last(rows: Sequence[ConfigurationRow], time_ns: int) -> bool | None:
        """The last value set by then; a removed override (an empty value) counts as none."""
        before = [row for row in rows if row["time_ns"] <= time_ns]
        return _truth(before[-1]["value"]) if before else None


def _truth(value: str | None) -> bool | None:
    return {"true": True, "false": False}.get((value or "").lower())


def _set(scope: Scope, value: bool, *, of_scenario: bool = False) -> Permission:
    setting = Setting(key=UNCLEAN_KEY, value=str(value).lower(), scope=scope, of_scenario=of_scenario)
    return Permission(allowed=value, source="setting", setting=setting)


DEFAULT_PERMISSION = Permission(
    allowed=False, source="default-setting", setting=Setting(key=UNCLEAN_KEY, value="false", scope="default")
)
