"""`--system attached`: faults are injected and healed by the user's commands; without a command a fault is impossible.

Each capability of harness.ports.cluster is a class here. The cluster's class is composed of those whose commands are
given, so `isinstance` shows what the user's table allows.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from harness.cluster.attached.administration import ADDRESS, address_of
from harness.cluster.attached.cluster import EFFECT_S, ForeignCluster, answers_at, registered
from harness.cluster.attached.commands import PLACEHOLDERS, CommandRunner, Ran, check_template
from harness.cluster.attached.front_ends import numbered
from harness.cluster.attached.journal import DELETIONS
from harness.cluster.attached.reachability import is_answering, is_gone, is_silent
from harness.cluster.base_cluster import link_names
from harness.cluster.confined import empty
from harness.errors import HarnessError, UsageError
from harness.history.facts.disk_facts import DiskEvent
from harness.host.clock import Clock
from harness.ports.cluster import (
    COORDINATION,
    CanCrash,
    CanCutLinks,
    CanPause,
    CanSlowLinks,
    CanStop,
    CanWipe,
    Evidence,
    Link,
    NodeId,
    ReplicaLog,
    ShowsLogs,
)
from harness.scenario.model import ClusterSpec
from harness.values import is_number

# A fault is not injected unless there is a command that undoes it.
_UNDONE_BY: Mapping[str, str] = {
    "kill": "start",
    "stop": "start",
    "pause": "resume",
    "cut": "heal",
    "isolate": "rejoin",
    "wipe": "kill",
}
# Front ends have neither links between each other nor disks with replicas.
_OF_BROKERS_ALONE = ("cut", "heal", "isolate", "rejoin", "slow", "wipe", "read_log")


class CommandCluster(ForeignCluster):
    title = "attached cluster"

    def __init__(self, *, run_path: Path, spec: ClusterSpec, clock: Clock) -> None:
        super().__init__(run_path=run_path, spec=spec, clock=clock)
        attached = spec.attached
        self._commands = CommandRunner(
            attached.commands, folder=self._run / "commands", timeout_s=attached.command_timeout_s
        )

    async def find(self) -> Mapping[NodeId, ADDRESS]:
        if self._spec.attached.front_ends:
            answers = await answers_at(self._spec.bootstrap, "--bootstrap", security=self._spec.attached.security)
            front_ends, self._shared_id = numbered(answers)
            return front_ends
        known = await registered(self._spec.bootstrap, "--bootstrap", security=self._spec.attached.security)
        given = self._given()
        missing = [node for node in given if node not in known and node < COORDINATION]
        if missing:
            raise HarnessError(
                f"[attached] nodes: broker {missing[0]} is not registered; the cluster has brokers {sorted(known)}"
            )
        return {node: given.get(node, address) for node, address in sorted(known.items())}

    def _given(self) -> dict[NodeId, ADDRESS]:
        nodes = self._spec.attached.nodes
        return {NodeId(int(node)): address_of(text, f"[attached] nodes {node}") for node, text in nodes.items()}

    def known(self) -> Sequence[NodeId]:
        return list(self._given())

    def _place(self, node: NodeId) -> ADDRESS:
        address = self._given().get(node) or self._addresses.get(node)
        if address is None:
            raise HarnessError(f"where {self._name(node)} is, nobody knows; name it in [attached] nodes")
        return address

    def _values(self, node: NodeId) -> dict[str, object]:
        host, port = self._place(node)
        return {"node": int(node), "host": host, "port": port}

    async def _on_node(self, name: str, node: NodeId, **more: object) -> Ran:
        return await self._commands.run(name, self._name(node), {**self._values(node), **more})

    async def _on_links(self, name: str, links: Sequence[Link], **more: object) -> list[Ran]:
        """Runs the command once for all links if its template takes them all, otherwise once per link."""
        whole = " ".join(link.short_name for link in links)
        if self._commands.mentions(name, "links"):
            return [await self._commands.run(name, whole, {**self._ends(links[0]), "links": whole, **more})]
        return [
            await self._commands.run(name, link.short_name, {**self._ends(link), "links": whole, **more})
            for link in links
        ]

    def _ends(self, link: Link) -> dict[str, object]:
        if link.source is None:
            raise HarnessError(f"link {link}: clients of somebody else's cluster have no links of their own")
        return {
            "link_source": link.source,
            "link_target": link.target,
            "source_host": self._place(link.source)[0],
            "target_host": self._place(link.target)[0],
        }

    async def undo(self, what: str, subject: str) -> Evidence:
        """Undoes a fault with the capability that injected it. Raises HarnessError if there is no command for it."""
        means: Any = self
        actions: Mapping[str, Callable[[], Awaitable[Evidence]]] = {
            "start": lambda: means.start_node(NodeId(int(subject))),
            "resume": lambda: means.resume(NodeId(int(subject))),
            "heal": lambda: means.heal(_links(subject)),
            "unslow": lambda: means.slow(_links(subject), delay_ms=0),
            **dict.fromkeys(DELETIONS, lambda: ForeignCluster.undo(self, what, subject)),
        }
        by = {"start": "start_node", "resume": "resume", "heal": "heal", "unslow": "slow"}.get(what)
        by = "undo" if what in DELETIONS else by
        if by is None or not hasattr(self, by):
            raise HarnessError(f"[attached] has no command that would {what} {subject}")
        return await actions[what]()


class _Starts(CommandCluster):
    async def start_node(self, node: NodeId) -> Evidence:
        if not self._stopped_by_us(node):
            return self._seen(f"{self._name(node)} was not taken down by this run, and is left as it is")
        with self._undoing("start", str(node)):
            ran = await self._on_node("start", node)
            shown = await self._shows(node, is_answering, after=ran.sentence)
            self._down.discard(node)
        return shown

    async def _end(self, command: str, node: NodeId) -> Evidence:
        await self._refuse_if_down(node)
        self._journal.owe("start", str(node))
        try:
            done = (await self._on_node(command, node)).sentence
        except HarnessError:
            if not await self._has_ended(node):
                raise
            done = f"it had ended by itself before the {command} command"
        self._down.add(node)
        in_order_s = self._spec.attached.command_timeout_s if command == "stop" else 0.0
        return await self._shows(node, is_gone, after=done, within_s=max(EFFECT_S, in_order_s))


class _Kills(_Starts):
    async def kill(self, node: NodeId) -> Evidence:
        return await self._end("kill", node)


class _Stops(_Starts):
    async def shut_down(self, node: NodeId) -> Evidence:
        return await self._end("stop", node)


class _Pauses(CommandCluster):
    async def pause(self, node: NodeId) -> Evidence:
        await self._refuse_if_down(node)
        self._journal.owe("resume", str(node))
        try:
            ran = await self._on_node("pause", node)
        except HarnessError as error:
            if not await self._has_ended(node):
                raise
            self._journal.paid("resume", str(node))
            raise self._down_by_others(node, str(error)) from error
        return await self._shows(node, is_silent, after=ran.sentence)

    async def resume(self, node: NodeId) -> Evidence:
        if not self.is_running(node):
            self._journal.paid("resume", str(node))
            return self._seen(f"{self._name(node)} is not running any more")
        with self._undoing("resume", str(node)):
            ran = await self._on_node("resume", node)
            return await self._shows(node, is_answering, after=ran.sentence)


class _Cuts(CommandCluster):
    def links(self) -> Sequence[Link]:
        return self._node_links()

    async def cut(self, links: Sequence[Link], *, mode: Literal["hang", "reset"] = "hang") -> Evidence:
        """A cut between two brokers cannot be observed from outside, and the returned proof says so."""
        if not links:
            raise HarnessError("there is no link to cut")
        self._journal.owe("heal", _names(links))
        if self._commands.has("cut"):
            ran = await self._on_links("cut", links, mode=mode)
        else:
            ran = [await self._apart_or_together("isolate", node) for node in self._isolated(links)]
        return self._seen(f"{link_names(links)}: {_described(ran)}; nothing more of it is seen from outside")

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence:
        with self._undoing("heal", _names(links)):
            if self._commands.has("cut"):
                ran = await self._on_links("heal", links, mode=mode)
            else:
                ran = [await self._apart_or_together("rejoin", node) for node in self._isolated(links)]
        return self._seen(f"{link_names(links)}: {_described(ran)}")

    async def _apart_or_together(self, name: str, node: NodeId) -> Ran:
        peers = " ".join(self._place(peer)[0] for peer in self.brokers if peer != node)
        return await self._on_node(name, node, peers=peers)

    def _isolated(self, links: Sequence[Link]) -> list[NodeId]:
        """Returns the brokers that these links isolate from every other one. Raises HarnessError for any
        other pattern."""
        wanted = set(links)
        peers = [link for link in self.links() if link.target not in self.apart()]
        alone = [
            node for node in self.brokers if all(link in wanted for link in peers if node in (link.source, link.target))
        ]
        covered = {link for link in peers for node in alone if node in (link.source, link.target)}
        if covered != wanted:
            raise HarnessError(
                f"{link_names(links)}: the isolate command sets brokers apart from all others, nothing else; "
                "give cut and heal in [attached]"
            )
        return alone[:1] if len(self.brokers) == 2 else alone


class _Slows(CommandCluster):
    async def slow(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        if delay_ms:
            self._journal.owe("unslow", _names(links))
        with contextlib.nullcontext() if delay_ms else self._undoing("unslow", _names(links)):
            ran = await self._on_links("slow", links, delay_ms=f"{delay_ms:g}", mode="")
        return self._seen(f"{link_names(links)}: {_described(ran)}; nothing more of it is seen from outside")


class _Wipes(CommandCluster):
    async def wipe(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            raise HarnessError(f"{self._name(node)} is running; kill it before its disk is wiped")
        await self._refuse_if_last_copy(node)
        ran = await self._on_node("wipe", node)
        seen = self._seen(f"{self._name(node)}: {ran.sentence}; nothing more of it is seen from outside")
        return replace(seen, destroyed=(DiskEvent(node=int(node), time_ns=seen.t_ns, extent="disk"),))


class _ReadsLogs(CommandCluster):
    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        return self._replicas_in(node, self._bring(node))

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        return self._log_end_in(self._bring(node), topic, partition)

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None:
        return self._high_watermark_in(self._bring(node), topic, partition)

    def _bring(self, node: NodeId) -> Path:
        """Copies the node's data directory, or the part that the command copies, into an empty folder."""
        data = self._data(node)
        data.mkdir(parents=True, exist_ok=True)
        empty(data, top=self._run)
        values = {**self._values(node), "folder": data, "topics": " ".join(self._journal.topics())}
        self._commands.run_here("read_log", self._name(node), values)
        return data


