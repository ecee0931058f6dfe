"""Partitions that move while they are written: reassignments, elections by an operator, followers that cut their logs
at a start, and unclean elections that were allowed for a part of the run only."""

from collections.abc import Sequence

from tests.outsiders.history_builder import OPEN, PASS, REWOUND, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"


def _reassigned(
    *, kept: int = 10, acks: int = -1, to: Sequence[int] = (4, 2, 3), system: str = "kafka:3.9.1"
) -> HistoryBuilder:
    """Ten records on 1, 2 and 3. From second 10 on the partition moves to `to`, whose first leads from second 13 on,
    with a log that ends at `kept`; broker 1 drops its replica."""
    history = HistoryBuilder(brokers=(1, 2, 3, 4, 5), system=system)
    history.partition["replicas"] = [1, 2, 3]
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    for value in range(10):
        history.ack(value, at=1 + value / 10, acks=acks if value >= kept else -1)
    both = sorted({1, 2, 3, *to})
    history.partition["replicas"] = both
    history.state(1, 1, (1, 2, 3), at=10, start=10)
    history.state(1, 1, both, at=12)
    history.partition["replicas"] = list(to)
    history.state(to[0], 2, tuple(to), at=13, start=kept)
    history.log = history.log[:kept]
    for value in range(20, 25):
        history.ack(value, at=15 + value / 10)
    return history


@case(
    "Kafka 3.9: a partition moves from brokers 1, 2, 3 to 4, 2, 3 under load; broker 1's replica is gone at the end",
    PASS,
    why="the new leader was in sync, and whoever leaves the assignment has nothing to keep",
)
def reassigned_under_load() -> HistoryBuilder:
    return _reassigned().finish(only=(4, 2, 3))


@case(
    "the same, and the leader that leaves had three records with acks=1 that the new one never fetched",
    PASS,
    {"lost-write permitted": {7, 8, 9}},
    also=REWOUND["permitted"],
    why="KAFKA-20554: acks=1 promises nothing about a change of leaders, planned or not",
)
def reassigned_away_from_a_tail_of_acks_1() -> HistoryBuilder:
    return _reassigned(kept=7, acks=1).finish(only=(4, 2, 3))


@case(
    "the same, and these three were acknowledged by all",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    also=REWOUND["violation"],
    why="a replica joins the ISR when it has what is committed (KAFKA-7128)",
)
def reassigned_away_from_a_tail_of_acks_all() -> HistoryBuilder:
    return _reassigned(kept=7).finish(only=(4, 2, 3))


@case(
    "a partition moves to two new brokers and nobody else keeps it; then both lose their disks",
    PASS,
    {"lost-write permitted": [*range(10), *range(20, 25)]},
    why="every copy that had to have the records was destroyed; the old ones had been dropped before",
)
def reassigned_to_disks_that_are_lost() -> HistoryBuilder:
    history = _reassigned(to=(4, 5)).destroyed("wipe", 4, "disk", at=30, until=33)
    history.destroyed("wipe", 5, "disk", at=30, until=33)
    history.started(4, at=33)
    history.started(5, at=33)
    history.state(4, 3, (4, 5), at=34, start=0)
    history.log = []
    return history.finish(only=(4, 5))


@case(
    "a partition has moved from broker 1 to 4; then broker 1's disk is lost, and a clean fail-over loses three records",
    VIOLATION,
    {"lost-write violation": {22, 23, 24}},
    why="broker 1 has had no replica any more, so its disk explains nothing",
)
def disk_of_a_broker_that_has_left() -> HistoryBuilder:
    history = _reassigned().destroyed("wipe", 1, "disk", at=30, until=33)
    history.fault("kill", [4], at=40, until=50)
    history.state(2, 3, (2, 3), at=42, start=12)
    history.log = history.log[:12]
    history.started(4, at=50)
    history.truncation(4, 12, 15, epoch=3, at=51)
    return history.state(2, 3, (4, 2, 3), at=52).finish(only=(4, 2, 3))


@case(
    "a reassignment is called off: broker 4 had been added and is dropped again, and nothing moves",
    PASS,
    why="KIP-455: an operator may cancel it",
)
def reassignment_called_off() -> HistoryBuilder:
    history = HistoryBuilder(brokers=(1, 2, 3, 4), system="kafka:2.8.2")
    history.partition["replicas"] = [1, 2, 3]
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    for value in range(5):
        history.ack(value, at=1 + value)
    history.partition["replicas"] = [1, 2, 3, 4]
    history.state(1, 1, (1, 2, 3), at=10, start=5)
    history.partition["replicas"] = [1, 2, 3]
    history.state(1, 2, (1, 2, 3), at=20, start=5)
    for value in range(5, 10):
        history.ack(value, at=20 + value)
    return history.finish(only=(1, 2, 3))


