"""`compare` makes runs in turn, judges what nobody judged, and a system that cannot be run costs only its column."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import compose
from harness.cli import comparison_runs
from harness.cli import main as cli
from harness.cli.comparison_runs import Variant, compare_scenario, stored_run, variants_of
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.scenario.model import Scenario
from tests.reports.campaign.made_up import made_up_campaign
from tests.reports.stories.crash_story import crash_run

SCENARIO = "leader-crash-acks-all"


class _World:
    """Stands in for clusters and Spark: folders that were built, and a session that finds them judged."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.judged: list[str] = []
        self.refuse: Callable[[tuple[str, ...]], str] = lambda _: ""
        self.unjudgeable: set[str] = set()
        monkeypatch.setattr(compose, "run_scenario", self.run)
        monkeypatch.setattr(compose, "JudgingSession", lambda **_: self)

    def run(self, scenario: Scenario, *, runs: Path, **_: Any) -> tuple[RunFolder, Any]:
        assert scenario.name == SCENARIO
        overrides = ("workload.acks=1",) if scenario.workload.acks == "1" else ()
        self.asked.append(overrides)
        refused = self.refuse(overrides)
        if refused:
            raise HarnessError(refused)
        return RunFolder(crash_run(runs, overrides=overrides)), SimpleNamespace(status="complete", error=None)

    def judge(self, path: Path) -> Any:
        self.judged.append(path.name)
        if path.name in self.unjudgeable:
            raise HarnessError("Spark has no memory")
        return SimpleNamespace(judgement=SimpleNamespace(verdict=SimpleNamespace(value="pass")))

    def close(self) -> None:
        self.judged.append("closed")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> _World:
    return _World(monkeypatch)


def compare(runs: Path, variants: list[Variant], *, repeat: int = 2, received: list[str] | None = None) -> Any:
    tell = received.append if received is not None else lambda _: None
    return compare_scenario(
        SCENARIO, variants, repeat=repeat, runs=runs, out=None, seed=1, overrides=[], master="local[1]", tell=tell
    )


ACKS = [Variant(label="one", overrides=("workload.acks=1",)), Variant(label="all", overrides=())]


def test_a_variant_is_a_name_and_any_number_of_overrides() -> None:
    [system, plain, both] = variants_of(["kafka:4.3.1"], ["plain:", "both:workload.acks=1,cluster.brokers=[3,1,2]"])

    assert system == Variant(label="kafka:4.3.1", overrides=("cluster.system=kafka:4.3.1",))
    assert plain.overrides == ()
    assert both.overrides == ("workload.acks=1", "cluster.brokers=[3,1,2]")


