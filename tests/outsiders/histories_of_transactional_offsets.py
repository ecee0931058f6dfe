"""Offsets that were sent to transactions: when those who fetch them have to see them, and never may."""

from typing import Any

from harness.history.schema.schemas import TABLES
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import PASS, SOME, VIOLATION, HistoryBuilder, case, led

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
PROCESSOR, READER = 21, 22
MISSED = {"lost-group-offset violation": SOME}


def _processed(outcome: int, *, plain_at: float | None = None, **more: Any) -> HistoryBuilder:
    """A processor, whose outputs are nobody's affair here (it starts at the latest), reads 0 to 3, commits
    2 plainly at second 4, and sends 4 to a transaction that ends at second 8."""
    history = led(10, **more)
    history.client(
        PROCESSOR,
        role="both",
        group="g",
        transactional_id="p",
        offset_reset="latest",
        isolation="read_committed",
        acks=-1,
        idempotent=True,
    )
    history.client(READER, role="consumer", group="g", offset_reset="latest", isolation="read_committed")
    history.group("assigned", at=2.5, process=PROCESSOR, generation=1, offset=0)
    history.reads(PROCESSOR, range(4), at=3)
    history.group("committed", at=4, process=PROCESSOR, generation=1, offset=2)
    history.transaction(1, outcome, at=7, until=8, process=PROCESSOR, transactional_id="p", group="g")
    history.group("committed", at=7.5, process=PROCESSOR, generation=1, offset=4, transaction=1, status=outcome)
    if plain_at is not None:
        history.group("committed", at=plain_at, process=PROCESSOR, generation=1, offset=3)
    return history


def _asked(history: HistoryBuilder, offset: int, *, at: float, stable: bool | None = None) -> HistoryBuilder:
    return history.group("fetched", at=at, process=READER, offset=offset, require_stable=stable).finish()


@case(
    "committed for certain; 80 quiet seconds later the offset from before is answered",
    VIOLATION,
    MISSED,
    why="a marker that is pending for longer than 30 s is itself a fault",
)
def never_applied() -> HistoryBuilder:
    return _asked(_processed(COMMITTED), 2, at=90)


@case(
    "committed for certain; a second later the offset from before is answered",
    PASS,
    why="markers and offsets follow the answer",
)
def not_applied_yet() -> HistoryBuilder:
    return _asked(_processed(COMMITTED), 2, at=9)


@case(
    "the same, and the fetch asked for stable offsets",
    VIOLATION,
    MISSED,
    why="KIP-447: it is refused while a transaction's offsets are pending",
)
def not_applied_yet_though_stable() -> HistoryBuilder:
    return _asked(_processed(COMMITTED), 2, at=9, stable=True)


@case("80 seconds later the new offset is answered", PASS, {}, why="that is what was committed")
def applied() -> HistoryBuilder:
    return _asked(_processed(COMMITTED), 4, at=90)


@case(
    "80 seconds later, but a broker was down from the answer on",
    PASS,
    also=("lost-group-offset observation",),
    why="its coordinator may have been that broker",
)
def held_up_by_a_fault() -> HistoryBuilder:
    history = _processed(COMMITTED).fault("pause", [3], at=8.2, until=85)
    return _asked(history, 2, at=90)


@case(
    "aborted for certain, and its offset is answered",
    VIOLATION,
    MISSED,
    why="what was sent to an aborted transaction was never committed",
)
def aborted_and_applied() -> HistoryBuilder:
    return _asked(_processed(ABORTED), 4, at=90)


@case("aborted for certain, and the offset from before is answered", PASS, {}, why="nothing else holds")
def aborted_and_not_applied() -> HistoryBuilder:
    return _asked(_processed(ABORTED), 2, at=90)


@case(
    "nobody knows its outcome, and 80 seconds later the offset from before is answered",
    PASS,
    why="it may have been aborted",
)
def outcome_not_known() -> HistoryBuilder:
    return _asked(_processed(UNKNOWN), 2, at=90)


@case(
    "another transaction of the same id began after it and committed, then the offset from before is answered",
    VIOLATION,
    MISSED,
    why="a transaction cannot begin before its predecessor is complete",
)
def not_applied_though_the_next_one_is_through() -> HistoryBuilder:
    history = _processed(COMMITTED).transaction(2, COMMITTED, at=8.5, until=9, process=PROCESSOR, transactional_id="p")
    return _asked(history, 2, at=10)


@case(
    "a plain commit of 3 was made after the transaction's offsets had been taken, and 3 is answered",
    PASS,
    why="of two commits the one whose record stands later holds (KAFKA-5247)",
)
def plain_commit_behind_it() -> HistoryBuilder:
    return _asked(_processed(COMMITTED, plain_at=7.8), 3, at=90)


@case(
    "a plain commit of 3 was made before the transaction's offsets were sent, and 3 is answered at the end",
    VIOLATION,
    MISSED,
    why="the transaction's record stands behind it",
)
def plain_commit_before_it() -> HistoryBuilder:
    return _asked(_processed(COMMITTED, plain_at=6), 3, at=90)


def _logged(history: HistoryBuilder, state: str, *, at: float) -> None:
    """A record of the coordinator's log."""
    rows = history.rows["transaction_state"]
    rows.append(
        {
            **dict.fromkeys(TABLES["transaction_state"].names),
            "run": history.run,
            "snapshots": [0],
            "partition": 7,
            "offset": len(rows),
            "time_ns": int(at * SECOND),
            "transactional_id": "p",
            "producer_id": 1,
            "state": state,
            "removed": False,
        }
    )


def _complete_by_its_log(system: str) -> HistoryBuilder:
    history = _processed(COMMITTED, system=system)
    for state, at in (
        ("PrepareCommit", 6.9),
        ("CompleteCommit", 6.95),
        ("PrepareCommit", 7.9),
        ("CompleteCommit", 8.1),
    ):
        _logged(history, state, at=at)
    return history


@case(
    "Kafka 4.3.1: the coordinator's log says that it is complete; a second later the offset from before is answered",
    VIOLATION,
    MISSED,
    why="offsets are applied before the transaction is complete (KAFKA-17507)",
)
def complete_and_not_applied() -> HistoryBuilder:
    return _asked(_complete_by_its_log("kafka:4.3.1"), 2, at=9.2)


@case("the same on Kafka 3.7.0", PASS, {}, why="there they are applied some time after it is complete")
def complete_and_applied_later() -> HistoryBuilder:
    return _asked(_complete_by_its_log("kafka:3.7.0"), 2, at=9.2)


@case(
    "Kafka 4.3.1: only the transaction before it is complete by the log, and the offset from before is answered",
    PASS,
    why="another one's end says nothing of this one",
)
def only_the_one_before_is_complete() -> HistoryBuilder:
    history = _processed(COMMITTED, system="kafka:4.3.1")
    for state, at in (("PrepareCommit", 6.95), ("CompleteCommit", 7.0), ("PrepareCommit", 7.9)):
        _logged(history, state, at=at)
    return _asked(history, 2, at=9.2)


@case(
    "committed for certain; 25 quiet seconds later the offset from before is answered",
    PASS,
    why="30 quiet seconds are not over",
)
def not_applied_within_its_time() -> HistoryBuilder:
    return _asked(_processed(COMMITTED), 2, at=33)


@case(
    "committed for certain; 35 quiet seconds later the offset from before is answered",
    VIOLATION,
    MISSED,
    why="30 quiet seconds are over",
)
def not_applied_after_its_time() -> HistoryBuilder:
    return _asked(_processed(COMMITTED), 2, at=43)