@case(
    "a second partition is added in the middle of the run, and written and read from then on",
    PASS,
    why="a partition may begin at any time",
)
def partition_added() -> HistoryBuilder:
    history = led(system="kafka:4.3.1").place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=30, start=0, partition_id=1)
    entries = [(offset, 0, 50 + offset) for offset in range(5)]
    for offset, _, value in entries:
        history.send(value, offset, at=31 + offset, partition_id=1)
    history.client(9, role="consumer", offset_reset="latest", isolation="read_uncommitted")
    history.poll([(3, 53), (4, 54)], at=40, partition_id=1)
    history.finish()
    return history.finish_partition(1, entries)


# ---- unclean elections, allowed for a part of the run ------------------------------------------------------------


def _cut_by(history: HistoryBuilder, leader: int, kept: int, *, at: float) -> None:
    """The two in sync die, and `leader`, which had fallen out, leads with what it has."""
    alive = sorted((node for node in history.brokers if node != leader), key=lambda node: node != history._leader)
    history.state(alive[0], history._epoch, alive, at=at - 5)
    for node in alive:
        history.fault("kill", [node], at=at - 2, until=at + 2)
        history.replica(node, history.log, at=at - 2, reason="kill", high_watermark=len(history.log))
    history.state(leader, history._epoch + 1, (leader,), at=at, start=kept)
    end, history.log = len(history.log), history.log[:kept]
    for node in alive:
        history.started(node, at=at + 2)
        if end > kept:
            history.truncation(node, kept, end, epoch=history._epoch, at=at + 3)
    history.state(leader, history._epoch, history.brokers, at=at + 4)


@case(
    "an unclean election that is forbidden costs nothing; then they are switched on, and the next one costs three",
    VIOLATION,
    {"unclean-election violation": 1, "unclean-election permitted": 3, "lost-write permitted": {10, 11, 12}},
    why="each election is judged by what was in force when it took place",
)
def forbidden_and_then_allowed() -> HistoryBuilder:
    history = led()
    _cut_by(history, 3, 10, at=20)
    history.configured(UNCLEAN, "true", at=35)
    for value in range(10, 13):
        history.ack(value, at=36 + value / 10)
    _cut_by(history, 1, 10, at=60)
    return history.finish()


@case(
    "unclean elections are allowed from second 15 to second 40; the one at 20 costs four records",
    PASS,
    {"unclean-election permitted": SOME, "lost-write permitted": {6, 7, 8, 9}},
    why="it was allowed when it took place; what was set afterwards is another matter",
)
def allowed_while_it_took_place() -> HistoryBuilder:
    history = led(system="kafka:3.9.1").configured(UNCLEAN, "true", at=15)
    _cut_by(history, 3, 6, at=20)
    return history.configured(UNCLEAN, "false", at=40).finish()


@case(
    "unclean elections are allowed from second 60 on, of all topics by the cluster's own setting; the one at 20 costs "
    "four records",
    VIOLATION,
    {"unclean-election violation": SOME, "lost-write violation": {6, 7, 8, 9}},
    why="nothing allowed it when it took place",
)
def allowed_of_all_topics_too_late() -> HistoryBuilder:
    history = led(system="kafka:3.9.1")
    _cut_by(history, 3, 6, at=20)
    return history.configured(UNCLEAN, "true", at=60, scope="broker", name="").finish()


@case(
    "KAFKA-10751: two of three fell behind, the leader alone goes on with acks=1, and an allowed unclean election of "
    "the last of them costs the end",
    PASS,
    {"unclean-election permitted": SOME, "lost-write permitted": [2, 3, 4, *range(5, 10)]},
    why="what was acknowledged by all, and what by one, are both lost to an election that was allowed",
)
def lost_to_the_one_farthest_behind() -> HistoryBuilder:
    history = HistoryBuilder(settings={"min.insync.replicas": "2"}, topics={"t": {UNCLEAN: "true"}})
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    for value in range(2):
        history.ack(value, at=1 + value)
    history.state(1, 0, (1, 2), at=5)
    for value in range(2, 5):
        history.ack(value, at=5 + value)
    history.state(1, 0, (1,), at=15)
    history.send(90, at=16, status=1, error="NotEnoughReplicasError")
    for value in range(5, 10):
        history.ack(value, at=17 + value / 10, acks=1)
    history.fault("kill", [1], at=20, until=30)
    history.fault("kill", [2], at=20, until=30)
    history.replica(1, history.log, at=20, reason="kill", high_watermark=5)
    history.replica(2, history.log[:5], at=20, reason="kill", high_watermark=5)
    history.state(3, 1, (3,), at=22, start=2)
    history.log = history.log[:2]
    for node, end in ((1, 10), (2, 5)):
        history.started(node, at=30)
        history.truncation(node, 2, end, epoch=1, at=31)
    return history.state(3, 1, (1, 2, 3), at=32).finish()


