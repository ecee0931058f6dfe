"""The fault of the example package: steps, schedules, preflight and coverage know it, and none of them by name."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from faults import catalogue
from harness import extensions
from harness.errors import HarnessError, UsageError
from harness.ports.cluster import CanCutLinks
from harness.scenario import file as scenario_file
from harness.scenario.model import Scenario
from harness.scenario.written import written_out
from harness.verdict import is_coverage_name
from tests.harness.controller.fault_world import Play, player
from tests.harness.installing import install

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "extension"
TOPIC = '[[topics]]\nname = "t"\n'


@pytest.fixture
def mute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.syspath_prepend(EXAMPLE)
    points = {extensions.FAULTS: {"mute": "kafka_chaos_example.fault:Mute"}}
    install(tmp_path / "packages", "kafka-chaos-example", entry_points=points)
    extensions.forget()
    yield
    for module in [name for name in sys.modules if name.startswith("kafka_chaos_example")]:
        del sys.modules[module]
    extensions.forget()


@pytest.fixture
async def play(mute: None, tmp_path: Path) -> AsyncIterator[Play]:
    async with player(tmp_path / "run") as play:
        yield play


def parse(text: str) -> Scenario:
    return scenario_file.parse(TOPIC + text, name="s", place="s.toml")


async def test_a_step_begins_it_and_heal_ends_it_each_with_its_proof(play: Play) -> None:
    result, world = await play({"act": {"mute": 2, "reset": True}}, {"act": {"heal": "mute"}})

    assert result.inconclusive == ()
    (row,) = world.rows("faults")
    assert row["kind"] == "cut"
    assert row["nodes"] == [2]
    assert {(link["source"], link["target"]) for link in row["links"]} == {(2, 1), (2, 3)}
    assert row["begin_ns"] < row["end_ns"]
    assert row["proof_text"]
    assert row["healed_proof_text"]


def test_a_schedule_has_it_with_its_options_and_is_written_out_with_them(mute: None) -> None:
    text = '[[faults]]\nkind = "mute"\ntarget = "leader(t/0)"\nat = "1 s"\noptions = { reset = true }\n'
    scenario = parse(text)
    planned = scenario.faults[0].planned
    assert (planned.fault.name, planned.given) == ("mute", {"reset": True})
    assert scenario_file.parse(written_out(scenario), name="s", place="s").faults == scenario.faults


def test_preflight_knows_what_it_needs_and_which_options_it_has(mute: None) -> None:
    scenario = parse('[[steps]]\nact = { mute = 2, for = "1 s" }\n')
    assert [planned.fault.needs for _, _, planned in scenario.planned()] == [(CanCutLinks,)]
    with pytest.raises(UsageError, match=r"fault 'mute' has no option 'rest'; did you mean 'reset'\?"):
        catalogue.make("mute", {"rest": True})
    with pytest.raises(UsageError, match=r"unknown fault 'muted'; did you mean 'mute'\?"):
        catalogue.find("muted")


def test_it_is_counted_under_its_condition(mute: None) -> None:
    fault, _ = catalogue.find("mute")
    assert fault.coverage() == "cuts"
    assert is_coverage_name(fault.coverage())


def test_without_the_package_the_scenario_is_refused_by_the_name() -> None:
    extensions.forget()
    with pytest.raises(UsageError, match="unknown fault 'mute'"):
        catalogue.find("mute")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "@dataclass(frozen=True)\nclass Odd(Pause):\n    name = 'odd'\n    odd: set[int] | None = None",
            "field 'odd' is of no",
        ),
        ("class Odd(Pause):\n    name = 'odd'\n    odd: int = 3", "decorate Odd with @dataclass"),
    ],
)
def test_options_that_no_scenario_can_give_are_the_packages_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, expected: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = f"odd_fault_{len(source)}"
    text = f"from dataclasses import dataclass\nfrom faults.processes.pause import Pause\n{source}\n"
    install(tmp_path, "odd", entry_points={extensions.FAULTS: {"odd": f"{module}:Odd"}}, modules={module: text})
    extensions.forget()
    with pytest.raises(HarnessError) as caught:
        catalogue.find("odd")
    extensions.forget()
    assert str(caught.value).startswith("package odd 1.0: fault 'odd': ")
    assert expected in str(caught.value)


def test_a_name_of_ours_is_not_for_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "thief", entry_points={extensions.FAULTS: {"disk-loss": "nothing:Wipe"}})
    extensions.forget()
    with pytest.raises(HarnessError, match=r"package thief 1\.0, .*: the name 'disk-loss' is kafka-chaos's own"):
        catalogue.by_name()
    extensions.forget()
