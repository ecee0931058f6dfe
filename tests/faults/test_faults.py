"""Every kind of fault, done to a cluster that writes down what it is told: begin harms, end undoes, both are proved."""

import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from faults.catalogue import OURS, by_name, find, make, options_of
from faults.processes.rolling_restart import RollingRestart
from harness.errors import HarnessError, UsageError
from harness.ports.capabilities import CanDamageDisks, CanFillDisks, CanImpairPackets
from harness.ports.cluster import (
    COORDINATION,
    CanCrash,
    CanCutLinks,
    CanLosePower,
    CanPause,
    CanSlowLinks,
    CanStop,
    CanWipe,
    ClientId,
    Evidence,
    Link,
    NodeId,
)
from harness.ports.faults import ACTS, Fault, NothingToStrike, Struck, joined
from harness.scenario.model import FaultSpec
from harness.verdict import COVERAGE_CONDITIONS, kinds_counted_by
from tests.faults.diary import ONE, THREE, TWO, Diary
from tests.faults.test_topic_faults import OF_TOPICS

PEERS_OF_1 = "n1>n2 n1>n3 n2>n1 n3>n1"


def spec(kind: str, **options: Any) -> FaultSpec:
    return FaultSpec(kind=kind, at_s=0.0, options=options)


def struck(fault: Fault, cluster: Diary, victims: Sequence[NodeId], *topics: str) -> Struck:
    return replace(fault.strikes(cluster, victims), topics=topics)


