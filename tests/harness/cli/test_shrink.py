"""`kafka-chaos shrink`: a planted flaw's run, made again with what its finding needs alone."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.campaign.shrinking.tries import Sought
from harness.cli.commands.shrink import not_shown
from harness.cli.main import app
from harness.errors import UsageError
from harness.history.run_folder import RunFolder
from harness.scenario.file import load
from tests.reports.stories.crash_story import crash_run

FLAWED = """
[cluster]
world = "simulated"
flaws = ["acknowledge-before-replication"]
[cluster.settings]
"zookeeper.session.timeout.ms" = "1500"
[[topics]]
name = "orders"
partitions = 2
[topics.settings]
"min.insync.replicas" = "2"
[workload]
client = "aiokafka"
duration = "8 s"
rate_per_second = 20
batch = 1
[[faults]]
kind = "pause"
target = "followers(orders/1)"
at = "1.2 s"
for = "200 ms"
[[faults]]
kind = "isolate"
target = "leader(orders/0)"
at = "2 s"
for = "4 s"
options = { from = "cluster", mode = "hang" }
"""


@pytest.mark.cluster
@pytest.mark.jvm
@pytest.mark.slow
def test_the_fault_that_is_needed_is_left(tmp_path: Path) -> None:
    scenario, runs = tmp_path / "flawed.toml", tmp_path / "runs"
    scenario.write_text(FLAWED, encoding="utf-8")
    first = CliRunner().invoke(app, ["run", str(scenario), "--seed", "3", "--runs", str(runs)])
    assert first.exit_code == 1, first.output

    ended = CliRunner().invoke(app, ["shrink", "simulated-3-flawed", "--alike", "--repeats", "1", "--runs", str(runs)])

    assert ended.exit_code == 1, ended.output
    left = load(str(runs / "shrunk-flawed.toml"))
    assert [fault.kind for fault in left.faults] == ["isolate"]
    assert left.workload.duration_s < 8
    (made,) = runs.glob("simulated-*-shrunk-flawed")
    checks = {row["check"] for row in RunFolder(made).table("findings").to_pylist()}
    assert "lost-write" in checks
    assert (made / "report.html").is_file()


@pytest.mark.parametrize(("world", "is_by_chance"), [("local", True), ("simulated", False)])
def test_what_the_last_run_does_not_show_is_said_with_a_remedy_where_it_is_chance(
    tmp_path: Path, world: str, is_by_chance: bool
) -> None:
    file = tmp_path / "flawed.toml"
    file.write_text(FLAWED.replace('world = "simulated"', f'world = "{world}"'), encoding="utf-8")

    said = not_shown(Sought(check="lost-write", classification="violation"), load(str(file)))

    assert said.startswith("violation lost-write did not come again in this run")
    assert ("--repeats" in said) == is_by_chance


def test_a_run_without_a_violation_has_nothing_to_shrink(tmp_path: Path) -> None:
    folder = crash_run(tmp_path)

    ended = CliRunner().invoke(app, ["shrink", str(folder)])

    assert isinstance(ended.exception, UsageError)
    assert "shrink" in str(ended.exception)
