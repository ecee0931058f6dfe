"""Writes a scenario out in full, with every generated schedule explicit, so that a run folder is itself a scenario."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import tomli_w

from harness.scenario.keys import ATTACHED, CLUSTER, EXPECT, FAULT, PATTERN, RUN, TOPIC
from harness.scenario.model import ExpectSpec, FindingPattern, Scenario, StepSpec, WorkloadSpec
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


def workload_table(workload: WorkloadSpec) -> dict[str, Any]:
    """The table [workload]."""
    name = {} if workload.name == DEFAULT_WORKLOAD else {"name": workload.name}
    return name | _table(workload, keys_of(type(workload)))


def _step(step: StepSpec) -> dict[str, Any]:
    return {step.kind: _plain(step.body), "within": step.within_s}


def written_out(scenario: Scenario) -> str:
    """The scenario as TOML, with its name and story first; `load` returns the same scenario."""
    run = _table(scenario, RUN)
    document: dict[str, Any] = {
        "cluster": _table(scenario.cluster, CLUSTER) | {"brokers": list(scenario.cluster.brokers)},
        "attached": _table(scenario.cluster.attached, ATTACHED),
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
