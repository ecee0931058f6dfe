"""What took a group's own partition of __consumer_offsets, and what did not: wiped copies, elections, expiry, and what
the group's records at the end show."""

from collections.abc import Sequence
from typing import Any

from harness.history.facts.internal_topics import partition_of
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"
COUNT = "offsets.topic.num.partitions"
OFFSETS = "__consumer_offsets"
OLD, NEW = 11, 12
PLACE = partition_of("g", 50)


def kept(
    history: HistoryBuilder,
    leader: int,
    epoch: int,
    isr: Sequence[int],
    *,
    at: float,
    replicas: Sequence[int],
    unclean: bool = False,
    exact: bool = True,
    place: int = PLACE,
) -> None:
    """What the books, or a broker, say of a partition of the group's topic."""
    history._add(
        "internal_partition_states",
        topic=OFFSETS,
        partition=place,
        time_ns=int(at * SECOND),
        uncertainty_ns=0,
        exact=exact,
        observer=-1 if exact else 1,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=epoch,
        isr=list(isr),
        unclean=unclean,
        replicas=list(replicas),
    )


def _comes_again(
    *, replicas: Sequence[int] = (3,), exact: bool = True, at: float = 30, fetched: bool = False, **more: Any
) -> HistoryBuilder:
    """OLD reads and commits all; NEW, assigned at second `at`, is given them from the first one on."""
    history = led(10, **more)
    if replicas:
        kept(history, replicas[0], 0, replicas, at=0, replicas=replicas, exact=exact)
    history.members(OLD, NEW)
    history.group("assigned", at=2.5, process=OLD, generation=1, offset=0)
    history.reads(OLD, range(10), at=3)
    history.group("committed", at=4, process=OLD, generation=1, offset=10)
    history.group("revoked", at=5, process=OLD, generation=1)
    if fetched:
        history.group("fetched", at=22, process=OLD, offset=10)
    history.group("assigned", at=at, process=NEW, generation=2, offset=0)
    history.group("fetched", at=at + 0.5, process=NEW, offset=None)
    return history.reads(NEW, range(10), at=at + 1)


def wiped(history: HistoryBuilder, node: int, *, at: float = 20) -> HistoryBuilder:
    history.destroyed("wipe", node, "disk", at=at)
    return history.started(node, at=at + 1)


def _logged(
    history: HistoryBuilder,
    *,
    offset: int,
    end: int,
    at: float = 90,
    reason: str = "end",
    epochs: str = "0:0",
    committed: int = 10,
    written: float = 4.05,
) -> HistoryBuilder:
    """The log of the group's partition on broker 3, with the record of the commit."""
    number = len(history.rows["internal_replica_snapshots"])
    history._add(
        "internal_replica_snapshots",
        snapshot=number,
        node=3,
        time_ns=int(at * SECOND),
        reason=reason,
        topic=OFFSETS,
        partition=PLACE,
        log_start_offset=0,
        high_watermark=end,
        log_end_offset=end,
        leader_epochs=epochs,
        kept_from=0,
    )
    history._add(
        "consumer_offsets",
        snapshots=[number],
        partition=PLACE,
        offset=offset,
        leader_epoch=0,
        time_ns=int(written * SECOND),
        transactional=False,
        kind="offset",
        removed=False,
        group="g",
        topic="t",
        topic_partition=0,
        committed_offset=committed,
    )
    return history


LOST = {"group-redelivery violation": SOME, "lost-group-offset violation": SOME}
PERMITTED = {"group-redelivery permitted": SOME, "lost-group-offset permitted": SOME}
UNKNOWN = {"group-redelivery observation": SOME, "lost-group-offset observation": SOME}
ALSO = ("group-redelivery observation",)


@case(
    "the only copy of the group's partition was on the disk that was wiped",
    PASS,
    PERMITTED,
    also=ALSO,
    why="the configuration promised one copy, and that one was destroyed",
)
def only_copy_of_the_group_is_wiped() -> HistoryBuilder:
    return wiped(_comes_again(), 3).finish()


@case(
    "another broker's disk was wiped",
    VIOLATION,
    LOST,
    also=ALSO,
    why="it had no copy of the group's partition",
)
def disk_without_the_group_is_wiped() -> HistoryBuilder:
    return wiped(_comes_again(), 2).finish()


@case(
    "one of three copies was wiped, all in sync",
    VIOLATION,
    LOST,
    also=ALSO,
    why="two in-sync copies were left",
)
def one_copy_of_the_group_is_wiped() -> HistoryBuilder:
    return wiped(_comes_again(replicas=(3, 1, 2)), 3).finish()


