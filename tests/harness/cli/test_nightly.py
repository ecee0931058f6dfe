"""The nightly's own decisions: what it runs where, what it compares, and that a page that fails costs no verdict."""

from pathlib import Path

import pytest

from harness.campaign.file import read_campaign
from harness.campaign.plan import Plan, PlannedRun
from harness.ci.campaign_rows import CampaignResults
from harness.cli.commands import nightly
from harness.cli.commands.nightly import after, compared, with_containers
from harness.errors import HarnessError
from harness.trends.store import Store
from tests.harness.ci.campaign_folder import campaign_folder, run_row


def plan(*scenarios: str, world: str = "local") -> Plan:
    runs = [
        PlannedRun(
            number=number, scenario=name, text="", system="reference", world=world, client="kafka-python", seed=1
        )
        for number, name in enumerate(scenarios, 1)
    ]
    return Plan(name="nightly", seed=1, runs=tuple(runs))


def test_runs_in_containers_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "read_campaign", lambda *_, **__: plan("c", world="docker"))
    both = with_containers(plan("a", "b"), tell=lambda _: None)
    assert [(run.number, run.scenario, run.world) for run in both.runs] == [
        (1, "c", "docker"),
        (2, "a", "local"),
        (3, "b", "local"),
    ]


def test_the_shipped_nightly_has_a_budget_and_both_systems_in_shipped_and_drawn_schedules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.campaign.file.preflight", lambda *_, **__: [])
    monkeypatch.setattr("harness.preflight.looking.preflight", lambda *_, **__: [])
    night = read_campaign(nightly.NIGHTLY, tell=lambda _: None)
    assert night.time_s == 20 * 60
    assert night.name == "nightly"
    kinds = {(run.system, run.drawn is not None) for run in night.runs}
    assert kinds == {(system, drawn) for system in ("reference", "kafka:4.3.1") for drawn in (True, False)}
    more = read_campaign(nightly.CONTAINERS, tell=lambda _: None)
    assert {run.world for run in more.runs} == {"docker"}


def test_runs_of_one_scenario_on_two_systems_are_compared(tmp_path: Path) -> None:
    rows = [
        run_row(1, scenario="a"),
        run_row(2, scenario="b"),
        run_row(3, scenario="b", system="kafka:4.3.1"),
        run_row(4, scenario="b", system="kafka:4.3.1", world="docker"),
        run_row(5, scenario="b", system="kafka:3.9.1", folder=""),
    ]
    runs = CampaignResults(campaign_folder(tmp_path / "c", rows)).runs
    assert [run.number for run in compared(runs, has_folder=lambda _: True)] == [2, 3]
    assert compared(runs, has_folder=lambda _: False) == []


def test_a_scenario_that_came_to_a_verdict_on_both_systems_is_compared_first(tmp_path: Path) -> None:
    rows = [
        run_row(1, scenario="a"),
        run_row(2, scenario="a", system="kafka:4.3.1", verdict="inconclusive"),
        run_row(3, scenario="b"),
        run_row(4, scenario="b", system="kafka:4.3.1"),
    ]
    runs = CampaignResults(campaign_folder(tmp_path / "c", rows)).runs
    assert [run.number for run in compared(runs, has_folder=lambda _: True)] == [3, 4]
    assert [run.number for run in compared(runs[:3], has_folder=lambda _: True)] == [1, 2]


def test_a_store_in_which_no_night_can_be_kept_is_refused_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nightly, "read_campaign", lambda *_, **__: plan("a"))
    monkeypatch.setattr(nightly, "conducted", lambda *_, **__: pytest.fail("it ran"))
    (tmp_path / "store").write_text("no folder")
    with pytest.raises(HarnessError, match="name another folder with --store"):
        nightly.nightly(file=tmp_path / "n.toml", runs=tmp_path, store=tmp_path / "store", time=None)


def test_the_night_is_kept_once_and_what_cannot_be_made_of_it_is_reported(tmp_path: Path) -> None:
    folder = campaign_folder(tmp_path / "c", [run_row(1)])
    store = Store(tmp_path / "trends")
    first, again = (after(folder, store, master="local[1]") for _ in range(2))
    assert first[0].startswith("No comparison")
    assert (tmp_path / "trends" / "trends.html").is_file()
    assert again[1].startswith("No night: ")
    assert "already" in again[1]
    assert len(store.names()) == 1
