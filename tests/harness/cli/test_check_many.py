"""`check` of many runs: which are meant, a verdict line each, the worst as exit code, and what is told aside."""

import json
import os
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from harness import compose
from harness.checks import early_session
from harness.checks.judge import judge, judge_many
from harness.cli import check_many
from harness.cli.main import app
from harness.cli.options import run_folders
from harness.errors import HarnessError, UsageError
from harness.history.jepsen.jepsen_import import read_history
from harness.history.run_folder import RunFolder
from harness.host import memory
from harness.verdict import Verdict, exit_code_of
from tests.harness.checks.histories.build import History
from tests.harness.checks.histories.generator import Simulation
from tests.harness.checks.test_judge_run_folder import run_folder
from tests.harness.checks.twins import twins
from tests.harness.spoilt_runs import SPOILT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = 200


def a_run(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "run.json").write_text("{}")
    return (folder / name).resolve()


@pytest.fixture
def checks_here(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """The command checks with the tests' own Spark session."""

    def nothing() -> None:
        """It is open, and stays so."""

    here = SimpleNamespace(open=nothing, session=lambda: spark, close=nothing)
    monkeypatch.setattr(early_session, "EarlySession", lambda **_: here)


# -- which runs -------------------------------------------


def test_a_folder_of_run_folders_means_all_of_them_each_once_and_no_link(tmp_path: Path) -> None:
    campaign, other = tmp_path / "campaign", tmp_path / "other"
    first, second, third = a_run(campaign, "a"), a_run(campaign, "b"), a_run(other, "c")
    (campaign / "latest").symlink_to("b")
    assert run_folders([str(campaign), str(second), str(third)], tmp_path) == [first, second, third]
    assert run_folders(["c"], other) == [third]


def test_what_is_neither_a_run_nor_a_folder_of_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="yesterday: no run folder"):
        run_folders(["yesterday"], tmp_path)


# -- many in one job --------------------------------------


def many(folder: Path, count: int) -> dict[str, list[Path]]:
    """That many run folders, by the story they tell."""
    folder.mkdir()
    stories = list(twins.STORIES.items())
    fields: dict[str, list[Path]] = {}
    for number in range(count):
        name, make = stories[number % len(stories)]
        fields.setdefault(name, []).append(run_folder(folder / f"{number:04}", make()))
    return fields


def test_hundreds_of_runs_in_one_job_get_what_each_gets_alone_whatever_their_neighbours(
    spark: "SparkSession", tmp_path: Path
) -> None:
    reported = many(tmp_path / "runs", MANY)
    paths = [path for group in reported.values() for path in group]
    random.Random("neighbours").shuffle(paths)
    together = dict(zip(paths, judge_many(paths, spark), strict=True))
    for name, group in reported.items():
        assert len(group) > 1, name
        assert len({json.dumps(together[path].as_json()) for path in group}) == 1, name
        assert all(findings_of(path).equals(findings_of(group[0])) for path in group), name
    assert len({judgement.verdict for judgement in together.values()}) >= 3
    for name in list(reported)[:: len(reported) // 4]:
        path = reported[name][-1]
        findings = findings_of(path)
        alone = judge(path, spark)
        assert alone.as_json() == together[path].as_json(), name
        assert findings_of(path).equals(findings), name


def findings_of(path: Path) -> pa.Table:
    return pq.read_table(path / "tables" / "findings.parquet").drop_columns("run")


@pytest.mark.usefixtures("checks_here")
def test_several_runs_get_a_line_each_and_the_worst_exit_code(tmp_path: Path) -> None:
    stories: dict[str, Callable[[], History]] = {
        "bad": twins.acks_all_lost_by_clean_fail_over,
        "good": twins.nothing_happened,
    }
    for name, make in stories.items():
        run_folder(tmp_path / name, make())
    ended = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert ended.exit_code == 1
    lines = ended.stdout.splitlines()
    assert [line.split()[:3] for line in lines] == [["violation", "bad", "Violation:"], ["pass", "good", "Pass:"]]
    assert "the scenario states pass" in lines[0]
    assert (tmp_path / "good" / "verdict.json").is_file()


@pytest.mark.usefixtures("checks_here")
def test_a_broken_run_costs_the_others_neither_what_is_accepted_nor_their_verdicts(tmp_path: Path) -> None:
    broken = a_run(tmp_path / "runs", "broken")
    run_folder(tmp_path / "runs" / "good", twins.nothing_happened())
    (broken / "run.json").write_text("{")
    accepted = tmp_path / "accepted.toml"
    accepted.write_text('[[accepted]]\nfingerprint = "1f6e0b2c9d3a4455"\nreason = "known"\nuntil = 2999-12-31\n')
    ended = CliRunner().invoke(app, ["check", str(tmp_path / "runs"), "--accepted", str(accepted)])
    lines = [line.split()[:2] for line in ended.stdout.splitlines()]
    assert sorted(lines) == [["error", "broken"], ["pass", "good"]]
    kept = RunFolder(tmp_path / "runs" / "good").run["accepted"]
    assert [each["reason"] for each in kept] == ["known"]


@pytest.mark.parametrize(("options", "pages"), [([], [True, False]), (["--no-pages"], [False, False])])
def test_very_many_runs_get_pages_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], pages: list[bool]
) -> None:
    asked: list[bool] = []

    class JudgingSession:
        def __init__(self, **_: object) -> None:
            pass

        def judge_many(self, folders: list[Path], *, pages: bool, **_: object) -> list[object]:
            asked.append(pages)
            raise UsageError("enough")

        def close(self) -> None:
            pass

    monkeypatch.setattr(compose, "JudgingSession", JudgingSession)
    for count in (check_many.PAGES_UNASKED, check_many.PAGES_UNASKED + 1):
        for number in range(count):
            a_run(tmp_path / str(count), f"r{number}")
        CliRunner().invoke(app, ["check", str(tmp_path / str(count)), *options])
    assert asked == pages


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["pass", "vacuous"], 3),
        (["inconclusive", "violation"], 1),
        (["violation", "error"], 1),
        (["error", "inconclusive"], 4),
        ([], 0),
        (["pass"], 0),
    ],
)
def test_the_worst_verdict_decides(verdicts: list[str], code: int) -> None:
    assert exit_code_of([Verdict(verdict) for verdict in verdicts]) == code


