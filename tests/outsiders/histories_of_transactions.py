"""Transactions: all or nothing, aborted records, who may commit, and where read_committed has to wait."""

from collections.abc import Sequence

from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
UNCLEAN = "unclean.leader.election.enable"


def _two(*, isolation: str = "read_committed", topics: dict[str, dict[str, str]] | None = None) -> HistoryBuilder:
    """Partitions 0 and 1, a transactional producer 1, a reader 9, and the final reader 99."""
    history = HistoryBuilder(topics=topics).place(1, "t", 1)
    for partition_id, leader in ((0, 1), (1, 2)):
        history.state(leader, 0, (1, 2, 3), at=0, start=0, partition_id=partition_id)
    history.client(1, role="producer", acks=-1, idempotent=True, transactional_id="id", tells_attempts=True)
    history.client(9, role="consumer", isolation=isolation, offset_reset="earliest")
    return history.client(99, role="consumer", isolation=isolation, offset_reset="earliest")


def _txn(
    history: HistoryBuilder, transaction: int, outcome: int, places: Sequence[tuple[int, int, int]], *, at: float
) -> None:
    """places: (partition_id, offset, value); sent a tenth of a second apart, ended half a second after the last."""
    for number, (partition_id, offset, value) in enumerate(places):
        history.send(
            value, offset, at=at + 0.1 + number / 10, partition_id=partition_id, transaction=transaction, status=outcome
        )
    history.transaction(transaction, outcome, at=at, until=at + 0.6 + len(places) / 10)


def _ends(history: HistoryBuilder, first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]]) -> None:
    history.final(first)
    history.final(second, partition_id=1)
    for row in history.rows["partitions"]:
        row["end_offset"] = 10


@case("a transaction is committed in two partitions, and both have their share", PASS, {}, why="a sound history")
def whole() -> HistoryBuilder:
    history = _two()
    _txn(history, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1)
    _ends(history, [(0, 5)], [(0, 6)])
    return history


@case(
    "it is committed, and one partition never got its share",
    VIOLATION,
    {"torn-transaction violation": SOME, "lost-write violation": {6}},
    why="atomicity is broken",
)
def torn() -> HistoryBuilder:
    history = _two()
    _txn(history, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1)
    _ends(history, [(0, 5)], [])
    return history


@case(
    "nobody knows its outcome, and the committed log shows one half of it",
    VIOLATION,
    {"torn-transaction violation": SOME},
    why="one without a known outcome is there as a whole or not at all",
)
def torn_of_unknown_outcome() -> HistoryBuilder:
    history = _two()
    _txn(history, 1, UNKNOWN, [(0, 0, 5), (1, 0, 6)], at=1)
    _txn(history, 2, COMMITTED, [(1, 2, 8)], at=4)
    _ends(history, [(0, 5)], [(2, 8)])
    return history


@case("nobody knows its outcome, and nobody sees any of it", PASS, {}, why="it was not committed, then")
def unknown_and_unseen() -> HistoryBuilder:
    history = _two()
    _txn(history, 1, UNKNOWN, [(0, 0, 5), (1, 0, 6)], at=1)
    _txn(history, 2, COMMITTED, [(1, 2, 8)], at=4)
    _ends(history, [], [(2, 8)])
    return history


@case(
    "it is committed, but one half's partition could not be read to its end",
    OPEN,
    {"unseen-tail observation": SOME},
    also=("torn-transaction observation",),
    why="the missing record's partition was not read that far",
)
def perhaps_torn() -> HistoryBuilder:
    history = _two()
    _txn(history, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1)
    _ends(history, [(0, 5)], [])
    history.rows["partitions"][1].update(read_to_end=False, end_offset=None)
    return history


@case(
    "an aborted record is polled by a read_committed consumer",
    VIOLATION,
    {"aborted-read violation": SOME},
    also=("dirty-read violation",),
    why="the abort was acknowledged",
)
def aborted_and_polled() -> HistoryBuilder:
    history = _two()
    _txn(history, 1, ABORTED, [(0, 0, 5), (1, 0, 6)], at=1)
    _txn(history, 2, COMMITTED, [(0, 2, 7)], at=4)
    history.poll([(0, 5), (2, 7)], at=6)
    _ends(history, [(2, 7)], [])
    return history


@case("the same by a read_uncommitted consumer", PASS, {}, why="lawful there")
def aborted_and_polled_uncommitted() -> HistoryBuilder:
    history = aborted_and_polled()
    for row in history.rows["processes"]:
        if row["process"] == 9:
            row["isolation"] = "read_uncommitted"
    return history


@case(
    "a read_committed consumer goes over an aborted record and a marker",
    PASS,
    why="offsets that hold nothing for it are no skip",
)
def aborted_and_passed_over() -> HistoryBuilder:
    history = _two()
    _txn(history, 1, ABORTED, [(0, 1, 5)], at=2)
    history.send(3, 0, at=1)
    _txn(history, 2, COMMITTED, [(0, 3, 7)], at=4)
    history.poll([(0, 3)], at=5)
    history.poll([(3, 7)], at=6)
    _ends(history, [(0, 3), (3, 7)], [])
    return history


@case(
    "a read_committed consumer goes over a committed transaction's record",
    VIOLATION,
    {"skipped-read violation": SOME},
    why="the final log has a record between",
)
def committed_and_passed_over() -> HistoryBuilder:
    history = _two().send(3, 0, at=1)
    _txn(history, 1, COMMITTED, [(0, 1, 5)], at=2)
    _txn(history, 2, COMMITTED, [(0, 3, 7)], at=4)
    history.poll([(0, 3)], at=6)
    history.poll([(3, 7)], at=7)
    _ends(history, [(0, 3), (1, 5), (3, 7)], [])
    return history


