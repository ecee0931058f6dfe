"""The records of ZooKeeper's client protocol that server and client share: requests, replies, stat, error codes.

Names and numbers are ZooKeeper's own (zookeeper.jute, ZooDefs.OpCode, KeeperException.Code).
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

from reference_impl.coordination.jute import JuteReader, JuteWriter, MalformedRecord

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


_STAT = struct.Struct("!qqqqiiiqiiq")
_REPLY_HEADER = struct.Struct("!iqi")


@dataclass(frozen=True, kw_only=True)
class Stat:
    """The metadata of a znode that clients can read."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int

    def write(self, writer: JuteWriter) -> None:
        writer.raw(
            _STAT.pack(
                *(self.czxid, self.mzxid, self.ctime, self.mtime, self.version, self.cversion, self.aversion),
                *(self.ephemeral_owner, self.data_length, self.num_children, self.pzxid),
            )
        )

    @classmethod
    def read(cls, reader: JuteReader) -> "Stat":
        return cls(**dict(zip(cls.__dataclass_fields__, reader.structure(_STAT), strict=True)))


@dataclass(frozen=True, kw_only=True)
class Acl:
    """An access control entry. It is stored and returned, never enforced: only processes of the cluster connect."""

    permissions: int
    scheme: str
    identity: str

    def write(self, writer: JuteWriter) -> None:
        writer.integer(self.permissions)
        writer.string(self.scheme)
        writer.string(self.identity)

    @classmethod
    def read(cls, reader: JuteReader) -> "Acl":
        return cls(permissions=reader.integer(), scheme=reader.string(), identity=reader.string())


OPEN_ACL = (Acl(permissions=31, scheme="world", identity="anyone"),)


def write_acls(writer: JuteWriter, acls: tuple[Acl, ...]) -> None:
    writer.vector(acls, lambda acl: acl.write(writer))


def read_acls(reader: JuteReader) -> tuple[Acl, ...]:
    return tuple(reader.vector(lambda: Acl.read(reader)))


@dataclass(frozen=True, kw_only=True)
class ConnectRequest:
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool | None = False
    """None where the client is older than 3.4 and sends no such byte; it must not be answered with one either."""

    def write(self, writer: JuteWriter) -> None:
        writer.integer(0)
        writer.long(self.last_zxid_seen)
        writer.integer(self.timeout_ms)
        writer.long(self.session_id)
        writer.buffer(self.password)
        if self.read_only is not None:
            writer.boolean(self.read_only)

    @classmethod
    def read(cls, reader: JuteReader) -> "ConnectRequest":
        reader.integer()
        return cls(
            last_zxid_seen=reader.long(),
            timeout_ms=reader.integer(),
            session_id=reader.long(),
            password=reader.buffer() or b"",
            read_only=reader.boolean() if reader.remaining else None,
        )


@dataclass(frozen=True, kw_only=True)
class ConnectResponse:
    timeout_ms: int
    """Zero or less: the session does not exist any more."""
    session_id: int
    password: bytes
    read_only: bool | None = False

    def write(self, writer: JuteWriter) -> None:
        writer.integer(0)
        writer.integer(self.timeout_ms)
        writer.long(self.session_id)
        writer.buffer(self.password)
        if self.read_only is not None:
            writer.boolean(self.read_only)

    @classmethod
    def read(cls, reader: JuteReader) -> "ConnectResponse":
        reader.integer()
        return cls(
            timeout_ms=reader.integer(),
            session_id=reader.long(),
            password=reader.buffer() or b"",
            read_only=reader.boolean() if reader.remaining else None,
        )


@dataclass(frozen=True, kw_only=True)
class ReplyHeader:
    xid: int
    zxid: int
    code: int

    def write(self, writer: JuteWriter) -> None:
        writer.raw(_REPLY_HEADER.pack(self.xid, self.zxid, self.code))

    @classmethod
    def read(cls, reader: JuteReader) -> "ReplyHeader":
        xid, zxid, code = reader.structure(_REPLY_HEADER)
        return cls(xid=xid, zxid=zxid, code=code)


@dataclass(frozen=True, kw_only=True)
class CreateRequest:
    """create, or create2 if `with_stat`: then the reply also carries the stat of the new znode."""

    path: str
    data: bytes | None
    flags: int = CreateFlag.PERSISTENT
    acls: tuple[Acl, ...] = OPEN_ACL
    with_stat: bool = False

    @property
    def op_code(self) -> OpCode:
        return OpCode.CREATE2 if self.with_stat else OpCode.CREATE

    def write(self, writer: JuteWriter) -> None:
        writer.string(self.path)
        writer.buffer(self.data)
        write_acls(writer, self.acls)
        writer.integer(self.flags)

    @classmethod
    def read(cls, reader: JuteReader, *, with_stat: bool) -> "CreateRequest":
        path, data, acls = reader.string(), reader.buffer(), read_acls(reader)
        return cls(path=path, data=data, acls=acls, flags=reader.integer(), with_stat=with_stat)


