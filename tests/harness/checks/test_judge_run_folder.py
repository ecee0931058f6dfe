"""A run folder is all that judging needs, and what it leaves there is all that a report needs."""

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement, judge, judge_many
from harness.compose import sealed
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import DERIVED, EVIDENCE, TABLES
from harness.history.sealed.derived_tables import derived_of
from tests.harness.checks.histories.build import History, arrow_of
from tests.harness.checks.twins import twins

SCENARIO = """
# A test.
[cluster]
brokers = [1, 2, 3]
[[topics]]
name = "t"
[expect]
verdict = "pass"
"""


def run_folder(path: Path, history: History, **run: object) -> Path:
    path.mkdir()
    (path / "tables").mkdir()
    (path / "run.json").write_text(json.dumps({"id": path.name, "schema_version": 1, "status": "complete", **run}))
    (path / "scenario.toml").write_text(SCENARIO)
    tables = arrow_of([history])
    for name, table in (tables | derived_of(tables["records"])).items():
        RunFolder(path).write_table(name, table)
    return path


def lossy(path: Path) -> Path:
    return run_folder(path, twins.unclean_election_lost_three(), load_began_ns=0)


@pytest.fixture(scope="module")
def alone(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Judgement]:
    path = lossy(tmp_path_factory.mktemp("alone") / "lossy")
    return path, judge(path, spark)


@pytest.fixture(scope="module")
def together(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Judgement]:
    """Folders judged as one job, by what is told of them."""
    place = tmp_path_factory.mktemp("together")
    stopped, empty = twins.nothing_happened(), History(read_to_end=False)
    stopped.step(kind="wait", text="wait leader 2", outcome="timeout")
    empty.rows = {name: [] for name in TABLES}
    not_done = ["the plan was not done"]
    paths = [
        run_folder(place / "good", twins.nothing_happened()),
        lossy(place / "lossy"),
        run_folder(place / "bad", twins.acks_all_lost_by_clean_fail_over()),
        run_folder(
            place / "not recovered",
            twins.nothing_happened(),
            inconclusive=["no recovery within 30 s after healing: t-0"],
        ),
        run_folder(place / "not started", twins.nothing_happened(), error="coordination did not start"),
        run_folder(place / "stopped, step known", stopped, inconclusive=not_done, plan_ended_at_step=0),
        run_folder(place / "stopped", stopped, inconclusive=not_done),
        run_folder(place / "empty", empty, inconclusive=["the harness was ended in phase 'start'"]),
    ]
    return dict(zip([path.name for path in paths], judge_many(paths, spark), strict=True))


def test_judging_a_folder_writes_the_verdict_the_findings_and_the_evidence(alone: tuple[Path, Judgement]) -> None:
    path, judgement = alone
    assert judgement.as_expected
    verdict = json.loads((path / "verdict.json").read_text())
    assert (verdict["verdict"], verdict["exit_code"]) == ("pass", 0)
    assert "3 were lost" in verdict["sentence"]
    findings = pq.read_table(path / "tables" / "findings.parquet").to_pylist()
    assert [(row["finding"], row["check"]) for row in findings] == [("F1", "lost-write"), ("F2", "unclean-election")]
    evidence = {name: pq.read_table(path / "tables" / f"evidence_{name}.parquet").to_pylist() for name in EVIDENCE}
    assert [(row["offset"], row["value"], row["leader_epoch"]) for row in evidence["lost_records"]] == [
        (7, 7, 0),
        (8, 8, 0),
        (9, 9, 0),
    ]
    assert sum(row["count"] for row in evidence["accounting"]) == 10
    assert {row["value"] for row in evidence["operations"] if row["kind"] == "send"} == {7, 8, 9}
    rows = {(row["offset"], row["replica"]): row for row in evidence["log_rows"] if row["finding"] == "F1"}
    assert (rows[8, 1]["value"], rows[8, 1]["leader_epoch"], rows[8, 1]["truncated"]) == (8, 0, True)
    assert (rows[8, 2]["value"], rows[8, 2]["truncated"], rows[8, 2]["end_value"]) == (None, False, None)
    assert (rows[6, 2]["value"], rows[6, 2]["truncated"], rows[6, 2]["final_value"]) == (6, False, 6)
    assert rows[8, 1]["acknowledged_value"] == 8


@pytest.mark.slow
def test_folders_judged_together_get_the_verdicts_they_get_alone(
    together: Mapping[str, Judgement], alone: tuple[Path, Judgement]
) -> None:
    judged = [together[name] for name in ("good", "lossy", "bad")]
    assert [judgement.verdict.value for judgement in judged] == ["pass", "pass", "violation"]
    assert [judgement.as_expected for judgement in judged] == [True, True, False]
    assert together["lossy"].as_json() == alone[1].as_json()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "verdict"), [("not recovered", "inconclusive"), ("not started", "error")])
