"""Whether an unclean election of a partition was allowed at a moment, and by which setting or request.

A topic's own setting overrides the brokers', an operator's request overrides both. Settings of another topic, requests
for another partition and settings of a broker that does not decide are ignored; if it is unknown who decided, the
answer is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.checks.model.settings import SettingsOverTime
from harness.history.facts.finding_facts import Setting
from harness.history.facts.incarnations import client_name
from harness.history.facts.step_facts import OptionsOf, elections_asked, unclean_elections_asked
from harness.history.schema.cluster_rows import ControllerRow, FaultRow, StepRow
from harness.scenario.model import Scenario

UNCLEAN_KEY = "unclean.leader.election.enable"
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
        self,
        settings: SettingsOverTime,
        steps: Sequence[StepRow],
        scenario: Scenario | None,
        controllers: Sequence[ControllerRow] = (),
        faults: Sequence[FaultRow] = (),
    ) -> None:
        self._settings = settings
        topics = [topic.name for topic in scenario.topics] if scenario is not None else []
        self._asked = [asked for asked in elections_asked(steps, topics) if asked.kind == "unclean"]
        options_of: OptionsOf = scenario.options_of if scenario is not None else lambda scheduled, step: None
        self._asked += unclean_elections_asked(faults, topics, options_of)
        self._controllers = sorted(controllers, key=lambda row: row["time_ns"])

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
        moments = [begin, *self._settings.changes(UNCLEAN_KEY, topic, begin, end)]
        if all(self._by_setting(topic, t).allowed is False for t in moments):
            return last
        return Permission(allowed=None, source="setting-changed", setting=last.setting)

    def ever(self, topic: str) -> bool | None:
        """Whether an unclean election of the topic was allowed at any recorded moment of the run."""
        moments = [span.begin_ns for span in self._settings.spans(UNCLEAN_KEY, topic)]
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
        own = self._settings.of_topic(UNCLEAN_KEY, topic, time_ns)
        if own is not None and _truth(own.value) is not None:
            return _set(own)
        of_nodes = [self._settings.of_broker(UNCLEAN_KEY, node, time_ns) for node in self._settings.nodes]
        first, *others = (each for each in of_nodes if each is not None)
        if all(_truth(each.value) == _truth(first.value) for each in others):
            return _set(first)
        # Brokers differ: the controller elects, with its own setting.
        controller = self._controller_at(time_ns)
        of_it = None if controller is None else self._settings.of_broker(UNCLEAN_KEY, controller, time_ns)
        return Permission(allowed=None, source="brokers-differ") if of_it is None else _set(of_it)

    def _controller_at(self, time_ns: int) -> int | None:
        before = [row["node"] for row in self._controllers if row["time_ns"] <= time_ns]
        return before[-1] if before and before[-1] >= 0 else None


def _truth(value: str) -> bool | None:
    return {"true": True, "false": False}.get(value.lower())


def _set(setting: Setting) -> Permission:
    source: PermissionSource = "default-setting" if setting.scope == "default" else "setting"
    return Permission(allowed=_truth(setting.value), source=source, setting=setting)