@case(
    "one of three copies was wiped, and it alone was in sync",
    PASS,
    PERMITTED,
    also=ALSO,
    why="every in-sync copy was destroyed",
)
def only_copy_in_sync_of_the_group_is_wiped() -> HistoryBuilder:
    history = _comes_again(replicas=(3, 1, 2))
    kept(history, 3, 0, (3,), at=15, replicas=(3, 1, 2))
    return wiped(history, 3).finish()


@case(
    "the only copy was wiped before the offset was committed",
    VIOLATION,
    LOST,
    also=ALSO,
    why="the commit was stored after that",
)
def only_copy_was_wiped_before() -> HistoryBuilder:
    return wiped(_comes_again(), 3, at=2.6).finish()


@case(
    "the only copy was wiped after the group had been found to have forgotten",
    VIOLATION,
    LOST,
    also=ALSO,
    why="a wipe takes nothing before it begins",
)
def only_copy_was_wiped_after() -> HistoryBuilder:
    return wiped(_comes_again(), 3, at=40).finish()


@case(
    "the only copy was wiped, and the offset was fetched as committed after that",
    VIOLATION,
    LOST,
    also=ALSO,
    why="it outlived the wipe, so that was not what took it",
)
def offset_outlived_the_wipe() -> HistoryBuilder:
    return wiped(_comes_again(fetched=True), 3, at=18).finish()


@case(
    "the only copy was wiped, and its log has the very commit at the end",
    VIOLATION,
    LOST,
    also=ALSO,
    why="what is still stored was not lost with a disk: the coordinator forgot it by itself",
)
def commit_is_still_stored() -> HistoryBuilder:
    return _logged(wiped(_comes_again(), 3), offset=0, end=1).finish()


def _lost_end(history: HistoryBuilder, *, first: int) -> None:
    history.fault("power-loss", [3], at=20, until=21)
    history.disk_event(3, "tail", first, max(first + 1, 4), at=20, place=(OFFSETS, PLACE))
    kept(history, 3, 1, (3,), at=22, replicas=(3,))


def _tail_lost(*, first: int) -> HistoryBuilder:
    """The log of the only copy, of four records of which the commit is the third, loses its end with the power."""
    history = _logged(_comes_again(), offset=2, end=4, at=20, reason="wipe")
    _lost_end(history, first=first)
    return history.finish()


@case(
    "the only copy of the group's log lost its end with the power, and its log had been read with the commit there",
    PASS,
    PERMITTED,
    also=ALSO,
    why="the only disk lost it: whatever its broker had when it was elected anew, this was not there any more",
)
def commit_was_in_the_lost_end() -> HistoryBuilder:
    return _tail_lost(first=1)


@case(
    "the same, and the commit stood below what was lost",
    VIOLATION,
    LOST,
    also=ALSO,
    why="what a fault takes above a record does not cost it",
)
def commit_was_below_the_lost_end() -> HistoryBuilder:
    return _tail_lost(first=3)


def _unanswered_and_fetched(*, first: int) -> HistoryBuilder:
    """A commit of 5 is answered, and one of 8 is not, but fetched; the log's end is lost, and 5 is fetched."""
    history = led(10)
    kept(history, 3, 0, (3,), at=0, replicas=(3,))
    history.client(OLD, role="consumer", group="g", offset_reset="earliest", isolation="read_uncommitted")
    history.group("assigned", at=2.5, process=OLD, generation=1, offset=0)
    history.reads(OLD, range(10), at=3)
    history.group("committed", at=4, process=OLD, generation=1, offset=5)
    history.group("committed", at=5, process=OLD, generation=1, offset=8, status=2)
    history.group("fetched", at=6, process=OLD, offset=8)
    _logged(history, offset=3, end=4, at=20, reason="wipe", committed=8, written=5.05)
    _lost_end(history, first=first)
    history.group("fetched", at=30, process=OLD, offset=5)
    return _logged(history, offset=2, end=3, epochs="0:0 1:3", committed=5).finish()


@case(
    "a commit without an answer was fetched, and the one before it is, since the end of the only log was lost",
    PASS,
    {"lost-group-offset permitted": SOME},
    why="it was the later one's record that the disk lost; the one before is still there, as it should be",
)
def later_commit_was_in_the_lost_end() -> HistoryBuilder:
    return _unanswered_and_fetched(first=3)


