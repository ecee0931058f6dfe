"""Excuses that hold for another time, another broker, another answer or another record than the one that is judged."""

from typing import Any

from harness.ports.load import WorkloadSpec
from tests.outsiders.groups import group_of
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case

A, B = 11, 12
KEPT = ("__consumer_offsets", 3)  # where group g belongs
AGAIN = "group-redelivery observation"
KAFKA = "kafka:4.3.1"


# ---- set ahead at another time -------------------------------------------------------------------------------------


def _set_ahead(committed: int, *, tool: int) -> HistoryBuilder:
    """A reads 0 to 4 and commits; a tool sets the group to `tool` at 20, by the group's log; B goes on there."""
    history = group_of(A, B, system=KAFKA, workload=WorkloadSpec()).kept_state(KEPT, 2, 0, (1, 2, 3), at=0)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(5), at=3)
    history.group("committed", at=4, process=A, offset=committed, generation=1)
    history.group("revoked", at=5, process=A, generation=1)
    history.group("fetched", at=40, process=B, offset=tool)
    history.group("assigned", at=40.1, process=B, generation=2, offset=tool)
    history.reads(B, range(tool, 10), at=41)
    history.group("committed", at=42, process=B, offset=10, generation=2)
    for node in history.brokers:
        history.kept_log(KEPT, node, 3)
    for stored_at, offset in ((4.005, committed), (20, tool), (42.005, 10)):
        history.kept_offset(KEPT[1], offset, at=stored_at, transactional=False)
    return history.finish()


SET = ["lost-group-offset permitted", "head-skip permitted"]


@case(
    "a member reads 0 to 4 and commits 8; a tool sets the group to 9 at 20, and the next member commits 10",
    VIOLATION,
    {"group-skip violation": {5, 6, 7}, "group-skip permitted": {8}},
    also=SET,
    why="the member's own commit had passed over 5 to 7 long before anybody set anything",
)
def passed_over_before_a_tool_set_it_ahead() -> HistoryBuilder:
    return _set_ahead(8, tool=9)


@case(
    "the same, and the member commits 5, which is what it had read",
    PASS,
    {"group-skip permitted": {5, 6, 7, 8}},
    also=SET,
    why="whoever set it to 9 wanted it so",
)
def passed_over_only_by_a_tool() -> HistoryBuilder:
    return _set_ahead(5, tool=9)


# ---- deaf at another broker ----------------------------------------------------------------------------------------


def _held_up_in_turn(first: int, second: int) -> HistoryBuilder:
    """Nobody recorded who coordinates. One broker is cut off from 10 to 20, another or the same from 25 to 50; the
    commit of 10 is answered at 22, and at 33 somebody answers 5, from before."""
    history = group_of(A, B, system=KAFKA).group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=1)
    for node, at, until in ((first, 10, 20), (second, 25, 50)):
        history.fault("cut", [node], at=at, until=until)
    history.group("committed", at=22, process=A, offset=10, generation=1)
    history.group("fetched", at=33, process=B, offset=5)
    return history.reads(B, range(5, 10), at=34).finish()


@case(
    "one broker is cut off before the commit of 10 and another one after it, and 5 is answered",
    VIOLATION,
    {"lost-group-offset violation": SOME, "group-redelivery violation": SOME},
    also=[AGAIN],
    why="the first had heard long before it was asked, and the second was cut off only when 10 was committed",
)
def told_by_none_of_two_that_were_cut_off_in_turn() -> HistoryBuilder:
    return _held_up_in_turn(3, 2)


@case(
    "the same broker is cut off twice, with five seconds between",
    (PASS, OPEN),
    also=["lost-group-offset observation", AGAIN],
    why="it may not have heard between the two that it was replaced",
)
def told_by_one_that_was_cut_off_twice() -> HistoryBuilder:
    return _held_up_in_turn(3, 3)


# ---- told at another assignment ------------------------------------------------------------------------------------


def _told_none(*, at: float, **more: Any) -> HistoryBuilder:
    """A reads 0 to 9 and commits 10 at 16, which only the coordinator of that time knows; the one before, 3, is paused
    until `at`, and tells B a moment later that there is none: B begins at the end, at 12."""
    history = group_of(A, B, system=KAFKA, reset="latest", **more)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.fault("pause", [3], at=10, until=at)
    for leader, epoch, isr, since in ((1, 0, (1, 2, 3), 0), (3, 1, (1, 2, 3), 5), (2, 2, (1, 2), 14)):
        history.kept_state(KEPT, leader, epoch, isr, at=since)
    history.group("committed", at=16, process=A, offset=10, generation=1)
    history.group("revoked", at=17, process=A, generation=1)
    for value in (10, 11, 12):
        history.ack(value, at=20 + value / 10)
    history.group("fetched", at=at + 0.4, process=B, offset=-1)
    history.group("assigned", at=at + 0.5, process=B, generation=2)
    history.reads(B, [12], at=at + 1)
    return history


@case(
    "a replaced coordinator tells a member that there is none; half a minute later it is assigned again, is told 10, "
    "and begins behind that",
    VIOLATION,
    {"head-skip violation": SOME, "head-skip observation": SOME},
    also=["lost-group-offset observation"],
    why="what it was told before led nowhere the second time",
)
def begun_behind_what_it_was_told_the_second_time() -> HistoryBuilder:
    history = _told_none(at=30).group("revoked", at=35, process=B, generation=2)
    history.ack(13, at=50)
    history.group("fetched", at=60, process=B, offset=10)
    history.group("assigned", at=60.1, process=B, generation=3, offset=10)
    return history.reads(B, [13], at=61, assignment=1).finish()


@case(
    "a replaced coordinator tells a member that there is none, when the group's offset had expired anyway",
    PASS,
    why="offsets.retention.minutes = 1: by then nobody has it",
)
def begun_at_the_end_after_the_offset_had_expired() -> HistoryBuilder:
    return _told_none(at=100, settings={"offsets.retention.minutes": "1"}).finish()
