"""`results` and `trends` do what a CI asks, from a campaign folder alone, and refuse what is none in one line."""

import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.cli import main as cli
from tests.harness.ci.campaign_folder import campaign_folder, group_row, run_row
from tests.reports.stories.unclean_story import loss_run

Use = Callable[..., tuple[int, str, str]]


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Use:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kafka-chaos", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return int(str(ended.value.code)), printed.out, printed.err

    return run


def test_a_campaign_is_told_to_a_ci_and_its_exit_code_is_by_what_fails_the_job(tmp_path: Path, use: Use) -> None:
    folder = campaign_folder(
        tmp_path / "runs" / "campaigns" / "nightly",
        [run_row(1, verdict="violation", as_stated=False)],
        findings=[group_row("aa")],
        occurrences=[("aa", 1)],
    )
    code, reported, _ = use("trends", "runs/campaigns/nightly")
    assert (code, "runs/trends/trends.html" in reported) == (0, True)
    assert use("results", "nightly")[0] == 1
    assert ElementTree.parse(folder / "junit.xml").getroot().get("failures") == "1"
    assert "seen in 1 of the last 1 night" in (folder / "summary.md").read_text()
    assert use("results", "nightly", "--fail-on", "none", "--junit", "j.xml", "--summary", "s.md")[0] == 0
    assert Path("j.xml").read_bytes() == (folder / "junit.xml").read_bytes()


def test_a_link_in_a_campaigns_folder_is_not_written_through(tmp_path: Path, use: Use) -> None:
    folder = campaign_folder(tmp_path / "c", [run_row(1)])
    (folder / "summary.md").symlink_to(tmp_path / "elsewhere")
    code, _, reported = use("results", str(folder))
    assert code == 2
    assert "symbolic link" in reported
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("results none", "none: no campaign's folder"),
        ("results c --fail-on loss", "--fail-on loss: write some of"),
        ("results c --junit no/such/j.xml", "there is no folder"),
        ("trends", "no nights yet"),
        ("trends c c", "a campaign is a night of its own"),
        ("trends c --night ../x", "no name of a night"),
        ("serve --runs none", "no such folder"),
        ("serve --listen here", "give an IP address"),
        ("bisect c F1 --versions 4.3.1", "no run folder"),
    ],
)
def test_what_is_named_wrongly_is_one_line(tmp_path: Path, use: Use, line: str, expected: str) -> None:
    campaign_folder(tmp_path / "c", [run_row(1)])
    code, _, said = use(*line.split())
    assert code in (2, 4)
    assert expected in said
    assert len(said.splitlines()) == 1


def test_runs_become_a_night_once(tmp_path: Path, use: Use) -> None:
    run = loss_run(tmp_path / "runs", classification="violation")
    code, reported, _ = use("trends", run.name, "--night", "20261123-runs")
    assert (code, "Last night, 20261123-runs: 1" in reported) == (0, True)
    code, _, said = use("trends", run.name, "--night", "20261123-runs")
    assert (code, "in the store already" in said) == (2, True)
    code, reported, _ = use("trends", run.name, "--night", "20261122-runs")
    assert (code, "puts before 1 others, the newest 20261123-runs" in reported) == (0, True)
