"""Applications that make a transaction again, with the same records, after an attempt that came to nothing."""

from collections.abc import Sequence

from harness.ports.load import WorkloadSpec
from tests.outsiders.history_builder import PASS, SOME, VACUOUS, VIOLATION, HistoryBuilder, case, led

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
PRODUCER, READER, FINAL = 21, 9, 99
A, B = 10, 11
Places = Sequence[tuple[int, int]]  # offset, value


def _attempts(*outcomes: int, isolation: str = "read_committed") -> HistoryBuilder:
    """In each attempt A goes to t-0 and B to t-1, at offsets 0, 2, 4 ..."""
    history = HistoryBuilder(workload=WorkloadSpec(), system="kafka:4.3.1").place(1, "t", 1)
    for partition_id, leader in ((0, 1), (1, 2)):
        history.state(leader, 0, (1, 2, 3), at=0, start=0, partition_id=partition_id)
    history.client(PRODUCER, role="producer", transactional_id="p", acks=-1, idempotent=True, tells_attempts=True)
    history.client(FINAL, role="consumer", isolation=isolation)
    for number, outcome in enumerate(outcomes, start=1):
        at = 5.0 * number
        for partition_id, value in ((0, A), (1, B)):
            history.send(
                value,
                2 * (number - 1),
                at=at + partition_id / 10,
                elapsed_s=0.05,
                process=PRODUCER,
                transaction=number,
                status=outcome,
                partition_id=partition_id,
            )
        history.transaction(number, outcome, at=at - 0.1, until=at + 1, process=PRODUCER, transactional_id="p")
    return history


def _seen(history: HistoryBuilder, first: Places, second: Places, *, end: int) -> HistoryBuilder:
    history.final(first)
    history.final(second, partition_id=1)
    for row in history.rows["partitions"]:
        row["end_offset"] = end
    return history


@case(
    "a transaction over two partitions is aborted and made again; committed readers find both records once",
    PASS,
    why="the second attempt was committed as a whole",
)
def both_made_again() -> HistoryBuilder:
    return _seen(_attempts(ABORTED, COMMITTED), [(2, A)], [(2, B)], end=4)


@case(
    "the same, and of the second attempt one half is missing",
    VIOLATION,
    {"lost-write violation": {B}, "torn-transaction violation": SOME},
    why="that the first attempt was aborted excuses nothing of the second",
)
def both_made_again_and_one_missing() -> HistoryBuilder:
    return _seen(_attempts(ABORTED, COMMITTED), [(2, A)], [], end=4)


@case(
    "of the first attempt nobody knows the outcome, and it was committed; so is the second one: all is there twice",
    PASS,
    why="it was sent twice, and twice it is there",
)
def unknown_and_made_again() -> HistoryBuilder:
    return _seen(_attempts(UNKNOWN, COMMITTED), [(0, A), (2, A)], [(0, B), (2, B)], end=4)


@case(
    "the first attempt is aborted, of the second nobody knows the outcome; committed readers find both records",
    (PASS, VACUOUS),
    why="the second one may have been committed, and it was",
)
def made_again_of_unknown_outcome() -> HistoryBuilder:
    return _seen(_attempts(ABORTED, UNKNOWN), [(2, A)], [(2, B)], end=4)


@case(
    "both attempts are aborted, and committed readers find the record of the second",
    VIOLATION,
    {"aborted-read violation": SOME},
    also=["phantom violation"],
    why="neither was committed",
)
def made_again_and_aborted_again() -> HistoryBuilder:
    return _seen(_attempts(ABORTED, ABORTED), [(2, A)], [], end=4)


@case(
    "the first attempt is aborted, the second committed; a committed reader finds both of one of the records",
    VIOLATION,
    {"aborted-read violation": SOME},
    also=["duplicate violation"],
    why="the copy of the first attempt is visible",
)
def the_aborted_one_is_visible_as_well() -> HistoryBuilder:
    return _seen(_attempts(ABORTED, COMMITTED), [(0, A), (2, A)], [(2, B)], end=4)


@case(
    "three attempts, of which the last is committed; brokers stamp the records, and readers get the last stamps",
    PASS,
    why="each attempt was stamped when it was appended",
)
def stamped_at_each_attempt() -> HistoryBuilder:
    history = _attempts(ABORTED, ABORTED, COMMITTED)
    history.anchors = [{"monotonic_ns": 0, "wall_ns": 0}]
    _seen(history, [(4, A)], [(4, B)], end=6)
    for row in history.rows["records"]:
        number = 3 if row["kind"] == 2 else row["transaction"]
        row["log_append"], row["timestamp_ms"] = True, 5_000 * number + 100 * row["partition_id"] + 20
    return history


