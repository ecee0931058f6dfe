"""What a group is given once more after each kind of loss: when that is lawful, and when it is not."""

from collections.abc import Sequence

from tests.outsiders.groups import group_of
from tests.outsiders.history_builder import PASS, REWOUND, SOME, VIOLATION, HistoryBuilder, case

A, B = 11, 12
KEPT = ("__consumer_offsets", 3)  # where group g belongs
AGAIN = "group-redelivery observation"
PERMITTED = {"group-redelivery permitted": SOME, "lost-group-offset permitted": SOME}
BROKEN = {"group-redelivery violation": SOME, "lost-group-offset violation": SOME}


def _again(
    history: HistoryBuilder, *, answered: int | None = -1, at: float = 40, generation: int = 2
) -> HistoryBuilder:
    """B asks for the group's place, is told that one (or none), and is given all from there on."""
    history.group("fetched", at=at, process=B, offset=answered)
    start = max(answered or 0, 0)
    history.group("assigned", at=at + 0.1, process=B, generation=generation, offset=start)
    return history.reads(B, range(start, 10), at=at + 1).finish()


def _worked(history: HistoryBuilder, *, commits: Sequence[tuple[float, int]] = ((4, 10),)) -> HistoryBuilder:
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    for at, offset in commits:
        history.group("committed", at=at, process=A, offset=offset, generation=1)
    return history


# ---- the group's own log ---------------------------------------------------------------------------------------------


def _power(*, lost_from: int) -> HistoryBuilder:
    """Power goes at all three, and takes the ends of all three logs of the group's partition. 5 and then 10 had been
    committed, at 0 and 1 of that log, as a snapshot at the wipe has it."""
    history = group_of(A, B).kept_state(KEPT, 2, 0, (1, 2, 3), at=0)
    _worked(history, commits=((3.5, 5), (4, 10)))
    history.group("revoked", at=5, process=A, generation=1)
    for node in history.brokers:
        history.kept_log(KEPT, node, 2, at=19.9)
        history.rows["internal_replica_snapshots"][-1]["reason"] = "wipe"
    for committed, at in ((5, 3.505), (10, 4.005)):
        history.kept_offset(KEPT[1], committed, at=at)
    for node in history.brokers:
        history.fault("power-loss", [node], at=20, until=23)
        history.disk_event(node, "tail", lost_from, None, at=20, place=KEPT)
        history.started(node, at=23)
    history.kept_state(KEPT, -1, 1, (2,), at=21)
    history.kept_state(KEPT, 2, 2, (2,), at=25)
    history.kept_state(KEPT, 2, 2, (1, 2, 3), at=27)
    history.state(-1, 1, (1,), at=21)
    history.state(1, 2, (1,), at=25, start=10)
    history.state(1, 2, (1, 2, 3), at=27)
    return _again(history, answered=5)


@case(
    "power goes at all three brokers and takes the end of each log of the group's partition, with its last commit",
    PASS,
    PERMITTED,
    also=[AGAIN],
    why="every copy of that commit was destroyed",
)
def power_takes_the_last_commit() -> HistoryBuilder:
    return _power(lost_from=1)


@case(
    "the same, and the last commit stood below what each disk lost",
    VIOLATION,
    BROKEN,
    also=[AGAIN],
    why="it was on all three disks after that",
)
def power_takes_what_stood_above_the_last_commit() -> HistoryBuilder:
    return _power(lost_from=2)


def _asked_for(partition: int) -> HistoryBuilder:
    """Broker 3, outside the ISR, is elected leader of the group's partition, which no setting allows."""
    history = group_of(A, B).kept_state(KEPT, 2, 0, (1, 2), at=0)
    _worked(history)
    history.group("revoked", at=5, process=A, generation=1)
    history.fault("kill", [1], at=10, until=30)
    history.fault("kill", [2], at=10, until=30)
    history.state(3, 1, (3,), at=11, start=10)
    history.kept_state(KEPT, -1, 1, (2,), at=11)
    history.asked_unclean("ok", at=19.5, until=20.5, topic=KEPT[0], partition=partition)
    history.kept_state(KEPT, 3, 2, (3,), at=20)
    history.state(3, 1, (1, 2, 3), at=32)
    history.kept_state(KEPT, 3, 2, (1, 2, 3), at=32)
    return _again(history)


@case(
    "an operator's request for an unclean election of the group's partition is granted; its offset is gone",
    PASS,
    PERMITTED,
    also=[AGAIN],
    why="the operator gave up what the elected one lacks",
)
def unclean_election_of_the_groups_partition_on_request() -> HistoryBuilder:
    return _asked_for(KEPT[1])