def test_verdicts_are_reported_before_the_jvm_takes_its_time_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(folder: Path) -> SimpleNamespace:
        reported = SimpleNamespace(verdict=Verdict.PASS, sentence="Pass: all well.", as_expected=True, expected="")
        return SimpleNamespace(folder=folder, judgement=reported)

    class JudgingSession:
        def __init__(self, **_: object) -> None: ...

        def judge_many(self, folders: list[Path], **_: object) -> list[SimpleNamespace]:
            return [judged(folder) for folder in folders]

        def close(self) -> None:
            print("the JVM ends")  # noqa: T201

    monkeypatch.setattr(compose, "JudgingSession", JudgingSession)
    a_run(tmp_path, "a")
    a_run(tmp_path, "b")
    lines = CliRunner().invoke(app, ["check", str(tmp_path)]).output.splitlines()

    assert [line.split()[0] for line in lines] == ["pass", "pass", "the"]


# -- what is told meanwhile -------------------------------


def test_a_short_check_tells_nothing_aside() -> None:
    received: list[str] = []
    with check_many.PhaseReports(received.append, quiet_s=3600) as phases:
        phases.begins("records")
    assert received == []


def test_a_long_check_tells_where_it_is_and_then_each_stage() -> None:
    received: list[str] = []
    spoke = threading.Event()

    def tell(line: str) -> None:
        received.append(line.split("  ")[-1])
        spoke.set()

    with check_many.PhaseReports(tell, quiet_s=0) as phases:
        assert spoke.wait(timeout=10)
        phases.begins("records")
        phases.begins("findings")
    phases.begins("after the end")
    assert received == ["start of Spark", "records", "findings"]


# -- wrong options ----------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["check", "a.edn", "--format", "elle"], "--format elle"),
        (["check", "a.edn", "--format", "jepsen"], "a.edn: no such file"),
        (["check", "a.edn", "--format", "jepsen", "--sub-via", "magic"], "--sub-via magic"),
        (["check", "a.edn", "--format", "jepsen", "--master", "local[2]"], "--master is for runs of ours"),
        (["check", "a.edn", "--format", "jepsen", "--no-pages"], "--pages is for runs of ours"),
        (["check", "a.edn", "--format", "jepsen", "--runs", "elsewhere"], "--runs is for runs of ours"),
        (["check", "run", "--json"], "--json is for Jepsen's histories"),
        (["export", "run", "--format", "csv"], "--format csv"),
    ],
)
def test_options_that_do_not_fit_are_named(tmp_path: Path, arguments: list[str], expected: str) -> None:
    ended = CliRunner().invoke(app, arguments)
    assert isinstance(ended.exception, UsageError)
    assert expected in str(ended.exception)


