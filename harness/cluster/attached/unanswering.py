"""Brokers of somebody else's cluster that nobody of the harness ended, and that do not answer any more.

From outside an end shows only as an address where nobody listens: when it came is known to lie between the last answer
and that, and how only where the cluster's kind can tell. While a fault of the harness is not undone, nothing is
concluded: what cannot be reached then may be cut off.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import replace

from harness.cluster.attached.reachability import look_at
from harness.cluster.broker_requests import Connect
from harness.cluster.node_lives import status_and_signal
from harness.host.clock import Clock
from harness.ports.cluster import NodeEnd, NodeId


class UnansweringBrokers:
    """is_struck: whether a fault of the harness may be why it does not answer. code_of: the exit code of its process;
    None where that is not known."""

    def __init__(
        self,
        *,
        clock: Clock,
        is_struck: Callable[[NodeId], bool],
        code_of: Callable[[NodeId], Awaitable[int | None]],
        connect: Connect,
    ) -> None:
        self._clock = clock
        self._is_struck = is_struck
        self._code_of = code_of
        self._connect = connect
        self._answered_ns: dict[NodeId, int] = {}
        self._ends: list[NodeEnd] = []

    def found(self) -> Sequence[NodeEnd]:
        return tuple(self._ends)

    async def look(self, answered: Set[NodeId], addresses: Mapping[NodeId, tuple[str, int]]) -> None:
        """After a round in which every broker was asked."""
        now = self._clock.monotonic_ns()
        for node in answered:
            self._answered_ns[node] = now
            self._ends = [replace(end, back_ns=now) if _is_open(end, node) else end for end in self._ends]
        for node in self._answered_ns:
            if node not in answered and not self._is_struck(node):
                await self.has_ended(node, addresses[node])

    async def has_ended(self, node: NodeId, address: tuple[str, int]) -> bool:
        """Whether nobody listens there any more. Keeps it as an end, unless that is known already."""
        if any(_is_open(end, node) for end in self._ends):
            return True
        if not (await look_at(*address, connect=self._connect)).refused:
            return False
        now, code = self._clock.monotonic_ns(), await self._code_of(node)
        status, number = (None, None) if code is None else status_and_signal(code)
        unseen_ns = now - self._answered_ns.get(node, now)
        end = NodeEnd(node=node, t_ns=now, uncertainty_ns=unseen_ns, exit_status=status, signal=number, fresh=False)
        self._ends.append(end)
        return True


def _is_open(end: NodeEnd, node: NodeId) -> bool:
    return end.node == node and end.back_ns is None
