"""Transactions: all or nothing, aborted records, who may commit, and where read_committed has to wait."""

from collections.abc import Sequence

from tests.outsiders.tale import OPEN, PASS, SOME, VIOLATION, Tale, tale

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
UNCLEAN = "unclean.leader.election.enable"


def _two(*, isolation: str = "read_committed", topics: dict[str, dict[str, str]] | None = None) -> Tale:
    """Partitions 0 and 1, a transactional producer 1, a reader 9, and the final reader 99."""
    told = Tale(topics=topics)
    told.place(1, "t", 1)
    for partition_id, leader in ((0, 1), (1, 2)):
        told.state(leader, 0, (1, 2, 3), at=0, start=0, partition_id=partition_id)
    told.client(1, role="producer", acks=-1, idempotent=True, transactional_id="id", tells_attempts=True)
    told.client(9, role="consumer", isolation=isolation, offset_reset="earliest")
    told.client(99, role="consumer", isolation=isolation, offset_reset="earliest")
    return told


def _txn(told: Tale, transaction: int, outcome: int, places: Sequence[tuple[int, int, int]], *, at: float) -> None:
    """places: (partition_id, offset, value); sent a tenth of a second apart, ended half a second after the last."""
    for number, (partition_id, offset, value) in enumerate(places):
        told.send(
            value, offset, at=at + 0.1 + number / 10, partition_id=partition_id, transaction=transaction, status=outcome
        )
    told.transaction(transaction, outcome, at=at, until=at + 0.6 + len(places) / 10)


def _ends(told: Tale, first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]]) -> None:
    told.final(first)
    told.final(second, partition_id=1)
    for row in told.rows["partitions"]:
        row["end_offset"] = 10


@tale("a transaction is committed in two partitions, and both have their share", PASS, {},
      why="a sound history")  # fmt: skip
def whole() -> Tale:
    told = _two()
    _txn(told, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1)
    _ends(told, [(0, 5)], [(0, 6)])
    return told


@tale("it is committed, and one partition never got its share", VIOLATION,
      {"torn-transaction violation": SOME, "lost-write violation": {6}}, why="atomicity is broken")  # fmt: skip
def torn() -> Tale:
    told = _two()
    _txn(told, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1)
    _ends(told, [(0, 5)], [])
    return told


@tale("nobody knows its outcome, and the committed log shows one half of it", VIOLATION,
      {"torn-transaction violation": SOME},
      why="one without a known outcome is there as a whole or not at all")  # fmt: skip
def torn_of_unknown_outcome() -> Tale:
    told = _two()
    _txn(told, 1, UNKNOWN, [(0, 0, 5), (1, 0, 6)], at=1)
    _txn(told, 2, COMMITTED, [(1, 2, 8)], at=4)
    _ends(told, [(0, 5)], [(2, 8)])
    return told


@tale("nobody knows its outcome, and nobody sees any of it", PASS, {}, why="it was not committed, then")  # fmt: skip
def unknown_and_unseen() -> Tale:
    told = _two()
    _txn(told, 1, UNKNOWN, [(0, 0, 5), (1, 0, 6)], at=1)
    _txn(told, 2, COMMITTED, [(1, 2, 8)], at=4)
    _ends(told, [], [(2, 8)])
    return told


@tale("it is committed, but one half's partition could not be read to its end", OPEN,
      {"unseen-tail observation": SOME}, also=("torn-transaction observation",),
      why="the missing record's partition was not read that far")  # fmt: skip
def perhaps_torn() -> Tale:
    told = _two()
    _txn(told, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1)
    _ends(told, [(0, 5)], [])
    told.rows["partitions"][1].update(read_to_end=False, end_offset=None)
    return told


@tale("an aborted record is polled by a read_committed consumer", VIOLATION, {"aborted-read violation": SOME},
      also=("dirty-read violation",), why="the abort was acknowledged")  # fmt: skip
def aborted_and_polled() -> Tale:
    told = _two()
    _txn(told, 1, ABORTED, [(0, 0, 5), (1, 0, 6)], at=1)
    _txn(told, 2, COMMITTED, [(0, 2, 7)], at=4)
    told.poll([(0, 5), (2, 7)], at=6)
    _ends(told, [(2, 7)], [])
    return told


@tale("the same by a read_uncommitted consumer", PASS, {}, why="lawful there")  # fmt: skip
def aborted_and_polled_uncommitted() -> Tale:
    told = aborted_and_polled()
    for row in told.rows["processes"]:
        if row["process"] == 9:
            row["isolation"] = "read_uncommitted"
    return told


@tale("a read_committed consumer goes over an aborted record and a marker", PASS, {},
      why="offsets that hold nothing for it are no skip")  # fmt: skip
def aborted_and_passed_over() -> Tale:
    told = _two()
    _txn(told, 1, ABORTED, [(0, 1, 5)], at=2)
    told.send(3, 0, at=1)
    _txn(told, 2, COMMITTED, [(0, 3, 7)], at=4)
    told.poll([(0, 3)], at=5)
    told.poll([(3, 7)], at=6)
    _ends(told, [(0, 3), (3, 7)], [])
    return told


