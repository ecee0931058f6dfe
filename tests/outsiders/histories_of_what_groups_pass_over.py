"""What a group, or a reader, passes over because it was never to be given it: records of transactions that nobody knows
to have committed, of readers of whom nobody knows what they asked; logs of coordinators whose clocks are wrong."""

from typing import Any

from harness.history.facts.internal_topics import partition_of
from harness.ports.load import WorkloadSpec
from tests.outsiders.history_builder import PASS, SOME, VIOLATION, HistoryBuilder, case, led

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
P, A, FINAL = 21, 11, 99
KEPT = ("__consumer_offsets", partition_of("g", 50))
HOUR = 3_600


def _passed(
    outcome: int, *, reader: str | None = "read_committed", final: str | None = "read_uncommitted", **more: Any
) -> HistoryBuilder:
    """Plain records at 0 to 2 and 4 to 6, a transaction's at 3; the group reads the plain ones and commits 7."""
    history = led(3, system="kafka:3.9.1", **more)
    history.client(P, role="producer", transactional_id="p", acks=-1, idempotent=True, tells_attempts=True)
    history.client(A, role="consumer", group="g", isolation=reader, offset_reset="earliest")
    history.client(FINAL, role="consumer", isolation=final, offset_reset="earliest")
    history.send(900, 3, at=2, process=P, transaction=1, status=outcome)
    history.transaction(1, outcome, at=1.9, until=2.5, process=P, transactional_id="p")
    history.log.append((3, 0, 900))
    for value in range(4, 7):
        history.send(value, value + 1, at=3 + value / 10)
        history.log.append((value + 1, 0, value))
    history.group("assigned", at=4.5, process=A, generation=1, offset=0)
    history.poll([(offset, value) for offset, _, value in history.log if value != 900], at=5, process=A)
    history.group("committed", at=6, process=A, generation=1, offset=8)
    for node in (1, 2, 3):
        history.replica(node, history.log, high_watermark=8)
    history.final([(offset, value) for offset, _, value in history.log if value != 900 or final != "read_committed"])
    history.partition["end_offset"] = 8
    return history


@case(
    "a group of committed readers passes over an aborted record, which the last reader, of everything, gets",
    PASS,
    why="KIP-98: it is never given to them",
)
def aborted_and_passed_over_by_a_group() -> HistoryBuilder:
    return _passed(ABORTED)


@case(
    "a group of committed readers passes over a record of a transaction whose outcome nobody was told",
    PASS,
    why="it may have been aborted",
)
def unknown_and_passed_over_by_a_group() -> HistoryBuilder:
    return _passed(UNKNOWN)


@case(
    "a group of an application, which did not tell what it reads, passes over an aborted record",
    PASS,
    why="it may be a group of committed readers",
)
def aborted_and_passed_over_by_nobody_knows_what_group() -> HistoryBuilder:
    return _passed(ABORTED, reader=None, workload=WorkloadSpec())


@case(
    "a group of committed readers passes over a committed record",
    VIOLATION,
    {"group-skip violation": {900}, "skipped-read violation": SOME},
    also=("group-skip violation", "skipped-read violation"),
    why="it was committed before the poll, and is there",
)
def committed_and_passed_over_by_a_group() -> HistoryBuilder:
    return _passed(COMMITTED, final="read_uncommitted")


# ---- clocks of coordinators --------------------------------------------------------------------------------------


def _kept(clock: float, *, answered: int, at: float = 60) -> HistoryBuilder:
    """A group commits 4 and then 8, and its log has both, by a clock that is off so much; then it gets `answered`."""
    history = led(10, system="kafka:4.3.1")
    history.anchors = [{"monotonic_ns": 0, "wall_ns": 0}]
    history.client(A, role="consumer", group="g", isolation="read_uncommitted", offset_reset="earliest")
    for node in (1, 2, 3):
        history.kept_log(KEPT, node, 2)
    history.kept_state(KEPT, 1, 0, (1, 2, 3), at=0)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    for number, offset in enumerate((4, 8)):
        history.group("committed", at=4 + number, process=A, generation=1, offset=offset)
        history.kept_offset(KEPT[1], offset, at=4 + number + clock)
    return history.group("fetched", at=at, process=A, offset=answered).finish()


@case(
    "the coordinator's clock is two hours ahead; the group is told what it committed last",
    PASS,
    why="its log has both commits in their order, whatever the clock says",
)
def coordinators_clock_ahead() -> HistoryBuilder:
    return _kept(2 * HOUR, answered=8)


@case(
    "the coordinator's clock is two hours ahead; the group is told the commit before",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="the later one stands in the log",
)
def coordinators_clock_ahead_and_told_the_one_before() -> HistoryBuilder:
    return _kept(2 * HOUR, answered=4)


@case(
    "the coordinator's clock stands an hour back, before the run began; the group is told what it committed last",
    PASS,
    why="the same",
)
def coordinators_clock_behind() -> HistoryBuilder:
    return _kept(-HOUR + 3590, answered=8)


# ---- positions of groups whose partition was written over --------------------------------------------------------


@case(
    "a member of a static group is down for a day, Kafka 2.8; its group comes back to its offset",
    PASS,
    why="an offset is kept for a week after the last member",
)
def back_after_a_day() -> HistoryBuilder:
    history = led(10, system="kafka:2.8.2")
    history.client(A, role="consumer", group="g", isolation="read_uncommitted", offset_reset="earliest")
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(4), at=3)
    history.group("committed", at=4, process=A, generation=1, offset=4)
    history.group("fetched", at=24 * HOUR, process=A, offset=4)
    history.group("assigned", at=24 * HOUR + 1, process=A, generation=3, offset=4)
    return history.reads(A, range(4, 10), at=24 * HOUR + 2, assignment=1).finish()


@case(
    "two transactional producers of an application write one value each into one partition; nobody told isolation, ids "
    "or idempotence; one is aborted, and the last reader, of whom nobody knows either, does not get it",
    PASS,
    why="what was aborted is not missed",
)
def little_is_told_of_two_transactions() -> HistoryBuilder:
    history = led(3, workload=WorkloadSpec(), system="kafka:4.3.1")
    for process in (P, P + 1):
        history.client(process, role="producer", acks=-1)
    history.client(FINAL, role="consumer")
    for number, outcome in enumerate((COMMITTED, ABORTED)):
        at = 5.0 + number
        history.send(100 + number, 3 + number, at=at, process=P + number, transaction=number, status=outcome)
        history.transaction(number, outcome, at=at - 0.1, until=at + 0.5, process=P + number)
    history.log.append((3, 0, 100))
    history.finish(snapshots=False)
    history.partition["end_offset"] = 7
    return history


@case(
    "the same, and the committed one is not there",
    VIOLATION,
    {"lost-write violation": {100}},
    also=("torn-transaction violation",),
    why="it was committed for certain",
)
def little_is_told_and_the_committed_one_is_gone() -> HistoryBuilder:
    history = little_is_told_of_two_transactions()
    history.rows["records"] = [row for row in history.rows["records"] if not (row["kind"] == 2 and row["value"] == 100)]
    return history
