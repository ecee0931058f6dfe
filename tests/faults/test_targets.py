"""Victims are found by role, at the moment the fault begins."""

import random
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.targets import Target
from harness.errors import HarnessError, UsageError
from harness.ports.cluster import NodeId

BROKERS = [NodeId(node) for node in (1, 2, 3)]


class Roles:
    controller = 3

    def leader(self, topic: str, partition: int) -> int:
        return 1 if partition == 0 else -1

    def last_leader(self, topic: str, partition: int) -> int:
        return 1 if partition == 0 else 2

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        return (1, 3, 2) if partition == 0 else ()

    def coordinator(self, name: str) -> int:
        return 2 if name == "readers" else -1


def victims(expression: object, *, seed: int = 7, unfit: Collection[NodeId] = ()) -> list[int]:
    chance = random.Random(seed)
    target = Target.parse(expression)
    return [int(node) for node in target.resolve(view=Roles(), brokers=BROKERS, chance=chance, unfit=unfit)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (2, [2]),
        ([3, 1], [3, 1]),
        ("leader(orders/0)", [1]),
        ("followers(orders/0)", [3, 2]),
        ("isr(orders/0) - leader(orders/0)", [3, 2]),
        ("last_isr(orders/0)", [2]),
        ("controller + leader(orders/0)", [3, 1]),
        ("all", [1, 2, 3]),
        ("broker(2)", [2]),
        ("coordinator(readers)", [2]),
        ("all - coordinator(readers)", [1, 3]),
    ],
)
def test_a_role_names_its_holders(expression: object, expected: list[int]) -> None:
    assert victims(expression) == expected


def test_random_victims_are_drawn_from_the_given_stream() -> None:
    assert victims("random(2)") == victims("random(2)")
    assert len(set(victims("random(2)"))) == 2


@given(st.integers(0, 10_000))
def test_chance_draws_from_who_is_left_and_from_nobody_who_is_named_beside_it(seed: int) -> None:
    assert victims("random(1) - leader(orders/0)", seed=seed) in ([2], [3])
    assert sorted(victims("random(2) - leader(orders/0)", seed=seed)) == [2, 3]
    assert victims("random(1) - leader(orders/0) - 3", seed=seed) == [2]
    first, second = victims("leader(orders/0) + random(1)", seed=seed)
    assert (first, second in (2, 3)) == (1, True)
    assert len(victims("random(1) + random(1)", seed=seed)) == 2
    assert len(victims("all - random(1)", seed=seed)) == 2
    assert victims("random(1)", seed=seed, unfit=BROKERS[:2]) == [3]


def test_whoever_led_last_is_taken_away_where_nobody_leads() -> None:
    assert victims("all - leader(orders/1)") == [1, 3]
    assert victims("random(2) - leader(orders/1)") in ([1, 3], [3, 1])


def test_nobody_is_drawn_where_nobody_is_left() -> None:
    for nobody in ("random(1) - all", "leader(orders/0) - 1"):
        with pytest.raises(HarnessError, match="nobody has that role now"):
            victims(nobody)
    with pytest.raises(HarnessError, match="nobody has that role now"):
        victims("random(1)", unfit=BROKERS)


@pytest.mark.parametrize(
    ("expression", "moves"),
    [("leader(orders/0)", True), ("random(1) - leader(orders/0)", False), ("2 + controller", True), ("all", False)],
)
def test_a_target_moves_if_it_names_a_role_and_not_if_it_takes_one_away(expression: str, moves: bool) -> None:
    assert Target.parse(expression).by_role is moves


def test_a_role_that_nobody_holds_is_an_error_of_the_run_and_a_misspelt_one_of_the_file() -> None:
    with pytest.raises(HarnessError, match="nobody has that role now"):
        victims("leader(orders/1)")
    with pytest.raises(HarnessError, match="nobody has that role now"):
        victims("coordinator(nobody)")
    with pytest.raises(UsageError):
        victims("leader(orders)")
    for wrong in ("laeder(orders/0)", "leader orders", ""):
        with pytest.raises(UsageError):
            Target.parse(wrong)
