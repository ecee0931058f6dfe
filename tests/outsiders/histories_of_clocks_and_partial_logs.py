"""Clocks that jump, logs of a part of the replicas, journals without books, snapshots in the middle of a run."""

from collections.abc import Sequence

from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, REWOUND, VIOLATION, HistoryBuilder, case, led

NOW = 1_700_000_000_000
HOUR = 3_600
NEVER_PASS = (VIOLATION, OPEN)
LEDGERS = ("partition_states", "replica_snapshots", "replica_log", "configuration", "controllers")


def _clock(history: HistoryBuilder, jump_s: int, *, at: float) -> None:
    """This machine's clock, by which the brokers go, is set by so much at that second."""
    history.anchors = [
        {"monotonic_ns": 0, "wall_ns": NOW * 1_000_000},
        {"monotonic_ns": int((at - 1) * SECOND), "wall_ns": NOW * 1_000_000 + int((at - 1) * SECOND)},
        {"monotonic_ns": int((at + 1) * SECOND), "wall_ns": NOW * 1_000_000 + int((at + 1 + jump_s) * SECOND)},
    ]


# ---- clocks ------------------------------------------------------------------------------------------------------


def _half_an_hours_retention(*, jump_s: int | None) -> HistoryBuilder:
    """Stamped by their producers when they were sent; the first six are gone from the head at the end."""
    history = led(0, system="kafka:4.3.1", topics={"t": {"retention.ms": "1800000"}})
    for value in range(10):
        at = 1 + value / 10
        history.ack(value, at=at, timestamp_ms=NOW + int(1000 * at), log_append=False)
    _clock(history, jump_s or 0, at=40)
    history.log = history.log[6:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=6, cleanup_policy="delete", end_offset=10)
    for row in history.rows["records"]:
        if row["kind"] == 2:
            row |= {"timestamp_ms": NOW + 1000 + 100 * row["value"], "log_append": False}
    return history


@case(
    "the machine's clock jumps an hour ahead; records go for half an hour's retention though the run took two minutes",
    (PASS, OPEN),
    also=["removed-by-configuration observation", "lost-write observation"],
    why="brokers reckon age by the wall clock, and that says an hour",
)
def retention_after_the_clock_jumped() -> HistoryBuilder:
    return _half_an_hours_retention(jump_s=HOUR)


@case(
    "the same, and the clock went steadily",
    VIOLATION,
    {"lost-write violation": set(range(6))},
    why="two minutes are no half hour",
)
def retention_though_the_clock_went_steadily() -> HistoryBuilder:
    return _half_an_hours_retention(jump_s=None)


@case(
    "the machine's clock is set an hour back; a topic with LogAppendTime has later records with earlier times",
    (PASS, OPEN),
    also=["timestamps observation", "timestamps permitted"],
    why="Kafka stamps with the clock that it is given, and promises no more",
)
def append_times_after_the_clock_was_set_back() -> HistoryBuilder:
    history = led(0, system="kafka:4.3.1", topics={"t": {"message.timestamp.type": "LogAppendTime"}})
    stamps = {}
    for value in range(10):
        at = 1 + 8 * value
        stamps[value] = NOW + int(1000 * (at + 0.05 - (HOUR if at > 40 else 0)))
        history.ack(value, at=at, timestamp_ms=stamps[value], log_append=True)
    _clock(history, -HOUR, at=38)
    history.finish()
    for row in history.rows["records"]:
        if row["kind"] == 2:
            row |= {"timestamp_ms": stamps[row["value"]], "log_append": True}
    return history


# ---- a part of the logs --------------------------------------------------------------------------------------------


@case(
    "the final read ended early; the logs of both followers in sync have everything, and the leader's was not read",
    OPEN,
    {"unseen-tail observation": {7, 8, 9}},
    why="nobody can say what the leader has, and it is the leader that readers are given",
)
def only_the_followers_logs() -> HistoryBuilder:
    history = led(10)
    for node in (2, 3):
        history.replica(node, history.log, high_watermark=10)
    history.final([(offset, offset) for offset in range(7)])
    history.partition |= {"end_offset": 10, "read_to_end": False}
    return history


@case(
    "one log was read, that of a follower in sync: it has another record at 5 than readers were given, in the "
    "same epoch",
    NEVER_PASS,
    also=[
        "evidence observation",
        "evidence violation",
        "replica-divergence violation",
        "inconsistent-offsets violation",
        "phantom violation",
        "inconsistent-offsets observation",
    ],
    why="below the high watermark a follower in sync holds what its leader holds",
)
def a_followers_log_against_the_readers() -> HistoryBuilder:
    history = led(10).replica(2, [(n, 0, 77 if n == 5 else n) for n in range(10)], high_watermark=10, at=120)
    return history.send(77, None, at=0.5, status=2, process=3).finish(snapshots=False)


