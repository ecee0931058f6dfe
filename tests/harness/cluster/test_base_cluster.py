"""The common part of all clusters, tested on one that only records what its world would have to do."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from harness.cluster.base_cluster import BrokerCluster
from harness.cluster.brokers.system import NodeFolders
from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.errors import HarnessError
from harness.host.clock import SystemClock
from harness.ports.capabilities import CanDamageDisks
from harness.ports.cluster import CanCutLinks, CanSlowLinks, Evidence, Link, NodeId
from harness.scenario.model import ClusterSpec
from tests.harness.cluster.log_folders import batch, replica_folder

A, B = (Link(source=NodeId(node), target=NodeId(1)) for node in (2, 3))


class Paper(BrokerCluster):
    """`done` in order; nothing runs."""

    def __init__(self, run: Path) -> None:
        super().__init__(run_path=run, system=system_of(ClusterSpec()), client_links=1, clock=SystemClock())
        self.done: list[str] = []
        self.running: set[int] = set()

    def is_running(self, node: NodeId) -> bool:
        return int(node) in self.running

    def _ended(self, node: NodeId) -> str | None:
        return None

    async def _launch(self, node: NodeId) -> None:
        self.running.add(int(node))

    def _did(self, deed: str, links: Sequence[Link]) -> Evidence:
        self.done.append(f"{deed} {' '.join(map(str, links))}")
        return self._seen(self.done[-1])

    async def _cut_links(self, links: Sequence[Link], *, mode: Literal["hang", "reset"]) -> Evidence:
        return self._did(f"cut {mode}", links)

    async def _heal_links(self, links: Sequence[Link], *, mode: Literal["resume", "reset"]) -> Evidence:
        return self._did(f"heal {mode}", links)

    async def _slow_links(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        return self._did(f"slow {delay_ms:g}", links)


class Elsewhere(Paper):
    """While it runs, its nodes' files are in folders that are gone after the run, as the volumes of containers are."""

    def _ended(self, node: NodeId) -> str | None:
        return "ended with code 1"

    def _folders(self, node: NodeId) -> NodeFolders:
        return NodeFolders.below(self._run / "volume")


async def test_an_error_names_the_log_that_is_there_after_the_run_and_quotes_the_one_that_is_there_now(
    tmp_path: Path,
) -> None:
    async def never() -> bool:
        return False

    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "log").write_text("ERROR no space left on device\n")
    with pytest.raises(HarnessError) as reported:
        await Elsewhere(tmp_path)._until(never, "broker 1 listens", [NodeId(1)])
    assert "no space left on device" in str(reported.value)
    assert str(reported.value).endswith(f"; see {tmp_path}/nodes/1/log")


@pytest.fixture
def cluster(tmp_path: Path) -> Paper:
    return Paper(tmp_path)


class Registering(Paper):
    """Its broker listens at once, ends instead of registering at the first starts, and registers at the third."""

    starts = 0

    async def _launch(self, node: NodeId) -> None:
        self.starts += 1
        await super()._launch(node)

    async def _listens(self, node: NodeId) -> None:
        assert self.is_running(node)

    def _ended(self, node: NodeId) -> str | None:
        return "ended with code 1" if self.starts < 3 else None

    def _observing(self) -> Any:
        async def metadata(node: NodeId, _topics: Sequence[str]) -> Any:
            if self.starts < 3:
                raise TimeoutError
            return SimpleNamespace(brokers=[SimpleNamespace(node_id=node)])

        return SimpleNamespace(metadata=metadata)


async def test_a_broker_that_listens_and_is_then_refused_for_its_last_session_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Registering(tmp_path)
    monkeypatch.setattr(type(cluster._system), "refuses_early_restarts", True)
    assert await cluster._launch_and_wait(NodeId(1)) == 2
    assert cluster.starts == 3


async def test_a_link_that_two_faults_cut_heals_when_both_are_over(cluster: Paper) -> None:
    assert isinstance(cluster, CanCutLinks)
    await cluster.cut([A])
    await cluster.cut([A, B])
    first = await cluster.heal([A])
    assert first.sentence == "link 2>1 stays cut: another fault is still in force there"
    await cluster.heal([A, B])
    assert cluster.done == ["cut hang n2>n1", "cut hang n2>n1 n3>n1", "heal resume n2>n1 n3>n1"]


