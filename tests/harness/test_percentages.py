"""Shares, as scenario files write them."""

from typing import Any

import pytest

from harness.values import percent


@pytest.mark.parametrize(
    ("written", "meant"), [("10 %", 10.0), ("0.5%", 0.5), (3, 3.0), (2.5, 2.5), ("100 %", 100.0), (0, 0.0)]
)
def test_a_share_is_a_number_of_percent(written: Any, meant: float) -> None:
    assert percent(written) == meant


@pytest.mark.parametrize("wrong", ["10", "ten %", "-1 %", "101 %", -1, 101, True, None, "10 ms"])
def test_anything_else_is_refused_with_how_to_write_it(wrong: Any) -> None:
    with pytest.raises(ValueError, match="a share "):
        percent(wrong)
