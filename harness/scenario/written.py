"""Writes a scenario out in full, with every generated schedule explicit, so that a run folder is itself a scenario."""

import random
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

import tomli_w

from harness.ports.load import WorkloadSpec
from harness.scenario.keys import ATTACHED, CLUSTER, EXPECT, FAULT, PATTERN, RUN, SECURITY, TOPIC
from harness.scenario.model import AttachedSpec, ExpectSpec, FaultSpec, FindingPattern, Scenario, StepSpec
from harness.scenario.workloads import DEFAULT as DEFAULT_WORKLOAD
from harness.values import Reader, keys_of


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _defaults(kind: type) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for field in fields(kind):
        if field.default is not MISSING:
            known[field.name] = field.default
        elif field.default_factory is not MISSING:
            known[field.name] = field.default_factory()
    return known


def _table(spec: Any, keys: Mapping[str, tuple[str, Reader]]) -> dict[str, Any]:
    """Only the keys whose value is not the default, as a person would write the file."""
    defaults = _defaults(type(spec))
    table: dict[str, Any] = {}
    for key, (name, _) in keys.items():
        value = getattr(spec, name, None)
        if value is not None and (name not in defaults or value != defaults[name]):
            table[key] = _plain(value)
    return table


def _expect(expect: ExpectSpec) -> dict[str, Any]:
    def patterns(of: tuple[FindingPattern, ...]) -> list[dict[str, Any]]:
        return [_table(pattern, PATTERN) for pattern in of]

    table = _table(expect, {key: entry for key, entry in EXPECT.items() if key != "findings"})
    table["verdict"] = expect.verdict
    findings = {"required": patterns(expect.required), "forbidden": patterns(expect.forbidden)}
    if any(findings.values()):
        table["findings"] = {key: value for key, value in findings.items() if value}
    return table


def _attached(attached: AttachedSpec) -> dict[str, Any]:
    """Its security has the names of secrets, and none of them."""
    security = {} if attached.security is None else {"security": _table(attached.security, SECURITY)}
    return _table(attached, ATTACHED) | security


def workload_table(workload: WorkloadSpec) -> dict[str, Any]:
    """The table [workload]."""
    name = {} if workload.name == DEFAULT_WORKLOAD else {"name": workload.name}
    return name | _table(workload, keys_of(type(workload)))


def _step(step: StepSpec) -> dict[str, Any]:
    return {step.kind: _plain(step.body), "within": step.within_s}


def explicit(scenario: Scenario, *, chance: random.Random) -> Scenario:
    """The same with every moment of its schedule: `every = D` becomes several timed faults, on average D apart, so that
    a replay is an ordinary run. Timed and triggered faults stay as they are.

    What is drawn begins after the warm-up and ends before the load does. Intervals of one drawn fault never overlap:
    the next begins after the previous one has ended.
    """
    begin_s, duration_s = scenario.workload.warm_up_s, scenario.workload.duration_s
    schedule: list[tuple[float, FaultSpec, int]] = []
    for number, fault in enumerate(scenario.faults):
        index = scenario.places.faults[number] if number < len(scenario.places.faults) else number
        if fault.every_s is None:
            schedule.append((fault.at_s or 0.0, fault, index))
            continue
        lasting_s = fault.for_s if fault.for_s is not None else fault.every_s / 2
        at_s = begin_s + chance.uniform(0, fault.every_s)
        while at_s + lasting_s < duration_s:
            timed = replace(fault, every_s=None, at_s=round(at_s, 3), for_s=lasting_s)
            schedule.append((round(at_s, 3), timed, index))
            at_s += lasting_s + chance.uniform(0, 2 * max(fault.every_s - lasting_s, 0.1))
    schedule.sort(key=lambda each: each[0])
    places = replace(scenario.places, faults=tuple(index for _, _, index in schedule))
    return replace(scenario, faults=tuple(fault for _, fault, _ in schedule), places=places)


def written_out(scenario: Scenario) -> str:
    """The scenario as TOML, with its name and story first; `load` returns the same scenario."""
    run = _table(scenario, RUN)
    document: dict[str, Any] = {
        "cluster": _table(scenario.cluster, CLUSTER) | {"brokers": list(scenario.cluster.brokers)},
        "attached": _attached(scenario.cluster.attached),
        "topics": [_table(topic, TOPIC) for topic in scenario.topics],
        "workload": workload_table(scenario.workload),
        "faults": [_table(fault, FAULT) for fault in scenario.faults],
        "steps": [_step(step) for step in scenario.steps],
        "expect": _expect(scenario.expect),
        "coverage": dict(scenario.coverage),
    }
    if run:
        document = {"run": run, **document}
    document = {key: value for key, value in document.items() if value not in ({}, [])}
    return f"# {scenario.story}\n\n# scenario: {scenario.name}\n{tomli_w.dumps(document)}"