def test_what_the_controller_could_not_do_decides(together: Mapping[str, Judgement], name: str, verdict: str) -> None:
    assert together[name].verdict.value == verdict
    assert len(together[name].reasons) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "reasons"), [("stopped, step known", 1), ("stopped", 2)])
def test_the_step_that_ended_the_plan_is_said_once_whatever_the_words(
    together: Mapping[str, Judgement], name: str, reasons: int
) -> None:
    assert together[name].verdict.value == "inconclusive"
    assert len(together[name].reasons) == reasons


@pytest.mark.slow
def test_a_run_that_ended_before_its_first_operation_is_judged(together: Mapping[str, Judgement]) -> None:
    assert together["empty"].exit_code == 3


@pytest.mark.slow
def test_a_run_that_was_sealed_before_there_were_derived_tables_gets_them_and_keeps_the_others(
    spark: SparkSession, tmp_path: Path, alone: tuple[Path, Judgement]
) -> None:
    path = lossy(tmp_path / "old")
    expected = {name: (path / "tables" / f"{name}.parquet").read_bytes() for name in TABLES}
    for name in DERIVED:
        (path / "tables" / f"{name}.parquet").unlink()

    assert RunFolder(path).sealed, "else it would be sealed again, from journals that may be gone"
    assert judge(path, spark).as_json() == alone[1].as_json()
    assert {name: (path / "tables" / f"{name}.parquet").read_bytes() for name in TABLES} == expected


@pytest.mark.slow
def test_tables_of_an_older_version_whose_journals_are_gone_are_judged_as_they_are(
    spark: SparkSession, tmp_path: Path, alone: tuple[Path, Judgement]
) -> None:
    path = lossy(tmp_path / "older")
    for name in ("processes", "group_events", *DERIVED):
        (path / "tables" / f"{name}.parquet").unlink()

    assert judge(sealed(path).path, spark).as_json() == alone[1].as_json()


@pytest.fixture(scope="module")
def accepting(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, together: Mapping[str, Judgement]
) -> Mapping[str, tuple[Path, Judgement]]:
    """The same violation, where it is known for long, was known for a while, and where another one is known."""
    place = tmp_path_factory.mktemp("accepting")
    known = [finding.fingerprint for _, finding in together["bad"].findings if finding.classification == "violation"]
    assert len(known) == 1

    def accepted(fingerprint: str, until: str) -> list[dict[str, str]]:
        return [{"fingerprint": fingerprint, "reason": "KAFKA-12345", "until": until}]

    said = {
        "known": accepted(known[0], "2999-12-31"),
        "known once": accepted(known[0], "2020-01-31"),
        "another": accepted("0123456789abcdef", "2999-12-31"),
    }
    bad = twins.acks_all_lost_by_clean_fail_over()
    paths = [run_folder(place / name, bad, accepted=kept) for name, kept in said.items()]
    return {path.name: (path, judged) for path, judged in zip(paths, judge_many(paths, spark), strict=True)}


def test_a_violation_that_is_known_is_set_aside_and_told(accepting: Mapping[str, tuple[Path, Judgement]]) -> None:
    path, judged = accepting["known"]
    assert (judged.verdict.value, judged.exit_code, judged.as_expected) == ("pass", 0, True)
    known = "1 known finding set aside: F1 (KAFKA-12345, until 2999-12-31)."
    assert judged.sentence.startswith(f"Pass: no promise was broken but by what is known. {known}")
    assert judged.counts["violation"] == 1, "it stays what it is"
    verdict = RunFolder(path).verdict()
    assert [(each["finding"], each["reason"]) for each in verdict["set_aside"]] == [("F1", "KAFKA-12345")]


def test_what_is_accepted_and_excuses_nothing_is_told(accepting: Mapping[str, tuple[Path, Judgement]]) -> None:
    unused = {name: judged.excuse_nothing for name, (_, judged) in accepting.items()}
    known = accepting["known"][1].findings[0][1].fingerprint
    assert unused == {
        "known": (),
        "known once": (f"{known}  was accepted until 2020-01-31, and is no longer: KAFKA-12345",),
        "another": ("0123456789abcdef  is accepted, and no finding of this run showed it: KAFKA-12345",),
    }


@pytest.mark.parametrize("name", ["known once", "another"])
def test_a_violation_that_is_not_known_any_more_or_is_another_one_decides(
    accepting: Mapping[str, tuple[Path, Judgement]], name: str
) -> None:
    path, judged = accepting[name]
    assert (judged.verdict.value, judged.set_aside) == ("violation", {})
    assert RunFolder(path).verdict()["set_aside"] == []


def test_a_list_of_accepted_findings_that_is_none_is_refused_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    path = run_folder(tmp_path / "odd", twins.nothing_happened(), accepted=[{"fingerprint": 5}])
    with pytest.raises(HarnessError, match=r"^run.json, accepted: .*; give the file anew with --accepted$"):
        judge(path, spark)
