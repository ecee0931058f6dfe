"""Cuts links between a user's containers by packet rules in the containers' own networks.

Such a network and its rules exist as long as their container runs. So the rules are computed anew each time from the
links that are cut and from the containers' current addresses and listening ports, and written again where a container
came up by itself. Nothing of ours is left where no link is cut any more.
"""

import asyncio
import contextlib
import ipaddress
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docker.errors import NotFound

from harness.cluster.docker.engine import engine_errors
from harness.cluster.docker.namespace import Namespace, can_enter, pid_of
from harness.cluster.docker.packet_rules import HOOKS, Mode, Rule, Standing, read_saved, removal_text, restore_text
from harness.errors import HarnessError
from harness.ports.cluster import Link, NodeId

_TRY_S = 0.5
_TRAFFIC_S = 0.6
_SAVE = ["iptables-save", "-c", "-t", "filter"]
_RESTORE = ["iptables-restore", "--wait", "5", "--noflush"]
_ESTABLISHED, _LISTENING = "01", "0A"
_CHANGES = "something else changes them"


def can_cut() -> bool:
    """True if this process is root with nsenter and iptables; the first use shows whether the engine is on this
    machine."""
    return os.geteuid() == 0 and can_enter()


class ChangedRules(HarnessError):
    """What was cut was healed, and nobody knows since when it had not been cut any more."""


class ContainerRules:
    """Keeps the set of cut links; computes the rules for it, writes them, and reads them back."""

    def __init__(self, containers: Mapping[NodeId, Any]) -> None:
        self._containers = containers
        self._cuts: dict[Link, Mode] = {}
        self._written: dict[NodeId, list[Rule]] = {}  # where rules stand
        self._ports: dict[NodeId, set[int]] = {}  # where a node was seen to listen
        self._processes: dict[NodeId, int] = {}  # of each end of a cut: its network is there as long as this process
        self._again: dict[NodeId, int] = {}  # how often an end came up by itself
        self._changed: set[NodeId] = set()  # where rules were found not to be the ones written
        self._turn = asyncio.Lock()

    async def cut(self, links: Sequence[Link], *, mode: Mode) -> str:
        async with self._turn:
            await asyncio.to_thread(self._check, links)
            self._cuts |= dict.fromkeys(links, mode)
            await asyncio.to_thread(self._write, _targets(links))
            return await self._proof(links)

    async def heal(self, links: Sequence[Link]) -> str:
        """Raises ChangedRules, once everything is healed, where the rules had been changed before."""
        async with self._turn:
            self._count(await asyncio.to_thread(self._came_up, _ends(links)))
            for link in links:
                self._cuts.pop(link, None)
            await asyncio.to_thread(self._write, _targets(links))
        changed = sorted(self._changed.intersection(_targets(links)))
        self._changed.difference_update(changed)
        if changed:
            names = " and ".join(self._containers[node].name for node in changed)
            raise ChangedRules(f"the packet rules in {names} did not last as long as their cut; {_CHANGES}")
        again = [
            f"{self._containers[node].name} came up by itself {times} times meanwhile, without its rules at first"
            for node in _ends(links)
            if (times := self._again.pop(node, 0))
        ]
        return "; ".join(["no packet rule is left for " + " ".join(link.short_name for link in links), *again])

    async def renew(self, node: NodeId) -> None:
        """Writes the rules again after a container was started, perhaps with another address: in its own network and
        in its peers'."""
        async with self._turn:
            await asyncio.to_thread(self._renew, [node])

    async def keep(self, nodes: Sequence[NodeId]) -> None:
        """Call it every now and then: writes the rules again for those of the nodes that came up by themselves."""
        if any(self._is_over(node) for node in nodes):
            async with self._turn:
                found = await asyncio.to_thread(self._came_up, nodes)
                with contextlib.suppress(HarnessError):  # it may be ending again: the next call tries again
                    await asyncio.to_thread(self._renew, found)
                    self._count(found)

    def _is_over(self, node: NodeId) -> bool:
        return node in self._processes and not lives(self._processes[node])

    def _came_up(self, nodes: Sequence[NodeId]) -> list[NodeId]:
        return [node for node in nodes if self._is_over(node) and _runs(self._containers[node])]

    def _count(self, nodes: Sequence[NodeId]) -> None:
        for node in nodes:
            self._again[node] = self._again.get(node, 0) + 1

    def _renew(self, nodes: Sequence[NodeId]) -> None:
        touched = [link for link in self._cuts if not {link.source, link.target}.isdisjoint(nodes)]
        self._write(_targets(touched))

    def _check(self, links: Sequence[Link]) -> None:
        """Before any rule is written: raises HarnessError for an end that cannot be cut."""
        for node in _ends(links):
            shared = shares_a_network(self._containers[node])
            if shared:
                raise HarnessError(shared)
        for link in links:
            around = goes_around(self._containers[_source(link)], self._containers[link.target])
            if around:
                raise HarnessError(around)

    def _write(self, nodes: Sequence[NodeId]) -> None:
        """In each of them, whatever is wrong with another one."""
        wrong: HarnessError | None = None
        for node in nodes:
            try:
                self._write_in(node)
            except HarnessError as error:
                wrong = wrong or error
        if wrong is not None:
            raise wrong
        for node in _ends(list(self._cuts)):
            if _runs(self._containers[node]):
                self._processes[node] = pid_of(self._containers[node])

    def _write_in(self, node: NodeId) -> None:
        container, written = self._containers[node], self._written.pop(node, None)
        if not _runs(container):
            return  # its rules were deleted with its network
        namespace = self._enter(container)
        rules = self._rules_at(node)
        former = read_saved(namespace.run(_SAVE))
        if written is not None and not self._is_over(node) and not _are(former, written):
            self._changed.add(node)
        if not rules:
            namespace.run(_RESTORE, given=removal_text(hooked=former.hooked))
            return
        namespace.run(_RESTORE, given=restore_text(rules, hooked=former.hooked))
        if not _are(read_saved(namespace.run(_SAVE)), rules):
            raise HarnessError(f"the packet rules in {container.name} are not the ones written; {_CHANGES}")
        self._written[node] = rules

    def _rules_at(self, node: NodeId) -> list[Rule]:
        cuts = [link for link in self._cuts if link.target == node]
        ports = self._ports_of(node) if cuts else []
        return [
            Rule(inbound=inbound, peer=address, port=port, mode=self._cuts[link])
            for link in sorted(cuts, key=str)
            for address in addresses_of(self._containers[_source(link)])
            for port in ports
            for inbound in (True, False)
        ]

    def _ports_of(self, node: NodeId) -> list[int]:
        """The ports where it listens or did before: one that was just started does not listen yet, and soon will."""
        ports = self._ports.setdefault(node, set())
        ports.update(listening_ports(pid_of(self._containers[node])))
        return sorted(ports)

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