# -- Jepsen's histories -----------------------------------

SOUND = """
{:index 0 :time 0 :process 0 :type :invoke :f :send :value [[:send 1 10]]}
{:index 1 :time 1 :process 0 :type :ok :f :send :value [[:send 1 [0 10]]]}
{:index 2 :time 2 :process 1 :type :invoke :f :poll :value [[:poll]]}
{:index 3 :time 3 :process 1 :type :ok :f :poll :value [[:poll {1 [[0 10]]}]]}
{:index 4 :time 4 :process 1 :type :invoke :f :poll :value [[:poll]]}
{:index 5 :time 5 :process 1 :type :ok :f :poll :value [[:poll {}]]}
"""
TWO_VALUES = (
    SOUND
    + """
{:index 6 :time 6 :process 0 :type :invoke :f :send :value [[:send 1 11]]}
{:index 7 :time 7 :process 0 :type :ok :f :send :value [[:send 1 [0 11]]]}
"""
)


@pytest.mark.usefixtures("checks_here")
def test_a_folder_of_jepsens_histories_gives_a_line_of_json_each_and_the_worst_exit_code(tmp_path: Path) -> None:
    (tmp_path / "good.edn").write_text(SOUND)
    (tmp_path / "bad.edn").write_text(TWO_VALUES)
    ended = CliRunner().invoke(app, ["check", str(tmp_path), "--format", "jepsen", "--json"])
    assert ended.exit_code == 1, ended.output
    answers = {answer["name"]: answer for answer in map(json.loads, ended.stdout.splitlines())}
    assert answers.keys() == {"good", "bad"}
    assert (answers["good"]["errors"], answers["good"]["bad-assign"]) == ({}, [])
    assert "inconsistent-offsets" in answers["bad"]["bad-assign"]
    assert answers["bad"]["errors"]["inconsistent-offsets"] == [{"index": 0, "key": 1, "offset": 0, "values": [10, 11]}]
    summary = CliRunner().invoke(app, ["check", str(tmp_path / "bad.edn"), "--format", "jepsen"])
    assert summary.stdout.splitlines()[0].split() == ["violation", "bad"]
    assert "bad  inconsistent-offsets: 1" in summary.stdout


@pytest.mark.usefixtures("checks_here")
@pytest.mark.parametrize(("sound", "code"), [(SOUND, 4), (TWO_VALUES, 1)])
def test_a_history_that_cannot_be_read_costs_only_itself(tmp_path: Path, sound: str, code: int) -> None:
    (tmp_path / "b-nested.edn").write_text("[" * 20_000)
    (tmp_path / "c-sound.edn").write_text(sound)
    (tmp_path / "d-folder.edn").mkdir()
    (tmp_path / "e-link.edn").symlink_to(tmp_path / "c-sound.edn")
    os.mkfifo(tmp_path / "f-pipe.edn")
    (tmp_path / "g-typeless.edn").write_text("{:process 0, :type [1]}")
    ended = CliRunner().invoke(app, ["check", str(tmp_path), "--format", "jepsen"])
    assert ended.exit_code == code, ended.output
    errors = {line.split()[1]: line for line in ended.stdout.splitlines() if line.startswith("error ")}
    assert list(errors) == ["b-nested", "d-folder", "e-link", "f-pipe", "g-typeless"]
    reasons = ("nested more than", "is a folder", "is a symbolic link", "is a pipe", "the event has :type [1]")
    for name, why in zip(errors, reasons, strict=True):
        assert why in errors[name]
    message = CliRunner().invoke(app, ["check", str(tmp_path), "--format", "jepsen", "--json"])
    answers = [json.loads(line) for line in message.stdout.splitlines()]
    assert ["error" in answer for answer in answers] == [True, False, True, True, True, True]
    alone = CliRunner().invoke(app, ["check", str(tmp_path / "f-pipe.edn"), "--format", "jepsen"])
    assert isinstance(alone.exception, UsageError)


def test_a_store_of_jepsen_that_is_checked_as_runs_of_ours_is_told_the_option(tmp_path: Path) -> None:
    (tmp_path / "kafka" / "20230407T1").mkdir(parents=True)
    (tmp_path / "kafka" / "20230407T1" / "history.edn").write_text(SOUND)
    for given in (tmp_path, tmp_path / "kafka" / "20230407T1"):
        with pytest.raises(UsageError, match="add --format jepsen"):
            run_folders([str(given)], tmp_path / "runs")


