"""Faults that take records off a disk may ask that all other replicas are well."""

import asyncio
from collections.abc import Sequence

import pytest

from faults.catalogue import make
from faults.disks import spare
from harness.ports.cluster import NodeId, PartitionState
from harness.ports.faults import NothingToStrike, Struck
from tests.faults.diary import Diary
from tests.partition_states import seen
from tests.waiting import PATIENCE_S


class Replicated(Diary):
    """Knows the ISR of orders/0 and which of its brokers run. isr_after: once broker 1, the leader, was killed.

    looks_until_elected: how often one has to look after that until another broker leads.
    """

    isr: tuple[int, ...] = (1, 2, 3)
    isr_after: tuple[int, ...] | None = None
    looks_until_elected: int = 0
    down: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.looked_again = asyncio.Event()  # at the log of broker 1
        self.looks = 0

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        self.looks += node == 1
        if self.looks > 1:
            self.loop.call_soon_threadsafe(self.looked_again.set)
        return super().log_end(node, topic, partition)

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        leader, epoch, isr = 1, 4, self.isr
        if 1 not in self.up:
            self.looks_until_elected -= 1
            if self.isr_after is not None and self.looks_until_elected < 1:
                isr = self.isr_after
            elif self.looks_until_elected < 0:
                leader, epoch = 2, 5
        answering = self.up - self.silent
        rows = [self._state(leader, epoch, isr, observer=node) for node in sorted(answering)]
        return [*rows, self._state(3, 0, (1, 2, 3), observer=2)] if "orders" in topics else []

    @staticmethod
    def _state(leader: int, epoch: int, isr: tuple[int, ...], *, observer: int) -> PartitionState:
        return seen(observer, leader, epoch, isr, t_ns=1)

    def is_running(self, node: NodeId) -> bool:
        return node not in self.down and super().is_running(node)


@pytest.mark.parametrize("kind", ["power-loss", "disk-damage", "wipe"])
@pytest.mark.parametrize(
    ("isr", "down", "silent", "strikes"),
    [
        ((1, 2, 3), (), (), True),
        ((1, 2), (3,), (3,), False),
        ((1, 2, 3), (2,), (), False),
        ((1, 2, 3), (), (3,), False),
        ((1, 2), (), (), False),
        ((1,), (), (), False),
        ((), (1,), (1,), False),
    ],
    ids=str,
)
async def test_a_disk_loses_records_only_while_all_other_replicas_run_answer_and_are_in_sync(
    kind: str, isr: tuple[int, ...], down: tuple[int, ...], silent: tuple[int, ...], strikes: bool
) -> None:
    cluster = Replicated()
    cluster.isr, cluster.down, cluster.silent = isr, frozenset(down), frozenset(silent)
    fault, _ = make(kind, {"spare": True})
    struck = Struck(nodes=(NodeId(1),), topics=("orders",))

    if strikes:
        assert (await fault.begin(cluster, struck)).sentence
    else:
        with pytest.raises(NothingToStrike):
            await fault.begin(cluster, struck)
        assert not cluster.deeds, "nobody was killed for it"


@pytest.mark.parametrize("kind", ["power-loss", "disk-damage", "wipe"])
async def test_a_leader_that_leaves_as_the_last_member_of_its_isr_is_killed_and_keeps_its_disk(kind: str) -> None:
    """Its own request to shrink the ISR was under way as it died: it comes back as the only one who may lead."""
    cluster = Replicated()
    cluster.isr_after, cluster.looks_until_elected = (1,), 2
    fault, _ = make(kind, {"spare": True})

    evidence = await fault.begin(cluster, Struck(nodes=(NodeId(1),), topics=("orders",)))

    assert evidence.only == "kill"
    assert "disk was left as it is" in evidence.sentence
    assert cluster.deeds == ["kill 1"]


@pytest.mark.parametrize("kind", ["power-loss", "disk-damage", "wipe"])
async def test_a_disk_is_harmed_when_another_broker_leads(kind: str) -> None:
    cluster = Replicated()
    cluster.looks_until_elected = 1
    fault, _ = make(kind, {"spare": True})

    evidence = await fault.begin(cluster, Struck(nodes=(NodeId(1),), topics=("orders",)))

    assert not evidence.only
    assert len(cluster.deeds) == 2
    assert cluster.looks_until_elected < 0, "the disk was left alone until then"


async def test_where_nobody_answers_no_disk_is_harmed() -> None:
    cluster = Replicated()
    fault, _ = make("wipe", {"spare": True})
    with pytest.raises(NothingToStrike, match="nobody answers"):
        await fault.begin(cluster, Struck(nodes=(NodeId(1),), topics=("payments",)))
    assert not cluster.deeds


async def test_without_a_spare_asked_for_the_last_copy_is_struck_too() -> None:
    cluster = Replicated()
    cluster.isr = (1,)
    fault, _ = make("power-loss", {})
    assert (await fault.begin(cluster, Struck(nodes=(NodeId(1),), topics=("orders",)))).sentence


@pytest.mark.parametrize("kind", ["power-loss", "disk-damage"])
async def test_a_replica_that_is_not_there_is_left_alone_with_its_broker(kind: str) -> None:
    cluster = Replicated()
    cluster.ends = {}
    fault, _ = make(kind, {})
    with pytest.raises(NothingToStrike, match="broker 1 has no replica of orders/0"):
        await fault.begin(cluster, Struck(nodes=(NodeId(1),), topics=("orders",)))
    assert not cluster.deeds, "nobody was killed for it"


@pytest.mark.parametrize("kind", ["power-loss", "disk-damage", "wipe"])
def test_a_broker_that_is_down_is_no_victim_where_a_spare_copy_is_asked_for(kind: str) -> None:
    """It may have stopped cleanly: all that it has is flushed, and it will not look at it again."""
    assert make(kind, {"spare": True})[0].not_while == ("down",)
    assert make(kind, {})[0].not_while == ()


@pytest.mark.parametrize("kind", ["power-loss", "disk-damage", "wipe"])
async def test_it_is_over_when_the_victim_has_again_what_the_others_have(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spare, "_REJOIN_S", 2 * PATIENCE_S)
    cluster = Replicated()
    cluster.ends = {1: 990, 2: 1000, 3: 1000}
    fault, _ = make(kind, {"spare": True})
    assert fault.alone
    assert not make(kind, {})[0].alone
    ending = asyncio.ensure_future(fault.end(cluster, Struck(nodes=(NodeId(1),), topics=("orders",))))
    await cluster.looked_again.wait()
    assert not ending.done()
    cluster.ends = {1: 1000, 2: 1010, 3: 1010}
    async with asyncio.timeout(PATIENCE_S):
        assert (await ending).sentence
