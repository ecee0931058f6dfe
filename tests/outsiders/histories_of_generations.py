"""Generations of a consumer group: commits of members that were replaced, generations that come again, and what is
lawful when a group was forgotten."""

from typing import Any

from tests.outsiders.groups import group_of
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case

UNCLEAN = "unclean.leader.election.enable"
OLD, NEW, THIRD = 11, 12, 13


def _replaced(*, protocol: str | None = None, **more: Any) -> HistoryBuilder:
    """OLD has t-0 in generation 1 and reads 0 to 3; NEW in generation 2 from second 12 on, and commits 8."""
    history = group_of(**more).members(OLD, NEW, group_protocol=protocol)
    history.group("assigned", at=8, process=OLD, generation=1, offset=0)
    history.reads(OLD, range(4), at=8.5)
    history.group("assigned", at=12, process=NEW, generation=2, offset=0)
    history.reads(NEW, range(8), at=12.5)
    return history.group("committed", at=13, process=NEW, generation=2, offset=8)


def _beside(history: HistoryBuilder) -> HistoryBuilder:
    """What NEW was assigned and committed is of t-1, where there is nothing to read."""
    for row in history.rows["group_events"]:
        if row["process"] == NEW:
            row["partition"] = 1
    history.rows["records"] = [row for row in history.rows["records"] if row["process"] != NEW]
    return history


def _zombie(history: HistoryBuilder, *, at: float = 17, generation: int = 1, **columns: Any) -> HistoryBuilder:
    return history.group("committed", at=at, process=OLD, generation=generation, offset=4, **columns).finish()


@case(
    "a member of generation 1 commits, five seconds after generation 2 gave its partition to another: accepted",
    VIOLATION,
    {"zombie-commit violation": 1},
    also=("group-redelivery observation",),
    why="a commit of a former generation has to be refused with ILLEGAL_GENERATION",
)
def old_generation_commits() -> HistoryBuilder:
    return _zombie(_replaced())


@case(
    "the same, and it was refused",
    PASS,
    also=("group-redelivery observation",),
    why="that is how a zombie is fenced",
)
def old_generation_is_refused() -> HistoryBuilder:
    return _zombie(_replaced(), status=1)


@case(
    "the same, and it had no answer",
    PASS,
    also=("group-redelivery observation",),
    why="nobody knows that it was accepted",
)
def old_generation_is_not_answered() -> HistoryBuilder:
    return _zombie(_replaced(), status=2)


@case(
    "the commit was sent before the other was told its assignment, and answered after",
    PASS,
    also=("group-redelivery observation",),
    why="it may have arrived in its own generation",
)
def old_generation_under_way() -> HistoryBuilder:
    return _zombie(_replaced(), at=11.9, elapsed_s=3)


@case(
    "the commit has generation -1",
    PASS,
    also=("group-redelivery observation",),
    why="an offset set by hand has no generation",
)
def commit_without_a_generation() -> HistoryBuilder:
    return _zombie(_replaced(), generation=-1)


@case("the new member is of another group", PASS, {}, why="generations are a group's own")
def other_groups_generation() -> HistoryBuilder:
    history = _replaced()
    for row in history.rows["group_events"]:
        if row["process"] == NEW:
            row["group"] = "h"
    history.rows["processes"][-1]["group"] = "h"
    return _zombie(history)


@case(
    "the member took part in generation 2 and heard of it only after the commit",
    PASS,
    also=("group-redelivery observation", "two-owners violation"),
    why="its client knew the new generation before it told the application",
)
def new_generation_told_late() -> HistoryBuilder:
    history = _replaced().group("assigned", at=18, process=OLD, generation=2, partition_id=1)
    return _zombie(history)


@case(
    "classic protocol: generation 2 gave only the partition beside to another",
    VIOLATION,
    {"zombie-commit violation": 1},
    also=("group-redelivery observation",),
    why="a generation is the whole group's",
)
def old_generation_commits_beside() -> HistoryBuilder:
    return _zombie(_beside(_replaced(protocol="classic")))


@case(
    "KIP-848: another member has a later epoch, for the partition beside",
    PASS,
    why="members have epochs of their own; the committing one need not have heard of it",
)
def older_epoch_commits_its_own() -> HistoryBuilder:
    return _zombie(_beside(_replaced(protocol="consumer")))


@case(
    "KIP-848: the partition was assigned to another member in a later epoch",
    VIOLATION,
    {"zombie-commit violation": 1},
    also=("group-redelivery observation",),
    why="STALE_MEMBER_EPOCH: its epoch is below that of the partition's assignment",
)
def older_epoch_commits_what_was_reassigned() -> HistoryBuilder:
    return _zombie(_replaced(protocol="consumer"))