# ---- followers that cut their logs at a start --------------------------------------------------------------------


def _restarted(*, refetched: bool, system: str) -> HistoryBuilder:
    """Broker 2, in sync, starts anew and cuts its log to its own high watermark of 8; two seconds later the leader
    dies. refetched: it had fetched the two records again by then."""
    history = led(system=system).fault("stop", [2], at=10, until=11)
    history.started(2, at=11)
    history.truncation(2, 8, 10, epoch=None, at=11.5)
    return history.fail_over(2, kept=10 if refetched else 8, at=15, isr=(2, 3)).finish()


@case(
    "Kafka 0.10.2: a follower in sync starts anew, cuts its log to its own high watermark, and leads before it has "
    "fetched what it cut",
    VIOLATION,
    {"lost-write violation": {8, 9}},
    why="KIP-101: committed records were lost; the release had the fault, the promise is the same",
)
def cut_to_its_own_mark_and_elected() -> HistoryBuilder:
    return _restarted(refetched=False, system="kafka:0.10.2.2")


@case(
    "the same, and it has fetched them again before it leads",
    PASS,
    why="what it cut came back",
)
def cut_to_its_own_mark_and_filled_again() -> HistoryBuilder:
    return _restarted(refetched=True, system="kafka:0.10.2.2")


@case(
    "a broker that was cut off keeps answering acks=1, starts anew, and cuts what its successor never had",
    PASS,
    {"lost-write permitted": {10, 11}},
    also=REWOUND["permitted"],
    why="nobody else had acknowledged them; a follower cuts what its leader lacks",
)
def cut_of_what_a_deposed_leader_took() -> HistoryBuilder:
    history = led(system="kafka:2.8.2").fault("cut", [1], at=10, until=25)
    history.state(2, 1, (2, 3), at=14, start=10)
    history.send(10, 10, at=15, acks=1)
    history.send(11, 11, at=16, acks=1)
    history.replica(1, [*history.log, (10, 0, 10), (11, 0, 11)], at=24, reason="restart", high_watermark=10)
    for value in range(20, 24):
        history.ack(value, at=17 + value / 10)
    history.started(1, at=25)
    history.truncation(1, 10, 12, epoch=1, at=26)
    return history.state(2, 1, (1, 2, 3), at=28).finish()


@case(
    "the same with acks=all of a deposed leader whose ISR was itself and another that went with its successor",
    VIOLATION,
    {"lost-write violation": {10, 11}},
    also=("inconsistent-offsets violation",),
    why="acks=all waits for every replica in sync, and these never had the records",
)
def cut_of_what_a_deposed_leader_took_by_all() -> HistoryBuilder:
    history = led(system="kafka:2.8.2").fault("cut", [1], at=10, until=25)
    history.state(2, 1, (2, 3), at=14, start=10)
    history.send(10, 10, at=15)
    history.send(11, 11, at=16)
    history.replica(1, [*history.log, (10, 0, 10), (11, 0, 11)], at=24, reason="restart", high_watermark=10)
    history.started(1, at=25)
    history.truncation(1, 10, 12, epoch=1, at=26)
    return history.state(2, 1, (1, 2, 3), at=28).finish()


@case(
    "leaders are polled only; a partition is reassigned and led by the new broker, and three acks=all records are "
    "missing, with unclean elections allowed by the topic",
    OPEN,
    {"lost-write observation": {7, 8, 9}},
    also=("unclean-election observation",),
    why="an election that was allowed may have passed unseen",
)
def reassigned_and_polled() -> HistoryBuilder:
    history = HistoryBuilder(topics={"t": {UNCLEAN: "true"}}, brokers=(1, 2, 3, 4), system="attached")
    history.partition["replicas"] = [4, 2, 3]
    history.polled(2, 1, 0, (1, 2, 3), at=0)
    for value in range(10):
        history.ack(value, at=1 + value / 10)
    history.polled(2, 4, 3, (4, 2, 3), at=14)
    history.log = history.log[:7]
    return history.fault("pause", [1], at=10, until=14).finish(snapshots=False)
