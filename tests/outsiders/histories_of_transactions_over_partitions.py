"""Transactions over several partitions and groups: what belongs together, and what has no order."""

from collections.abc import Sequence
from typing import Any

from harness.history.facts.internal_topics import partition_of
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VACUOUS, VIOLATION, HistoryBuilder, case, led

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
P, Q, READER, FINAL = 21, 22, 9, 99
DECIDED_IN = ("__transaction_state", partition_of("p", 50))


def _three(*, system: str = "kafka:4.3.1", isolation: str = "read_committed", **more: Any) -> HistoryBuilder:
    """t-0, t-1 and t-2, of which each broker leads one."""
    history = HistoryBuilder(system=system, **more)
    history.anchors = [{"monotonic_ns": 0, "wall_ns": 0}]
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    for number in (1, 2):
        history.place(number, "t", number)
        history.state(number + 1, 0, (1, 2, 3), at=0, start=0, partition_id=number)
    for process, name in ((P, "p"), (Q, "q")):
        history.client(process, role="producer", transactional_id=name, acks=-1, idempotent=True, tells_attempts=True)
    history.client(READER, role="consumer", isolation=isolation, offset_reset="earliest")
    return history.client(FINAL, role="consumer", isolation="read_committed", offset_reset="earliest")


def _sent(
    history: HistoryBuilder,
    number: int,
    outcome: int,
    *,
    at: float,
    offsets: Sequence[int | None],
    process: int = P,
    length: float = 1,
) -> None:
    """A transaction's value 10 * number + partition at these offsets of t-0, t-1 ..."""
    name = "p" if process == P else "q"
    for partition_id, offset in enumerate(offsets):
        if offset is not None:
            history.send(
                10 * number + partition_id,
                offset,
                at=at + 0.1 + partition_id / 10,
                elapsed_s=0.05,
                process=process,
                transaction=number,
                status=outcome,
                partition_id=partition_id,
            )
    history.transaction(number, outcome, at=at, until=at + length, process=process, transactional_id=name)


def _seen(history: HistoryBuilder, *logs: Sequence[tuple[int, int]], ends: Sequence[int]) -> HistoryBuilder:
    for partition_id, records in enumerate(logs):
        history.final(records, partition_id=partition_id)
        history.rows["partitions"][partition_id]["end_offset"] = ends[partition_id]
    return history


@case(
    "three transactions over three partitions, of which the second is aborted",
    PASS,
    why="two are there as a whole, and the aborted one not at all",
)
def two_of_three_committed() -> HistoryBuilder:
    history = _three()
    for number, outcome in enumerate((COMMITTED, ABORTED, COMMITTED), start=1):
        first = 2 * (number - 1)
        _sent(history, number, outcome, at=5.0 * number, offsets=[first, first, first])
    logs = [[(0, 10 + each), (4, 30 + each)] for each in range(3)]
    return _seen(history, *logs, ends=[6, 6, 6])


@case(
    "the same, and a third of the last one is missing",
    VIOLATION,
    {"torn-transaction violation": SOME, "lost-write violation": {31}},
    why="a transaction is visible as a whole",
)
def a_third_is_missing() -> HistoryBuilder:
    history = _three()
    for number in (1, 3):
        _sent(history, number, COMMITTED, at=5.0 * number, offsets=[2 * number, 2 * number, 2 * number])
    logs = [[(2, 10 + each), (6, 30 + each)] for each in range(3)]
    logs[1] = logs[1][:1]
    return _seen(history, *logs, ends=[8, 8, 8])


@case(
    "kop 1283: an aborted transaction's record of the third partition is given to a committed reader, and to nobody "
    "at the end",
    VIOLATION,
    {"aborted-read violation": {22}},
    why="read_committed readers never get it, whenever they ask",
)
def a_third_of_an_aborted_one_is_read() -> HistoryBuilder:
    history = _three()
    _sent(history, 1, COMMITTED, at=5, offsets=[0, 0, 0])
    _sent(history, 2, ABORTED, at=10, offsets=[2, 2, 2])
    history.poll([(0, 12), (2, 22)], at=12, partition_id=2)
    return _seen(history, *[[(0, 10 + each)] for each in range(3)], ends=[4, 4, 4])