# kind and options -> victims, what it is recorded as, what begin does, what end does
CASES: Mapping[str, tuple[FaultSpec, list[NodeId], str, list[str], list[str]]] = {
    "kill": (spec("kill"), [ONE, TWO], "kill", ["kill 1", "kill 2"], ["start 1", "start 2"]),
    "stop": (spec("stop"), [THREE], "stop", ["stop 3"], ["start 3"]),
    "restart": (spec("restart", down="2 s"), [THREE], "kill", ["kill 3"], ["start 3"]),
    "rolling-restart": (
        spec("rolling-restart"),
        [ONE, TWO],
        "stop",
        ["stop 1", "start 1", "stop 2", "start 2"],
        ["start 1", "start 2"],
    ),
    "pause": (spec("pause"), [ONE, THREE], "pause", ["pause 1", "pause 3"], ["resume 1", "resume 3"]),
    "isolate": (spec("isolate"), [ONE], "cut", [f"cut {PEERS_OF_1} hang"], [f"heal {PEERS_OF_1} resume"]),
    "isolate from coordination": (
        spec("isolate", **{"from": "coordination"}),
        [TWO],
        "cut",
        ["cut n2>n100 hang"],
        ["heal n2>n100 resume"],
    ),
    "isolate from clients": (
        spec("isolate", mode="reset", **{"from": "clients"}),
        [TWO],
        "cut",
        ["cut c1>n2 c2>n2 reset"],
        ["heal c1>n2 c2>n2 reset"],
    ),
    "halves": (
        spec("halves", mode="reset"),
        [ONE],
        "cut",
        [f"cut {PEERS_OF_1} reset"],
        [f"heal {PEERS_OF_1} reset"],
    ),
    "majority-ring": (
        spec("majority-ring"),
        [ONE, TWO, THREE],
        "cut",
        ["cut n1>n3 n3>n1 hang"],
        ["heal n1>n3 n3>n1 resume"],
    ),
    "bridge": (spec("bridge"), [TWO], "cut", ["cut n1>n3 n3>n1 hang"], ["heal n1>n3 n3>n1 resume"]),
    "cut": (
        spec("cut", links=["2>1", "clients>3"]),
        [],
        "cut",
        ["cut c1>n3 c2>n3 n2>n1 hang"],
        ["heal c1>n3 c2>n3 n2>n1 resume"],
    ),
    "hold-fetches": (spec("hold-fetches"), [ONE], "cut", ["cut n2>n1 n3>n1 hang"], ["heal n2>n1 n3>n1 resume"]),
    "hold-requests": (
        spec("hold-requests", links=["1>2"]),
        [ONE],
        "slow",
        ["hold AlterPartition requests: n1>n2"],
        ["pass AlterPartition requests: n1>n2"],
    ),
    "hold-requests, answers": (
        spec("hold-requests", request="Fetch", held="answers"),
        [ONE],
        "slow",
        [f"hold answers to Fetch: {PEERS_OF_1}"],
        [f"pass answers to Fetch: {PEERS_OF_1}"],
    ),
    "lose-requests": (
        spec("lose-requests", request="Produce", lost="answers", nth=3, links=["clients>1"]),
        [],
        "cut",
        ["lose answer to Produce number 3: c1>n1 c2>n1"],
        ["pass answer to Produce number 3: c1>n1 c2>n1"],
    ),
    "slow": (spec("slow"), [ONE], "slow", [f"slow {PEERS_OF_1} 500"], [f"slow {PEERS_OF_1} 0"]),
    "slow, named": (
        spec("slow", delay="4 s", links=["3>1"]),
        [ONE],
        "slow",
        ["slow n3>n1 4000"],
        ["slow n3>n1 0"],
    ),
    "impair": (
        spec("impair", loss="10 %", duplicate=5, links=["2>1"]),
        [ONE],
        "impair",
        ["impair n2>n1 lose 10 % of their packets, send 5 % of their packets twice"],
        ["impair n2>n1 pass packets as they come again"],
    ),
    "impair, reordered": (
        spec("impair", reorder="25 %"),
        [ONE],
        "impair",
        [f"impair {PEERS_OF_1} let 25 % of their packets overtake others, delay every packet by 20 ms"],
        [f"impair {PEERS_OF_1} pass packets as they come again"],
    ),
    "wipe": (spec("wipe"), [TWO], "wipe", ["kill 2", "wipe 2"], ["start 2"]),
    "power-loss": (
        spec("power-loss", records=7),
        [TWO],
        "power-loss",
        ["kill 2", "lose 2 orders-0 7"],
        ["start 2"],
    ),
    "damage": (spec("damage", at="middle"), [TWO], "damage", ["damage 2 orders-0 middle"], ["start 2"]),
    "damage, killed": (
        spec("damage", running=False, topic="other", partition=1),
        [TWO],
        "damage",
        ["kill 2", "damage 2 other-1 last"],
        ["start 2"],
    ),
    "power-off": (spec("power-off"), [ONE], "power-loss", ["kill 1", "lose unsynced 1"], ["start 1"]),
    "kill-at-write": (spec("kill-at-write", nth=3, torn=True), [ONE], "kill", ["kill 1 at write 3 torn"], ["start 1"]),
    "fail-at-write": (spec("fail-at-write", nth=2), [TWO], "kill", ["fail 2 at write 2"], ["start 2"]),
    "fill": (spec("fill"), [TWO, THREE], "full", ["fill 2", "fill 3"], ["free 2", "start 2", "free 3", "start 3"]),
}


def test_every_fault_of_the_catalogue_is_tried_here() -> None:
    tried = {case[0].kind for case in CASES.values()} | OF_TOPICS
    assert tried == set(by_name()) == {fault.name for fault in OURS}


@pytest.mark.parametrize("name", CASES)
async def test_a_fault_harms_its_victims_and_undoes_exactly_that(name: str) -> None:
    wanted, victims, kind, harm, undoing = CASES[name]
    cluster = Diary()
    fault, _ = make(wanted.kind, wanted.options)
    assert fault.kind == kind
    assert all(isinstance(cluster, need) for need in fault.needs)
    whom = struck(fault, cluster, victims, "orders")

    begun = await fault.begin(cluster, whom)
    assert cluster.deeds == harm
    assert begun.sentence == "; ".join(f"{deed} seen" for deed in harm)

    ended = await fault.end(cluster, whom)
    assert cluster.deeds == harm + undoing
    assert ended.sentence == "; ".join(f"{deed} seen" for deed in undoing)
    assert begun.t_ns < ended.t_ns == len(cluster.deeds)


