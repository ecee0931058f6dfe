"""Sets of offsets as ranges, held against sets of numbers."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from harness.history.facts.offset_ranges import OffsetRanges, in_at_most, length_of

OFFSETS = st.lists(st.integers(0, 60))


def numbers(ranges: list[tuple[int, int]]) -> set[int]:
    return {offset for first, end in ranges for offset in range(first, end)}


@given(OFFSETS, OFFSETS, st.integers(0, 60))
def test_what_another_set_lacks_is_what_sets_of_numbers_say(one: list[int], other: list[int], first: int) -> None:
    lacking = OffsetRanges(one).without(OffsetRanges(other), first=first)
    assert numbers(lacking) == {each for each in {*one} - {*other} if each >= first}


@given(OFFSETS, OFFSETS)
def test_ranges_added_later_join_those_before(one: list[int], other: list[int]) -> None:
    offsets = OffsetRanges(one)
    offsets.add_ranges(OffsetRanges(other).ranges)
    ranges = offsets.ranges
    assert numbers(ranges) == {*one, *other}
    assert len(offsets) == length_of(ranges) == len({*one, *other})
    assert offsets.end == max((*one, *other), default=-1) + 1
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))


@given(OFFSETS, st.integers(1, 9))
def test_a_few_ranges_cover_many(offsets: list[int], most: int) -> None:
    ranges = OffsetRanges(offsets).ranges
    few = in_at_most(ranges, most)
    assert len(few) == min(most, len(ranges))
    assert numbers(few) >= numbers(ranges)


def test_a_long_log_without_holes_is_one_range_and_an_offset_that_no_log_has_is_none() -> None:
    offsets = OffsetRanges(range(250_000))
    offsets.add([2**62, -1, None])
    assert offsets.ranges == [(0, 250_000)]
