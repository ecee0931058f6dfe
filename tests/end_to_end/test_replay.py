"""The command that a page gives for the same scenario and seed is pasted into a shell, and makes that run again."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.end_to_end.shell import Shell, read_json

SCENARIO = """# Two seconds of load on one broker.
[cluster]
brokers = [1]
[[topics]]
name = "orders"
assignment = [[1]]
[workload]
duration = "2 s"
"""


def page_of(folder: Path) -> str:
    return html.unescape((folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.timeout(480)  # two runs, and two checks
def test_the_printed_command_makes_the_same_scenario_with_the_same_seed_again(fresh_shell: Shell) -> None:
    place = fresh_shell.directory / "my scenarios" / "it's mine; all of it.toml"
    place.parent.mkdir()
    place.write_text(SCENARIO, encoding="utf-8")
    first = fresh_shell.run(
        "run", f"my scenarios/{place.name}", "--seed", "41", "--set", "workload.acks=1", timeout_s=220
    )
    assert first.returncode == 0, first.stdout + first.stderr
    folder = fresh_shell.folder

    command = re.search(r'<pre id="cmd-1">(.*?)</pre>', page_of(folder), re.DOTALL)
    assert command is not None
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    again = subprocess.run(
        ["bash", "-c", command[1]],
        cwd=fresh_shell.directory,
        env=fresh_shell.environment | {"PATH": programs},
        capture_output=True,
        text=True,
        check=False,
        timeout=220,
    )
    assert again.returncode == 0, command[1] + again.stdout + again.stderr

    (second,) = [one for one in _runs(fresh_shell) if one != folder]
    stored = [read_json(one / "run.json") for one in (folder, second)]
    assert [run["seed"] for run in stored] == [41, 41]
    assert stored[0]["given"] == stored[1]["given"]
    assert (folder / "scenario.toml").read_bytes() == (second / "scenario.toml").read_bytes()
    assert f'href="../{quote(folder.name)}/report.html"' in page_of(second)


def _runs(shell: Shell) -> list[Path]:
    return [path.parent for path in shell.runs.glob("*/run.json") if not path.parent.is_symlink()]
