"""A campaign from the outside: killed, interrupted, in shards, with runs that fail. No cluster is started: what a run
does and what it comes to is given."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.campaign import conduct
from harness.campaign.journal import Ended
from harness.campaign.plan import PlannedRun
from harness.cli import main as cli
from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.trends.nights import night_of_runs
from harness.trends.store import Store
from tests.end_to_end.shell import marked_processes
from tests.harness.campaign.fake_campaign import ROOT, without_spark
from tests.harness.campaign.test_campaign_outcome import seen
from tests.reports.stories.unclean_story import loss_run
from tests.waiting import until

THREE = '[[matrix]]\nscenarios = ["no-faults"]\nseeds = [1, 2, 3]\n'
SIX = THREE.replace("[1, 2, 3]", "[1, 2, 3, 4, 5, 6]")


class Campaign:
    """`night.toml` in a directory of its own, started as often as a test likes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.folder = directory / "runs" / "campaigns" / "night"
        (directory / "night.toml").write_text(THREE)

    def start(self) -> "subprocess.Popen[bytes]":
        command = "from tests.harness.campaign.fake_campaign import main; main()"
        marker = {"KAFKA_CHAOS_RUN": f"{self.directory}/", "XDG_STATE_HOME": str(self.directory / "state")}
        with (self.directory / "output").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-c", command, "campaign", "night.toml"],
                cwd=self.directory,
                env={**os.environ, **marker, "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=output,
            )

    def ended_by(self, number: int | None) -> int:
        """The exit code of a start that gets this signal while its second run is under way; None: it may go on."""
        if number is None:
            (self.directory / "go").touch()
        process = self.start()
        try:
            if number is not None:
                until(lambda: list(self.folder.glob("runs/0002/*/run.json")), "the second run")
                process.send_signal(number)
            return process.wait(60)
        finally:
            process.kill()
            process.wait(30)

    @property
    def leaves_nothing(self) -> bool:
        return not marked_processes(f"KAFKA_CHAOS_RUN={self.directory}/")

    @property
    def begun(self) -> list[tuple[int, int]]:
        """(run, attempt) of each beginning."""
        lines = map(json.loads, (self.folder / "journal.jsonl").read_text().splitlines())
        return [(line["number"], line["attempt"]) for line in lines if line["type"] == "begun"]

    @property
    def verdict(self) -> dict[str, Any]:
        stored: dict[str, Any] = json.loads((self.folder / "verdict.json").read_text())
        return stored

    @property
    def output(self) -> str:
        return (self.directory / "output").read_text()


def ends_in_one_verdict(campaign: Campaign) -> bool:
    counts = {verdict: count for verdict, count in campaign.verdict["counts"].items() if count}
    names = [path.name for path in (campaign.folder.parent).iterdir()]
    return (campaign.verdict["verdict"], counts, names) == ("pass", {"pass": 3}, ["night"])


@pytest.mark.slow
def test_a_campaign_killed_amid_a_run_leaves_no_process_and_the_same_command_goes_on_to_one_verdict(
    tmp_path: Path,
) -> None:
    campaign = Campaign(tmp_path)
    assert campaign.ended_by(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: campaign.leaves_nothing, "the end of what it had started")
    assert not (campaign.folder / "verdict.json").exists()
    assert campaign.ended_by(None) == 0, campaign.output
    assert campaign.begun == [(1, 1), (2, 1), (2, 2), (3, 1)]
    assert ends_in_one_verdict(campaign)
    assert (campaign.folder / "campaign.html").is_file()
    until(lambda: campaign.leaves_nothing, "the end of what it had started")