@case(
    "the same reader asked for everything",
    PASS,
    also=("aborted-read permitted",),
    why="read_uncommitted shows what was aborted",
)
def a_third_of_an_aborted_one_is_read_uncommitted() -> HistoryBuilder:
    history = _three(isolation="read_uncommitted")
    _sent(history, 1, COMMITTED, at=5, offsets=[0, 0, 0])
    _sent(history, 2, ABORTED, at=10, offsets=[2, 2, 2])
    history.poll([(0, 12), (2, 22)], at=12, partition_id=2)
    return _seen(history, *[[(0, 10 + each)] for each in range(3)], ends=[4, 4, 4])


@case(
    "right behind the commit's answer a reader gets the transaction's record in t-0, and that in t-1 two seconds later",
    PASS,
    why="each partition gets its marker by itself",
)
def one_partition_after_the_other() -> HistoryBuilder:
    history = _three()
    _sent(history, 1, COMMITTED, at=5, offsets=[0, 0, None])
    history.poll([(0, 10)], at=6.05)
    history.poll([(0, 11)], at=8, partition_id=1)
    return _seen(history, [(0, 10)], [(0, 11)], [], ends=[2, 2, 0])


@case(
    "q commits behind p's first record while p is still open; a committed reader gets both when p is through",
    PASS,
    why="the last stable offset stays at p's record until its marker",
)
def waits_for_the_open_one() -> HistoryBuilder:
    history = _three()
    _sent(history, 1, COMMITTED, at=5, offsets=[0, 0, None], length=10)
    _sent(history, 2, COMMITTED, at=6, offsets=[1, 1, None], process=Q)
    history.poll([(0, 10), (1, 20)], at=16)
    history.poll([(0, 11), (1, 21)], at=16.1, partition_id=1)
    return _seen(history, [(0, 10), (1, 20)], [(0, 11), (1, 21)], [], ends=[4, 4, 0])


@case(
    "the same, but in t-1 the reader gets q's record while p still sends there",
    VIOLATION,
    {"last-stable-offset violation": SOME},
    also=("head-skip violation", "cycle permitted"),
    why="read_committed ends at the first record of an open transaction",
)
def does_not_wait_for_the_open_one() -> HistoryBuilder:
    history = _three()
    _sent(history, 1, COMMITTED, at=5, offsets=[0, 0, None], length=10)
    _sent(history, 2, COMMITTED, at=6, offsets=[1, 1, None], process=Q)
    history.poll([(1, 21)], at=9, partition_id=1)
    history.send(19, 5, at=12, process=P, transaction=1, partition_id=1)
    return _seen(history, [(0, 10), (1, 20)], [(0, 11), (1, 21), (5, 19)], [], ends=[4, 7, 0])


@case(
    "q's transaction is in t-2 alone, where p has nothing; a committed reader gets it while p is open",
    PASS,
    why="each partition has a last stable offset of its own",
)
def open_in_other_partitions() -> HistoryBuilder:
    history = _three()
    _sent(history, 1, COMMITTED, at=5, offsets=[0, 0, None], length=10)
    _sent(history, 2, COMMITTED, at=6, offsets=[None, None, 0], process=Q)
    history.poll([(0, 22)], at=8, partition_id=2)
    return _seen(history, [(0, 10)], [(0, 11)], [(0, 22)], ends=[2, 2, 2])


# ---- outcomes that a client was not told -------------------------------------------------------------------------


def _decided(history: HistoryBuilder, *states: tuple[float, str, int]) -> HistoryBuilder:
    """The log of p's coordinator, as every broker had it: when, what, with which epoch."""
    for node in (1, 2, 3):
        history.kept_log(DECIDED_IN, node, len(states))
    begun = 0.0
    for at, state, epoch in states:
        begun = at if state == "Ongoing" else begun
        places = [{"topic": "t", "partition": number} for number in range(3)]
        history.decided(
            state,
            at=at,
            transactional_id="p",
            snapshots=[0, 1, 2],
            partition=DECIDED_IN[1],
            producer_epoch=epoch,
            timeout_ms=60_000,
            begun_ns=int(begun * SECOND),
            partitions=places if state in ("Ongoing", "PrepareCommit", "PrepareAbort") else [],
        )
    return history


