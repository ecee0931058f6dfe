"""Links between somebody's containers, cut by packet rules in the containers' own networks.

Such a network lives and dies with its container, and so do rules in it: they are worked out anew from what is cut each
time, from the addresses and the listening ports that the containers have at that moment.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.cluster.docker.engine import engine_errors
from harness.cluster.docker.namespace import Namespace, can_enter, pid_of
from harness.cluster.docker.rules import HOOKS, Mode, Rule, read_saved, restore_text
from harness.errors import HarnessError
from harness.interfaces import Link, NodeId

_TRY_S = 0.5
_TRAFFIC_S = 0.6
_SAVE = ["iptables-save", "-c", "-t", "filter"]
_RESTORE = ["iptables-restore", "--wait", "5", "--noflush"]
_LISTENING = "0A"


def can_cut() -> bool:
    """Root with nsenter and iptables; that the engine is on this machine is seen at the first entry."""
    return os.geteuid() == 0 and can_enter()


class ContainerRules:
    """What is cut is held here; which rules that means is worked out, written, and read back."""

    def __init__(self, containers: Mapping[NodeId, Any]) -> None:
        self._containers = containers
        self._cuts: dict[Link, Mode] = {}
        self._turn = asyncio.Lock()

    async def cut(self, links: Sequence[Link], *, mode: Mode) -> str:
        async with self._turn:
            self._cuts |= dict.fromkeys(links, mode)
            await asyncio.to_thread(self._write, _targets(links))
            return await self._proof(links)

    async def heal(self, links: Sequence[Link]) -> str:
        async with self._turn:
            for link in links:
                self._cuts.pop(link, None)
            await asyncio.to_thread(self._write, _targets(links))
        return "no packet rule is left for " + " ".join(_name(link) for link in links)

    async def renew(self, node: NodeId) -> None:
        """After a container came back, perhaps elsewhere: in its own network, and in those that know its address."""
        async with self._turn:
            touched = [link for link in self._cuts if f"n{node}" in (link.source, link.target)]
            if touched:
                await asyncio.to_thread(self._write, _targets(touched))

    def _write(self, nodes: Sequence[NodeId]) -> None:
        for node in nodes:
            container = self._containers[node]
            if not _runs(container):
                continue  # its rules went with its network
            namespace = self._enter(container)
            rules = self._rules_at(node)
            former = read_saved(namespace.run(_SAVE))
            namespace.run(_RESTORE, given=restore_text(rules, hooked=former.hooked))
            now = read_saved(namespace.run(_SAVE))
            if set(now.packets) != set(rules) or now.strange or now.hooked != frozenset(HOOKS):
                raise HarnessError(
                    f"the packet rules in {container.name} are not the ones written; something else changes them"
                )

    def _rules_at(self, node: NodeId) -> list[Rule]:
        ports = listening_ports(pid_of(self._containers[node]))
        return [
            Rule(inbound=inbound, peer=address, port=port, mode=mode)
            for link, mode in sorted(self._cuts.items(), key=lambda cut: str(cut[0]))
            if link.target == f"n{node}"
            for address in addresses_of(self._containers[NodeId(int(link.source[1:]))])
            for port in ports
            for inbound in (True, False)
        ]

    @staticmethod
    def _enter(container: Any) -> Namespace:
        pid = pid_of(container)
        if not Path(f"/proc/{pid}/ns/net").exists():
            raise HarnessError(f"the network of {container.name} cannot be entered: its engine is not on this machine")
        if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            raise HarnessError(f"{container.name} shares this machine's network: cutting it would cut the machine")
        return Namespace(container, entry="nsenter")

    # -- proof --------------------------------------------------------------------------------------------------------

    async def _proof(self, links: Sequence[Link]) -> str:
        await asyncio.sleep(_TRAFFIC_S)
        told = await asyncio.gather(*(asyncio.to_thread(self._seen_cut, link) for link in links))
        return "packet rules stop " + ", ".join(told)

    def _seen_cut(self, link: Link) -> str:
        """Packets it has stopped, or else how a new connection over the link fares."""
        source, target = (self._containers[NodeId(int(end[1:]))] for end in (link.source, link.target))
        if not _runs(target) or not _runs(source):
            return f"{_name(link)} (one end is down)"
        rules = [rule for rule in self._rules_at(NodeId(int(link.target[1:]))) if rule.peer in addresses_of(source)]
        counted = read_saved(self._enter(target).run(_SAVE)).packets
        stopped = sum(counted.get(rule, 0) for rule in rules)
        if stopped:
            return f"{_name(link)} ({stopped} packets)"
        for port in sorted({rule.port for rule in rules}):
            seen = self._enter(source).reaches(addresses_of(target)[0], port, timeout_s=_TRY_S)
            if seen == "open":
                raise HarnessError(f"link {_name(link)} has its packet rules, and yet a new connection is open")
        return f"{_name(link)} (no traffic; a new connection does not come through)"


def addresses_of(container: Any) -> list[str]:
    """Raises HarnessError for a container without a network of its own, or one that is reached otherwise too."""
    running = _runs(container)  # looks anew, too: a container may come back with another address
    networks = container.attrs["NetworkSettings"]["Networks"].values()
    if any(network.get("GlobalIPv6Address") for network in networks):
        raise HarnessError(f"{container.name} has an IPv6 address too, which packet rules here would not stop")
    found = [str(network["IPAddress"]) for network in networks if network.get("IPAddress")]
    if not found and running:
        raise HarnessError(f"{container.name} has no address of its own (host network?), so it cannot be partitioned")
    return found


def listening_ports(pid: int) -> list[int]:
    """What other machines can reach in the network of that process: loopback, as of the engine's own DNS, left out."""
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii").splitlines()[1:]:
            place, state = line.split()[1], line.split()[3]
            address, _, port = place.partition(":")
            loopback = address.endswith("7F") if name == "tcp" else address == "0" * 24 + "01000000"
            if state == _LISTENING and not loopback:
                ports.add(int(port, 16))
    return sorted(ports)


def _runs(container: Any) -> bool:
    with engine_errors(f"looking at container {container.name}"):
        container.reload()
    return bool(container.attrs["State"]["Running"])


def _targets(links: Sequence[Link]) -> list[NodeId]:
    return sorted({NodeId(int(link.target[1:])) for link in links})


def _name(link: Link) -> str:
    return str(link).replace("n", "")
