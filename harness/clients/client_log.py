"""Collects a library's events until their owner takes them. The hooks of all libraries write here, from any thread."""

from collections import deque
from collections.abc import Iterable, Sequence

from harness.clients.outcomes import LibraryError, library_error_of, of_delivery
from harness.host.clock import Clock, SystemClock
from harness.ports.clients import ClientEvent, Kind


class ClientLog:
    """Events in order of arrival. Events while the client closes are its own doing and are not kept."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._now_ns = (clock or SystemClock()).monotonic_ns
        self._events: deque[ClientEvent] = deque()
        self._leaders: dict[tuple[str, int], tuple[int, int | None]] = {}
        self._versions: dict[tuple[str, int | None], int] = {}
        self._asked: dict[str, int] = {}
        self._connections: dict[int, tuple[Kind, str | None]] = {}
        self._closed = False

    def take(self) -> Sequence[ClientEvent]:
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    def close(self) -> None:
        self._closed = True

    def failed(
        self, topic: str, partition: int, error: object, *, node: int | None, library_error: LibraryError | None = None
    ) -> None:
        """A failed attempt to produce a batch. `library_error`: given if the adapter knows more."""
        status = of_delivery(error, retried=False)
        assert status != "ok", "an error is no success"
        said = library_error or library_error_of(error)
        self._add(
            ClientEvent(
                event="attempt_failed",
                t_ns=self._now_ns(),
                node=node,
                topic=topic,
                partition=partition,
                status=status,
                error=str(said),
                code=said.code,
            )
        )

    def connection(self, kind: Kind, node: int, error: object | None = None) -> None:
        """Notes a sequence of connection attempts with the same result once."""
        error_text = None if error is None else str(library_error_of(error))
        if self._connections.get(node) != (kind, error_text):
            self._connections[node] = (kind, error_text)
            self._add(ClientEvent(event=kind, t_ns=self._now_ns(), node=node, error=error_text))

    def leaders(self, leaders: Iterable[tuple[str, int, int, int | None]]) -> None:
        """From metadata: topic, partition, leader, epoch. Only changes are kept."""
        now = self._now_ns()
        for topic, partition, leader, epoch in leaders:
            if self._leaders.get((topic, partition)) != (leader, epoch):
                self._leaders[topic, partition] = (leader, epoch)
                event = ClientEvent(
                    event="leader", t_ns=now, node=leader, topic=topic, partition=partition, epoch=epoch
                )
                self._add(event)

    def request(self, name: str, version: int, *, node: int | None) -> None:
        """A request is sent. Only a version that differs from the one before is kept."""
        self._asked[name] = version
        if self._versions.get((name, node)) != version:
            self._versions[name, node] = version
            now = self._now_ns()
            self._add(ClientEvent(event="request", t_ns=now, node=node, request=name, version=version))

    def last_version(self, name: str) -> int | None:
        """Of the last request of this kind, to whichever node."""
        return self._asked.get(name)

    def _add(self, event: ClientEvent) -> None:
        if not self._closed:
            self._events.append(event)
