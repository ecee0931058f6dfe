"""Computes the answer to one request frame: reads query the tree, writes go through the database. No sockets, no clock.

`Answer.changes` lists what a write changed. The server fires the watches of these changes before it sends the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from reference_impl.coordination.connection import Connection
from reference_impl.coordination.database import Committed, Database, Requester
from reference_impl.coordination.jute import JuteReader, JuteWriter
from reference_impl.coordination.records import (
    MULTI_END,
    WRITES,
    CheckRequest,
    Code,
    Create2Request,
    CreateRequest,
    MultiHeader,
    Notification,
    OpCode,
    Operation,
    ReplyHeader,
    SetAclRequest,
    SetDataRequest,
    SetWatchesRequest,
    read_multi,
)
from reference_impl.coordination.transactions import ErrorTransaction, MultiTransaction
from reference_impl.coordination.tree import Change, NodeMissing, Tree
from reference_impl.coordination.watches import Watches


@dataclass(frozen=True, kw_only=True)
class Answer:
    code: Code = Code.OK
    body: bytes = b""
    zxid: int
    changes: list[Change] = field(default_factory=list)
    missed: list[Notification] = field(default_factory=list)
    """For the asking connection alone, before the answer (setWatches)."""

    def encode(self, xid: int) -> bytes:
        writer = JuteWriter()
        ReplyHeader(xid=xid, zxid=self.zxid, code=self.code).write(writer)
        writer.raw(self.body)
        return writer.data


@dataclass(frozen=True, kw_only=True)
class Request:
    op_code: int
    reader: JuteReader
    requester: Requester
    watcher: Connection
    wall_clock_ms: int


class Answers:
    """Has one method per request type; `answer` selects it."""

    def __init__(self, database: Database, watches: Watches[Connection]) -> None:
        self._database = database
        self._tree: Tree = database.tree
        self._watches = watches
        self._queries: dict[int, Callable[[Request], bytes]] = {
            OpCode.EXISTS: self._exists,
            OpCode.GET_DATA: self._get_data,
            OpCode.GET_CHILDREN: self._get_children,
            OpCode.GET_CHILDREN2: self._get_children,
            OpCode.GET_ACL: self._get_acl,
            OpCode.SYNC: self._sync,
        }

    def answer(self, request: Request) -> Answer:
        """Decodes the frame, executes the request and returns the answer. Raises MalformedRecord for a
        malformed frame."""
        match request.op_code:
            case OpCode.CREATE | OpCode.CREATE2 | OpCode.DELETE | OpCode.SET_DATA | OpCode.SET_ACL:
                return self._write(WRITES[request.op_code].read(request.reader), request)
            case OpCode.MULTI:
                return self._multi(request)
            case OpCode.SET_WATCHES:
                missed = self._watches.set_again(SetWatchesRequest.read(request.reader), self._tree, request.watcher)
                return Answer(zxid=self._database.zxid, missed=missed)
            case OpCode.PING | OpCode.AUTH:
                return Answer(zxid=self._database.zxid)
            case OpCode.CLOSE_SESSION:
                done = self._database.close_session(request.requester, wall_clock_ms=request.wall_clock_ms)
                return Answer(zxid=done.zxid, changes=done.changes)
        query = self._queries.get(request.op_code)
        if query is None:
            return Answer(code=Code.UNIMPLEMENTED, zxid=self._database.zxid)
        try:
            return Answer(body=query(request), zxid=self._database.zxid)
        except NodeMissing:
            return Answer(code=Code.NO_NODE, zxid=self._database.zxid)

    def _write(self, operation: Operation, request: Request) -> Answer:
        done = self._database.execute(operation, request.requester, wall_clock_ms=request.wall_clock_ms)
        if isinstance(done.transaction, ErrorTransaction):
            return Answer(code=Code(done.transaction.code), zxid=done.zxid)
        writer = JuteWriter()
        _write_result(writer, operation, done.changes[0])
        return Answer(body=writer.data, zxid=done.zxid, changes=done.changes)

    def _multi(self, request: Request) -> Answer:
        operations = read_multi(request.reader)
        done = self._database.execute_all(operations, request.requester, wall_clock_ms=request.wall_clock_ms)
        writer = JuteWriter()
        _write_multi_results(writer, operations, done)
        return Answer(body=writer.data, zxid=done.zxid, changes=done.changes)

    def _exists(self, request: Request) -> bytes:
        path, watch = request.reader.string(), request.reader.boolean()
        if watch:
            # The watch is set even if the znode does not exist: clients wait for its creation this way.
            self._watches.watch_data(path, request.watcher)
        return self._stat_of(path)

    def _stat_of(self, path: str) -> bytes:
        writer = JuteWriter()
        self._tree.node(path).stat.write(writer)
        return writer.data

    def _get_data(self, request: Request) -> bytes:
        path, watch = request.reader.string(), request.reader.boolean()
        node = self._tree.node(path)
        if watch:
            self._watches.watch_data(path, request.watcher)
        writer = JuteWriter()
        writer.buffer(node.data)
        node.stat.write(writer)
        return writer.data

    def _get_children(self, request: Request) -> bytes:
        path, watch = request.reader.string(), request.reader.boolean()
        children = self._tree.children(path)
        if watch:
            self._watches.watch_children(path, request.watcher)
        writer = JuteWriter()
        writer.vector(children, writer.string)
        if request.op_code == OpCode.GET_CHILDREN2:
            self._tree.node(path).stat.write(writer)
        return writer.data

    def _get_acl(self, request: Request) -> bytes:
        node = self._tree.node(request.reader.string())
        writer = JuteWriter()
        writer.vector(node.acls, lambda acl: acl.write(writer))
        node.stat.write(writer)
        return writer.data

    def _sync(self, request: Request) -> bytes:
        """There is one server, so every committed write is already visible."""
        writer = JuteWriter()
        writer.string(request.reader.string())
        return writer.data


def _write_result(writer: JuteWriter, operation: Operation, change: Change) -> None:
    """Builds the result of a successful operation; a sequential create returns the path that was really created."""
    match operation:
        case CreateRequest():
            writer.string(change.path)
            if isinstance(operation, Create2Request):
                change.stat.write(writer)
        case SetDataRequest() | SetAclRequest():
            change.stat.write(writer)


def _write_multi_results(writer: JuteWriter, operations: list[Operation], done: Committed) -> None:
    assert isinstance(done.transaction, MultiTransaction)
    changes = iter(done.changes)
    for operation, part in zip(operations, done.transaction.parts, strict=True):
        if isinstance(part, ErrorTransaction):
            MultiHeader(op_code=OpCode.ERROR, done=False, code=part.code).write(writer)
            writer.integer(part.code)
            continue
        MultiHeader(op_code=operation.op_code, done=False, code=Code.OK).write(writer)
        if not isinstance(operation, CheckRequest):
            _write_result(writer, operation, next(changes))
    MULTI_END.write(writer)
