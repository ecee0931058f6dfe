"""The small facts on which agreement with Jepsen's own choice of cycles and evidence rests."""

from collections.abc import Mapping
from typing import Any

import pytest

from harness.checks.cycles import Mode, jepsen_errors
from harness.checks.cycles.champ import components_in_order, operations_in_order, signed_hash
from harness.history.jepsen.clojure_order import set_order
from tests.harness.checks.cycles.histories import SearchHistory, searched


def test_the_hash_of_an_operation_is_clojures_of_a_long() -> None:
    assert [signed_hash(number) for number in (0, 1, 2, -1)] == [0, 1392991556, -971005196, 1651860712]


def test_operations_are_walked_in_the_order_that_the_oracle_shows() -> None:
    assert operations_in_order([2, 3]) == [3, 2]
    assert sorted(operations_in_order(range(1000))) == list(range(1000))


def test_the_order_of_a_set_does_not_depend_on_how_it_was_made() -> None:
    assert operations_in_order(range(200)) == operations_in_order(reversed(range(200)))
    sets = [frozenset({one, one + 1}) for one in range(0, 60, 2)]
    assert components_in_order(sets) == components_in_order(sets[::-1])
    assert sorted(map(min, components_in_order(sets))) == list(range(0, 60, 2))


def _two_readers_of_each_other(keys: list[str]) -> SearchHistory:
    history = SearchHistory()
    for index, begin in ((2, 0), (3, 1)):
        history.operation(index, begin, "txn", "ok")
    for mop, key in enumerate(keys):
        history.sent(2, mop, key, f"a{key}")
        history.sent(3, mop, key, f"b{key}")
    for mop, key in enumerate(keys, start=len(keys)):
        history.read(2, mop, key, [f"b{key}"])
        history.read(3, mop, key, [f"a{key}"])
    return history


def _two_sends(second_begin: int, status: str) -> SearchHistory:
    history = SearchHistory()
    history.operation(2, 0, "send", status)
    history.sent(2, 0, "x", "a")
    history.operation(4, second_begin, "send", "ok")
    history.sent(4, 0, "y", "b")
    return history


HISTORIES = {
    "few keys": _two_readers_of_each_other(["7", "5", "3"]),
    "many keys": _two_readers_of_each_other([str(key) for key in range(11, 0, -1)]),
    "overlapping": _two_sends(1, "ok"),
    "one after the other": _two_sends(3, "ok"),
    "one after a failed one": _two_sends(3, "fail"),
}


@pytest.fixture(scope="module")
def errors() -> Mapping[str, Mapping[str, Any]]:
    reported = list(HISTORIES.values())
    search = searched(reported, Mode.JEPSEN, ww_deps=False)
    return {
        name: jepsen_errors(search, run, key_of=history.key_of, value_of=history.value_of)
        for run, (name, history) in enumerate(HISTORIES.items())
    }


def test_of_many_values_between_two_operations_the_first_key_that_the_reader_met_is_shown(
    errors: Mapping[str, Mapping[str, Any]],
) -> None:
    """Up to eight keys as they came; more than eight by the bits of their hashes, as Clojure's maps keep them."""
    shown = {}
    for name in ("few keys", "many keys"):
        assert set(errors[name]) == {"G1c", "PL-2-cycle-exists"}
        shown[name] = [step["key"] for step in errors[name]["G1c"][0]["steps"]]
    assert shown == {"few keys": [7, 7], "many keys": [min(range(1, 12), key=set_order)] * 2}


def test_a_run_whose_operations_depend_on_nothing_has_an_empty_graph(
    errors: Mapping[str, Mapping[str, Any]],
) -> None:
    empty = {name for name, found in errors.items() if found == {"empty-transaction-graph": True}}
    assert empty == {"overlapping", "one after a failed one"}
    assert errors["one after the other"] == {}
