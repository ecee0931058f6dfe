"""Tree, sessions and log together: a refused write changes nothing, and a replay of the log gives the same state."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from reference_impl.coordination.database import Database, Requester
from reference_impl.coordination.records import (
    CheckRequest,
    Code,
    CreateRequest,
    DeleteRequest,
    Operation,
    SetDataRequest,
    Stat,
)
from reference_impl.coordination.transactions import Entry, ErrorTransaction, MultiTransaction


class MemoryLog:
    """A transaction log in memory."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def recover(self) -> Iterator[Entry]:
        return iter(list(self.entries))

    def append(self, entry: Entry) -> None:
        self.entries.append(Entry.decode(entry.encode()))

    def close(self) -> None:
        pass


def opened(log: MemoryLog, *, now: float = 0.0) -> Database:
    database = Database(log)
    database.recover(now=now, wall_clock_ms=1)
    return database


def state(database: Database) -> dict[str, tuple[bytes | None, Stat]]:
    nodes = {path: database.tree.node(path) for path in database.tree.paths()}
    return {path: (node.data, node.stat) for path, node in nodes.items()}


paths = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/a/x/1", "/", "bad", "/a//b"])
versions = st.sampled_from([-1, 0, 1])
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(CreateRequest, path=paths, data=st.binary(max_size=3), flags=st.integers(0, 4)),
    st.builds(CreateRequest, path=paths, data=st.binary(max_size=3)),
    st.builds(DeleteRequest, path=paths, version=versions),
    st.builds(SetDataRequest, path=paths, data=st.binary(max_size=3), version=versions),
    st.builds(CheckRequest, path=paths, version=versions),
)
steps = st.lists(st.tuples(st.integers(0, 2), st.lists(operations, max_size=4) | operations), max_size=25)


@given(steps=steps, closed=st.booleans())
def test_any_history_replays_to_the_same_state(
    steps: list[tuple[int, list[Operation] | Operation]], closed: bool
) -> None:
    log = MemoryLog()
    database = opened(log)
    sessions = [database.open_session(timeout_ms=1000, now=0, wall_clock_ms=1) for _ in range(3)]
    for number, (who, step) in enumerate(steps):
        before = state(database)
        requester = Requester(session_id=sessions[who], cxid=number)
        if isinstance(step, list):
            done = database.execute_all(step, requester, wall_clock_ms=number)
            assert isinstance(done.transaction, MultiTransaction)
            refused = any(isinstance(part, ErrorTransaction) for part in done.transaction.parts)
        else:
            done = database.execute(step, requester, wall_clock_ms=number)
            refused = isinstance(done.transaction, ErrorTransaction)
        if refused:
            assert state(database) == before
            assert done.changes == []
    if closed:
        database.close_session(Requester(session_id=sessions[0], cxid=0), wall_clock_ms=99)
        assert all(stat.ephemeral_owner != sessions[0] for _, stat in state(database).values())
    recovered = opened(log, now=50.0)
    assert state(recovered) == state(database)
    assert recovered.zxid == database.zxid == len(log.entries)
    assert list(recovered.sessions) == list(database.sessions)
    assert recovered.sessions.expired(now=50.9) == []
    assert recovered.sessions.expired(now=51.0) == list(database.sessions)


def test_session_ids_are_never_given_twice() -> None:
    log = MemoryLog()
    first = opened(log).open_session(timeout_ms=1, now=0, wall_clock_ms=1)
    second = opened(log).open_session(timeout_ms=1, now=0, wall_clock_ms=1)
    after_a_lost_log = Database(MemoryLog())
    after_a_lost_log.recover(now=0, wall_clock_ms=2)
    assert len({first, second, after_a_lost_log.open_session(timeout_ms=1, now=0, wall_clock_ms=2)}) == 3


def test_a_refused_multi_says_who_refused() -> None:
    database = opened(MemoryLog())
    session = Requester(session_id=database.open_session(timeout_ms=1, now=0, wall_clock_ms=1), cxid=1)
    done = database.execute_all(
        [CreateRequest(path="/a", data=b""), DeleteRequest(path="/b"), DeleteRequest(path="/a")],
        session,
        wall_clock_ms=1,
    )
    codes = (Code.OK, Code.NO_NODE, Code.RUNTIME_INCONSISTENCY)
    assert done.transaction == MultiTransaction(parts=tuple(ErrorTransaction(code=code) for code in codes))


def test_a_later_part_of_a_multi_sees_the_earlier_ones() -> None:
    database = opened(MemoryLog())
    session = Requester(session_id=database.open_session(timeout_ms=1, now=0, wall_clock_ms=1), cxid=1)
    done = database.execute_all(
        [
            CreateRequest(path="/a", data=b""),
            CreateRequest(path="/a/b", data=b""),
            SetDataRequest(path="/a/b", data=b"1", version=0),
            CheckRequest(path="/a/b", version=1),
            DeleteRequest(path="/a/b", version=1),
            DeleteRequest(path="/a"),
        ],
        session,
        wall_clock_ms=1,
    )
    assert [change.path for change in done.changes] == ["/a", "/a/b", "/a/b", "/a/b", "/a"]
    assert database.tree.find("/a") is None
