"""The errors that brokers answered stand on the page, and it does not say that nothing was the matter."""

from pathlib import Path

from reports.run.page import build
from tests.reports.stories.crash_story import crash_run
from tests.reports.stories.judged_folder import at
from tests.reports.stories.recorded import recorded

QUIET = "nothing was done to the cluster"
FAILED = {
    "process": 0,
    "time_ns": at(3),
    "event": "attempt_failed",
    "node": 1,
    "topic": "orders",
    "partition": 0,
    "status": 2,
    "error": "UnknownProducerIdError 59",
    "code": 59,
}
STEP = {"step": 0, "kind": "act", "step_text": "configure orders", "begin_ns": at(2), "end_ns": at(2), "outcome": "ok"}


def test_each_error_is_told_with_how_often_and_what_it_means(tmp_path: Path) -> None:
    run = crash_run(tmp_path)
    recorded(run, "client_events", [FAILED, FAILED, {**FAILED, "code": 19}, {**FAILED, "code": None}])
    accounting = build(run).accounting
    assert accounting is not None
    first, second = accounting.answers
    assert first.startswith("2 attempts were answered UNKNOWN_PRODUCER_ID (59): the leader knows nothing")
    assert second.startswith("1 attempt was answered NOT_ENOUGH_REPLICAS (19): fewer replicas are in sync")


def test_nothing_was_done_is_said_only_where_nothing_was_and_no_error_was_answered(tmp_path: Path) -> None:
    answered = crash_run(tmp_path / "answered", faults=False)
    recorded(answered, "client_events", [FAILED])
    configured = crash_run(tmp_path / "configured", faults=False)
    recorded(configured, "steps", [{**STEP, "act": "configure"}])
    sent = crash_run(tmp_path / "sent", faults=False)
    recorded(sent, "steps", [{**STEP, "act": "produce"}])

    said = [[answer.more for answer in build(run).answers] for run in (answered, configured, sent)]
    assert [QUIET in each for each in said] == [False, False, True]
    assert any("UNKNOWN_PRODUCER_ID (59)" in each for each in said[0])
    assert "configure orders" in said[1]
