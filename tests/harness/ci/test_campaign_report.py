"""What a CI is told of a campaign: its cases as a parser reads them, its summary, and whether the job fails."""

import json
from collections.abc import Collection
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.ci import campaign_report
from harness.ci.campaign_report import Least
from harness.ci.campaign_rows import CampaignResults
from harness.ci.junit import junit_of, write_junit
from harness.errors import HarnessError, UsageError
from tests.harness.ci.campaign_folder import campaign_folder, group_row, run_row

HOSTILE = "</testcase>|<b>[x](http://y) @all \x00\u202e\n# head"


def mixed(path: Path) -> CampaignResults:
    runs = [
        run_row(1, verdict="violation", sentence_text=HOSTILE, as_stated=False),
        run_row(2),
        run_row(3, scenario="unclean", verdict="vacuous", as_stated=False, sentence_text="no election was seen"),
        run_row(4, scenario="unclean", verdict="pass"),
        run_row(
            5,
            scenario="open",
            system="kafka:4.3.1",
            world="docker",
            verdict="inconclusive",
            as_stated=False,
            sentence_text="late",
        ),
        run_row(6, scenario="broken", verdict="error", as_stated=False, sentence_text="no engine"),
        run_row(7, scenario="later", verdict="not_run", took_s=None, began="", folder="", sentence_text="no time left"),
    ]
    groups = [group_row("aa"), group_row("bb", **{"class": "observation"})]
    folder = campaign_folder(path, runs, findings=groups, occurrences=[("aa", 1)], verdict="violation")
    (folder / "runs" / "run-1").mkdir(parents=True)
    (folder / "runs" / "run-1" / "report.html").write_text("page")
    return CampaignResults(folder)


def exit_code(results: CampaignResults, fails: Collection[str]) -> int:
    return campaign_report.job(results, fails, Least()).exit_code


def read(results: CampaignResults) -> ElementTree.Element:
    return ElementTree.fromstring(junit_of(campaign_report.cases(results)))


def test_a_parser_reads_a_case_for_each_scenario_and_system_with_its_properties(tmp_path: Path) -> None:
    suite = read(mixed(tmp_path / "c"))
    cases = {each.get("name"): each for each in suite}
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "3",
    }
    assert list(cases) == ["leader-crash", "unclean", "open", "broken", "later"]
    found = {each.get("name"): each.get("value") for each in cases["leader-crash"].iter("property")}
    assert (found["seed"], found["system"], found["page"]) == ("1", "reference", "runs/run-1/report.html")
    assert found["runs"] == "1 violation, 1 pass"
    assert cases["open"].get("classname") == "nightly.kafka:4.3.1 (docker)"
    assert float(cases["leader-crash"].get("time") or 0) == 25.0


def test_what_proves_nothing_is_skipped_with_its_reason_and_what_broke_is_not(tmp_path: Path) -> None:
    cases = {each.get("name"): each for each in read(mixed(tmp_path / "c"))}
    reasons = {name: case.find("skipped") for name, case in cases.items()}
    fields = {name: skipped.get("message") for name, skipped in reasons.items() if skipped is not None}
    assert fields == {
        "unclean": "vacuous: no election was seen",
        "open": "inconclusive: late",
        "later": "not run: no time left",
    }
    error = cases["broken"].find("error")
    assert error is not None
    assert error.get("message") == "error: no engine"
    failure = cases["leader-crash"].find("failure")
    assert failure is not None
    assert "</testcase>" in str(failure.get("message"))
    assert "\\u202e" in str(failure.get("message"))


def test_the_summary_is_a_table_in_which_nothing_of_a_run_is_markup(tmp_path: Path) -> None:
    summary_text = campaign_report.summary(mixed(tmp_path / "c"), seen={"aa": "3 of the last 20"})
    lines = summary_text.splitlines()
    assert lines[0] == "## kafka-chaos: nightly: violation"
    assert "7 runs: 1 violation, 1 error, 1 inconclusive, 1 vacuous, 2 pass, 1 not run." in summary_text
    rows = [line for line in lines if line.startswith("| leader")]
    assert len(rows) == 1
    assert "\\<b\\>\\[x\\]\\(http://y\\) \\@all" in rows[0]
    assert rows[0].count(" | ") == 4
    assert "3 of the last 20" in summary_text
    assert "observation" not in summary_text


