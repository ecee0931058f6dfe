"""A fingerprint is the same wherever the same kind of thing is found, and another where the kind is another."""

import pytest

from harness.checks.findings import Finding
from harness.checks.fingerprint import like


def finding(**changes: object) -> Finding:
    told: dict[str, object] = {
        "run": 0, "check": "duplicate", "classification": "violation", "kind": "twice-in-the-log", "topic": "orders",
        "part": 0, "count": 3, "sentence": "3 values.", "cause": "broker 2 took over in epoch 5 with log end 1247",
        "epoch": 5, "offsets": [1, 2], "values": [7], "t_first": 10,
    }  # fmt: skip
    return Finding(**{**told, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"run": 3, "part": 2, "count": 90, "sentence": "90 values.", "epoch": 9, "offsets": [4], "t_first": 99},
        {"cause": "broker 1 took over in epoch 12 with log end 3"},
        {"faults": [1, 2], "evidence": {"seconds": 2.5}},
    ],
)
def test_another_seed_changes_no_fingerprint(changes: dict[str, object]) -> None:
    assert finding(**changes).fingerprint == finding().fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"check": "lost-write"},
        {"classification": "permitted"},
        {"kind": "moved"},
        {"topic": "payments"},
        {"cause": "nothing happened that would make the producer retry"},
        {"salt": "group-a"},
    ],
)
def test_another_kind_of_thing_has_another(changes: dict[str, object]) -> None:
    assert finding(**changes).fingerprint != finding().fingerprint


def test_topics_that_differ_by_a_number_are_alike() -> None:
    assert finding(topic="run-17-orders").fingerprint == finding(topic="run-4-orders").fingerprint


def test_one_broker_is_as_good_as_three_and_settings_keep_their_values() -> None:
    assert like("the disks of brokers 1, 2 and 3 were lost") == like("the disks of broker 2 were lost")
    assert like("offsets 10-12, 14 and 20-21") == like("offsets 7")
    assert like("acks=1") != like("acks=0")
