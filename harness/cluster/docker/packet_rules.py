"""Cuts the links of a cluster of containers by packet rules: written as a whole, read back, and proved by stopped
packets.

Each node's chain is replaced in one step, so a mixture of two partitions is never active at one node. Healing only
removes the rules; connections survive or are opened again, as TCP and their owners decide.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from harness.cluster.docker.namespace import Namespace, Reached
from harness.cluster.docker.rules import (
    HOOKS,
    Mode,
    Places,
    Rule,
    Standing,
    read_saved,
    restore_text,
    rules_of,
    rules_of_link,
)
from harness.errors import HarnessError
from harness.ports.cluster import Link, NodeId

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