@pytest.mark.slow
def test_an_interrupted_campaign_ends_with_its_page_and_verdict_and_goes_on_later(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    code = campaign.ended_by(signal.SIGINT)
    assert code == campaign.verdict["exit_code"]
    assert Counter(campaign.verdict["counts"])["pass"] == 1
    assert (campaign.folder / "campaign.html").is_file()
    assert "Interrupted: the same command goes on where it stopped." in campaign.output
    until(lambda: campaign.leaves_nothing, "the end of what it had started")
    assert campaign.ended_by(None) == 0, campaign.output
    # An attempt that the campaign ended itself does not count.
    assert campaign.begun == [(1, 1), (2, 1), (2, 0), (2, 1), (3, 1)]
    assert ends_in_one_verdict(campaign)


Command = Callable[..., int]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`kafka-chaos campaign` in this process. Runs 2 and 5 have a finding; what `failing` names is not done."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(conduct, "catch_signals", lambda *_, **__: None)  # they are pytest's
    failing: dict[int, str] = {}

    async def run_one(files: FilesBelow, planned: PlannedRun, scenario: Path, **_: Any) -> Ended:
        assert scenario.is_file()
        if failing.get(planned.number) == "no process":
            raise HarnessError("no process can be started")
        error = failing.get(planned.number, "")
        return Ended(number=planned.number, folder=f"runs/{planned.number}", error=error, took_s=1.0)

    monkeypatch.setattr(conduct, "run_one", run_one)

    def run(*arguments: str, fails: dict[int, str] | None = None) -> int:
        failing.clear()
        failing.update(fails or {})
        monkeypatch.setattr(sys, "argv", ["kafka-chaos", "campaign", *arguments])
        with ExitStack() as stack:
            without_spark(stack, {} if fails else {2: [seen("aa")], 5: [seen("aa"), seen("bb")]})
            with pytest.raises(SystemExit) as ended:
                cli.main()
        return int(str(ended.value.code))

    return run


def results(folder: Path) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """(the verdict, the rows of each table)"""
    tables = {path.stem: pq.read_table(path).to_pylist() for path in sorted(folder.glob("tables/*.parquet"))}
    return json.loads((folder / "verdict.json").read_text()), tables


def test_shards_that_ran_apart_come_to_the_same_verdict_and_tables_as_one_campaign(
    tmp_path: Path, command: Command
) -> None:
    (tmp_path / "night.toml").write_text(SIX)
    assert command("night.toml", "--runs", "whole") == 1
    for shard in ("1/2", "2/2"):
        command("night.toml", "--shard", shard, "--runs", "apart")
    shards = [f"apart/campaigns/night-shard-{number}-of-2" for number in (1, 2)]
    assert [len(results(Path(shard))[1]["runs"]) for shard in shards] == [3, 3]
    assert command(*shards, "--runs", "merged") == 1
    whole = results(tmp_path / "whole" / "campaigns" / "night")
    assert len(whole[1]["runs"]) == 6
    assert [(group["fingerprint"], group["runs"]) for group in whole[1]["findings"]] == [("aa", 2), ("bb", 1)]
    assert results(tmp_path / "merged" / "campaigns" / "night") == whole


def test_a_run_that_errs_stops_no_other_and_the_campaign_ends_with_4(tmp_path: Path, command: Command) -> None:
    (tmp_path / "night.toml").write_text(SIX)
    assert command("night.toml", fails={2: "no process", 4: "broker 1 did not start"}) == 4
    result, tables = results(tmp_path / "runs" / "campaigns" / "night")
    verdicts = [run["verdict"] for run in tables["runs"]]
    assert verdicts == ["pass", "error", "pass", "error", "pass", "pass"]
    assert (result["verdict"], result["exit_code"]) == ("error", 4)


def test_what_this_machine_cannot_do_is_not_begun_and_stands_in_the_results_with_its_reason(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    (tmp_path / "night.toml").write_text(THREE + 'worlds = ["docker", "local"]\n')
    assert command("night.toml") == 1
    result, tables = results(tmp_path / "runs" / "campaigns" / "night")
    assert [run["verdict"] for run in tables["runs"]] == [*["not_run"] * 3, "pass", "violation", "pass"]
    assert tables["runs"][0]["sentence_text"].startswith("no Docker engine answers at unix://")
    assert result["counts"]["not_run"] == 3
    assert "3 not run (no Docker engine answers" in result["sentence"]


@pytest.mark.parametrize("nights", [0, 2])
def test_pages_of_runs_say_in_which_nights_their_findings_were_seen_where_there_are_nights(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, nights: int
) -> None:
    run = loss_run(tmp_path / "elsewhere", classification="violation")
    night = night_of_runs([run])
    for number in range(nights):
        Store(tmp_path / "runs" / "trends").append(replace(night, name=f"night-{number}"))

    async def run_one(files: FilesBelow, planned: PlannedRun, scenario: Path, **_: Any) -> Ended:
        assert scenario.is_file()
        shutil.copytree(run, files.top / "runs" / str(planned.number))
        return Ended(number=planned.number, folder=f"runs/{planned.number}", error="", took_s=1.0)

    monkeypatch.setattr(conduct, "run_one", run_one)
    (tmp_path / "night.toml").write_text(THREE)
    assert command("night.toml") == 1
    pages = list((tmp_path / "runs" / "campaigns" / "night").glob("runs/*/report.html"))
    assert len(pages) == (3 if nights else 0)  # the stand-in for the judge makes none
    assert all("Seen in 2 of the last 2 nights" in page.read_text() for page in pages)
