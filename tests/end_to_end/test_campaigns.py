"""Campaigns of real runs, killed and interrupted."""

import json
import signal
from pathlib import Path

import pytest

from tests.end_to_end.shell import Shell, read_json
from tests.waiting import until

pytestmark = pytest.mark.slow

APART = """
[[matrix]]
scenarios = ["no-faults"]
seeds = [1, 2]
set = ["workload.duration=3 s"]
"""


def begun(folder: Path) -> list[tuple[int, int]]:
    """(run, attempt) of each beginning."""
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return [(line["number"], line["attempt"]) for line in lines if line["type"] == "begun"]


def runs_of(folder: Path, number: int) -> int:
    """How many attempts at a run have a folder; `latest` is a link to one of them."""
    return sum(not path.parent.is_symlink() for path in folder.glob(f"runs/{number:04}/*/run.json"))


def test_a_campaign_of_real_runs_goes_on_after_a_kill_and_after_ctrl_c_and_ends_in_one_verdict(
    fresh_shell: Shell,
) -> None:
    (fresh_shell.directory / "night.toml").write_text(APART)
    folder = fresh_shell.runs / "campaigns" / "night"
    for start, sent in ((1, signal.SIGKILL), (2, signal.SIGINT)):
        campaign = fresh_shell.start("campaign", "night.toml")
        try:
            until(lambda start=start: runs_of(folder, 1) >= start, "a run")  # type: ignore[misc]
            until(fresh_shell.processes, "its cluster")
            campaign.send_signal(sent)
            campaign.wait(120)
        finally:
            campaign.kill()
            campaign.wait(30)
        until(lambda: not fresh_shell.processes(), "the end of what it had started")
    assert (folder / "campaign.html").is_file()
    assert read_json(folder / "verdict.json")["exit_code"] == campaign.returncode
    ended = fresh_shell.run("campaign", "night.toml")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert begun(folder) == [(1, 1), (1, 2), (1, 1), (1, 2), (2, 1)]  # one that was interrupted does not count
    assert read_json(folder / "verdict.json")["counts"]["pass"] == 2
    assert [path.name for path in folder.parent.iterdir()] == ["night"]
    assert fresh_shell.processes() == []
