"""Leader epochs that rise while the leader stays: with each change of the ISR or of the assignment (KRaft), and with
each clean start; and leaders that were only polled for, by brokers that hear of them at different times."""

from collections.abc import Sequence
from typing import Any

from tests.outsiders.history_builder import PASS, REWOUND, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"


def _risen(
    *, kept: int = 10, acks: int = -1, bumps: int = 2, written: bool = True, system: str = "kafka:3.5.1"
) -> HistoryBuilder:
    """Broker 3 leaves the ISR and comes back, and each time the epoch rises under leader 1; then records from 7 on
    are acknowledged, and broker 2 leads with a log that ends at `kept`."""
    history = led(7, system=system)
    for number in range(bumps):
        history.state(1, number + 1, (1, 2) if number % 2 == 0 else (1, 2, 3), at=10 + 5 * number, start=7)
    for value in range(7, 10):
        history.ack(value, at=30 + value / 10, acks=acks)
    history.fail_over(2, kept=kept, at=40, isr=(2, 3) if bumps % 2 == 0 else (2,))
    if written:
        for value in range(20, 23):
            history.ack(value, at=50 + value / 10)
    return history.finish()


@case(
    "KRaft: the epoch rises twice under one leader, as a follower leaves and is back; a clean fail-over loses nothing",
    PASS,
    why="an epoch more is no other leader",
)
def risen_twice_and_nothing_lost() -> HistoryBuilder:
    return _risen()


@case(
    "the same, and three with acks=1 that were written in the last epoch are gone",
    PASS,
    {"lost-write permitted": {7, 8, 9}},
    also=REWOUND["permitted"],
    why="the new leader never had them, and acks=1 waits for nobody",
)
def risen_twice_and_acks_1_gone() -> HistoryBuilder:
    return _risen(kept=7, acks=1)


@case(
    "the same with three by all",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    also=REWOUND["violation"],
    why="both followers were in sync",
)
def risen_twice_and_acks_all_gone() -> HistoryBuilder:
    return _risen(kept=7)


def _risen_behind(*, acks: int, kept: int = 7, starts: bool = True) -> HistoryBuilder:
    """The records are acknowledged first, and the epoch rises under leader 1 behind them; then 2 leads without them."""
    history = led(7, system="kafka:3.5.1")
    for value in range(7, 10):
        history.ack(value, at=9 + value / 100, acks=acks)
    history.state(1, 1, (1, 2), at=12, start=10 if starts else None)
    history.state(1, 2, (1, 2, 3), at=15, start=10 if starts else None)
    return history.fail_over(2, kept=kept, at=40, isr=(2, 3)).finish()


@case(
    "three with acks=1; then the epoch rises twice under the same leader, whose log ends at 10 each time; then a clean "
    "fail-over to a log that ends at 7",
    PASS,
    {"lost-write permitted": {7, 8, 9}},
    why="their leader had them in its later epochs, too, by its log's end; the next one never had them",
)
def acks_1_below_two_risen_epochs() -> HistoryBuilder:
    return _risen_behind(acks=1)


@case(
    "the same with acks=all",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    why="both followers were in sync",
)
def acks_all_below_two_risen_epochs() -> HistoryBuilder:
    return _risen_behind(acks=-1)


def _shut_down(*, kept: int, acks: int = 1, back: bool = True) -> HistoryBuilder:
    """A controlled shutdown: 2 leads from second 10 on with the whole log; at 30 the preferred leader 1 leads again,
    with a log that ends at `kept` of 13."""
    history = led(10, system="kafka:4.3.1").fault("stop", [1], at=10, until=15)
    history.state(2, 1, (2, 3), at=10, start=10)
    history.started(1, at=15)
    history.state(2, 1, (1, 2, 3), at=18)
    for value in range(10, 13):
        history.ack(value, at=29 + value / 20, acks=acks)
    history.state(1, 2, (1, 2, 3), at=30, start=kept)
    history.replica(2, history.log, at=30.5, reason="truncation", high_watermark=None)
    history.log = history.log[:kept]
    if kept < 13:
        history.truncation(2, kept, 13, epoch=2, at=30.6)
    return history.finish()


@case(
    "a rolling restart: leadership goes from 1 to 2 and back, and three with acks=1 written just before are there",
    PASS,
    why="nothing was lost",
)
def rolled_and_kept() -> HistoryBuilder:
    return _shut_down(kept=13)


@case(
    "KAFKA-20554: the same, and these three are gone",
    PASS,
    {"lost-write permitted": {10, 11, 12}},
    why="acks=1 promises nothing over a change of leaders, also a planned one",
)
def rolled_and_acks_1_gone() -> HistoryBuilder:
    return _shut_down(kept=10)


@case(
    "the same of records by all",
    VIOLATION,
    {"lost-write violation": {10, 11, 12}},
    why="the preferred leader was in sync",
)
def rolled_and_acks_all_gone() -> HistoryBuilder:
    return _shut_down(kept=10, acks=-1)


@case(
    "every disk is lost after a clean fail-over by which nothing was lost; the records had been written under the "
    "first leader",
    PASS,
    {"lost-write permitted": [*range(10)]},
    why="every copy was destroyed",
)
def all_disks_after_a_fail_over() -> HistoryBuilder:
    history = led(10, system="kafka:3.9.1").fail_over(2, at=10)
    for node in (1, 2, 3):
        history.destroyed("wipe", node, "disk", at=30, until=33)
        history.started(node, at=33)
    history.state(3, 2, (1, 2, 3), at=35, start=0)
    history.log = []
    return history.finish()


