"""Who is asked for progress when the last fault is over, and gets nothing: what the promise makes of it."""

from collections.abc import Sequence
from typing import Any

from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_AUTHORIZED, OLD_EPOCH = 7, 19, 29, 47
BROKEN = {"no-progress violation": 1}
REPORTED = {"no-progress observation": SOME}
BEGIN, END = 101.0, 132.0  # the final read is at 100, and recovery may take 30 s


def _asked(
    history: HistoryBuilder, *, code: int | None = None, isr: Sequence[int] = (1, 2, 3), end: float = END, **more: Any
) -> HistoryBuilder:
    """By default a fresh client's write to t-0, refused with `code`, or not answered."""
    outcome = "unanswered" if code is None else "refused"
    asked = {"age": "fresh", "what": "write", "outcome": outcome, "code": code, "isr": list(isr)}
    return history.progress(at=BEGIN, until=end, **asked | more)


@case(
    "for 31 s a leader answers NOT_ENOUGH_REPLICAS; three replicas are in sync, and min.insync.replicas is 2",
    VIOLATION,
    BROKEN,
    why="a write with acks=all is refused only while fewer than that are in sync",
)
def refused_for_too_few_though_all_are_in_sync() -> HistoryBuilder:
    return _asked(led(settings={"min.insync.replicas": "2"}).finish(), code=NOT_ENOUGH_REPLICAS)


@case(
    "the same, and min.insync.replicas was 4 from second 40 to second 60 only",
    VIOLATION,
    BROKEN,
    why="what held before it was asked refuses nothing now",
)
def refused_by_a_minimum_of_before() -> HistoryBuilder:
    history = led(settings={"min.insync.replicas": "2"}).finish()
    for at, value in ((0, "2"), (40, "4"), (60, "2")):
        history.configured("min.insync.replicas", value, at=at)
    return _asked(history, code=NOT_ENOUGH_REPLICAS)


@case(
    "the same, and min.insync.replicas is 4 of a topic with three replicas",
    PASS,
    REPORTED,
    why="a minimum above the number of replicas refuses every write, lawfully",
)
def refused_by_a_minimum_above_the_replicas() -> HistoryBuilder:
    history = led().finish().configured("min.insync.replicas", "4")
    return _asked(history, code=NOT_ENOUGH_REPLICAS)


@case(
    "of two partitions one takes the fresh record, and the other answers REQUEST_TIMED_OUT for 31 s, all in sync",
    VIOLATION,
    BROKEN,
    why="each partition is promised for itself",
)
def one_of_two_partitions_takes_nothing() -> HistoryBuilder:
    history = led().place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.finish()
    for node in history.brokers:
        history.replica(node, [], high_watermark=0, partition_id=1)
    _asked(history, outcome="done", end=101.1, offset=10)
    return _asked(history, code=REQUEST_TIMED_OUT, partition=1, leader=2)


@case(
    "a write times out for 31 s; broker 3 is down since second 50 by itself, and the books still call it in sync",
    VIOLATION,
    {"node-ended violation": 1, **REPORTED},
    why="a write waits for every replica in sync: a node that is down explains it, and its own end is the violation",
)
def a_follower_in_sync_is_down() -> HistoryBuilder:
    history = led().finish()
    history._add("node_ends", node=3, time_ns=50 * SECOND, exit_status=1, reason="fatal-fault", fresh=True)
    return _asked(history, code=REQUEST_TIMED_OUT)


@case(
    "a write times out for 31 s, all replicas in sync and running; a fourth broker, which has none, is down",
    VIOLATION,
    {"node-ended violation": 1, **REPORTED},
    why="it is promised while every node runs; the node's own end is the violation",
)
def a_broker_without_a_replica_is_down() -> HistoryBuilder:
    history = led().finish()
    history._add("node_ends", node=4, time_ns=50 * SECOND, exit_status=1, reason="fatal-fault", fresh=True)
    return _asked(history, code=REQUEST_TIMED_OUT)


@case(
    "a write times out for 31 s; broker 3 is out of the ISR, no fault is left, and two in sync are enough",
    OPEN,
    REPORTED,
    why="not every replica is in sync, and nothing that was recorded explains it",
)
def two_of_three_in_sync() -> HistoryBuilder:
    history = led(settings={"min.insync.replicas": "2"}).state(1, 0, (1, 2), at=60)
    return _asked(history.finish(), code=REQUEST_TIMED_OUT, isr=(1, 2))


@case(
    "a write is refused for 5 s only, all in sync; recovery may take 30 s",
    OPEN,
    REPORTED,
    why="it is promised that it comes, not that it comes at once",
)
def refused_for_a_moment() -> HistoryBuilder:
    return _asked(led().finish(), code=REQUEST_TIMED_OUT, end=BEGIN + 5)


@case(
    "a fresh client may not write to the topic",
    PASS,
    REPORTED,
    why="a right that is lacking is a rule's",
)
def not_authorized() -> HistoryBuilder:
    return _asked(led().finish(), code=NOT_AUTHORIZED)


@case(
    "a fresh client gets no answer for 31 s; the fault that cut it off is not over",
    PASS,
    REPORTED,
    why="faults suspend it",
)
def a_fault_that_is_left() -> HistoryBuilder:
    history = led().finish().fault("isolate", [1], at=30)
    return _asked(history)


@case(
    "an old producer is refused for its epoch; the next client of its transactional id goes on",
    PASS,
    REPORTED,
    why="a newer producer of the transactional id fences the older one",
)
def fenced_by_its_successor() -> HistoryBuilder:
    return _asked(led().finish(), age="old", client="processor-1", code=OLD_EPOCH)


@case(
    "a new member was not waited for, since the old ones had got everything, and got nothing",
    PASS,
    why="a coordinator may let a new member wait; what was not asked is held against nobody",
)
def a_new_member_that_was_not_waited_for() -> HistoryBuilder:
    history = led().finish()
    _asked(history, age="old", what="membership", group="g", outcome="done", end=101.2)
    return _asked(history, what="membership", group="g", outcome="not_asked", reason="not_waited_for", end=102)


@case(
    "the members of a group were given nothing for 31 s, all brokers ran, and everything was led and in sync",
    OPEN,
    REPORTED,
    why="a coordinator gives up a member of whom it hears nothing, and nothing explains that it did not",
)
def a_group_that_stands_still() -> HistoryBuilder:
    return _asked(led().finish(), age="old", what="membership", group="g", outcome="unanswered")


@case(
    "a producer of before is answered CORRUPT_MESSAGE for 31 s by the leader, while fresh clients get theirs",
    OPEN,
    REPORTED,
    why="the broker refuses it, so that it is not certain that its library holds it up",
)
def an_old_producer_that_is_refused_for_long() -> HistoryBuilder:
    history = _asked(led().finish(), age="old", what="write", code=2)
    return _asked(history, what="write", outcome="done", end=102.2)


@case(
    "the same, and no broker answers it anything",
    PASS,
    REPORTED,
    why="a fresh client shows that the partition takes writes: what lies between is the library",
)
def an_old_producer_that_its_library_holds_up() -> HistoryBuilder:
    history = _asked(led().finish(), age="old", what="write", outcome="unanswered")
    return _asked(history, what="write", outcome="done", end=102.2)
