"""A simulated cluster as a run sees it: the same faults and the same proofs as of processes, of objects in one loop."""

import asyncio
import logging
import signal
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from harness.cluster.base_cluster import BrokerCluster, link_names
from harness.cluster.brokers.system import System
from harness.cluster.confined import empty
from harness.cluster.replica_logs import log_ends
from harness.cluster.simulated.disks import CrashPoint, Failure, NodeDisk
from harness.cluster.simulated.environment import SimulatedEnvironment
from harness.cluster.simulated.invariants import Invariants
from harness.cluster.simulated.loop import SimulatedLoop
from harness.cluster.simulated.machines import Machine, begun_on, context_on
from harness.cluster.simulated.nodes import RunningNode, begun_broker, begun_coordination
from harness.errors import HarnessError
from harness.host.clock import Clock
from harness.ports.capabilities import Place
from harness.ports.cluster import COORDINATION, Evidence, Link, NodeId
from harness.ports.faults import AlreadyDown, NothingToStrike, joined
from harness.ports.requests import API_KEYS, Requests
from reference_impl.runtime.broker import Broker

_logger = logging.getLogger("reference_impl")
_FAILED = 1  # as its process would exit


@dataclass(frozen=True, kw_only=True, eq=False)
class _Life:
    """One life of a node, from its start to its end."""

    machine: Machine
    beginning: "asyncio.Task[RunningNode]"
    gone: "asyncio.Future[None]"


