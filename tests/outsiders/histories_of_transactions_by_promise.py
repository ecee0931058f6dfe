"""Transactions as Kafka promises them: fencing, decisions of the coordinator, markers, offsets."""

from collections.abc import Sequence
from typing import Any

from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
UNCLEAN = "unclean.leader.election.enable"
Places = Sequence[tuple[int, int, int]]  # partition_id, offset, value


def _two(*, isolation: str = "read_committed", **more: Any) -> HistoryBuilder:
    """Partitions 0 and 1, producers 1 and 2 of one transactional id, a reader 9, and the final reader 99."""
    history = HistoryBuilder(**more).place(1, "t", 1)
    for partition_id, leader in ((0, 1), (1, 2)):
        history.state(leader, 0, (1, 2, 3), at=0, start=0, partition_id=partition_id)
    for process in (1, 2):
        history.client(process, role="producer", acks=-1, idempotent=True, transactional_id="id", tells_attempts=True)
    for process in (9, 99):
        history.client(process, role="consumer", isolation=isolation, offset_reset="earliest")
    return history


def _txn(
    history: HistoryBuilder,
    transaction: int,
    outcome: int,
    places: Places,
    *,
    at: float,
    until: float,
    process: int = 1,
) -> None:
    for number, (partition_id, offset, value) in enumerate(places):
        history.send(
            value,
            offset,
            at=at + 0.1 + number / 10,
            elapsed_s=0.05,
            partition_id=partition_id,
            transaction=transaction,
            status=outcome,
            process=process,
        )
    history.transaction(transaction, outcome, at=at, until=until, process=process)


def _ends(
    history: HistoryBuilder,
    first: Sequence[tuple[int, int]],
    second: Sequence[tuple[int, int]] = (),
    *,
    ends: tuple[int, int] = (10, 10),
) -> HistoryBuilder:
    history.final(first)
    history.final(second, partition_id=1)
    for row, end in zip(history.rows["partitions"], ends, strict=False):
        row["end_offset"] = end
    return history


# ---- fencing -----------------------------------------------------------------------------------------------------


def _after_the_newer_one(outcome: int, final: Sequence[tuple[int, int]]) -> HistoryBuilder:
    """1 commits, 2 of the same id commits, then 1 begins once more and sends value 30 to offset 4."""
    history = _two()
    _txn(history, 1, COMMITTED, [(0, 0, 10)], at=1, until=2)
    _txn(history, 2, COMMITTED, [(0, 2, 20)], at=3, until=4, process=2)
    _txn(history, 3, outcome, [(0, 4, 30)], at=6, until=7)
    return _ends(history, final)


@case(
    "a fenced producer begins once more, its commit is refused, and nobody sees the record", PASS, why="it was fenced"
)
def fenced_and_unseen() -> HistoryBuilder:
    return _after_the_newer_one(ABORTED, [(0, 10), (2, 20)])


@case(
    "a fenced producer's commit is refused, and readers of committed records see what it sent",
    VIOLATION,
    {"aborted-read violation": SOME},
    why="its transaction was aborted for certain",
)
def fenced_and_seen() -> HistoryBuilder:
    return _after_the_newer_one(ABORTED, [(0, 10), (2, 20), (4, 30)])


def _around_the_newer_one(*, goes_on: bool, outcome: int = COMMITTED) -> HistoryBuilder:
    """1 begins; 2 begins and commits; 1, which perhaps goes on sending after that, is told how its own ended."""
    history = _two().send(10, 0, at=1.2, transaction=1, status=outcome)
    _txn(history, 2, COMMITTED, [(1, 0, 20)], at=2, until=3, process=2)
    if goes_on:
        history.send(11, 2 if outcome else 1, at=5, transaction=1, status=outcome)
    history.transaction(1, outcome, at=1, until=6)
    seen = [] if outcome else [(0, 10), *([(1, 11)] if goes_on else [])]
    return _ends(history, seen, [(0, 20)])


@case(
    "a producer goes on sending in its transaction after a newer one of its id has begun and committed, and commits it",
    VIOLATION,
    {"zombie-transaction violation": SOME},
    why="KIP-98: the newer one's start aborts the open transaction; of the two commits one comes of a fenced producer",
)
def commits_around_the_newer_one() -> HistoryBuilder:
    return _around_the_newer_one(goes_on=True)


