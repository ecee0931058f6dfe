"""A cluster of processes on this machine, which has no requirements and supports every fault except packet impairments;
and the same as a run sees it that neither starts nor stops it."""

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from harness.cluster.base_cluster import BrokerCluster, after_refusals, link_names
from harness.cluster.brokers.system import NodeEnvironment, System
from harness.cluster.confined import empty
from harness.cluster.local.addresses import AddressBlock
from harness.cluster.local.environment import LocalEnvironment
from harness.cluster.local.fabric import Route
from harness.cluster.local.fabric_control import FabricControl
from harness.cluster.local.leaks import leaks
from harness.cluster.local.processes import Spawner, kill, state_of
from harness.errors import HarnessError
from harness.host.clock import Clock
from harness.ports.cluster import ClusterHistory, Evidence, Link, NodeEnd, NodeId, TopicDefinition
from harness.ports.faults import AlreadyDown

_TOOL_S = 30.0
_ENDED = ("", "Z", "X")  # states of a process that no signal reaches any more


class LocalCluster(BrokerCluster):
    """Implements Cluster and all capabilities of harness.ports.cluster. Before `start`, only its records
    can be read."""

    def __init__(self, *, run_path: Path, system: System, client_links: int, clock: Clock) -> None:
        super().__init__(run_path=run_path, system=system, client_links=client_links, clock=clock)
        self._spawner = Spawner(run=self._run)
        self._fabric = FabricControl(spawner=self._spawner, log=self._run / "nodes" / "fabric" / "log")
        self._processes: dict[NodeId, asyncio.subprocess.Process] = {}
        self._watches: dict[NodeId, asyncio.Task[None]] = {}
        self._addresses: AddressBlock | None = None

    # -- Cluster ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        addresses = self._addresses = AddressBlock([node.node for node in self.nodes], client_links=self._client_links)
        environment = self._environment = LocalEnvironment(
            addresses=addresses, nodes_folder=self._run / "nodes", one_listener=self._system.has_one_listener
        )
        await self._system.prepare(environment)
        self._observation = self._system.observation(environment, is_running=self.is_running, clock=self._clock)
        await self._fabric.start(self._routes(environment))
        await self._start_in_stages()
        found = self.leaks()
        if found:
            raise HarnessError(f"{found[0]}; the link fabric would not be believed")

    async def create_topics(self, topics: Sequence[TopicDefinition]) -> None:
        for topic in topics:
            command = self._system.topic_command(topic, self._running_environment())
            if command:
                await self._use_tool(command, f"topic {topic.name!r} was not created; see [[topics]]")
            else:
                await super().create_topics([topic])

    async def _use_tool(self, command: Sequence[str], refused: str) -> None:
        """Raises HarnessError that begins with `refused` if the command fails or does not end in time."""
        log = self._run / "nodes" / "tool" / "log"
        process = await self._spawner.spawn(command, log=log)
        try:
            async with asyncio.timeout(_TOOL_S):
                code = await process.wait()
        except TimeoutError:
            kill(process)
            await process.wait()
            raise HarnessError(f"{refused}, and {log}: Kafka's tool did not end within {_TOOL_S:g} s") from None
        if code:
            raise HarnessError(f"{refused}, and {log}: Kafka's tool ended with code {code}")

    async def stop(self) -> None:
        """Stops coordination service and fabric last, so that no broker spends its shutdown on elections."""
        for node in self._processes:
            self._lives.to_end(node)
        for node, process in sorted(self._processes.items(), key=lambda item: item[0] not in self.brokers):
            kill(process)
            await process.wait()
            self._processes.pop(node)
        await asyncio.gather(*self._watches.values())
        self._watches.clear()
        await self._fabric.stop()
        if self._observation is not None:
            self._observation.close()
        if self._addresses is not None:
            self._addresses.release()
            self._addresses = self._environment = None

    # -- CanCrash -----------------------------------------------------------------------------------------------------

    def is_running(self, node: NodeId) -> bool:
        process = self._processes.get(node)
        return process is not None and process.returncode is None

    async def kill(self, node: NodeId) -> Evidence:
        down = self._down_already(node, "SIGKILL")
        if down is not None:
            return down
        process = self._process(node)
        self._is_to_end(node, by=signal.SIGKILL)
        kill(process)
        await self._gone(node)
        gone = f"process {process.pid} of {self._name(node)} is gone after SIGKILL"
        return self._down_already(node, "SIGKILL") or self._seen(gone)

    async def shut_down(self, node: NodeId) -> Evidence:
        down = self._down_already(node, "SIGTERM")
        if down is not None:
            return down
        process = self._process(node)
        self._is_to_end(node)
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        async with self._in_time_to_stop(node):
            await self._gone(node)
        ended = f"process {process.pid} of {self._name(node)} ended by itself with code {process.returncode}"
        return self._down_already(node, "SIGTERM") or self._seen(ended)

    def _is_to_end(self, node: NodeId, *, by: int | None = None) -> None:
        """Before it is sent a signal. Where none reaches it any more, its end is its own."""
        if state_of(self._process(node).pid) not in _ENDED:
            self._lives.to_end(node, by=by)

    async def _gone(self, node: NodeId) -> None:
        """Returns when its process has ended and that was noted."""
        await asyncio.shield(self._watches[node])

    async def start_node(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            return self._seen(f"{self._name(node)} was running already, as process {self._process(node).pid}")
        refused = await self._launch_and_wait(node)
        self._runs(node)
        pid = self._process(node).pid
        return self._seen(f"{self._name(node)} runs as process {pid} and listens{after_refusals(refused)}")

    async def _launch(self, node: NodeId) -> None:
        await self._spawn(node)

    def whereabouts(self) -> list[dict[str, Any]]:
        """Each node's process, folders, and the address at which this machine reaches it, for other programs."""
        environment = self._running_environment()
        found = []
        for node in self.nodes:
            folders = self._folders(node.node)
            found.append(
                {
                    "node": int(node.node),
                    "role": node.role,
                    "name": node.name,
                    "process": self._process(node.node).pid,
                    "address": f"{environment.harness_reaches(node.node)}:{self._port_of(node.node)}",
                    "data": str(folders.data),
                    "log": str(folders.log),
                }
            )
        return found

    # -- CanPause -----------------------------------------------------------------------------------------------------

    async def pause(self, node: NodeId) -> Evidence:
        return await self._signal(node, signal.SIGSTOP, stopped=True)

    async def resume(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            with contextlib.suppress(AlreadyDown):
                return await self._signal(node, signal.SIGCONT, stopped=False)
        return self._seen(f"{self._name(node)} is not running any more")

    async def _signal(self, node: NodeId, number: signal.Signals, *, stopped: bool) -> Evidence:
        pid = self._process(node).pid
        words = f"{self._name(node)} is not running: process {pid} has ended by itself{self._why(node)}"
        if state_of(pid) in ("", "Z"):  # nobody has told us yet
            raise AlreadyDown(words)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            raise AlreadyDown(words) from None

        async def changed() -> bool:
            return (state_of(pid) == "T") == stopped

        await self._until(changed, f"process {pid} takes {number.name}", [node])
        return self._seen(f"process {pid} of {self._name(node)} is in state {state_of(pid)} after {number.name}")

    # -- CanCutLinks, CanSlowLinks, LeakCheck -------------------------------------------------------------------------

    async def _cut_links(self, links: Sequence[Link], *, mode: Literal["hang", "reset"]) -> Evidence:
        seen = await self._fabric.command("cut", [str(link) for link in links], mode=mode)
        self._refuse_leaks()
        still = sum(each["connections"] for each in seen.values())
        how = "bytes wait" if mode == "hang" else "connections are reset"
        assert all(each["cut"] for each in seen.values()), "the fabric has not executed the command"
        return self._seen(f"{link_names(links)} cut, {how}, {still} connections held")

    async def _heal_links(self, links: Sequence[Link], *, mode: Literal["resume", "reset"]) -> Evidence:
        before = await self._fabric.command("look", [str(link) for link in links])
        seen = await self._fabric.command("heal", [str(link) for link in links], mode=mode)
        assert not any(each["cut"] for each in seen.values()), "the fabric has not executed the command"
        passed = sum(seen[name]["bytes"] - before[name]["bytes"] for name in seen)
        self._refuse_leaks()
        return self._seen(f"{link_names(links)} pass again ({mode}), {passed} bytes so far")

    async def _slow_links(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        await self._fabric.command("slow", [str(link) for link in links], delay_ms=delay_ms)
        what = f"delay every byte by {delay_ms:g} ms" if delay_ms else "pass without delay again"
        return self._seen(f"{link_names(links)} {what}")

    def leaks(self) -> Sequence[str]:
        environment = self._running_environment()
        running = {self._name(node): process.pid for node, process in self._processes.items() if self.is_running(node)}
        real = {node.name: environment.listens_at(node.node) for node in self.nodes}
        return leaks(running, real, peer_ports={environment.internal_port, environment.controller_port})

    def _refuse_leaks(self) -> None:
        found = self.leaks()
        if found:
            raise HarnessError(f"{found[0]}; a cut would not be what it says")

    # -- HasDisks -----------------------------------------------------------------------------------------------------

    async def wipe(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            raise HarnessError(f"{self._name(node)} is running; kill it before its disk is wiped")
        removed = empty(self._folders(node).data, top=self._top(node))
        await self._system.restore(node, self._running_environment())
        sentence = f"data directory of {self._name(node)} is empty, {removed} bytes removed"
        return self._seen(sentence, node=node, extent="disk")

    # -- internal ---------------------------------------------------------------------------------------------------

    async def spawn_worker(self, arguments: Sequence[str], *, log: Path) -> asyncio.subprocess.Process:
        """Starts a client process of the run, owned like its nodes."""
        return await self._spawner.spawn_worker(arguments, log=log)

    def _routes(self, environment: NodeEnvironment) -> list[Route]:
        routes: list[Route] = []
        for link in self.links():
            if link.source is not None:
                listen = environment.reached_at(link.source, link.target)
                ports = list(self._system.peer_ports(link.target, environment))
            else:
                assert link.client is not None, "a link without a source is a client's"
                listen, ports = (
                    environment.client_reaches(link.client, link.target),
                    [environment.client_port(link.client)],
                )
            at = environment.listens_at(link.target)
            routes.extend(Route(link=str(link), listen=(listen, port), target=(at, port)) for port in ports)
        return routes

    async def _spawn(self, node: NodeId) -> asyncio.subprocess.Process:
        self._starts_logging(node)
        process = await self._spawner.spawn(
            self._system.command(node, self._running_environment()),
            log=self._folders(node).log,
            environment={"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._processes[node] = process
        self._watches[node] = asyncio.create_task(self._watch(node, process), name=f"end of node {node}")
        return process

    async def _watch(self, node: NodeId, process: asyncio.subprocess.Process) -> None:
        self._has_ended(node, await process.wait())

    def _ended(self, node: NodeId) -> str | None:
        process = self._processes.get(node)
        return None if process is None or process.returncode is None else f"ended with code {process.returncode}"

    def _process(self, node: NodeId) -> asyncio.subprocess.Process:
        if not self.is_running(node):
            raise HarnessError(f"{self._name(node)} is not running")
        return self._processes[node]


class RunningCluster(LocalCluster):
    """The owner's running cluster as one run sees it. Broker events before `began_ns` are left out."""

    __slots__ = ("_began_ns",)  # everything else is the owner's: the same processes, links and connections

    def __init__(self, owner: LocalCluster, *, began_ns: int) -> None:
        self.__dict__ = owner.__dict__
        self._began_ns = began_ns

    async def start(self) -> None:
        """It runs."""

    async def stop(self) -> None:
        """Its owner stops it."""

    def node_ends(self) -> Sequence[NodeEnd]:
        """What struck the cluster before this run is not known to it."""
        return [dataclasses.replace(end, fresh=False) for end in super().node_ends()]

    def collect(self) -> ClusterHistory:
        history = super().collect()
        events = [event for event in history.broker_events if event.t_ns >= self._began_ns]
        return dataclasses.replace(history, broker_events=events)