@pytest.mark.parametrize("name", CASES)
async def test_a_fault_that_was_broken_off_while_it_began_can_be_undone(name: str) -> None:
    wanted, victims, _, _, _ = CASES[name]
    cluster = Diary()
    fault, _ = make(wanted.kind, wanted.options)
    whom = struck(fault, cluster, victims, "orders")

    class Interrupted(Exception):
        pass

    def interrupted(deed: str) -> Evidence:
        raise Interrupted

    cluster._did = interrupted  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        await fault.begin(cluster, whom)
    del cluster._did

    assert (await fault.end(cluster, whom)).sentence


async def test_what_is_done_to_the_disk_of_one_who_is_down_kills_nobody() -> None:
    for kind in ("wipe", "power-loss", "disk-damage"):
        cluster = Diary()
        cluster.up = {1, 3}
        fault, _ = make(kind, {})
        await fault.begin(cluster, struck(fault, cluster, [TWO], "orders"))
        assert [deed.split()[0] for deed in cluster.deeds] == [fault.kind.replace("power-loss", "lose")]


# -- what a fault declares ----------------------------------------


@pytest.mark.parametrize(
    ("alias", "name", "meant"),
    [
        ("crash", "kill", {}),
        ("shut-down", "stop", {}),
        ("cut-link", "cut", {}),
        ("cut-coordination", "isolate", {"from": "coordination"}),
        ("cut-clients", "isolate", {"from": "clients"}),
        ("slow-link", "slow", {}),
        ("packet-loss", "impair", {}),
        ("packet-duplication", "impair", {}),
        ("packet-reordering", "impair", {}),
        ("disk-loss", "wipe", {}),
        ("lose_tail", "power-loss", {}),
        ("disk-damage", "damage", {"running": False}),
        ("disk-full", "fill", {}),
    ],
)
def test_an_old_name_is_another_word_for_the_same_fault(alias: str, name: str, meant: dict[str, Any]) -> None:
    fault, options = find(alias)
    assert (fault.name, options) == (name, meant)


def test_no_two_faults_have_a_name_in_common() -> None:
    words = [word for fault in OURS for word in (fault.name, *fault.aliases)]
    assert len(words) == len(set(words))
    assert not set(words) & set(ACTS), "an act that is no fault has none of their names"


def test_what_a_fault_needs_is_what_its_cluster_must_be_able_to_do() -> None:
    needs = {name: set(fault.needs) for name, fault in by_name().items()}

    assert needs["kill"] == needs["restart"] == {CanCrash}
    assert needs["stop"] == needs["rolling-restart"] == {CanStop}
    assert needs["pause"] == {CanPause}
    assert needs["wipe"] == {CanCrash, CanWipe}
    assert needs["power-loss"] == {CanCrash, CanLosePower}
    assert needs["slow"] == {CanSlowLinks}
    assert needs["impair"] == {CanImpairPackets}
    assert needs["damage"] == {CanCrash, CanDamageDisks}
    assert needs["fill"] == {CanCrash, CanFillDisks}
    cuts = ("isolate", "halves", "majority-ring", "bridge", "cut", "hold-fetches")
    assert all(needs[name] == {CanCutLinks} for name in cuts)


@pytest.mark.parametrize("fault", OURS)
def test_a_fault_is_counted_by_a_condition_of_its_kind(fault: type[Fault]) -> None:
    assert fault.coverage() in COVERAGE_CONDITIONS
    assert fault.kind in kinds_counted_by(fault.coverage())


@pytest.mark.parametrize("fault", [fault for fault in OURS if fault.weight])
@given(seed=st.integers(0, 10_000))
def test_what_is_drawn_of_a_fault_is_a_fault_that_a_scenario_could_ask_for(fault: type[Fault], seed: int) -> None:
    drawn = fault.drawn(random.Random(seed))
    assert drawn == fault.drawn(random.Random(seed)), "chance is the stream's alone"
    assert set(drawn) <= set(options_of(fault))

    text = tomli_w.dumps({"options": dict(drawn)})
    made, given_options = make(fault.name, tomllib.loads(text)["options"])

    assert isinstance(made, fault)
    assert dict(given_options) == dict(drawn)
    shortest, longest = fault.lasting_s
    assert 0 < shortest <= longest