@case(
    "its commit is answered late, but nothing shows that it was asked for after the newer one had begun",
    PASS,
    why="the request may have been taken before the newer one started, and its answer been slow",
)
def commit_answered_late() -> HistoryBuilder:
    return _around_the_newer_one(goes_on=False)


@case(
    "it goes on sending after the newer one has committed, and its transaction ends as aborted",
    PASS,
    also=["cycle permitted"],
    why="that is what fencing does",
)
def aborted_around_the_newer_one() -> HistoryBuilder:
    return _around_the_newer_one(goes_on=True, outcome=ABORTED)


# ---- the coordinator's decision ----------------------------------------------------------------------------------


def _by_its_log(outcome: int, states: Sequence[str], final: bool) -> HistoryBuilder:
    history = _two(system="kafka:4.3.1")
    _txn(history, 1, outcome, [(0, 0, 5), (1, 0, 6)], at=1, until=2)
    for number, state in enumerate(("Ongoing", *states)):
        history.decided(state, at=1.1 + number / 2, begun_ns=1_100_000_000, timeout_ms=10_000)
    _txn(history, 2, COMMITTED, [(0, 2, 7), (1, 2, 8)], at=4, until=5)
    both = final or not outcome
    return _ends(history, [*([(0, 5)] if both else []), (2, 7)], [*([(0, 6)] if both else []), (2, 8)])


@case(
    "nobody knows the outcome; the coordinator's log has an abort; no reader sees any of it",
    PASS,
    why="it was aborted",
)
def decided_to_abort_and_unseen() -> HistoryBuilder:
    return _by_its_log(UNKNOWN, ("PrepareAbort", "CompleteAbort"), False)


@case(
    "nobody knows the outcome; the coordinator's log has a commit; all of it is seen",
    PASS,
    why="it was committed",
)
def decided_to_commit_and_seen() -> HistoryBuilder:
    return _by_its_log(UNKNOWN, ("PrepareCommit", "CompleteCommit"), True)


@case(
    "nobody knows the outcome; the coordinator's log has an abort, complete; committed readers see all of it",
    VIOLATION,
    also=["aborted-read violation"],
    why="the coordinator decides (KIP-98), and it decided to abort",
)
def decided_to_abort_and_seen() -> HistoryBuilder:
    return _by_its_log(UNKNOWN, ("PrepareAbort", "CompleteAbort"), True)


@case(
    "nobody knows the outcome; the coordinator's log has a commit, complete; committed readers see nothing of it",
    VIOLATION,
    also=["lost-write violation", "torn-transaction violation"],
    why="the coordinator decided to commit, and says that every marker was written",
)
def decided_to_commit_and_unseen() -> HistoryBuilder:
    return _by_its_log(UNKNOWN, ("PrepareCommit", "CompleteCommit"), False)


@case(
    "the coordinator's log has an abort, committed readers see all of it, and a disk had been lost",
    (PASS, OPEN),
    why="the log may have lost the decision to commit with that disk, and another coordinator have aborted it then",
)
def decided_again_after_a_lost_disk() -> HistoryBuilder:
    history = _by_its_log(UNKNOWN, ("PrepareAbort", "CompleteAbort"), True).destroyed("wipe", 3, "disk", at=8)
    return history.started(3, at=9)


@case(
    "two producers' transactions of one id ran at once; the log has one abort, and readers see what one of them sent",
    (PASS, OPEN),
    why="nobody knows which of the two it is",
)
def decided_of_one_of_two() -> HistoryBuilder:
    history = _two(system="kafka:4.3.1")
    _txn(history, 1, UNKNOWN, [(0, 0, 5)], at=1, until=3)
    _txn(history, 2, UNKNOWN, [(1, 0, 6)], at=1.5, until=3, process=2)
    for state, at in (("Ongoing", 1.7), ("PrepareAbort", 2.0), ("CompleteAbort", 2.1)):
        history.decided(state, at=at, begun_ns=1_700_000_000)
    history.client(3, role="producer", acks=-1, idempotent=True)
    history.send(90, 2, at=5, process=3)
    return _ends(history, [(0, 5), (2, 90)])


