"""The order of Clojure's sets and maps, by which Jepsen picks one value of several."""

from hypothesis import given
from hypothesis import strategies as st

from harness.history.jepsen.clojure_order import clojure_hash, map_order, set_order, set_orders
from harness.history.jepsen.edn_reader import Keyword


def test_hashes_are_clojures() -> None:
    assert clojure_hash(Keyword("a")) == (-2123407586) % (1 << 32)
    # The order of (set (range 10)) in a Clojure prompt.
    assert sorted(range(10), key=set_order) == [0, 7, 1, 4, 6, 3, 2, 9, 5, 8]


@given(st.lists(st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)))
def test_numbers_are_ordered_alike_one_by_one_and_in_columns(numbers: list[int]) -> None:
    assert set_orders(numbers) == [set_order(number) for number in numbers]


def test_small_maps_keep_their_order_and_large_ones_do_not() -> None:
    assert map_order([5, 3, 5, 1]) == [5, 3, 1]
    assert map_order(range(9)) == [0, 7, 1, 4, 6, 3, 2, 5, 8]


def test_every_kind_of_value_has_a_place() -> None:
    values = [None, True, "a", Keyword("a"), Keyword("a", "b"), 1.5, ("a", 1), 1 << 70]

    assert len({set_order(value) for value in values}) == len(values)
    assert [set_order(value) for value in values] == set_orders(values)
