"""Disks: lost, damaged, and cut by a loss of power; how far such an excuse reaches, and what cancels it."""

from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

EVERYTHING = set(range(10))


def _emptied(history: HistoryBuilder, *, at: float = 8.0) -> None:
    """All brokers are down and come back; the first leads again, with an empty log."""
    history.state(-1, history._epoch + 1, history._isr or (), at=at)
    history.state(history.brokers[0], history._epoch + 1, history._isr or (), at=at + 1, start=0)
    history.log = []


@case(
    "all three disks are lost at once; a record acknowledged after that vanishes too",
    VIOLATION,
    {
        "lost-write permitted": EVERYTHING,
        "lost-write violation": {21},
        "inconsistent-offsets permitted": SOME,
        "acknowledged-regression permitted": SOME,
    },
    why="a destruction excuses only what was stored before it",
)
def lost_after_all_disks() -> HistoryBuilder:
    history = led()
    for node in history.brokers:
        history.destroyed("wipe", node, "disk", at=6)
    _emptied(history)
    for value in (20, 21, 22):
        history.ack(value, at=15 + value / 100, process=2)
    history.log = [entry for entry in history.log if entry[2] != 21]
    return history.finish()


@case(
    "two of three in-sync disks are lost; the third is whole, and its broker follows an emptied leader",
    VIOLATION,
    {"lost-write violation": EVERYTHING},
    why="one in-sync replica stayed whole",
)
def two_of_three_disks() -> HistoryBuilder:
    history = led().destroyed("wipe", 1, "disk", at=6)
    history.destroyed("wipe", 2, "disk", at=6.2)
    _emptied(history)
    return history.truncation(3, 0, 10, epoch=2, at=11).finish()


@case(
    "the disks of both replicas outside the ISR are lost, and the only member loses its records by itself",
    VIOLATION,
    {"lost-write violation": EVERYTHING},
    why="a destruction excuses only copies that had to be there",
)
def disks_outside_the_isr() -> HistoryBuilder:
    history = led().state(1, 0, (1,), at=5)
    history.destroyed("wipe", 2, "disk", at=6)
    history.destroyed("wipe", 3, "disk", at=6.2)
    _emptied(history)
    return history.finish(only=(1,))


@case(
    "the only in-sync disk is lost; an old replica outside the ISR still has the records, and is not elected",
    PASS,
    {"lost-write permitted": EVERYTHING},
    also=("replica-divergence permitted",),
    why="every in-sync copy was destroyed; a replica out of sync need not lead",
)
def only_in_sync_disk() -> HistoryBuilder:
    history = led().fault("kill", [2, 3], at=4)
    history.state(1, 0, (1,), at=5)
    history.destroyed("wipe", 1, "disk", at=6)
    full = list(history.log)
    _emptied(history)
    return history.finish(logs={2: full, 3: full}, high_watermark=0)


@case(
    "the sole replica's disk is lost after a consumer read all of it",
    PASS,
    {"lost-write permitted": EVERYTHING, "dirty-read permitted": EVERYTHING},
    why="the loss of every in-sync disk excuses what had been read, too",
)
def read_and_then_the_only_disk_was_lost() -> HistoryBuilder:
    history = led(brokers=(1,)).poll([(offset, offset) for offset in range(10)], at=4, epoch=0)
    history.destroyed("wipe", 1, "disk", at=6)
    _emptied(history)
    return history.finish()


@case(
    "the sole replica's disk is said to be lost at second 6, but a consumer reads all of it from the broker at "
    "second 20, and at the end it is gone",
    VIOLATION,
    {"lost-write violation": EVERYTHING, "dirty-read violation": EVERYTHING},
    why="read after the destruction, so not lost by it",
)
def read_after_the_only_disk_was_lost() -> HistoryBuilder:
    history = led(brokers=(1,)).destroyed("wipe", 1, "disk", at=6)
    history.poll([(offset, offset) for offset in range(10)], at=20, epoch=0)
    history.log = []
    return history.finish()


@case(
    "one disk after the other is lost, each only after the one before had rejoined the ISR",
    VIOLATION,
    {"lost-write violation": EVERYTHING},
    why="a replica in sync after a destruction has the records again",
)
def disks_in_turns_with_rejoining() -> HistoryBuilder:
    history = led().destroyed("wipe", 1, "disk", at=6)
    history.state(2, 1, (2, 3), at=7, start=10)
    history.state(2, 1, (1, 2, 3), at=15)
    history.destroyed("wipe", 2, "disk", at=20)
    history.state(1, 2, (1, 3), at=21, start=10)
    history.state(1, 2, (1, 2, 3), at=30)
    history.destroyed("wipe", 3, "disk", at=35)
    history.state(1, 2, (1, 2), at=36)
    history.state(1, 2, (1, 2, 3), at=45)
    history.log = []
    return history.finish()


@case(
    "one disk after the other is lost within two seconds, before anyone could copy or rejoin",
    PASS,
    {"lost-write permitted": EVERYTHING},
    why="every in-sync copy was destroyed before any was in sync again",
)
def disks_in_turns_without_rejoining() -> HistoryBuilder:
    history = led().fault("kill", [1, 2, 3], at=5.5, until=8)
    for node, at in ((1, 6.0), (2, 6.8), (3, 7.6)):
        history.destroyed("wipe", node, "disk", at=at, until=8)
    _emptied(history)
    return history.finish()


@case(
    "a wipe was asked for, but never took effect",
    VIOLATION,
    {"lost-write violation": EVERYTHING},
    why="only faults that really took effect excuse",
)
def wipe_without_effect() -> HistoryBuilder:
    history = led(brokers=(1,)).fault("wipe", [1], at=6)
    history.rows["faults"][-1].update(begin_ns=None, proved=False, proof_text="")
    _emptied(history)
    return history.finish()


