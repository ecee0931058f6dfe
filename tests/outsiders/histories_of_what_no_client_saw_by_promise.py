"""What no client saw: epochs, high watermarks and generations that go back, and a log of another topic."""

from collections.abc import Sequence

from tests.outsiders.groups import group_of
from tests.outsiders.history_builder import VIOLATION, HistoryBuilder, case, led

A, B = 11, 12
AFTER = 120.0  # the logs are read after the final read, which is at 100
AGAIN = "group-redelivery observation"


@case(
    "a leader wrote down a high watermark of 10, and 60 seconds later, in the same epoch, one of 6; its log has ten",
    VIOLATION,
    {"high-watermark-regression violation": 1},
    why="within a leader's epoch the high watermark only rises",
)
def high_watermark_goes_back() -> HistoryBuilder:
    history = led()
    for at, mark in ((20, 10), (80, 6)):
        history.wrote_down(1, mark, at=at)
    history.replica(1, history.log, at=AFTER, high_watermark=6)
    for node in (2, 3):
        history.replica(node, history.log, at=AFTER, high_watermark=10)
    return history.finish(snapshots=False)


def _stamped(late: Sequence[int]) -> HistoryBuilder:
    """Broker 2 leads epoch 1 from offset 10 on; what it takes is stamped with the epochs of `late`."""
    history = led().fail_over(2)
    for number, epoch in enumerate(late):
        history.ack(20 + number, at=15 + number, process=2)
        history.log[-1] = (10 + number, epoch, 20 + number)
    return history.finish()


@case(
    "a new leader's first record carries its epoch, and those after it the one before, on all three logs",
    VIOLATION,
    {"leader-epochs violation": 1},
    why="KIP-101: a leader stamps every batch with its epoch; epochs never fall within a log",
)
def epochs_fall_within_the_log() -> HistoryBuilder:
    return _stamped((1, 0, 0))


@case(
    "all that a new leader takes carries the epoch of the one before, on all three logs",
    VIOLATION,
    {"leader-epochs violation": 1},
    why="KIP-101: it had told that its own epoch begins at 10",
)
def stamped_with_the_epoch_before() -> HistoryBuilder:
    return _stamped((0, 0, 0))


@case(
    "a follower's log, by its own file, is of another topic than the partition in the books",
    VIOLATION,
    {"inconsistent-topic-id violation": 1},
    why="KIP-516: a broker does not serve a log of another topic id",
)
def log_of_another_topic() -> HistoryBuilder:
    history = led().finish()
    for row in history.rows["partition_states"]:
        row["topic_id"] = "AAAAAAAAAAAAAAAAAAAAAQ"
    for row in history.rows["replica_snapshots"]:
        row["topic_id"] = "AAAAAAAAAAAAAAAAAAAAA" + ("g" if row["node"] == 3 else "Q")
    return history


@case(
    "a group is in generation 7, and fifteen quiet seconds later a member is told generation 2",
    VIOLATION,
    {"generation-regression violation": 1},
    also=[AGAIN],
    why="a generation is in the group's log before any member hears of it, and only rises",
)
def generation_went_back() -> HistoryBuilder:
    history = group_of(A, B).group("assigned", at=2.5, process=A, generation=7, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, offset=10, generation=7)
    return history.group("assigned", at=19, process=B, generation=2, offset=10).finish()
