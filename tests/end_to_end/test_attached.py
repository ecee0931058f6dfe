"""A cluster that somebody else runs: attached to, harmed by the commands that were given, judged, and left alone."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end import somebodys_machine
from tests.end_to_end.shell import Shell, read_json
from tests.waiting import until

_SCENARIO = """\
# The leader of a partition is killed and another broker is paused, with acks=all: nothing may be lost.
[[topics]]
name = "orders"
assignment = [[1, 2, 3]]
settings = { "min.insync.replicas" = 2 }

[[steps]]
wait = { acks = 60 }
[[steps]]
act = { kill = 1 }
[[steps]]
wait = { leader = 2 }
within = "15 s"
[[steps]]
act = { start = 1 }
[[steps]]
act = { pause = 3 }
[[steps]]
act = { resume = 3 }

[expect]
verdict = "pass"

[coverage]
elections = 1
faults_with_proof = 2
"""


@pytest.fixture(scope="module")
def bootstrap(shell: Shell) -> Iterator[str]:
    ready = shell.directory / "ready.json"
    cluster = shell.start("cluster", "--ready-file", str(ready))
    until(lambda: ready.is_file() or cluster.poll() is not None, "the cluster is up")
    assert ready.is_file(), shell.output.read_text()
    yield json.loads(ready.read_text())["bootstrap"]
    for note in shell.directory.glob("started-*"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(note.read_text()), signal.SIGKILL)
    cluster.send_signal(signal.SIGINT)
    cluster.wait(30)


@pytest.fixture(scope="module")
def commands(shell: Shell) -> Path:
    does = f"{sys.executable} {somebodys_machine.__file__} {shell.directory}"
    lines = [f'{act} = "{does} {act} {{node}}"' for act in ("kill", "start", "pause", "resume")]
    file = shell.directory / "mine.toml"
    file.write_text("\n".join(["[attached]", *lines]) + "\n")
    return file


@pytest.fixture(scope="module")
def ended(shell: Shell, bootstrap: str, commands: Path) -> "subprocess.CompletedProcess[str]":
    scenario = shell.directory / "mine-under-fire.toml"
    scenario.write_text(_SCENARIO)
    return shell.run("run", str(scenario), "--bootstrap", bootstrap, "--attached", str(commands))


def test_a_cluster_that_was_there_is_harmed_judged_and_passes(
    shell: Shell, ended: "subprocess.CompletedProcess[str]"
) -> None:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    verdict = read_json(shell.folder / "verdict.json")
    assert verdict["as_expected"]
    assert (shell.folder / "report.html").is_file()


def test_each_command_that_was_run_can_be_read_afterwards(
    shell: Shell, ended: "subprocess.CompletedProcess[str]"
) -> None:
    names = sorted(path.name for path in (shell.folder / "commands").iterdir())
    assert [name.split("-", 1)[1].removesuffix(".log") for name in names] == [
        "kill-broker-1",
        "start-broker-1",
        "pause-broker-3",
        "resume-broker-3",
    ]


def test_the_cluster_goes_on_and_the_topic_is_gone(
    shell: Shell, bootstrap: str, commands: Path, ended: "subprocess.CompletedProcess[str]"
) -> None:
    lines = [json.loads(line) for line in (shell.folder / "attached.jsonl").read_text().splitlines()]
    (made,) = [line["topic"] for line in lines if "topic" in line]
    assert re.fullmatch(r"chaos-[0-9a-f]{4}-orders", made)
    assert {"paid": "delete", "subject": made} in lines
    assert {"paid": "start", "subject": "1"} in lines


def test_what_there_is_no_command_for_is_refused_before_anything_is_done(
    shell: Shell, bootstrap: str, commands: Path
) -> None:
    refused = shell.run("run", "zombie-leader", "--bootstrap", bootstrap, "--attached", str(commands))
    assert refused.returncode == 2
    assert "give cut and heal, or isolate and rejoin in [attached]" in refused.stderr