@case(
    "the only in-sync log is damaged in the batch 5-6 and cut there at the start after the crash",
    PASS,
    {"lost-write permitted": {5, 6, 7, 8, 9}},
    why="corruption of the only good copy, and the cut of what lay behind it, are outside the fault model",
)
def damage_of_the_only_copy() -> HistoryBuilder:
    return _damaged(kept=5).finish(only=(1,))


@case(
    "the same, but records 3 and 4 below the damaged batch are gone too",
    VIOLATION,
    {"lost-write permitted": {5, 6, 7, 8, 9}, "lost-write violation": {3, 4}},
    why="the damage did not reach that place of the disk",
)
def lost_below_the_damage() -> HistoryBuilder:
    return _damaged(kept=3).finish(only=(1,))


def _damaged(*, kept: int) -> HistoryBuilder:
    history = led().fault("kill", [2, 3], at=4)
    history.state(1, 0, (1,), at=5)
    history.damage(1, 5, 7, at=6)
    history.state(-1, 1, (1,), at=7)
    history.started(1, at=8)
    history.truncation(1, kept, 10, epoch=0, at=8.1)
    history.state(1, 2, (1,), at=9, start=kept)
    history.log = history.log[:kept]
    return history


@case(
    "the batch that was damaged lies in another partition of that broker",
    VIOLATION,
    {"lost-write violation": SOME},
    why="an exception reaches no further than its partition",
)
def damage_in_the_neighbour_partition() -> HistoryBuilder:
    history = led().place(1, "t", 1)
    history.state(1, 0, (1,), at=5)
    history.state(1, 0, (1,), at=0, start=0, partition_id=1)
    history.destroyed("damage", 1, "batch", at=6, first=0, end=10, partition_id=1)
    _emptied(history)
    return history.finish(only=(1,))


@case(
    "power goes at all three at once and takes records 8 and 9 of each; record 7 is gone as well",
    VIOLATION,
    {"lost-write permitted": {8, 9}, "lost-write violation": {7}},
    why="the unflushed tail began at offset 8",
)
def lost_below_the_unflushed_tail() -> HistoryBuilder:
    history = _power_loss()
    history.log = history.log[:7]
    return history.finish()


@case(
    "the same, and only 8 and 9 are gone",
    PASS,
    {"lost-write permitted": {8, 9}},
    why="a power cut of every member of the ISR",
)
def lost_with_the_unflushed_tail() -> HistoryBuilder:
    return _power_loss().finish()


def _power_loss(nodes: tuple[int, ...] = (1, 2, 3)) -> HistoryBuilder:
    history = led()
    for node in nodes:
        history.destroyed("power-loss", node, "tail", at=6, first=8, partition_id=0)
    history.state(-1, 1, (1, 2, 3), at=8)
    history.state(1, 2, (1, 2, 3), at=9, start=8)
    history.log = history.log[:8]
    return history


@case(
    "power goes at the leader and one follower; the third, in sync, whole and alive, is made to follow",
    (VIOLATION, OPEN),
    also=("lost-write violation", "lost-write observation"),
    why="unsure: the guarantee is broken by its letter, as one in-sync replica was whole; a controller without "
    "eligible leader replicas cannot know better. Permitted it is not: not every copy was destroyed",
)
def power_loss_of_two_in_sync() -> HistoryBuilder:
    return _power_loss((1, 2)).truncation(3, 8, 10, epoch=2, at=10).finish()


@case(
    "power takes the tails of another topic's partition on all three",
    VIOLATION,
    {"lost-write violation": {8, 9}},
    why="an exception reaches no further than its topic",
)
def power_loss_of_another_topic() -> HistoryBuilder:
    history = led(topics={"t": {}, "u": {}}).place(1, "u", 0)
    history.state(1, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    for node in history.brokers:
        history.destroyed("power-loss", node, "tail", at=6, first=8, partition_id=1)
    history.state(-1, 1, (1, 2, 3), at=8)
    history.state(1, 2, (1, 2, 3), at=9, start=8)
    history.log = history.log[:8]
    return history.finish()


@case(
    "nobody recorded which part of the only disk was harmed",
    OPEN,
    {"lost-write observation": {8, 9}},
    why="unknown leads to undecided, never to permitted",
)
def harm_of_unknown_extent() -> HistoryBuilder:
    history = led(brokers=(1,)).destroyed("damage", 1, "unknown", at=6)
    history.state(-1, 1, (1,), at=8)
    history.state(1, 2, (1,), at=9, start=8)
    history.log = history.log[:8]
    return history.finish()


@case(
    "all disks are lost long after the records had gone: an election had cut them",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}, "lost-write permitted": set(range(7))},
    why="7 to 9 were absent from the log of a leader in force before any disk was lost",
)
def disks_lost_after_the_records() -> HistoryBuilder:
    history = led().fail_over(2, kept=7)
    for node in history.brokers:
        history.replica(node, history.log, at=20, reason="wipe", high_watermark=7)
        history.destroyed("wipe", node, "disk", at=20.1)
    history.state(-1, 2, (1, 2, 3), at=21)
    history.state(2, 3, (1, 2, 3), at=22, start=0)
    history.log = []
    return history.finish()


@case(
    "an in-sync follower's damage is served by it after it became leader",
    VIOLATION,
    {"corrupt-record violation": SOME},
    why="two in-sync copies were good: a corrupt record must not be served",
)
def damage_served_while_good_copies_exist() -> HistoryBuilder:
    return led().damage(2, 5, 7, at=4).refused_read(at=20).finish()
