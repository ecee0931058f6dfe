"""The faults in force: every harm is recorded before it begins, proved when it is seen, and undone whatever happens.

Both kinds of plan go through here, so a fault is written down in one way: asked, begun with a proof, end asked, ended
with a proof. What a replica's disk held is read before anything can cut it: after a kill, before a heal or a resume.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from harness.controller.context import RunContext
from harness.errors import HarnessError
from harness.interfaces import Evidence, NodeId

Deed = Callable[[], Awaitable[Evidence]]

_AFTER = ("kill", "stop")  # these leave a still disk behind: read it once they are done
_BEFORE_END = ("cut", "slow", "pause")  # healing lets a replica learn of its successor and cut its log


@dataclass(kw_only=True)
class FaultInForce:
    number: int
    kind: str
    nodes: tuple[NodeId, ...]
    links: str
    end: Deed
    promise: int  # the run's promise to heal it


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
        evidence = await begin()
        fault.links = links()
        context.recorder.fault_begun(number, evidence, links=fault.links)
        if kind in _AFTER:
            for node in nodes:
                await context.snapshot("kill", node)
        return fault

    async def end(self, fault: FaultInForce) -> None:
        """Undoes it and returns when that was seen; a fault already ended is left alone."""
        if fault not in self._faults:
            return
        context = self._context
        if fault.kind in _BEFORE_END:
            for node in fault.nodes:
                await context.snapshot("heal", node)
        context.recorder.fault_end_asked(fault.number)
        evidence = await fault.end()
        self.ended(fault, evidence)

    def ended(self, fault: FaultInForce, evidence: Evidence) -> None:
        """It is over, as `evidence` shows, by whatever ended it."""
        self._faults.remove(fault)
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
