"""The page of a run says in which nights its findings were seen where a store knows it, and else nothing of nights."""

import shutil
from pathlib import Path

import pytest

from harness.ci.campaign_rows import CampaignResults
from harness.cli.commands.nightly import after
from harness.compose import render
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.trends.nights import night_of_runs
from harness.trends.on_pages import NIGHTS, kept_runs, nights_of, write_to_runs
from harness.trends.store import Night, Store
from reports.run.page import build
from tests.harness.ci.campaign_folder import campaign_folder as campaign_of
from tests.harness.ci.campaign_folder import run_row
from tests.reports.stories.judged_folder import quiet_run
from tests.reports.stories.unclean_story import loss_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return loss_run(tmp_path / "runs", classification="violation")


def store_of(path: Path, run: Path, *, seen: set[int], nights: int) -> Store:
    store, made = Store(path / "trends"), night_of_runs([run])
    for number in range(1, nights + 1):
        found = made.findings if number in seen else []
        store.append(Night(name=f"202611{number:02}-020000-nightly", runs=made.runs, findings=found))
    return store


def test_each_finding_says_in_how_many_of_the_last_nights_it_was_seen_and_when_first_and_last(
    tmp_path: Path, run: Path
) -> None:
    store = store_of(tmp_path, run, seen={2, 8, 11, 24}, nights=25)
    assert write_to_runs(store, [run], render=render) == "1 page of runs say in which nights their findings were seen"
    wanted = (
        "Seen in 3 of the last 20 nights, the newest of them 20261125-020000-nightly. "
        "First night: 20261102-020000-nightly; last night: 20261124-020000-nightly."
    )
    assert {finding.nights for finding in build(run).findings} == {wanted}
    assert wanted in (run / "report.html").read_text()


def test_a_run_that_no_store_knows_says_nothing_of_nights(tmp_path: Path, run: Path) -> None:
    quiet = quiet_run(tmp_path / "quiet")
    store = store_of(tmp_path, run, seen=set(), nights=3)
    assert write_to_runs(store, [run, quiet], render=render).startswith("0 pages")
    assert not (run / NIGHTS).exists()
    assert {finding.nights for finding in build(run).findings} == {""}


def test_a_night_of_a_campaign_is_on_the_pages_of_the_runs_that_it_kept_and_nowhere_else(
    tmp_path: Path, run: Path
) -> None:
    rows = [
        run_row(1, folder=f"runs/{run.name}", verdict="violation"),
        run_row(2, folder=f"../../runs/{run.name}"),
        run_row(3, folder="runs/gone"),
        run_row(4, folder=""),
    ]
    campaign = campaign_of(tmp_path / "campaigns" / "c", rows)
    kept = campaign / "runs" / run.name
    shutil.copytree(run, kept)
    assert kept_runs(CampaignResults(campaign)) == [kept]
    store = store_of(tmp_path, run, seen={1, 2}, nights=2)
    (line,) = (line for line in after(campaign, store, master="local[1]") if line.startswith("Nights: "))
    assert line == "Nights: 1 page of runs say in which nights their findings were seen"
    assert "Seen in 2 of the last 3 nights" in (kept / "report.html").read_text()
    assert not (run / NIGHTS).exists()


def test_a_run_that_cannot_be_read_costs_only_its_own_page(tmp_path: Path, run: Path) -> None:
    store = store_of(tmp_path, run, seen={1}, nights=1)
    reported = write_to_runs(store, [tmp_path / "none", run], render=render)
    assert reported.startswith("1 page of runs say")
    assert "not so " in reported
    assert "no run folder" in reported


@pytest.mark.parametrize("content", [b"{", b'{"aa": {"nights": "x"}}', b"\xff", b"[]"])
def test_what_is_no_file_of_nights_costs_the_sentence_and_nothing_else(run: Path, content: bytes) -> None:
    (run / NIGHTS).write_bytes(content)
    with pytest.raises(HarnessError, match=r"nights\.json: not what nights leave"):
        nights_of(RunFolder(run))
    page = build(run)
    assert [section for section, _ in page.problems] == ["Findings"]
    assert page.findings


def test_a_link_in_the_place_of_that_file_is_not_followed(tmp_path: Path, run: Path) -> None:
    (run / NIGHTS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HarnessError, match="symbolic link"):
        nights_of(RunFolder(run))
