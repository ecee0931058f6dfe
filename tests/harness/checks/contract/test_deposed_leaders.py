"""What was read after an election tells of its leader only where no deposed one can have answered.

Broker 1 leads and is left behind by an allowed unclean election of broker 2, of whose log end nobody knows. A read
after that is either broker 2's, which then had the record, or broker 1's, which tells nothing.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.harness.checks.contract.test_survival import fate, ruled
from tests.harness.checks.histories.build import SECOND, History

READ_AT_S = 15.0
Change = Callable[[History], object]


def left_behind() -> History:
    history = History().unclean_config("true")
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    return history.state(2, 1, (2,), at=8)


def classification(change: Change) -> str:
    history = left_behind()
    change(history)
    history.rows["broker_events"].sort(key=lambda row: row["time_ns"])
    return ruled(history, fate(history, 8, read_at=READ_AT_S)).classification


def cut_off(history: History) -> None:
    history.fault("cut", [1], at=5, until=20)


def heard(event: str, *, at: float = 12, epoch: int | None = None, after_another: bool = False) -> Change:
    def change(history: History) -> None:
        cut_off(history)
        if after_another:
            history.started(3, at=9)
        history.broker_event(1, event, at=at, leader_epoch=epoch)

    return change


def ended(kind: str) -> Change:
    """Cut off, and something else happened to it before the read."""

    def change(history: History) -> None:
        cut_off(history)
        history.fault(kind, [1], at=9, until=20)

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda history: None, "violation"),  # nothing kept it from hearing of its successor
        (cut_off, "observation"),
        (lambda history: history.fault("cut", [3], at=5, until=20), "violation"),  # another broker was
        (heard("leadership_end"), "violation"),
        (heard("leadership_end", after_another=True), "violation"),
        (heard("leadership_end", at=7), "observation"),  # of a leadership before that
        (heard("leadership_end", at=17), "observation"),  # after it may have answered
        (heard("truncation", epoch=1), "violation"),
        (heard("truncation", epoch=0), "observation"),  # of its own epoch
        (heard("truncation", epoch=-1), "observation"),  # of none
        (lambda history: history.fault("pause", [1], at=5, until=20), "violation"),  # who is paused answers nobody
        (lambda history: history.fault("pause", [1], at=5, until=14), "observation"),
        (ended("kill"), "violation"),
        (ended("disk-loss"), "violation"),
        (ended("slow"), "observation"),  # it goes on
    ],
)
def test_a_read_shows_that_the_new_leader_had_it_unless_the_old_one_may_have_answered(
    change: Change, expected: str
) -> None:
    assert classification(change) == expected


def test_a_deposed_leader_that_is_in_sync_again_has_heard() -> None:
    def change(history: History) -> None:
        cut_off(history)
        history.state(2, 1, (1, 2), at=12)

    assert classification(change) == "violation"


def test_a_read_of_what_the_new_leader_is_known_to_lack_was_the_old_ones_and_puts_nothing_in_doubt() -> None:
    def change(history: History) -> None:
        cut_off(history)
        history.broker_event(2, "leadership_start", at=8, leader_epoch=1, from_offset=7)

    assert classification(change) == "permitted"


@pytest.mark.parametrize(
    ("at", "held_up", "expected"),
    [
        (8.5, False, "observation"),  # it hears of its successor within a second, if nothing holds it up
        (9.5, False, "violation"),
        (9.5, True, "observation"),
        (7.5, False, "permitted"),  # it led
    ],
)
def test_it_may_have_acknowledged_what_no_log_ever_had_until_it_heard(at: float, held_up: bool, expected: str) -> None:
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(2, 1, (2, 3), at=8, start=5)
    if held_up:
        cut_off(history)
    ruling = ruled(history, replace(fate(history, 8, acks=1, at=at), epoch=None))
    assert ruling.classification == expected


def test_what_was_acknowledged_around_an_election_may_be_of_either_leader() -> None:
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(2, 1, (2, 3), at=8, start=5)
    history.rows["partition_states"][-1]["uncertainty_ns"] = SECOND
    ruling = ruled(history, replace(fate(history, 8, acks=1, at=8.5), epoch=None))
    assert ruling.classification == "observation"


def test_what_is_permitted_of_whichever_leader_it_was_is_not_put_in_doubt_by_not_knowing_which() -> None:
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(2, 1, (2, 3), at=8, start=5)
    history.state(3, 2, (3,), at=15, start=5)
    ruling = ruled(history, replace(fate(history, 8, acks=1, at=8.5), epoch=None))
    assert ruling.classification == "permitted"


@pytest.mark.parametrize(
    ("cut", "taken", "expected"),
    [
        ((5, 10, 25.0), False, "observation"),  # of the deposed leader, or of the one in force
        ((5, 10, 25.0), True, "permitted"),  # that one gave its place to another record
        ((9, 10, 25.0), False, "violation"),  # another tail
        ((5, 8, 25.0), False, "violation"),
        ((5, 10, 15.0), False, "violation"),  # it had heard before
    ],
)
def test_a_deposed_leader_that_cut_the_place_later_may_have_acknowledged_it(
    cut: tuple[int, int, float], taken: bool, expected: str
) -> None:
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(2, 1, (2, 3), at=8, start=5)
    first, end, at = cut
    history.truncation(1, first, end, epoch=1, at=at)
    lost = replace(fate(history, 8, acks=1, at=20), epoch=None, taken=taken)
    assert ruled(history, lost).classification == expected
