"""What else differs between the columns: settings, versions, machines; and what makes a comparison doubtful, loudly."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

from harness.scenario.model import Scenario
from reports.comparison.columns import Column, Run
from reports.comparison.model import Environment
from reports.run_data import RunData

_ABSENT = "not set"
_TARGET = (("cluster", "system"), ("cluster", "world"), ("workload", "client"), ("run", "seed"))
Path: TypeAlias = tuple[str, ...]


def environment(columns: Sequence[Column]) -> Environment:
    settings, same_settings = _differing(columns, lambda data: settings_of(data.scenario))
    machine, same_machine = _differing(columns, machine_of)
    return Environment(
        settings=settings,
        machine=machine,
        same=f"{same_settings} settings of the scenario and {same_machine} facts about versions and machine are equal.",
    )


def _differing(
    columns: Sequence[Column], settings_by: Callable[[RunData], Mapping[str, str]]
) -> tuple[list[tuple[str, list[str]]], int]:
    """(the rows in which columns differ, how many do not). A column's own runs may differ too: all values are shown."""
    settings = [[settings_by(run.data) for run in column.runs if run.data is not None] for column in columns]
    keys = list(dict.fromkeys(key for column in settings for facts in column for key in facts))
    rows, same = [], 0
    for key in keys:
        values = [list(dict.fromkeys(facts.get(key, _ABSENT) for facts in column)) for column in settings]
        if len({tuple(sorted(each)) for each in values if each}) <= 1 and all(len(each) <= 1 for each in values):
            same += 1
            continue
        rows.append((key, [" or ".join(each) or "no run" for each in values]))
    return rows, same


def machine_of(data: RunData) -> dict[str, str]:
    versions: Mapping[str, Any] = data.run.get("versions") or {}
    surroundings: Mapping[str, Any] = data.run.get("environment") or {}
    machine = _flat((), versions) | _flat((), surroundings)
    return {".".join(path): value for path, value in machine.items()}


def settings_of(scenario: Scenario) -> dict[str, str]:
    """Everything the scenario sets but its plan: cluster, topics, workload, and what it expects."""
    return {".".join(path): value for path, value in setting_paths(scenario).items()}


def setting_paths(scenario: Scenario) -> dict[Path, str]:
    """The same by its place in the scenario: ("cluster", "settings", "min.insync.replicas")."""
    paths: dict[Path, str] = {}
    for section, spec in (("cluster", scenario.cluster), ("workload", scenario.workload), ("expect", scenario.expect)):
        paths |= _flat((section,), {field.name: getattr(spec, field.name) for field in fields(spec)})
    for topic in scenario.topics:
        paths |= _flat(("topics", topic.name), {field.name: getattr(topic, field.name) for field in fields(topic)})
    paths |= {
        ("run", "recovery_timeout_s"): f"{scenario.recovery_timeout_s:g}",
        ("run", "read_again_after_s"): f"{scenario.read_again_after_s:g}",
        ("run", "read_every_replica"): str(scenario.read_every_replica).lower(),
    }
    paths["workload", "name"] = scenario.workload.name
    return paths | _flat(("coverage",), scenario.coverage)


def _flat(prefix: Path, table: Mapping[str, Any]) -> dict[Path, str]:
    flat: dict[Path, str] = {}
    for key, value in table.items():
        name = (*prefix, str(key))
        if isinstance(value, Mapping):
            flat |= _flat(name, value)
        elif isinstance(value, bool):
            flat[name] = str(value).lower()
        elif isinstance(value, tuple | list):
            flat[name] = str(list(value)).replace("(", "[").replace(")", "]")
        else:
            flat[name] = "none" if value is None else str(value)
    return flat


# ---- doubts ---------------------------------------------------------------------------------------------------------


def warnings(columns: Sequence[Column]) -> list[str]:
    """Whatever makes numbers of two columns no like for like."""
    every = [(column, run) for column in columns for run in column.readable]
    found = []
    for sentence, of in (
        ("The seeds differ", lambda data: str(data.run.get("seed"))),
        ("The scenario's text differs", _text),
        ("The plan of steps and faults differs", _plan),
        ("The runs were made on different machines", lambda data: str(_versions(data).get("machine"))),
        (
            "The runs were made by different versions of kafka-chaos",
            lambda data: str(_versions(data).get("kafka-chaos")),
        ),
    ):
        groups: dict[str, list[str]] = {}
        for column, run in every:
            assert run.data is not None, "readable runs have data"
            groups.setdefault(of(run.data), []).append(_name(column, run))
        if len(groups) > 1:
            shown = of in (_text, _plan)
            parts = [
                f"{', '.join(names)}" if shown else f"{', '.join(names)}: {value}" for value, names in groups.items()
            ]
            joined = " against ".join(parts) if shown else "; ".join(parts)
            found.append(f"{sentence}: {joined}. Differences below may come from that.")
    counts = {len(column.counted) for column in columns}
    if len(counts - {0}) > 1:
        counts_words = ", ".join(f"{column.label} {len(column.counted)}" for column in columns)
        found.append(f"The columns have unequal numbers of runs that count: {counts_words}.")
    found += [
        f"{column.label}, repeat {run.repeat}: {run.numbers.problem}"
        for column, run in every
        if run.numbers is not None and run.numbers.problem
    ]
    return found


def _versions(data: RunData) -> Mapping[str, Any]:
    versions: Mapping[str, Any] = data.run.get("versions") or {}
    return versions


def _name(column: Column, run: Run) -> str:
    return f"{column.label} {run.repeat}" if len(column.runs) > 1 else column.label


def _text(data: RunData) -> str:
    """What its author wrote, before --set; where it was not kept, the plan stands for it. A campaign writes the target
    into the text, and a comparison is between targets: target and seed are shown elsewhere."""
    try:
        text = data.folder.files.read_text("scenario.source.toml").strip()
    except FileNotFoundError:
        return _plan(data)
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    for name, key in _TARGET:
        table = content.get(name)
        if isinstance(table, dict):
            table.pop(key, None)
    return str({key: value for key, value in content.items() if value != {}})


def _plan(data: RunData) -> str:
    scenario = data.scenario
    steps = [(step.kind, step.text, step.within_s) for step in scenario.steps]
    timed = [
        (fault.kind, fault.target, fault.at_s, fault.every_s, fault.when, fault.for_s) for fault in scenario.faults
    ]
    return str((steps, timed))
