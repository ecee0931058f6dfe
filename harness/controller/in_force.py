"""The faults in force: every harm is recorded before it begins, proved when it is seen, and undone whatever happens.

Both kinds of plan go through here, so a fault is written down in one way: asked, begun with a proof, end asked, ended
with a proof. What a replica's disk held is read before anything can cut it: after a kill, before a heal or a resume.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from harness.controller.context import RunContext
from harness.errors import HarnessError
from harness.interfaces import Evidence, NodeId

Deed = Callable[[], Awaitable[Evidence]]

_LOSE_SOMETHING = ("wipe", "damage")  # read what is there before
_DOWN = ("kill", "stop")  # these leave a still disk behind: read it once they are done
# Healing lets a replica learn of its successor and cut its log.
_BEFORE_END = ("cut", "slow", "impair", "pause", "full")


@dataclass(kw_only=True)
class FaultInForce:
    number: int
    kind: str
    nodes: tuple[NodeId, ...]
    links: str
    end: Deed
    promise: int  # the run's promise to heal it
    ending: asyncio.Lock = field(default_factory=asyncio.Lock)  # `for`, a step and the run may all want to end it
    over: asyncio.Event = field(default_factory=asyncio.Event)


class FaultsInForce:
    """What has been begun and not yet ended, newest last."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._faults: list[FaultInForce] = []

    def all(self) -> list[FaultInForce]:
        return list(self._faults)

    async def begin(
        self,
        *,
        kind: str,
        label: str,
        nodes: Sequence[NodeId],
        begin: Deed,
        end: Deed,
        links: Callable[[], str] = str,
        trigger: str = "",
        step: int | None = None,
    ) -> FaultInForce:
        """Begins the harm and returns when it was seen. `links` is asked afterwards, when the fault knows them."""
        context = self._context
        number = context.recorder.fault_asked(kind=kind, label=label, nodes=nodes, trigger=trigger, step=step)

        async def heal() -> None:
            await self.end(fault)

        promise = context.heal_later(label, heal)
        fault = FaultInForce(number=number, kind=kind, nodes=tuple(nodes), links="", end=end, promise=promise)
        self._faults.append(fault)
        if kind in _LOSE_SOMETHING:
            for node in nodes:
                if not self.of_node(node, _DOWN):  # else it was read when it went down
                    await context.snapshot("wipe", node)
        evidence = await begin()
        fault.links = links()
        context.recorder.fault_begun(number, evidence, links=fault.links)
        if kind in _DOWN:
            for node in nodes:
                await context.snapshot("kill", node)
        return fault

    async def end(self, fault: FaultInForce) -> None:
        """Undoes it and returns when that was seen; a fault already ended is left alone."""
        async with fault.ending:
            if fault not in self._faults:
                return
            context = self._context
            unread: HarnessError | None = None
            if fault.kind in _BEFORE_END:
                for node in fault.nodes:
                    try:
                        await context.snapshot("heal", node)
                    except HarnessError as error:  # healing comes first, whatever cannot be read
                        unread = error
            context.recorder.fault_end_asked(fault.number)
            self.ended(fault, await fault.end())
            if unread is not None:
                raise unread

    def ended(self, fault: FaultInForce, evidence: Evidence) -> None:
        """It is over, as `evidence` shows, by whatever ended it."""
        self._faults.remove(fault)
        fault.over.set()
        self._context.healed(fault.promise)
        self._context.recorder.fault_ended(fault.number, evidence)

    def of_node(self, node: NodeId, kinds: Sequence[str]) -> list[FaultInForce]:
        return [fault for fault in self._faults if node in fault.nodes and fault.kind in kinds]

    def one(self, node: NodeId, kind: str) -> FaultInForce:
        """The one fault of that kind on the node. Raises HarnessError when there is none to undo."""
        found = self.of_node(node, (kind,))
        if not found:
            raise HarnessError(f"node {node} has no {kind} in force that could be undone")
        return found[-1]