@case(
    "the commit's answer is lost; the coordinator's log says complete, and all three records are there",
    PASS,
    why="nobody was told, and it holds",
)
def not_told_and_committed() -> HistoryBuilder:
    history = _three()
    _sent(history, 1, COMMITTED, at=5, offsets=[0, 0, 0])
    _sent(history, 2, UNKNOWN, at=10, offsets=[2, 2, 2])
    _decided(
        history,
        (5.1, "Ongoing", 0),
        (5.9, "PrepareCommit", 1),
        (5.95, "CompleteCommit", 1),
        (10.1, "Ongoing", 1),
        (10.9, "PrepareCommit", 2),
        (10.95, "CompleteCommit", 2),
    )
    return _seen(history, *[[(0, 10 + each), (2, 20 + each)] for each in range(3)], ends=[4, 4, 4])


@case(
    "the same, and the record of t-2 is not there",
    VIOLATION,
    {"torn-transaction violation": SOME},
    also=("lost-write violation",),
    why="a transaction that is complete in its coordinator's log is there as a whole",
)
def not_told_and_committed_in_part() -> HistoryBuilder:
    history = _three()
    _sent(history, 1, COMMITTED, at=5, offsets=[0, 0, 0])
    _sent(history, 2, UNKNOWN, at=10, offsets=[2, 2, 2])
    _decided(
        history,
        (5.1, "Ongoing", 0),
        (5.9, "PrepareCommit", 1),
        (5.95, "CompleteCommit", 1),
        (10.1, "Ongoing", 1),
        (10.9, "PrepareCommit", 2),
        (10.95, "CompleteCommit", 2),
    )
    logs = [[(0, 10 + each), (2, 20 + each)] for each in range(3)]
    logs[2] = logs[2][:1]
    return _seen(history, *logs, ends=[4, 4, 4])


@case(
    "nobody was told and no coordinator's log was read; the record of t-2 is not there and those of t-0 and t-1 are",
    VIOLATION,
    {"torn-transaction violation": SOME},
    why="a committed reader saw a part of it, so it was committed, and a part is missing",
)
def nobody_knows_and_a_part_is_there() -> HistoryBuilder:
    history = _three()
    _sent(history, 1, COMMITTED, at=5, offsets=[0, 0, 0])
    _sent(history, 2, UNKNOWN, at=10, offsets=[2, 2, 2])
    logs = [[(0, 10 + each), (2, 20 + each)] for each in range(3)]
    logs[2] = logs[2][:1]
    return _seen(history, *logs, ends=[4, 4, 4])


@case(
    "a client times out; its coordinator aborts by time-out and raises the epoch; the client's next one is committed",
    PASS,
    why="KIP-890: an aborted one is not there, and the producer goes on",
)
def goes_on_after_an_abort_by_time_out() -> HistoryBuilder:
    history = _three()
    _sent(history, 1, UNKNOWN, at=5, offsets=[0, 0, 0], length=20)
    _sent(history, 2, COMMITTED, at=30, offsets=[2, 2, 2])
    _decided(
        history,
        (5.1, "Ongoing", 0),
        (20, "PrepareAbort", 1),
        (20.1, "CompleteAbort", 1),
        (30.1, "Ongoing", 2),
        (30.9, "PrepareCommit", 3),
        (30.95, "CompleteCommit", 3),
    )
    return _seen(history, *[[(2, 20 + each)] for each in range(3)], ends=[4, 4, 4])


@case(
    "every transaction of three over two producers is fenced or aborted, though each was begun and sent",
    VACUOUS,
    why="none was committed",
)
def none_of_two_producers_committed() -> HistoryBuilder:
    history = _three()
    for number, process in ((1, P), (2, Q), (3, P)):
        _sent(history, number, ABORTED, at=5.0 * number, offsets=[2 * number, 2 * number, None], process=process)
    return _seen(history, [], [], [], ends=[8, 8, 0])


# ---- groups ------------------------------------------------------------------------------------------------------


