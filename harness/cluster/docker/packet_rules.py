"""The links of a cluster of containers, cut by packet rules: written whole, read back, and seen to stop something.

Each node's chain is replaced in one step, so that no mixture of two partitions is ever in force at one node. A heal
takes the rules away and nothing more: connections live on or come back as TCP and their owners have it.
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
from harness.interfaces import Link, NodeId

_TRAFFIC_S = 0.3  # how long a busy link is given to show a stopped packet before a connection is tried
_TRY_S = 0.25
_POLL_S = 0.05
_SAVE = ["iptables-save", "-c", "-t", "filter"]
_RESTORE = ["iptables-restore", "--wait", "5", "--noflush"]
_WORDS: Mapping[Mode, tuple[str, Reached]] = {"hang": ("dropped", "silent"), "reset": ("reset", "refused")}


class PacketRules:
    """One namespace per node. What is cut is held here; what is in force is always read back."""

    def __init__(self, namespaces: Mapping[NodeId, Namespace], places: Places) -> None:
        self._namespaces = namespaces
        self._places = places
        self._cuts: dict[Link, Mode] = {}
        self._wanted: dict[NodeId, tuple[Rule, ...]] = dict.fromkeys(namespaces, ())
        # What each chain is known to hold; None while it is written, and after a writing that did not succeed.
        self._written: dict[NodeId, tuple[Rule, ...] | None] = dict.fromkeys(namespaces, ())
        self._writing = {node: threading.Lock() for node in namespaces}
        self._earlier: Counter[Link] = Counter()  # packets counted by rules that were written anew since
        self._turn = asyncio.Lock()

    @property
    def cuts(self) -> Mapping[Link, Mode]:
        return dict(self._cuts)

    async def cut(self, links: Sequence[Link], *, mode: Mode) -> str:
        """Returns, in one sentence, how each link was seen to be cut. Raises HarnessError when one is not."""
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
            told = [f"{_name(link)} ({self._earlier.pop(link, 0)} packets had been stopped)" for link in links]
            return "no packet rule is left for " + ", ".join(told)

    async def stopped(self, links: Iterable[Link]) -> Mapping[Link, int]:
        """How many packets of each link were stopped since it was cut."""
        chosen = list(links)
        nodes = sorted({self._places.target(link) for link in chosen})
        standing = dict(zip(nodes, await asyncio.gather(*map(self._read, nodes)), strict=True))
        return {link: self._earlier[link] + self._counted(link, standing[self._places.target(link)]) for link in chosen}

    async def _become(self, wanted: Mapping[Link, Mode]) -> None:
        rules = rules_of(wanted, self._places)
        changed = [node for node in self._namespaces if self._written[node] != tuple(rules[node])]
        for node in changed:
            self._wanted[node], self._written[node] = tuple(rules[node]), None
        # All of them are waited for, also when one is refused: what raises is raised about a network at rest.
        writes = (asyncio.to_thread(self._write, node) for node in changed)
        former = await asyncio.gather(*writes, return_exceptions=True)
        for node, standing in zip(changed, former, strict=True):
            if isinstance(standing, BaseException):
                raise standing
            for link in self._cuts:
                if self._places.target(link) == node:
                    self._earlier[link] += self._counted(link, standing)
        self._cuts = dict(wanted)

    def _write(self, node: NodeId) -> Standing:
        """Sets a node's chain and returns what stood there before.

        A cut that is cancelled goes on in its thread; whoever comes last writes what is wanted by then.
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
        # Silence alone could have another cause: the connection that was tried was stopped by these very rules.
        for link, packets in (await self.stopped(quiet)).items():
            if not packets:
                raise HarnessError(
                    f"link {_name(link)} has its packet rules, and they stopped nothing of what was tried"
                )
        done, sign = _WORDS[mode]
        told = [
            f"{_name(link)} ({counted[link]} packets {done})"
            if counted[link]
            else f"{_name(link)} (no traffic; a new connection is {sign})"
            for link in links
        ]
        return "packet rules stop " + ", ".join(told)

    async def _seen_closed(self, link: Link, mode: Mode) -> None:
        address = self._places.addresses[self._places.target(link)]
        for port in self._places.server_ports(link):
            if link.source.startswith("c"):
                seen = await _reached_from_here(address, port)
            else:
                source = self._namespaces[NodeId(int(link.source[1:]))]
                seen = await asyncio.to_thread(source.reaches, address, port, timeout_s=_TRY_S)
            if seen != _WORDS[mode][1]:
                raise HarnessError(
                    f"link {_name(link)} has its packet rules, and yet a new connection to {address}:{port} is {seen}"
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


def _name(link: Link) -> str:
    return str(link).replace("n", "")