def test_a_summary_without_findings_says_so(tmp_path: Path) -> None:
    summary_text = campaign_report.summary(CampaignResults(campaign_folder(tmp_path / "c", [run_row(1)])))
    assert "Every scenario came as stated on every system." in summary_text
    assert "No violations and no permitted losses." in summary_text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("violation,error", 1),
        ("violation", 1),
        ("error", 4),
        ("inconclusive", 3),
        ("not-as-stated", 0),
        ("none", 0),
        ("error,inconclusive", 4),
    ],
)
def test_the_job_fails_on_what_was_asked_and_1_is_a_violation_alone(tmp_path: Path, words: str, code: int) -> None:
    assert exit_code(mixed(tmp_path / "c"), campaign_report.fail_on(words)) == code


def test_an_accepted_violation_neither_fails_the_job_nor_its_case(tmp_path: Path) -> None:
    groups = [group_row("aa", accepted_reason="KAFKA-1", accepted_until="2027-01-01")]
    runs = [run_row(1, verdict="violation", as_stated=False, sentence_text="37 lost")]
    folder = campaign_folder(tmp_path / "c", runs, findings=groups, occurrences=[("aa", 1)])
    results = CampaignResults(folder)
    assert exit_code(results, campaign_report.fail_on("violation")) == 0
    skipped = read(results)[0].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "accepted violation: 37 lost"
    assert "accepted until 2027\\-01\\-01: KAFKA\\-1" in campaign_report.summary(results)


def test_an_accepted_violation_excuses_no_other_run_of_its_case(tmp_path: Path) -> None:
    groups = [group_row("aa", accepted_reason="KAFKA-1"), group_row("bb")]
    runs = [
        run_row(1, verdict="violation", as_stated=False),
        run_row(2, verdict="violation", as_stated=False, sentence_text="new"),
    ]
    folder = campaign_folder(tmp_path / "c", runs, findings=groups, occurrences=[("aa", 1), ("bb", 2)])
    results = CampaignResults(folder)
    assert exit_code(results, {"violation"}) == 1
    failure = read(results)[0].find("failure")
    assert failure is not None
    assert failure.get("message") == "violation: new"


@pytest.mark.parametrize("words", ["", "loss", "violation,loss", "none,violation"])
def test_words_that_name_nothing_are_refused(words: str) -> None:
    with pytest.raises(UsageError, match="--fail-on"):
        campaign_report.fail_on(words)


def test_a_folder_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no results of a campaign"):
        campaign_report.cases(CampaignResults(tmp_path))
    folder = campaign_folder(tmp_path / "c", [run_row(1)])
    (folder / "verdict.json").write_text("[]")
    with pytest.raises(HarnessError, match=r"verdict\.json"):
        campaign_report.summary(CampaignResults(folder))
    (folder / "tables" / "runs.parquet").write_bytes(b"PAR1")
    with pytest.raises(HarnessError, match="no table that can be read"):
        campaign_report.cases(CampaignResults(folder))
    with pytest.raises(HarnessError, match="cannot be written"):
        write_junit([], tmp_path)


def test_a_violation_that_its_scenario_states_is_as_it_should_be_and_a_pass_there_is_not(tmp_path: Path) -> None:
    runs = [
        run_row(1, scenario="flaw", verdict="violation", stated="violation", as_stated=True),
        run_row(2, scenario="loss", verdict="pass", stated="violation", as_stated=False, sentence_text="nothing lost"),
    ]
    results = CampaignResults(campaign_folder(tmp_path / "c", runs))
    assert [len(case.findall("failure")) for case in read(results)] == [0, 0]
    assert exit_code(results, campaign_report.fail_on("violation,error,inconclusive")) == 0
    assert exit_code(results, campaign_report.fail_on("not-as-stated")) == 3
    assert "| loss | reference | pass | 1 | nothing lost |" in campaign_report.summary(results)


