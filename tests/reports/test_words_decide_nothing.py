"""A page is made of facts: other words change no title, role, answer or command; findings of before are shown too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reports.model import Page
from reports.run.page import build
from reports.run.proof import proof_of
from tests.reports.stories.unclean_story import loss_run

# What evidence says to people. All else in it is a fact.
_WORDS = frozenset({"sentence", "rule", "evidence", "prevention", "source", "elected_log_end_from", "reason_text"})
_FACTS = frozenset(
    {
        "remedies",
        "facts",
        "name",
        "setting",
        "unclean",
        "isr_after",
        "held_by",
        "held_s",
        "leader",
        "count",
        "acks",
        "in_sync",
        "reason_text",
    }
)


def changed(run: Path, change: Callable[[Any], Any], **columns: str) -> Path:
    """The run with the evidence of its findings made another, and with other texts in these columns."""
    path = run / "tables" / "findings.parquet"
    table = pq.read_table(path)
    rows = [
        {**row, **columns, "evidence": json.dumps(change(json.loads(row["evidence"] or "{}")))}
        for row in table.to_pylist()
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    return run


def other_words(value_given: Any) -> Any:
    if isinstance(value_given, dict):
        return {key: _garbled(value) if key in _WORDS else other_words(value) for key, value in value_given.items()}
    return [other_words(each) for each in value_given] if isinstance(value_given, list) else value_given


def _garbled(text: Any) -> Any:
    if isinstance(text, list):
        return [_garbled(each) for each in text]
    return "With key=value, uncleanly; compaction from [9] to [8]: not so" if isinstance(text, str) else text


def without_facts(value_given: Any) -> Any:
    """As findings were stored before: the links of the chain had fewer fields, the rules no names."""
    if isinstance(value_given, dict):
        return {key: without_facts(value) for key, value in value_given.items() if key not in _FACTS}
    return [without_facts(each) for each in value_given] if isinstance(value_given, list) else value_given


def decided(page: Page) -> dict[str, Any]:
    """Everything on the page that is chosen, and not repeated from a finding's words."""
    assert page.story is not None
    return {
        "headline": (page.headline, page.lead, page.badges, page.aside),
        "answers": [(answer.question, answer.short) for answer in page.answers],
        "permitted": next(answer.more for answer in page.answers if answer.question == "Permitted?"),
        "preventable": [answer.more for answer in page.answers if answer.question == "Preventable?"],
        "settings": page.settings,
        "steps": [(step.number, step.time, step.event, step.decisive) for step in page.story.steps],
        "words of its own": [step.sentence for step in page.story.steps if step.number in (2, 3, 5)],
        "judgement": (page.story.judgement, page.story.tone, page.story.also),
        "rules": [rule.holds for rule in page.story.rules],
        "commands": page.commands,
        "groups": [(group.title, group.tone, group.total, group.records) for group in page.groups],
        "explained": [one.anchor for one in page.explanations],
    }


@pytest.mark.parametrize("classification", ["permitted", "violation"])
def test_other_words_change_nothing_that_a_page_decides(tmp_path: Path, classification: str) -> None:
    plain = build(loss_run(tmp_path / "plain", classification=classification))
    words = changed(
        loss_run(tmp_path / "words", classification=classification), other_words, cause_text="acks=0 uncleanly"
    )
    noisy = build(words)
    assert noisy.problems == plain.problems == []
    named = json.loads(json.dumps(decided(noisy), default=str).replace(str(words), "RUN"))
    run = str(next((tmp_path / "plain").iterdir()))
    assert named == json.loads(json.dumps(decided(plain), default=str).replace(run, "RUN"))


def test_findings_from_before_there_were_facts_are_shown_and_say_less(tmp_path: Path) -> None:
    run = changed(loss_run(tmp_path), without_facts)
    page = build(run)
    assert page.problems == []
    assert page.story is not None
    events = [step.event for step in page.story.steps]
    assert "The ISR shrinks" in events
    assert "Broker 2 is elected, epoch 1 → 2" in events
    assert not any("uncleanly" in event for event in events)
    assert page.headline, "the loss is told as ever"
    assert any("no longer had to confirm a write" in step.sentence for step in page.story.steps), "in the checks' words"
    assert page.story.prevention
    assert all(setting.role != "why" for setting in page.settings)
    assert proof_of(run, "F1")