@case(
    "nobody recorded by which protocol they joined; the later generation is of the partition beside",
    PASS,
    why="if it was KIP-848, it is lawful",
)
def protocol_not_known() -> HistoryBuilder:
    return _zombie(_beside(_replaced()))


@case(
    "a disk is wiped between; unknown what it held; then the old generation's commit is accepted",
    OPEN,
    {"zombie-commit observation": SOME},
    also=("group-redelivery observation",),
    why="the coordinator may lawfully have forgotten generation 2",
)
def old_generation_after_a_wipe() -> HistoryBuilder:
    history = _replaced().destroyed("wipe", 3, "disk", at=15)
    history.started(3, at=15.5)
    return _zombie(history)


@case(
    "the group was forgotten with its disk and begins again: generation 1 commits after generation 2 was told",
    OPEN,
    {"group-redelivery observation": SOME},
    also=("lost-group-offset observation",),
    why="it is generation 1 of the group's second life: no zombie, and no second owner of its first one",
)
def second_life_commits() -> HistoryBuilder:
    history = _replaced().members(THIRD)
    history.destroyed("wipe", 3, "disk", at=15)
    history.started(3, at=15.5)
    history.group("lost", at=16, process=NEW, generation=2)
    history.group("assigned", at=17, process=THIRD, generation=1, offset=0)
    history.reads(THIRD, range(10), at=17.5)
    return history.group("committed", at=18, process=THIRD, generation=1, offset=10).finish()


@case(
    "a member gave its partition up to another of an earlier number, stays in the group, and commits it",
    PASS,
    {"zombie-commit observation": 1},
    also=("group-redelivery observation",),
    why="coordinators check who is a member, and in which generation, not who owns a partition",
)
def given_up_and_committed() -> HistoryBuilder:
    history = _replaced().group("revoked", at=11, process=OLD, generation=1)
    history.group("assigned", at=12, process=OLD, generation=2, partition_id=1)
    return _zombie(history, generation=2)


@case(
    "a member commits within the callback that takes its partition",
    PASS,
    also=("group-redelivery observation",),
    why="it is still in its generation, and nobody else has it",
)
def committed_while_it_is_revoked() -> HistoryBuilder:
    history = _replaced().group("revoked", at=10, process=OLD, generation=1)
    history.rows["records"] = [row for row in history.rows["records"] if row["process"] != NEW or row["offset"] >= 4]
    return _zombie(history, at=10.01)


# ---- owners ---------------------------------------------------------------------------------------------------------


def _twice_generation_3(history: HistoryBuilder, *, gone: bool) -> HistoryBuilder:
    """OLD has t-0 in generation 3; ten seconds later a generation 1 begins, and its third one gives t-0 to NEW."""
    history.members(OLD, NEW)
    history.group("assigned", at=4, process=OLD, generation=3)
    if gone:
        history.destroyed("wipe", 3, "disk", at=10)
        history.started(3, at=10.5)
    for generation in (1, 2):
        history.group("assigned", at=13 + generation, process=NEW, generation=generation, partition_id=1)
        history.group("revoked", at=13.5 + generation, process=NEW, generation=generation, partition_id=1)
    history.group("assigned", at=17, process=NEW, generation=3)
    return history.group("lost", at=18, process=OLD, generation=3).finish()


@case(
    "a group was forgotten with a disk: its third generation comes again and gives the partition to another",
    PASS,
    why="two of one number, and not one generation: the first member had not heard of it yet",
)
def generation_came_again() -> HistoryBuilder:
    return _twice_generation_3(group_of(), gone=True)


@case(
    "the same, and nothing was recorded that could have made the group be forgotten",
    VIOLATION,
    {"two-owners violation": SOME},
    why="two owners, or a group that lost what it knew",
)
def generation_came_again_without_a_reason() -> HistoryBuilder:
    return _twice_generation_3(group_of(), gone=False)


@case(
    "the first owner crashed long before the other is told the same generation",
    PASS,
    why="an ownership ends with its process",
)
def owner_crashed() -> HistoryBuilder:
    history = group_of().members(OLD, NEW)
    history.group("assigned", at=2, process=OLD, generation=12)
    history.crash(OLD, at=5)
    return history.group("assigned", at=30, process=NEW, generation=12).finish()


@case(
    "the first owner crashed only after the other was told the same generation",
    VIOLATION,
    {"two-owners violation": SOME},
    why="both were told that they are the only one, and lived",
)
def owner_crashed_too_late() -> HistoryBuilder:
    history = group_of().members(OLD, NEW)
    history.group("assigned", at=2, process=OLD, generation=12)
    history.group("assigned", at=30, process=NEW, generation=12)
    return history.crash(OLD, at=32).finish()


