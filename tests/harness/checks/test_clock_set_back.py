"""By how much the machine's clock was seen to be set back in a run, and which times of a log that explains."""

from harness.checks.families.records.timestamps import clock_explains
from harness.checks.model.partition_history import read_run_history
from tests.harness.checks.contract.test_contract_against_model import small_tables
from tests.harness.checks.histories.build import History

MS = 10**6


def _set_back_ns(*apart: int) -> int:
    anchors = [{"monotonic_ns": place, "wall_ns": place + each} for place, each in enumerate(apart)]
    return read_run_history(small_tables(History()), 0, None, 0, anchors=anchors).set_back_ns


def test_a_clock_was_set_back_by_the_most_that_it_fell_behind_what_it_had_been_ahead_before() -> None:
    assert _set_back_ns() == _set_back_ns(5) == _set_back_ns(1, 5) == 0
    assert _set_back_ns(5, 1) == 4
    assert _set_back_ns(5, 9, 2, 8, 3) == 7
    assert _set_back_ns(2, 0, 9, 8) == 2


def test_times_in_milliseconds_go_back_by_as_much_as_the_clock_and_a_rounding() -> None:
    assert clock_explains(10_001 * MS, 10_000 * MS - 300_000)
    assert not clock_explains(10_010 * MS, 10_000 * MS)


def test_of_a_clock_that_nobody_saw_set_back_there_is_nothing_to_round() -> None:
    assert not clock_explains(MS, 0)