async def test_what_only_the_ending_fault_held_heals_at_once(cluster: Paper) -> None:
    await cluster.cut([A, B])
    await cluster.cut([A])
    seen = await cluster.heal([A, B])
    assert cluster.done[-1] == "heal resume n3>n1"
    assert seen.sentence == "heal resume n3>n1; link 2>1 stays cut: another fault is still in force there"


async def test_of_two_cuts_the_one_that_remains_is_in_force_in_its_own_way(cluster: Paper) -> None:
    await cluster.cut([A], mode="hang")
    await cluster.cut([A], mode="reset")
    await cluster.heal([A], mode="reset")
    assert cluster.done == ["cut hang n2>n1", "cut reset n2>n1", "cut hang n2>n1"]
    await cluster.cut([A], mode="reset")
    await cluster.heal([A], mode="resume")
    await cluster.heal([A], mode="reset")
    assert cluster.done[3:] == ["cut reset n2>n1", "heal reset n2>n1"]


async def test_what_is_no_node_is_told_with_the_nodes_there_are(tmp_path: Path) -> None:
    """A fault that hands on all its victims at once, for example."""
    local = LocalCluster(run_path=tmp_path, system=system_of(ClusterSpec()), client_links=1, clock=SystemClock())
    several: Any = (NodeId(1),)
    for strike in (local.pause, local.resume, local.kill):
        with pytest.raises(HarnessError, match=r"there is no node \(1,\): give one of 1, 2, 3, 100, and one at a time"):
            await strike(several)


async def test_links_that_nobody_cut_can_be_healed(cluster: Paper) -> None:
    await cluster.heal([A])
    await cluster.heal([A])
    assert cluster.done == ["heal resume n2>n1"] * 2


async def test_a_delay_lasts_as_long_as_the_last_fault_that_wants_one(cluster: Paper) -> None:
    assert isinstance(cluster, CanSlowLinks)
    await cluster.slow([A], delay_ms=500)
    await cluster.slow([A, B], delay_ms=200)
    await cluster.slow([A], delay_ms=0)
    await cluster.slow([A, B], delay_ms=0)
    assert cluster.done == ["slow 500 n2>n1", "slow 200 n2>n1 n3>n1", "slow 0 n2>n1 n3>n1"]


@pytest.mark.parametrize("running", [False, True])
async def test_damage_reports_where_it_is_and_that_the_checksum_does_not_hold(cluster: Paper, running: bool) -> None:
    assert isinstance(cluster, CanDamageDisks)
    replica_folder(cluster._folders(NodeId(2)).data, {0: batch(0, [b"some", b"values"])})
    cluster.running = {2} if running else set()
    seen = await cluster.damage(NodeId(2), "orders", 0, at="last")
    assert seen.sentence.startswith("the log of orders-0 on broker 2 is damaged: bits of bytes ")
    assert seen.sentence.endswith("the checksum of the batch with offsets 0 to 1 does not hold any more")


async def test_power_is_lost_only_by_a_node_that_is_down(cluster: Paper) -> None:
    replica_folder(cluster._folders(NodeId(2)).data, {0: batch(0, [b"a"]) + batch(1, [b"b"])})
    cluster.running = {2}
    with pytest.raises(HarnessError, match="broker 2 is running; kill it before"):
        await cluster.lose_tail(NodeId(2), "orders", 0, records=1)
    cluster.running = set()
    seen = await cluster.lose_tail(NodeId(2), "orders", 0, records=1)
    assert seen.sentence.startswith("the log of orders-0 on broker 2 ends at 1 and no longer at 2: ")


@pytest.mark.parametrize("linked", ["nodes/2", "nodes/2/data", "nodes/2/data/orders-0"])
async def test_a_replica_behind_a_link_is_nobodys_to_harm(cluster: Paper, tmp_path: Path, linked: str) -> None:
    assert isinstance(cluster, CanDamageDisks)
    replica_folder(cluster._folders(NodeId(2)).data, {0: batch(0, [b"a"]) + batch(1, [b"b"])})
    moved = (tmp_path / linked).rename(tmp_path / "elsewhere")
    (tmp_path / linked).symlink_to(moved)
    segment = cluster._folders(NodeId(2)).data / "orders-0" / f"{0:020}.log"
    before = segment.read_bytes()
    with pytest.raises(HarnessError, match="nothing was touched"):
        await cluster.lose_tail(NodeId(2), "orders", 0, records=1)
    with pytest.raises(HarnessError, match="nothing was touched"):
        await cluster.damage(NodeId(2), "orders", 0, at="last")
    assert segment.read_bytes() == before
