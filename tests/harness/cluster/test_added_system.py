"""A system of an installed package is found by its name, says what it is like, and is refused where it cannot run."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness import extensions
from harness.cluster.brokers.system import SystemKind
from harness.cluster.catalogue import system_of, traits_of
from harness.errors import HarnessError, UsageError
from harness.preflight import capabilities, machine, target
from harness.preflight.looking import for_its_system
from harness.scenario.file import Draft
from harness.scenario.model import ClusterSpec, Scenario
from tests.harness.installing import install

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "extension"
ABSENT = """
from dataclasses import replace
from kafka_chaos_example.system import PATIENT
ABSENT = replace(PATIENT, name="absent", lacks=lambda: "its program is not here; install it", worlds=("local",))
"""


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLE)
    points = {extensions.SYSTEMS: {"patient": "kafka_chaos_example.system:PATIENT", "absent": "absent_system:ABSENT"}}
    install(tmp_path, "kafka-chaos-example", entry_points=points, modules={"absent_system": ABSENT})
    extensions.forget()
    yield
    for module in [name for name in sys.modules if name.startswith(("kafka_chaos_example", "absent_system"))]:
        del sys.modules[module]
    extensions.forget()


def parse(system: str, more: str = "") -> Scenario:
    text = f'[cluster]\nsystem = "{system}"\n[[topics]]\nname = "t"\n{more}'
    return for_its_system(Draft(text, name="s", place="s.toml"))


def test_it_is_named_with_a_version_and_tells_what_it_is(patient: None) -> None:
    spec = ClusterSpec(system="patient:9", settings={"min.insync.replicas": "2"})
    system = system_of(spec)
    assert system.title == "patient cluster (sessions of 9000 ms)"
    assert system.shown()["zookeeper.session.timeout.ms"] == "9000"
    assert traits_of(spec).names == {"patient", "zookeeper", "local"}


def test_a_scenario_may_differ_on_it(patient: None) -> None:
    variant = '[[on]]\nsystem = "patient"\nwhy = "it waits longer"\nexpect = { verdict = "violation" }\n'
    assert parse("patient", variant).expect.verdict == "violation"
    assert parse("reference", variant).expect.verdict == "pass"
    with pytest.raises(UsageError, match="'patent' is no system"):
        parse("patient", variant.replace('"patient"', '"patent"'))


def test_what_it_has_not_is_known_before_the_run(patient: None) -> None:
    with pytest.raises(UsageError, match="system 'patient' has no groups yet"):
        capabilities.check_workload(parse("patient", '[workload]\nname = "consumer_groups"\ngroup = "g"\n'))
    absent = parse("absent")
    (problem,) = target.problems(absent.cluster, absent.places)
    assert str(problem) == "s.toml:2: system 'absent': its program is not here; install it"
    with pytest.raises(UsageError, match="--world docker: system 'absent' runs in --world local"):
        system_of(ClusterSpec(system="absent", world="docker"))


@pytest.mark.cluster
def test_doctor_tells_which_can_run_here(patient: None) -> None:
    fields = {what: (there, found) for what, there, found in machine.health()}
    assert fields["system patient"] == (True, "runs here")
    assert fields["system absent"] == (False, "its program is not here; install it")
    assert fields["package kafka-chaos-example 1.0"] == (True, "system absent, system patient")


@pytest.mark.cluster
def test_a_broken_package_is_reported_by_doctor_and_stops_only_who_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    points = {extensions.SYSTEMS: {"broken": "broken_system:BROKEN"}}
    install(tmp_path, "broken-package", entry_points=points, modules={"broken_system": "raise OSError('no')"})
    extensions.forget()
    fields = {what: (there, found) for what, there, found in machine.health()}
    assert not fields["package broken-package 1.0"][0]
    assert "`pip uninstall broken-package`" in fields["package broken-package 1.0"][1]
    assert system_of(ClusterSpec()).title == "reference cluster"
    with pytest.raises(HarnessError, match="OSError: no"):
        system_of(ClusterSpec(system="broken"))
    extensions.forget()


@pytest.mark.cluster
def test_doctor_names_each_package_that_is_wrong_and_tells_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    source = "class Thing:\n    name = 'other'\nTHING = Thing()\n"
    groups = {"faults": "Thing", "workloads": "Thing", "checks": "THING", "systems": "THING"}
    for name, leads_to in groups.items():
        points = {f"kafka_chaos.{name}": {f"thing-{name}": f"strange_{name}:{leads_to}"}}
        install(tmp_path, f"strange-{name}", entry_points=points, modules={f"strange_{name}": source})
    extensions.forget()
    try:
        fields = {what: (there, found) for what, there, found in machine.health()}
    finally:
        extensions.forget()
    for name in groups:
        there, found = fields[f"package strange-{name} 1.0"]
        assert (there, f"entry point 'thing-{name}'" in found) == (False, True)
    assert "addresses" in fields


@pytest.mark.cluster
def test_a_system_that_cannot_say_what_it_lacks_costs_its_own_line(
    patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kind,) = (each for each in extensions.load(extensions.SYSTEMS, SystemKind) if each.name == "absent")

    def lacks() -> str:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(extensions, "load", lambda *_: [replace(kind, lacks=lacks)])
    fields = {what: (there, found) for what, there, found in machine.health()}
    assert fields["system absent"][0] is False
    assert "kafka-chaos-example 1.0" in fields["system absent"][1]
    assert "ZeroDivisionError: by zero" in fields["system absent"][1]
    assert "addresses" in fields
