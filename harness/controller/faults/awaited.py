"""How a schedule waits for a trigger: by what observers see of partitions, what was acknowledged, and who was started.

Each is compared with what was seen when the waiting for it began, so that a trigger which begins a fault several times
needs something new each time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from faults.triggers import Trigger, TriggerKind
from harness.controller.context import RunContext
from harness.controller.faults.in_force import FaultsInForce
from harness.ports.cluster import NodeId, ShowsLogs
from harness.ports.requests import CanHoldRequests

Wait = Callable[[Trigger], Awaitable[None]]


class Awaited:
    """The triggers of one play of a schedule; times are counted since `began_ns`."""

    def __init__(self, context: RunContext, in_force: FaultsInForce, *, began_ns: int) -> None:
        self._context = context
        self._in_force = in_force
        self._began_ns = began_ns
        self._waits: Mapping[TriggerKind, Wait] = {
            "acks": self._acks,
            "more_acks": self._more_acks,
            "elapsed": self._elapsed,
            "restarted": self._restarted,
            "new_leader": self._new_leader,
            "no_leader": self._no_leader,
            "epoch_change": self._epoch_change,
            "isr_at_most": self._isr_at_most,
            "isr_at_least": self._isr_at_least,
            "isr_shrinks": self._isr_shrinks,
            "isr_grows": self._isr_grows,
            "truncated": self._truncated,
            "request": self._request,
        }

    async def all_of(self, parts: Sequence[Trigger]) -> None:
        """Returns when each was seen, one after the other."""
        for part in parts:
            await self._waits[part.kind](part)

    async def _acks(self, trigger: Trigger) -> None:
        await self._context.acks.wait_for(trigger.count)

    async def _more_acks(self, trigger: Trigger) -> None:
        await self._context.acks.wait_for(self._context.acks.ok + trigger.count)

    async def _elapsed(self, trigger: Trigger) -> None:
        elapsed_s = (self._context.clock.monotonic_ns() - self._began_ns) / 1e9
        await asyncio.sleep(max(0.0, trigger.after_s - elapsed_s))

    async def _request(self, trigger: Trigger) -> None:
        """That one leaves its sender; preflight refuses it where nobody sees that."""
        cluster = self._context.cluster
        assert isinstance(cluster, CanHoldRequests)
        await cluster.requested(trigger.request, max(trigger.count, 1))

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._context.observer.next_round()

    async def _restarted(self, trigger: Trigger) -> None:
        before = self._in_force.starts
        await self._until(lambda: self._in_force.starts > before)

    # -- partitions, as they are seen ---------------------------------------------------------------------------------

    async def _new_leader(self, trigger: Trigger) -> None:
        """Another one than leads now or, where nobody does, than led last."""
        observer = self._context.observer
        first = observer.leader(trigger.topic, trigger.partition)
        if first == -1:
            first = observer.last_leader(trigger.topic, trigger.partition)
        while True:
            leader = observer.leader(trigger.topic, trigger.partition)
            if leader not in (-1, first) and first != -1:
                return
            first = leader if first == -1 else first
            await observer.next_round()

    async def _no_leader(self, trigger: Trigger) -> None:
        observer = self._context.observer
        state = observer.state
        await self._until(
            lambda: (
                state(trigger.topic, trigger.partition) is not None
                and observer.leader(trigger.topic, trigger.partition) == -1
            )
        )

    async def _epoch_change(self, trigger: Trigger) -> None:
        await self._until(lambda: self._epoch(trigger) >= 0)
        before = self._epoch(trigger)
        await self._until(lambda: self._epoch(trigger) > before)

    def _epoch(self, trigger: Trigger) -> int:
        state = self._context.observer.state(trigger.topic, trigger.partition)
        return -1 if state is None else state.leader_epoch

    def _in_sync(self, trigger: Trigger) -> int:
        return len(self._context.observer.isr(trigger.topic, trigger.partition))

    async def _isr_at_most(self, trigger: Trigger) -> None:
        await self._until(lambda: 0 < self._in_sync(trigger) <= trigger.count)

    async def _isr_at_least(self, trigger: Trigger) -> None:
        await self._until(lambda: self._in_sync(trigger) >= trigger.count)

    async def _isr_shrinks(self, trigger: Trigger) -> None:
        """A member less than were seen since the waiting began: one that joins and leaves again counts."""
        most = self._in_sync(trigger)
        while not 0 < self._in_sync(trigger) < most:
            most = max(most, self._in_sync(trigger))
            await self._context.observer.next_round()

    async def _isr_grows(self, trigger: Trigger) -> None:
        least = self._in_sync(trigger) or 1
        while self._in_sync(trigger) <= least:
            least = min(least, self._in_sync(trigger) or least)
            await self._context.observer.next_round()

    async def _truncated(self, trigger: Trigger) -> None:
        """A replica's log ends sooner than a round before, as its files show; never, where none are shown."""
        cluster = self._context.cluster
        ends: dict[NodeId, int] = {}
        while True:
            if isinstance(cluster, ShowsLogs):
                for node in cluster.nodes:
                    if node.role != "broker":
                        continue
                    end = await asyncio.to_thread(cluster.log_end, node.node, trigger.topic, trigger.partition)
                    if end is not None and end < ends.get(node.node, end):
                        return
                    ends[node.node] = end if end is not None else ends.get(node.node, 0)
            await self._context.observer.next_round()
