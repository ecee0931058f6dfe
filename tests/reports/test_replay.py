"""The commands on a page do what they say when they are pasted into a shell, whatever the names in them."""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import compose
from harness.cli.main import app
from harness.errors import UsageError
from harness.preflight import looking
from harness.scenario.file import lasting, load
from harness.scenario.model import Given, Scenario
from reports.run.page import build
from reports.run.replay.commands import CHANGED, SAME_AGAIN
from tests.reports.stories.unclean_story import loss_run


def with_run(run: Path, **fields: Any) -> Path:
    path = run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return run


class Stopped(Exception):
    """The command got as far as a run would."""


def asked_by(command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int | None, list[str]]:
    """(scenario, seed, overrides) that a command line asks a run for."""
    asked: list[tuple[str, int | None, list[str]]] = []

    def ready(reference: str, *, overrides: Sequence[str] = (), **others: Any) -> Scenario:
        return replace(load("no-faults"), given=Given(reference=reference, overrides=tuple(overrides)))

    def taken(scenario: Scenario, *, seed: int | None, **others: Any) -> None:
        assert scenario.given is not None
        asked.append((scenario.given.reference, seed, list(scenario.given.overrides)))
        raise Stopped

    program, *words = shlex.split(command)
    assert program == "kafka-chaos"
    monkeypatch.setattr(looking, "ready", ready)  # none of these files is there
    monkeypatch.setattr(compose, "run_scenario", taken)
    monkeypatch.setattr(sys, "argv", [program, *words])
    with pytest.raises(Stopped):
        app(words, standalone_mode=False)
    (one,) = asked
    return one


GIVEN = [
    ("unclean-election", []),
    ("seeds/isr-lag", []),
    ("my scenarios/it's mine & yours; $(touch owned).toml", []),
    ("-x.toml", []),
    ("--attached=harm.toml", []),
    ("plain.toml", ["cluster.system=kafka:4.3.1", "cluster.world=docker", "workload.client=confluent-kafka"]),
    ("plain.toml", ["cluster.system=attached", "cluster.bootstrap=localhost:92", "attached.kill=\"kill '$N'; true\""]),
    ("plain.toml", ["-not=an option", "workload.acks=1", "topics.0.name=a b"]),
]


@pytest.mark.parametrize(("scenario", "overrides"), GIVEN)
def test_the_same_scenario_and_seed_are_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str, overrides: list[str]
) -> None:
    run = with_run(loss_run(tmp_path), given={"scenario": scenario, "overrides": overrides})
    command = dict(build(run).commands)[SAME_AGAIN]

    reference, seed, reported = asked_by(command, monkeypatch)

    assert (str(Path(reference)), seed) == (str(Path(scenario)), 7)
    assert sorted(reported) == sorted(overrides)


def test_a_runs_own_folder_is_named_as_it_is_reached_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = loss_run(tmp_path / "my runs")
    monkeypatch.chdir(tmp_path)
    commands = dict(build(run).commands)
    assert commands["This run's own schedule"] == f"kafka-chaos run 'my runs/{run.name}'"
    assert asked_by(commands[CHANGED[0]], monkeypatch) == (
        f"my runs/{run.name}",
        None,
        ["unclean.leader.election.enable=false"],
    )

    monkeypatch.chdir(run)
    assert dict(build(run).commands)["This run's own schedule"] == "kafka-chaos run ."

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert dict(build(run).commands)["This run's own schedule"] == f"kafka-chaos run '{run}'"


@pytest.mark.parametrize(("name", "expected"), [("seeds-isr-lag", "seeds/isr-lag --seed 7"), ("mine", None)])
def test_of_older_runs_only_a_shipped_scenario_can_be_named(tmp_path: Path, name: str, expected: str | None) -> None:
    run = loss_run(tmp_path)
    text = (run / "scenario.toml").read_text().replace("# scenario: unclean-election", f"# scenario: {name}")
    (run / "scenario.toml").write_text(text)
    assert dict(build(run).commands).get(SAME_AGAIN) == (expected and f"kafka-chaos run {expected}")


def test_what_moves_on_is_named_by_where_it_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = loss_run(tmp_path / "runs")
    (tmp_path / "runs" / "latest").symlink_to(run.name)
    monkeypatch.chdir(tmp_path)
    assert lasting("runs/latest") == f"runs/{run.name}"
    assert lasting(f"runs/{run.name}") == f"runs/{run.name}"
    assert lasting("unclean-election") == "unclean-election"


def test_what_the_run_was_made_of_stands_beside_its_commands(tmp_path: Path) -> None:
    fields = {
        "kafka-chaos": {"commit": "1" * 40, "state": "modified"},
        "scenario": {"commit": "2" * 40, "state": "as committed"},
    }
    run = with_run(loss_run(tmp_path), given={"scenario": "mine.toml", "overrides": []}, commits=fields)
    rows = dict(build(run).environment)
    assert rows["kafka-chaos"] == "0.1.0, commit 111111111111, modified since"
    assert rows["scenario"] == "mine.toml, commit 222222222222"


@pytest.mark.parametrize(
    "fields",
    [
        {"given": {"scenario": 5}},
        {"given": {"scenario": "x", "overrides": "y"}},
        {"commits": {"scenario": {"commit": "1", "state": "<b>"}}},
        {"commits": ["1"]},
    ],
)
def test_what_no_run_writes_is_refused_in_one_line(tmp_path: Path, fields: dict[str, Any]) -> None:
    run = with_run(loss_run(tmp_path), **fields)
    with pytest.raises(Exception, match=r"run\.json: Expected|run\.json: Invalid") as caught:
        build(run)
    assert not isinstance(caught.value, UsageError)
    assert "\n" not in str(caught.value)
