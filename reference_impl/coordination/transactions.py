"""The transactions of ZooKeeper's log: a header (session, time, zxid) and one of eight records.

A transaction is already decided: it contains the final sequence numbers and versions, so applying it cannot fail.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar

from reference_impl.coordination.jute import JuteReader, JuteWriter, MalformedRecord
from reference_impl.coordination.records import Acl, OpCode, read_acls, write_acls

_HEADER = struct.Struct("!qiqqi")


@dataclass(frozen=True, kw_only=True)
class CreateTransaction:
    path: str
    data: bytes | None
    acls: tuple[Acl, ...]
    ephemeral: bool
    parent_cversion: int
    """The number of creations below the parent, this one included."""
    type_code: ClassVar[OpCode] = OpCode.CREATE

    def write(self, writer: JuteWriter) -> None:
        writer.string(self.path)
        writer.buffer(self.data)
        write_acls(writer, self.acls)
        writer.boolean(self.ephemeral)
        writer.integer(self.parent_cversion)

    @classmethod
    def read(cls, reader: JuteReader) -> "CreateTransaction":
        path, data, acls, ephemeral = reader.string(), reader.buffer(), read_acls(reader), reader.boolean()
        return cls(path=path, data=data, acls=acls, ephemeral=ephemeral, parent_cversion=reader.integer())


@dataclass(frozen=True, kw_only=True)
class DeleteTransaction:
    path: str
    type_code: ClassVar[OpCode] = OpCode.DELETE

    def write(self, writer: JuteWriter) -> None:
        writer.string(self.path)

    @classmethod
    def read(cls, reader: JuteReader) -> "DeleteTransaction":
        return cls(path=reader.string())


@dataclass(frozen=True, kw_only=True)
class SetDataTransaction:
    path: str
    data: bytes | None
    version: int
    type_code: ClassVar[OpCode] = OpCode.SET_DATA

    def write(self, writer: JuteWriter) -> None:
        writer.string(self.path)
        writer.buffer(self.data)
        writer.integer(self.version)

    @classmethod
    def read(cls, reader: JuteReader) -> "SetDataTransaction":
        return cls(path=reader.string(), data=reader.buffer(), version=reader.integer())


@dataclass(frozen=True, kw_only=True)
class CheckTransaction:
    path: str
    version: int
    type_code: ClassVar[OpCode] = OpCode.CHECK

    def write(self, writer: JuteWriter) -> None:
        writer.string(self.path)
        writer.integer(self.version)

    @classmethod
    def read(cls, reader: JuteReader) -> "CheckTransaction":
        return cls(path=reader.string(), version=reader.integer())


@dataclass(frozen=True, kw_only=True)
class SetAclTransaction:
    path: str
    acls: tuple[Acl, ...]
    version: int
    type_code: ClassVar[OpCode] = OpCode.SET_ACL

    def write(self, writer: JuteWriter) -> None:
        writer.string(self.path)
        write_acls(writer, self.acls)
        writer.integer(self.version)

    @classmethod
    def read(cls, reader: JuteReader) -> "SetAclTransaction":
        return cls(path=reader.string(), acls=read_acls(reader), version=reader.integer())


@dataclass(frozen=True, kw_only=True)
class CreateSessionTransaction:
    timeout_ms: int
    type_code: ClassVar[OpCode] = OpCode.CREATE_SESSION

    def write(self, writer: JuteWriter) -> None:
        writer.integer(self.timeout_ms)

    @classmethod
    def read(cls, reader: JuteReader) -> "CreateSessionTransaction":
        return cls(timeout_ms=reader.integer())


@dataclass(frozen=True, kw_only=True)
class CloseSessionTransaction:
    deleted_paths: tuple[str, ...]
    type_code: ClassVar[OpCode] = OpCode.CLOSE_SESSION

    def write(self, writer: JuteWriter) -> None:
        writer.vector(self.deleted_paths, writer.string)

    @classmethod
    def read(cls, reader: JuteReader) -> "CloseSessionTransaction":
        return cls(deleted_paths=tuple(reader.vector(reader.string)))


@dataclass(frozen=True, kw_only=True)
class ErrorTransaction:
    """A refused request; it takes a zxid too, as in ZooKeeper."""

    code: int
    type_code: ClassVar[OpCode] = OpCode.ERROR

    def write(self, writer: JuteWriter) -> None:
        writer.integer(self.code)

    @classmethod
    def read(cls, reader: JuteReader) -> "ErrorTransaction":
        return cls(code=reader.integer())


PartTransaction = (
    CreateTransaction | DeleteTransaction | SetDataTransaction | SetAclTransaction | CheckTransaction | ErrorTransaction
)


@dataclass(frozen=True, kw_only=True)
class MultiTransaction:
    """All parts of a multi under one zxid; a refused multi consists of errors only."""

    parts: tuple[PartTransaction, ...]
    type_code: ClassVar[OpCode] = OpCode.MULTI

    def write(self, writer: JuteWriter) -> None:
        def write_part(part: PartTransaction) -> None:
            inner = JuteWriter()
            part.write(inner)
            writer.integer(part.type_code)
            writer.buffer(inner.data)

        writer.vector(self.parts, write_part)

    @classmethod
    def read(cls, reader: JuteReader) -> "MultiTransaction":
        def read_part() -> PartTransaction:
            type_code = reader.integer()
            part = read_transaction(type_code, JuteReader(reader.buffer() or b""))
            if not isinstance(part, PartTransaction):
                raise MalformedRecord(f"type {type_code} inside a multi")
            return part

        return cls(parts=tuple(reader.vector(read_part)))


Transaction = PartTransaction | MultiTransaction | CreateSessionTransaction | CloseSessionTransaction


def read_transaction(type_code: int, reader: JuteReader) -> Transaction:
    match type_code:
        # ZooKeeper writes create2 as type 15, with the same record.
        case OpCode.CREATE | OpCode.CREATE2:
            return CreateTransaction.read(reader)
        case OpCode.DELETE:
            return DeleteTransaction.read(reader)
        case OpCode.SET_DATA:
            return SetDataTransaction.read(reader)
        case OpCode.SET_ACL:
            return SetAclTransaction.read(reader)
        case OpCode.CHECK:
            return CheckTransaction.read(reader)
        case OpCode.CREATE_SESSION:
            return CreateSessionTransaction.read(reader)
        case OpCode.CLOSE_SESSION:
            return CloseSessionTransaction.read(reader)
        case OpCode.ERROR:
            return ErrorTransaction.read(reader)
        case OpCode.MULTI:
            return MultiTransaction.read(reader)
        case _:
            raise MalformedRecord(f"unknown transaction type {type_code}")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One transaction with its header, as the log stores it and the tree applies it."""

    session_id: int
    cxid: int
    zxid: int
    time_ms: int
    transaction: Transaction

    def encode(self) -> bytes:
        writer = JuteWriter()
        writer.raw(_HEADER.pack(self.session_id, self.cxid, self.zxid, self.time_ms, self.transaction.type_code))
        self.transaction.write(writer)
        return writer.data

    @classmethod
    def decode(cls, data: bytes) -> "Entry":
        """Decodes an entry; ignores bytes after the record, because ZooKeeper 3.6 and newer append a digest of the
        tree."""
        reader = JuteReader(data)
        session_id, cxid, zxid, time_ms, type_code = reader.structure(_HEADER)
        transaction = read_transaction(type_code, reader)
        return cls(session_id=session_id, cxid=cxid, zxid=zxid, time_ms=time_ms, transaction=transaction)
