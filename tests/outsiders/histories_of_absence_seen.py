"""Clients saw that a record had gone, and only after that came what could excuse its loss: it came too late."""

from tests.outsiders.history_builder import OPEN, PASS, VIOLATION, HistoryBuilder, case, led

UNCLEAN_T = {"t": {"unclean.leader.election.enable": "true"}}
TAIL = {7, 8, 9}
HEAD = set(range(7))
REST = (
    "inconsistent-offsets permitted",
    "inconsistent-offsets violation",
    "acknowledged-regression permitted",
    "acknowledged-regression violation",
    "skipped-read violation",
    "skipped-read permitted",
    "dirty-read violation",
    "dirty-read permitted",
    "unclean-election observation",
    "unclean-election permitted",
)
UNSURE = ("lost-write permitted", "lost-write observation", "inconsistent-offsets observation")


def _all_disks_are_lost(history: HistoryBuilder, *, at: float) -> None:
    for node in history.brokers:
        history.destroyed("wipe", node, "disk", at=at)
    history.state(-1, history._epoch + 1, history.brokers, at=at + 2)
    history.state(history.brokers[0], history._epoch + 1, history.brokers, at=at + 3, start=0)
    history.log = []


def _uncleanly_elected(history: HistoryBuilder, *, at: float) -> None:
    """The leader is alone in the ISR when it dies; one that has nothing takes over."""
    history.state(1, history._epoch, (1,), at=at - 5)
    history.fail_over(3, kept=0, isr=(3,), at=at)


@case(
    "the leader loses its tail and gives its places to others; twenty seconds later all disks are lost",
    VIOLATION,
    {"lost-write violation": TAIL, "lost-write permitted": HEAD | {20, 21, 22}},
    also=REST,
    why="what has its place taken by a later acknowledgement was gone before the disks were",
)
def places_taken_before_the_disks_were_lost() -> HistoryBuilder:
    history = led()
    history.log = history.log[:7]
    for value in (20, 21, 22):
        history.ack(value, at=15 + value / 100, process=2)
    _all_disks_are_lost(history, at=35)
    return history.finish()


@case(
    "all disks are lost; then others are given the places, as must be",
    PASS,
    {"lost-write permitted": HEAD | TAIL},
    also=REST,
    why="the disks were lost first: their places were free",
)
def places_taken_after_the_disks_were_lost() -> HistoryBuilder:
    history = led()
    _all_disks_are_lost(history, at=6)
    for value in range(20, 32):
        history.ack(value, at=15 + value / 100, process=2)
    return history.finish()


@case(
    "a consumer reads over three acknowledged records as if they were not there; twenty seconds later all disks are "
    "lost",
    VIOLATION,
    {"lost-write violation": TAIL, "lost-write permitted": HEAD | {10, 11}},
    also=REST,
    why="a poll that returned what lies on both sides shows that they were gone already",
)
def passed_over_before_the_disks_were_lost() -> HistoryBuilder:
    history = led(12).poll([(5, 5), (6, 6), (10, 10), (11, 11)], at=15, epoch=0)
    _all_disks_are_lost(history, at=35)
    return history.finish()


@case(
    "the same poll, but it began before these records were acknowledged",
    PASS,
    {"lost-write permitted": set(range(12))},
    also=REST,
    why="a poll that began before the answer shows nothing about the time after it",
)
def passed_over_before_they_were_acknowledged() -> HistoryBuilder:
    history = led(7)
    for value in (7, 8, 9):
        history.ack(value, at=14.95 + value / 100, elapsed_s=1.5)
    history.ack(10, at=15.05, elapsed_s=0.01)
    history.ack(11, at=15.06, elapsed_s=0.01)
    history.poll([(5, 5), (6, 6), (10, 10), (11, 11)], at=15.1, epoch=0)
    _all_disks_are_lost(history, at=35)
    return history.finish()


@case(
    "a consumer reads over three acknowledged records; twenty seconds later an unclean election that is allowed "
    "loses everything",
    VIOLATION,
    {"lost-write violation": TAIL, "lost-write permitted": HEAD | {10, 11}},
    also=REST,
    why="they were gone before anything was elected uncleanly",
)
def passed_over_before_an_unclean_election() -> HistoryBuilder:
    history = led(12, topics=UNCLEAN_T).poll([(5, 5), (6, 6), (10, 10), (11, 11)], at=15, epoch=0)
    history.log = [entry for entry in history.log if entry[2] not in TAIL]
    _uncleanly_elected(history, at=35)
    return history.finish()


@case(
    "the places of three acknowledged records are given to others; twenty seconds later an unclean election that "
    "is allowed loses everything",
    VIOLATION,
    {"lost-write violation": TAIL, "lost-write permitted": HEAD | {20, 21, 22}},
    also=REST,
    why="they were gone before anything was elected uncleanly",
)
def places_taken_before_an_unclean_election() -> HistoryBuilder:
    history = led(topics=UNCLEAN_T)
    history.log = history.log[:7]
    for value in (20, 21, 22):
        history.ack(value, at=15 + value / 100, process=2)
    _uncleanly_elected(history, at=35)
    return history.finish()


@case(
    "a leader that was cut off and deposed takes acks=1 records at the places of its successor's; then all disks "
    "but its own are lost",
    (PASS, OPEN),
    also=(*REST, *UNSURE),
    why="what a deposed leader says of a place says nothing of its successor's log",
)
def places_taken_by_a_deposed_leader() -> HistoryBuilder:
    history = led().fault("cut", [1], at=6, until=60)
    history.state(2, 1, (2, 3), at=8, start=10)
    history.ack(20, at=8.2, process=2)
    history.send(30, 10, at=9, acks=1, process=3)
    for node in (2, 3):
        history.destroyed("wipe", node, "disk", at=15)
    history.state(-1, 2, (2, 3), at=17)
    history.state(2, 3, (2, 3), at=18, start=0)
    history.log = []
    history.truncation(1, 0, 11, epoch=3, at=61)
    return history.state(2, 3, (1, 2, 3), at=63).finish()
