"""Sends in flight as libraries really have them: gaps, whole batches again, order over cuts, times of a retry."""

from collections.abc import Sequence

from tests.outsiders.history_builder import PASS, REWOUND, SOME, VIOLATION, HistoryBuilder, case, led
from workloads.produce_and_poll import ProduceAndPollSettings

AT_LEAST_ONCE = ProduceAndPollSettings(idempotence=False)
NOW = 1_700_000_000_000


def _producer(*, idempotent: bool, count: int = 3) -> HistoryBuilder:
    history = led(count, workload=ProduceAndPollSettings() if idempotent else AT_LEAST_ONCE)
    for row in history.rows["records"]:
        row["process"] = 2
    history.client(1, role="producer", acks=-1, idempotent=idempotent, tells_attempts=True)
    return history.client(2, role="producer", acks=-1, idempotent=True, tells_attempts=True)


@case(
    "librdkafka: of four in flight the first expires in its queue, and the others are stored in order behind nothing",
    PASS,
    why="MSG_TIMED_OUT: nobody knows; a gap in what a producer sent is no disorder",
)
def the_first_of_four_expires() -> HistoryBuilder:
    history = _producer(idempotent=True).send(50, None, at=3, elapsed_s=6, status=2)
    for number in (1, 2, 3):
        history.send(50 + number, 2 + number, at=3 + number / 100, elapsed_s=0.5)
        history.log.append((2 + number, 0, 50 + number))
    return history.finish()


def _flipped(*, attempt_at: float | None, partition_id: int = 0) -> HistoryBuilder:
    """Two in flight of a producer without idempotence; the second one stands first."""
    history = _producer(idempotent=False).place(1, "t", 1)
    history.send(50, 4, at=30, elapsed_s=1)
    history.send(51, 3, at=30.1, elapsed_s=0.2)
    history.log += [(3, 0, 51), (4, 0, 50)]
    if attempt_at is not None:
        history.failed_attempt(at=attempt_at, partition_id=partition_id, error="NotLeaderOrFollower 6", status=1)
    return history.finish()


@case(
    "kafka-python without idempotence: the second of two in flight stands first; the first was refused once "
    "and sent again",
    PASS,
    {"reordering permitted": SOME},
    why="that is what several in flight without idempotence do",
)
def refused_once_and_overtaken() -> HistoryBuilder:
    return _flipped(attempt_at=30.15)


@case(
    "the same, and it was the partition beside that was refused",
    VIOLATION,
    {"reordering violation": SOME},
    why="its client tells every attempt that failed, and none was one of this partition",
)
def overtaken_though_the_partition_beside_was_refused() -> HistoryBuilder:
    return _flipped(attempt_at=30.15, partition_id=1)


@case(
    "the same, and the refusal was twenty seconds before either was called",
    VIOLATION,
    {"reordering violation": SOME},
    why="nothing was sent again while these two were in flight",
)
def overtaken_long_after_a_refusal() -> HistoryBuilder:
    return _flipped(attempt_at=10)


@case(
    "five of an idempotent producer in flight: the first is acknowledged, and cut by an allowed unclean "
    "election, whose "
    "leader stores the other four at its place and behind",
    PASS,
    {"lost-write permitted": {50}, "unclean-election permitted": SOME},
    also=[*REWOUND["permitted"], "duplicate permitted"],
    why="the log's end went back lawfully between the two",
)
def an_allowed_cut_among_five_in_flight() -> HistoryBuilder:
    history = _producer(idempotent=True, count=5).unclean_config("true")
    history.state(1, 0, (1,), at=5)
    history.send(50, 5, at=6, elapsed_s=0.2)
    history.replica(1, [*history.log, (5, 0, 50)], at=7, reason="kill", high_watermark=6)
    history.fault("kill", [1], at=7, until=12)
    history.state(2, 1, (2,), at=8, start=5)
    for number in range(1, 5):
        history.send(50 + number, 4 + number, at=6 + number / 100, elapsed_s=3)
        history.log.append((4 + number, 1, 50 + number))
    history.started(1, at=12)
    history.truncation(1, 5, 6, epoch=1, at=13)
    return history.state(2, 1, (1, 2, 3), at=14).finish()