class SimulatedCluster(BrokerCluster):
    """Implements Cluster, and the capabilities that its methods are. Before `start`, only its nodes, links and records
    can be asked for; it starts in a SimulatedLoop alone."""

    def __init__(self, *, run_path: Path, system: System, client_links: int, clock: Clock) -> None:
        super().__init__(run_path=run_path, system=system, client_links=client_links, clock=clock)
        self._starts = 0
        self._lives_now: dict[NodeId, _Life] = {}
        self._codes: dict[NodeId, int] = {}  # of nodes that have ended
        self._stopping: dict[NodeId, asyncio.Task[None]] = {}  # each that is under way
        self._disks: dict[NodeId, NodeDisk] = {}
        self._endings: dict[asyncio.Task[Any], None] = {}
        self.invariants = Invariants(clock)

    @property
    def _loop(self) -> SimulatedLoop:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, SimulatedLoop):
            raise HarnessError("a simulated cluster is there within its run alone; use --world local")
        return loop

    # -- Cluster ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._loop.after_each_turn = self.invariants.look
        environment = self._environment = SimulatedEnvironment(
            nodes_folder=self._run / "nodes",
            client_links=self._client_links,
            chance=self._loop.chance("cluster"),
        )
        for link in self.links():
            self._loop.network.route(
                environment.address_of(link),
                link=str(link),
                to=environment.listens_at(link.target),
                is_kafka=link.target in self.brokers,
            )
        await self._system.prepare(environment)
        self._observation = self._system.observation(environment, is_running=self.is_running, clock=self._clock)
        await self._start_in_stages()

    async def stop(self) -> None:
        """Brokers first, so that none of them spends its end on elections."""
        for node, life in sorted(self._lives_now.items(), key=lambda each: each[0] not in self.brokers):
            if self._lives_now.get(node) is life:  # it may have failed meanwhile
                self._lives.to_end(node)
                await self._abandon(node, life, code=-signal.SIGKILL)
        await asyncio.gather(*self._endings)
        if self._observation is not None:
            self._observation.close()
        for disk in self._disks.values():
            disk.close()
        self._disks.clear()
        self._environment = None

    # -- nodes: CanCrash, CanStop, CanPause ---------------------------------------------------------------------------

    def is_running(self, node: NodeId) -> bool:
        return node in self._lives_now

    def _ended(self, node: NodeId) -> str | None:
        return f"ended with code {self._codes[node]}" if node in self._codes else None

    async def kill(self, node: NodeId) -> Evidence:
        down = self._down_already(node, "SIGKILL")
        if down is not None:
            return down
        life = self._life(node)
        self._lives.to_end(node, by=signal.SIGKILL)
        await self._abandon(node, life, code=-signal.SIGKILL)
        return self._seen(f"{self._name(node)} is gone, as after SIGKILL")

    async def shut_down(self, node: NodeId) -> Evidence:
        down = self._down_already(node, "SIGTERM")
        if down is not None:
            return down
        life = self._life(node)
        self._lives.to_end(node)
        async with self._in_time_to_stop(node):
            by_itself = await self._stops(node, life)
        if by_itself:
            return self._seen(f"{self._name(node)} ended by itself, as after SIGTERM")
        ended = f"{self._name(node)} ended for another reason than SIGTERM, before it had stopped"
        return self._down_already(node, "SIGTERM") or self._seen(ended)

    async def _stops(self, node: NodeId, life: _Life) -> bool:
        """Whether it ends by itself: something else may end it meanwhile. One stop is waited for by all who ask."""
        await _over(life.beginning)
        if self._lives_now.get(node) is not life:
            return False
        stopping = self._stopping.get(node)
        if stopping is None:
            stopping = self._stopping[node] = begun_on(life.machine, life.beginning.result().stop())
            stopping.add_done_callback(lambda task: self._has_stopped(node, life, task))
        await _over(stopping)
        if stopping.cancelled():
            return False
        stopping.result()
        return True

    async def start_node(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            return self._seen(f"{self._name(node)} was running already")
        await self._launch_and_wait(node)
        self._runs(node)
        return self._seen(f"{self._name(node)} runs and listens")

    async def pause(self, node: NodeId) -> Evidence:
        if node in self._codes:
            raise AlreadyDown(f"{self._name(node)} is not running: it has {self._ended(node)}{self._why(node)}")
        self._loop.stand_still(self._life(node).machine)
        return self._seen(f"nothing of {self._name(node)} runs any more, as after SIGSTOP")

    async def resume(self, node: NodeId) -> Evidence:
        if not self.is_running(node):
            return self._seen(f"{self._name(node)} is not running any more")
        self._loop.go_on(self._life(node).machine)
        return self._seen(f"{self._name(node)} goes on")

    # -- CanCutLinks, CanSlowLinks ------------------------------------------------------------------------------------

    async def _cut_links(self, links: Sequence[Link], *, mode: Literal["hang", "reset"]) -> Evidence:
        connections = sum(self._loop.network.cut(str(link), mode) for link in links)
        how = "bytes wait" if mode == "hang" else "connections are reset"
        return self._seen(f"{link_names(links)} cut, {how}, {connections} connections held")

    async def _heal_links(self, links: Sequence[Link], *, mode: Literal["resume", "reset"]) -> Evidence:
        for link in links:
            self._loop.network.heal(str(link), reset=mode == "reset")
        return self._seen(f"{link_names(links)} pass again ({mode})")

    async def _slow_links(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        for link in links:
            self._loop.network.slow(str(link), delay_ms / 1000)
        what = f"delay every byte by {delay_ms:g} ms" if delay_ms else "pass without delay again"
        return self._seen(f"{link_names(links)} {what}")

    # -- CanHoldRequests ----------------------------------------------------------------------------------------------

    async def strike_requests(self, links: Sequence[Link], requests: Requests) -> Evidence:
        self._loop.network.strike([str(link) for link in links], requests)
        what = "are lost, and end their connections" if requests.lost else "wait"
        return self._seen(f"{requests.described()} on {link_names(links)}: they {what}")

    async def pass_requests(self, links: Sequence[Link], requests: Requests) -> Evidence:
        struck, passed = self._loop.network.let_pass([str(link) for link in links], requests)
        what = f"{struck} were lost" if requests.lost else f"{struck} were held, and {passed} go on now"
        return self._seen(f"{requests.described()} on {link_names(links)} pass again; {what}")

    async def requested(self, request: str, nth: int) -> None:
        await self._loop.network.requested(API_KEYS[request], nth)

    # -- CanFillDisks, CanLoseUnsynced, CanCrashAtWrites, CanFailWrites -----------------------------------------------

    async def fill_disk(self, node: NodeId) -> Evidence:
        self._disk(node).is_full = True
        return self._seen(f"no byte is free on the disk of {self._name(node)}: whatever takes room is refused")

    async def free_disk(self, node: NodeId) -> Evidence:
        self._disk(node).is_full = False
        return self._seen(f"there is room again on the disk of {self._name(node)}")

    async def lose_unsynced(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            raise HarnessError(f"{self._name(node)} is running; kill it before it loses what it never synced")
        data = self._folders(node).data
        before = log_ends(data)
        self.invariants.loses(node)
        self._disk(node).lose_unsynced(self._loop.chance(f"power/{node}/{self._starts}"))
        after = log_ends(data)
        lost = [
            self._seen(
                f"the log of {topic}-{partition} ends at {after.get((topic, partition), 0)} and no longer at {end}",
                node=node,
                extent="tail",
                topic=topic,
                partition=partition,
                from_offset=after.get((topic, partition), 0),
            )
            for (topic, partition), end in before.items()
            if after.get((topic, partition), 0) < end
        ]
        what = self._seen(f"what {self._name(node)} had not synced is gone; {len(lost)} of its logs are shorter")
        return joined([what, *lost]) if lost else replace(what, only="kill")

    async def kill_at_write(self, node: NodeId, *, nth: int, torn: bool, within_s: float) -> Evidence:
        life, disk = self._life(node), self._disk(node)
        struck: asyncio.Future[str] = self._loop.create_future()

        def strike(what: str) -> None:
            self._loop.stand_still(life.machine)
            if not struck.done():
                struck.set_result(what)

        disk.crash_point = CrashPoint(nth=nth, torn=torn, strike=strike)
        either: list[asyncio.Future[Any]] = [struck, life.gone]
        try:
            await asyncio.wait(either, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            disk.crash_point = None
        if not struck.done():
            when = "before it ended" if life.gone.done() else f"in {within_s:g} s"
            raise NothingToStrike(f"{self._name(node)} had not changed its disk {nth} times {when}")
        evidence = await self.kill(node)
        disk.crashed()
        return replace(evidence, sentence=f"{evidence.sentence}, before {struck.result()}")

    async def fail_at_write(self, node: NodeId, *, nth: int, within_s: float) -> Evidence:
        life, disk = self._life(node), self._disk(node)
        failed = asyncio.Event()

        def strike() -> None:
            if not failed.is_set():
                failed.set()
                self._lives.to_end(node)

        disk.failure = Failure(nth=nth, strike=strike)
        try:
            await asyncio.wait([life.gone], timeout=within_s)
        finally:
            disk.failure = None
        if not failed.is_set():
            when = "before it ended" if life.gone.done() else f"in {within_s:g} s"
            raise NothingToStrike(f"{self._name(node)} had not changed its disk {nth} times {when}")
        if not life.gone.done():
            raise HarnessError(
                f"{self._name(node)} has not ended in {within_s:g} s, though its disk refuses every write"
            )
        return self._seen(f"the disk of {self._name(node)} refused a write (EIO), and it ended")

    def _disk(self, node: NodeId) -> NodeDisk:
        """All that is there when it is first asked for was put there by the harness."""
        if node not in self._disks:
            disk = self._disks[node] = NodeDisk(self._folders(node).data.resolve())
            disk.adopt()
        return self._disks[node]

    async def lose_tail(self, node: NodeId, topic: str, partition: int, *, records: int) -> Evidence:
        self.invariants.loses(node)
        lost = await super().lose_tail(node, topic, partition, records=records)
        self._disk(node).adopt()
        return lost

    async def damage(self, node: NodeId, topic: str, partition: int, *, at: Place) -> Evidence:
        self.invariants.loses(node)
        done = await super().damage(node, topic, partition, at=at)
        self._disk(node).adopt()
        return done

    # -- CanWipe ------------------------------------------------------------------------------------------------------

    async def wipe(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            raise HarnessError(f"{self._name(node)} is running; kill it before its disk is wiped")
        self.invariants.loses(node)
        removed = empty(self._folders(node).data, top=self._top(node))
        await self._system.restore(node, self._running_environment())
        self._disk(node).adopt()
        sentence = f"data directory of {self._name(node)} is empty, {removed} bytes removed"
        return self._seen(sentence, node=node, extent="disk")

    # -- internal -----------------------------------------------------------------------------------------------------

    async def _launch(self, node: NodeId) -> None:
        folders = self._folders(node)
        folders.data.mkdir(parents=True, exist_ok=True)
        self._starts_logging(node)
        self._starts += 1
        work: Coroutine[Any, Any, RunningNode]
        if node == COORDINATION:
            work = begun_coordination(folders, self._clock)
        else:
            work = begun_broker(folders, self._clock, self._loop.chance(f"node/{node}/{self._starts}"))
        self._begins(node, work)

    def _begins(self, node: NodeId, work: Coroutine[Any, Any, RunningNode]) -> None:
        machine = Machine(name=self._name(node), log=self._folders(node).log, disk=self._disk(node))
        self._codes.pop(node, None)
        gone: asyncio.Future[None] = self._loop.create_future()
        life = self._lives_now[node] = _Life(machine=machine, beginning=begun_on(machine, work), gone=gone)
        life.beginning.add_done_callback(lambda task: self._has_begun(node, life, task))

    def _has_begun(self, node: NodeId, life: _Life, task: "asyncio.Task[RunningNode]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            why = f"{type(error).__name__}: {error}"
            context_on(life.machine).run(_logger.critical, "%s cannot start: %s", self._name(node), why)
            self._has_gone(node, life, code=_FAILED)
        elif not task.cancelled():
            begun = task.result()
            if isinstance(begun, Broker) and self._lives_now.get(node) is life:
                self.invariants.begins(node, begun.replicas)
            begun.failed.add_done_callback(lambda _: self._fails(node, life))

    def _has_stopped(self, node: NodeId, life: _Life, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is None:
            self._has_gone(node, life, code=0)

    def _fails(self, node: NodeId, life: _Life) -> None:
        """It cannot work any more, as a process that halts."""
        if self._lives_now.get(node) is life:
            ending = self._loop.create_task(self._abandon(node, life, code=_FAILED))
            self._endings[ending] = None
            ending.add_done_callback(self._forget_ending)

    def _forget_ending(self, task: "asyncio.Task[Any]") -> None:
        """What went wrong in it is heard at the run's end."""
        if not task.cancelled() and task.exception() is None:
            del self._endings[task]

    async def _abandon(self, node: NodeId, life: _Life, *, code: int) -> None:
        """What a machine that stands still has not done yet, it does no more: first it hears that it ends. A stop that
        is under way ends with it. A life that is over has been abandoned already."""
        if self._lives_now.get(node) is not life:
            return
        stopping = self._stopping.get(node)
        self._has_gone(node, life, code=code)
        if not life.beginning.done():
            life.beginning.cancel()
            self._loop.go_on(life.machine)
            await asyncio.wait([life.beginning])
            return
        standing = self._loop.is_standing(life.machine)
        if stopping is not None:
            stopping.cancel()
        ending = begun_on(life.machine, life.beginning.result().abandon())
        if standing:
            self._loop.end_standing(life.machine)
        await ending
        if stopping is not None:
            await _over(stopping)

    def _has_gone(self, node: NodeId, life: _Life, *, code: int) -> None:
        if self._lives_now.get(node) is life:
            del self._lives_now[node]
            self._stopping.pop(node, None)
            self._codes[node] = code
            self.invariants.ends(node)
            life.gone.set_result(None)
            self._has_ended(node, code)

    def _life(self, node: NodeId) -> _Life:
        if not self.is_running(node):
            raise HarnessError(f"{self._name(node)} is not running")
        return self._lives_now[node]


async def _over(task: "asyncio.Task[Any]") -> None:
    """Returns when it has ended, however: whoever waits is not cancelled with it, nor it with him."""
    if not task.done():
        await asyncio.wait([task])
