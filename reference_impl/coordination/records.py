"""The records of ZooKeeper's client protocol that server and client share: requests, replies, stat, error codes.

Names and numbers are ZooKeeper's own (zookeeper.jute, ZooDefs.OpCode, KeeperException.Code).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

from reference_impl.coordination.jute import Int, JuteReader, JuteRecord, JuteWriter, Long, MalformedRecord, Trailing

NOTIFICATION_XID = -1
PING_XID = -2
AUTH_XID = -4
SET_WATCHES_XID = -8
ANY_VERSION = -1
PASSWORD_LENGTH = 16
STATE_SYNC_CONNECTED = 3
FRAME_LENGTH_MAX = 0xFFFFF  # jute.maxbuffer's default


class OpCode(IntEnum):
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    AUTH = 100
    SET_WATCHES = 101
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


class Code(IntEnum):
    """The values of KeeperException.Code that this service returns."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114


class EventType(IntEnum):
    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILDREN = 4


class CreateFlag(IntEnum):
    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3

    @property
    def ephemeral(self) -> bool:
        return bool(self & 1)

    @property
    def sequential(self) -> bool:
        return bool(self & 2)


@dataclass(frozen=True, kw_only=True)
class Stat(JuteRecord):
    """The metadata of a znode that clients can read."""

    czxid: Long
    mzxid: Long
    ctime: Long
    mtime: Long
    version: Int
    cversion: Int
    aversion: Int
    ephemeral_owner: Long
    data_length: Int
    num_children: Int
    pzxid: Long


@dataclass(frozen=True, kw_only=True)
class Acl(JuteRecord):
    """An access control entry. It is stored and returned, never enforced: only processes of the cluster connect."""

    permissions: Int
    scheme: str
    identity: str


OPEN_ACL = (Acl(permissions=31, scheme="world", identity="anyone"),)


@dataclass(frozen=True, kw_only=True)
class ConnectRequest(JuteRecord):
    protocol_version: Int = 0
    last_zxid_seen: Long
    timeout_ms: Int
    session_id: Long
    password: bytes
    read_only: Trailing = False
    """None where the client is older than 3.4 and sends no such byte; it must not be answered with one either."""


@dataclass(frozen=True, kw_only=True)
class ConnectResponse(JuteRecord):
    protocol_version: Int = 0
    timeout_ms: Int
    """Zero or less: the session does not exist any more."""
    session_id: Long
    password: bytes
    read_only: Trailing = False


@dataclass(frozen=True, kw_only=True)
class ReplyHeader(JuteRecord):
    xid: Int
    zxid: Long
    code: Int


@dataclass(frozen=True, kw_only=True)
class CreateRequest(JuteRecord):
    path: str
    data: bytes | None
    acls: tuple[Acl, ...] = OPEN_ACL
    flags: Int = CreateFlag.PERSISTENT
    op_code: ClassVar[OpCode] = OpCode.CREATE


@dataclass(frozen=True, kw_only=True)
class Create2Request(CreateRequest):
    """The reply also carries the stat of the new znode."""

    op_code: ClassVar[OpCode] = OpCode.CREATE2


@dataclass(frozen=True, kw_only=True)
class DeleteRequest(JuteRecord):
    path: str
    version: Int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.DELETE


@dataclass(frozen=True, kw_only=True)
class SetDataRequest(JuteRecord):
    path: str
    data: bytes | None
    version: Int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.SET_DATA


@dataclass(frozen=True, kw_only=True)
class CheckRequest(JuteRecord):
    path: str
    version: Int
    op_code: ClassVar[OpCode] = OpCode.CHECK


@dataclass(frozen=True, kw_only=True)
class SetAclRequest(JuteRecord):
    """setACL; as in ZooKeeper not allowed in a multi. `version` is the version of the ACL, not of the data."""

    path: str
    acls: tuple[Acl, ...]
    version: Int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.SET_ACL


Operation = CreateRequest | DeleteRequest | SetDataRequest | CheckRequest | SetAclRequest


# The requests that change the tree, by their number.
WRITES: Mapping[int, type[Operation]] = {
    each.op_code: each
    for each in (CreateRequest, Create2Request, DeleteRequest, SetDataRequest, CheckRequest, SetAclRequest)
}


@dataclass(frozen=True, kw_only=True)
class MultiHeader(JuteRecord):
    """Precedes every operation and every result of a multi; the last header has `done` set."""

    op_code: Int
    done: bool
    code: Int


MULTI_END = MultiHeader(op_code=OpCode.ERROR, done=True, code=-1)


def write_multi(writer: JuteWriter, operations: list[Operation]) -> None:
    for operation in operations:
        MultiHeader(op_code=operation.op_code, done=False, code=-1).write(writer)
        operation.write(writer)
    MULTI_END.write(writer)


def read_multi(reader: JuteReader) -> list[Operation]:
    operations: list[Operation] = []
    while not (header := MultiHeader.read(reader)).done:
        if header.op_code not in WRITES or header.op_code == OpCode.SET_ACL:
            raise MalformedRecord(f"no operation of a multi has type {header.op_code}")
        operations.append(WRITES[header.op_code].read(reader))
    return operations


@dataclass(frozen=True, kw_only=True)
class SetWatchesRequest(JuteRecord):
    """Sets a reconnected client's watches again; carries the last zxid that the client saw."""

    relative_zxid: Long
    data: list[str] = field(default_factory=list)
    exist: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Notification(JuteRecord):
    """The notification of one fired watch."""

    event: EventType
    state: Int = STATE_SYNC_CONNECTED
    path: str
