"""Victims are found by role, at the moment the fault begins."""

import random

import pytest

from faults.targets import parse, resolve
from harness.errors import HarnessError, UsageError
from harness.interfaces import NodeId

BROKERS = [NodeId(node) for node in (1, 2, 3)]


class Roles:
    controller = 3

    def leader(self, topic: str, partition: int) -> int:
        return 1 if partition == 0 else -1

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        return (1, 3, 2) if partition == 0 else ()


def victims(expression: object) -> list[int]:
    return [int(node) for node in resolve(expression, view=Roles(), brokers=BROKERS, chance=random.Random(7))]


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
    ],
)
def test_a_role_names_its_holders(expression: object, expected: list[int]) -> None:
    assert victims(expression) == expected


def test_random_victims_are_drawn_from_the_given_stream() -> None:
    assert victims("random(2)") == victims("random(2)")
    assert len(set(victims("random(2)"))) == 2


def test_a_role_that_nobody_holds_is_an_error_of_the_run_and_a_misspelt_one_of_the_file() -> None:
    with pytest.raises(HarnessError, match="nobody has that role now"):
        victims("leader(orders/1)")
    with pytest.raises(UsageError):
        victims("leader(orders)")
    for wrong in ("laeder(orders/0)", "leader orders", ""):
        with pytest.raises(UsageError):
            parse(wrong)
