"""A group's position that does not exist any more: the log's end is below what the member was told to go on from."""

from tests.outsiders.history_builder import PASS, SOME, VIOLATION, HistoryBuilder, case, led

OLD, NEW = 11, 12


def _beyond_the_end(*, destroyed: bool) -> HistoryBuilder:
    """OLD reads and commits all ten; the only replica in sync loses the last three; NEW is told 10, reads from 0."""
    history = led(10).members(OLD, NEW)
    history.state(1, 0, (1,), at=2.2)
    history.group("assigned", at=2.5, process=OLD, generation=1, offset=0)
    history.reads(OLD, range(10), at=3)
    history.group("committed", at=3.5, process=OLD, offset=10, generation=1)
    if destroyed:
        history.destroyed("power-loss", 1, "tail", at=6, until=8, first=7, end=10, partition_id=0)
        history.log = history.log[:7]
        history.state(1, 1, (1,), at=9, start=7)
    history.group("assigned", at=12, process=NEW, generation=2)
    history.group("fetched", at=12.5, process=NEW, offset=10, generation=2)
    return history.reads(NEW, range(7), at=13, assignment=1).finish()


@case(
    "the only replica in sync loses the log's end, below what the group had committed; the next member, told to go "
    "on there, begins anew",
    PASS,
    {"lost-write permitted": {7, 8, 9}, "group-redelivery permitted": SOME},
    also=("group-redelivery observation", "dirty-read permitted"),
    why="auto.offset.reset says where a member goes on whose position does not exist any more",
)
def position_beyond_a_destroyed_end() -> HistoryBuilder:
    return _beyond_the_end(destroyed=True)


@case(
    "nothing happened to the log; the next member, told to go on at its end, begins anew",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=("group-redelivery observation",),
    why="its position was there",
)
def position_that_was_there() -> HistoryBuilder:
    return _beyond_the_end(destroyed=False)
