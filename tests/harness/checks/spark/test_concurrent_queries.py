"""Questions are asked side by side; whoever ends it gets what was raised, and no question begins after that."""

import threading

import pytest

from harness.checks.spark.concurrent_queries import concurrent_queries
from harness.history.facts.extent import MANY_ROWS
from tests.waiting import until


class Enough(Exception):
    pass


def test_two_questions_are_answered_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    meeting = threading.Barrier(2, timeout=20)
    with concurrent_queries(0, lambda _: None) as questions:
        answers = [questions.ask(name, meeting.wait) for name in ("records", "activity")]
        assert sorted(answer.result() for answer in answers) == [0, 1]


def test_while_a_long_question_is_answered_it_is_the_one_that_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    received: list[str] = []
    others_answered = threading.Event()
    with concurrent_queries(0, received.append) as questions:
        questions.ask("records", lambda: others_answered.wait(20))
        until(lambda: received == ["records"])
        for name in ("isolation", "availability"):
            questions.ask(name, lambda: None).result()
        others_answered.set()

    assert received == ["records"] * 3


def test_of_a_long_history_one_question_is_asked_after_the_other() -> None:
    asked: list[str] = []
    with concurrent_queries(MANY_ROWS + 1, asked.append) as questions:
        states = [questions.ask(name, lambda: len(asked)) for name in ("first", "second", "third")]
    assert [state.result() for state in states] == [1, 2, 3]
    assert asked == ["first", "second", "third"]


def test_what_ends_a_stage_reaches_whoever_asked_and_nothing_begins_after_it() -> None:
    begun: list[str] = []

    def tell(phase: str) -> None:
        if begun:
            raise Enough(phase)
        begun.append(phase)

    def ask_three() -> None:
        with concurrent_queries(MANY_ROWS + 1, tell) as questions:
            answers = [questions.ask(name, lambda: 1) for name in ("first", "second", "third")]
            assert [answer.result() for answer in answers] == [1, 1, 1]

    with pytest.raises(Enough, match="second"):
        ask_three()
    assert begun == ["first"]


def test_whoever_leaves_by_an_error_waits_for_what_is_being_answered_and_begins_nothing_more() -> None:
    asked: list[str] = []
    others_given_up = threading.Event()
    answered: list[bool] = []

    def leave() -> None:
        with concurrent_queries(MANY_ROWS + 1, asked.append) as questions:
            questions.ask("first", lambda: answered.append(others_given_up.wait(20)))
            until(lambda: asked == ["first"])
            questions.ask("second", lambda: None).add_done_callback(lambda _: others_given_up.set())
            raise Enough

    with pytest.raises(Enough):
        leave()
    assert answered == [True]
    assert asked == ["first"]
