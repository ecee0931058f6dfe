"""Shards that somebody else made: merging them writes into one new folder, and nowhere else."""

import datetime
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.campaign.journal import NAME, JudgedLine, encoded
from harness.campaign.place import campaign_folder
from harness.campaign.plan import Plan, PlannedRun, shard_of
from harness.cli import main as cli
from harness.history.accepted import Accepted
from tests.harness.campaign.test_campaign_outcome import judged, planned, seen

Merge = Callable[..., tuple[int, str]]
KNOWN = Accepted(fingerprint="aa", reason="known", until=datetime.date(2999, 1, 1))


@pytest.fixture
def merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Merge:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        given = ["received/campaigns/night-shard-1-of-2", "received/campaigns/night-shard-2-of-2"]
        monkeypatch.setattr(sys, "argv", ["kafka-chaos", "campaign", *given, "--runs", "mine", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(str(ended.value.code)), capsys.readouterr().err

    return run


def shards(place: Path, *, drawn: bool = False, verdict: str = "pass", **fields: Any) -> list[Path]:
    """Two of them, with two runs each, of which they kept a folder."""
    runs: tuple[PlannedRun, ...] = tuple(
        replace(planned(number, drawn=number if drawn else None), text="" if drawn else "x") for number in range(1, 5)
    )
    plan = replace(Plan(name="night", seed=1, runs=runs), **fields)
    made = []
    for index in (1, 2):
        part = replace(plan, runs=shard_of(plan.runs, index, 2), shard=(index, 2))
        with campaign_folder(place / "received", part, facts={"version": 1}) as (files, _):
            rows = [judged(each.number, verdict, findings=[seen("aa")]) for each in part.runs]
            files.replace(NAME, encoded(JudgedLine(run=row) for row in rows))
            for each in part.runs:
                folder = files.top / f"runs/{each.number:04d}/run"
                folder.mkdir(parents=True)
                (folder / "verdict.json").write_text(f"{each.number}")
                (folder.parent / "latest").symlink_to("run")  # as a run leaves it
        made.append(files.top)
    return made


def test_what_shards_kept_of_their_own_runs_is_copied(tmp_path: Path, merge: Merge) -> None:
    first, _ = shards(tmp_path)
    (first / "runs/0002").mkdir()
    (first / "runs/0002/strange").write_text("of a run of the other shard")
    with (first / "runs/0001/run/log").open("wb") as log:
        log.truncate(1 << 40)
    assert merge()[0] == 0
    kept = {path.relative_to("mine/campaigns/night/runs").as_posix() for path in Path("mine").glob("**/runs/*/*/*")}
    assert kept == {"0001/run/log", *(f"000{number}/run/verdict.json" for number in range(1, 5))}
    assert Path("mine/campaigns/night/runs/0001/run/log").stat().st_blocks < 1 << 12


def changed(folder: Path, **fields: Any) -> None:
    stored = json.loads((folder / "campaign.json").read_text())
    (folder / "campaign.json").write_text(json.dumps(stored | fields))


@pytest.mark.parametrize(
    "name", ["../../x", "..", ".", "", "/tmp/absolute", "a/b", "x\0y", "a\nb", "n" * 300, "\u202e", ".hidden"]
)
def test_a_name_that_is_a_path_is_refused(tmp_path: Path, merge: Merge, name: str) -> None:
    for folder in shards(tmp_path):
        changed(folder, name=name)
    code, said = merge()
    assert (code, len(said.splitlines())) == (4, 1)
    assert not Path("mine").exists()


def _link(top: Path, name: str, to: Path) -> None:
    place = top / name
    if place.is_dir():
        place.rename(place.with_name("moved"))
    elif place.exists():
        place.unlink()
    place.symlink_to(to)


@pytest.mark.parametrize(
    "name", ["runs", "runs/0001", "runs/0001/run", "runs/0001/run/verdict.json", "plan", "campaign.json", NAME]
)
def test_a_link_in_a_shard_is_refused_and_nothing_is_made(tmp_path: Path, merge: Merge, name: str) -> None:
    first, second = shards(tmp_path)
    outside = tmp_path / "outside"
    (outside / "run").mkdir(parents=True)
    (outside / "run" / "verdict.json").write_text("mine")
    _link(first, name, outside)
    (second / "runs/0001/run").mkdir(parents=True)
    (second / "runs/0001/run/verdict.json").write_text("theirs")
    code, said = merge()
    assert (code, len(said.splitlines())) == (2, 1)
    assert "symbolic link" in said
    assert (outside / "run" / "verdict.json").read_text() == "mine"
    assert not Path("mine/campaigns").exists()


def test_a_pipe_in_a_shard_is_not_waited_for(tmp_path: Path, merge: Merge) -> None:
    first, _ = shards(tmp_path)
    os.mkfifo(first / "runs/0001/run/pipe")
    code, said = merge()
    assert (code, len(said.splitlines())) == (2, 1)


@pytest.mark.parametrize("folder", ["../../../x", "/etc", "runs/0002/run", "runs/0001/../../x", "runs/1\0", "plan/1"])
def test_a_run_whose_folder_is_not_its_own_is_refused(tmp_path: Path, merge: Merge, folder: str) -> None:
    first, _ = shards(tmp_path)
    import msgspec

    row = msgspec.structs.replace(judged(1, "pass"), folder=folder)
    (first / NAME).write_bytes(encoded([JudgedLine(run=row)]))
    code, said = merge()
    assert (code, len(said.splitlines())) == (4, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"shard": [1, 10**18]},
        {"shard": [0, 2]},
        {"runs": []},
        {"runs": None},
        {"runs": [1]},
        {"seed": 10**400 // 3},
        {"seed": "x"},
        {"accepted": [{"fingerprint": 1}]},
        {"accepted": 7},
        {"name": "\ud800"},
        {"name": "x" * (2 << 20)},
    ],
)
def test_a_plan_that_none_leaves_is_one_line(tmp_path: Path, merge: Merge, fields: dict[str, Any]) -> None:
    changed(shards(tmp_path)[0], **fields)
    code, said = merge()
    assert code in (2, 4)
    assert len(said.splitlines()) == 1
    assert len(said) < 2000
    assert "unforeseen" not in said


@pytest.mark.parametrize("key", ["known_key", "scenario", "system", "client"])
def test_half_a_character_in_a_planned_run_is_one_line(tmp_path: Path, merge: Merge, key: str) -> None:
    first, _ = shards(tmp_path)
    runs = json.loads((first / "campaign.json").read_text())["runs"]
    changed(first, runs=[runs[0] | {key: "\ud800"}, *runs[1:]])
    code, said = merge()
    assert (code, len(said.splitlines())) == (4, 1)
    assert "campaign.json: a text in it holds half a character" in said


@pytest.mark.parametrize("file", ["campaign.json", NAME])
@pytest.mark.parametrize(
    "content", [b"\xff", b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[]", b'"\\ud800"', b"{" * (17 << 20)]
)
def test_a_file_that_none_leaves_is_one_line(tmp_path: Path, merge: Merge, file: str, content: bytes) -> None:
    (shards(tmp_path)[0] / file).write_bytes(content + b"\n")
    code, said = merge()
    assert (code, len(said.splitlines())) == (4, 1)
    assert "unforeseen" not in said


@pytest.mark.parametrize(
    "name", ["runs/0001/x\n", "runs/0001/\u202ex", "runs/0001/a\x1b[2J", "runs/0003/x", "runs/0001/../x"]
)
def test_a_run_folder_that_none_leaves_is_blamed_on_the_journal_that_names_it(
    tmp_path: Path, merge: Merge, name: str
) -> None:
    first, _ = shards(tmp_path)
    strange = replace_folder((first / NAME).read_text(), name)
    (first / NAME).write_text(strange)
    code, said = merge()
    assert (code, len(said.splitlines())) == (4, 1)
    assert f"{NAME}: not as this campaign leaves it: run 1 has its folder in " in said


def replace_folder(journal: str, name: str) -> str:
    line, _, others = journal.partition("\n")
    stored = json.loads(line)
    stored["run"]["folder"] = name
    return json.dumps(stored) + "\n" + others


@pytest.mark.parametrize("there", ["a run", "their plan", "a link", "a file"])
def test_nothing_that_exists_is_taken_over(tmp_path: Path, merge: Merge, there: str) -> None:
    shards(tmp_path, drawn=True)
    own = tmp_path / "mine" / "campaigns" / "night"
    if there == "their plan":  # a campaign of drawn schedules that the user runs, and stopped
        plan = Plan(name="night", seed=1, runs=tuple(planned(number, drawn=number) for number in range(1, 5)))
        with campaign_folder(tmp_path / "mine", plan, facts={}):
            (own / NAME).write_text("")
    elif there == "a run":
        own.mkdir(parents=True)
        (own / "verdict.json").write_text("a violation")
    else:
        own.parent.mkdir(parents=True)
        (own.symlink_to(tmp_path / "received")) if there == "a link" else own.write_text("mine")
    before = {path: path.read_bytes() for path in own.glob("**/*") if path.is_file()}
    assert merge()[0] == 0
    assert {path: path.read_bytes() for path in own.glob("**/*") if path.is_file()} == before
    assert (tmp_path / "mine/campaigns/night-2/runs/0001/run/verdict.json").read_text() == "1"


def test_a_campaign_never_goes_on_where_shards_were_merged(tmp_path: Path, merge: Merge) -> None:
    shards(tmp_path, drawn=True)
    assert merge()[0] == 0
    plan = Plan(name="night", seed=1, runs=tuple(planned(number, drawn=number) for number in range(1, 5)))
    with campaign_folder(tmp_path / "mine", plan, facts={}) as (files, goes_on):
        assert (files.top.name, goes_on) == ("night-2", False)


def test_campaigns_are_kept_through_no_link(tmp_path: Path, merge: Merge) -> None:
    shards(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mine" / "campaigns").symlink_to(tmp_path / "elsewhere")
    assert merge()[0] == 2
    assert not list((tmp_path / "elsewhere").iterdir())


def test_shards_of_a_campaign_with_accepted_findings_are_merged(tmp_path: Path, merge: Merge) -> None:
    first, _ = shards(tmp_path, verdict="violation", accepted=(KNOWN,))
    assert merge()[0] == 0
    changed(first, accepted=[])
    code, said = merge()
    assert (code, "accepted findings" in said) == (2, True)


def test_accepted_findings_may_be_named_for_the_merge(tmp_path: Path, merge: Merge) -> None:
    for folder in shards(tmp_path, verdict="violation", accepted=(KNOWN,)):
        changed(folder, accepted="/dev/zero")  # as an older kafka-chaos wrote it: a path
    code, said = merge()
    assert (code, len(said.splitlines())) == (2, 1)
    assert "--accepted" in said
    Path("known.toml").write_text('[[accepted]]\nfingerprint = "aa"\nreason = "r"\nuntil = 2999-01-01\n')
    assert merge("--accepted", "known.toml")[0] == 0
    Path("known.toml").write_text("")
    assert merge("--accepted", "known.toml")[0] == 1