@pytest.mark.parametrize(
    ("systems", "variants", "expected"),
    [
        (["reference"], [], "two columns"),
        (["reference", "reference"], [], "called 'reference'"),
        ([], ["acks1:workload.acks", "x:"], "NAME:KEY=VALUE"),
        ([], ["workload.acks=1", "x:"], "NAME:KEY=VALUE"),
        ([], [":workload.acks=1", "x:"], "NAME:KEY=VALUE"),
    ],
)
def test_columns_that_make_no_comparison_are_refused(systems: list[str], variants: list[str], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        variants_of(systems, variants)


def test_the_columns_take_turns_and_are_judged_after_the_last_run(tmp_path: Path, world: _World) -> None:
    page, comparison = compare(tmp_path, ACKS, repeat=2)

    assert world.asked == [("workload.acks=1",), (), ("workload.acks=1",), ()]
    assert len(world.judged) == 5
    assert world.judged[-1] == "closed"
    assert [len(column.counted) for column in comparison.columns] == [2, 2]
    assert page == next(tmp_path.glob("comparison-*")) / "comparison.html"
    assert page.is_file()


def test_a_column_that_cannot_be_run_says_why_and_the_other_goes_on(tmp_path: Path, world: _World) -> None:
    world.refuse = lambda overrides: "no Java on this machine" if overrides else ""
    received: list[str] = []
    page, comparison = compare(tmp_path, ACKS, received=received)

    assert [run.why for run in comparison.columns[0].runs] == ["no Java on this machine"] * 2
    assert len(comparison.columns[1].counted) == 2
    assert "no Java on this machine" in page.read_text(encoding="utf-8")
    assert "one, repeat 1: no run: no Java on this machine" in received


def test_a_run_that_cannot_be_judged_says_why(tmp_path: Path, world: _World) -> None:
    first = crash_run(tmp_path).name
    world.unjudgeable = {f"{first}-2"}
    _, comparison = compare(tmp_path, ACKS)

    assert comparison.columns[0].runs[0].why == "Spark has no memory"
    assert [len(column.counted) for column in comparison.columns] == [1, 2]


def test_names_that_a_scenario_does_not_know_are_refused_before_anything_is_run(tmp_path: Path, world: _World) -> None:
    with pytest.raises(UsageError, match="akcs"):
        compare(tmp_path, [ACKS[1], Variant(label="bad", overrides=("workload.akcs=1",))])
    assert world.asked == []


def test_after_an_interrupt_no_further_run_is_begun(
    tmp_path: Path, world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> tuple[RunFolder, Any]:
        folder, _ = world.run(*arguments, **options)
        return folder, SimpleNamespace(status="interrupted", error=None)

    monkeypatch.setattr(compose, "run_scenario", interrupted)
    _, comparison = compare(tmp_path, ACKS)

    assert len(world.asked) == 1
    assert comparison.columns[1].runs[1].why == "interrupted before this run"


def test_stored_runs_are_judged_only_where_nobody_did(tmp_path: Path, world: _World) -> None:
    judged, open_ = crash_run(tmp_path), crash_run(tmp_path, overrides=["workload.acks=1"])
    (open_ / "verdict.json").unlink()
    stored = [stored_run(f"old={judged.name}", lambda name: tmp_path / name), stored_run(str(open_), Path)]
    comparison_runs.compare_stored(stored, runs=tmp_path, out=tmp_path / "page", master="local[1]", tell=lambda _: None)

    assert world.judged == [open_.name, "closed"]
    html = (tmp_path / "page" / "comparison.html").read_text(encoding="utf-8")
    assert "not judged yet" in html  # this session wrote no verdict
    assert "old" in html


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["kafka-chaos", "compare", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, printed.out + printed.err

    return run


def test_the_command_compares_stored_runs_and_says_what_differs(
    tmp_path: Path, command: Callable[..., tuple[int, str]]
) -> None:
    quick = [crash_run(tmp_path / "runs", leader_s=0.5, silent_s=0.5 + i / 50) for i in range(2)]
    slow = [crash_run(tmp_path / "runs", leader_s=3.0, silent_s=4.0 + i / 50) for i in range(2)]
    given = [*(f"quick={each.name}" for each in quick), *(f"slow={each.name}" for each in slow)]
    code, reported = command(*given, "--out", "page")

    assert code == 0
    assert "quick had a new leader within 0.50 s, slow within 3.00 s." in reported
    data = json.loads((tmp_path / "page" / "comparison.json").read_text(encoding="utf-8"))
    assert [len(column["runs"]) for column in data["columns"]] == [2, 2]


def test_the_command_puts_campaigns_side_by_side_by_path_or_name(
    tmp_path: Path, command: Callable[..., tuple[int, str]]
) -> None:
    folder = made_up_campaign(tmp_path / "runs" / "campaigns" / "monday", runs=80, groups=7)
    made_up_campaign(tmp_path / "elsewhere", runs=60)
    code, reported = command("monday", "elsewhere", "--out", "page")

    assert code == 0
    assert "5 different violations: 1 only in A, 4 in both." in reported
    assert (tmp_path / "page" / "campaigns.html").is_file()
    assert command(str(folder), "elsewhere")[0] == 0
    assert len(list((tmp_path / "runs").glob("comparison-monday-*/campaigns.json"))) == 1


def test_a_campaign_is_compared_with_campaigns_alone(tmp_path: Path, command: Callable[..., tuple[int, str]]) -> None:
    made_up_campaign(tmp_path / "monday", runs=8)
    run = crash_run(tmp_path / "runs")
    for other in (run.name, "n" * 5000):
        code, reported = command("monday", other)
        assert (code, reported.count("\n")) == (2, 1)
        assert "no campaign; compare campaigns with campaigns, and runs with runs" in reported
    code, reported = command("monday")
    assert code == 2
    assert "give two campaigns to compare" in reported


def test_the_command_says_with_its_exit_code_that_there_was_nothing_to_compare(
    tmp_path: Path, command: Callable[..., tuple[int, str]]
) -> None:
    runs = [
        crash_run(tmp_path / "runs"),
        crash_run(tmp_path / "runs", verdict="inconclusive", reasons=["It stuck."]),
    ]
    code, reported = command(*(f"{name}={run.name}" for name, run in zip("ab", runs, strict=True)), "--out", "page")

    assert code == 3
    assert "b came to no run whose numbers count" in reported


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "give runs to compare, or --scenario"),
        (["yesterday", "--scenario", SCENARIO], "give runs to compare, or --scenario"),
        (["yesterday"], "yesterday: no run folder"),
        (["--scenario", SCENARIO, "--system", "reference"], "two columns"),
        (["--scenario", "leader-crush-acks-all", "--variant", "a:", "--variant", "b:"], "leader-crash-acks-all"),
        (["--scenario", SCENARIO, "--variant", "a:", "--system", "redis"], "redis"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_2(
    command: Callable[..., tuple[int, str]], arguments: list[str], expected: str
) -> None:
    code, said = command(*arguments)

    assert code == 2
    assert expected in said
    assert said.count("\n") == 1
