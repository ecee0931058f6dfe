"""What a killed run owes to somebody else's cluster is undone by its own commands, and by nobody else's."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from harness.cluster.attached.journal import NAME, AttachedJournal
from harness.cluster.left_behind import undo_left_behind
from harness.cluster.local.ownership import sweep
from harness.ports.cluster import NodeId

_KILLED = """
import os, pathlib, signal, sys
from harness.cluster.local.ownership import RunOwnership
with RunOwnership(pathlib.Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def _scenario(heal: str) -> str:
    return f"""[cluster]
system = "attached"
bootstrap = "127.0.0.1:1"
[attached]
cut = "true"
heal = {heal!r}
nodes = {{ 1 = "127.0.0.1:1", 2 = "127.0.0.1:1" }}
[[topics]]
name = "t"
"""


@pytest.fixture
def healed(tmp_path: Path) -> Path:
    return tmp_path / "healed"


@pytest.fixture
def owing(tmp_path: Path, healed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was killed while a link was cut."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    (run / "scenario.toml").write_text(_scenario(f"touch {healed}"))
    AttachedJournal(run).found({NodeId(node): ("127.0.0.1", 1) for node in (1, 2)})
    AttachedJournal(run).owe("heal", "n2>n1")
    ended = subprocess.run([sys.executable, "-c", _KILLED, str(run)], check=False)
    assert ended.returncode == -signal.SIGKILL
    return run


def test_the_next_command_undoes_what_the_run_owes(owing: Path, healed: Path) -> None:
    (sentence,) = sweep(undo_left_behind)
    assert sentence.startswith(f"heal n2>n1, which {owing} owed: ")
    assert healed.exists()
    assert AttachedJournal(owing).owed() == []
    assert [path.name for path in (owing / "commands").iterdir()] == ["0001-heal-2-to-1.log"]
    assert sweep(undo_left_behind) == []


def test_what_fails_stays_owed_and_names_places_that_a_person_can_open(owing: Path) -> None:
    (owing / "scenario.toml").write_text(_scenario("false"))
    (sentence,) = sweep(undo_left_behind)
    assert f"see {owing}/commands/0001-heal-2-to-1.log" in sentence
    assert f"remove {owing / NAME}" in sentence
    assert sweep(undo_left_behind) != []


def test_what_failed_is_told_with_the_way_to_give_it_up_and_tried_again_only_on_request(
    owing: Path, healed: Path
) -> None:
    ran = owing.parent / "ran"
    (owing / "scenario.toml").write_text(_scenario(f"echo >> {ran}; test -e {healed}"))
    sweep(undo_left_behind)
    for _ in range(2):
        (sentence,) = sweep(undo_left_behind)
        assert "which" in sentence
        assert "failed when it was tried; `kafka-chaos sweep` tries again; to give it up" in sentence
    assert ran.read_text() == "\n", "no command waits for it"

    healed.touch()
    (sentence,) = sweep(partial(undo_left_behind, tries_again=True))
    assert sentence.startswith(f"heal n2>n1, which {owing} owed: ")
    assert sweep(undo_left_behind) == []


def test_a_topic_that_cannot_be_deleted_is_left_there_after_two_attempts(owing: Path, healed: Path) -> None:
    journal = AttachedJournal(owing)
    journal.paid("heal", "n2>n1")
    journal.owe("delete", "t")  # which nobody noted as made
    (first,) = sweep(undo_left_behind)
    assert "`kafka-chaos sweep` tries again" in first
    (second,) = sweep(undo_left_behind)
    assert second.endswith("it is left there")
    assert sweep(undo_left_behind) == []


def _swap(run: Path, command: str) -> None:
    """Somebody puts a folder with a command of his own in the run's place."""
    run.rename(run.with_name("moved"))
    shutil.copytree(run.with_name("moved"), run)
    (run / "scenario.toml").write_text(_scenario(command))


def test_the_commands_of_a_folder_put_in_the_place_of_the_runs_are_not_run(owing: Path, healed: Path) -> None:
    theirs = owing.parent / "theirs"
    _swap(owing, f"touch {theirs}")
    (sentence,) = sweep(undo_left_behind)
    assert "another folder was put in its place" in sentence
    assert not theirs.exists()
    assert not healed.exists()


def test_a_folder_put_there_while_the_sweep_is_at_work_is_not_obeyed_either(
    owing: Path, healed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = owing.parent / "theirs"
    owed = AttachedJournal.owed

    def swapping(journal: AttachedJournal) -> list[tuple[str, str]]:
        if not owing.with_name("moved").exists():
            _swap(owing, f"touch {theirs}")
            (owing / NAME).write_text("")  # nor does their book say what is owed
        return owed(journal)

    monkeypatch.setattr(AttachedJournal, "owed", swapping)
    sweep(undo_left_behind)
    assert healed.exists()
    assert not theirs.exists()


def _say(run: Path, scenario: str) -> None:
    (run / "scenario.toml").write_text(scenario)


def _note(run: Path, line: str) -> None:
    with (run / NAME).open("a") as journal:
        journal.write(line + "\n")


def _delete_at(run: Path, port: int) -> None:
    AttachedJournal(run).found({NodeId(1): ("127.0.0.1", port), NodeId(2): ("127.0.0.1", port)})
    AttachedJournal(run).owe("delete", "t")


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda run: AttachedJournal(run).owe("explode", "n2>n1"), id="an undo that nobody knows"),
        pytest.param(lambda run: AttachedJournal(run).owe("start", "1"), id="an undo that there is no command for"),
        pytest.param(lambda run: AttachedJournal(run).owe("heal", "one>two"), id="nodes that are no numbers"),
        pytest.param(
            lambda run: AttachedJournal(run).owe("heal", "c1>n2"), id="a link of a client's, which has none there"
        ),
        pytest.param(lambda run: (run / "scenario.toml").write_bytes(b"\xff"), id="a scenario that is no text"),
        pytest.param(lambda run: (run / "scenario.toml").unlink(), id="no scenario"),
        pytest.param(
            lambda run: _say(run, "[cluster]\nbrokers = [1]\n[[topics]]\nname = 't'\n"), id="a cluster of ours"
        ),
        pytest.param(lambda run: _note(run, '{"addresses": 5}'), id="addresses that are a number"),
        pytest.param(lambda run: _note(run, '{"addresses": {"1": 5}}'), id="an address that is a number"),
        pytest.param(lambda run: _delete_at(run, 1 << 20), id="a port that is none"),
    ],
)
def test_what_cannot_be_undone_is_one_line(owing: Path, damage: Callable[[Path], object]) -> None:
    damage(owing)
    reported = sweep(undo_left_behind)
    assert "failed: " in reported[0]
    assert all("\n" not in sentence for sentence in reported)


