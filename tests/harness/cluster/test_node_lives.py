"""An end is somebody else's only if the node was meant to run, whatever the harness was about to do."""

import pytest

from harness.cluster.last_words import LastWords
from harness.cluster.node_lives import NodeLives, status_and_signal
from harness.ports.cluster import NodeId

ONE = NodeId(1)
KILL, TERM = 9, 15


def words() -> LastWords:
    return LastWords(reason="none")


@pytest.fixture
def lives() -> NodeLives:
    lives = NodeLives()
    lives.runs(ONE, 0)
    return lives


def ended(lives: NodeLives) -> list[tuple[int | None, int | None]]:
    return [(end.exit_status, end.signal) for end in lives.ends()]


def test_an_end_that_nobody_ordered_is_kept_with_what_it_ended_with(lives: NodeLives) -> None:
    lives.has_ended(ONE, -KILL, 5, words)
    assert ended(lives) == [(None, KILL)]
    assert (lives.is_down_by_itself(ONE), lives.ends()[0].t_ns, lives.ends()[0].fresh) == (True, 5, True)


def test_an_end_that_the_harness_brings_about_is_no_news(lives: NodeLives) -> None:
    lives.to_end(ONE, by=KILL)
    lives.has_ended(ONE, -KILL, 5, words)
    lives.runs(ONE, 6)
    lives.to_end(ONE)
    lives.has_ended(ONE, 0, 7, words)
    assert ended(lives) == []


def test_a_node_that_ended_just_before_its_kill_ended_by_itself(lives: NodeLives) -> None:
    lives.to_end(ONE, by=KILL)
    lives.has_ended(ONE, 1, 5, words)
    assert ended(lives) == [(1, None)]


def test_one_end_that_is_told_twice_is_kept_once(lives: NodeLives) -> None:
    lives.has_ended(ONE, 1, 5, words)
    lives.has_ended(ONE, 1, 6, words)
    assert ended(lives) == [(1, None)]


def test_a_node_that_never_ran_and_ends_while_it_starts_is_the_starters_to_tell(lives: NodeLives) -> None:
    lives.has_ended(NodeId(2), 1, 5, words)
    assert ended(lives) == []


def test_a_node_is_down_by_itself_until_it_runs_again(lives: NodeLives) -> None:
    lives.has_ended(ONE, 1, 5, words)
    lives.runs(ONE, 9)
    assert (lives.ends()[0].back_ns, lives.is_down_by_itself(ONE)) == (9, False)
    lives.has_ended(ONE, 1, 12, words)
    assert [end.back_ns for end in lives.ends()] == [9, None]


@pytest.mark.parametrize(
    ("code", "status", "number"),
    [(1, 1, None), (0, 0, None), (-9, None, KILL), (137, 137, KILL), (143, 143, TERM), (255, 255, None)],
)
def test_a_status_tells_the_signal_as_python_shells_containers_and_jvms_do(
    code: int, status: int | None, number: int | None
) -> None:
    assert status_and_signal(code) == (status, number)