@tale("a read_committed consumer goes over a committed transaction's record", VIOLATION,
      {"skipped-read violation": SOME}, why="the final log has a record between")  # fmt: skip
def committed_and_passed_over() -> Tale:
    told = _two()
    told.send(3, 0, at=1)
    _txn(told, 1, COMMITTED, [(0, 1, 5)], at=2)
    _txn(told, 2, COMMITTED, [(0, 3, 7)], at=4)
    told.poll([(0, 3)], at=6)
    told.poll([(3, 7)], at=7)
    _ends(told, [(0, 3), (1, 5), (3, 7)], [])
    return told


def _behind_an_open_one(*, ends: float, isolation: str = "read_committed") -> Tale:
    """Transaction 1 stands at offset 0, another producer's record at 1; transaction 1's last send is answered at 4."""
    told = _two(isolation=isolation)
    told.send(5, 0, at=1, transaction=1)
    told.send(8, 1, at=1.5, process=2)
    told.poll([(1, 8)] if isolation == "read_committed" else [(0, 5), (1, 8)], at=ends - 0.1)
    told.send(6, 2, at=3.9, transaction=1)
    told.transaction(1, COMMITTED, at=0.9, until=5)
    _ends(told, [(0, 5), (1, 8), (2, 6)], [])
    return told


@tale("a read_committed poll returns a record above an open transaction", VIOLATION,
      {"last-stable-offset violation": SOME}, also=("skipped-read violation", "head-skip violation", "cycle permitted"),
      why="it must wait there")  # fmt: skip
def behind_an_open_transaction() -> Tale:
    return _behind_an_open_one(ends=2.5)


@tale("a read_uncommitted poll returns both", PASS, {"cycle permitted": SOME},
      why="it reads up to the high watermark; that writes interleave is lawful, and counted")  # fmt: skip
def behind_an_open_transaction_uncommitted() -> Tale:
    return _behind_an_open_one(ends=2.5, isolation="read_uncommitted")


def _zombie(*, third_at: float = 6.0, third: int = COMMITTED, other_id: bool = False, second: int = COMMITTED) -> Tale:
    told = _two()
    told.client(2, role="producer", acks=-1, idempotent=True, transactional_id="other" if other_id else "id")
    log = []
    for number, (process, at, outcome) in enumerate(((1, 1.0, COMMITTED), (2, 3.0, second), (1, third_at, third))):
        told.send(number, 2 * number, at=at + 0.5, process=process, transaction=number, status=outcome)
        told.transaction(number, outcome, at=at, until=at + 1, process=process,
                         transactional_id="other" if other_id and process == 2 else "id")  # fmt: skip
        log += [(2 * number, number)] if outcome == COMMITTED else []
    _ends(told, log, [])
    return told


@tale("A commits, B of the same id commits, and A begins and commits once more", VIOLATION,
      {"zombie-transaction violation": SOME}, why="B fenced A")  # fmt: skip
def zombie_commits() -> Tale:
    return _zombie()


@tale("A's second transaction begins before B's first has ended", PASS, {},
      why="only what began after the newer one's first had ended cannot be committed")  # fmt: skip
def zombie_that_began_in_time() -> Tale:
    return _zombie(third_at=3.9)


@tale("nobody knows whether A's second transaction was committed, and it is not seen", PASS, {},
      why="no evidence")  # fmt: skip
def zombie_of_unknown_outcome() -> Tale:
    return _zombie(third=UNKNOWN)


@tale("B has another transactional id", PASS, {}, why="neither knows of the other")  # fmt: skip
def two_ids() -> Tale:
    return _zombie(other_id=True)


@tale("B's only transaction was aborted", PASS, {}, why="it may never have got an epoch")  # fmt: skip
def newer_producer_that_aborted() -> Tale:
    return _zombie(second=ABORTED)


@tale("half a committed transaction goes by an allowed unclean election of its partition", PASS,
      {"lost-write permitted": {5}, "unclean-election permitted": SOME}, also=("torn-transaction permitted",),
      why="a record that the configuration allowed to be lost is not missing")  # fmt: skip
def half_of_it_lawfully_lost() -> Tale:
    told = _two(topics={"t": {UNCLEAN: "true"}})
    _txn(told, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1)
    told.state(1, 0, (1,), at=3)
    told.state(2, 1, (2,), at=4, start=0)
    _ends(told, [], [(0, 6)])
    told.rows["partitions"][0]["end_offset"] = 0
    return told


@tale("half a committed transaction is lost in partition 1; the allowed unclean election was of partition 0, which "
      "kept its half", VIOLATION, {"lost-write violation": {6}, "torn-transaction violation": SOME},
      also=("unclean-election observation",), why="an exception reaches no further than its partition")  # fmt: skip
def half_of_it_lost_in_the_neighbour() -> Tale:
    told = _two(topics={"t": {UNCLEAN: "true"}})
    _txn(told, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1)
    told.state(1, 0, (1,), at=3)
    told.state(2, 1, (2,), at=4, start=1)
    _ends(told, [(0, 5)], [])
    return told