@case(
    "the coordinator aborts a transaction by time-out, and later tells its producer that it is committed",
    VIOLATION,
    {"lost-write violation": {5, 6}},
    also=["torn-transaction violation", "transaction-outcome violation", "evidence violation", "evidence observation"],
    why="KAFKA-6119: the producer was told that all of it is there, and none of it is",
)
def committed_after_the_time_out() -> HistoryBuilder:
    history = _two(system="kafka:4.3.1")
    _txn(history, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1, until=25)
    for state, at in (("Ongoing", 1.1), ("PrepareAbort", 12.0), ("CompleteAbort", 12.1)):
        history.decided(state, at=at, begun_ns=1_100_000_000, timeout_ms=10_000)
    _txn(history, 2, COMMITTED, [(0, 2, 7), (1, 2, 8)], at=30, until=31)
    return _ends(history, [(2, 7)], [(2, 8)])


@case(
    "the coordinator's log loses its unflushed end with the decision to commit, and it decides anew to abort",
    OPEN,
    {"transaction-outcome observation": 1},
    also=[
        "lost-write violation",
        "lost-write observation",
        "torn-transaction violation",
        "torn-transaction observation",
    ],
    why="a lawful loss in the log of decisions may take them, whatever became of the disks of the topic",
)
def decided_anew_after_the_tail_of_the_log_of_decisions_was_lost() -> HistoryBuilder:
    history = _two(system="kafka:4.3.1")
    _txn(history, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1, until=3)
    history.fault("power-loss", [1], at=4, until=5)
    history.disk_event(1, "tail", 1, 3, at=4, place=("__transaction_state", 7))
    for state, at in (("Ongoing", 1.1), ("PrepareAbort", 12.0), ("CompleteAbort", 12.1)):
        history.decided(state, at=at, begun_ns=1_100_000_000, timeout_ms=10_000)
    return _ends(history, [(0, 5)], [(0, 6)])


def _coordinator_dies(*, applied: bool) -> HistoryBuilder:
    """Committed at second 5; broker 3, the coordinator, is killed a moment later. Markers of t-1 are the question."""
    history = _two()
    _txn(history, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1, until=5)
    history.fault("kill", [3], at=5.02, until=9)
    history.started(3, at=9.5)
    for partition_id, leader in ((0, 1), (1, 2)):
        history.state(leader, 0, (1, 2), at=6, partition_id=partition_id)
        history.state(leader, 0, (1, 2, 3), at=12, partition_id=partition_id)
    if not applied:
        history.rows["partitions"][1]["last_stable_offset"] = 0
    return _ends(history, [(0, 5)], [(0, 6)] if applied else [], ends=(2, 2 if applied else 0))


@case(
    "the coordinator dies right after it has answered a commit, and all of it is there in the end",
    PASS,
    why="the next coordinator finishes what was decided",
)
def coordinator_dies_after_its_answer() -> HistoryBuilder:
    return _coordinator_dies(applied=True)


@case(
    "the same, and 90 seconds later one partition's last stable offset still stands before the record",
    (VIOLATION, OPEN),
    also=[
        "torn-transaction violation",
        "torn-transaction observation",
        "lost-write violation",
        "unseen-tail observation",
        "hanging-transaction violation",
        "hanging-transaction observation",
        "unreadable observation",
    ],
    why="the decision is in the coordinator's log, and its markers are written by whoever coordinates next",
)
def coordinator_dies_and_a_marker_is_missing() -> HistoryBuilder:
    return _coordinator_dies(applied=False)


@case(
    "the coordinator's log has a commit of a transaction whose client died; an allowed unclean election took one half",
    PASS,
    {"lost-write permitted": {5}, "unclean-election permitted": SOME},
    also=["torn-transaction permitted"],
    why="it was committed, and the configuration allowed the loss",
)
def decided_to_commit_and_lawfully_lost() -> HistoryBuilder:
    history = _two(system="kafka:4.3.1", topics={"t": {UNCLEAN: "true"}})
    _txn(history, 1, UNKNOWN, [(0, 0, 5), (1, 0, 6)], at=1, until=50)
    for state, at in (("Ongoing", 1.1), ("PrepareCommit", 1.6), ("CompleteCommit", 1.7)):
        history.decided(state, at=at, begun_ns=1_100_000_000)
    history.state(1, 0, (1,), at=3)
    history.state(2, 1, (2,), at=4, start=0)
    return _ends(history, [], [(0, 6)], ends=(0, 2))


