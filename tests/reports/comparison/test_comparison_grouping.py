"""Stored runs with the same settings are repeats of one column, named after what tells it from the others."""

from pathlib import Path

from reports.comparison.grouping import StoredRun, columns_of
from tests.reports.stories.crash_story import crash_run


def labels(*runs: StoredRun) -> dict[str, int]:
    return {column.label: len(column.runs) for column in columns_of(runs)}


def stored(runs: Path, *overrides: str, label: str = "") -> StoredRun:
    return StoredRun(path=crash_run(runs, overrides=overrides), label=label)


def test_runs_with_the_same_settings_are_repeats(tmp_path: Path) -> None:
    made = [stored(tmp_path, f"workload.acks={acks}") for acks in ("1", "all", "1", "all", "1")]
    assert labels(*made) == {"acks=1": 3, "acks=all": 2}


def test_systems_name_their_columns(tmp_path: Path) -> None:
    made = [stored(tmp_path), stored(tmp_path, 'cluster.system="kafka:4.3.1"', "replica.lag.time.max.ms=1000")]
    assert labels(*made) == {"reference": 1, "kafka:4.3.1": 1}


def test_a_system_with_two_settings_is_named_by_both(tmp_path: Path) -> None:
    made = [stored(tmp_path, "min.insync.replicas=1"), stored(tmp_path), stored(tmp_path, "workload.acks=1")]
    assert labels(*made) == {
        "min.insync.replicas=1, acks=all": 1,
        "min.insync.replicas=2, acks=all": 1,
        "min.insync.replicas=2, acks=1": 1,
    }


def test_runs_between_which_nothing_differs_stand_each_for_itself(tmp_path: Path) -> None:
    made = [stored(tmp_path), stored(tmp_path)]
    assert labels(*made) == {run.path.name: 1 for run in made}


def test_names_that_were_given_come_first_and_join(tmp_path: Path) -> None:
    made = [stored(tmp_path, label="before"), stored(tmp_path, label="after"), stored(tmp_path, label="before")]
    assert labels(*made) == {"before": 2, "after": 1}
