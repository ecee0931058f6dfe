"""A fault of an installed package is one like ours: for schedules, steps, what is known before a run, and coverage."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults import catalogue
from harness import extensions
from harness.controller.context import PlanResult
from harness.controller.fault_schedule import FaultSchedule
from harness.errors import HarnessError, UsageError
from harness.ports.cluster import CanPause
from harness.scenario import file as scenario_file
from harness.scenario.model import FaultSpec
from harness.scenario.written import written_out
from tests.harness.controller.fault_world import fault_world, player, scenario_of
from tests.harness.installing import install

STUTTER = '''
from dataclasses import dataclass
from harness.extending.faults import CanPause, Evidence, Fault, Seconds, joined

@dataclass(frozen=True, kw_only=True)
class Stutter(Fault):
    """Pauses and resumes, again and again at once."""

    name = "stutter"
    says = "several short pauses"
    kind = "stutter"
    needs = (CanPause,)
    times: int = 2
    each_s: Seconds = 0.0

    @classmethod
    def drawn(cls, chance):
        return {"times": chance.randint(2, 9)}

    async def begin(self, cluster, struck):
        return joined([await cluster.pause(node) for node in struck.nodes for _ in range(self.times)])

    async def end(self, cluster, struck):
        return joined([await cluster.resume(node) for node in struck.nodes])
'''
MINIMAL = '[[topics]]\nname = "orders"\n'


@pytest.fixture
def stutter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "site"
    monkeypatch.syspath_prepend(folder)
    points = {extensions.FAULTS: {"stutter": "stuttering:Stutter"}}
    install(folder, "chaos-stutter", entry_points=points, modules={"stuttering": STUTTER})
    extensions.forget()
    yield
    extensions.forget()
    sys.modules.pop("stuttering", None)


@pytest.mark.usefixtures("stutter")
async def test_it_is_done_by_a_schedule_and_by_a_step(tmp_path: Path) -> None:
    scenario = scenario_of(
        faults=[FaultSpec(kind="stutter", target="2", at_s=0.0, for_s=0.02, options={"times": 3})], duration_s=0.05
    )
    async with fault_world(tmp_path / "schedule", scenario) as world:
        result = await FaultSchedule(scenario=scenario).run(world.context)
    assert (result.inconclusive, result.skipped) == ((), ())
    by_schedule = world.cluster.deeds

    async with player(tmp_path) as play:
        result, world = await play({"act": {"stutter": 2, "times": 3}}, {"act": {"heal": "stutter"}})
    assert result == PlanResult()
    assert world.cluster.deeds == by_schedule == ["pause 2", "pause 2", "pause 2", "resume 2"]
    (row,) = world.faults()
    assert (row["kind"], row["label_text"], row["nodes"]) == ("stutter", "stutter of broker 2 (times 3)", [2])
    assert row["proof_text"] == "pause 2 was seen; pause 2 was seen; pause 2 was seen"


@pytest.mark.usefixtures("stutter")
def test_it_is_known_before_a_run_with_its_options_and_what_it_needs() -> None:
    def planned(options: str) -> Any:
        text = f'{MINIMAL}[[faults]]\nkind = "stutter"\nat = "1 s"\n{options}[coverage]\nfaults_of_stutter = 1\n'
        scenario = scenario_file.parse(text, name="s", place="s.toml")
        assert scenario_file.parse(written_out(scenario), name="s", place="again").faults == scenario.faults
        return scenario

    ((_, _, fault),) = planned("").planned()
    assert fault.fault.needs == (CanPause,)
    assert fault.fault.coverage() == "faults_of_stutter"
    with pytest.raises(UsageError, match=r"^fault 'stutter': times: a whole number is needed, not 'often'$"):
        _ = planned('options = { times = "often" }\n').faults[0].planned
    with pytest.raises(UsageError, match="did you mean 'times'"):
        _ = planned("options = { tims = 3 }\n").faults[0].planned


@pytest.mark.usefixtures("stutter")
def test_it_stands_among_ours() -> None:
    assert [*catalogue.by_name()][-1] == "stutter"
    with pytest.raises(UsageError, match="did you mean 'stutter'"):
        catalogue.find("stuter")


@pytest.mark.parametrize("taken", ["kill", "crash", "produce"])
def test_one_that_takes_a_name_of_ours_is_refused_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "chaos-thief", entry_points={extensions.FAULTS: {taken: "thief:Thief"}}, modules={"thief": ""})
    extensions.forget()
    try:
        with pytest.raises(HarnessError, match="package chaos-thief"):
            catalogue.by_name()
    finally:
        extensions.forget()