@case(
    "the same, and the request was for another partition of __consumer_offsets",
    VIOLATION,
    BROKEN,
    also=[AGAIN],
    why="nobody asked for an election of this one",
)
def unclean_election_on_a_request_for_another_partition() -> HistoryBuilder:
    return _asked_for(KEPT[1] + 1)


# ---- what expires, and what was never committed ------------------------------------------------------------------


def _kept_a_minute(system: str) -> HistoryBuilder:
    """A commits 10 at second 4, and polls on; 80 s later a rebalance gives the partition to B."""
    history = group_of(A, B, system=system, settings={"offsets.retention.minutes": "1"})
    _worked(history)
    for number, at in enumerate((20, 40, 60, 80)):
        history.ack(50 + number, at=at)
        history.poll([(10 + number, 50 + number)], at=at + 1, process=A)
    history.group("revoked", at=83, process=A, generation=1)
    history.group("fetched", at=84, process=B, offset=-1)
    history.group("assigned", at=84.1, process=B, generation=2, offset=0)
    return history.reads(B, range(10), at=85).finish()


@case(
    "Kafka 1.1: offsets are kept for a minute; a group reads on for 80 s without committing, and is given all again",
    PASS,
    {"group-redelivery permitted": 10},
    also=[AGAIN],
    why="until KIP-211 an offset expired by the age of its commit, in whatever use its group was",
)
def expired_under_an_active_group_of_old() -> HistoryBuilder:
    return _kept_a_minute("kafka:1.1.1")


@case(
    "Kafka 2.8: the same",
    VIOLATION,
    {"lost-group-offset violation": SOME, "group-redelivery violation": SOME},
    also=[AGAIN],
    why="KIP-211: nothing expires while the group has members",
)
def expired_under_an_active_group() -> HistoryBuilder:
    return _kept_a_minute("kafka:2.8.2")


@case(
    "one request commits both partitions: t-0 is refused, t-1 taken; the next member is given t-0 from the "
    "commit before",
    PASS,
    also=[AGAIN],
    why="each partition is answered for itself",
)
def one_of_two_partitions_refused() -> HistoryBuilder:
    history = group_of(A, B).state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    for value in range(5):
        history.send(100 + value, value, at=1 + value / 10, partition_id=1)
    history.group("assigned", at=2.4, process=A, generation=1, offset=0, partition_id=1)
    _worked(history, commits=((3.5, 4),))
    history.poll([(offset, 100 + offset) for offset in range(5)], at=3.2, process=A, partition_id=1)
    history.group("committed", at=5, process=A, offset=10, generation=1, status=1)
    history.group("committed", at=5, process=A, offset=5, generation=1, partition_id=1)
    for partition_id in (0, 1):
        history.group("revoked", at=6, process=A, generation=1, partition_id=partition_id)
    history.group("fetched", at=39, process=B, offset=5, partition_id=1)
    history.finish_partition(1, [(value, 0, 100 + value) for value in range(5)])
    return _again(history, answered=4)


@case(
    "a member seeks back to 3 by itself, reads on to the end without a commit; the next one begins at the committed 10",
    PASS,
    also=[AGAIN],
    why="where it seeks is a member's own affair, and the commit stands",
)
def sought_back_without_a_commit() -> HistoryBuilder:
    history = _worked(group_of(A, B)).group("seek", at=6, process=A, offset=3)
    history.reads(A, range(3, 10), at=6.5, assignment=1)
    history.group("revoked", at=9, process=A, generation=1)
    return _again(history, answered=10)


# ---- the log under the group --------------------------------------------------------------------------------------


@case(
    "all disks of t-0 are lost after the group committed 10; its next member resets, and is given what is written anew",
    PASS,
    {"lost-write permitted": set(range(10))},
    also=[*REWOUND["permitted"], AGAIN, "dirty-read permitted", "group-redelivery permitted"],
    why="every copy was destroyed, and auto.offset.reset says where the group goes on",
)
def log_lost_under_a_group() -> HistoryBuilder:
    history = _worked(group_of(A, B)).group("revoked", at=5, process=A, generation=1)
    for node in history.brokers:
        history.destroyed("wipe", node, "disk", at=10, until=12)
        history.started(node, at=13)
    history.kept_state(KEPT, 2, 0, (1, 2, 3), at=0)
    history.state(-1, 1, (1,), at=11)
    history.state(1, 2, (1, 2, 3), at=14, start=0)
    history.log = []
    for value in range(100, 105):
        history.ack(value, at=20 + value / 100)
    history.group("assigned", at=30, process=B, generation=2, offset=0)
    history.poll([(offset, 100 + offset) for offset in range(5)], at=31, process=B)
    return history.group("committed", at=32, process=B, offset=5, generation=2).finish()
