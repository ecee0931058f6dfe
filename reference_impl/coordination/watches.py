"""One-shot watches: which connection watches which path, and which notifications a change produces.

Watches belong to a connection and end with it; a client sets them again after a reconnect.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from reference_impl.coordination.records import EventType, Notification, SetWatchesRequest
from reference_impl.coordination.tree import Change, Tree, parent_of

Watcher = TypeVar("Watcher", bound=Hashable)


class Watches(Generic[Watcher]):
    def __init__(self) -> None:
        # Dictionaries serve as ordered sets: the order of notifications must not depend on hash seeds.
        self._data: dict[str, dict[Watcher, None]] = {}
        self._children: dict[str, dict[Watcher, None]] = {}

    def watch_data(self, path: str, watcher: Watcher) -> None:
        """Sets the watch of getData or exists; the znode need not exist."""
        self._data.setdefault(path, {})[watcher] = None

    def watch_children(self, path: str, watcher: Watcher) -> None:
        self._children.setdefault(path, {})[watcher] = None

    def forget(self, watcher: Watcher) -> None:
        for table in (self._data, self._children):
            for path in [path for path, watchers in table.items() if watcher in watchers]:
                del table[path][watcher]
                if not table[path]:
                    del table[path]

    def fire(self, change: Change) -> Iterator[tuple[Watcher, Notification]]:
        """Removes the watches that the change concerns and returns their notifications in ZooKeeper's order: path
        first, then parent."""
        if change.kind is None:
            return
        concerned = self._data.pop(change.path, {})
        if change.kind is EventType.DELETED:
            concerned |= self._children.pop(change.path, {})
        for watcher in concerned:
            yield watcher, Notification(event=change.kind, path=change.path)
        if change.kind is not EventType.CHANGED:
            parent = parent_of(change.path)
            for watcher in self._children.pop(parent, {}):
                yield watcher, Notification(event=EventType.CHILDREN, path=parent)

    def set_again(self, request: SetWatchesRequest, tree: Tree, watcher: Watcher) -> list[Notification]:
        """Sets a reconnected client's watches; those whose znode changed after `relative_zxid` fire at once."""
        missed: list[Notification] = []
        for path in request.data:
            node = tree.find(path)
            if node is None:
                missed.append(Notification(event=EventType.DELETED, path=path))
            elif node.mzxid > request.relative_zxid:
                missed.append(Notification(event=EventType.CHANGED, path=path))
            else:
                self.watch_data(path, watcher)
        for path in request.exist:
            if tree.find(path) is not None:
                missed.append(Notification(event=EventType.CREATED, path=path))
            else:
                self.watch_data(path, watcher)
        for path in request.children:
            node = tree.find(path)
            if node is None:
                missed.append(Notification(event=EventType.DELETED, path=path))
            elif node.pzxid > request.relative_zxid:
                missed.append(Notification(event=EventType.CHILDREN, path=path))
            else:
                self.watch_children(path, watcher)
        return missed
