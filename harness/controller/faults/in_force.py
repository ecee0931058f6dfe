"""The faults in force: each is recorded before it begins, proved when its effect is seen, and always undone.

Both kinds of plan use this module, so every fault is recorded in the same way: planned, asked, begun with a proof, end
asked, ended with a proof. A replica's disk is read before anything can truncate it: before a disk is harmed, after a
node went down, before links are healed, a process is resumed or a disk is freed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from harness.controller.context import RunContext
from harness.errors import HarnessError, in_a_line
from harness.ports.capabilities import CountsLinkFaults
from harness.ports.cluster import CanCrash, CanStop, Evidence, Link, NodeId
from harness.ports.faults import Fault, State, Struck, Undo


@dataclass(frozen=True, kw_only=True)
class Occasion:
    """Why a fault begins. planned_ns: its planned time; scheduled: its index in the schedule; step: in the steps."""

    planned_ns: int
    trigger: str = ""
    scheduled: int | None = None
    step: int | None = None


@dataclass(kw_only=True, eq=False)
class FaultInForce:
    number: int
    fault: Fault
    struck: Struck
    label: str
    promise: int  # the number that `heal_later` returned
    effect_ns: int | None = None  # since when its effect was seen
    released: bool = False  # it holds its victims no longer: its time is over, or it could not begin
    ending: asyncio.Lock = field(default_factory=asyncio.Lock)  # `for`, a step and the run may end it at the same time
    begun: asyncio.Event = field(default_factory=asyncio.Event)  # or could not begin; what it left was read
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return self.struck.nodes


class FaultsInForce:
    """The faults that have begun and not yet ended, newest last."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._faults: list[FaultInForce] = []
        self._starting: defaultdict[NodeId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.starts = 0  # how often a node was started that a fault had taken down

    def all(self) -> list[FaultInForce]:
        return list(self._faults)

    def ask(self, fault: Fault, struck: Struck, *, label: str, occasion: Occasion) -> FaultInForce:
        """Records that the fault is about to begin: from now on its victims count as hit for other faults."""
        number = self._context.recorder.fault_asked(
            kind=fault.kind,
            label=label,
            nodes=struck.nodes,
            trigger=occasion.trigger,
            step=occasion.step,
            planned_ns=occasion.planned_ns,
            scheduled=occasion.scheduled,
        )

        async def heal() -> None:
            await self.end(asked)

        promise = self._context.heal_later(label, heal)
        asked = FaultInForce(number=number, fault=fault, struck=struck, label=label, promise=promise)
        self._faults.append(asked)
        return asked

    async def begin(self, asked: FaultInForce) -> None:
        """Begins the fault and returns when its effect was seen."""
        if asked.fault.destroys != "nothing":
            await self._read_by_others(asked)
        try:
            await self._begin(asked)
        finally:
            asked.begun.set()

    async def _read_by_others(self, asked: FaultInForce) -> None:
        """Waits for earlier faults that take a victim down: each reads its disk first, before this one harms it."""
        for each in self.all():
            if each is asked:
                return
            if each.fault.leaves == "down" and set(each.nodes) & set(asked.nodes):
                await each.begun.wait()

    async def _begin(self, asked: FaultInForce) -> None:
        context, fault, struck = self._context, asked.fault, asked.struck
        if fault.destroys != "nothing":
            for node in struck.nodes:
                if not self._in_state(node, "down", but=asked):  # otherwise it was read when it went down
                    await context.snapshot("wipe", node)
        try:
            evidence = await fault.begin(context.cluster, struck)
        except (HarnessError, OSError) as error:
            asked.released = True  # the run undoes a partial effect; other faults need not wait for it
            if isinstance(error, HarnessError):
                raise
            raise HarnessError(f"{asked.label}: {in_a_line(error)}") from error
        asked.effect_ns = evidence.t_ns
        context.recorder.fault_begun(asked.number, evidence, links=struck.links)
        if fault.leaves == "down" and (fault.destroys == "nothing" or evidence.only):
            for node in struck.nodes:
                await context.snapshot("kill", node)

    async def end(self, fault: FaultInForce) -> None:
        """Undoes the fault and returns when that was seen; does nothing if it has already ended.

        If several faults hold a node down, the last of them starts it, which ends them all.
        """
        async with fault.ending, AsyncExitStack() as starting:
            if fault.fault.undone_by == "start":
                for node in sorted(fault.nodes):
                    await starting.enter_async_context(self._starting[node])
            if fault not in self._faults:
                return
            fault.released = True
            if fault.fault.undone_by == "start":
                if not any(self._held_down(node) for node in fault.nodes):
                    await self._start(fault)
                return
            unread = await self._read_before_healing(fault)
            self._context.recorder.fault_end_asked(fault.number)
            self._ended(fault, await self._undone(fault))
            if unread is not None:
                raise unread

    async def start(self, nodes: Sequence[NodeId]) -> list[Evidence]:
        """Starts the nodes, which ends every fault that held them down."""
        return [await self._start_one(node) for node in nodes]

    async def _start_one(self, node: NodeId) -> Evidence:
        async with self._starting[node]:
            down = self._undone_by("start", node)
            if down:
                return await self._start(down[-1])
            cluster = self._context.cluster
            if not isinstance(cluster, CanCrash | CanStop):
                raise HarnessError("this cluster cannot start a node")
            return await cluster.start_node(node)

    async def _start(self, fault: FaultInForce) -> Evidence:
        down = list(dict.fromkeys(each for node in fault.nodes for each in self._undone_by("start", node)))
        for each in down:
            self._context.recorder.fault_end_asked(each.number)
        evidence = await fault.fault.end(self._context.cluster, fault.struck)
        self.starts += 1
        for each in down:
            if each in self._faults:  # the start of another of its nodes may have ended it meanwhile
                self._ended(each, evidence)
        return evidence

    async def _read_before_healing(self, fault: FaultInForce) -> HarnessError | None:
        """Healing lets a replica learn of its successor and cut its log. It comes first, whatever cannot be read."""
        unread: HarnessError | None = None
        for node in self._at_either_end(fault.struck):
            try:
                await self._context.snapshot("heal", node)
            except HarnessError as error:
                unread = error
        return unread

    def _at_either_end(self, struck: Struck) -> list[NodeId]:
        ends = {end for link in struck.links for end in (link.source, link.target)} | set(struck.nodes)
        return [node.node for node in self._context.cluster.nodes if node.role == "broker" and node.node in ends]

    async def _undone(self, fault: FaultInForce) -> Evidence:
        """Links that another fault of its kind strikes, too, stay as they are until that is over."""
        if isinstance(self._context.cluster, CountsLinkFaults):
            return await fault.fault.end(self._context.cluster, fault.struck)
        others = {
            link
            for each in self._faults
            if not each.released and each.fault.kind == fault.fault.kind
            for link in each.struck.links
        }
        own = tuple(link for link in fault.struck.links if link not in others)
        if fault.struck.links and not own:
            now = self._context.clock.monotonic_ns()
            return Evidence(t_ns=now, sentence="each of its links is struck by another fault, and stays so")
        return await fault.fault.end(self._context.cluster, replace(fault.struck, links=own))

    def _ended(self, fault: FaultInForce, evidence: Evidence) -> None:
        """It is over, as `evidence` shows, by whatever ended it."""
        self._faults.remove(fault)
        fault.over.set()
        self._context.healed(fault.promise)
        self._context.recorder.fault_ended(fault.number, evidence)

    def left_s(self, faults: Sequence[FaultInForce], for_s: float) -> float:
        """How much of the time that faults are to last is left: it counts from when their effect was seen, however long
        it took to prove."""
        now = self._context.clock.monotonic_ns()
        began_ns = max((each.effect_ns for each in faults if each.effect_ns is not None), default=now)
        return max(0.0, for_s - (now - began_ns) / 1e9)

    # -- what is in force -------------------------------------------------------------------------------------------

    def state_of(self, node: NodeId) -> State:
        """By the faults in force, and by the cluster where it sees its nodes. One that is just being started is down
        until it listens: its process runs already, and its start would fail if it was struck."""
        cluster = self._context.cluster
        if (
            self._in_state(node, "down")
            or self._starting[node].locked()
            or (isinstance(cluster, CanCrash) and not cluster.is_running(node))
        ):
            return "down"
        return "paused" if self._in_state(node, "paused") else "up"

    def lets_begin(self, fault: Fault) -> bool:
        """Whether a schedule may begin it beside what is in force: a fault that is to be alone, and the others."""
        if any(each.fault.alone for each in self._faults):
            return False
        return not fault.alone or not any(_harms_brokers(each) for each in self._faults)

    async def one_is_over(self) -> None:
        """Returns when one of the faults in force has ended."""
        waiting = [asyncio.create_task(each.over.wait()) for each in self._faults]
        assert waiting, "nothing is in force"
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    def is_starting(self, node: NodeId) -> bool:
        """Whether the end of another fault starts it just now: that would fail if the node were taken down."""
        return self._starting[node].locked()

    def _in_state(self, node: NodeId, state: State, *, but: FaultInForce | None = None) -> bool:
        asking = (each for each in self._faults if not each.released and each is not but)
        return any(node in each.nodes and each.fault.leaves == state for each in asking)

    def undone_by(self, word: Undo, node: NodeId) -> list[FaultInForce]:
        """The faults that this step would end on the node. Raises HarnessError if there is nothing to undo."""
        found = self._undone_by(word, node)
        if not found:
            raise HarnessError(f"node {node} has nothing in force that {word} could undo")
        return found

    def _undone_by(self, word: Undo, node: NodeId) -> list[FaultInForce]:
        return [each for each in self._faults if node in each.nodes and each.fault.undone_by == word]

    def _held_down(self, node: NodeId) -> bool:
        return any(not each.released for each in self._undone_by("start", node))

    def on_links(self, links: Sequence[Link]) -> list[FaultInForce]:
        """The faults that a heal of exactly these links ends."""
        return [
            each for each in self._faults if each.fault.undone_by == "heal" and set(each.struck.links) == set(links)
        ]


def _harms_brokers(fault: FaultInForce) -> bool:
    """A cut between brokers and clients, a slight delay, an election or a changed setting takes no replica away."""
    if not fault.fault.harms_replicas:
        return False
    if fault.fault.leaves == "up" and fault.struck.links:
        return any(link.client is None for link in fault.struck.links)
    return bool(fault.nodes)
