"""Two columns differ only when the repeats bear it out, and a number is shown with the digits it deserves."""

from collections.abc import Sequence

import pytest

from reports.comparison.measures import Measure, Unit, cell, compare, mark, number, span

ALWAYS = [3.0, 90.0, 700.0]


def measure(*values: Sequence[float], unit: Unit = "s", resolution: float = 0.0) -> Measure:
    return Measure(key="x", name="x", unit=unit, values=values, resolution=resolution)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1.0, 1.1, 1.2], [2.0, 2.1, 2.2]], "differs"),
        ([[1.0, 1.5, 2.0], [2.1, 2.2, 2.3]], "within"),  # apart by 0.7, though one column alone spreads by 1
        ([[1.0, 3.0], [2.0, 2.1]], "within"),
        ([[1.0], [100.0]], "unknown"),
        ([[1.0, 1.0], [100.0]], "unknown"),
        ([[2.0, 2.0], [2.0, 2.0]], "same"),
        ([[2.0], [2.0]], "same"),
        ([[1.0, 1.0], []], "unknown"),
        ([[1.0, 1.1], [1.05, 1.1], [9.0, 9.1]], "differs"),
    ],
)
def test_a_difference_is_larger_than_the_spread_of_the_repeats(values: list[list[float]], kind: str) -> None:
    assert compare(measure(*values)).kind == kind


def test_what_happens_in_every_run_of_one_and_in_none_of_the_other_differs_however_it_spreads() -> None:
    assert compare(measure(ALWAYS, [0.0, 0.0], unit="records")).kind == "differs"
    assert compare(measure([0.0, 90.0, 700.0], [0.0, 0.0], unit="records")).kind == "within"
    assert compare(measure(ALWAYS, [0.0, 0.0], unit="s")).kind == "within"


def test_the_resolution_of_the_recording_is_a_spread_too() -> None:
    rows = [[0.10, 0.11], [0.30, 0.31]]
    assert compare(measure(*rows)).kind == "differs"
    assert compare(measure(*rows, resolution=1.0)).kind == "within"


def test_a_row_that_only_one_column_has_is_not_compared() -> None:
    assert mark(measure([1.0, 2.0], [])) == ""
    assert mark(measure([1.0, 2.0], [5.0, 6.0])) == "differs"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.4321, "s", "0.43 s"),
        (12.34, "s", "12.3 s"),
        (123.4, "s", "123 s"),
        (4.5678, "ms", "4.57 ms"),
        (1234.0, "ms", "1.23 s"),
        (98.5, "records", "98"),
        (12345.0, "records", "12\u202f345"),
        (203.4, "records/s", "203/s"),
        (9.94, "records/s", "9.94/s"),
        (1.0, "times", "1"),
    ],
)
def test_numbers_have_the_digits_they_deserve(value: float, unit: Unit, text: str) -> None:
    assert number(value, unit) == text


def test_a_range_is_shown_only_where_it_can_be_seen() -> None:
    assert span([1.0, 2.0], "s") == "1.00–2.00 s"
    assert span([900.0, 1500.0], "ms") == "900 ms–1.50 s"
    assert span([199.0, 204.0], "records/s") == "199–204/s"
    assert span([1.0001, 1.0002], "s") == ""
    assert span([], "s") == ""


def test_a_percentile_of_too_few_records_carries_a_star() -> None:
    few = Measure(key="p999", name="p99.9", unit="ms", values=[[1.0], [2.0]], starred=[True, False])
    assert [cell(few, column).text for column in (0, 1)] == ["1.00 ms*", "2.00 ms"]
