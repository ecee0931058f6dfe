"""The leader epoch cache, against the rules of KIP-101, KIP-279 and KAFKA-10706."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.core.leader_epochs import LeaderEpochCache

Change = tuple[tuple[tuple[int, int], ...], bool]


def cache_of(*entries: tuple[int, int]) -> tuple[LeaderEpochCache, list[Change]]:
    changes: list[Change] = []
    return LeaderEpochCache(entries, lambda kept, sync: changes.append((kept, sync))), changes


def test_a_new_epoch_is_on_disk_before_assign_returns() -> None:
    cache, changes = cache_of()
    cache.assign(3, 10)
    assert list(cache.entries) == [(3, 10)]
    assert changes == [(((3, 10),), True)]


def test_assigning_the_latest_epoch_again_changes_nothing() -> None:
    cache, changes = cache_of((1, 0), (3, 10))
    cache.assign(3, 25)
    assert list(cache.entries) == [(1, 0), (3, 10)]
    assert changes == []


def test_an_entry_that_contradicts_older_ones_replaces_them() -> None:
    cache, _ = cache_of((1, 0), (3, 10), (5, 20))
    cache.assign(4, 15)
    assert list(cache.entries) == [(1, 0), (3, 10), (4, 15)]
    cache.assign(6, 10)
    assert list(cache.entries) == [(1, 0), (6, 10)]


def test_the_latest_epoch_given_a_lower_start_moves_there() -> None:
    cache, _ = cache_of((1, 0), (3, 10))
    cache.assign(3, 7)
    assert list(cache.entries) == [(1, 0), (3, 7)]


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_numbers_are_refused(entry: tuple[int, int]) -> None:
    cache, _ = cache_of()
    with pytest.raises(ValueError, match="negative"):
        cache.assign(*entry)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),  # undefined stays undefined
        (0, (0, 5)),  # below the first: where the first begins
        (2, (2, 10)),
        (3, (2, 10)),  # unknown: the largest below, and that epoch is told (KIP-279)
        (4, (4, 20)),
        (6, (6, 33)),  # the latest ends at the log end
        (7, (-1, -1)),  # newer than all: this replica knows nothing of it
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_begins(asked: int, answer: tuple[int, int]) -> None:
    cache, _ = cache_of((2, 5), (4, 10), (6, 20))
    assert cache.end_offset_for(asked, 33) == answer


def test_an_empty_cache_knows_no_end() -> None:
    cache, _ = cache_of()
    assert cache.end_offset_for(0, 9) == (-1, -1)
    assert cache.latest_epoch == -1


def test_a_cut_drops_the_epochs_that_would_begin_at_it_or_later() -> None:
    cache, changes = cache_of((1, 0), (3, 10), (5, 20))
    cache.truncate_from_end(21)
    assert changes == []
    cache.truncate_from_end(20)
    assert list(cache.entries) == [(1, 0), (3, 10)]
    cache.truncate_from_end(10)
    assert list(cache.entries) == [(1, 0)]
    assert [sync for _, sync in changes] == [False, False]


def test_a_raised_log_start_moves_the_entry_that_covers_it() -> None:
    cache, changes = cache_of((1, 0), (3, 10), (5, 20))
    cache.truncate_from_start(15)
    assert list(cache.entries) == [(3, 15), (5, 20)]
    cache.truncate_from_start(15)
    assert len(changes) == 1
    cache.truncate_from_start(30)
    assert list(cache.entries) == [(5, 30)]


def test_a_log_start_below_the_first_entry_changes_nothing() -> None:
    cache, changes = cache_of((3, 10))
    cache.truncate_from_start(5)
    assert list(cache.entries) == [(3, 10)]
    assert changes == []


_small = st.integers(min_value=0, max_value=12)
_steps = st.lists(
    st.tuples(st.sampled_from(["assign", "cut", "start"]), _small, _small),
    max_size=20,
)


@given(_steps)
def test_epochs_and_offsets_always_rise_together_and_the_owner_gets_the_last_change(
    steps: list[tuple[str, int, int]],
) -> None:
    cache, changes = cache_of()
    for kind, epoch, offset in steps:
        if kind == "assign":
            cache.assign(epoch, offset)
            assert cache.latest_epoch == epoch
        elif kind == "cut":
            cache.truncate_from_end(offset)
            assert all(start < offset for _, start in cache.entries)
        else:
            cache.truncate_from_start(offset)
        entries = cache.entries
        for (epoch_a, start_a), (epoch_b, start_b) in pairwise(entries):
            assert epoch_a < epoch_b
            assert start_a < start_b
        assert list(changes[-1][0] if changes else ()) == list(entries)


@given(st.lists(st.tuples(_small, _small), max_size=8), _small)
def test_the_found_epoch_is_never_above_the_one_asked_for(pairs: list[tuple[int, int]], asked: int) -> None:
    cache, _ = cache_of(*pairs)
    found, end = cache.end_offset_for(asked, 100)
    if found == -1:
        assert end == -1
    else:
        assert found <= asked
        assert 0 <= end <= 100