def _two_groups(outcome: int, *, answered: int, stable: bool | None, at: float) -> HistoryBuilder:
    """The offsets of groups g and h are sent to one transaction, which ends at second 8; h is asked for at `at`."""
    history = led(10, system="kafka:3.5.1")
    history.client(P, role="both", transactional_id="p", acks=-1, idempotent=True, offset_reset="latest", group="g")
    for process, name in ((31, "g"), (32, "h")):
        history.client(process, role="consumer", group=name, offset_reset="latest", isolation="read_committed")
        history.group("assigned", at=2.5, process=process, generation=1, offset=0, name=name)
        history.reads(process, range(6), at=3)
        history.group("committed", at=4, process=process, generation=1, offset=2, name=name)
    history.transaction(1, outcome, at=6, until=8, process=P, transactional_id="p", group="g")
    for name in ("g", "h"):
        history.group("committed", at=7, process=P, offset=6, transaction=1, status=outcome, name=name)
    history.group("fetched", at=at, process=31, offset=2 if outcome == ABORTED else 6, require_stable=True)
    history.group("fetched", at=at, process=32, offset=answered, require_stable=stable, name="h")
    return history.finish()


@case(
    "one transaction commits the offsets of two groups; a stable fetch of the second group answers the one before",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="KIP-447: a stable fetch waits for what is pending, whichever group",
)
def second_group_is_told_the_one_before() -> HistoryBuilder:
    return _two_groups(COMMITTED, answered=2, stable=True, at=9)


@case(
    "the same, and the fetch did not ask for stable offsets",
    PASS,
    why="the marker of the second group's partition may be under way",
)
def second_group_is_told_the_one_before_unstably() -> HistoryBuilder:
    return _two_groups(COMMITTED, answered=2, stable=False, at=9)


@case(
    "one transaction with the offsets of two groups is aborted; both are told the ones before",
    PASS,
    why="aborted offsets never counted",
)
def both_groups_are_told_the_ones_before() -> HistoryBuilder:
    return _two_groups(ABORTED, answered=2, stable=True, at=9)


@case(
    "the same, and the second group is told the aborted one",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="aborted offsets never counted",
)
def second_group_is_told_the_aborted_one() -> HistoryBuilder:
    return _two_groups(ABORTED, answered=6, stable=True, at=60)


# ---- at the end of the run ---------------------------------------------------------------------------------------


def _open_at_the_end(begun: float) -> HistoryBuilder:
    """kafka-flow 852: a writer died with an open transaction, and plain records are acknowledged above it."""
    history = _three(system="kafka:3.9.1")
    for value in range(3):
        history.ack(value, at=1 + value)
    history.send(900, 3, at=begun, process=P, transaction=1, status=UNKNOWN)
    history.transaction(1, UNKNOWN, at=begun - 0.1, until=100, process=P, transactional_id="p")
    history.crash(P, at=begun + 1)
    history.log.append((3, 0, 900))
    history.ack(4, at=begun + 2)
    for node in (1, 2, 3):
        history.replica(node, history.log, high_watermark=5, at=100)
        history.rows["replica_snapshots"][-1]["open_transactions"] = [
            {
                "producer_id": 1,
                "producer_epoch": 0,
                "first_offset": 3,
                "last_offset": 3,
                "begun_ms": int(begun * 1000),
            }
        ]
    history.kept_log(DECIDED_IN, 1, 1, at=101)
    history.kept_state(DECIDED_IN, 1, 0, (1, 2, 3), at=0)
    history.decided(
        "Ongoing",
        at=begun,
        transactional_id="p",
        snapshots=[0],
        partition=DECIDED_IN[1],
        timeout_ms=60_000,
        begun_ns=int(begun * SECOND),
        partitions=[{"topic": "t", "partition": 0}],
    )
    history.final([(offset, offset) for offset in range(3)])
    history.partition.update(end_offset=5, last_stable_offset=3, read_to_end=False)
    for number in (1, 2):
        history.final([], partition_id=number)
    return history


NOT_READ = ("unseen-tail observation", "unreadable observation", "end-told-too-low observation")


@case(
    "a writer died a few seconds before the end with an open transaction; the final reader wants committed records",
    OPEN,
    {"hanging-transaction observation": SOME},
    also=NOT_READ,
    why="its time-out of a minute is not over, and what is above it was not read",
)
def open_and_in_its_time() -> HistoryBuilder:
    return _open_at_the_end(90)


@case(
    "the same, and it has been open for 90 seconds with a time-out of 60 and a coordinator that looks every 10",
    (VIOLATION, OPEN),
    also=("hanging-transaction observation", *NOT_READ),
    why="until 100 s are over the marker is not overdue: no violation that is certain, and no pass",
)
def open_and_hardly_overdue() -> HistoryBuilder:
    return _open_at_the_end(10)
