"""Which packets a set of cut links stops: pure functions from links to each node's own chain of packet rules.

Link (a, b) is the connections that a opens to b. Its packets are known by a's address and b's server port, both ways,
and stopped at b; so the connections that b opens to a, which go to another server port or come from another address,
live on. Clients all come from the host's address: each client link has a server port to itself, and that names it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.interfaces import ClientId, Link, NodeId

Mode = Literal["hang", "reset"]
CHAIN = "KAFKA_CHAOS"
HOOKS = ("INPUT", "OUTPUT")
_SAVED = re.compile(r"^\[(?P<packets>\d+):\d+\] -A (?P<chain>\S+) (?P<rest>.*)$")
_TARGETS: Mapping[Mode, str] = {"hang": "DROP", "reset": "REJECT"}


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where links lead, as a network sees it."""

    addresses: Mapping[NodeId, str]
    peer_ports: Mapping[NodeId, Sequence[int]]  # where a node listens for other nodes
    client_ports: Mapping[ClientId, int]  # of the listener that each broker has for one client link

    def target(self, link: Link) -> NodeId:
        return NodeId(int(link.target[1:]))

    def source_address(self, link: Link) -> str | None:
        """None for a client: its port alone tells it from others."""
        return None if link.source.startswith("c") else self.addresses[NodeId(int(link.source[1:]))]

    def server_ports(self, link: Link) -> Sequence[int]:
        if link.source.startswith("c"):
            return [self.client_ports[ClientId(int(link.source[1:]))]]
        return self.peer_ports[self.target(link)]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule of a chain, stopping one direction of a link's packets where the link leads to."""

    inbound: bool
    peer: str | None
    port: int
    mode: Mode

    def line(self) -> str:
        peer = [] if self.peer is None else ["-s" if self.inbound else "-d", f"{self.peer}/32"]
        words = ["-A", CHAIN, *peer, "-p", "tcp", "-m", "tcp", "--dport" if self.inbound else "--sport", str(self.port)]
        if self.mode == "reset":
            # The resets sent on behalf of one direction's rule pass the other direction's.
            words += ["--tcp-flags", "RST", "NONE"]
        words += ["-j", _TARGETS[self.mode]]
        if self.mode == "reset":
            words += ["--reject-with", "tcp-reset"]
        return " ".join(words)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a node's table holds: read back, not remembered."""

    packets: Mapping[Rule, int]  # each rule of our chain and how many packets it stopped since it was written
    hooked: frozenset[str]  # the chains that lead into ours
    strange: tuple[str, ...] = ()  # lines of our chain that none of our rules is written as


def rules_of_link(link: Link, mode: Mode, places: Places) -> list[Rule]:
    return [
        Rule(inbound=inbound, peer=places.source_address(link), port=port, mode=mode)
        for port in places.server_ports(link)
        for inbound in (True, False)
    ]


def rules_of(cuts: Mapping[Link, Mode], places: Places) -> Mapping[NodeId, Sequence[Rule]]:
    """Each node's whole set of rules, in a fixed order; a node that nothing is cut at has none."""
    found: dict[NodeId, list[Rule]] = {node: [] for node in places.addresses}
    for link, mode in sorted(cuts.items(), key=lambda cut: str(cut[0])):
        found[places.target(link)].extend(rules_of_link(link, mode, places))
    return found


def restore_text(rules: Iterable[Rule], *, hooked: Iterable[str]) -> str:
    """For `iptables-restore --noflush`: our chain becomes exactly these rules in one step, all else stays.

    `hooked`: the chains that lead into ours already.
    """
    hooks = [f"-I {hook} 1 -j {CHAIN}" for hook in HOOKS if hook not in set(hooked)]
    return "\n".join(["*filter", f":{CHAIN} - [0:0]", *hooks, *(rule.line() for rule in rules), "COMMIT", ""])


def read_saved(text: str) -> Standing:
    """From `iptables-save -c -t filter`."""
    packets: dict[Rule, int] = {}
    hooked: set[str] = set()
    strange: list[str] = []
    for line in text.splitlines():
        saved = _SAVED.match(line)
        if saved is None:
            continue
        if saved["chain"] in HOOKS and saved["rest"] == f"-j {CHAIN}":
            hooked.add(saved["chain"])
        elif saved["chain"] == CHAIN:
            rule = _rule(saved["rest"])
            if rule is None:
                strange.append(line)
            else:
                packets[rule] = int(saved["packets"])
    return Standing(packets=packets, hooked=frozenset(hooked), strange=tuple(strange))


def _rule(rest: str) -> Rule | None:
    """By its options, whose order may differ between versions of the tool."""
    words = rest.split()
    ports = [(word, words[place + 1]) for place, word in enumerate(words[:-1]) if word in ("--dport", "--sport")]
    peers = [words[place + 1] for place, word in enumerate(words[:-1]) if word in ("-s", "-d")]
    modes = [mode for mode, target in _TARGETS.items() if f"-j {target}" in rest]
    if len(ports) != 1 or len(modes) != 1 or len(peers) > 1 or not ports[0][1].isdigit():
        return None
    peer = peers[0].removesuffix("/32") if peers else None
    rule = Rule(inbound=ports[0][0] == "--dport", peer=peer, port=int(ports[0][1]), mode=modes[0])
    return rule if sorted(rule.line().split()) == sorted(["-A", CHAIN, *words]) else None