def test_the_summary_names_accepted_findings_that_excuse_nothing(tmp_path: Path) -> None:
    folder = campaign_folder(tmp_path, [run_row(1)])
    verdict = json.loads((folder / "verdict.json").read_text())
    known = {"fingerprint": "aa", "reason": "KAFKA-1", "until": "2026-01-31"}
    (folder / "verdict.json").write_text(json.dumps(verdict | {"expired": [known], "unseen": [known]}))
    text = campaign_report.summary(CampaignResults(folder))
    assert "- aa was accepted until 2026-01-31: KAFKA\\-1" in text
    assert "- aa is accepted, and no run showed it: KAFKA\\-1" in text


def test_the_line_of_the_job_names_what_failed_it(tmp_path: Path) -> None:
    results = mixed(tmp_path / "c")
    job = campaign_report.job(results, campaign_report.fail_on("violation,error"), Least())
    assert job.sentence == "The job fails with exit code 1: violation in run 1; error in run 6"
    passed = campaign_report.job(results, campaign_report.fail_on("none"), Least())
    assert passed.sentence == "The job passes, exit code 0"


@pytest.mark.parametrize(
    ("words", "wanted"), [("6", ""), ("7", "7"), ("85%", ""), ("86%", "86%"), ("0", ""), ("100 %", None), ("-1", None)]
)
def test_a_night_of_too_few_runs_fails_the_job(tmp_path: Path, words: str, wanted: str | None) -> None:
    if wanted is None:
        with pytest.raises(UsageError, match="--least-runs"):
            campaign_report.least_runs(words)
        return
    job = campaign_report.job(mixed(tmp_path / "c"), frozenset(), campaign_report.least_runs(words))
    too_few = [f"only 6 of 7 planned runs were made, and --least-runs is {wanted}"]
    assert (job.exit_code, list(job.reasons)) == ((3, too_few) if wanted else (0, []))


def test_an_interrupted_night_has_not_passed(tmp_path: Path) -> None:
    folder = campaign_folder(tmp_path / "c", [run_row(1), run_row(2, verdict="not_run", sentence_text="interrupted")])
    verdict = json.loads((folder / "verdict.json").read_text())
    (folder / "verdict.json").write_text(json.dumps(verdict | {"stop": "interrupted"}))
    job = campaign_report.job(CampaignResults(folder), frozenset(), Least())
    assert (job.exit_code, list(job.reasons)) == (3, ["it was interrupted before its end"])


def test_the_summary_says_why_planned_runs_were_not_made(tmp_path: Path) -> None:
    runs = [run_row(1), *(run_row(n, verdict="not_run", sentence_text="its time is over") for n in (2, 3))]
    text = campaign_report.summary(CampaignResults(campaign_folder(tmp_path / "c", runs)))
    assert "- 2 not run: its time is over" in text


def test_a_night_without_a_run_has_not_passed(tmp_path: Path) -> None:
    runs = [run_row(number, verdict="not_run", sentence_text="its time is over") for number in (1, 2)]
    job = campaign_report.job(CampaignResults(campaign_folder(tmp_path / "c", runs)), frozenset(), Least())
    assert (job.exit_code, list(job.reasons)) == (3, ["no run was made"])


@pytest.mark.parametrize(("percent", "of"), [(7, 100), (14, 50), (28, 25), (56, 25)])
def test_a_share_that_was_made_is_enough(tmp_path: Path, percent: int, of: int) -> None:
    made = percent * of // 100
    runs = [run_row(number, verdict="pass" if number <= made else "not_run") for number in range(1, of + 1)]
    results = CampaignResults(campaign_folder(tmp_path / "c", runs))
    assert campaign_report.least_runs(f"{percent}%").missed_by(results) == ""
    assert campaign_report.least_runs(f"{percent + 1}%").missed_by(results)
