"""A group's generations and members after its coordinator forgot it, and where nothing took what was stored of it."""

from typing import Any

from tests.outsiders.histories_of_forgetting import NEW, OLD, kept, wiped
from tests.outsiders.history_builder import PASS, SOME, VIOLATION, HistoryBuilder, case, led


def _third_generation_again(history: HistoryBuilder) -> HistoryBuilder:
    """OLD is told generation 3 of t-0, and NEW, ten seconds later, generation 3 once more."""
    history.members(OLD, NEW)
    history.group("assigned", at=4, process=OLD, generation=3)
    return history.group("assigned", at=30, process=NEW, generation=3).finish()


def _alone(**more: Any) -> HistoryBuilder:
    history = led(10, **more)
    kept(history, 3, 0, (3,), at=0, replicas=(3,))
    return history


@case(
    "the group's only copy was wiped, and its third generation is told to another member once more",
    PASS,
    {"two-owners permitted": SOME},
    why="the group was lawfully forgotten, and began again",
)
def generation_again_after_the_only_copy() -> HistoryBuilder:
    return _third_generation_again(wiped(_alone(), 3))


@case(
    "another disk was wiped, and the third generation is told to another member once more",
    VIOLATION,
    {"two-owners violation": SOME},
    why="nothing took what the coordinator had stored of the group",
)
def generation_again_after_another_disk() -> HistoryBuilder:
    return _third_generation_again(wiped(_alone(), 2))


@case(
    "the third generation is told to another member 61 s later, and groups are kept for a minute",
    PASS,
    {"two-owners permitted": SOME},
    why="a group without members expires with its offsets",
)
def generation_again_after_expiry() -> HistoryBuilder:
    history = _alone(settings={"offsets.retention.minutes": "1"}).members(OLD, NEW)
    history.group("assigned", at=4, process=OLD, generation=3)
    return history.group("assigned", at=70, process=NEW, generation=3).finish()


@case(
    "a member of generation 1 commits after generation 2 was told; the only copy was wiped between",
    PASS,
    {"zombie-commit permitted": SOME},
    why="it is generation 1 of the group's second life, as far as its coordinator knows",
)
def zombie_after_the_only_copy() -> HistoryBuilder:
    return _zombie(wiped(_alone(), 3, at=15))


@case(
    "a member of generation 1 commits after generation 2 was told; another disk was wiped between",
    VIOLATION,
    {"zombie-commit violation": SOME},
    why="the coordinator has what it had stored of the group",
)
def zombie_after_another_disk() -> HistoryBuilder:
    return _zombie(wiped(_alone(), 2, at=15))


def _zombie(history: HistoryBuilder) -> HistoryBuilder:
    history.members(OLD, NEW)
    history.group("assigned", at=8, process=OLD, generation=1, offset=0)
    history.group("assigned", at=12, process=NEW, generation=2, offset=0)
    history.group("committed", at=17, process=OLD, generation=1, offset=4)
    return history.reads(OLD, range(4), at=8.5).finish()
