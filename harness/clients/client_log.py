"""What a library meets, kept until its owner takes it. The hooks of all libraries write here, in any thread."""

import time
from collections import deque
from collections.abc import Iterable, Sequence

from harness.client_events import ClientEvent, Kind
from harness.clients.outcomes import Told, of_delivery, told_by


class ClientLog:
    """Events in the order in which they came. What a client meets while it closes is its own doing, and not kept."""

    def __init__(self) -> None:
        self._events: deque[ClientEvent] = deque()
        self._leaders: dict[tuple[str, int], tuple[int, int | None]] = {}
        self._connections: dict[int, tuple[Kind, str | None]] = {}
        self._closed = False

    def take(self) -> Sequence[ClientEvent]:
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    def close(self) -> None:
        self._closed = True

    def failed(self, topic: str, partition: int, error: object, *, node: int | None, told: Told | None = None) -> None:
        """An attempt to produce a batch. `told`: how the adapter words it, where it knows more than the error says."""
        status = of_delivery(error, retried=False)
        assert status != "ok", "an error is no success"
        self._add(
            ClientEvent(
                event="attempt_failed", t_ns=time.monotonic_ns(), node=node, topic=topic, partition=partition,
                status=status, error=str(told or told_by(error)),
            )
        )  # fmt: skip

    def connection(self, kind: Kind, node: int, error: object | None = None) -> None:
        """Once for a row of attempts to connect that all end alike."""
        told = None if error is None else str(told_by(error))
        if self._connections.get(node) != (kind, told):
            self._connections[node] = (kind, told)
            self._add(ClientEvent(event=kind, t_ns=time.monotonic_ns(), node=node, error=told))

    def leaders(self, leaders: Iterable[tuple[str, int, int, int | None]]) -> None:
        """Metadata: topic, partition, leader, epoch. Kept is what it says otherwise than before."""
        now = time.monotonic_ns()
        for topic, partition, leader, epoch in leaders:
            if self._leaders.get((topic, partition)) != (leader, epoch):
                self._leaders[topic, partition] = (leader, epoch)
                event = ClientEvent(
                    event="leader", t_ns=now, node=leader, topic=topic, partition=partition, epoch=epoch
                )
                self._add(event)

    def _add(self, event: ClientEvent) -> None:
        if not self._closed:
            self._events.append(event)