@case(
    "aiokafka without idempotence: a batch of three is not answered, and sent again whole; it stands there "
    "twice, in order",
    PASS,
    {"duplicate permitted": {50, 51, 52}},
    why="at least once, with an attempt of which nobody knows",
)
def a_whole_batch_again() -> HistoryBuilder:
    history = _producer(idempotent=False)
    history.sends([(50 + number, 6 + number, 0) for number in range(3)], at=10, elapsed_s=4)
    history.failed_attempt(at=13)
    history.log += [(3 + number, 0, 50 + number % 3) for number in range(3)]
    history.log += [(6 + number, 0, 50 + number) for number in range(3)]
    return history.finish()


# ---- the times of a batch that was sent again ---------------------------------------------------------------------


def _stamped(stamps: Sequence[int]) -> HistoryBuilder:
    """CreateTime. One operation of three records, whose batch was sent again: each is answered the batch's largest
    time. Readers get `stamps` (relative to the run's begin)."""
    history = led(3)
    for row in history.rows["records"]:
        row |= {"timestamp_ms": NOW + row["invoked_ns"] // 1_000_000, "log_append": False}
    history.anchors = [{"monotonic_ns": 0, "wall_ns": NOW * 1_000_000}]
    history.client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.sends(
        [(50 + number, 3 + number, 0) for number in range(3)],
        at=10,
        elapsed_s=4,
        timestamp_ms=NOW + 10_020,
        log_append=False,
    )
    history.failed_attempt(at=13)
    history.log += [(3 + number, 0, 50 + number) for number in range(3)]
    history.finish()
    times = {value: NOW + 1000 + 100 * value for value in range(3)}
    times |= {50 + number: NOW + stamp for number, stamp in enumerate(stamps)}
    for row in history.rows["records"]:
        if row["kind"] == 2:
            row |= {"timestamp_ms": times[row["value"]], "log_append": False}
    return history


@case(
    "a batch with CreateTime was sent again, and each record answered the largest time of it; readers get their own",
    PASS,
    why="that is what the answer to a repetition says",
)
def answered_the_largest_time_of_a_batch() -> HistoryBuilder:
    return _stamped((10_005, 10_010, 10_020))


@case(
    "the same, and of one record readers get a time of a minute later",
    VIOLATION,
    {"timestamps violation": SOME},
    why="no answer said so, and no producer can have set it",
)
def read_with_a_later_time_than_answered() -> HistoryBuilder:
    return _stamped((10_005, 70_010, 10_020))


# ---- copies of which retention took one -----------------------------------------------------------------------------


def _one_copy_expired(*, idempotent: bool) -> HistoryBuilder:
    """Value 50 was read at offset 3, is answered at offset 8 after a time-out, and stands there; the log "
    "begins at 5."""
    load = ProduceAndPollSettings() if idempotent else AT_LEAST_ONCE
    history = led(3, topics={"t": {"retention.ms": "1000"}}, workload=load)
    for row in history.rows["records"]:
        row["process"] = 2
    history.client(1, role="producer", acks=-1, idempotent=idempotent, tells_attempts=True)
    history.client(2, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.client(9, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    history.send(50, 8, at=2, elapsed_s=3)
    history.failed_attempt(at=4)
    for number in range(4):
        history.send(60 + number, 4 + number, at=2.2 + number / 10, process=2)
    history.poll([(0, 0), (1, 1), (2, 2), (3, 50)], at=3)
    history.log = [(5, 0, 61), (6, 0, 62), (7, 0, 63), (8, 0, 50)]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=5, cleanup_policy="delete", end_offset=9)
    return history


@case(
    "an idempotent producer's record was read at 3, and answered at 8 after a time-out; retention has taken 3 since",
    VIOLATION,
    {"duplicate violation": {50}, "removed-by-configuration observation": SOME},
    why="the log once had it twice, whatever took the first copy later",
)
def one_of_two_copies_expired() -> HistoryBuilder:
    return _one_copy_expired(idempotent=True)


@case(
    "the same of a producer without idempotence",
    PASS,
    {"duplicate permitted": {50}, "removed-by-configuration observation": SOME},
    why="at least once",
)
def one_of_two_copies_expired_at_least_once() -> HistoryBuilder:
    return _one_copy_expired(idempotent=False)
