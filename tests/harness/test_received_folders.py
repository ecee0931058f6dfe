"""A run folder that somebody sent: to judge it does nothing but judge, and it leads nowhere else."""

import json
import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import compose
from harness.checks.judge import judge
from harness.cli.check_many import export_jepsen
from harness.cli.listing import print_runs
from harness.cli.options import aside, run_folder, run_folders, terminal
from harness.cluster.local.ownership import RunOwnership
from harness.cluster.replica_logs import read_events
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.history.sealed.sealing import seal
from harness.host.clock import SystemClock
from harness.ports.cluster import NodeId
from harness.scenario.file import load
from reports.render import write_report
from tests.harness.cluster.log_folders import batch, replica_folder
from tests.reports.stories.judged_folder import quiet_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = '[cluster]\nbrokers = [1, 2, 3]\n{more}\n[[topics]]\nname = "orders"\n'


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    replica_folder(tmp_path / "outside", {0: batch(0, [b"a", b"b"])})
    (tmp_path / "outside" / "file").write_text("not yours")
    return tmp_path / "outside"


def killed_run(runs: Path, *, more: str = "", **run: object) -> RunFolder:
    """As a harness leaves it that is killed while faults go on."""
    folder = RunFolder.create(runs, scenario="sent", clock=SystemClock(), seed=1, stamp="now")
    folder.write_scenario(CLUSTER.format(more=more))
    folder.update(phases=[{"name": "act", "t": 1}], **run)
    return folder


def with_nodes(folder: RunFolder, *nodes: int) -> RunFolder:
    for node in nodes or (100, 1, 2, 3):
        (folder.nodes / str(node) / "data").mkdir(parents=True, exist_ok=True)
    return folder


def attack(runs: Path, outside: Path) -> tuple[RunFolder, Path]:
    """Whoever judges it would run a command and empty a folder of their own; the file that the command would make."""
    canary = runs / "canary"
    table = (
        f'system = "attached"\nbootstrap = "localhost:1"\n[attached]\nread_log = """touch {shlex.quote(str(canary))}"""'
    )
    folder = killed_run(runs, more=table)
    (folder.nodes / "1").mkdir()
    (folder.nodes / "1" / "data").symlink_to(outside)
    return folder, canary


# -- judging never acts -----------------------------------


def test_a_command_in_the_folder_is_not_run_and_a_link_is_not_emptied(tmp_path: Path, outside: Path) -> None:
    folder, canary = attack(tmp_path, outside)

    compose.sealed(folder.path)

    assert not canary.exists()
    assert (outside / "file").read_text() == "not yours"
    assert folder.run["status"] == "unfinished"


def test_what_was_not_collected_makes_it_inconclusive_by_name(
    spark: "SparkSession", tmp_path: Path, outside: Path
) -> None:
    folder, _ = attack(tmp_path, outside)

    judgement = judge(compose.sealed(folder.path).path, spark)

    assert judgement.verdict.value == "inconclusive"
    assert any("the replicas' logs of brokers 1, 2, 3 were not collected" in each.lower() for each in judgement.reasons)


