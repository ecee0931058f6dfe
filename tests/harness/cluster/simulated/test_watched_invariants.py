"""Each invariant, broken by replicas that do what no flaw of the reference does."""

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cluster.simulated import invariants
from harness.cluster.simulated.beginning import Beginning
from harness.cluster.simulated.invariants import Invariants
from harness.ports.cluster import NodeId
from reference_impl.core.identifiers import TopicPartition
from reference_impl.core.isr import Committed

KEY = TopicPartition("orders", 0)
_HEADER = struct.Struct(">qiibIhiqqqhii")


class Replica:
    """Of a log whose batches have one record each: `checksums` says which batch lies at each offset."""

    def __init__(self, *, epoch: int = 0, leads: bool = False, isr: tuple[int, ...] = (1, 2)) -> None:
        self.is_leader = leads
        self.leader_epoch = epoch
        self.state = SimpleNamespace(isr=isr)
        self.isr_state = Committed(isr=isr)
        self.settings = SimpleNamespace(compaction=None)
        self.high_watermark = 0
        self.checksums: list[int] = []
        self.log = self

    @property
    def log_start_offset(self) -> int:
        return 0

    @property
    def log_end_offset(self) -> int:
        return len(self.checksums)

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        numbered = list(enumerate(self.checksums))[offset:end_offset]
        return b"".join(_HEADER.pack(at, 49, 0, 2, crc, 0, 0, 0, 0, -1, -1, -1, 1) for at, crc in numbered)


class Watched:
    def __init__(self, **replicas: Replica) -> None:
        self.invariants = Invariants(Beginning())
        self._brokers: dict[int, Any] = {}
        for name, replica in replicas.items():
            number = int(name.removeprefix("broker_"))
            self._brokers[number] = SimpleNamespace(
                partitions={KEY: replica}, on_progress=[], on_acknowledged=[], topic_id=lambda key: "one topic"
            )
            self.invariants.begins(NodeId(number), cast(Any, self._brokers[number]))
        self.invariants.look()

    def broken(self, *changed: int) -> tuple[str, int, int, int] | None:
        for number in changed:
            for progressed in self._brokers[number].on_progress:
                progressed(KEY)
        self.invariants.look()
        found = self.invariants.broken
        return None if found is None else (found.invariant, found.node, found.wanted, found.seen)

    def acknowledges(self, number: int, end: int) -> None:
        for acknowledged in self._brokers[number].on_acknowledged:
            acknowledged(KEY, end)


def _two() -> tuple[Replica, Replica, Watched]:
    leader, follower = Replica(leads=True), Replica()
    watched = Watched(broker_1=leader, broker_2=follower)
    for replica in (leader, follower):
        replica.checksums = [7, 8, 9]
        replica.high_watermark = 2
    assert watched.broken(1, 2) is None
    return leader, follower, watched


def test_two_leaders_of_an_epoch_break_one_leader_an_epoch() -> None:
    _, follower, watched = _two()
    follower.is_leader = True

    assert watched.broken(2) == (invariants.ONE_LEADER, 2, 1, 2)


def test_a_leader_whose_high_watermark_goes_back_breaks_its_monotony() -> None:
    leader, _, watched = _two()
    leader.high_watermark = 1

    assert watched.broken(1) == (invariants.MONOTONIC, 1, 2, 1)


def test_a_high_watermark_of_a_new_epoch_may_begin_lower() -> None:
    leader, _, watched = _two()
    leader.high_watermark, leader.leader_epoch = 1, 1

    assert watched.broken(1) is None


def test_a_high_watermark_above_the_end_of_its_log_is_not_within_it() -> None:
    _, follower, watched = _two()
    follower.high_watermark = 4

    assert watched.broken(2) == (invariants.WITHIN_LOG, 2, 3, 4)


def test_another_batch_below_the_high_watermark_breaks_log_matching() -> None:
    leader, follower, watched = _two()
    follower.checksums[2] = 1
    leader.high_watermark = follower.high_watermark = 3

    assert watched.broken(1, 2) == (invariants.MATCHING, 2, 3, 2)


def test_another_batch_above_the_high_watermark_breaks_nothing() -> None:
    _, follower, watched = _two()
    follower.checksums[2] = 1

    assert watched.broken(2) is None


def test_a_member_of_the_isr_that_lacks_what_was_committed_breaks_the_promise_of_the_isr() -> None:
    _, follower, watched = _two()
    follower.checksums, follower.high_watermark = [7], 1

    assert watched.broken(2) == (invariants.COMMITTED, 2, 2, 1)


@pytest.mark.parametrize("lost", [True, False])
def test_a_disk_that_lost_records_excuses_its_replica(lost: bool) -> None:
    _, follower, watched = _two()
    if lost:
        watched.invariants.loses(NodeId(2))
    follower.checksums, follower.high_watermark = [7], 1

    assert (watched.broken(2) is None) is lost


def test_an_acknowledgement_that_a_member_of_the_isr_lacks_is_seen_at_once() -> None:
    leader, _, watched = _two()
    leader.checksums.append(10)
    watched.acknowledges(1, 3)
    assert watched.broken() is None

    watched.acknowledges(1, 4)

    assert watched.broken() == (invariants.ACKNOWLEDGED, 2, 4, 3)
