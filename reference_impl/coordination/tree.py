"""The znode tree: applies decided transactions and answers queries. No clock, no sockets, no session deadlines.

`apply` cannot fail. It returns the changes, from which watches.py derives the notifications.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from reference_impl.coordination.records import OPEN_ACL, Acl, EventType, Stat
from reference_impl.coordination.transactions import (
    CloseSessionTransaction,
    CreateTransaction,
    DeleteTransaction,
    Entry,
    ErrorTransaction,
    MultiTransaction,
    SetAclTransaction,
    SetDataTransaction,
    Transaction,
)

ROOT = "/"
PERSISTENT = 0
BUILT_IN_PATHS = ("/zookeeper", "/zookeeper/config", "/zookeeper/quota")


class NodeMissing(LookupError):
    """The path does not exist."""


@dataclass(kw_only=True, slots=True)
class Znode:
    data: bytes | None
    acls: tuple[Acl, ...]
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    ephemeral_owner: int
    version: int = 0
    acl_version: int = 0
    children_created: int = 0
    """ZooKeeper's internal cversion: creations only; the client's cversion counts deletions as well."""
    children: dict[str, None] = field(default_factory=dict)

    @property
    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            pzxid=self.pzxid,
            ctime=self.ctime,
            mtime=self.mtime,
            version=self.version,
            cversion=2 * self.children_created - len(self.children),
            aversion=self.acl_version,
            ephemeral_owner=self.ephemeral_owner,
            data_length=len(self.data or b""),
            num_children=len(self.children),
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One znode was created or deleted, or got new data or a new ACL. `stat` is its state at that moment; later
    operations of the same multi may change it again."""

    kind: EventType | None  # None: an ACL change, which fires no watch
    path: str
    stat: Stat


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def is_valid_path(path: str) -> bool:
    """PathUtils.validatePath: absolute, no empty or relative part, no trailing slash, no control characters."""
    if path == ROOT:
        return True
    if not path.startswith("/") or any(part in ("", ".", "..") for part in path[1:].split("/")):
        return False
    return not any(ord(character) < 0x20 or 0x7F <= ord(character) <= 0x9F for character in path)


class Tree:
    def __init__(self) -> None:
        self._nodes: dict[str, Znode] = {ROOT: _empty_node()}
        self._ephemerals: dict[int, dict[str, None]] = {}
        for path in BUILT_IN_PATHS:
            self._nodes[path] = _empty_node()
            self._nodes[parent_of(path)].children[name_of(path)] = None

    def __len__(self) -> int:
        return len(self._nodes)

    def paths(self) -> Iterator[str]:
        return iter(self._nodes)

    def find(self, path: str) -> Znode | None:
        return self._nodes.get(path)

    def node(self, path: str) -> Znode:
        node = self._nodes.get(path)
        if node is None:
            raise NodeMissing(path)
        return node

    def children(self, path: str) -> list[str]:
        return sorted(self.node(path).children)

    def ephemerals_of(self, session_id: int) -> tuple[str, ...]:
        return tuple(self._ephemerals.get(session_id, ()))

    def apply(self, entry: Entry) -> list[Change]:
        return list(self._apply(entry.transaction, entry))

    def _apply(self, transaction: Transaction, entry: Entry) -> Iterator[Change]:
        match transaction:
            case CreateTransaction():
                yield self._create(transaction, entry)
            case SetDataTransaction():
                yield self._set_data(transaction, entry)
            case SetAclTransaction():
                yield self._set_acl(transaction)
            case DeleteTransaction():
                yield self._delete(transaction.path, entry.zxid)
            case MultiTransaction() if not any(isinstance(part, ErrorTransaction) for part in transaction.parts):
                # If one part is an error, nothing was applied; a real ZooKeeper still logs the parts before it.
                for part in transaction.parts:
                    yield from self._apply(part, entry)
            case CloseSessionTransaction():
                # Use the tree's own list: logs of ZooKeeper before 3.6 leave the record's list empty.
                for path in self.ephemerals_of(entry.session_id):
                    yield self._delete(path, entry.zxid)

    def _create(self, transaction: CreateTransaction, entry: Entry) -> Change:
        path = transaction.path
        assert path not in self._nodes, path
        self._nodes[path] = Znode(
            data=transaction.data,
            acls=transaction.acls,
            czxid=entry.zxid,
            mzxid=entry.zxid,
            pzxid=entry.zxid,
            ctime=entry.time_ms,
            mtime=entry.time_ms,
            ephemeral_owner=entry.session_id if transaction.ephemeral else PERSISTENT,
        )
        parent = self._nodes[parent_of(path)]
        parent.children[name_of(path)] = None
        parent.children_created = max(parent.children_created, transaction.parent_cversion)
        parent.pzxid = entry.zxid
        if transaction.ephemeral:
            self._ephemerals.setdefault(entry.session_id, {})[path] = None
        return Change(EventType.CREATED, path, self._nodes[path].stat)

    def _set_data(self, transaction: SetDataTransaction, entry: Entry) -> Change:
        node = self._nodes[transaction.path]
        node.data = transaction.data
        node.version = transaction.version
        node.mzxid = entry.zxid
        node.mtime = entry.time_ms
        return Change(EventType.CHANGED, transaction.path, node.stat)

    def _set_acl(self, transaction: SetAclTransaction) -> Change:
        node = self._nodes[transaction.path]
        node.acls, node.acl_version = transaction.acls, transaction.version
        return Change(None, transaction.path, node.stat)

    def _delete(self, path: str, zxid: int) -> Change:
        node = self._nodes.pop(path)
        assert not node.children, path
        parent = self._nodes[parent_of(path)]
        del parent.children[name_of(path)]
        parent.pzxid = zxid
        if node.ephemeral_owner != PERSISTENT:
            owned = self._ephemerals[node.ephemeral_owner]
            del owned[path]
            if not owned:
                del self._ephemerals[node.ephemeral_owner]
        return Change(EventType.DELETED, path, node.stat)


def _empty_node() -> Znode:
    return Znode(data=b"", acls=OPEN_ACL, czxid=0, mzxid=0, pzxid=0, ctime=0, mtime=0, ephemeral_owner=PERSISTENT)
