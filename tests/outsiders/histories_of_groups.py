"""Consumer groups: commits that get lost, owners, deliveries, skips, and the rewinds that are lawful."""

from typing import Any

from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"


def grouped(**more: Any) -> HistoryBuilder:
    return led(**more).members(11, 12)


def _joined(
    history: HistoryBuilder,
    process: int,
    generation: int,
    *,
    at: float,
    offset: int | None = None,
    partition_id: int = 0,
) -> None:
    history.group("assigned", at=at, process=process, generation=generation, offset=offset, partition_id=partition_id)


def _worked(*, elapsed_s: float = 0.01, status: int = 0, **more: Any) -> HistoryBuilder:
    """Member 11 reads and commits all ten in two steps; the second commit took so long, and came to that status."""
    history = grouped(**more)
    _joined(history, 11, 1, at=2.5, offset=0)
    history.reads(11, range(5), at=3)
    history.group("committed", at=3.5, process=11, offset=5, generation=1)
    history.reads(11, range(5, 10), at=4)
    return history.group("committed", at=4.5, process=11, offset=10, generation=1, elapsed_s=elapsed_s, status=status)


@case(
    "the group's offset is fetched and there is none, though 10 was committed; nothing happened",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="a commit had been acknowledged before",
)
def commit_lost() -> HistoryBuilder:
    return _worked().group("fetched", at=50, process=12, offset=-1).finish()


@case(
    "5 is answered though 10 was committed after 5, long before",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="an offset below the last one committed",
)
def commit_regressed() -> HistoryBuilder:
    return _worked().group("fetched", at=50, process=12, offset=5).finish()


@case(
    "a commit of 10 is under way while the offset is fetched: 5 is answered",
    PASS,
    why="either of two that overlap may be answered",
)
def commit_under_way() -> HistoryBuilder:
    return _worked(elapsed_s=2).group("fetched", at=5, process=12, offset=5).finish()


@case(
    "the commit of 10 had no answer; ten seconds later 5 is fetched, and then 10",
    PASS,
    why="a commit without an answer may or may not hold, and may come later",
)
def commit_without_an_answer() -> HistoryBuilder:
    history = _worked(status=2)
    history.group("fetched", at=15, process=12, offset=5)
    return history.group("fetched", at=16, process=12, offset=10).finish()


@case(
    "an offset is answered whose commit was certainly refused",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="foreign: nobody may have committed it",
)
def refused_commit_is_answered() -> HistoryBuilder:
    history = grouped()
    _joined(history, 11, 1, at=2.5, offset=0)
    history.reads(11, range(10), at=3)
    history.group("committed", at=3.5, process=11, offset=5, generation=1)
    history.group("committed", at=4.5, process=11, offset=10, generation=1, status=1)
    return history.group("fetched", at=50, process=12, offset=10).finish()


@case(
    "another group, which never committed, fetches and is answered that there is none",
    PASS,
    why="a group's offsets are its own",
)
def another_group_has_none() -> HistoryBuilder:
    history = _worked()
    history.client(13, role="consumer", group="h", offset_reset="earliest")
    return history.group("fetched", at=50, process=13, offset=-1, name="h").finish()


@case(
    "the group goes back on purpose: it seeks to 2, commits 2, and 2 is fetched",
    PASS,
    also=("group-redelivery observation",),
    why="a lawful rewind: 2 was the last commit",
)
def rewound_on_purpose() -> HistoryBuilder:
    history = _worked()
    history.group("seek", at=5, process=11, offset=2)
    history.group("committed", at=5.5, process=11, offset=2, generation=1)
    history.group("fetched", at=50, process=12, offset=2)
    return history.reads(11, range(2, 10), at=6, assignment=1).finish()


@case(
    "a commit is lost; unclean elections are allowed of topic t alone, and a broker was killed",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="t's own setting is not that of __consumer_offsets",
)
def commit_lost_where_another_topic_allows_unclean() -> HistoryBuilder:
    history = _worked(topics={"t": {UNCLEAN: "true"}})
    history.fail_over(2, at=20)
    return history.group("fetched", at=50, process=12, offset=-1).finish()


@case(
    "a commit is lost, and a batch of t-0, of one broker, had been damaged before",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="that harm reached no other partition's log",
)
def commit_lost_after_the_damage_of_a_topic() -> HistoryBuilder:
    history = _worked()
    history.damage(3, 5, 7, at=20)
    history.started(3, at=21)
    return history.group("fetched", at=50, process=12, offset=-1).finish()


@case(
    "a commit is lost, unclean elections are allowed to the cluster, a broker was killed before the fetch",
    OPEN,
    {"lost-group-offset observation": SOME},
    why="nothing is recorded of the elections of the brokers' own partition: it is unknown",
)
def commit_lost_where_the_cluster_allows_unclean() -> HistoryBuilder:
    history = _worked(settings={UNCLEAN: "true"})
    history.fail_over(2, at=20)
    return history.group("fetched", at=50, process=12, offset=-1).finish()


@case(
    "the same, but the first fault came after the answer",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="a fault that had not yet taken effect excuses nothing",
)
def commit_lost_before_the_fault() -> HistoryBuilder:
    history = _worked(settings={UNCLEAN: "true"})
    history.group("fetched", at=10, process=12, offset=-1)
    return history.fail_over(2, at=20).finish()


@case(
    "a commit is lost, and a disk is wiped only after the answer",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="before the answer",
)
def commit_lost_before_the_wipe() -> HistoryBuilder:
    history = _worked()
    history.group("fetched", at=10, process=12, offset=-1)
    history.destroyed("wipe", 3, "disk", at=20)
    return history.started(3, at=20.5).finish()