@case(
    "a topic that only compacts, in somebody else's cluster; the log begins at 4, and each record had a key of its own",
    VIOLATION,
    also=["compacted-away violation", "lost-write violation"],
    why="brokers refuse DeleteRecords of such a topic, and compaction keeps the last of each key",
)
def head_of_a_compacted_topic_of_somebody_elses() -> HistoryBuilder:
    history = HistoryBuilder(system="attached", topics={"t": {"cleanup.policy": "compact"}})
    history.polled(1, 1, 0, (1, 2, 3), at=0)
    history.polled(1, 1, 0, (1, 2, 3), at=60)
    for value in range(10):
        history.send(value, value, at=1 + value / 10, key=value)
        history.log.append((value, 0, value))
    history.configured("cleanup.policy", "compact")
    history.log = history.log[4:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=4, cleanup_policy="compact", end_offset=10)
    for row in history.rows["records"]:
        if row["kind"] == 2:
            row["key"] = row["value"]
    return history


# ---- brokers' journals without books ---------------------------------------------------------------------------------


def _journals_alone(acks: int) -> HistoryBuilder:
    """Broker 1 is killed, 2 says that it leads epoch 1 from 7 on; nobody recorded leaders or ISRs, and no log."""
    history = led(10, acks=acks).fail_over(2, kept=7)
    history.ack(20, at=15)
    history.finish()
    for table in LEDGERS:
        history.rows[table].clear()
    return history


@case(
    "no books and no logs, only brokers' journals: 2 led epoch 1 from 7 on, and three records with acks=1 are gone",
    (PASS, OPEN),
    also=["lost-write permitted", "lost-write observation", *REWOUND["permitted"], *REWOUND["observation"]],
    why="leadership moved, as its new leader says",
)
def acks_1_by_journals_alone() -> HistoryBuilder:
    return _journals_alone(1)


@case(
    "the same of records by all",
    NEVER_PASS,
    also=["lost-write violation", "lost-write observation", *REWOUND["violation"], *REWOUND["observation"]],
    why="nothing is known that permits it",
)
def acks_all_by_journals_alone() -> HistoryBuilder:
    return _journals_alone(-1)


# ---- snapshots in the middle ----------------------------------------------------------------------------------------


def _killed_with(log: Sequence[int], *, isr: Sequence[int]) -> HistoryBuilder:
    """Broker 3 is killed at 20, and its log read then; it comes back, fetches, and has everything at the end."""
    history = led(10)
    if tuple(isr) != (1, 2, 3):
        history.state(1, 0, isr, at=0.5)
    history.fault("kill", [3], at=20, until=30)
    history.replica(3, [(n, 0, n) for n in log], at=20, reason="kill", high_watermark=None)
    history.state(1, 0, (1, 2), at=22)
    history.started(3, at=30)
    return history.state(1, 0, (1, 2, 3), at=32).finish()


@case(
    "a follower out of sync is killed with six of ten records, comes back and fetches the rest",
    PASS,
    why="nobody had counted on it",
)
def killed_out_of_sync_with_a_short_log() -> HistoryBuilder:
    return _killed_with(range(6), isr=(1, 2))


@case(
    "the same of a follower that was in sync for 18 seconds when ten had been acknowledged by all",
    NEVER_PASS,
    also=[
        "evidence observation",
        "evidence violation",
        "replica-divergence violation",
        "acknowledged-below-min-isr violation",
    ],
    why="acks=all is answered when every replica in sync has the record; here one had not",
)
def killed_in_sync_with_a_short_log() -> HistoryBuilder:
    return _killed_with(range(6), isr=(1, 2, 3))


@case(
    "a paused leader's log is read at its heal with a tail that nobody was answered; it is cut as it follows",
    PASS,
    why="what was never acknowledged may go",
)
def a_tail_at_the_heal() -> HistoryBuilder:
    history = led(10).fault("pause", [1], at=10, until=20)
    history.state(2, 1, (2, 3), at=14, start=10)
    history.send(30, None, at=9.9, elapsed_s=6, status=2)
    history.replica(1, [*history.log, (10, 0, 30)], at=20, reason="heal", high_watermark=10)
    history.ack(40, at=16, process=2)
    history.truncation(1, 10, 11, epoch=1, at=20.5)
    return history.state(2, 1, (1, 2, 3), at=22).finish()