def test_lines_of_the_book_that_say_nothing_cost_only_themselves(owing: Path, healed: Path) -> None:
    journal = owing / NAME
    journal.write_text('[]\n5\n{"owed": 5, "subject": "a"}\n{"owed": "heal"}\n' + journal.read_text())
    (sentence,) = sweep(undo_left_behind)
    assert "heal n2>n1" in sentence
    assert healed.exists()


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/passwd"), os.mkfifo], ids=["a link", "a pipe"])
def test_a_book_that_is_no_file_is_reported_and_costs_no_other_run(
    owing: Path, healed: Path, make: Callable[[Path], object]
) -> None:
    (owing / NAME).unlink()
    make(owing / NAME)
    (sentence,) = sweep(undo_left_behind)
    assert sentence.startswith(f"{owing / NAME} is a ")
    assert not healed.exists()


def test_commands_are_not_taken_from_a_scenario_that_is_a_link(owing: Path, healed: Path) -> None:
    (owing / "scenario.toml").rename(owing.with_name("elsewhere.toml"))
    (owing / "scenario.toml").symlink_to(owing.with_name("elsewhere.toml"))
    (sentence,) = sweep(undo_left_behind)
    assert f"{owing / 'scenario.toml'} is a symbolic link" in sentence
    assert not healed.exists()