# ---- what readers of committed records see -----------------------------------------------------------------------


@case(
    "a transaction is aborted for certain; its record comes to light when the same producer's next one commits",
    VIOLATION,
    {"aborted-read violation": SOME},
    why="KIP-890: what came after the abort marker must not become a part of the next transaction",
)
def late_record_joins_the_next_transaction() -> HistoryBuilder:
    history = _two()
    _txn(history, 1, ABORTED, [(0, 1, 5)], at=1, until=2)
    _txn(history, 2, COMMITTED, [(0, 2, 7)], at=4, until=5)
    return _ends(history, [(1, 5), (2, 7)])


@case("the final reader asked for uncommitted records, and sees an aborted one", PASS, why="lawful there")
def aborted_seen_by_an_uncommitted_reader() -> HistoryBuilder:
    history = _two(isolation="read_uncommitted")
    _txn(history, 1, ABORTED, [(0, 1, 5)], at=1, until=2)
    _txn(history, 2, COMMITTED, [(0, 2, 7)], at=4, until=5)
    return _ends(history, [(1, 5), (2, 7)])


@case(
    "half of a committed transaction is invisible to committed readers, although every log on disk has the record",
    VIOLATION,
    {"torn-transaction violation": SOME},
    also=["lost-write violation", "evidence violation", "evidence observation"],
    why="an abort marker in one partition and a commit marker in the other: the readers go past it",
)
def half_of_it_hidden() -> HistoryBuilder:
    history = _two()
    _txn(history, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1, until=2)
    _txn(history, 2, COMMITTED, [(0, 2, 7), (1, 2, 8)], at=4, until=5)
    for node in (1, 2, 3):
        history.replica(node, [(0, 0, 5), (2, 0, 7)], at=110, high_watermark=3)
        history.replica(node, [(0, 0, 6), (2, 0, 8)], at=110, high_watermark=3, partition_id=1)
    return _ends(history, [(0, 5), (2, 7)], [(2, 8)], ends=(3, 3))


def _open_in(partition_ids: Sequence[int], *, ends: float = 2.5) -> HistoryBuilder:
    """Transaction 1 has its records from second 1 to 4; producer 3, without one, writes to t-0; a poll of t-0."""
    history = _two().client(3, role="producer", acks=-1, idempotent=True)
    offsets = {0: 0, 1: 0}
    for partition_id in partition_ids:
        history.send(10 + partition_id, 0, at=1, transaction=1, partition_id=partition_id)
        offsets[partition_id] = 1
    history.send(30, offsets[0], at=1.5, process=3)
    history.poll([(offsets[0], 30)], at=ends - 0.1)
    last = partition_ids[-1]
    history.send(40, offsets[last] + (1 if last == 0 else 0), at=3.9, transaction=1, partition_id=last)
    history.transaction(1, COMMITTED, at=0.9, until=5)
    first = [(0, 10)] if 0 in partition_ids else []
    first += [(offsets[0], 30), *([(offsets[0] + 1, 40)] if last == 0 else [])]
    return _ends(history, first, [(0, 11), *([(1, 40)] if last == 1 else [])] if 1 in partition_ids else [])


@case(
    "a transaction is open in the partition beside; a committed reader is given a later record of this one",
    PASS,
    why="every partition has a last stable offset of its own",
)
def open_beside() -> HistoryBuilder:
    return _open_in([1])


@case(
    "a transaction is open in both partitions, and goes on only in the other; a committed reader passes it in this one",
    VIOLATION,
    {"last-stable-offset violation": SOME},
    also=["skipped-read violation", "head-skip violation", "cycle permitted", "cycle violation"],
    why="the transaction was open as a whole until its last send was answered",
)
def open_here_and_going_on_beside() -> HistoryBuilder:
    return _open_in([0, 1])


