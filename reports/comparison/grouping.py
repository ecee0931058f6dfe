"""Stored runs become columns: those with the same settings are repeats, and what differs between them names them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from harness.history.run_folder import RunFolder
from harness.scenario.file import scenario_of
from reports.comparison.columns import GivenColumn, GivenRun
from reports.comparison.environment import Path as SettingPath
from reports.comparison.environment import setting_paths

_Settings: TypeAlias = tuple[tuple[SettingPath, str], ...]
_NAMING_MAX = 3
_SYSTEM = ("cluster", "system")
_OUTCOME = ("expect", "coverage")  # what a scenario expects of a system follows from the system


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """label: as the user named its column, or "" to have it named after what differs."""

    path: Path
    label: str = ""
    failure: str = ""


def columns_of(runs: Sequence[StoredRun]) -> list[GivenColumn]:
    """In the order in which the columns' first runs were given."""
    labelled: dict[str, list[StoredRun]] = {}
    nameless: dict[_Settings, list[StoredRun]] = {}
    order: list[list[StoredRun]] = []
    for run in runs:
        if run.label:
            group = labelled.setdefault(run.label, [])
        else:
            group = nameless.setdefault(tuple(sorted(setting_paths(scenario_of(RunFolder(run.path))).items())), [])
        if not group:
            order.append(group)
        group.append(run)
    if len(order) == 1 and not labelled:
        return [GivenColumn(label=run.path.name, runs=[_given(run)]) for run in runs]  # nothing differs: each by itself
    names = {id(group): name for name, group in labelled.items()}
    names |= {id(group): name for group, name in zip(nameless.values(), _names(list(nameless)), strict=True)}
    return [GivenColumn(label=names[id(group)], runs=[_given(run) for run in group]) for group in order]


def _given(run: StoredRun) -> GivenRun:
    return GivenRun(path=run.path, failure=run.failure)


def _names(groups: Sequence[_Settings]) -> list[str]:
    """The system where that tells them apart, else the settings that do; numbered where even these are too many."""
    tables = [dict(group) for group in groups]
    keys = [key for key in dict.fromkeys(key for table in tables for key in table) if key[0] not in _OUTCOME]
    differing = [key for key in keys if len({table.get(key, "") for table in tables}) > 1]
    if _SYSTEM in differing:
        systems = [table[_SYSTEM] for table in tables]
        if len(set(systems)) == len(systems):
            return systems
    shown = differing[:_NAMING_MAX]
    names = [", ".join(f"{_short(key)}={table.get(key, 'not set')}" for key in shown) for table in tables]
    return [
        name if name and names.count(name) == 1 else f"{name} #{number}".strip()
        for number, name in enumerate(names, start=1)
    ]


def _short(key: SettingPath) -> str:
    """A setting of Kafka's by its own name, the harness's without its section."""
    if "settings" in key:
        return ".".join(key[key.index("settings") + 1 :])
    return ".".join(key[1:] if key[0] in ("workload", "cluster") else key)