def test_drawing_reaches_every_choice_of_an_option() -> None:
    origins = {dict(find("isolate")[0].drawn(random.Random(seed)))["from"] for seed in range(100)}
    assert origins == {"peers", "coordination", "cluster", "clients", "all"}


# -- kinds with a way of their own ----------------------------------------


async def test_a_kill_of_several_is_in_force_when_the_last_is_gone_and_kills_them_at_once() -> None:
    cluster = Diary()
    both_asked: list[set[int]] = []
    did = cluster._did

    def noted(deed: str) -> Evidence:
        both_asked.append(set(cluster.up))
        return did(deed)

    cluster._did = noted  # type: ignore[method-assign]
    fault, _ = make("kill", {})

    proof = await fault.begin(cluster, struck(fault, cluster, [ONE, TWO]))

    assert both_asked[0] == {3}, "the second was asked for before the first was gone"
    assert proof == Evidence(t_ns=2, sentence="kill 1 seen; kill 2 seen")


def test_links_are_reported_with_the_brokers_at_their_ends_and_by_the_names_they_have() -> None:
    fault, _ = make("cut", {"links": ["2>1", "c1>3"]})
    found = fault.strikes(Diary(), [])
    assert found.nodes == (ONE, TWO, THREE)
    assert found.links == (Link(source=TWO, target=ONE), Link(client=ClientId(1), target=THREE))
    assert found.named == ("2>1", "c1>3")

    fault, _ = make("hold-fetches", {})
    assert fault.strikes(Diary(), [ONE]).nodes == (ONE,)
    with pytest.raises(NothingToStrike, match="isolate of 100: there is no such link"):
        make("isolate", {"from": "clients"})[0].strikes(Diary(), [COORDINATION])


async def test_a_rolling_restart_is_in_force_from_the_first_stop_and_waits_for_the_isr() -> None:
    cluster = Diary()
    fault = RollingRestart()
    proof = await fault.begin(cluster, struck(fault, cluster, [ONE, TWO], "orders"))
    assert proof.t_ns == 1
    assert fault.lasts_s == 0

    cluster = Diary()
    cluster.back_in_isr = False
    fault = RollingRestart(rejoin_s=0.02)
    with pytest.raises(HarnessError, match=r"broker 2 was not back in every ISR after 0\.02 s"):
        await fault.begin(cluster, struck(fault, cluster, [TWO, THREE], "orders"))
    assert cluster.deeds == ["stop 2", "start 2"], "the next one is not stopped before this one is back"


def test_proofs_are_joined_and_dated_by_the_last() -> None:
    proofs = [Evidence(t_ns=5, sentence="a"), Evidence(t_ns=3, sentence="b")]
    assert joined(proofs) == Evidence(t_ns=5, sentence="a; b")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (spec("kil"), "unknown fault 'kil'; did you mean 'kill'?"),
        (spec("kill", mode="hang"), "fault 'kill' has no option 'mode'; its options: none"),
        (spec("isolate", mod="drop"), "fault 'isolate' has no option 'mod'; did you mean 'mode'?"),
        (spec("isolate", mode="drop"), "fault 'isolate': mode: one of hang, reset is needed, not 'drop'"),
        (spec("cut-link"), "fault 'cut-link': name the links, for example links = [\"2>1\"]"),
        (spec("cut", links="2>1"), "links: a list of links is needed"),
        (spec("slow", delay="soon"), "fault 'slow': delay: a duration is written"),
        (spec("packet-loss"), 'give loss, duplicate, reorder or delay, for example loss = "10 %"'),
        (spec("packet-duplication", duplicate="a lot"), 'duplicate: a share is written "10 %"'),
        (spec("packet-reordering", reorder="5 %", delay=0), "reordering and jitter need a delay"),
        (spec("disk-damage", at="first"), "at: one of last, middle, unflushed is needed, not 'first'"),
        (spec("disk-damage", running="yes"), "running: true or false is needed, not 'yes'"),
        (spec("power-loss", records="all"), "records: a whole number is needed"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_remedy(wrong: FaultSpec, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        _ = wrong.planned
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