@dataclass(frozen=True, kw_only=True)
class DeleteRequest:
    path: str
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.DELETE

    def write(self, writer: JuteWriter) -> None:
        writer.string(self.path)
        writer.integer(self.version)

    @classmethod
    def read(cls, reader: JuteReader) -> "DeleteRequest":
        return cls(path=reader.string(), version=reader.integer())


@dataclass(frozen=True, kw_only=True)
class SetDataRequest:
    path: str
    data: bytes | None
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.SET_DATA

    def write(self, writer: JuteWriter) -> None:
        writer.string(self.path)
        writer.buffer(self.data)
        writer.integer(self.version)

    @classmethod
    def read(cls, reader: JuteReader) -> "SetDataRequest":
        return cls(path=reader.string(), data=reader.buffer(), version=reader.integer())


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    path: str
    version: int
    op_code: ClassVar[OpCode] = OpCode.CHECK

    def write(self, writer: JuteWriter) -> None:
        writer.string(self.path)
        writer.integer(self.version)

    @classmethod
    def read(cls, reader: JuteReader) -> "CheckRequest":
        return cls(path=reader.string(), version=reader.integer())


@dataclass(frozen=True, kw_only=True)
class SetAclRequest:
    """setACL; as in ZooKeeper not allowed in a multi. `version` is the version of the ACL, not of the data."""

    path: str
    acls: tuple[Acl, ...]
    version: int = ANY_VERSION
    op_code: ClassVar[OpCode] = OpCode.SET_ACL

    def write(self, writer: JuteWriter) -> None:
        writer.string(self.path)
        write_acls(writer, self.acls)
        writer.integer(self.version)

    @classmethod
    def read(cls, reader: JuteReader) -> "SetAclRequest":
        return cls(path=reader.string(), acls=read_acls(reader), version=reader.integer())


Operation = CreateRequest | DeleteRequest | SetDataRequest | CheckRequest | SetAclRequest


def read_operation(op_code: int, reader: JuteReader) -> Operation:
    if op_code in (OpCode.CREATE, OpCode.CREATE2):
        return CreateRequest.read(reader, with_stat=op_code == OpCode.CREATE2)
    if op_code == OpCode.DELETE:
        return DeleteRequest.read(reader)
    if op_code == OpCode.SET_DATA:
        return SetDataRequest.read(reader)
    if op_code == OpCode.CHECK:
        return CheckRequest.read(reader)
    raise MalformedRecord(f"no operation of a multi has type {op_code}")


@dataclass(frozen=True, kw_only=True)
class MultiHeader:
    """Precedes every operation and every result of a multi; the last header has `done` set."""

    op_code: int
    done: bool
    code: int

    def write(self, writer: JuteWriter) -> None:
        writer.integer(self.op_code)
        writer.boolean(self.done)
        writer.integer(self.code)

    @classmethod
    def read(cls, reader: JuteReader) -> "MultiHeader":
        return cls(op_code=reader.integer(), done=reader.boolean(), code=reader.integer())


MULTI_END = MultiHeader(op_code=OpCode.ERROR, done=True, code=-1)


def write_multi(writer: JuteWriter, operations: list[Operation]) -> None:
    for operation in operations:
        MultiHeader(op_code=operation.op_code, done=False, code=-1).write(writer)
        operation.write(writer)
    MULTI_END.write(writer)


def read_multi(reader: JuteReader) -> list[Operation]:
    operations: list[Operation] = []
    while not (header := MultiHeader.read(reader)).done:
        operations.append(read_operation(header.op_code, reader))
    return operations


@dataclass(frozen=True, kw_only=True)
class SetWatchesRequest:
    """Sets a reconnected client's watches again; carries the last zxid that the client saw."""

    relative_zxid: int
    data: list[str] = field(default_factory=list)
    exist: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)

    def write(self, writer: JuteWriter) -> None:
        writer.long(self.relative_zxid)
        for paths in (self.data, self.exist, self.children):
            writer.vector(paths, writer.string)

    @classmethod
    def read(cls, reader: JuteReader) -> "SetWatchesRequest":
        return cls(
            relative_zxid=reader.long(),
            data=reader.vector(reader.string),
            exist=reader.vector(reader.string),
            children=reader.vector(reader.string),
        )


@dataclass(frozen=True, kw_only=True)
class Notification:
    """The notification of one fired watch."""

    event: EventType
    path: str

    def write(self, writer: JuteWriter) -> None:
        writer.integer(self.event)
        writer.integer(STATE_SYNC_CONNECTED)
        writer.string(self.path)

    @classmethod
    def read(cls, reader: JuteReader) -> "Notification":
        event, _ = EventType(reader.integer()), reader.integer()
        return cls(event=event, path=reader.string())
