"""A node that ended while no fault had it down stands on the page wherever faults do."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.history.run_folder import RunFolder
from reports.render import write_report
from reports.run.page import build
from reports.run_data import RunData
from tests.reports.stories.crash_story import crash_run
from tests.reports.stories.judged_folder import at
from tests.reports.stories.recorded import recorded

ENDED = {
    "node": 2,
    "time_ns": at(3),
    "uncertainty_ns": 0,
    "exit_status": 1,
    "signal": None,
    "reason": "exception",
    "line_text": "boom",
    "back_ns": at(5),
    "fresh": True,
}
CONTROLLER = {**ENDED, "node": 100, "exit_status": None, "signal": 9, "line_text": "", "back_ns": None}


def test_nothing_was_done_is_not_said_of_a_run_in_which_a_node_ended(tmp_path: Path) -> None:
    quiet = crash_run(tmp_path / "quiet", faults=False)
    assert "nothing was done to the cluster" in [answer.more for answer in build(quiet).answers]
    ended = crash_run(tmp_path / "ended", faults=False)
    recorded(ended, "node_ends", [ENDED])
    assert "Broker 2 ended with exit status 1, not ordered" in [answer.more for answer in build(ended).answers]


def test_it_is_among_what_happened_with_its_last_error_and_until_when(tmp_path: Path) -> None:
    run = crash_run(tmp_path)
    recorded(run, "node_ends", [ENDED, CONTROLLER])
    page = build(run)
    assert [(row.at, row.until, row.what, row.seen) for row in page.done if not row.ok] == [
        ("3.000 s", "5.000 s", "Broker 2 ended with exit status 1, not ordered", "boom"),
        ("3.000 s", "the end", "Coordination service ended by SIGKILL, not ordered", "it logged no error"),
    ]
    assert [(proof.label, proof.healed) for proof in page.proofs][-2:] == [
        ("Broker 2 ended with exit status 1, not ordered", "it ran again"),
        ("Coordination service ended by SIGKILL, not ordered", "it did not run again"),
    ]


def test_it_has_a_span_among_the_faults_and_its_broker_is_dead_meanwhile(tmp_path: Path) -> None:
    run = crash_run(tmp_path)
    recorded(run, "node_ends", [ENDED, CONTROLLER])
    overview = build(run).overview
    assert overview is not None
    spans = {lane.label: [span.text for span in lane.spans] for lane in overview.lanes if lane.kind == "fault"}
    assert spans["broker 2"] == ["ended with exit status 1"]
    assert spans["coordination service"] == ["ended by SIGKILL"]
    assert RunData(run).down(2) == [(at(3), at(5), "dead")]


def found(classification: str) -> dict[str, Any]:
    return {
        "finding": "F1",
        "check": "node-ended",
        "classification": classification,
        "kind": "exception",
        "count": 1,
        "first_ns": at(3),
        "faults": [],
        "sentence_text": "Broker 2 ended.",
        "fingerprint": "f",
        "evidence": "{}",
    }


def test_where_it_is_the_worst_there_is_to_tell_the_answers_are_about_the_node(tmp_path: Path) -> None:
    run = crash_run(tmp_path, faults=False, verdict="violation")
    recorded(run, "node_ends", [ENDED])
    recorded(run, "findings", [found("violation")])
    page = build(run)
    assert [(answer.question, answer.short) for answer in page.answers] == [
        ("Which node", "Broker 2"),
        ("When", "3.000 s"),
        ("Why", "By itself"),
        ("Permitted?", "No"),
    ]


@pytest.mark.parametrize(("verdict", "kind"), [("violation", "violation"), ("pass", "permitted")])
def test_of_what_is_no_loss_it_is_not_said_that_nothing_was_lost_or_broken(
    tmp_path: Path, verdict: str, kind: str
) -> None:
    run = crash_run(tmp_path, faults=False, verdict=verdict)
    recorded(run, "findings", [found(kind)])
    stored = json.loads((run / "verdict.json").read_text())
    (run / "verdict.json").write_text(json.dumps({**stored, "counts": {kind: 1}}))
    html = write_report(run).read_text(encoding="utf-8")
    assert "Nothing was lost or broken" not in html
    assert "the findings tell it" in html


def test_the_page_of_a_run_that_was_sealed_before_there_was_the_table_is_as_it_was(tmp_path: Path) -> None:
    run = crash_run(tmp_path)
    before = build(run)
    (run / "tables" / "node_ends.parquet").unlink()
    assert build(run) == before
    assert RunFolder(run).sealed
