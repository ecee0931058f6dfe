"""The columns under Jepsen's rules: the same rows however they are numbered, and no Spark where none is needed."""

from typing import Any

import pytest

from harness.checks.jepsen import columns
from harness.checks.jepsen.check import inputs_of
from harness.checks.jepsen.own_rules import OWN_RULES
from harness.checks.jepsen.rules import RULES
from harness.history.jepsen.imported import together
from harness.history.jepsen.jepsen_import import import_text
from tests.harness.checks.jepsen.generator import Generated

HISTORIES = [import_text(str(seed), Generated(seed, length=40).edn) for seed in range(40)]


def _flagged() -> dict[str, list[str]]:
    inputs, _ = inputs_of(together(HISTORIES), lenient=True)
    return {rule: sorted(map(str, found(inputs))) for rule, found in {**RULES, **OWN_RULES}.items()}


def test_numbers_without_room_for_every_value_in_every_key_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    roomy = _flagged()
    monkeypatch.setattr(columns, "_ROOM", -(1 << 62))

    assert _flagged() == roomy
    assert sum(map(len, roomy.values())) > 1000


def test_a_history_alone_has_the_rows_that_it_has_among_others() -> None:
    inputs, _ = inputs_of(together(HISTORIES), lenient=True)
    for run in (3, 17):
        alone, _ = inputs_of(together([HISTORIES[run]]), lenient=True)
        for rule in {**RULES, **OWN_RULES}.values():
            among = [row for row in rule(inputs) if row["run"] == run]
            assert sorted(map(str, rule(alone))) == sorted(str({**row, "run": 0}) for row in among)


def test_no_history_at_all_has_no_rows() -> None:
    inputs, orders = inputs_of(together([import_text("none", "")]), lenient=True)
    rows: list[Any] = [row for rule in {**RULES, **OWN_RULES}.values() for row in rule(inputs)]

    assert rows == []
    assert orders.num_rows == 0
