"""Brokers 0, 63, 64 and 1001, and topics whose names and partitions look alike."""

from tests.outsiders.history_builder import PASS, SOME, VIOLATION, HistoryBuilder, case, led

EVERYTHING = set(range(10))
UNCLEAN = "unclean.leader.election.enable"


def _lost_disks(brokers: tuple[int, ...], isr: tuple[int, ...], wiped: tuple[int, ...]) -> HistoryBuilder:
    """Those of `wiped` lose their disks at once, and the first broker leads again with an empty log."""
    history = led(brokers=brokers).state(brokers[0], 0, isr, at=5)
    for node in wiped:
        history.destroyed("wipe", node, "disk", at=6)
    history.state(-1, 1, isr, at=8)
    history.state(brokers[0], 2, isr, at=9, start=0)
    history.log = []
    return history.finish(only=isr)


@case(
    "brokers 0 and 64 are in sync; 64's disk is lost",
    VIOLATION,
    {"lost-write violation": EVERYTHING},
    why="broker 0's disk was whole",
)
def disk_64_is_not_disk_0() -> HistoryBuilder:
    return _lost_disks((0, 64, 1001), (0, 64), (64,))


@case(
    "brokers 0 and 63 are in sync; 63's disk is lost",
    VIOLATION,
    {"lost-write violation": EVERYTHING},
    why="broker 0's disk was whole",
)
def disk_63_is_not_disk_0() -> HistoryBuilder:
    return _lost_disks((0, 63, 64), (0, 63), (63,))


@case(
    "brokers 63 and 127 are in sync; only 127's disk is lost",
    VIOLATION,
    {"lost-write violation": EVERYTHING},
    why="broker 63's disk was whole",
)
def disk_127_is_not_disk_63() -> HistoryBuilder:
    return _lost_disks((63, 127, 0), (63, 127), (127,))


@case(
    "brokers 0, 63 and 1001 are in sync, and all three disks are lost",
    PASS,
    {"lost-write permitted": EVERYTHING},
    why="every in-sync disk was lost",
)
def all_odd_disks() -> HistoryBuilder:
    return _lost_disks((0, 63, 1001), (0, 63, 1001), (0, 63, 1001))


@case(
    "the books say broker 0 leads epoch 1, broker 64 journals that it began to lead epoch 1",
    VIOLATION,
    {"two-leaders violation": SOME},
    also=("evidence violation",),
    why="two brokers in one epoch",
)
def leaders_0_and_64() -> HistoryBuilder:
    return led(brokers=(1001, 0, 64)).fail_over(0).leads(64, 1, 10, at=12).finish()


@case(
    "broker 64, outside the ISR of 0 alone, is elected though it is forbidden",
    VIOLATION,
    {"unclean-election violation": SOME, "lost-write violation": {7, 8, 9}},
    why="64 is not 0",
)
def unclean_election_of_64() -> HistoryBuilder:
    return led(brokers=(0, 64, 1001)).state(0, 0, (0,), at=4).fail_over(64, kept=7, isr=(64,)).finish()


@case(
    "the same where it is allowed",
    PASS,
    {"unclean-election permitted": SOME, "lost-write permitted": {7, 8, 9}},
    why="allowed by the topic",
)
def allowed_unclean_election_of_64() -> HistoryBuilder:
    history = led(brokers=(0, 64, 1001), topics={"t": {UNCLEAN: "true"}}).state(0, 0, (0,), at=4)
    return history.fail_over(64, kept=7, isr=(64,)).finish()


@case(
    "in-sync brokers 0 and 64 hold different records below their high watermarks",
    VIOLATION,
    {"replica-divergence violation": SOME},
    why="between members of the ISR always",
)
def logs_of_0_and_64_differ() -> HistoryBuilder:
    history = led(6, brokers=(0, 64, 1001))
    return history.finish(logs={64: [*history.log[:5], (5, 0, 77)]})


@case(
    "a disk of every replica of topic t-1, partition 0, is cut by a loss of power; partition 1 of t loses its records",
    VIOLATION,
    {"lost-write violation": {8, 9}},
    why="t-1/0 and t/1 only look alike",
)
def look_alike_topics() -> HistoryBuilder:
    history = led(topics={"t": {}, "t-1": {}}).place(1, "t-1", 0)
    history.state(1, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    for node in history.brokers:
        history.destroyed("power-loss", node, "tail", at=6, first=0, partition_id=1)
    history.state(-1, 1, (1, 2, 3), at=8)
    history.state(1, 2, (1, 2, 3), at=9, start=8)
    history.log = history.log[:8]
    return history.finish()


@case(
    "an allowed unclean election of topic t-0 with partition 0, a forbidden loss in topic t with partition 0",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    also=("unclean-election observation",),
    why="t-0/0 and t/0 only look alike",
)
def look_alike_elections() -> HistoryBuilder:
    history = led(topics={"t": {}, "t-0": {UNCLEAN: "true"}}).place(1, "t-0", 0)
    history.state(1, 0, (1,), at=0, start=0, partition_id=1)
    history.state(2, 1, (2,), at=7, start=0, partition_id=1)
    return history.fail_over(2, kept=7).finish()


@case("six partitions on odd brokers, one clean fail-over of each, nothing lost", PASS, {}, why="a sound history")
def six_sound_partitions() -> HistoryBuilder:
    history = led(4, brokers=(0, 63, 64, 1001))
    for partition_id in range(1, 6):
        history.place(partition_id, "t", partition_id)
        history.state(63, 0, history.brokers, at=0, start=0, partition_id=partition_id)
        history.send(1000 + partition_id, 0, at=1 + partition_id / 10, partition_id=partition_id)
        history.state(1001, 1, (0, 64, 1001), at=5 + partition_id / 10, start=1, partition_id=partition_id)
        history.send(2000 + partition_id, 1, at=7 + partition_id / 10, partition_id=partition_id)
    history.fail_over(1001)
    history.finish()
    for partition_id in range(1, 6):
        history.final([(0, 1000 + partition_id), (1, 2000 + partition_id)], partition_id=partition_id)
    return history
