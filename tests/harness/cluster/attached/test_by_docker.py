"""Containers that are not what they seem: in others' networks, made anew since, or deaf to SIGTERM."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from docker.errors import NotFound

from harness.cluster.attached import by_docker, compose_project, container_rules
from harness.cluster.attached.by_docker import ComposeCluster
from harness.cluster.attached.container_rules import ChangedRules, ContainerRules, ends_in
from harness.cluster.attached.journal import AttachedJournal
from harness.cluster.docker.packet_rules import CHAIN, HOOKS
from harness.errors import HarnessError
from harness.host.clock import SystemClock
from harness.ports.cluster import Link, NodeId
from harness.preflight.machine import why_no_cut
from harness.scenario.model import ClusterSpec

SPEC = ClusterSpec(system="compose:compose.yaml")
PROCESSES = itertools.count(1)


class Container:
    """Of the docker package's class what is used here; `did` is what was done to it."""

    def __init__(self, name: str, *, network: str = "shop_default", identity: str = "now", exit_code: int = 0) -> None:
        self.name, self.id, self.short_id = name, identity, identity[:12]
        self.did: list[str] = []
        self._exit_code = exit_code
        state = {"Running": True, "Paused": True, "Status": "running", "ExitCode": 0, "Pid": 1}
        self.attrs: dict[str, Any] = {"HostConfig": {"NetworkMode": network}, "State": state}
        self.rules: list[str] | None = None  # of our chain; None: there is no such chain
        self.is_removed = self.is_locked = False
        self.came_up(address="10.0.0.1" if name == "one" else "10.0.0.2")

    def came_up(self, *, address: str) -> None:
        """As another process, in a new network."""
        self.rules = None
        self.attrs["NetworkSettings"] = {"Networks": {"shop_default": {"IPAddress": address}}}
        self.attrs["State"]["Pid"] = next(PROCESSES)

    def reload(self) -> None:
        if self.is_removed:
            raise NotFound("no such container")

    def run(self, command: Sequence[str], *, given: str = "") -> str:
        """iptables-save and iptables-restore in its network."""
        if self.is_locked:
            raise HarnessError(f"{self.name}: locked")
        if command[0] == "iptables-restore":
            self.rules = None if "-X" in given else [line for line in given.splitlines() if line.startswith("-A")]
            return ""
        jumps = [] if self.rules is None else [f"-A {hook} -j {CHAIN}" for hook in HOOKS]
        return "\n".join(f"[0:0] {line}" for line in [*jumps, *(self.rules or ())])

    def start(self) -> None:
        self.did.append("start")

    def unpause(self) -> None:
        self.did.append("unpause")

    def stop(self, *, timeout: int) -> None:
        self.did.append("stop")
        self.attrs["State"] |= {"Running": False, "Status": "exited", "ExitCode": self._exit_code}


def found(monkeypatch: pytest.MonkeyPatch, *containers: Container) -> None:
    engine = SimpleNamespace(close=lambda: None, address="unix:///theirs")
    by_node = {NodeId(number): each for number, each in enumerate(containers, 1)}
    monkeypatch.setattr(compose_project, "find", lambda spec: (engine, by_node))


def in_the_engine(monkeypatch: pytest.MonkeyPatch, *containers: Container) -> list[str | None]:
    """What is found by its id; the answer is which engines are asked."""
    asked: list[str | None] = []

    def get(identity: str) -> Container:
        for each in containers:
            if each.id == identity:
                return each
        raise NotFound("no such container")

    def connected(address: str | None) -> Any:
        asked.append(address)
        return SimpleNamespace(client=SimpleNamespace(containers=SimpleNamespace(get=get)))

    monkeypatch.setattr(by_docker, "connect", connected)
    return asked


def in_their_networks(monkeypatch: pytest.MonkeyPatch, *containers: Container) -> None:
    """Rules are written into the containers themselves, whose last process alone lives."""
    monkeypatch.setattr(ContainerRules, "_enter", staticmethod(lambda container: container))
    monkeypatch.setattr(container_rules, "listening_ports", lambda process: [9092])
    monkeypatch.setattr(
        container_rules, "lives", lambda process: process in {each.attrs["State"]["Pid"] for each in containers}
    )


