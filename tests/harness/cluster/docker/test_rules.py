"""A set of rules stops exactly the packets of the cut links; compared with a model of links."""

from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from harness.cluster.docker.packet_rules import Mode, Places, Rule, read_saved, restore_text, rules_of
from harness.ports.cluster import ClientId, Link, NodeId

HOST = "10.9.0.1"
NODES = tuple(NodeId(node) for node in (0, 1, 2, 100))
CLIENTS = (ClientId(1), ClientId(2))
PLACES = Places(
    addresses={node: f"10.9.0.{node + 10}" for node in NODES},
    peer_ports={node: (9100,) if node == 100 else (9000, 9001) for node in NODES},
    client_ports={client: 9010 + client for client in CLIENTS},
)
PEERS = [Link(source=a, target=b) for a in NODES for b in NODES if a != b]
LINKS = [*PEERS, *(Link(client=client, target=node) for client in CLIENTS for node in NODES)]
cut_links = st.dictionaries(st.sampled_from(LINKS), st.sampled_from(["hang", "reset"]))


class Packet(NamedTuple):
    source: str
    source_port: int
    target: str
    target_port: int
    is_reset: bool


def packets_of(link: Link, *, is_reset: bool = False) -> list[Packet]:
    """Both directions of every connection the link may have."""
    caller = HOST if link.source is None else PLACES.addresses[link.source]
    called = PLACES.addresses[link.target]
    ports = PLACES.server_ports(link)
    there = [Packet(caller, 40_001, called, port, is_reset) for port in ports]
    return there + [Packet(p.target, p.target_port, p.source, p.source_port, is_reset) for p in there]


def matches(rule: Rule, packet: Packet, *, inbound: bool) -> bool:
    """As the kernel reads the rule's line; our chain hangs in both directions, so `inbound` decides nothing."""
    words = rule.line().split()
    options = dict(pairwise(words))
    return (
        options.get("-s", f"{packet.source}/32") == f"{packet.source}/32"
        and options.get("-d", f"{packet.target}/32") == f"{packet.target}/32"
        and options.get("--dport", str(packet.target_port)) == str(packet.target_port)
        and options.get("--sport", str(packet.source_port)) == str(packet.source_port)
        and not ("--tcp-flags" in options and packet.is_reset)
    )


def stopping(cuts: dict[Link, Mode], packet: Packet) -> set[Mode]:
    """By which modes a packet is stopped on its way out of one node and into another."""
    rules = rules_of(cuts, PLACES)
    found: set[Mode] = set()
    for node, address in PLACES.addresses.items():
        for inbound, end in ((False, packet.source), (True, packet.target)):
            if end == address:
                found |= {rule.mode for rule in rules[node] if matches(rule, packet, inbound=inbound)}
    return found


@given(cut_links)
def test_a_packet_is_stopped_if_and_only_if_its_link_is_cut(cuts: dict[Link, Mode]) -> None:
    for link in LINKS:
        for packet in packets_of(link):
            assert stopping(cuts, packet) == ({cuts[link]} if link in cuts else set()), link


@given(cut_links)
def test_resets_pass_where_links_are_reset_and_nowhere_else(cuts: dict[Link, Mode]) -> None:
    for link, mode in cuts.items():
        for packet in packets_of(link, is_reset=True):
            assert stopping(cuts, packet) == ({"hang"} if mode == "hang" else set())


@given(cut_links, st.integers(0, 999))
def test_what_was_written_is_read_back_with_its_counts(cuts: dict[Link, Mode], packets: int) -> None:
    for rules in rules_of(cuts, PLACES).values():
        written = restore_text(rules, hooked=["INPUT"])
        saved = [f"[{packets}:{packets * 60}] {line}" for line in written.splitlines() if line.startswith("-A")]
        standing = read_saved("\n".join(["*filter", "[1:60] -A INPUT -j KAFKA_CHAOS", *saved, "COMMIT"]))
        assert standing.packets == dict.fromkeys(rules, packets)
        assert standing.hooked == {"INPUT"}
        assert not standing.strange


def test_the_text_replaces_our_chain_whole_and_hooks_it_where_it_is_not_hooked() -> None:
    one, two = NodeId(1), NodeId(2)
    cuts: dict[Link, Mode] = {Link(source=two, target=one): "hang", Link(client=ClientId(2), target=one): "reset"}
    assert restore_text(rules_of(cuts, PLACES)[one], hooked=["OUTPUT"]) == (
        "*filter\n"
        ":KAFKA_CHAOS - [0:0]\n"
        "-I INPUT 1 -j KAFKA_CHAOS\n"
        "-A KAFKA_CHAOS -p tcp -m tcp --dport 9012 --tcp-flags RST NONE -j REJECT --reject-with tcp-reset\n"
        "-A KAFKA_CHAOS -p tcp -m tcp --sport 9012 --tcp-flags RST NONE -j REJECT --reject-with tcp-reset\n"
        "-A KAFKA_CHAOS -s 10.9.0.12/32 -p tcp -m tcp --dport 9000 -j DROP\n"
        "-A KAFKA_CHAOS -d 10.9.0.12/32 -p tcp -m tcp --sport 9000 -j DROP\n"
        "-A KAFKA_CHAOS -s 10.9.0.12/32 -p tcp -m tcp --dport 9001 -j DROP\n"
        "-A KAFKA_CHAOS -d 10.9.0.12/32 -p tcp -m tcp --sport 9001 -j DROP\n"
        "COMMIT\n"
    )


def test_a_line_in_our_chain_that_is_not_ours_is_shown_and_other_chains_are_not_looked_at() -> None:
    text = "\n".join(
        [
            "[3:180] -A INPUT -s 192.0.2.1/32 -j DROP",
            "[5:300] -A KAFKA_CHAOS -p udp -m udp --dport 53 -j DROP",
            "[0:0] -A KAFKA_CHAOS -s 10.0.0.0/8 -p tcp -m tcp --dport 9000 -j DROP",
        ]
    )
    standing = read_saved(text)
    assert not standing.packets
    assert len(standing.strange) == 2