@case(
    "the first owner's journal was cut short long before",
    OPEN,
    why="its process was killed, and its journal may lack something; it is no second owner",
)
def owner_was_killed() -> HistoryBuilder:
    history = group_of().members(OLD, journal_complete=False)
    history.members(NEW)
    history.group("assigned", at=2, process=OLD, generation=12)
    return history.group("assigned", at=30, process=NEW, generation=12).finish()


@case(
    "its worker went on with another client before the other was told the same generation",
    PASS,
    why="a worker has one client at a time: the one before is gone",
)
def owner_was_replaced_by_its_worker() -> HistoryBuilder:
    history = group_of().members(OLD, NEW, THIRD)
    for row in history.rows["processes"]:
        if row["process"] in (OLD, THIRD):
            row["client"] = "consumer-1"
    history.group("assigned", at=2, process=OLD, generation=12)
    history.group("assigned", at=20, process=THIRD, generation=11, partition_id=1)
    return history.group("assigned", at=30, process=NEW, generation=12).finish()


@case(
    "a static member starts anew: the same instance, another member id, the same generation",
    PASS,
    why="KIP-345: it takes over without a rebalance, and the one before it is fenced",
)
def static_member_again() -> HistoryBuilder:
    history = group_of().members(OLD, NEW, group_instance_id="shop-1")
    history.group("assigned", at=2, process=OLD, generation=3)
    return history.group("assigned", at=5, process=NEW, generation=3).finish()


@case(
    "two static members of two instances are assigned one partition in one generation",
    VIOLATION,
    {"two-owners violation": SOME},
    why="they are two members",
)
def two_static_members() -> HistoryBuilder:
    history = group_of().members(OLD, group_instance_id="shop-1")
    history.members(NEW, group_instance_id="shop-2")
    history.group("assigned", at=2, process=OLD, generation=3)
    return history.group("assigned", at=5, process=NEW, generation=3).finish()


# ---- what follows from offsets that are lawfully gone ---------------------------------------------------------------


def _comes_again(history: HistoryBuilder, *, between: str = "", at: float = 30) -> HistoryBuilder:
    """OLD reads and commits all; NEW, assigned at second 30, is given them from the first one on."""
    history.members(OLD, NEW)
    history.group("assigned", at=2.5, process=OLD, generation=1, offset=0)
    history.reads(OLD, range(10), at=3)
    history.group("committed", at=4, process=OLD, generation=1, offset=10)
    history.group("revoked", at=5, process=OLD, generation=1)
    if between == "wipe":
        history.destroyed("wipe", 3, "disk", at=20)
        history.started(3, at=21)
    if between == "kill":
        history.fault("kill", [3], at=20, until=21)
    history.group("assigned", at=at, process=NEW, generation=2, offset=0)
    return history.reads(NEW, range(10), at=at + 1)


@case(
    "committed records come again; a disk that may have held the group's offsets was wiped between",
    OPEN,
    {"group-redelivery observation": SOME},
    why="the group may lawfully have forgotten its offset",
)
def comes_again_after_a_wipe() -> HistoryBuilder:
    return _comes_again(group_of(), between="wipe").finish()


@case(
    "committed records come again; nothing happened",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=("group-redelivery observation",),
    why="what is committed is delivered once",
)
def comes_again_without_a_reason() -> HistoryBuilder:
    return _comes_again(group_of()).finish()


@case(
    "committed records come again; the disk was wiped only after they had come",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=("group-redelivery observation",),
    why="what happens later explains nothing",
)
def comes_again_before_the_wipe() -> HistoryBuilder:
    return _comes_again(group_of()).destroyed("wipe", 3, "disk", at=40).started(3, at=41).finish()


@case(
    "committed records come again after offsets.retention.minutes had passed",
    PASS,
    {"group-redelivery permitted": SOME},
    also=("group-redelivery observation",),
    why="the offset had expired",
)
def comes_again_after_it_expired() -> HistoryBuilder:
    return _comes_again(group_of(settings={"offsets.retention.minutes": "1"}), at=75).finish()


@case(
    "committed records come again before offsets.retention.minutes had passed",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=("group-redelivery observation",),
    why="the offset had not expired",
)
def comes_again_before_it_expired() -> HistoryBuilder:
    return _comes_again(group_of(settings={"offsets.retention.minutes": "1"}), at=40).finish()


@case(
    "unclean elections are allowed to the cluster, and a broker was killed between",
    OPEN,
    {"group-redelivery observation": SOME},
    why="the partition of the group's offsets may have been elected uncleanly",
)
def comes_again_where_unclean_is_allowed() -> HistoryBuilder:
    return _comes_again(group_of(settings={UNCLEAN: "true"}), between="kill").finish()
