"""Every kind of fault, done to a cluster that writes down what it is told: begin harms, end undoes, both are proved."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from faults.catalogue import FAULTS, make
from faults.evidence import joined
from faults.rolling_restart import RollingRestart
from harness.errors import HarnessError, UsageError
from harness.harms import CanDamageDisks, CanFillDisks, CanImpairPackets, Impairment, Place
from harness.interfaces import (
    CanCrash,
    CanCutLinks,
    CanPause,
    CanSlowLinks,
    CanStop,
    CanWipe,
    Evidence,
    Link,
    Node,
    NodeId,
    PartitionState,
    ReplicaLog,
)
from harness.scenario import FaultSpec

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
PEERS_OF_1 = "n1>n2 n1>n3 n2>n1 n3>n1"


class Diary:
    """Every capability; `deeds` in order. A deed's time is its place, so that proofs can be told apart."""

    def __init__(self) -> None:
        self.deeds: list[str] = []
        self.up = {1, 2, 3}
        self.back_in_isr = True
        self.nodes = [Node(node=NodeId(n), role="broker", name=f"broker {n}") for n in (1, 2, 3)]

    def _did(self, deed: str) -> Evidence:
        self.deeds.append(deed)
        return Evidence(t_ns=len(self.deeds), sentence=f"{deed} seen")

    async def start(self) -> None:
        raise AssertionError("no fault may ask for this")

    async def stop(self) -> None:
        raise AssertionError("no fault may ask for this")

    def bootstrap(self, client: object) -> str:
        raise AssertionError("no fault may ask for this")

    async def controller(self) -> int:
        raise AssertionError("no fault may ask for this")

    async def create_topics(self, topics: object) -> None:
        raise AssertionError("no fault may ask for this")

    def collect(self) -> Any:
        raise AssertionError("no fault may ask for this")

    def environment(self) -> Mapping[str, str]:
        raise AssertionError("no fault may ask for this")

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        isr = tuple(sorted(self.up)) if self.back_in_isr else (1,)
        return [
            PartitionState(
                topic=topic, partition=0, t_ns=0, uncertainty_ns=0, exact=False, observer=1, leader=1, leader_epoch=0,
                partition_epoch=None, controller_epoch=None, isr=isr, replicas=(1, 2, 3),
            )
            for topic in topics
        ]  # fmt: skip

    async def kill(self, node: NodeId) -> Evidence:
        self.up.discard(int(node))
        await asyncio.sleep(0)
        return self._did(f"kill {node}")

    async def shut_down(self, node: NodeId) -> Evidence:
        self.up.discard(int(node))
        return self._did(f"stop {node}")

    async def start_node(self, node: NodeId) -> Evidence:
        self.up.add(int(node))
        return self._did(f"start {node}")

    def is_running(self, node: NodeId) -> bool:
        return int(node) in self.up

    async def pause(self, node: NodeId) -> Evidence:
        return self._did(f"pause {node}")

    async def resume(self, node: NodeId) -> Evidence:
        return self._did(f"resume {node}")

    def links(self) -> Sequence[Link]:
        brokers = ["n1", "n2", "n3"]
        made = [Link(source=a, target=b) for a in brokers for b in [*brokers, "n100"] if a != b]
        return made + [Link(source=c, target=b) for c in ("c1", "c2") for b in brokers]

    async def cut(self, links: Sequence[Link], *, mode: Literal["hang", "reset"] = "hang") -> Evidence:
        return self._did(f"cut {' '.join(sorted(str(link) for link in links))} {mode}")

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence:
        return self._did(f"heal {' '.join(sorted(str(link) for link in links))} {mode}")

    async def slow(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        return self._did(f"slow {' '.join(sorted(str(link) for link in links))} {delay_ms:g}")

    async def wipe(self, node: NodeId) -> Evidence:
        assert int(node) not in self.up, "only a dead broker's disk is wiped"
        return self._did(f"wipe {node}")

    async def impair(self, links: Sequence[Link], impairment: Impairment) -> Evidence:
        return self._did(f"impair {' '.join(sorted(str(link) for link in links))} {impairment.described()}")

    async def damage(self, node: NodeId, topic: str, partition: int, *, at: Place) -> Evidence:
        return self._did(f"damage {node} {topic}-{partition} {at}")

    async def fill_disk(self, node: NodeId) -> Evidence:
        return self._did(f"fill {node}")

    async def free_disk(self, node: NodeId) -> Evidence:
        return self._did(f"free {node}")

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        return []

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        return None

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None:
        return None


def spec(kind: str, **options: Any) -> FaultSpec:
    return FaultSpec(kind=kind, at_s=0.0, options=options)


# kind and options -> victims, what it is recorded as, what begin does, what end does
CASES: Mapping[str, tuple[FaultSpec, list[NodeId], str, list[str], list[str]]] = {
    "crash": (spec("crash"), [ONE, TWO], "kill", ["kill 1", "kill 2"], ["start 1", "start 2"]),
    "shut-down": (spec("shut-down"), [THREE], "stop", ["stop 3"], ["start 3"]),
    "rolling-restart": (
        spec("rolling-restart"), [ONE, TWO], "stop", ["stop 1", "start 1", "stop 2", "start 2"], ["start 1", "start 2"],
    ),
    "pause": (spec("pause"), [ONE, THREE], "pause", ["pause 1", "pause 3"], ["resume 1", "resume 3"]),
    "isolate": (spec("isolate"), [ONE], "cut", [f"cut {PEERS_OF_1} hang"], [f"heal {PEERS_OF_1} resume"]),
    "halves": (
        spec("halves", mode="reset"), [ONE], "cut", [f"cut {PEERS_OF_1} reset"], [f"heal {PEERS_OF_1} reset"],
    ),
    "majority-ring": (
        spec("majority-ring"), [ONE, TWO, THREE], "cut", ["cut n1>n3 n3>n1 hang"], ["heal n1>n3 n3>n1 resume"],
    ),
    "bridge": (spec("bridge"), [TWO], "cut", ["cut n1>n3 n3>n1 hang"], ["heal n1>n3 n3>n1 resume"]),
    "cut-link": (
        spec("cut-link", links=["2>1", "clients>3"]), [ONE], "cut",
        ["cut c1>n3 c2>n3 n2>n1 hang"], ["heal c1>n3 c2>n3 n2>n1 resume"],
    ),
    "cut-coordination": (spec("cut-coordination"), [TWO], "cut", ["cut n2>n100 hang"], ["heal n2>n100 resume"]),
    "cut-clients": (
        spec("cut-clients", mode="reset"), [TWO], "cut", ["cut c1>n2 c2>n2 reset"], ["heal c1>n2 c2>n2 reset"],
    ),
    "hold-fetches": (spec("hold-fetches"), [ONE], "cut", ["cut n2>n1 n3>n1 hang"], ["heal n2>n1 n3>n1 resume"]),
    "slow-link": (
        spec("slow-link", delay="500 ms"), [ONE], "slow", [f"slow {PEERS_OF_1} 500"], [f"slow {PEERS_OF_1} 0"],
    ),
    "packet-loss": (
        spec("packet-loss", loss="10 %", links=["2>1"]), [ONE], "impair",
        ["impair n2>n1 lose 10 % of their packets"], ["impair n2>n1 pass packets as they come again"],
    ),
    "packet-duplication": (
        spec("packet-duplication", duplicate=5, links=["2>1"]), [ONE], "impair",
        ["impair n2>n1 send 5 % of their packets twice"], ["impair n2>n1 pass packets as they come again"],
    ),
    "packet-reordering": (
        spec("packet-reordering", reorder="25 %"), [ONE], "impair",
        [f"impair {PEERS_OF_1} let 25 % of their packets overtake others, delay every packet by 20 ms"],
        [f"impair {PEERS_OF_1} pass packets as they come again"],
    ),
    "disk-loss": (spec("disk-loss"), [TWO], "wipe", ["kill 2", "wipe 2"], ["start 2"]),
    "disk-damage": (
        spec("disk-damage", partition=1, at="middle"), [TWO], "damage",
        ["kill 2", "damage 2 orders-1 middle"], ["start 2"],
    ),
    "disk-full": (
        spec("disk-full"), [TWO, THREE], "full", ["fill 2", "fill 3"], ["free 2", "start 2", "free 3", "start 3"],
    ),
}  # fmt: skip


def test_every_fault_of_the_catalogue_is_tried_here() -> None:
    assert set(CASES) == set(FAULTS)


@pytest.mark.parametrize("name", CASES)
async def test_a_fault_harms_its_victims_and_undoes_exactly_that(name: str) -> None:
    wanted, victims, kind, harm, undoing = CASES[name]
    cluster = Diary()
    fault = make(wanted, ["orders"])
    assert fault.kind == kind
    assert all(isinstance(cluster, need) for need in fault.needs)

    begun = await fault.begin(cluster, victims)
    assert cluster.deeds == harm
    assert begun.sentence == "; ".join(f"{deed} seen" for deed in harm)

    ended = await fault.end(cluster, victims)
    assert cluster.deeds == harm + undoing
    assert ended.sentence == "; ".join(f"{deed} seen" for deed in undoing)
    assert begun.t_ns < ended.t_ns == len(cluster.deeds)


@pytest.mark.parametrize("name", CASES)
async def test_a_fault_that_was_broken_off_while_it_began_can_be_undone(name: str) -> None:
    wanted, victims, _, _, _ = CASES[name]
    cluster = Diary()
    fault = make(wanted, ["orders"])

    class Interrupted(Exception):
        pass

    def interrupted(deed: str) -> Evidence:
        raise Interrupted

    cluster._did = interrupted  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        await fault.begin(cluster, victims)
    del cluster._did

    assert (await fault.end(cluster, victims)).sentence


def test_what_a_fault_needs_is_what_its_cluster_must_be_able_to_do() -> None:
    needs = {name: set(make(case[0], ["orders"]).needs) for name, case in CASES.items()}

    assert needs["crash"] == {CanCrash}
    assert needs["shut-down"] == needs["rolling-restart"] == {CanStop}
    assert needs["pause"] == {CanPause}
    assert needs["disk-loss"] == {CanCrash, CanWipe}
    assert CanSlowLinks in needs["slow-link"]
    packets = ("packet-loss", "packet-duplication", "packet-reordering")
    assert all(needs[name] == {CanImpairPackets} for name in packets)
    assert needs["disk-damage"] == {CanCrash, CanDamageDisks}
    assert needs["disk-full"] == {CanCrash, CanFillDisks}
    patterns = ("isolate", "halves", "majority-ring", "bridge")
    cuts = (*patterns, "cut-link", "cut-coordination", "cut-clients", "hold-fetches")
    assert all(needs[name] == {CanCutLinks} for name in cuts)


async def test_a_crash_of_several_is_in_force_when_the_last_is_gone_and_kills_them_at_once() -> None:
    cluster = Diary()
    both_asked: list[set[int]] = []
    did = cluster._did

    def noted(deed: str) -> Evidence:
        both_asked.append(set(cluster.up))
        return did(deed)

    cluster._did = noted  # type: ignore[method-assign]

    proof = await make(spec("crash"), []).begin(cluster, [ONE, TWO])

    assert both_asked[0] == {3}, "the second was asked for before the first was gone"
    assert proof == Evidence(t_ns=2, sentence="kill 1 seen; kill 2 seen")


async def test_a_cut_tells_its_links_once_it_knows_them() -> None:
    fault: Any = make(spec("hold-fetches"), [])
    assert list(fault.links) == []

    await fault.begin(Diary(), [ONE])

    assert [str(link) for link in fault.links] == ["n2>n1", "n3>n1"]


async def test_a_disk_can_be_damaged_under_a_broker_that_runs_on() -> None:
    cluster = Diary()
    await make(spec("disk-damage", topic="other", running=True), ["orders"]).begin(cluster, [TWO])
    assert cluster.deeds == ["damage 2 other-0 last"]


@pytest.mark.parametrize(
    ("wanted", "remedy"),
    [
        (spec("packet-loss"), r'needs options = \{ loss = "10 %" \}'),
        (spec("packet-duplication", duplicate="a lot"), r'needs options = \{ duplicate = "10 %" \}'),
        (spec("packet-reordering", reorder="5 %", delay=0), "reordering and jitter need a delay"),
        (spec("disk-damage", at="first"), 'at = "last" or "middle"'),
        (spec("disk-damage", running="yes"), "running = true"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_how_to_write_them(wanted: FaultSpec, remedy: str) -> None:
    with pytest.raises(UsageError, match=remedy):
        make(wanted, ["orders"])


async def test_a_rolling_restart_is_in_force_from_the_first_stop_and_waits_for_the_isr() -> None:
    cluster = Diary()
    proof = await RollingRestart(["orders"]).begin(cluster, [ONE, TWO])
    assert proof.t_ns == 1
    assert not RollingRestart.lasts

    cluster = Diary()
    cluster.back_in_isr = False
    with pytest.raises(HarnessError, match=r"broker 2 was not back in every ISR after 0\.02 s"):
        await RollingRestart(["orders"], rejoin_timeout_s=0.02).begin(cluster, [TWO, THREE])
    assert cluster.deeds == ["stop 2", "start 2"], "the next one is not stopped before this one is back"


def test_proofs_are_joined_and_dated_by_the_last() -> None:
    proofs = [Evidence(t_ns=5, sentence="a"), Evidence(t_ns=3, sentence="b")]
    assert joined(proofs) == Evidence(t_ns=5, sentence="a; b")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (spec("crahs"), "did you mean 'crash'"),
        (spec("crash", mode="hang"), "has no option 'mode'; its options: none"),
        (spec("isolate", mode="drop"), 'mode is "hang" or "reset", not \'drop\''),
        (spec("cut-link"), 'this fault needs options = { links = ["2>1"] }'),
        (spec("slow-link"), 'slow-link needs options = { delay = "500 ms" }'),
        (spec("slow-link", delay="soon"), 'slow-link needs options = { delay = "500 ms" }'),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_remedy(wrong: FaultSpec, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        make(wrong, [])
    assert message in str(refused.value)