@case(
    "half of a committed transaction is below the log's start, where retention has come",
    PASS,
    {"removed-by-configuration observation": {5}},
    why="a record that the configuration removed is not missing",
)
def half_of_it_expired() -> HistoryBuilder:
    return _half_removed({"retention.ms": "1000"})


@case(
    "half of a committed transaction is below the log's start, though retention is a week",
    VIOLATION,
    {"lost-write violation": {5}, "torn-transaction violation": SOME},
    why="nothing asked for it to go",
)
def half_of_it_gone_before_its_time() -> HistoryBuilder:
    return _half_removed({"retention.ms": "604800000"})


def _half_removed(settings: dict[str, str]) -> HistoryBuilder:
    history = _two(topics={"t": settings})
    _txn(history, 1, COMMITTED, [(0, 0, 5), (1, 0, 6)], at=1, until=2)
    _txn(history, 2, COMMITTED, [(0, 2, 7), (1, 2, 8)], at=4, until=5)
    _ends(history, [(2, 7)], [(0, 6), (2, 8)])
    history.partition.update(log_start_offset=2, cleanup_policy="delete")
    return history


def _in_one_transaction(places: Places, *, apart: bool = False) -> HistoryBuilder:
    history = _two()
    _txn(history, 1, COMMITTED, places[:1] if apart else places, at=1, until=2)
    if apart:
        _txn(history, 2, COMMITTED, places[1:], at=4, until=5)
    return _ends(history, sorted((offset, value) for _, offset, value in places))


@case(
    "two records of one transaction, sent one after the other was answered, stand the other way round",
    VIOLATION,
    {"reordering violation": 1},
    also=["acknowledged-regression violation", "cycle violation"],
    why="a transactional producer is idempotent",
)
def turned_round_in_a_transaction() -> HistoryBuilder:
    return _in_one_transaction([(0, 4, 5), (0, 3, 6)])


@case(
    "the record of a producer's second transaction stands before that of its first",
    VIOLATION,
    {"reordering violation": 1},
    also=["acknowledged-regression violation", "cycle violation"],
    why="the first was committed before the second began",
)
def turned_round_over_two_transactions() -> HistoryBuilder:
    return _in_one_transaction([(0, 5, 5), (0, 2, 6)], apart=True)


# ---- offsets that were sent to transactions ----------------------------------------------------------------------


def _two_transactions(answer: int, *, second: int = ABORTED) -> HistoryBuilder:
    """Offset 4 is committed in one transaction, 8 was sent to the next; at second 90 somebody asks."""
    history = led(10)
    for process in (21, 22):
        history.client(
            process,
            role="both",
            group="g",
            transactional_id="p",
            offset_reset="latest",
            acks=-1,
            isolation="read_committed",
            idempotent=True,
        )
    history.group("assigned", at=2.5, process=21, generation=1, offset=0)
    history.reads(21, range(8), at=3)
    for number, (offset, outcome) in enumerate(((4, COMMITTED), (8, second)), start=1):
        history.transaction(
            number, outcome, at=2.0 + 3 * number, until=4.0 + 3 * number, process=21, group="g", transactional_id="p"
        )
        history.group(
            "committed",
            at=3.0 + 3 * number,
            process=21,
            generation=1,
            offset=offset,
            transaction=number,
            status=outcome,
        )
    return history.group("fetched", at=90, process=22, offset=answer).finish()


@case("one transaction commits 4, the next one with 8 is aborted, and 4 is answered", PASS, why="4 was committed last")
def offset_of_the_one_before_the_aborted() -> HistoryBuilder:
    return _two_transactions(4)


@case(
    "one transaction commits 4, the next one with 8 is aborted, and there is no offset",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="an abort takes back its own offsets, not those before",
)
def abort_takes_the_offset_before_with_it() -> HistoryBuilder:
    return _two_transactions(-1)


@case(
    "one transaction commits 4, of the next one with 8 nobody knows the outcome, and 8 is answered",
    PASS,
    why="it may have been committed",
)
def offset_of_unknown_outcome() -> HistoryBuilder:
    return _two_transactions(8, second=UNKNOWN)