@case(
    "every disk is lost after the epoch had risen under the same leader",
    PASS,
    {"lost-write permitted": [*range(10)]},
    why="every copy was destroyed",
)
def all_disks_after_a_risen_epoch() -> HistoryBuilder:
    history = led(10, system="kafka:3.9.1").state(1, 1, (1, 2, 3), at=10, start=10)
    for node in (1, 2, 3):
        history.destroyed("wipe", node, "disk", at=30, until=33)
        history.started(node, at=33)
    history.state(3, 2, (1, 2, 3), at=35, start=0)
    history.log = []
    return history.finish()


@case(
    "a clean fail-over takes four records by all, and then every disk is lost; the elected leader's log ended at 6",
    VIOLATION,
    {"lost-write violation": {6, 7, 8, 9}, "lost-write permitted": {0, 1, 2, 3, 4, 5}},
    why="what was lost before the disks is not theirs",
)
def taken_and_then_all_disks() -> HistoryBuilder:
    history = led(10, system="kafka:3.9.1").fail_over(2, kept=6, at=10)
    for node in (1, 2, 3):
        history.destroyed("wipe", node, "disk", at=30, until=33)
        history.started(node, at=33)
    history.state(3, 2, (1, 2, 3), at=35, start=0)
    history.log = []
    return history.finish()


@case(
    "the eligible leader replica (KIP-966) leads after the only member of the ISR lost its disk; it has everything",
    PASS,
    why="an eligible one has what is committed",
)
def eligible_after_a_lost_disk() -> HistoryBuilder:
    history = led(10, system="kafka:4.3.1", settings={"min.insync.replicas": "2"}).state(1, 0, (1,), at=10, elr=(2,))
    history.destroyed("wipe", 1, "disk", at=20, until=25)
    history.state(2, 1, (2,), at=22, start=10)
    history.started(1, at=25)
    return history.state(2, 1, (1, 2, 3), at=30).finish()


@case(
    "the preferred replica takes over though it is not in sync, and cuts three records by all",
    VIOLATION,
    {"unclean-election violation": SOME, "lost-write violation": {7, 8, 9}},
    why="a preferred election elects from the ISR alone",
)
def preferred_though_not_in_sync() -> HistoryBuilder:
    history = led(5, system="reference").fail_over(2, at=8, back=False)
    for value in range(5, 7):
        history.ack(value, at=10 + value / 10)
    history.state(2, 1, (2, 3), at=12)
    for value in range(7, 10):
        history.ack(value, at=12 + value / 10)
    history.started(1, at=13)
    history.state(1, 2, (1,), at=16, start=7)
    history.log = history.log[:7]
    for node in (2, 3):
        history.truncation(node, 7, 10, epoch=2, at=17)
    return history.state(1, 2, (1, 2, 3), at=20).finish()


# ---- polled for --------------------------------------------------------------------------------------------------


def _polled(states: Sequence[tuple[float, int, int, int, Sequence[int]]], **more: Any) -> HistoryBuilder:
    """Somebody else's cluster: when, who was asked, leader, epoch, ISR. Everything acknowledged is there."""
    history = HistoryBuilder(system="attached", **more)
    for at, observer, leader, epoch, isr in states:
        history.polled(observer, leader, epoch, isr, at=at)
    for value in range(10):
        history.ack(value, at=1 + 3 * value)
    return history.finish(snapshots=False)


@case(
    "two brokers are asked; one names the old leader for ten seconds more than the other",
    PASS,
    why="brokers hear of a leader at different times",
)
def one_hears_later() -> HistoryBuilder:
    states = [(0, 2, 1, 0, (1, 2, 3)), (0, 3, 1, 0, (1, 2, 3)), (14, 2, 2, 1, (2, 3)), (20, 3, 1, 0, (1, 2, 3))]
    return _polled([*states, (24, 3, 2, 1, (2, 3)), (30, 2, 2, 1, (1, 2, 3))])


@case(
    "no leader is named for a while, and then one of the ISR of before, alone in sync",
    PASS,
    why="that is a clean election",
)
def no_leader_for_a_while() -> HistoryBuilder:
    return _polled([(0, 2, 1, 0, (1, 2)), (10, 2, -1, 1, (2,)), (14, 2, 2, 2, (2,)), (20, 2, 2, 2, (1, 2, 3))])


@case(
    "one broker is asked and names a leader of whom it last heard that he was out of the ISR",
    PASS,
    {"unclean-election observation": SOME},
    why="he may have come back unseen, and nothing was lost",
)
def elected_outside_of_what_was_heard() -> HistoryBuilder:
    return _polled([(0, 2, 1, 0, (1, 2)), (14, 2, 3, 2, (3, 2))])


@case(
    "epochs are not told (an old protocol), leaders are: nothing was lost",
    PASS,
    why="a leader without an epoch is no fault",
)
def polled_without_epochs() -> HistoryBuilder:
    history = HistoryBuilder(system="attached")
    for at, leader in ((0, 1), (12, 2), (20, 1)):
        history.polled(2, leader, -1, (1, 2, 3), at=at)
    for value in range(10):
        history.ack(value, at=1 + 3 * value)
    return history.finish(snapshots=False)
