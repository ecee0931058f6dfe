"""Which packets are impaired at which node, the commands for tc, and the message on a kernel without netem."""

from dataclasses import replace

import pytest

from harness.cluster.docker.capabilities import Capabilities
from harness.cluster.docker.namespace import Namespace
from harness.cluster.docker.netem import Flow, flows_of, impair, not_here, tc_batch
from harness.cluster.docker.packet_rules import Places
from harness.errors import HarnessError, UsageError
from harness.ports.capabilities import Impairment
from harness.ports.cluster import ClientId, Link, NodeId
from tests.harness.cluster.docker.conftest import Nodes

PLACES = Places(
    addresses={NodeId(1): "10.9.0.11", NodeId(2): "10.9.0.12", NodeId(3): "10.9.0.13"},
    peer_ports={NodeId(1): (9000,), NodeId(2): (9000,), NodeId(3): (9000,)},
    client_ports={ClientId(1): 9011},
)
TWO_TO_ONE = Link(source=NodeId(2), target=NodeId(1))
SLOW = Impairment(delay_ms=200)


def test_a_link_is_impaired_at_both_of_its_ends_and_the_opposite_link_at_neither() -> None:
    assert flows_of({TWO_TO_ONE: SLOW}, PLACES) == {
        NodeId(1): {Flow(peer="10.9.0.12", server_port=9000, to_server=False): SLOW},
        NodeId(2): {Flow(peer="10.9.0.11", server_port=9000, to_server=True): SLOW},
        NodeId(3): {},
    }


def test_of_a_client_only_the_answers_are_impaired() -> None:
    flows = flows_of({Link(client=ClientId(1), target=NodeId(3)): SLOW}, PLACES)
    assert flows[NodeId(3)] == {Flow(peer=None, server_port=9011, to_server=False): SLOW}
    assert not flows[NodeId(1)]


def test_an_impairment_of_nothing_leaves_no_flow() -> None:
    assert not any(flows_of({TWO_TO_ONE: Impairment()}, PLACES).values())
    assert tc_batch({}) == ""


def test_tc_gets_each_kind_and_each_flow_once() -> None:
    lossy = Impairment(delay_ms=10, jitter_ms=2.5, loss_percent=1, duplicate_percent=0.5, reorder_percent=5)
    flows = {
        Flow(peer="10.9.0.12", server_port=9000, to_server=False): SLOW,
        Flow(peer="10.9.0.13", server_port=9000, to_server=True): SLOW,
        Flow(peer=None, server_port=9011, to_server=False): lossy,
    }
    assert tc_batch(flows).splitlines() == [
        "qdisc add dev eth0 root handle 1: prio bands 3 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
        "qdisc add dev eth0 parent 1:2 handle 20: netem limit 100000 delay 200ms",
        "qdisc add dev eth0 parent 1:3 handle 30: "
        "netem limit 100000 delay 10ms 2.5ms loss 1% duplicate 0.5% reorder 5%",
        "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 10.9.0.12/32 match ip protocol 6 0xff "
        "match ip sport 9000 0xffff flowid 1:2",
        "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 10.9.0.13/32 match ip protocol 6 0xff "
        "match ip dport 9000 0xffff flowid 1:2",
        "filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff "
        "match ip sport 9011 0xffff flowid 1:3",
    ]


def test_more_kinds_than_tc_has_room_for_are_refused() -> None:
    flow = Flow(peer=None, server_port=1, to_server=False)
    flows = {replace(flow, server_port=number): Impairment(delay_ms=number) for number in range(1, 17)}
    with pytest.raises(HarnessError, match="16 different impairments at one node; tc has room for 15"):
        tc_batch(flows)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"loss_percent": 101}, "loss_percent lies between 0 and 100, not 101"),
        ({"delay_ms": -1}, "a delay is not negative: -1 ms"),
        ({"reorder_percent": 5}, "reordering and jitter need a delay"),
    ],
)
def test_an_impairment_that_cannot_be_is_refused(wrong: dict[str, float], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        Impairment(**wrong)


def test_a_kernel_without_netem_is_named_with_the_way_out() -> None:
    reported = not_here("6.1.0", "Error: Specified qdisc\n kind is unknown.")
    assert "kernel 6.1.0 has no netem (tc: Error: Specified qdisc kind is unknown.)" in reported
    assert "--world local" in reported


def test_an_impairment_takes_hold_or_the_kernel_is_known_to_have_no_netem(
    nodes: Nodes, capabilities: Capabilities
) -> None:
    namespace = Namespace(nodes.infra[NodeId(1)].container, entry="exec")
    flows = {Flow(peer=nodes.address(2), server_port=9000, to_server=True): Impairment(delay_ms=5, loss_percent=1)}
    if capabilities.netem is not None:
        with pytest.raises(HarnessError, match="tc in the network of"):
            impair(namespace, flows)
    else:
        try:
            assert "delay 5ms loss 1%" in impair(namespace, flows)
        finally:
            assert "netem" not in impair(namespace, {})
    assert "netem" not in impair(namespace, {})
