"""Computes each node's packet rules from the set of cut links, with pure functions.

Link (a, b) means the connections that a opens to b. Its packets are identified by a's address and b's server port, in
both directions, and stopped at b. Connections that b opens to a have another server port or source address and are not
affected. All clients have the host's address; each client link has its own server port, which identifies it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.ports.cluster import ClientId, Link, NodeId
from harness.values import is_number

Mode = Literal["hang", "reset"]
CHAIN = "KAFKA_CHAOS"
HOOKS = ("INPUT", "OUTPUT")
_SAVED = re.compile(r"^\[(?P<packets>\d+):\d+\] -A (?P<chain>\S+) (?P<rest>.*)$")
_TARGETS: Mapping[Mode, str] = {"hang": "DROP", "reset": "REJECT"}


@dataclass(frozen=True, kw_only=True)
class Places:
    """The addresses and ports of links in the network."""

    addresses: Mapping[NodeId, str]
    peer_ports: Mapping[NodeId, Sequence[int]]  # the port where a node listens for other nodes
    client_ports: Mapping[ClientId, int]  # the port of each broker's listener for one client link

    def source_address(self, link: Link) -> str | None:
        """None for a client: only its port distinguishes it from others."""
        return None if link.source is None else self.addresses[link.source]

    def server_ports(self, link: Link) -> Sequence[int]:
        return self.peer_ports[link.target] if link.client is None else [self.client_ports[link.client]]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule of a chain; it stops one direction of a link's packets at the link's target."""

    inbound: bool
    peer: str | None
    port: int
    mode: Mode

    def line(self) -> str:
        peer = [] if self.peer is None else ["-s" if self.inbound else "-d", f"{self.peer}/32"]
        words = ["-A", CHAIN, *peer, "-p", "tcp", "-m", "tcp", "--dport" if self.inbound else "--sport", str(self.port)]
        if self.mode == "reset":
            # The TCP resets that one direction's rule sends must pass the other direction's rule.
            words += ["--tcp-flags", "RST", "NONE"]
        words += ["-j", _TARGETS[self.mode]]
        if self.mode == "reset":
            words += ["--reject-with", "tcp-reset"]
        return " ".join(words)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The contents of a node's table, read back from the kernel."""

    packets: Mapping[Rule, int]  # each rule of our chain with the number of packets it stopped since it was written
    hooked: frozenset[str]  # the chains that jump to ours
    strange: tuple[str, ...] = ()  # lines of our chain that match none of our rules


def rules_of_link(link: Link, mode: Mode, places: Places) -> list[Rule]:
    return [
        Rule(inbound=inbound, peer=places.source_address(link), port=port, mode=mode)
        for port in places.server_ports(link)
        for inbound in (True, False)
    ]


def rules_of(cuts: Mapping[Link, Mode], places: Places) -> Mapping[NodeId, Sequence[Rule]]:
    """Each node's complete rules in a fixed order; a node without cut links has none."""
    found: dict[NodeId, list[Rule]] = {node: [] for node in places.addresses}
    for link, mode in sorted(cuts.items(), key=lambda cut: str(cut[0])):
        found[link.target].extend(rules_of_link(link, mode, places))
    return found


def restore_text(rules: Iterable[Rule], *, hooked: Iterable[str]) -> str:
    """The input of `iptables-restore --noflush`: replaces our chain in one step and leaves everything else.

    `hooked`: the chains that jump to ours already.
    """
    hooks = [f"-I {hook} 1 -j {CHAIN}" for hook in HOOKS if hook not in set(hooked)]
    return "\n".join(["*filter", f":{CHAIN} - [0:0]", *hooks, *(rule.line() for rule in rules), "COMMIT", ""])


def removal_text(*, hooked: Iterable[str]) -> str:
    """The input of `iptables-restore --noflush` after which neither our chain nor a jump to it is left."""
    jumps = [f"-D {hook} -j {CHAIN}" for hook in hooked]
    return "\n".join(["*filter", f":{CHAIN} - [0:0]", *jumps, f"-X {CHAIN}", "COMMIT", ""])


def read_saved(text: str) -> Standing:
    """Parses `iptables-save -c -t filter`."""
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
    """Parses a rule by its options, whose order differs between versions of the tool."""
    words = rest.split()
    ports = [(word, words[place + 1]) for place, word in enumerate(words[:-1]) if word in ("--dport", "--sport")]
    peers = [words[place + 1] for place, word in enumerate(words[:-1]) if word in ("-s", "-d")]
    modes = [mode for mode, target in _TARGETS.items() if f"-j {target}" in rest]
    if len(ports) != 1 or len(modes) != 1 or len(peers) > 1 or not is_number(ports[0][1]):
        return None
    peer = peers[0].removesuffix("/32") if peers else None
    rule = Rule(inbound=ports[0][0] == "--dport", peer=peer, port=int(ports[0][1]), mode=modes[0])
    return rule if sorted(rule.line().split()) == sorted(["-A", CHAIN, *words]) else None