@pytest.mark.parametrize("more", ['system = "compose:/nowhere.yaml"\n[attached]\ndata = "/d"', 'world = "docker"'])
def test_no_docker_engine_is_asked_for_what_a_folder_says(
    more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("the engine was asked")

    monkeypatch.setattr("docker.from_env", asked)
    folder = killed_run(tmp_path, more=more)

    compose.sealed(folder.path)

    killed, missing = folder.run["inconclusive"]
    assert (killed, "not collected" in missing) == ("the harness was ended in phase 'act'", True)


def test_the_logs_that_a_killed_run_left_in_its_folder_are_read(tmp_path: Path) -> None:
    folder = with_nodes(killed_run(tmp_path))
    replica_folder(folder.nodes / "2" / "data", {0: batch(0, [b"a", b"b"])})

    compose.sealed(folder.path)

    assert [(row["node"], row["log_end_offset"]) for row in folder.table("replica_snapshots").to_pylist()] == [(2, 2)]
    assert folder.run["inconclusive"] == ["the harness was ended in phase 'act'"]


def test_nodes_whose_data_did_not_come_are_named(tmp_path: Path) -> None:
    folder = with_nodes(killed_run(tmp_path), 100, 2)

    compose.sealed(folder.path)

    assert folder.run["inconclusive"][1:] == ["there are no data of broker 1, broker 3 in the folder"]


def test_books_and_snapshots_that_did_not_come_with_a_complete_run_are_named(tmp_path: Path) -> None:
    folder = with_nodes(killed_run(tmp_path), 100, 1, 2)
    replica_folder(folder.nodes / "2" / "data", {0: batch(0, [b"a", b"b"])})
    compose.sealed(folder.path)
    shutil.rmtree(folder.path / "tables")
    folder.update(status="complete", inconclusive=[])
    (folder.history / "books" / "snapshot-00000.parquet").unlink()

    compose.sealed(folder.path)
    (snapshots,) = folder.run["inconclusive"]
    shutil.rmtree(folder.path / "tables")
    shutil.rmtree(folder.history / "books")
    folder.update(inconclusive=[])
    compose.sealed(folder.path)

    assert snapshots == "1 of the snapshots of replicas' logs are not in the folder, first number 0"
    assert folder.run["inconclusive"] == ["there are no data of broker 3 in the folder"]


def test_logs_larger_than_the_memory_that_is_allowed_are_not_read(tmp_path: Path) -> None:
    folder = with_nodes(killed_run(tmp_path))
    (segment,) = replica_folder(folder.nodes / "2" / "data", {0: batch(0, [b"a", b"b"])}).glob("*.log")
    os.truncate(segment, 1 << 40)

    compose.sealed(folder.path)

    assert "nodes/2: its files would take about 1048577 MB" in folder.run["inconclusive"][1]


def test_a_journal_of_events_that_is_nested_too_deep_is_reported(tmp_path: Path) -> None:
    folder = with_nodes(killed_run(tmp_path))
    (folder.nodes / "1" / "evidence").mkdir()
    (folder.nodes / "1" / "evidence" / "events.jsonl").write_text("[" * 100_000)

    compose.sealed(folder.path)

    assert_told(folder)


@pytest.mark.parametrize("name", ["controller.jsonl", "producer-1.jsonl"])
def test_a_folder_in_the_place_of_a_journal_is_one_line(name: str, tmp_path: Path) -> None:
    folder = with_nodes(killed_run(tmp_path))
    (folder.history / name).mkdir()

    with pytest.raises(HarnessError, match=rf"^[^\n]*{name} cannot be read: Is a directory$"):
        compose.sealed(folder.path)


def test_a_run_that_goes_on_is_left_to_its_harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = killed_run(tmp_path)

    with RunOwnership(folder.path), pytest.raises(HarnessError, match=r"the run goes on"):
        compose.sealed(folder.path)

    assert folder.run["status"] == "started"
    compose.sealed(folder.path)
    assert folder.run["status"] == "unfinished"


def test_books_that_were_made_to_break_the_reader_are_reported_and_break_nothing(tmp_path: Path) -> None:
    folder = with_nodes(killed_run(tmp_path))
    books = folder.nodes / "100" / "data" / "version-2"
    books.mkdir(parents=True)
    (books / "log.no-number").write_bytes(b"x")
    foreign = killed_run(tmp_path, more='system = "attached"\nbootstrap = "localhost:1"')
    (foreign.path / "attached.jsonl").write_text('{"controller": 1}\n["controller"]\n')

    for each in (folder, foreign):
        compose.sealed(each.path)
        assert_told(each)


def assert_told(folder: RunFolder) -> None:
    assert [each.partition(":")[0] for each in folder.run["inconclusive"]] == [
        "the harness was ended in phase 'act'",
        "the cluster's books could not be read",
    ]


# -- it leads nowhere else --------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "scenario.toml",
        "verdict.json",
        "attached.jsonl",
        "history",
        "history/producer-1.jsonl",
        "history/books",
        "history/snapshot-00000.parquet",
        "tables",
        "tables/records.parquet",
    ],
)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_every_command_refuses_a_folder_with_links_and_names_them(
    name: str, kind: str, tmp_path: Path, outside: Path
) -> None:
    folder = killed_run(tmp_path)
    place = folder.path / name
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        place.rename(tmp_path / "original")
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / "original" if (tmp_path / "original").exists() else outside)

    for find in (lambda: run_folder(str(folder.path), tmp_path), lambda: run_folders([str(folder.path)], tmp_path)):
        with pytest.raises(UsageError) as refused:
            find()
        assert str(refused.value).startswith(f"{place} is a ")
        assert "\n" not in str(refused.value)