def compose_cluster(run: Path) -> Any:
    return ComposeCluster(run_path=run, spec=SPEC, clock=SystemClock())


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        ("host", "two shares this machine's network: cutting it would cut the machine"),
        ("container:4711", "two shares another container's network: cutting it would cut that one too"),
        ("none", "two has no network"),
    ],
)
async def test_no_rule_is_written_where_one_end_is_in_a_network_of_others(
    network: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    containers: dict[NodeId, Any] = {NodeId(1): Container("one"), NodeId(2): Container("two", network=network)}
    rules = ContainerRules(containers)
    monkeypatch.setattr(rules, "_write", lambda nodes: pytest.fail(f"rules are written at {nodes}"))
    for link in ("1>2", "2>1"):
        with pytest.raises(HarnessError, match=sentence):
            await rules.cut([Link.parse(link)], mode="hang")

    found(monkeypatch, *containers.values())
    assert why_no_cut(SPEC) == sentence  # which the preflight tells


async def test_a_link_that_goes_around_the_containers_networks_is_refused_before_it_is_cut(
    cut: tuple[ContainerRules, list[Link], list[Container]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, links, (one, two) = cut
    two.attrs["NetworkSettings"]["Ports"] = {"9092/tcp": [{"HostIp": "0.0.0.0", "HostPort": "19092"}], "9094/tcp": None}
    two.attrs["HostConfig"]["NetworkMode"] = one.attrs["HostConfig"]["NetworkMode"] = "shop_default"
    connections: list[tuple[str, int]] = [("10.0.0.2", 19092), ("203.0.113.9", 19092), ("127.0.0.1", 9092)]
    monkeypatch.setattr(container_rules, "connections_of", lambda process: connections)
    await rules.cut(links, mode="hang")  # other machines and other ports may be called so
    await rules.heal(links)

    connections.append(("127.0.0.1", 19092))  # which stands for any address of this machine
    with pytest.raises(HarnessError, match="one reaches two through this machine's port 19092") as refused:
        await rules.cut(links, mode="hang")
    assert [each.rules for each in (one, two)] == [None, None]
    found(monkeypatch, one, two)
    assert why_no_cut(SPEC) == str(refused.value)  # which the preflight tells


def test_the_ends_of_sockets_are_read_from_the_kernels_tables() -> None:
    lines = [
        "0: 00000000:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1",
        "1: 0B00007F:9A41 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1",
        "2: 030014AC:C350 010014AC:4A94 01 00000000:00000000 00:00000000 00000000 0 0 1",
        "3: 00000000000000000000000001000000:2386 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 1",
        "4: 00000000000000000000000000000000:2385 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 1",
        "5: 0000000000000000FFFF0000030014AC:C351 0000000000000000FFFF0000010014AC:4A95 01 0:0 00:0 0 0 0 1",
        "6: 0000000000000000FFFF00000100007F:C352 0000000000000000FFFF00000100007F:4A96 01 0:0 00:0 0 0 0 1",
    ]
    assert ends_in(lines, state="0A", at=1) == [("0.0.0.0", 9092), ("::", 9093)]
    assert ends_in(lines, state="01", at=2) == [("172.20.0.1", 19092), ("172.20.0.1", 19093)]


@pytest.mark.parametrize(("what", "subject"), [("start", "1"), ("resume", "1"), ("heal", "n2>n1")])
async def test_a_container_that_was_made_anew_since_the_run_or_is_gone_is_left_alone(
    what: str, subject: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = AttachedJournal(tmp_path)
    journal.in_containers({NodeId(1): "then", NodeId(2): "now"}, engine="unix:///theirs")
    journal.owe(what, subject)
    asked = in_the_engine(monkeypatch, Container("two"))

    evidence = await compose_cluster(tmp_path).undo(what, subject)

    assert "the container of broker 1 is not there any more; one made anew since is left alone" in evidence.sentence
    assert journal.owed() == []
    assert asked == ["unix:///theirs"], "another engine knows nothing of them"


async def test_what_is_left_of_a_cut_is_healed_though_one_of_its_containers_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = AttachedJournal(tmp_path)
    journal.in_containers({NodeId(1): "then", NodeId(2): "now"}, engine="unix:///theirs")
    journal.owe("heal", "n1>n2 n2>n1")
    two = Container("two")
    two.rules = ["-A KAFKA_CHAOS -s 10.0.0.1/32 -p tcp -m tcp --dport 9092 -j DROP"]
    in_the_engine(monkeypatch, two)
    in_their_networks(monkeypatch, two)

    evidence = await compose_cluster(tmp_path).undo("heal", "n1>n2 n2>n1")

    assert "no packet rule is left for 1>2" in evidence.sentence
    assert two.rules is None
    assert journal.owed() == []


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> tuple[ContainerRules, list[Link], list[Container]]:
    """Rules, links that they can cut, and the containers at their ends."""
    containers = [Container("one"), Container("two")]
    in_their_networks(monkeypatch, *containers)
    rules = ContainerRules({NodeId(number): each for number, each in enumerate(containers, 1)})
    monkeypatch.setattr(rules, "_proof", AsyncMock(return_value="of packets, which nobody sends here"))
    return rules, [Link.parse("n1>n2"), Link.parse("n2>n1")], containers


async def test_of_a_cut_that_is_healed_neither_a_rule_nor_the_chain_is_left(
    cut: tuple[ContainerRules, list[Link], list[Container]],
) -> None:
    rules, links, containers = cut
    await rules.cut(links, mode="hang")
    assert [len(each.rules or ()) for each in containers] == [2, 2]
    await rules.heal(links[:1])
    assert [each.rules is None for each in containers] == [False, True]
    await rules.heal(links[1:])
    assert [each.rules for each in containers] == [None, None]


async def test_a_container_that_is_gone_keeps_no_other_from_being_healed(
    cut: tuple[ContainerRules, list[Link], list[Container]],
) -> None:
    rules, links, (one, two) = cut
    await rules.cut(links, mode="hang")
    one.is_removed = True
    assert "no packet rule is left for 1>2 2>1" in await rules.heal(links)
    assert two.rules is None


async def test_a_container_that_cannot_be_healed_keeps_no_other_from_being_healed(
    cut: tuple[ContainerRules, list[Link], list[Container]],
) -> None:
    rules, links, (one, two) = cut
    await rules.cut(links, mode="hang")
    one.is_locked = True
    with pytest.raises(HarnessError, match="one: locked"):
        await rules.heal(links)
    assert two.rules is None


async def test_a_container_that_came_up_by_itself_gets_its_rules_again_and_so_do_its_peers(
    cut: tuple[ContainerRules, list[Link], list[Container]],
) -> None:
    rules, (to_two, _), (one, two) = cut
    await rules.cut([to_two], mode="hang")
    for _ in range(2):
        await rules.keep([NodeId(1), NodeId(2)])  # finds nothing to do
        one.came_up(address="10.0.0.9")
        await rules.keep([NodeId(2)])  # one that the run itself starts is the run's to renew
        assert "10.0.0.9" not in str(two.rules)
        await rules.keep([NodeId(1), NodeId(2)])
        assert "10.0.0.9" in str(two.rules)
        one.came_up(address="10.0.0.1")
        await rules.renew(NodeId(1))
    assert "one came up by itself 2 times meanwhile, without its rules at first" in await rules.heal([to_two])


async def test_a_container_that_keeps_ending_costs_no_look_at_the_others_and_is_healed(
    cut: tuple[ContainerRules, list[Link], list[Container]],
) -> None:
    rules, links, (one, two) = cut
    await rules.cut(links, mode="hang")
    one.came_up(address="10.0.0.1")
    one.is_locked = True  # it ends again at this moment
    await rules.keep([NodeId(1), NodeId(2)])
    assert one.rules is None
    one.is_locked = False
    assert "one came up by itself 1 times meanwhile" in await rules.heal(links)
    assert [each.rules for each in (one, two)] == [None, None]


async def test_rules_that_did_not_last_as_long_as_their_cut_are_told_and_it_is_healed(
    cut: tuple[ContainerRules, list[Link], list[Container]],
) -> None:
    rules, links, (one, two) = cut
    await rules.cut(links, mode="hang")
    two.rules = []
    with pytest.raises(ChangedRules, match="the packet rules in two did not last as long as their cut"):
        await rules.heal(links)
    assert [each.rules for each in (one, two)] == [None, None]
    assert "no packet rule is left" in await rules.heal(links)


async def test_a_node_that_only_the_engines_sigkill_ended_did_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, Container("one", exit_code=137))
    cluster = compose_cluster(tmp_path)
    cluster._look_up()
    with pytest.raises(HarnessError, match="one did not end by itself within 30 s of SIGTERM"):
        await cluster.shut_down(NodeId(1))
    assert AttachedJournal(tmp_path).owed() == [("start", "1")], "it is down, and is started in the end"