@pytest.mark.usefixtures("checks_here")
def test_histories_that_memory_cannot_hold_together_are_judged_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.checks import jepsen

    def counting(histories: Sequence[Any], **how: Any) -> list[Any]:
        together.append([history.name for history in histories])
        return sound(histories, **how)

    sound, together = jepsen.check_histories, list[list[str]]()
    monkeypatch.setattr(jepsen, "check_histories", counting)
    monkeypatch.setattr(memory, "_allowed_mb", 1)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.edn").write_text(SOUND + ";" * 60_000)
    answers = check_many.check_jepsen([tmp_path], ww_deps=False, sub_via="assign", compatible=False, tell=print)
    assert [answer.name for answer in answers] == ["a", "b", "c"]
    assert together == [["a", "b"], ["c"]]


@pytest.mark.usefixtures("checks_here")
def test_a_history_that_a_check_stumbles_over_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.checks import jepsen

    def stumbling(histories: Sequence[Any], **how: Any) -> list[Any]:
        if any(history.name == "bad" for history in histories):
            raise LookupError("no such key")
        return sound(histories, **how)

    sound = jepsen.check_histories
    monkeypatch.setattr(jepsen, "check_histories", stumbling)
    for name in ("a", "bad", "c"):
        (tmp_path / f"{name}.edn").write_text(SOUND)
    ended = CliRunner().invoke(app, ["check", str(tmp_path), "--format", "jepsen"])
    assert [line.split()[:2] for line in ended.stdout.splitlines()] == [["pass", "a"], ["error", "bad"], ["pass", "c"]]
    assert ended.exit_code == 4


def test_an_exported_run_is_read_back_with_every_record_that_was_sent_and_read(tmp_path: Path) -> None:
    history = Simulation(random.Random(7)).history(0)
    path = run_folder(tmp_path / "run", history)
    ended = CliRunner().invoke(app, ["export", str(path), "--format", "jepsen", "--output", str(tmp_path / "run.edn")])
    assert ended.exit_code == 0, ended.output
    records = read_history(tmp_path / "run.edn").tables["records"].to_pylist()
    for name, kinds in (("sent", {0}), ("read", {1, 2})):
        ours = [(row["partition_id"], row["offset"]) for row in history.rows["records"] if row["kind"] in kinds]
        theirs = [(row["partition_id"], row["offset"]) for row in records if min(row["kind"], 1) == min(kinds)]
        assert len(ours) == len(theirs) > 0, name
    assert f"{len((tmp_path / 'run.edn').read_text().splitlines())} lines" in ended.stdout
    refused = CliRunner().invoke(app, ["export", str(path), "--output", str(tmp_path / "nowhere" / "run.edn")])
    assert "there is no folder" in str(refused.exception)


# -- folders that cannot be judged ------------------------


@pytest.mark.usefixtures("checks_here")
def test_a_folder_that_cannot_be_judged_costs_only_itself(tmp_path: Path) -> None:
    for name in ("a-good", "z-good"):
        run_folder(tmp_path / name, twins.acks_all_lost_by_clean_fail_over())
    fields = {
        spoil.__name__: spoil(run_folder(tmp_path / spoil.__name__, twins.nothing_happened())) for spoil in SPOILT
    }

    ended = CliRunner().invoke(app, ["check", str(tmp_path), "--no-pages"])

    assert ended.exit_code == 1, ended.output
    lines = {line.split()[1]: line for line in ended.stdout.splitlines()}
    assert list(lines) == sorted(["a-good", "z-good", *fields])
    assert {lines[name].split()[0] for name in ("a-good", "z-good")} == {"violation"}
    for name, why in fields.items():
        assert lines[name].startswith("error        "), name
        assert why in lines[name], name
    assert not (tmp_path / "spoil_table" / "verdict.json").exists()


@pytest.mark.usefixtures("checks_here")
@pytest.mark.parametrize("spoil", SPOILT)
def test_a_folder_that_cannot_be_judged_is_one_line_when_it_is_alone(
    tmp_path: Path, spoil: Callable[[Path], str]
) -> None:
    run = run_folder(tmp_path / "run", twins.nothing_happened())
    why = spoil(run)

    ended = CliRunner().invoke(app, ["check", str(run)])

    assert isinstance(ended.exception, HarnessError)
    assert why in str(ended.exception)
    assert "\n" not in str(ended.exception)