def test_a_node_whose_data_lie_elsewhere_is_not_read(tmp_path: Path, outside: Path) -> None:
    folder = killed_run(tmp_path)
    (folder.nodes / "2").mkdir()
    (folder.nodes / "2" / "data").symlink_to(outside)

    with pytest.raises(UsageError, match=r"nodes/2/data is a symbolic link"):
        compose.sealed(folder.path)


@pytest.mark.parametrize("cut", ["/{outside}", "../outside/file"])
def test_a_journal_that_names_a_file_elsewhere_is_not_believed(cut: str, tmp_path: Path, outside: Path) -> None:
    (outside / "file").write_bytes(batch(0, [b"secret"]))
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    entry = {"t": 1, "event": "truncation", "cut": cut.format(outside=str(outside / "file")[1:])}
    (evidence / "events.jsonl").write_text(json.dumps(entry) + "\n")

    (event,) = read_events(NodeId(1), evidence)

    assert event.cut == ()


WRITES: dict[str, Callable[[RunFolder], object]] = {
    "run.json": lambda folder: folder.update(more=1),
    "scenario.toml": lambda folder: folder.write_scenario("# s"),
    "tables/operations.parquet": lambda folder: folder.write_table("operations", folder.table("operations")),
    "tables": seal,
    "harness.log": lambda folder: folder.files.append("harness.log").close(),
    "report.html": lambda folder: write_report(folder.path),
    "jepsen.edn": lambda folder: export_jepsen(folder.path, None),
}


@pytest.mark.parametrize("ending", ["", ".unfinished"])
@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_written_through_a_planted_link(name: str, ending: str, tmp_path: Path, outside: Path) -> None:
    folder = RunFolder(quiet_run(tmp_path))
    place = folder.path / (name + ending)
    target = outside if "." not in name else outside / "file"
    if place.exists():
        place.rename(tmp_path / "original")
    place.symlink_to(target)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}

    if ending and name in ("tables", "harness.log"):
        WRITES[name](folder)  # nothing of that name is ever made
    else:
        with pytest.raises(UsageError, match=f"{name}{ending} is a symbolic link"):
            WRITES[name](folder)

    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


def test_an_export_goes_where_its_user_says(tmp_path: Path, outside: Path) -> None:
    run = quiet_run(tmp_path)
    (tmp_path / "mine.edn").symlink_to(outside / "file")

    path, _ = export_jepsen(run, tmp_path / "mine.edn")

    assert path == tmp_path / "mine.edn"
    assert (outside / "file").read_text() != "not yours"


def test_an_export_into_the_folder_goes_through_no_link_of_the_folder(tmp_path: Path, outside: Path) -> None:
    run = quiet_run(tmp_path)
    (run / "sub").symlink_to(outside)

    with pytest.raises(UsageError, match=r"sub is a symbolic link"):
        export_jepsen(run, run / "sub" / "mine.edn")

    assert not (outside / "mine.edn").exists()


def test_the_list_goes_on_where_one_folder_has_links(
    tmp_path: Path, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = killed_run(tmp_path / "runs"), killed_run(tmp_path / "runs")
    (bad.path / "verdict.json").symlink_to(outside / "file")

    print_runs(terminal, aside, tmp_path / "runs", as_json=True)

    fields = {
        each["id"]: each["error"] or each["scenario"] for each in map(json.loads, capsys.readouterr().out.splitlines())
    }
    assert fields[good.path.name] == "sent"
    assert "verdict.json is a symbolic link" in fields[bad.path.name]


def test_a_folder_run_as_a_scenario_is_read_without_links_and_names_no_place_elsewhere(
    tmp_path: Path, outside: Path
) -> None:
    folder = killed_run(tmp_path)
    (folder.path / "scenario.toml").write_text("# scenario: ../../elsewhere\n" + CLUSTER.format(more=""))
    assert load(str(folder.path)).name == folder.path.name

    (folder.path / "scenario.toml").rename(outside / "scenario.toml")
    (folder.path / "scenario.toml").symlink_to(outside / "scenario.toml")
    with pytest.raises(UsageError, match=r"scenario.toml is a symbolic link"):
        load(str(folder.path))


def test_the_latest_run_is_named_by_a_link_of_ours(tmp_path: Path) -> None:
    folder = killed_run(tmp_path)
    folder.link_latest()

    assert run_folder("latest", tmp_path) == folder.path
    assert compose.sealed(tmp_path / "latest").path == folder.path
