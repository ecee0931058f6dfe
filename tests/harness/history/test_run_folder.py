"""The run folder: created once, never misread, sealed from any state."""

import dataclasses
import json
import os
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cluster.simulated.invariants import INVARIANTS, Broken
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import SCHEMA_VERSION, TABLES
from harness.history.sealed.sealing import seal
from harness.host.clock import SystemClock
from harness.ports.load import LoadFacts


def make(runs: Path) -> RunFolder:
    return RunFolder.create(runs, scenario="story", clock=SystemClock(), seed=7, stamp="20250101-000000")


@pytest.mark.parametrize(
    ("key", "facts"),
    [
        (
            "workload",
            LoadFacts(
                clients={"producer": 2},
                group="g",
                session_timeout_ms=6000,
                group_protocol="consumer",
                outputs=("t",),
                transactional_ids=("one",),
                value_bytes=7,
                in_flight=3,
            ),
        ),
        (
            "broken_invariant",
            Broken(
                invariant=INVARIANTS[0],
                topic="t",
                partition=0,
                node=1,
                leader_epoch=2,
                wanted=3,
                seen=4,
                at_ns=5,
                events=({"node": 1},),
            ),
        ),
    ],
    ids=["workload", "broken invariant"],
)
def test_all_that_is_known_of_it_is_read_back(tmp_path: Path, key: str, facts: LoadFacts | Broken) -> None:
    written = dataclasses.asdict(facts)
    folder = make(tmp_path)
    folder.update(**{key: written})

    read = RunFolder(folder.path).run[key]

    assert json.loads(json.dumps(written)) == read
    assert all(written[name] != default for name, default in dataclasses.asdict(LoadFacts()).items() if name in written)


def test_two_runs_of_one_second_get_folders_of_their_own_and_latest_is_the_last(tmp_path: Path) -> None:
    first, second = make(tmp_path), make(tmp_path)
    first.link_latest()
    second.link_latest()

    assert first.path != second.path
    assert (tmp_path / "latest").resolve() == second.path.resolve()
    assert RunFolder(tmp_path / "latest").run["id"] == second.path.name


@pytest.mark.parametrize("folder", [True, False])
def test_what_somebody_else_calls_latest_is_left_alone_and_the_run_goes_on(tmp_path: Path, folder: bool) -> None:
    run, theirs = make(tmp_path), tmp_path / "latest"
    if folder:
        theirs.mkdir()
    else:
        theirs.write_text("mine")

    assert f"{theirs} is no link" in run.link_latest()
    assert theirs.is_dir() if folder else theirs.read_text() == "mine"
    assert {each.name for each in tmp_path.iterdir()} == {"latest", run.path.name}


def test_a_link_that_cannot_be_made_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    run = make(tmp_path)
    in_the_way = tmp_path / f".latest-{os.getpid()}"
    in_the_way.mkdir()

    assert "cannot be made" in run.link_latest()
    assert not (tmp_path / "latest").is_symlink()


def test_a_run_folder_is_its_users_alone_and_the_folder_of_runs_is_as_the_user_likes_it(
    tmp_path: Path, open_umask: None
) -> None:
    folder = RunFolder.create(tmp_path / "runs", scenario="s", clock=SystemClock(), seed=1, stamp="now")
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) == 0o777


def test_a_folder_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no run folder"):
        RunFolder(tmp_path)


def test_a_folder_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path)
    folder.update(schema_version=SCHEMA_VERSION + 1)

    with pytest.raises(UsageError, match=r"newer"):
        RunFolder(folder.path)


def test_a_table_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path)
    newer = TABLES["steps"].with_metadata({b"kafka_chaos_schema": str(SCHEMA_VERSION + 1).encode()})
    pq.write_table(newer.empty_table(), folder.path / "tables" / "steps.parquet")

    with pytest.raises(UsageError, match=r"newer"):
        folder.table("steps")


def test_a_missing_table_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"check"):
        make(tmp_path).table("operations")


def test_an_empty_run_seals_to_all_tables(tmp_path: Path) -> None:
    folder = make(tmp_path)
    assert not folder.sealed

    seal(folder)

    assert folder.sealed
    for name, schema in TABLES.items():
        assert folder.table(name).schema.equals(schema), name
        assert len(folder.table(name)) == 0


def test_tables_come_back_as_they_were_written(tmp_path: Path) -> None:
    folder = make(tmp_path)
    row = {"run": 0, "value": 1 << 62, "name": "r0"}

    folder.write_table("value_names", pa.Table.from_pylist([row], schema=TABLES["value_names"]))

    assert folder.table("value_names").to_pylist() == [row]
    assert folder.table("value_names").schema.metadata == TABLES["value_names"].metadata
