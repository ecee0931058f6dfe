"""The state of the service: tree, sessions, zxid. A change is logged first, then applied, then answered."""

from dataclasses import dataclass

from reference_impl.coordination.proposal import decide_multi, decide_one
from reference_impl.coordination.records import Operation
from reference_impl.coordination.sessions import Sessions, first_session_id
from reference_impl.coordination.transaction_log import TransactionLog
from reference_impl.coordination.transactions import (
    CloseSessionTransaction,
    CreateSessionTransaction,
    Entry,
    Transaction,
)
from reference_impl.coordination.tree import Change, Tree


@dataclass(frozen=True, kw_only=True)
class Requester:
    """Identifies who sent a request: session id and the client's own request number."""

    session_id: int
    cxid: int


@dataclass(frozen=True, kw_only=True)
class Committed:
    zxid: int
    transaction: Transaction
    changes: list[Change]


class Database:
    def __init__(self, log: TransactionLog) -> None:
        self.tree = Tree()
        self.sessions = Sessions()
        self.zxid = 0
        self._last_session_id = 0
        self._log = log

    def recover(self, *, now: float, wall_clock_ms: int) -> None:
        """Replays the log. Every session that was alive gets a full timeout from now on."""
        for entry in self._log.recover():
            self._apply(entry)
            self._last_session_id = max(self._last_session_id, entry.session_id)
        self._last_session_id = max(self._last_session_id, first_session_id(wall_clock_ms))
        self.sessions.restart(now=now)

    def close(self) -> None:
        self._log.close()

    def open_session(self, *, timeout_ms: int, now: float, wall_clock_ms: int) -> int:
        self._last_session_id += 1
        requester = Requester(session_id=self._last_session_id, cxid=0)
        self._commit(CreateSessionTransaction(timeout_ms=timeout_ms), requester, wall_clock_ms=wall_clock_ms)
        self.sessions.touch(requester.session_id, now=now)
        return requester.session_id

    def close_session(self, requester: Requester, *, wall_clock_ms: int) -> Committed:
        """Ends a session (closed by its client or expired) and deletes its ephemeral znodes in the same transaction."""
        deleted = self.tree.ephemerals_of(requester.session_id)
        transaction = CloseSessionTransaction(deleted_paths=deleted)
        return self._commit(transaction, requester, wall_clock_ms=wall_clock_ms)

    def execute(self, operation: Operation, requester: Requester, *, wall_clock_ms: int) -> Committed:
        """Executes one write. A refused write is logged as an error transaction."""
        return self._commit(decide_one(self.tree, operation), requester, wall_clock_ms=wall_clock_ms)

    def execute_all(self, operations: list[Operation], requester: Requester, *, wall_clock_ms: int) -> Committed:
        """Executes a multi: all operations or none."""
        return self._commit(decide_multi(self.tree, operations), requester, wall_clock_ms=wall_clock_ms)

    def _commit(self, transaction: Transaction, requester: Requester, *, wall_clock_ms: int) -> Committed:
        entry = Entry(
            session_id=requester.session_id,
            cxid=requester.cxid,
            zxid=self.zxid + 1,
            time_ms=wall_clock_ms,
            transaction=transaction,
        )
        self._log.append(entry)
        changes = self._apply(entry)
        return Committed(zxid=entry.zxid, transaction=transaction, changes=changes)

    def _apply(self, entry: Entry) -> list[Change]:
        assert entry.zxid > self.zxid, (entry.zxid, self.zxid)
        self.zxid = entry.zxid
        changes = self.tree.apply(entry)
        if isinstance(entry.transaction, CreateSessionTransaction):
            self.sessions.open(entry.session_id, timeout_ms=entry.transaction.timeout_ms)
        elif isinstance(entry.transaction, CloseSessionTransaction):
            self.sessions.close(entry.session_id)
        return changes
