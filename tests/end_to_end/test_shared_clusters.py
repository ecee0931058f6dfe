"""A campaign whose runs share clusters, killed and interrupted: its clusters never outlive it."""

import json
import signal
from pathlib import Path

import pytest

from tests.end_to_end.shell import Shell
from tests.waiting import until

CAMPAIGN = """
[campaign]
share_clusters = true
[[matrix]]
scenarios = ["no-faults"]
seeds = [1, 2]
set = ["workload.duration=60 s"]
"""


def begun(folder: Path) -> list[tuple[int, int]]:
    """(run, attempt) of each beginning."""
    journal = folder / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()] if journal.is_file() else []
    return [(line["number"], line["attempt"]) for line in lines if line["type"] == "begun"]


def runs_on_a_cluster(folder: Path) -> int:
    """How many there were: such a run has a folder, and says so in it, once its cluster runs."""
    return sum("shared_cluster" in path.read_text() for path in folder.glob("runs/*/*/run.json"))


@pytest.mark.slow
def test_a_killed_campaign_takes_its_clusters_with_it_and_its_run_is_done_again_on_a_fresh_one(
    fresh_shell: Shell,
) -> None:
    (fresh_shell.directory / "shared.toml").write_text(CAMPAIGN)
    folder = fresh_shell.runs / "campaigns" / "shared"
    for start in (1, 2):
        campaign = fresh_shell.start("campaign", "shared.toml")
        try:
            until(lambda start=start: runs_on_a_cluster(folder) == start, "a run")  # type: ignore[misc]
            assert fresh_shell.processes()
            campaign.send_signal(signal.SIGKILL if start == 1 else signal.SIGINT)
            code = campaign.wait(120)
        finally:
            campaign.kill()
            campaign.wait(30)
        if start == 1:
            assert fresh_shell.run("sweep").returncode == 0
        until(lambda: not fresh_shell.processes(), "the end of what it had started")
    assert code == 3, fresh_shell.output.read_text()
    assert begun(folder) == [(1, 1), (1, 2), (1, 1)]  # an attempt that we ended ourselves does not count
    names = {json.loads(path.read_text())["shared_cluster"]["cluster"] for path in folder.glob("runs/*/*/run.json")}
    assert names == {"0001", "0002"}
    assert not list((folder / "clusters").iterdir())
