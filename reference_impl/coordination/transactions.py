"""The transactions of ZooKeeper's log: a header (session, time, zxid) and one of eight records.

A transaction is already decided: it contains the final sequence numbers and versions, so applying it cannot fail.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, get_args

from reference_impl.coordination.jute import Int, JuteReader, JuteRecord, JuteWriter, MalformedRecord
from reference_impl.coordination.records import Acl, OpCode

_HEADER = struct.Struct("!qiqqi")


@dataclass(frozen=True, kw_only=True)
class CreateTransaction(JuteRecord):
    path: str
    data: bytes | None
    acls: tuple[Acl, ...]
    ephemeral: bool
    parent_cversion: Int
    """The number of creations below the parent, this one included."""
    type_code: ClassVar[OpCode] = OpCode.CREATE


@dataclass(frozen=True, kw_only=True)
class DeleteTransaction(JuteRecord):
    path: str
    type_code: ClassVar[OpCode] = OpCode.DELETE


@dataclass(frozen=True, kw_only=True)
class SetDataTransaction(JuteRecord):
    path: str
    data: bytes | None
    version: Int
    type_code: ClassVar[OpCode] = OpCode.SET_DATA


@dataclass(frozen=True, kw_only=True)
class CheckTransaction(JuteRecord):
    path: str
    version: Int
    type_code: ClassVar[OpCode] = OpCode.CHECK


@dataclass(frozen=True, kw_only=True)
class SetAclTransaction(JuteRecord):
    path: str
    acls: tuple[Acl, ...]
    version: Int
    type_code: ClassVar[OpCode] = OpCode.SET_ACL


@dataclass(frozen=True, kw_only=True)
class CreateSessionTransaction(JuteRecord):
    timeout_ms: Int
    type_code: ClassVar[OpCode] = OpCode.CREATE_SESSION


@dataclass(frozen=True, kw_only=True)
class CloseSessionTransaction(JuteRecord):
    deleted_paths: tuple[str, ...]
    type_code: ClassVar[OpCode] = OpCode.CLOSE_SESSION


@dataclass(frozen=True, kw_only=True)
class ErrorTransaction(JuteRecord):
    """A refused request; it takes a zxid too, as in ZooKeeper."""

    code: Int
    type_code: ClassVar[OpCode] = OpCode.ERROR


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


_RECORDS: Mapping[int, type[Transaction]] = {
    OpCode.CREATE2: CreateTransaction,  # ZooKeeper writes create2 as type 15, with the same record
    **{each.type_code: each for each in get_args(Transaction)},
}


def read_transaction(type_code: int, reader: JuteReader) -> Transaction:
    if type_code not in _RECORDS:
        raise MalformedRecord(f"unknown transaction type {type_code}")
    return _RECORDS[type_code].read(reader)


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
