"""`kafka-chaos explore`: which runs it plans, and what it says of those that do not pass."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from harness.campaign.outcome import exit_code_of_campaign
from harness.campaign.plan import Plan, PlannedRun
from harness.campaign.rows import RunJudged
from harness.cli.commands import explore
from harness.cli.main import app
from harness.errors import Problems
from harness.verdict import Verdict

Tell = Callable[[RunJudged, PlannedRun], None]


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """What is conducted, and nothing is run: seed 3 is a violation."""
    made: list[Plan] = []

    def conducted(plan: Plan, runs: Path, *, master: str, tell: Tell) -> tuple[Any, Path]:
        made.append(plan)
        for run in plan.runs:
            tell(_judged(run, "violation" if run.seed == 3 else "pass"), run)
        return None, runs

    monkeypatch.setattr(explore, "conducted", conducted)
    monkeypatch.setattr(explore, "end", lambda *_: None)
    return made


def _judged(run: PlannedRun, verdict: str) -> RunJudged:
    return RunJudged(
        number=run.number,
        client="aiokafka",
        folder="",
        verdict=verdict,
        stated="",
        as_stated=verdict == "pass",
        sentence_text="Violation: 3 records are gone.",
        began="2026-01-01T00:00:00Z",
        took_s=1.0,
        operations=1,
        records_acknowledged=1,
        schedule_faults=1,
    )


def _explored(*arguments: str) -> str:
    ended = CliRunner().invoke(app, ["explore", *arguments])
    assert ended.exception is None, ended.output
    return ended.output


def test_a_profile_is_drawn_once_for_each_seed(plans: list[Plan]) -> None:
    _explored("quick", "--seeds", "2..5", "--jobs", "2")

    (plan,) = plans
    assert [(run.seed, run.drawn, run.world) for run in plan.runs] == [(seed, 0, "simulated") for seed in (2, 3, 4, 5)]
    assert (plan.name, plan.jobs) == ("explore-quick-2-5", 2)


def test_a_scenario_is_the_same_for_each_seed(plans: list[Plan]) -> None:
    _explored("leader-crash-acks-all", "--seeds", "7..8", "--set", "workload.duration=3 s")

    (plan,) = plans
    assert [(run.number, run.seed, run.world, run.client) for run in plan.runs] == [
        (1, 7, "simulated", "aiokafka"),
        (2, 8, "simulated", "aiokafka"),
    ]
    assert len({run.text for run in plan.runs}) == 1
    assert "duration = 3.0" in plan.runs[0].text


def test_what_does_not_pass_is_told_with_what_makes_it_again(plans: list[Plan]) -> None:
    output = _explored("quick", "--seeds", "1..4")

    assert "seed 3, again: kafka-chaos explore quick --seeds 3" in output
    assert "3 records are gone" in output
    assert "seed 2" not in output


def test_a_broken_invariant_is_told_though_its_run_passed(plans: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    judged = _judged

    def passed(run: PlannedRun, verdict: str) -> RunJudged:
        return msgspec.structs.replace(judged(run, "pass"), broken_invariant="..." if run.seed == 2 else "")

    monkeypatch.setitem(globals(), "_judged", passed)
    output = _explored("quick", "--seeds", "1..4")

    assert "seed 2, again: kafka-chaos explore quick --seeds 2" in output
    assert "seed 3" not in output


def test_what_was_set_is_set_again(plans: list[Plan]) -> None:
    command = ["leader-crash-acks-all", "--seeds", "3"]
    command += ["--set", "workload.duration=3 s", "--set", "workload.rate_per_second=9"]
    _, again = _explored(*command).split("again: kafka-chaos explore ")

    assert shlex.split(again.splitlines()[0]) == command


@pytest.mark.parametrize("verdict", [Verdict.INCONCLUSIVE, Verdict.VACUOUS])
def test_seeds_of_which_none_says_anything_do_not_pass(plans: list[Plan], verdict: Verdict) -> None:
    _explored("quick", "--seeds", "1..4")

    assert exit_code_of_campaign([verdict] * 4, plans[0].inconclusive_share) == 3


@pytest.mark.parametrize("text", ["", "x", "5..2", "1..", "1..99999999999"])
def test_seeds_are_a_range(text: str) -> None:
    with pytest.raises(Problems, match=r"write A\.\.B"):
        explore.seed_range(text)


def test_a_profile_draws_its_settings_itself(plans: list[Plan]) -> None:
    with pytest.raises(Problems, match="a profile draws its settings"):
        explore._runs("quick", range(1, 2), ["workload.duration=3 s"])
