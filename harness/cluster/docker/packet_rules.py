"""Cuts the links of a cluster of containers by packet rules: written as a whole, read back, and proved by stopped
packets.

Link (a, b) means the connections that a opens to b. Its packets are identified by a's address and b's server port, in
both directions, and stopped at b. Connections that b opens to a have another server port or source address and are not
affected. All clients have the host's address; each client link has its own server port, which identifies it.

Each node's chain is replaced in one step, so a mixture of two partitions is never active at one node. Healing only
removes the rules; connections survive or are opened again, as TCP and their owners decide.
"""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.cluster.docker.namespace import Namespace, Reached
from harness.errors import HarnessError
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


_TRAFFIC_S = 0.3  # seconds to wait for a stopped packet on a busy link before a connection is tried
_TRY_S = 0.25
_POLL_S = 0.05
_SAVE = ["iptables-save", "-c", "-t", "filter"]
_RESTORE = ["iptables-restore", "--wait", "5", "--noflush"]
_WORDS: Mapping[Mode, tuple[str, Reached]] = {"hang": ("dropped", "silent"), "reset": ("reset", "refused")}


class PacketRules:
    """One namespace per node. Keeps the set of cut links; the rules in force are always read back."""

    def __init__(self, namespaces: Mapping[NodeId, Namespace], places: Places) -> None:
        self._namespaces = namespaces
        self._places = places
        self._cuts: dict[Link, Mode] = {}
        self._wanted: dict[NodeId, tuple[Rule, ...]] = dict.fromkeys(namespaces, ())
        # The known contents of each chain; None while it is written, and after a failed write.
        self._written: dict[NodeId, tuple[Rule, ...] | None] = dict.fromkeys(namespaces, ())
        self._writing = {node: threading.Lock() for node in namespaces}
        self._earlier: Counter[Link] = Counter()  # packets counted by rules that have been replaced since
        self._turn = asyncio.Lock()

    @property
    def cuts(self) -> Mapping[Link, Mode]:
        return dict(self._cuts)

    async def cut(self, links: Sequence[Link], *, mode: Mode) -> str:
        """Returns one sentence per link with the proof of its cut. Raises HarnessError if a link is not cut."""
        async with self._turn:
            await self._become({**self._cuts, **dict.fromkeys(links, mode)})
            for link in links:
                self._earlier.pop(link, None)
            return await self._proof(links, mode)

    async def heal(self, links: Sequence[Link]) -> str:
        """Returns how many packets the rules had stopped. Links that are not cut stay as they are."""
        async with self._turn:
            wanted = {link: mode for link, mode in self._cuts.items() if link not in set(links)}
            await self._become(wanted)
            sentences = [f"{link.short_name} ({self._earlier.pop(link, 0)} packets had been stopped)" for link in links]
            return "no packet rule is left for " + ", ".join(sentences)

    async def stopped(self, links: Iterable[Link]) -> Mapping[Link, int]:
        """The number of packets stopped on each link since it was cut."""
        chosen = list(links)
        nodes = sorted({link.target for link in chosen})
        standing = dict(zip(nodes, await asyncio.gather(*map(self._read, nodes)), strict=True))
        return {link: self._earlier[link] + self._counted(link, standing[link.target]) for link in chosen}

    async def _become(self, wanted: Mapping[Link, Mode]) -> None:
        rules = rules_of(wanted, self._places)
        changed = [node for node in self._namespaces if self._written[node] != tuple(rules[node])]
        for node in changed:
            self._wanted[node], self._written[node] = tuple(rules[node]), None
        # Wait for all of them, even if one is refused: an error is raised only when nothing changes any more.
        writes = (asyncio.to_thread(self._write, node) for node in changed)
        former = await asyncio.gather(*writes, return_exceptions=True)
        for node, standing in zip(changed, former, strict=True):
            if isinstance(standing, BaseException):
                raise standing
            for link in self._cuts:
                if link.target == node:
                    self._earlier[link] += self._counted(link, standing)
        self._cuts = dict(wanted)

    def _write(self, node: NodeId) -> Standing:
        """Sets a node's chain and returns its previous contents.

        A cancelled cut continues in its thread; the last caller writes what is wanted by then.
        """
        namespace = self._namespaces[node]
        with self._writing[node]:
            rules = self._wanted[node]
            former = read_saved(namespace.run(_SAVE))
            namespace.run(_RESTORE, given=restore_text(rules, hooked=former.hooked))
            now = read_saved(namespace.run(_SAVE))
            if set(now.packets) != set(rules) or now.strange or now.hooked != frozenset(HOOKS):
                raise HarnessError(
                    f"the packet rules in {namespace.name} are not the ones written: "
                    f"{len(now.packets)} of {len(rules)} rules, hooked in {' '.join(sorted(now.hooked)) or 'nothing'}; "
                    "something else changes them"
                )
            self._written[node] = rules
        return former

    async def _read(self, node: NodeId) -> Standing:
        return read_saved(await asyncio.to_thread(self._namespaces[node].run, _SAVE))

    def _counted(self, link: Link, standing: Standing) -> int:
        mode = self._cuts.get(link)
        rules = rules_of_link(link, mode, self._places) if mode is not None else []
        return sum(standing.packets.get(rule, 0) for rule in rules)

    async def _proof(self, links: Sequence[Link], mode: Mode) -> str:
        loop = asyncio.get_running_loop()
        until = loop.time() + _TRAFFIC_S
        counted = await self.stopped(links)
        while not all(counted.values()) and loop.time() < until:
            await asyncio.sleep(_POLL_S)
            counted = await self.stopped(links)
        quiet = [link for link in links if not counted[link]]
        await asyncio.gather(*(self._seen_closed(link, mode) for link in quiet))
        # Silence could have another cause, so check that these rules stopped the connection attempt.
        for link, packets in (await self.stopped(quiet)).items():
            if not packets:
                raise HarnessError(
                    f"link {link.short_name} has its packet rules, and they stopped nothing of what was tried"
                )
        done, sign = _WORDS[mode]
        sentences = [
            f"{link.short_name} ({counted[link]} packets {done})"
            if counted[link]
            else f"{link.short_name} (no traffic; a new connection is {sign})"
            for link in links
        ]
        return "packet rules stop " + ", ".join(sentences)

    async def _seen_closed(self, link: Link, mode: Mode) -> None:
        address = self._places.addresses[link.target]
        for port in self._places.server_ports(link):
            if link.source is None:
                seen = await _reached_from_here(address, port)
            else:
                source = self._namespaces[link.source]
                seen = await asyncio.to_thread(source.reaches, address, port, timeout_s=_TRY_S)
            if seen != _WORDS[mode][1]:
                raise HarnessError(
                    f"link {link.short_name} has its packet rules, and yet a new connection to {address}:{port} "
                    f"is {seen}"
                )


async def _reached_from_here(address: str, port: int) -> Reached:
    try:
        async with asyncio.timeout(_TRY_S):
            _, writer = await asyncio.open_connection(address, port)
    except ConnectionRefusedError:
        return "refused"
    except (TimeoutError, OSError):
        return "silent"
    writer.close()
    return "open"
