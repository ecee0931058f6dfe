"""Retention, compaction and DeleteRecords beside fail-overs, each other, replicas, readers and topics made anew."""

from collections.abc import Sequence

from harness.ports.load import WorkloadSpec
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, REWOUND, SOME, VIOLATION, HistoryBuilder, case, led

REMOVED = "removed-by-configuration observation"
KAFKA = "kafka:4.3.1"


def _asked(history: HistoryBuilder, start: int, *, at: float = 20, partition: int = 0) -> None:
    """The leader's own log: a client had the log begin there (DeleteRecords)."""
    place = {"node": 1, "topic": "t", "partition": partition, "leader_epoch": 0, "to_offset": start}
    history._add("broker_events", time_ns=int(at * SECOND), event="records_deleted", **place)


def _left(history: HistoryBuilder, keep: Sequence[int], *, policy: str, start: int, end: int) -> HistoryBuilder:
    history.log = [entry for entry in history.log if entry[2] in keep]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=start, cleanup_policy=policy, end_offset=end)
    return history


def _keyed(keys: Sequence[int], *, policy: str = "compact") -> HistoryBuilder:
    settings = {"cleanup.policy": policy, "retention.ms": "-1"}
    history = led(0, system=KAFKA, topics={"t": settings}, workload=WorkloadSpec())
    for value, key in enumerate(keys):
        history.ack(value, at=1 + value / 10, key=key)
    return history


@case(
    "compact and delete: a client had the log begin at 4, and above that what was written over is gone",
    PASS,
    {REMOVED: {0, 1, 2, 3, 4, 6}},
    why="the request took the head, compaction the older ones of each key",
)
def trimmed_and_compacted() -> HistoryBuilder:
    history = _keyed((1, 2, 3, 4, 5, 6, 7, 5, 7, 8), policy="compact,delete")
    _asked(history, 4)
    return _left(history, (5, 7, 8, 9), policy="compact,delete", start=4, end=10)


@case(
    "a client had the log begin at its very end: everything is gone",
    PASS,
    {REMOVED: set(range(10))},
    why="DeleteRecords up to the high watermark is what was asked for",
)
def trimmed_to_the_end() -> HistoryBuilder:
    history = led(10, system=KAFKA, workload=WorkloadSpec())
    _asked(history, 10)
    return _left(history, (), policy="delete", start=10, end=10)


@case(
    "the same, and a record that was acknowledged at 10 after that is gone as well; the log ends at 11 and "
    "begins at 10",
    VIOLATION,
    {"lost-write violation": {10}, REMOVED: set(range(10))},
    why="nobody asked for that one to go",
)
def trimmed_to_the_end_and_further() -> HistoryBuilder:
    history = led(10, system=KAFKA, workload=WorkloadSpec())
    _asked(history, 10)
    history.ack(10, at=30)
    return _left(history, (), policy="delete", start=10, end=11)


@case(
    "a client had the log of t-1 begin at 6; t-0 begins at 6 as well",
    VIOLATION,
    {"lost-write violation": set(range(6))},
    why="the request was for the partition beside",
)
def trimmed_beside() -> HistoryBuilder:
    history = led(10, system=KAFKA, workload=WorkloadSpec(), topics={"t": {"retention.ms": "-1"}}).place(1, "t", 1)
    _asked(history, 6, partition=1)
    return _left(history, range(6, 10), policy="delete", start=6, end=10)


# ---- compaction and replicas ---------------------------------------------------------------------------------------


def _compacted_apart(third: Sequence[int]) -> HistoryBuilder:
    """Keys 1 to 5 twice over; 1 and the leader compacted it, 2 not yet, 3 has what is said."""
    history = led(0, system="kafka:3.9.1", topics={"t": {"cleanup.policy": "compact"}})
    for value in range(10):
        history.ack(value, at=1 + value / 10, key=value % 5)
    whole = list(history.log)
    history.log = whole[5:]
    logs = {1: history.log, 2: whole, 3: [entry for entry in whole if entry[0] in third]}
    for node, log in logs.items():
        history.replica(node, log, high_watermark=10)
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=0, cleanup_policy="compact", end_offset=10)
    for row in history.rows["records"]:
        row["key"] = row["value"] % 5
    return history


@case(
    "three replicas of a compacted topic: one has cleaned all, one nothing, one a part",
    PASS,
    {REMOVED: set(range(5))},
    also=["replica-divergence observation"],
    why="each replica cleans in its own time",
)
def three_replicas_cleaned_apart() -> HistoryBuilder:
    return _compacted_apart((1, 3, 5, 6, 7, 8, 9))


@case(
    "the same, and one in sync lacks the last record of a key between others",
    VIOLATION,
    {"replica-divergence violation": SOME, REMOVED: set(range(5))},
    also=["replica-divergence observation"],
    why="no compaction takes the last one of a key",
)
def a_replica_without_the_last_of_a_key() -> HistoryBuilder:
    return _compacted_apart((1, 3, 5, 6, 8, 9))


# ---- retention and fail-overs ------------------------------------------------------------------------------------


@case(
    "retention of a second takes the head; a clean fail-over takes the acks=1 tail",
    PASS,
    {REMOVED: {0, 1, 2, 3}, "lost-write permitted": {10, 11}},
    also=REWOUND["permitted"],
    why="two lawful causes, each with its own records",
)
def head_expired_and_tail_cut() -> HistoryBuilder:
    history = led(10, system=KAFKA, topics={"t": {"retention.ms": "1000"}})
    for value in (10, 11):
        history.ack(value, at=4 + value / 100, acks=1)
    history.fail_over(2, kept=10)
    history.ack(20, at=15)
    return _left(history, (4, 5, 6, 7, 8, 9, 20), policy="delete", start=4, end=11)


@case(
    "the leader's head expires, and a reader starts at its log's start, 5; a fail-over at once brings a "
    "leader whose log "
    "still begins at 0, and the last reader gets everything",
    (PASS, OPEN),
    also=["head-skip permitted", "head-skip observation"],
    why="each replica deletes in its own time; earliest is where the leader's log begins",
)
def a_log_start_that_goes_back() -> HistoryBuilder:
    history = led(10, system=KAFKA, topics={"t": {"retention.ms": "1000"}})
    history.client(9, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    history.poll([(offset, offset) for offset in range(5, 10)], at=10)
    history.fail_over(2, at=12.5)
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=0, cleanup_policy="delete", end_offset=10)
    return history


# ---- a topic that is made anew twice -----------------------------------------------------------------------------


@case(
    "the plan deletes a topic and makes it anew, twice; each time another record is given offset 0",
    PASS,
    {REMOVED: {0, 1, 2, 10, 11}},
    also=["unseen-tail observation"],
    why="three topics of one name, each with offsets of its own",
)
def made_anew_twice() -> HistoryBuilder:
    history = HistoryBuilder(system=KAFKA)
    history.place(1, "t#1", 0)
    history.place(2, "t#2", 0)
    lives = ((1, "t#1", 0, 20, (0, 1, 2)), (2, "t#2", 21, 40, (10, 11)), (0, "t", 41, None, (20, 21, 22)))
    for partition_id, topic, created, deleted, values in lives:
        history.state(1, 0, (1, 2, 3), at=created, start=0, partition_id=partition_id)
        for offset, value in enumerate(values):
            history.send(value, offset, at=created + 1 + offset / 10, partition_id=partition_id)
        history.lived(topic, since=created, until=deleted)
        if deleted is not None:
            history.asked_to_delete(until=deleted)
    return history.final([(0, 20), (1, 21), (2, 22)])
