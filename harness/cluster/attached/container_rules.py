"""Cuts links between a user's containers by packet rules in the containers' own networks.

Such a network and its rules exist as long as their container. So the rules are computed anew each time from the links
that are cut and from the containers' current addresses and listening ports.
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
from harness.ports.cluster import Link, NodeId

_TRY_S = 0.5
_TRAFFIC_S = 0.6
_SAVE = ["iptables-save", "-c", "-t", "filter"]
_RESTORE = ["iptables-restore", "--wait", "5", "--noflush"]
_LISTENING = "0A"


def can_cut() -> bool:
    """True if this process is root with nsenter and iptables; the first use shows whether the engine is on this
    machine."""
    return os.geteuid() == 0 and can_enter()


class ContainerRules:
    """Keeps the set of cut links; computes the rules for it, writes them, and reads them back."""

    def __init__(self, containers: Mapping[NodeId, Any]) -> None:
        self._containers = containers
        self._cuts: dict[Link, Mode] = {}
        self._turn = asyncio.Lock()

    async def cut(self, links: Sequence[Link], *, mode: Mode) -> str:
        async with self._turn:
            await asyncio.to_thread(self._check, links)
            self._cuts |= dict.fromkeys(links, mode)
            await asyncio.to_thread(self._write, _targets(links))
            return await self._proof(links)

    async def heal(self, links: Sequence[Link]) -> str:
        async with self._turn:
            for link in links:
                self._cuts.pop(link, None)
            await asyncio.to_thread(self._write, _targets(links))
        return "no packet rule is left for " + " ".join(link.short_name for link in links)

    async def renew(self, node: NodeId) -> None:
        """Writes the rules again after a container restarted, perhaps with another address: in its own network and in
        its peers'."""
        async with self._turn:
            touched = [link for link in self._cuts if node in (link.source, link.target)]
            if touched:
                await asyncio.to_thread(self._write, _targets(touched))

    def _check(self, links: Sequence[Link]) -> None:
        """Before any rule is written: raises HarnessError for an end that cannot be cut."""
        for node in sorted({end for link in links for end in (_source(link), link.target)}):
            shared = shares_a_network(self._containers[node])
            if shared:
                raise HarnessError(shared)

    def _write(self, nodes: Sequence[NodeId]) -> None:
        for node in nodes:
            container = self._containers[node]
            if not _runs(container):
                continue  # its rules were deleted with its network
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
            if link.target == node
            for address in addresses_of(self._containers[_source(link)])
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
        proofs = await asyncio.gather(*(asyncio.to_thread(self._seen_cut, link) for link in links))
        return "packet rules stop " + ", ".join(proofs)

    def _seen_cut(self, link: Link) -> str:
        """The proof of a cut: packets that the rules stopped, or else the result of a new connection over the link."""
        source, target = self._containers[_source(link)], self._containers[link.target]
        if not _runs(target) or not _runs(source):
            return f"{link.short_name} (one end is down)"
        rules = [rule for rule in self._rules_at(link.target) if rule.peer in addresses_of(source)]
        counted = read_saved(self._enter(target).run(_SAVE)).packets
        stopped = sum(counted.get(rule, 0) for rule in rules)
        if stopped:
            return f"{link.short_name} ({stopped} packets)"
        for port in sorted({rule.port for rule in rules}):
            seen = self._enter(source).reaches(addresses_of(target)[0], port, timeout_s=_TRY_S)
            if seen == "open":
                raise HarnessError(f"link {link.short_name} has its packet rules, and yet a new connection is open")
        return f"{link.short_name} (no traffic; a new connection does not come through)"


def shares_a_network(container: Any) -> str:
    """Why its links cannot be cut without cutting others'; empty if its network is its own."""
    kind, _, _ = str(container.attrs["HostConfig"]["NetworkMode"]).partition(":")
    if kind == "host":
        return f"{container.name} shares this machine's network: cutting it would cut the machine"
    if kind == "container":
        return f"{container.name} shares another container's network: cutting it would cut that one too"
    return f"{container.name} has no network" if kind == "none" else ""


def addresses_of(container: Any) -> list[str]:
    """Raises HarnessError for a container without a network of its own, or with another way to reach it."""
    running = _runs(container)  # also refreshes: a restarted container may have another address
    networks = container.attrs["NetworkSettings"]["Networks"].values()
    if any(network.get("GlobalIPv6Address") for network in networks):
        raise HarnessError(f"{container.name} has an IPv6 address too, which packet rules here would not stop")
    found = [str(network["IPAddress"]) for network in networks if network.get("IPAddress")]
    if not found and running:
        raise HarnessError(f"{container.name} has no address of its own (host network?), so it cannot be partitioned")
    return found


def listening_ports(pid: int) -> list[int]:
    """The ports that other machines can reach in that process's network; without loopback, such as the engine's own
    DNS."""
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
    return sorted({link.target for link in links})


def _source(link: Link) -> NodeId:
    assert link.source is not None, "clients of somebody else's cluster have no links of their own"
    return link.source
