"""What a fault destroyed is read from columns; without them only the fault's kind counts."""

import pytest

from harness.history.facts.disk_facts import DiskEvent, disk_events
from harness.history.schema.cluster_rows import DiskEventRow, FaultRow
from tests.rows import row_of

TAIL = "the log of orders-1 on broker 2 ends at 40 and no longer at 55: 900 bytes never reached the disk"
BATCH = (
    "broker 2 is dead; the log of orders-1 on broker 2 is damaged: bits of bytes 61 to 68 of 00000000000000000000.log "
    "are flipped, and the checksum of the batch with offsets 40 to 44 does not hold any more"
)


def fault(kind: str, proof: str, *nodes: int) -> FaultRow:
    return row_of(FaultRow, fault=3, kind=kind, begin_ns=7, nodes=list(nodes), proof_text=proof)


def test_a_row_of_disk_events_counts_and_its_faults_words_do_not() -> None:
    row = row_of(DiskEventRow, node=2, time_ns=9, extent="tail", fault=3, topic="orders", partition=0, from_offset=5)
    (event,) = disk_events([row], [fault("power-loss", TAIL, 2)])
    assert event == DiskEvent(node=2, time_ns=9, extent="tail", fault=3, topic="orders", partition=0, from_offset=5)


def test_of_a_fault_without_rows_its_kind_says_how_far_it_may_reach() -> None:
    (wiped,) = disk_events([], [fault("wipe", "data directory of broker 2 is empty", 2)])
    assert wiped.destroyed("orders", 1, 40) is True
    lost, damaged = disk_events([], [fault("power-loss", TAIL, 2), fault("damage", BATCH, 2)])
    assert (lost.destroyed("orders", 1, 0), damaged.destroyed("orders", 1, 0)) == (None, None), "and its words nothing"


@pytest.mark.parametrize("kind", ["full", "pause", "cut", "kill"])
def test_other_faults_destroy_nothing(kind: str) -> None:
    assert disk_events([], [fault(kind, "seen", 1)]) == ()