def _owners(
    generation: int, *, gives_up_at: float | None = None, partition_id: int = 0, group: str | None = "g"
) -> HistoryBuilder:
    history = grouped().place(1, "t", 1)
    _joined(history, 11, 3, at=2)
    if gives_up_at is not None:
        history.group("revoked", at=gives_up_at, process=11, generation=3)
    history.group("assigned", at=5, process=12, generation=generation, partition_id=partition_id, name=group)
    return history.finish()


@case(
    "two members are assigned one partition in one generation",
    VIOLATION,
    {"two-owners violation": SOME},
    why="each was told that it is the only one",
)
def two_owners() -> HistoryBuilder:
    return _owners(3)


@case(
    "the first gives it up only after the other has it",
    VIOLATION,
    {"two-owners violation": SOME},
    why="no revocation began before the other's assignment was answered",
)
def given_up_too_late() -> HistoryBuilder:
    return _owners(3, gives_up_at=8)


@case("the first gave it up before", PASS, {}, why="it may have given it up")
def given_up_in_time() -> HistoryBuilder:
    return _owners(3, gives_up_at=4)


@case("the other's generation is the next one", PASS, {}, why="the first is a zombie, lawfully")
def next_generation() -> HistoryBuilder:
    return _owners(4)


@case("the other is assigned the partition beside", PASS, {}, why="one owner each")
def owner_of_the_neighbour() -> HistoryBuilder:
    return _owners(3, partition_id=1)


@case("the other belongs to another group", PASS, {}, why="groups do not share out partitions among each other")
def owner_in_another_group() -> HistoryBuilder:
    return _owners(3, group="h")


@case(
    "the group commits 6 although nobody read offset 3",
    VIOLATION,
    {"group-skip violation": SOME},
    also=("head-skip violation",),
    why="the group believes the work is done",
)
def committed_past_an_unread_record() -> HistoryBuilder:
    history = grouped()
    _joined(history, 11, 1, at=2, offset=0)
    history.reads(11, range(3), at=3)
    history.group("revoked", at=3.5, process=11, generation=1)
    _joined(history, 12, 2, at=4, offset=4)
    history.reads(12, range(4, 6), at=5)
    return history.group("committed", at=5.5, process=12, offset=6, generation=2).finish()


@case(
    "the commit of 6 had no answer",
    VIOLATION,
    {"head-skip violation": SOME},
    why="not a skip of the group for certain; but a member without any commit to begin at had to start at the head",
)
def perhaps_committed_past_an_unread_record() -> HistoryBuilder:
    history = committed_past_an_unread_record()
    history.rows["group_events"][-1]["status"] = 2
    return history


@case(
    "a member is given what was committed before its assignment began",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=("group-redelivery observation",),
    why="what was committed as consumed does not come again",
)
def redelivered_after_the_commit() -> HistoryBuilder:
    history = _worked()
    history.group("revoked", at=5, process=11, generation=1)
    _joined(history, 12, 2, at=6, offset=5)
    return history.reads(12, range(5, 10), at=7).finish()


@case(
    "the commit was answered in the moment in which the other's assignment began",
    PASS,
    also=("group-redelivery observation", "group-redelivery violation"),
    why="unsure whether an equal time is before; the window is nothing",
)
def redelivered_at_the_moment_of_the_commit() -> HistoryBuilder:
    history = grouped()
    _joined(history, 11, 1, at=2.5, offset=0)
    history.reads(11, range(10), at=3)
    history.group("committed", at=4, process=11, offset=10, generation=1, elapsed_s=1)
    _joined(history, 12, 2, at=5, offset=0)
    return history.reads(12, range(10), at=7).finish()


@case(
    "the commit overlapped with the other's assignment",
    PASS,
    {"group-redelivery observation": SOME},
    why="at least once: from the committed offset on, as the coordinator knew it",
)
def redelivered_while_the_commit_was_under_way() -> HistoryBuilder:
    history = grouped()
    _joined(history, 11, 1, at=2.5, offset=0)
    history.reads(11, range(10), at=3)
    history.group("committed", at=4, process=11, offset=10, generation=1, elapsed_s=3)
    _joined(history, 12, 2, at=5, offset=0)
    return history.reads(12, range(10), at=7.5).finish()


@case(
    "a consumer without a group that resets to earliest begins at 2 of a log that begins at 0",
    VIOLATION,
    {"head-skip violation": SOME},
    why="it jumped over the head of its share",
)
def head_skipped() -> HistoryBuilder:
    history = led(6).client(11, role="consumer", offset_reset="earliest")
    history.group("assigned", at=2, process=11, name=None)
    return history.reads(11, range(2, 6), at=3).finish()


@case("the same with auto.offset.reset=latest", PASS, {}, why="free to start anywhere")
def head_skipped_by_latest() -> HistoryBuilder:
    history = led(6).client(11, role="consumer", offset_reset="latest")
    history.group("assigned", at=2, process=11, name=None)
    return history.reads(11, range(2, 6), at=3).finish()


@case(
    "a member of another group had committed 2; this group had not, resets to earliest and begins at 2",
    VIOLATION,
    {"head-skip violation": SOME},
    also=("group-skip violation",),
    why="another group's commit is none of this group's",
)
def head_skipped_by_another_groups_commit() -> HistoryBuilder:
    history = grouped(count=6).client(13, role="consumer", group="h", offset_reset="earliest")
    history.group("assigned", at=1.9, process=13, generation=1, name="h", offset=0)
    history.reads(13, range(2), at=2)
    history.group("committed", at=2.2, process=13, offset=2, generation=1, name="h")
    history.group("assigned", at=3, process=11, generation=1)
    return history.reads(11, range(2, 6), at=4).finish()