@case(
    "the same, and what was lost stood above it",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="the later commit was stored, and nothing took it",
)
def later_commit_was_below_the_lost_end() -> HistoryBuilder:
    return _unanswered_and_fetched(first=4)


@case(
    "nothing was recorded of the group's partition; a disk was wiped",
    OPEN,
    UNKNOWN,
    why="it may have had the only copy",
)
def group_partition_is_not_recorded() -> HistoryBuilder:
    return wiped(_comes_again(replicas=()), 3).finish()


@case(
    "several partitions of the topic were recorded: the group's own was wiped",
    PASS,
    PERMITTED,
    also=ALSO,
    why="Kafka's hash of the group's name says which one it is",
)
def own_partition_of_several_is_wiped() -> HistoryBuilder:
    history = _comes_again()
    kept(history, 1, 0, (1,), at=0, replicas=(1,), place=PLACE + 1)
    return wiped(history, 3).finish()


@case(
    "several partitions of the topic were recorded: another one was wiped",
    VIOLATION,
    LOST,
    also=ALSO,
    why="the group is not kept there",
)
def other_partition_of_several_is_wiped() -> HistoryBuilder:
    history = _comes_again()
    kept(history, 1, 0, (1,), at=0, replicas=(1,), place=PLACE + 1)
    return wiped(history, 1).finish()


@case(
    "the topic has three partitions by the scenario: the group's own of these was wiped",
    PASS,
    PERMITTED,
    also=ALSO,
    why="the number of partitions decides where a group is kept",
)
def own_partition_of_three_is_wiped() -> HistoryBuilder:
    history = _comes_again(replicas=(), settings={COUNT: "3"})
    for place in range(3):
        node = 3 if place == partition_of("g", 3) else 1
        kept(history, node, 0, (node,), at=0, replicas=(node,), place=place)
    return wiped(history, 3).finish()


# ---- elections ------------------------------------------------------------------------------------------------------


def _elected_uncleanly(history: HistoryBuilder, *, place: int = PLACE, at: float = 20) -> HistoryBuilder:
    history.fault("kill", [3], at=at, until=at + 3)
    kept(history, 3, 0, (3,), at=at - 1, replicas=(3, 1, 2), place=place)
    kept(history, 1, 1, (1,), at=at + 1, replicas=(3, 1, 2), unclean=True, place=place)
    return history


@case(
    "a broker out of sync was elected leader of the group's partition, which the brokers' setting allows",
    PASS,
    PERMITTED,
    also=ALSO,
    why="an unclean election that is allowed may cost what was committed",
)
def group_is_elected_uncleanly() -> HistoryBuilder:
    return _elected_uncleanly(_comes_again(replicas=(3, 1, 2), settings={UNCLEAN: "true"})).finish()


@case(
    "the same, and at the end the broker with the commit leads again, elected uncleanly as well",
    PASS,
    PERMITTED,
    also=ALSO,
    why="while the other one led the offset was lawfully gone; that it came back later changes nothing of that",
)
def commit_comes_back_with_an_unclean_election() -> HistoryBuilder:
    history = _elected_uncleanly(_comes_again(replicas=(3, 1, 2), settings={UNCLEAN: "true"}))
    history.fault("kill", [1], at=44, until=50)
    kept(history, 3, 2, (3,), at=45, replicas=(3, 1, 2), unclean=True)
    return _logged(history, offset=0, end=1).finish()


@case(
    "the same, and the setting forbids it",
    VIOLATION,
    LOST,
    also=ALSO,
    why="the configuration promised that it would not happen",
)
def group_is_elected_uncleanly_though_forbidden() -> HistoryBuilder:
    return _elected_uncleanly(_comes_again(replicas=(3, 1, 2))).finish()


@case(
    "unclean elections are allowed, and none was one of the group's partition",
    VIOLATION,
    LOST,
    also=ALSO,
    why="configuration alone excuses nothing",
)
def group_is_elected_cleanly() -> HistoryBuilder:
    history = _comes_again(replicas=(3, 1, 2), settings={UNCLEAN: "true"}).fault("kill", [3], at=20, until=23)
    kept(history, 1, 1, (1, 2), at=21, replicas=(3, 1, 2))
    return history.finish()