def _behind_an_open_one(*, ends: float, isolation: str = "read_committed", emptied: bool = False) -> HistoryBuilder:
    """Transaction 1 stands at offset 0, another producer's record at 1; transaction 1's last send is answered at 4.
    emptied: by an election before."""
    history = _two(isolation=isolation, topics={"t": {UNCLEAN: "true"}} if emptied else None)
    if emptied:
        history.state(1, 0, (1,), at=0.2)
        history.state(2, 1, (2,), at=0.5, start=0)
        history.state(2, 1, (1, 2, 3), at=0.8)
    history.send(5, 0, at=1, transaction=1)
    history.send(8, 1, at=1.5, process=2)
    history.poll([(1, 8)] if isolation == "read_committed" else [(0, 5), (1, 8)], at=ends - 0.1)
    history.send(6, 2, at=3.9, transaction=1)
    history.transaction(1, COMMITTED, at=0.9, until=5)
    _ends(history, [(0, 5), (1, 8), (2, 6)], [])
    return history


@case(
    "a read_committed poll returns a record above an open transaction",
    VIOLATION,
    {"last-stable-offset violation": SOME},
    also=("skipped-read violation", "head-skip violation", "cycle permitted"),
    why="it must wait there",
)
def behind_an_open_transaction() -> HistoryBuilder:
    return _behind_an_open_one(ends=2.5)


@case(
    "a read_uncommitted poll returns both",
    PASS,
    {"cycle permitted": SOME},
    why="it reads up to the high watermark; that writes interleave is lawful, and counted",
)
def behind_an_open_transaction_uncommitted() -> HistoryBuilder:
    return _behind_an_open_one(ends=2.5, isolation="read_uncommitted")


@case(
    "a read_committed poll passes it; an allowed unclean election had emptied the log before it began",
    VIOLATION,
    {"last-stable-offset violation": SOME},
    also=("skipped-read violation", "head-skip violation", "cycle permitted", "unclean-election observation"),
    why="what was lost before put no record below the one that was read",
)
def behind_an_open_transaction_after_an_election() -> HistoryBuilder:
    return _behind_an_open_one(ends=2.5, emptied=True)


def _zombie(
    *, third_at: float = 6.0, third: int = COMMITTED, other_id: bool = False, second: int = COMMITTED
) -> HistoryBuilder:
    history = _two()
    history.client(2, role="producer", acks=-1, idempotent=True, transactional_id="other" if other_id else "id")
    log = []
    for number, (process, at, outcome) in enumerate(((1, 1.0, COMMITTED), (2, 3.0, second), (1, third_at, third))):
        history.send(number, 2 * number, at=at + 0.5, process=process, transaction=number, status=outcome)
        history.transaction(
            number,
            outcome,
            at=at,
            until=at + 1,
            process=process,
            transactional_id="other" if other_id and process == 2 else "id",
        )
        log += [(2 * number, number)] if outcome == COMMITTED else []
    _ends(history, log, [])
    return history


@case(
    "A commits, B of the same id commits, and A begins and commits once more",
    VIOLATION,
    {"zombie-transaction violation": SOME},
    why="B fenced A",
)
def zombie_commits() -> HistoryBuilder:
    return _zombie()


@case(
    "A's second transaction begins before B's first has ended",
    PASS,
    why="only what began after the newer one's first had ended cannot be committed",
)
def zombie_that_began_in_time() -> HistoryBuilder:
    return _zombie(third_at=3.9)


@case("nobody knows whether A's second transaction was committed, and it is not seen", PASS, {}, why="no evidence")
def zombie_of_unknown_outcome() -> HistoryBuilder:
    return _zombie(third=UNKNOWN)


@case("B has another transactional id", PASS, {}, why="neither knows of the other")
def two_ids() -> HistoryBuilder:
    return _zombie(other_id=True)


@case("B's only transaction was aborted", PASS, {}, why="it may never have got an epoch")
def newer_producer_that_aborted() -> HistoryBuilder:
    return _zombie(second=ABORTED)


@case(
    "half a committed transaction goes by an allowed unclean election of its partition",
    PASS,
    {"lost-write permitted": {5}, "unclean-election permitted": SOME},
    also=("torn-transaction permitted",),
    why="a record that the configuration allowed to be lost is not missing",
)
def half_of_it_lawfully_lost() -> HistoryBuilder:
    history = _two(topics={"t": {UNCLEAN: "true"}})
    _txn(history, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1)
    history.state(1, 0, (1,), at=3)
    history.state(2, 1, (2,), at=4, start=0)
    _ends(history, [], [(0, 6)])
    history.rows["partitions"][0]["end_offset"] = 0
    return history


@case(
    "half a committed transaction is lost in partition 1; the allowed unclean election was of partition 0, which "
    "kept its half",
    VIOLATION,
    {"lost-write violation": {6}, "torn-transaction violation": SOME},
    also=("unclean-election observation",),
    why="an exception reaches no further than its partition",
)
def half_of_it_lost_in_the_neighbour() -> HistoryBuilder:
    history = _two(topics={"t": {UNCLEAN: "true"}})
    _txn(history, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1)
    history.state(1, 0, (1,), at=3)
    history.state(2, 1, (2,), at=4, start=1)
    _ends(history, [(0, 5)], [])
    return history
