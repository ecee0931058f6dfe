"""The page of a zombie tells its acknowledgement in order: it cannot be lost before it was given."""

from pathlib import Path

import pytest

from reports.run.page import build
from reports.run.proof import proof_of
from tests.reports.stories.zombie_story import zombie_run


def test_the_resume_is_a_step_and_decides_and_the_acknowledgement_comes_after_it(tmp_path: Path) -> None:
    story = build(zombie_run(tmp_path)).story
    assert story is not None
    assert [(step.event, step.decisive) for step in story.steps[1:]] == [
        ("Broker 2 is elected, epoch 1 → 2", False),
        ("Broker 1 runs again", True),
        ("Offsets 260–296 are acknowledged", False),
        ("Broker 1 truncates its log from 297 to 260", False),
    ]
    resume, reported = story.steps[2], story.steps[3]
    assert resume.time == "10.871–10.894 s"
    assert resume.sentence == "It had stood still for 7.9 s and did not know yet that broker 2 led in epoch 2."
    assert reported.sentence == (
        "37 records, with acks=1 in epoch 1. By broker 1, a leader already deposed: the next epoch had begun at "
        "5.352 s, without them."
    )


@pytest.mark.parametrize(("before", "who"), [(False, "broker 1, a leader"), (True, "a leader")])
def test_the_page_says_in_words_that_it_was_acknowledged_by_a_leader_already_deposed(
    tmp_path: Path, before: bool, who: str
) -> None:
    page = build(zombie_run(tmp_path, as_stored_before=before))
    when = next(answer for answer in page.answers if answer.question == "When")
    assert when.short == "Acknowledged 10.890 s"
    assert when.more == f"too late: by {who} already deposed at 5.352 s; truncated at 10.970 s"
    assert page.headline.startswith("37 records of orders-0 that a deposed leader acknowledged were lost, and the conf")
    assert "did not know and went on acknowledging" in page.lead
    assert ("back from a pause" in page.lead) is not before


def test_the_terminal_tells_it_in_the_same_order(tmp_path: Path) -> None:
    text = "\n".join(proof_of(zombie_run(tmp_path), "F1"))
    places = [
        text.index(words) for words in ("Broker 2 is elected", "\n=>", "runs again", "already deposed", "truncates its")
    ]
    assert places == sorted(places)
