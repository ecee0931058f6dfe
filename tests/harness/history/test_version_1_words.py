"""Facts that version 1 stored as words are extracted; without exact words they are unknown."""

import json
from typing import Any

import pytest

from harness.history.facts.disk_facts import disk_events
from harness.history.schema.cluster_rows import FaultRow
from harness.history.schema.version_1_words import act_of, arguments_of, links_of, step_words
from harness.history.schema.version_1_words import disk_events as rows_of
from tests.harness.history.test_disk_facts import BATCH, TAIL, fault


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("n2>n1 n3>n100", [(2, None, 1), (3, None, 100)]),
        ("2>1", [(2, None, 1)]),
        ("c1>n3", [(None, 1, 3)]),
        ("", []),
        (None, []),
    ],
)
def test_links_are_read(text: str | None, links: list[tuple[int | None, int | None, int]]) -> None:
    found = links_of(text)
    assert found is not None
    assert [(link["source"], link["client"], link["target"]) for link in found] == links


@pytest.mark.parametrize("text", ["n2>n1 and others", "2>", "n2-n1", "n2>n99999999999"])
def test_links_in_other_words_are_not_known(text: str) -> None:
    assert links_of(text) is None


@pytest.mark.parametrize(
    ("kind", "text", "expected", "act", "arguments"),
    [
        ("act", "kill 1", {"kill": 1}, "kill", {"kill": 1}),
        ("act", "delete topic orders", {"delete_topic": "orders"}, "delete_topic", {"delete_topic": "orders"}),
        ("wait", "wait log end 3", {"log_end": 3, "log": 1}, "log_end", {"log_end": 3, "log": 1}),
        ("expect", "expect elect unclean", None, "elect", {"elect": "unclean"}),
        (
            "act", "Elect preferred (topic orders, partition 2)", None, "elect",
            {"elect": "preferred", "partition": "2", "topic": "orders"},
        ),
        ("act", "something else", None, None, None),
        ("act", "something else", {"kill": 1}, None, {"kill": 1}),
    ],
)  # fmt: skip
def test_a_steps_act_is_what_its_words_begin_with(
    kind: str, text: str, expected: dict[str, Any] | None, act: str | None, arguments: dict[str, Any] | None
) -> None:
    words = step_words(kind, text)
    stored = arguments_of(words) if expected is None else json.dumps(expected)
    assert act_of(words, stored) == act
    assert (None if stored is None else json.loads(stored)) == arguments


@pytest.mark.parametrize(
    ("expected", "taken"),
    [
        (fault("wipe", "data directory of broker 2 is empty", 2), {0: True, 39: True, 40: True, 44: True, 45: True}),
        (fault("power-loss", TAIL, 2), {0: False, 39: False, 40: True, 44: True, 45: True}),
        (fault("damage", BATCH, 2), {0: False, 39: False, 40: True, 44: True, 45: None}),
        (fault("damage", "it is damaged", 2), {0: None, 40: None}),
        (fault("damage", f"{BATCH}; {BATCH}", 2, 3), {0: None, 40: None}),
    ],
)
def test_what_a_fault_took_is_read_from_its_proof(expected: FaultRow, taken: dict[int, bool | None]) -> None:
    event = disk_events(rows_of([expected], ()), [expected])[0]
    assert {offset: event.took("orders", 1, offset) for offset in taken} == taken
    if event.topic is not None:
        assert event.took("orders", 2, 40) is False, "another partition"


def test_what_is_reported_in_rows_is_not_read_again() -> None:
    assert rows_of([fault("power-loss", TAIL, 2)], [3]) == []
