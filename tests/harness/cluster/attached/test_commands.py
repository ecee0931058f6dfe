"""The user's commands are filled in, run with a time limit, and quoted with their output."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.cluster.attached.commands import CommandRunner, check_template
from harness.errors import HarnessError, UsageError
from tests.waiting import comes_true


def runner(folder: Path, timeout_s: float = 10, **templates: str) -> CommandRunner:
    return CommandRunner(templates, folder=folder / "commands", timeout_s=timeout_s)


NODE: Mapping[str, object] = {"node": 2, "host": "kafka2.example", "port": 9092}


async def test_a_command_gets_its_subject_and_its_last_line_is_kept(tmp_path: Path) -> None:
    ran = await runner(tmp_path, kill="echo first; echo killed {node} at {host}:{port}").run("kill", "broker 2", NODE)

    assert "the kill command ended with 0" in ran.sentence
    assert ran.output == "killed 2 at kafka2.example:9092"


async def test_what_is_filled_in_is_one_word_to_the_shell(tmp_path: Path) -> None:
    ran = await runner(tmp_path, cut="printf '[%s]' {links}").run("cut", "2>1 3>1", {"links": "2>1 3>1; rm -r x"})

    assert ran.output == "[2>1 3>1; rm -r x]"


async def test_a_command_that_fails_names_what_it_said_and_where_the_rest_is(tmp_path: Path) -> None:
    with pytest.raises(
        HarnessError, match=r"kill for broker 2 ended with 3 \(no such unit\); see .*0001-kill-broker-2"
    ):
        await runner(tmp_path, kill="echo no such unit >&2; exit 3").run("kill", "broker 2", NODE)


async def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"did not end within 0\.2 s"):
        await runner(tmp_path, timeout_s=0.2, kill="sleep 60").run("kill", "broker 2", NODE)


async def test_a_broker_left_in_the_background_does_not_hold_its_command_up(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    ran = await runner(tmp_path, start=f"sleep 5 & echo $! > {pid_file}; echo up").run("start", "broker 2", NODE)

    assert ran.output == "up"
    assert Path(f"/proc/{pid_file.read_text().strip()}").exists()
    await runner(tmp_path, stop=f"kill $(cat {pid_file})").run("stop", "broker 2", NODE)


def test_a_place_that_nothing_fills_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"kill: \{nod\} is nothing to fill in; there are \{node\} \{host\} \{port\}"):
        check_template("kill", "kill {nod}")
    with pytest.raises(UsageError, match="write a brace that is meant as"):
        check_template("kill", "awk '{print $1'")
    check_template("kill", "awk '{{print $1}}' {node}")


async def test_a_command_that_nobody_waits_for_any_more_is_not_run_again_while_it_is_under_way(tmp_path: Path) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    commands = runner(
        tmp_path,
        start=f"echo start >> {begun}; until test -e {go_on}; do sleep 0.02; done; echo up",
        kill=f"echo kill >> {begun}",
    )
    first = asyncio.create_task(commands.run("start", "broker 2", NODE))
    await comes_true(lambda: asyncio.to_thread(begun.exists), "the command is under way")
    first.cancel()
    again = asyncio.create_task(commands.run("start", "broker 2", NODE))
    another = asyncio.create_task(commands.run("kill", "broker 2", NODE))
    await commands.run("kill", "broker 3", NODE)
    assert begun.read_text().split() == ["start", "kill"], "one for another broker waits for nothing"

    go_on.touch()
    assert (await again).output == "up"
    await another
    assert begun.read_text().split() == ["start", "kill", "kill"]


async def test_a_command_with_other_values_comes_after_the_one_that_is_under_way(tmp_path: Path) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    slow = f"echo {{delay_ms}} >> {begun}; until test -e {go_on}; do sleep 0.02; done"
    commands = runner(tmp_path, slow=slow)
    harm = asyncio.create_task(commands.run("slow", "1>2", {"delay_ms": 500}))
    await comes_true(lambda: asyncio.to_thread(begun.exists), "the command is under way")
    harm.cancel()
    undoing = asyncio.create_task(commands.run("slow", "1>2", {"delay_ms": 0}))
    await asyncio.sleep(0)
    go_on.touch()
    await undoing
    assert begun.read_text().split() == ["500", "0"], "the link is as it was"