# A part of the class, its capability, and the commands it needs: any of these sets is enough.
_PARTS: Sequence[tuple[type[CommandCluster], type, Sequence[tuple[str, ...]]]] = (
    (_Kills, CanCrash, [("kill", "start")]),
    (_Stops, CanStop, [("stop", "start")]),
    (_Pauses, CanPause, [("pause", "resume")]),
    (_Cuts, CanCutLinks, [("cut", "heal"), ("isolate", "rejoin")]),
    (_Slows, CanSlowLinks, [("slow", "cut", "heal")]),
    (_Wipes, CanWipe, [("wipe", "kill", "start")]),
    (_ReadsLogs, ShowsLogs, [("read_log",)]),
)


def cluster_by_commands(spec: ClusterSpec) -> type[CommandCluster]:
    """Returns the class of clusters for the commands in [attached]. Raises UsageError for an invalid table."""
    if not spec.bootstrap:
        raise UsageError("an attached cluster needs --bootstrap HOST:PORT (or bootstrap in [cluster])")
    commands = spec.attached.commands
    for name, template in commands.items():
        check_template(name, template)
        undo = _UNDONE_BY.get(name)
        if undo is not None and undo not in commands:
            raise UsageError(f"[attached] has {name} and no {undo}: what is done has to be undone")
    if "slow" in commands and "cut" not in commands:
        raise UsageError("[attached] has slow and no cut: give cut and heal, which say that links can be told apart")
    for node, text in spec.attached.nodes.items():
        if not is_number(node):
            raise UsageError(f'[attached] nodes: {node!r} is no broker id; write nodes = {{ 1 = "host:port" }}')
        if spec.attached.front_ends and int(node) < COORDINATION:
            raise UsageError(f"[attached] nodes: front end {node} is where --bootstrap says; leave it out")
        address_of(text, f"[attached] nodes {node}")
    if spec.attached.front_ends and (of_brokers := [name for name in _OF_BROKERS_ALONE if name in commands]):
        raise UsageError(
            f"[attached] {of_brokers[0]}: front ends keep no replicas and do not fetch from each other; leave it out"
        )
    return _made_of(frozenset(commands))


@cache
def _made_of(commands: frozenset[str]) -> type[CommandCluster]:
    parts = tuple(part for part, _, sets in _PARTS if any(commands.issuperset(needed) for needed in sets))
    return type("AttachedCluster", (*parts, CommandCluster), {})


def remedy(need: type) -> str:
    """What to write into [attached] for a capability."""
    for _, capability, sets in _PARTS:
        if capability is need:
            return "give " + ", or ".join(" and ".join(needed) for needed in sets) + " in [attached]"
    return "no command of [attached] gives it"


def _names(links: Sequence[Link]) -> str:
    """Node names in the form that the journal stores."""
    return " ".join(str(link) for link in links)


def _links(names: str) -> list[Link]:
    """Links from the form that the journal stores."""
    return [Link.parse(name) for name in names.split()]


def _described(ran: Sequence[Ran]) -> str:
    if len(ran) == 1:
        return ran[0].sentence
    return f"the {ran[0].name} command ended with 0 all {len(ran)} times"


assert set(_UNDONE_BY) | {"start", "resume", "heal", "rejoin", "slow", "read_log"} == set(PLACEHOLDERS)