@case(
    "unclean elections are allowed; one was of another partition of the topic",
    VIOLATION,
    LOST,
    also=ALSO,
    why="the group is not kept there",
)
def another_group_is_elected_uncleanly() -> HistoryBuilder:
    history = _comes_again(replicas=(3, 1, 2), settings={UNCLEAN: "true"})
    kept(history, 3, 0, (3, 1, 2), at=0, replicas=(3, 1, 2), place=PLACE + 1)
    return _elected_uncleanly(history, place=PLACE + 1).finish()


@case(
    "it was elected uncleanly, as was allowed, before the offset was committed",
    VIOLATION,
    LOST,
    also=ALSO,
    why="the new leader stored the commit",
)
def group_was_elected_uncleanly_before() -> HistoryBuilder:
    history = _comes_again(replicas=(3, 1, 2), settings={UNCLEAN: "true"})
    return _elected_uncleanly(history, at=1.5).finish()


@case(
    "unclean elections are allowed, a broker was killed, and the group's partition was only polled for",
    OPEN,
    UNKNOWN,
    why="an unclean election may have gone by unseen",
)
def group_partition_is_polled() -> HistoryBuilder:
    history = _comes_again(replicas=(3, 1, 2), settings={UNCLEAN: "true"}, exact=False)
    return history.fault("kill", [3], at=20, until=23).finish()


@case(
    "the group's partition was only polled for, and a disk without a copy of it was wiped",
    VIOLATION,
    LOST,
    also=ALSO,
    why="whoever was in sync, it was none of its replicas",
)
def disk_without_the_polled_group_is_wiped() -> HistoryBuilder:
    return wiped(_comes_again(exact=False), 2).finish()


# -- two copies --------------------------------


def _of_two(*wipes: tuple[int, float], isrs: Sequence[tuple[float, Sequence[int]]] = ()) -> HistoryBuilder:
    """The group's partition is on brokers 2 and 3, in sync; then the disks are wiped, and the ISR changes."""
    history = _comes_again(replicas=(2, 3))
    for epoch, (at, isr) in enumerate(isrs, start=1):
        kept(history, isr[0], epoch, isr, at=at, replicas=(2, 3))
    for node, at in wipes:
        wiped(history, node, at=at)
    return history.finish()


@case(
    "of two copies one was wiped and did not come back in sync, and then the other one was",
    PASS,
    PERMITTED,
    also=ALSO,
    why="the second was the only copy in sync",
)
def second_of_two_copies_is_wiped() -> HistoryBuilder:
    return _of_two((3, 15), (2, 20), isrs=[(15.1, (2,))])


@case(
    "both copies were wiped in one moment",
    PASS,
    PERMITTED,
    also=ALSO,
    why="every copy in sync was destroyed",
)
def two_copies_are_wiped_at_once() -> HistoryBuilder:
    return _of_two((3, 20), (2, 20))


@case(
    "of two copies one was wiped and came back in sync before the other one was",
    VIOLATION,
    LOST,
    also=ALSO,
    why="it had copied the group's records again",
)
def first_of_two_copies_is_made_again() -> HistoryBuilder:
    return _of_two((3, 12), (2, 20), isrs=[(12.1, (2,)), (16, (2, 3)), (20.1, (3,))])


# -- a commit under way --------------------------------


def _under_way(*, until: float) -> HistoryBuilder:
    """The last commit is sent at 5 and answered at 15; the only copy is wiped at 6."""
    history = led(10)
    kept(history, 3, 0, (3,), at=0, replicas=(3,))
    history.members(OLD, NEW)
    history.group("assigned", at=2.5, process=OLD, generation=1, offset=0)
    history.reads(OLD, range(10), at=3)
    history.group("committed", at=5, elapsed_s=10, process=OLD, generation=1, offset=10)
    history.destroyed("wipe", 3, "disk", at=6, until=until)
    history.group("revoked", at=16, process=OLD, generation=1)
    history.group("assigned", at=30, process=NEW, generation=2, offset=0)
    history.group("fetched", at=30.5, process=NEW, offset=None)
    return history.reads(NEW, range(10), at=31).finish()


@case(
    "the only copy was wiped while the commit was under way, and its broker was down until after the answer",
    PASS,
    PERMITTED,
    also=ALSO,
    why="a coordinator answers before it dies, whenever the answer is read",
)
def wiped_under_the_commit() -> HistoryBuilder:
    return _under_way(until=18)


@case(
    "the same, and its broker ran again before the answer came",
    OPEN,
    UNKNOWN,
    also=ALSO,
    why="the commit may have been stored before the disk was wiped, or after",
)
def wiped_before_or_after_the_commit() -> HistoryBuilder:
    return _under_way(until=9)
