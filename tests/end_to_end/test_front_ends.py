"""Three front ends of a one-node cluster: each is an address of the same node id, and is killed and paused alone."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end import front_end
from tests.end_to_end.shell import Shell, read_json
from tests.waiting import until

_COUNT = 3
_SCENARIO = """\
# A front end is killed and another one paused: what any of them acknowledged is there.
[[topics]]
name = "orders"

[[steps]]
wait = { acks = 60 }
[[steps]]
act = { kill = 3 }
[[steps]]
wait = { acks = "+60" }
within = "30 s"
[[steps]]
act = { start = 3 }
[[steps]]
act = { pause = 1 }
[[steps]]
wait = { acks = "+60" }
within = "30 s"
[[steps]]
act = { resume = 1 }

[expect]
verdict = "pass"

[coverage]
faults_with_proof = 2
"""


@pytest.fixture(scope="module")
def bootstrap(shell: Shell) -> Iterator[str]:
    ready = shell.directory / "ready.json"
    cluster = shell.start("cluster", "--brokers", "1", "--ready-file", str(ready))
    until(lambda: ready.is_file() or cluster.poll() is not None, "the cluster is up")
    assert ready.is_file(), shell.output.read_text()
    host, _, port = json.loads(ready.read_text())["bootstrap"].rpartition(":")
    places = [("127.0.0.1", free_port()) for _ in range(_COUNT)]
    for number, place in enumerate(places, 1):
        front_end.write(shell.directory, number, own=place, target=(host, int(port)))
        front_end.act(shell.directory, "start", str(number))
    until(lambda: all(listens(place) for place in places), "the front ends listen")
    yield ",".join(f"{host}:{port}" for host, port in places)
    for number in range(1, _COUNT + 1):
        front_end.act(shell.directory, "kill", str(number))
    cluster.send_signal(signal.SIGINT)
    cluster.wait(30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def listens(place: tuple[str, int]) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(place) == 0


@pytest.fixture(scope="module")
def commands(shell: Shell) -> Path:
    top = Path(__file__).parents[2]
    does = f"cd {top} && {sys.executable} -m {front_end.__name__} {shell.directory}"
    lines = [f'{act} = "{does} {act} {{node}}"' for act in ("kill", "start", "stop", "pause", "resume")]
    file = shell.directory / "mine.toml"
    file.write_text("\n".join(["[attached]", *lines]) + "\n")
    return file


@pytest.fixture(scope="module")
def ended(shell: Shell, bootstrap: str, commands: Path) -> "subprocess.CompletedProcess[str]":
    scenario = shell.directory / "ends.toml"
    scenario.write_text(_SCENARIO)
    there = ("--bootstrap", bootstrap, "--attached", str(commands), "--set", "attached.front_ends=true")
    return shell.run("run", str(scenario), *there, timeout_s=500)


def test_front_ends_are_struck_one_by_one_and_what_they_acknowledged_is_there(
    shell: Shell, ended: "subprocess.CompletedProcess[str]"
) -> None:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert read_json(shell.folder / "verdict.json")["as_expected"]
    names = sorted(path.name for path in (shell.folder / "commands").iterdir())
    assert [name.split("-", 1)[1].removesuffix(".log") for name in names] == [
        "kill-front-end-3",
        "start-front-end-3",
        "pause-front-end-1",
        "resume-front-end-1",
    ]


def test_the_page_says_front_end_and_never_broker_of_a_number(
    shell: Shell, ended: "subprocess.CompletedProcess[str]"
) -> None:
    page = re.sub(r"<pre.*?</pre>", "", (shell.folder / "report.html").read_text(), flags=re.DOTALL)  # examples
    assert "front end 3" in page
    assert "3 front ends" in page
    assert re.findall(r"[Bb]roker \d", page) == []


def test_nobody_takes_front_ends_for_one_broker(shell: Shell, bootstrap: str, commands: Path) -> None:
    refused = shell.run("run", "node-crash", "--bootstrap", bootstrap, "--attached", str(commands))
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "answer with one node id, 1: give front_ends = true in [attached]" in line


def test_what_would_be_done_lists_the_front_ends(shell: Shell, bootstrap: str, commands: Path) -> None:
    there = ("--bootstrap", bootstrap, "--attached", str(commands), "--preflight")
    told = shell.run("run", "front-end-crash", *there)
    assert told.returncode == 0, told.stderr
    first, _, third = bootstrap.split(",")
    assert f"front end 1 at {first}, " in told.stdout
    assert f"front end 3 at {third}\n" in told.stdout


def test_roles_that_only_node_ids_have_are_refused(shell: Shell, bootstrap: str, commands: Path) -> None:
    there = ("--bootstrap", bootstrap, "--attached", str(commands), "--set", "attached.front_ends=true")
    refused = shell.run("run", "node-crash", *there)
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "front ends share one node id, so leader is none of them" in line
    assert "name front ends by number, all or random(1)" in line
