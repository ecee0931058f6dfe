"""The reasons of a verdict follow each other in one line, so each is a whole sentence."""

from types import SimpleNamespace
from typing import Any

import pytest

from harness.checks import judge
from harness.checks.verdict_sentence import verdict_sentence
from harness.verdict import Verdict


@pytest.mark.parametrize("end", ["", "."])
def test_why_a_run_could_not_be_done_ends_before_its_coverage_is_reported(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr("harness.checks.judge.missing.reasons", lambda *_: [])
    monkeypatch.setattr("harness.checks.judge.cycle.not_searched", lambda *_: [])
    history = SimpleNamespace(steps=[], partitions={}, ends=(), scenario=None)
    given: Any = SimpleNamespace(run={"error": f"broker 1 ended; see nodes/1/log{end}"}, scenario=None)
    facts: Any = SimpleNamespace(context=SimpleNamespace(history=history, flagged=[]))
    unmet: Any = {"condition": "elections", "meaning": "leaders elected", "required": ">= 1", "seen": 0, "met": False}
    sums: Any = {"acknowledged": 0}
    verdict, reasons = judge._verdict(given, facts, [], [unmet], sums)
    assert verdict is Verdict.ERROR
    assert verdict_sentence(verdict, reasons, [], sums) == (
        "Error: The run could not be done: broker 1 ended; see nodes/1/log. "
        "Coverage: elections (leaders elected): required >= 1, seen 0."
    )


def test_a_pass_says_what_is_not_there_although_it_was_not_lost() -> None:
    removed: Any = SimpleNamespace(check="removed-by-configuration", classification="observation", count=20)
    sums: Any = {"acknowledged": 25}
    assert verdict_sentence(Verdict.PASS, [], [removed], sums) == (
        "Pass: none of 25 acknowledged records was lost, and no promise was broken; 20 were removed, not lost."
    )


def test_partitions_that_were_added_meanwhile_are_not_said_to_be_unreadable() -> None:
    def of(partition: int) -> Any:
        name = f"orders-{partition}"
        given = {"topic": "orders", "partition": partition, "name": name, "read_to_end": False}
        return SimpleNamespace(**given, deletion=None, is_set_apart=False)

    topic = SimpleNamespace(name="orders", partition_count=1)
    scenario = SimpleNamespace(topics=(topic,), expect=SimpleNamespace(unreadable=False))
    given: Any = SimpleNamespace(run={}, scenario=scenario)
    history = SimpleNamespace(steps=[], partitions={each: of(each) for each in range(3)})
    facts: Any = SimpleNamespace(context=SimpleNamespace(history=history, flagged=[]))
    assert judge._inconclusive(given, facts) == [
        "1 partition could not be read to the end: orders-0.",
        "Nobody read orders-1, orders-2: what is added to a topic while a run goes on is not read.",
    ]
