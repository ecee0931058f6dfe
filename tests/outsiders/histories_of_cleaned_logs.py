"""Logs cleaned while transactions, fail-overs and producers' own timestamps go on; brokers' clocks that differ;
topics that look alike, partitions that are empty."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.history.schema.schemas import KIND_FINAL_POLL
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
PRODUCER = 21
NOW = 1_700_000_000_000  # what the brokers' clocks showed when the run began, in ms
DAY = 86_400_000
REMOVED = "removed-by-configuration observation"


def _keyed(
    keys: Sequence[int],
    keep: Sequence[int],
    *,
    settings: Mapping[str, str] | None = None,
    deleted: Sequence[int] = (),
    transactional: Mapping[int, int] | None = None,
    stamps: Mapping[int, int] | None = None,
    system: str = "kafka:3.9.1",
    lost_after: int | None = None,
) -> HistoryBuilder:
    """Value n, at offset n, has keys[n]; those of `deleted` are tombstones, those of `transactional` are sent in
    transactions of these outcomes; the compacted log keeps `keep`. lost_after: a clean fail-over cuts it there."""
    history = HistoryBuilder(system=system, topics={"t": {"cleanup.policy": "compact", **(settings or {})}})
    history.anchors = [{"monotonic_ns": 0, "wall_ns": NOW * 1_000_000}]
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.client(PRODUCER, role="producer", transactional_id="p", acks=-1, idempotent=True, tells_attempts=True)
    history.client(99, role="consumer", isolation="read_committed", offset_reset="earliest")
    for value, key in enumerate(keys):
        at = 1.0 + value
        own: dict[str, Any] = {"key": key, "tombstone": value in deleted}
        if stamps is not None:
            own |= {"timestamp_ms": stamps.get(value, NOW + int(1000 * at)), "log_append": False}
        if transactional and value in transactional:
            outcome = transactional[value]
            history.send(value, value, at=at, process=PRODUCER, transaction=value, status=outcome, **own)
            history.transaction(value, outcome, at=at - 0.1, until=at + 0.5, process=PRODUCER, transactional_id="p")
            history.log.append((value, 0, value))
        else:
            history.ack(value, at=at, **own)
    if lost_after is not None:
        history.fail_over(2, kept=lost_after, at=30)
    history.log = [entry for entry in history.log if entry[2] in keep]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=0, cleanup_policy="compact", end_offset=lost_after or len(keys))
    for row in history.rows["records"]:
        if row["kind"] == KIND_FINAL_POLL:
            row.update(key=keys[row["value"]], tombstone=row["value"] in deleted)
            if stamps is not None:
                row.update(timestamp_ms=stamps.get(row["value"], NOW + 1000 + 1000 * row["value"]), log_append=False)
    return history


@case(
    "what a committed transaction wrote over is gone",
    PASS,
    {REMOVED: {0}},
    why="a committed record replaces the one before it of its key",
)
def replaced_by_a_committed_one() -> HistoryBuilder:
    return _keyed([1, 2, 1], [1, 2], transactional={2: COMMITTED})


@case(
    "what an aborted tombstone would have deleted is gone",
    VIOLATION,
    {"compacted-away violation": {0}},
    also=("lost-write violation",),
    why="an aborted record replaces nothing",
)
def deleted_by_an_aborted_tombstone() -> HistoryBuilder:
    return _keyed([1, 2, 1], [1], deleted=[2], transactional={2: ABORTED})


@case(
    "what an aborted tombstone would have deleted is there",
    PASS,
    why="an aborted record replaces nothing",
)
def kept_from_an_aborted_tombstone() -> HistoryBuilder:
    return _keyed([1, 2, 1], [0, 1], deleted=[2], transactional={2: ABORTED})


@case(
    "a committed tombstone, a second of delete.retention.ms: neither the key's record nor its tombstone is left",
    PASS,
    {REMOVED: {0, 2}},
    why="the tombstone did its work and went",
)
def deleted_by_a_committed_tombstone() -> HistoryBuilder:
    return _keyed([1, 2, 1], [1], deleted=[2], transactional={2: COMMITTED}, settings={"delete.retention.ms": "1000"})


@case(
    "key 1 is deleted and written again; its first record and the tombstone are gone, the last is there",
    PASS,
    {REMOVED: {0, 1}},
    why="whatever has a later one of its key may go",
)
def deleted_and_written_again() -> HistoryBuilder:
    return _keyed([1, 1, 1, 2], [2, 3], deleted=[1])


@case(
    "key 1 is written, deleted and written again, and the last of these is gone with the other two",
    VIOLATION,
    {"compacted-away violation": {2}, REMOVED: {0, 1}},
    also=("lost-write violation",),
    why="the last of its key has a value and stays",
)
def deleted_written_again_and_gone() -> HistoryBuilder:
    return _keyed([1, 1, 1, 2], [3], deleted=[1])


@case(
    "the later record of the key, acknowledged by all, is lost in a clean fail-over, and the earlier one is gone, too",
    VIOLATION,
    {"lost-write violation": {3}, REMOVED: {0}},
    also=("lost-write violation", "compacted-away violation"),
    why="the loss of the later one is told; that the earlier one had been compacted for it is lawful",
)
def compacted_for_one_that_was_lost() -> HistoryBuilder:
    return _keyed([1, 2, 3, 1], [1, 2], lost_after=3)


@case(
    "producers stamp their records a day back; the topic's compaction lag is an hour; what was written over is gone",
    PASS,
    {REMOVED: {0}},
    why="KIP-58: the lag counts from the records' own timestamps",
)
def lag_by_timestamps_of_yesterday() -> HistoryBuilder:
    stamps = {value: NOW - DAY + value for value in range(3)}
    return _keyed([1, 2, 1], [1, 2], settings={"min.compaction.lag.ms": "3600000"}, stamps=stamps)


@case(
    "the same with the records' real timestamps",
    VIOLATION,
    {"compacted-away violation": {0}},
    why="a log keeps what is younger than the lag",
)
def lag_by_timestamps_of_today() -> HistoryBuilder:
    return _keyed([1, 2, 1], [1, 2], settings={"min.compaction.lag.ms": "3600000"}, stamps={})


@case(
    "another topic was compacted for a while; in this one, which only deletes after a week, a replaced record is gone",
    VIOLATION,
    {"lost-write violation": {0}},
    why="another topic's policy is none of this one's",
)
def compacted_for_a_while_beside() -> HistoryBuilder:
    history = _keyed([1, 2, 1], [1, 2], settings={"cleanup.policy": "delete"})
    history.configured("cleanup.policy", "compact", name="t-1", at=5)
    history.configured("cleanup.policy", "delete", name="t-1", at=40)
    history.partition["cleanup_policy"] = "delete"
    return history


# ---- retention and producers' timestamps -------------------------------------------------------------------------


def _expired(count: int, stamps: Sequence[int], settings: Mapping[str, str], *, system: str) -> HistoryBuilder:
    """Ten records with these timestamps (relative to now), of which the first `count` are gone from the head."""
    history = HistoryBuilder(system=system, topics={"t": settings})
    history.anchors = [{"monotonic_ns": 0, "wall_ns": NOW * 1_000_000}]
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    for value, stamp in enumerate(stamps):
        history.ack(value, at=1 + value / 10, timestamp_ms=NOW + stamp, log_append=False)
    history.log = history.log[count:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=count, cleanup_policy="delete")
    for row in history.rows["records"]:
        if row["kind"] == KIND_FINAL_POLL:
            row.update(timestamp_ms=NOW + stamps[row["value"]], log_append=False)
    return history


@case(
    "a backfill: producers stamp ten records a month back, and the default retention of a week takes the first six",
    PASS,
    {REMOVED: {0, 1, 2, 3, 4, 5}},
    why="KIP-32: retention goes by the records' own timestamps",
)
def backfilled_and_expired() -> HistoryBuilder:
    return _expired(6, [-30 * DAY] * 10, {}, system="kafka:2.8.2")


@case(
    "a record stamped a month ahead holds the log: nothing is gone, though an hour's retention is long over for it all",
    PASS,
    why="retention is a leave and no promise to remove",
)
def held_by_a_timestamp_of_next_month() -> HistoryBuilder:
    stamps = [-DAY, 30 * DAY, *[-DAY] * 8]
    return _expired(0, stamps, {"retention.ms": "3600000"}, system="kafka:3.9.1")


@case(
    "retention.ms=-1 and retention.bytes=-1, and the first four of yesterday are gone",
    VIOLATION,
    {"lost-write violation": {0, 1, 2, 3}},
    why="without limits nothing may be removed",
)
def gone_without_any_limit() -> HistoryBuilder:
    settings = {"retention.ms": "-1", "retention.bytes": "-1"}
    return _expired(4, [-DAY] * 10, settings, system="kafka:4.3.1")


@case(
    "somebody else's cluster: the head is gone, nothing that is known of its settings took it (DeleteRecords may have)",
    OPEN,
    {"lost-write observation": {0, 1, 2, 3}},
    why="whoever may can move a log's start, and leaves no trace of it",
)
def head_deleted_in_somebody_elses_cluster() -> HistoryBuilder:
    return _expired(4, [1000 + 100 * n for n in range(10)], {"retention.ms": "604800000"}, system="attached")


# ---- clocks ------------------------------------------------------------------------------------------------------


def _stamped(offsets_ms: Mapping[int, int], *, system: str) -> HistoryBuilder:
    """LogAppendTime; the clock of each broker is off by so much. 1 leads, then 2, then 1 again."""
    history = HistoryBuilder(system=system, topics={"t": {"message.timestamp.type": "LogAppendTime"}})
    history.anchors = [{"monotonic_ns": 0, "wall_ns": NOW * 1_000_000}]
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    stamps = {}
    for value in range(9):
        if value in (3, 6):
            history.state(2 if value == 3 else 1, value // 3, (1, 2, 3), at=9.5 + value, start=value)
        stamps[value] = NOW + 10_050 + 1000 * value + offsets_ms[2 if 3 <= value < 6 else 1]
        history.ack(value, at=10 + value, timestamp_ms=stamps[value], log_append=True)
    history.finish()
    for row in history.rows["records"]:
        row.update(timestamp_ms=stamps[row["value"]], log_append=True)
    return history


@case(
    "somebody else's cluster stamps records; one broker's clock is an hour behind while it leads",
    PASS,
    also=("timestamps observation",),
    why="from one leader to the next two clocks may differ, and theirs need not be ours",
)
def a_clock_an_hour_behind_elsewhere() -> HistoryBuilder:
    return _stamped({1: 0, 2: -3_600_000}, system="attached")


@case(
    "somebody else's cluster: every broker's clock is three hours ahead",
    PASS,
    why="their clock need not be this machine's",
)
def all_clocks_ahead_elsewhere() -> HistoryBuilder:
    return _stamped({1: 3 * 3_600_000, 2: 3 * 3_600_000}, system="attached")


@case(
    "a cluster of this machine: broker 2 stamps an hour behind this machine's clock",
    VIOLATION,
    {"timestamps violation": SOME},
    also=("timestamps observation",),
    why="it stamped records outside the time between send and answer, and has this machine's clock",
)
def a_clock_an_hour_behind_here() -> HistoryBuilder:
    return _stamped({1: 0, 2: -3_600_000}, system="kafka:3.9.1")


# ---- topics that look alike, partitions that are empty -----------------------------------------------------------


def _alike(lost: int, *, allowed: str, uncleanly: int) -> HistoryBuilder:
    """t/11 (number 1) and t-1/1 (number 2) have five records each. In partition `uncleanly` an election outside the
    ISR takes place, of topic `allowed` it is allowed; in partition `lost` the last two are gone over a fail-over."""
    unclean = {"unclean.leader.election.enable": "true"}
    topics = {name: unclean if name == allowed else {} for name in ("t", "t-1")}
    history = HistoryBuilder(topics=topics, system="kafka:3.9.1").state(1, 0, (1, 2, 3), at=0, start=0)
    history.place(1, "t", 11)
    history.place(2, "t-1", 1)
    for number in (1, 2):
        history.state(1, 0, (1, 2, 3), at=0, start=0, partition_id=number)
        for offset in range(5):
            history.send(10 * number + offset, offset, at=1 + offset / 10, partition_id=number)
        if number == uncleanly:
            history.state(1, 0, (1, 2), at=5, partition_id=number)
    history.fault("kill", [1], at=8, until=12)
    for number in (1, 2):
        cut = 3 if number == lost else 5
        leader = 3 if number == uncleanly else 2
        history.state(leader, 1, (leader,), at=10, start=cut, partition_id=number)
        history.state(leader, 1, (1, 2, 3), at=20, partition_id=number)
        history.finish_partition(number, [(offset, 0, 10 * number + offset) for offset in range(cut)])
    history.state(2, 1, (1, 2, 3), at=11, start=0)
    history.started(1, at=12)
    return history.final([])


@case(
    "t-1/1 had an unclean election that its topic allows, and lost two records; t/11 had a clean one",
    PASS,
    {"unclean-election permitted": SOME, "lost-write permitted": {23, 24}},
    why="that partition was elected uncleanly, and was allowed to",
)
def its_own_unclean_election_beside_one_alike() -> HistoryBuilder:
    return _alike(2, allowed="t-1", uncleanly=2)


@case(
    "t-1/1 had an unclean election that its topic allows, and t/11, elected cleanly, lost two records",
    VIOLATION,
    {"lost-write violation": {13, 14}},
    also=("unclean-election observation",),
    why="the election was another partition's",
)
def unclean_election_of_one_alike() -> HistoryBuilder:
    return _alike(1, allowed="t-1", uncleanly=2)


@case(
    "t-1/1 had an unclean election that only topic t allows, and lost two records",
    VIOLATION,
    {"unclean-election violation": SOME, "lost-write violation": {23, 24}},
    why="the leave was another topic's",
)
def leave_of_a_topic_alike() -> HistoryBuilder:
    return _alike(2, allowed="t", uncleanly=2)


@case(
    "a topic of four partitions of which one is written; a group commits 0 in the others",
    PASS,
    why="an empty log ends at 0",
)
def three_empty_partitions() -> HistoryBuilder:
    history = led(10, system="kafka:4.3.1")
    history.client(11, role="consumer", group="g", offset_reset="earliest", isolation="read_committed")
    for number in range(4):
        if number:
            history.place(number, "t", number)
            history.state(1 + number % 3, 0, (1, 2, 3), at=0, start=0, partition_id=number)
        history.group("assigned", at=2.5, process=11, generation=1, offset=0, partition_id=number)
    history.reads(11, range(10), at=3)
    for number in range(4):
        history.group("committed", at=5, process=11, generation=1, offset=0 if number else 10, partition_id=number)
    history.finish()
    for number in range(1, 4):
        history.finish_partition(number, [])
    return history


@case(
    "the same, and in an empty partition it commits 3",
    PASS,
    {"commit-beyond-end observation": SOME},
    why="Kafka holds a commit against no log; it is told",
)
def committed_beyond_an_empty_partition() -> HistoryBuilder:
    return three_empty_partitions().group("committed", at=6, process=11, generation=1, offset=3, partition_id=2)