@case(
    "the first attempt is aborted after a reader of everything saw it; the final reader wants committed records",
    PASS,
    why="it is in the log once more, and what was aborted may be gone from view",
)
def seen_by_a_reader_of_everything_before() -> HistoryBuilder:
    history = _attempts(ABORTED, COMMITTED)
    history.client(READER, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    history.poll([(0, A)], at=5.5)
    history.poll([(2, A)], at=10.5)
    return _seen(history, [(2, A)], [(2, B)], end=4)


@case(
    "an application sends a record again that its group had committed; the next member is given the copy",
    PASS,
    why="it is another place of the log, and was never committed before",
)
def the_copy_is_given_to_the_next_member() -> HistoryBuilder:
    history = led(3, workload=WorkloadSpec()).client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.members(11, 12)
    history.send(50, None, at=4, elapsed_s=2, status=2)
    history.send(50, 4, at=7)
    history.log += [(3, 0, 50), (4, 0, 50)]
    history.group("assigned", at=2.5, process=11, generation=1, offset=0)
    history.poll([(0, 0), (1, 1), (2, 2), (3, 50)], at=6.2, process=11)
    history.group("committed", at=6.5, process=11, generation=1, offset=4)
    history.group("revoked", at=6.8, process=11, generation=1)
    history.group("assigned", at=8, process=12, generation=2, offset=4)
    history.poll([(4, 50)], at=8.5, process=12)
    return history.group("committed", at=9, process=12, generation=2, offset=5).finish()


@case(
    "of the first attempt nobody knows the outcome, and its successor's start aborted it; the second one is committed",
    PASS,
    why="committed readers find each record once",
)
def unknown_aborted_and_made_again() -> HistoryBuilder:
    return _seen(_attempts(UNKNOWN, COMMITTED), [(2, A)], [(2, B)], end=4)


@case(
    "the records of the first attempt had no answer when it was aborted; a reader of everything finds them twice",
    PASS,
    why="what was not answered may be there",
)
def unanswered_aborted_and_made_again() -> HistoryBuilder:
    history = _attempts(ABORTED, COMMITTED, isolation="read_uncommitted")
    for row in history.rows["records"][:2]:
        row["offset"] = None
    return _seen(history, [(0, A), (2, A)], [(0, B), (2, B)], end=4)


@case(
    "between the attempts another producer's records came; a committed reader is given all in the order of the log",
    PASS,
    why="the second attempt came behind them, and the first one is not there",
)
def another_producer_between_the_attempts() -> HistoryBuilder:
    history = _attempts(ABORTED, COMMITTED)
    for row in history.rows["records"][2:]:
        row["offset"] = 3
    history.client(3, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.client(READER, role="consumer", isolation="read_committed", offset_reset="earliest")
    for partition_id, value in ((1, 30), (0, 31)):
        history.send(value, 2, at=7 + value / 100, process=3, partition_id=partition_id)
    history.poll([(2, 31)], at=8)
    history.poll([(2, 30)], at=8.2, partition_id=1)
    history.poll([(3, A)], at=11.5)
    history.poll([(3, B)], at=11.7, partition_id=1)
    return _seen(history, [(2, 31), (3, A)], [(2, 30), (3, B)], end=5)


@case(
    "the first attempt was committed, the second one, made by mistake, is aborted; a reader of everything has both",
    PASS,
    why="the one that counts is there, and the other one may be seen",
)
def made_again_by_mistake() -> HistoryBuilder:
    history = _attempts(COMMITTED, ABORTED, isolation="read_uncommitted")
    return _seen(history, [(0, A), (2, A)], [(0, B), (2, B)], end=4)


@case(
    "the same, and the committed ones are gone",
    VIOLATION,
    {"lost-write violation": {A, B}},
    also=["torn-transaction violation"],
    why="that an aborted attempt had them too excuses nothing",
)
def made_again_by_mistake_and_lost() -> HistoryBuilder:
    history = _attempts(COMMITTED, ABORTED).send(40, 4, at=20, process=3)
    return _seen(history, [(4, 40)], [], end=5)
