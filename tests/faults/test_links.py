"""A partition is a set of directed links: each pattern cuts what its name says and nothing else."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults import cut, links
from harness.errors import UsageError
from harness.interfaces import COORDINATION, Link, Node, NodeId


@dataclass
class Links:
    """Only what the patterns ask of a cluster."""

    count: int

    @property
    def nodes(self) -> list[Node]:
        brokers = [Node(node=NodeId(n), role="broker", name=f"node{n}") for n in range(1, self.count + 1)]
        return [Node(node=COORDINATION, role="coordination", name="coordination"), *brokers]

    def links(self) -> list[Link]:
        brokers = [f"n{n}" for n in range(1, self.count + 1)]
        peers = [Link(source=a, target=b) for a in brokers for b in brokers if a != b]
        coordination = [Link(source=a, target=f"n{COORDINATION}") for a in brokers]
        return peers + coordination + [Link(source="c1", target=b) for b in brokers]


def cut_by(pattern: cut.Pattern, count: int, *victims: int, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    cluster = Links(count)
    monkeypatch.setattr(links, "all_links", lambda _: cluster.links())
    return {str(link) for link in pattern(cluster, [NodeId(v) for v in victims])}  # type: ignore[arg-type]


def test_isolation_cuts_both_directions_to_peers_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cut_by(cut.isolate_from("peers"), 3, 1, monkeypatch=monkeypatch)
    assert found == {"n1>n2", "n2>n1", "n1>n3", "n3>n1"}


def test_a_zombie_is_cut_from_the_coordination_service_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut_by(cut.isolate_from("coordination"), 3, 1, monkeypatch=monkeypatch) == {f"n1>n{COORDINATION}"}


def test_clients_lose_the_victim_and_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut_by(cut.isolate_from("clients"), 3, 2, monkeypatch=monkeypatch) == {"c1>n2"}


def test_held_fetches_leave_the_victims_own_connections_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut_by(cut.held_fetches, 3, 1, monkeypatch=monkeypatch) == {"n2>n1", "n3>n1"}


def test_halves_cut_only_between_the_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cut_by(cut.halves, 4, 1, 2, monkeypatch=monkeypatch)
    assert found == {f"n{a}>n{b}" for a, b in [(1, 3), (1, 4), (2, 3), (2, 4), (3, 1), (4, 1), (3, 2), (4, 2)]}


@given(st.integers(3, 9))
def test_in_a_majority_ring_every_broker_sees_a_majority_and_not_everybody(count: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = cut_by(cut.majority_ring, count, monkeypatch=monkeypatch)
    assert found, "somebody must be cut from somebody"
    assert {f"{b}>{a}" for a, b in (link.split(">") for link in found)} == found, "cut both ways"
    for broker in range(1, count + 1):
        seen = count - sum(link.startswith(f"n{broker}>") for link in found)
        assert seen >= count // 2 + 1


@given(st.integers(3, 9), st.data())
def test_two_halves_meet_in_the_bridge_and_nowhere_else(count: int, data: st.DataObject) -> None:
    bridge = data.draw(st.integers(1, count))
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = cut_by(cut.bridge, count, bridge, monkeypatch=monkeypatch)
    seen = {a: {b for b in range(1, count + 1) if f"n{a}>n{b}" not in found} for a in range(1, count + 1)}
    assert seen[bridge] == set(range(1, count + 1))
    one, other = sorted({tuple(sorted(seen[a] - {bridge})) for a in seen if a != bridge})
    assert set(one).isdisjoint(other)
    assert abs(len(one) - len(other)) <= 1
    assert {f"{b}>{a}" for a, b in (link.split(">") for link in found)} == found, "cut both ways"


def test_links_are_named_as_scenarios_write_them() -> None:
    there = Links(3).links()
    assert [str(link) for link in links.named(there, ["2>1", "c1>n2", "clients>3"])] == ["n2>n1", "c1>n2", "c1>n3"]
    with pytest.raises(UsageError, match="no link '9>1'"):
        links.named(there, ["9>1"])