def goes_around(source: Any, target: Any) -> str:
    """Why packet rules in their own networks would not stop what the first opens to the second; empty: nothing shows
    that, or their engine is on another machine."""
    bindings = [each for some in (target.attrs["NetworkSettings"].get("Ports") or {}).values() for each in some or ()]
    published = {int(each["HostPort"]) for each in bindings if each["HostPort"]}
    if published and _runs(source) and lives(pid_of(source)):
        for address, port in connections_of(pid_of(source)):
            if port in published and _is_of_this_machine(address):
                return (
                    f"{source.name} reaches {target.name} through this machine's port {port}: packet rules in their "
                    "own networks would not stop it"
                )
    return ""


def _is_of_this_machine(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.bind((address, 0))
        except OSError:
            return False
    return True


def listening_ports(pid: int) -> list[int]:
    """The ports that other machines can reach in that process's network; without loopback, such as the engine's own
    DNS."""
    return sorted({port for _, port in ends_in(_sockets_of(pid), state=_LISTENING, at=1)})


def connections_of(pid: int) -> list[tuple[str, int]]:
    """Where the connections out of that process's network lead to."""
    return ends_in(_sockets_of(pid), state=_ESTABLISHED, at=2)


def _sockets_of(pid: int) -> list[str]:
    tables = [Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii") for name in ("tcp", "tcp6")]
    return [line for table in tables for line in table.splitlines()[1:]]


def ends_in(lines: Sequence[str], *, state: str, at: int) -> list[tuple[str, int]]:
    """The addresses and ports of sockets in such a state, but for loopback; at: 1 is this end of them, 2 the other."""
    found = []
    for words in map(str.split, lines):
        place, _, port = words[at].partition(":")
        address = ipaddress.ip_address(_in_order(bytes.fromhex(place)))
        address = getattr(address, "ipv4_mapped", None) or address
        if words[3] == state and not address.is_loopback:
            found.append((str(address), int(port, 16)))
    return found


def _in_order(address: bytes) -> bytes:
    """The kernel prints each 32 bits of an address as this machine's number."""
    return b"".join(struct.pack("!I", *struct.unpack("=I", address[at : at + 4])) for at in range(0, len(address), 4))


def lives(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def _runs(container: Any) -> bool:
    """False where it was removed, too."""
    with engine_errors(f"looking at container {container.name}"):
        try:
            container.reload()
        except NotFound:
            return False
    return bool(container.attrs["State"]["Running"])


def _are(standing: Standing, rules: Sequence[Rule]) -> bool:
    return set(standing.packets) == set(rules) and not standing.strange and standing.hooked == frozenset(HOOKS)


def _targets(links: Sequence[Link]) -> list[NodeId]:
    return sorted({link.target for link in links})


def _ends(links: Sequence[Link]) -> list[NodeId]:
    return sorted({end for link in links for end in (_source(link), link.target)})


def _source(link: Link) -> NodeId:
    assert link.source is not None, "clients of somebody else's cluster have no links of their own"
    return link.source
