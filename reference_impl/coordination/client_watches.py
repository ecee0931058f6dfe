"""The watches that the client has set, kept so that it can set them again on a new connection."""

from collections.abc import Iterator

from reference_impl.coordination.records import EventType, Notification, SetWatchesRequest

PATHS_PER_REQUEST = 1000  # keeps a setWatches frame far below the server's limit


class ClientWatches:
    def __init__(self) -> None:
        self._data: dict[str, None] = {}
        self._exist: dict[str, None] = {}
        self._children: dict[str, None] = {}

    def expect_data(self, path: str) -> None:
        self._data[path] = None

    def expect_creation(self, path: str) -> None:
        self._exist[path] = None

    def expect_children(self, path: str) -> None:
        self._children[path] = None

    def fired(self, notification: Notification) -> None:
        """Forgets the watch: watches are one-shot."""
        path = notification.path
        if notification.event is not EventType.CHILDREN:
            self._data.pop(path, None)
            self._exist.pop(path, None)
        if notification.event in (EventType.CHILDREN, EventType.DELETED):
            self._children.pop(path, None)

    def requests(self, relative_zxid: int) -> Iterator[SetWatchesRequest]:
        for start in range(0, len(self._data), PATHS_PER_REQUEST):
            yield SetWatchesRequest(relative_zxid=relative_zxid, data=_slice(self._data, start))
        for start in range(0, len(self._exist), PATHS_PER_REQUEST):
            yield SetWatchesRequest(relative_zxid=relative_zxid, exist=_slice(self._exist, start))
        for start in range(0, len(self._children), PATHS_PER_REQUEST):
            yield SetWatchesRequest(relative_zxid=relative_zxid, children=_slice(self._children, start))


def _slice(paths: dict[str, None], start: int) -> list[str]:
    return list(paths)[start : start + PATHS_PER_REQUEST]
