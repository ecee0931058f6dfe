"""What was destroyed is told in columns; of older runs it is read from their faults' words, and else not known."""

from typing import Any

import pytest

from harness.history.disk_facts import DiskEvent, disk_events

TAIL = "the log of orders-1 on broker 2 ends at 40 and no longer at 55: 900 bytes never reached the disk"
BATCH = (
    "broker 2 is dead; the log of orders-1 on broker 2 is damaged: bits of bytes 61 to 68 of 00000000000000000000.log "
    "are flipped, and the checksum of the batch with offsets 40 to 44 does not hold any more"
)


def fault(kind: str, proof: str, *nodes: int) -> dict[str, Any]:
    return {"fault": 3, "kind": kind, "t_begin": 7, "nodes": list(nodes), "proof": proof}


def test_a_row_of_disk_events_counts_and_its_faults_words_do_not() -> None:
    row = {"node": 2, "t": 9, "extent": "tail", "fault": 3, "topic": "orders", "part": 0, "from_offset": 5,
           "to_offset": None}  # fmt: skip
    (event,) = disk_events([row], [fault("power-loss", TAIL, 2)])
    assert event == DiskEvent(node=2, t=9, extent="tail", fault=3, topic="orders", part=0, from_offset=5)


@pytest.mark.parametrize(
    ("told", "taken"),
    [
        (fault("wipe", "data directory of broker 2 is empty", 2), {0: True, 39: True, 40: True, 44: True, 45: True}),
        (fault("power-loss", TAIL, 2), {0: False, 39: False, 40: True, 44: True, 45: True}),
        (fault("damage", BATCH, 2), {0: False, 39: False, 40: True, 44: True, 45: None}),
        (fault("damage", "it is damaged", 2), {0: None, 40: None}),
        (fault("damage", f"{BATCH}; {BATCH}", 2, 3), {0: None, 40: None}),
    ],
)
def test_the_words_of_an_older_run_are_read_once(told: dict[str, Any], taken: dict[int, bool | None]) -> None:
    event = disk_events([], [told])[0]
    assert {offset: event.took("orders", 1, offset) for offset in taken} == taken
    if event.topic is not None:
        assert event.took("orders", 2, 40) is False, "another partition"


@pytest.mark.parametrize("kind", ["full", "pause", "cut", "kill"])
def test_other_faults_destroy_nothing(kind: str) -> None:
    assert disk_events([], [fault(kind, "seen", 1)]) == ()
