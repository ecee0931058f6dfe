"""Members of groups as Kafka lets them live: cooperative and upgraded groups, shared names, commits that overtake each
other, offsets that expire, and what their coordinator's log still has."""

from typing import Any

from harness.history.facts.internal_topics import partition_of
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

A, B, TOOL, PRODUCER = 11, 12, 13, 21
RETENTION = {"offsets.retention.minutes": "1"}
COUNT = 50
PLACE = partition_of("g", COUNT)
NEIGHBOUR = next(name for name in map("h{}".format, range(1000)) if partition_of(name, COUNT) == PLACE)
KEPT = ("__consumer_offsets", PLACE)
AGAIN = "group-redelivery observation"


def _group(
    *protocols: str, reset: str = "earliest", isolation: str = "read_uncommitted", count: int = 10, **more: Any
) -> HistoryBuilder:
    """A and B, by default of the classic protocol; t-1 is there and empty."""
    history = led(count, **more).place(1, "t", 1)
    for process, protocol in zip((A, B), protocols or ("classic", "classic"), strict=True):
        history.client(
            process, role="consumer", group="g", offset_reset=reset, isolation=isolation, group_protocol=protocol
        )
    return history


# ---- who may commit -------------------------------------------------------------------------------------------------


@case(
    "a cooperative member keeps its partition over a rebalance without being told of it anew, and commits in the next "
    "generation",
    PASS,
    why="KIP-429: what a member keeps is not assigned to it again; its commits carry the present generation",
)
def kept_over_a_cooperative_rebalance() -> HistoryBuilder:
    history = _group().group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(5), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=1)
    history.group("assigned", at=12, process=B, generation=2, offset=None, partition_id=1)
    history.reads(A, range(5, 10), at=13)
    return history.group("committed", at=14, process=A, offset=10, generation=2).finish()


@case(
    "a cooperative member gives up one of two partitions, commits it while it is revoked, and goes on with the other",
    PASS,
    why="KIP-429: what is revoked goes to the next member a generation later, the rest stays",
)
def one_of_two_handed_over() -> HistoryBuilder:
    history = _group()
    for partition_id in (0, 1):
        history.group("assigned", at=2.5, process=A, generation=1, offset=0, partition_id=partition_id)
    history.reads(A, range(5), at=3)
    history.group("committed", at=9.9, process=A, offset=0, generation=2, partition_id=1)
    history.group("revoked", at=10, process=A, generation=2, partition_id=1)
    history.group("assigned", at=11, process=B, generation=3, offset=0, partition_id=1)
    history.reads(A, range(5, 10), at=12)
    return history.group("committed", at=13, process=A, offset=10, generation=3).finish()


@case(
    "Kafka 4.3, KIP-848: a member was told the partition in epoch 5, and its commit of it with epoch 4, sent later, is "
    "accepted",
    VIOLATION,
    {"zombie-commit violation": SOME},
    why="KIP-1251 takes a commit from the partition's assignment epoch on, and that is 5",
)
def epoch_below_that_of_the_partition() -> HistoryBuilder:
    history = _group("consumer", "consumer", system="kafka:4.3.1")
    history.group("assigned", at=2.5, process=A, generation=4, offset=None, partition_id=1)
    history.group("assigned", at=6, process=A, generation=5, offset=0)
    history.reads(A, range(10), at=7)
    return history.group("committed", at=8, process=A, offset=10, generation=4).finish()


@case(
    "two groups have a member of the same group.instance.id; the one of the other group comes later, and this "
    "one commits",
    PASS,
    why="KIP-345: an instance is one of its group",
)
def same_instance_in_another_group() -> HistoryBuilder:
    history = _group()
    for row in history.rows["processes"][-2:]:
        row["group_instance_id"] = "shop-1"
    history.rows["processes"][-1]["group"] = "h"
    history.group("assigned", at=2.5, process=A, generation=3, offset=0)
    history.reads(A, range(5), at=3)
    history.group("assigned", at=6, process=B, generation=3, offset=0, name="h")
    history.reads(B, range(10), at=6.5)
    history.group("committed", at=7, process=B, offset=10, generation=3, name="h")
    return history.group("committed", at=8, process=A, offset=5, generation=3).finish()


@case(
    "a static member starts anew in its generation; its old self still empties its buffer, and commits nothing",
    PASS,
    also=[AGAIN],
    why="KIP-345: one member with two lives; what was not committed comes again",
)
def old_self_empties_its_buffer() -> HistoryBuilder:
    history = _group()
    for row in history.rows["processes"][-2:]:
        row["group_instance_id"] = "shop-1"
    history.group("assigned", at=2.5, process=A, generation=3, offset=0)
    history.reads(A, range(5), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=3)
    history.group("assigned", at=6, process=B, generation=3, offset=5)
    history.reads(B, range(5, 10), at=6.5)
    history.reads(A, range(5, 8), at=7)
    return history.group("committed", at=8, process=B, offset=10, generation=3).finish()


def _upgraded() -> HistoryBuilder:
    """Kafka 4.3: a group of the classic protocol, A its last classic member, to which B comes by KIP-848."""
    history = _group("classic", "consumer", system="kafka:4.3.1")
    history.group("assigned", at=2.5, process=A, generation=7, offset=0)
    history.reads(A, range(5), at=3)
    return history.group("committed", at=4, process=A, offset=5, generation=7)


@case(
    "a group is upgraded: a member by KIP-848 is in epoch 8 beside, and the classic one, not asked to join again yet, "
    "commits in generation 7",
    PASS,
    why="KIP-848, online upgrade: a classic member of such a group has a member epoch of its own, its generation",
)
def classic_member_of_an_upgraded_group() -> HistoryBuilder:
    history = _upgraded().group("assigned", at=12, process=B, generation=8, offset=None, partition_id=1)
    history.reads(A, range(5, 10), at=13)
    return history.group("committed", at=14, process=A, offset=10, generation=7).finish()


@case(
    "the same: the member by KIP-848 is in epoch 9, and 18 quiet seconds later the classic one joins and is told 8",
    PASS,
    why="a member that has not given up what it has to stays in its epoch, below that of the group",
)
def classic_member_told_an_epoch_below() -> HistoryBuilder:
    history = _upgraded().group("assigned", at=12, process=B, generation=9, offset=None, partition_id=1)
    history.group("revoked", at=29, process=A, generation=7)
    history.group("assigned", at=30, process=A, generation=8, offset=5)
    history.reads(A, range(5, 10), at=31, assignment=1)
    return history.group("committed", at=32, process=A, offset=10, generation=8).finish()


@case(
    "a group is upgraded, and a member by KIP-848 is told the partition of the classic one, whose commit is taken",
    VIOLATION,
    {"zombie-commit violation": SOME},
    also=["two-owners violation"],
    why="whoever has an epoch of its own lost it with the partition",
)
def zombie_in_an_upgraded_group() -> HistoryBuilder:
    history = _upgraded().group("assigned", at=12, process=B, generation=9, offset=5)
    history.reads(B, range(5, 10), at=13)
    history.group("committed", at=13.5, process=B, offset=10, generation=9)
    return history.group("committed", at=20, process=A, offset=5, generation=7).finish()


@case(
    "a classic group has a member of generation 8, and one of 7 has its commit taken; another group is by KIP-848",
    VIOLATION,
    {"zombie-commit violation": SOME},
    why="this group is not upgraded: its generation is that of all its members",
)
def zombie_beside_a_group_of_the_new_protocol() -> HistoryBuilder:
    history = _group(system="kafka:4.3.1")
    history.client(TOOL, role="consumer", group="h", offset_reset="earliest", group_protocol="consumer")
    history.group("assigned", at=2.5, process=A, generation=7, offset=0)
    history.reads(A, range(10), at=3)
    history.group("assigned", at=3, process=TOOL, generation=2, offset=None, partition_id=1, name="h")
    history.group("assigned", at=12, process=B, generation=8, offset=None, partition_id=1)
    return history.group("committed", at=20, process=A, offset=10, generation=7).finish()


# ---- which offset was committed last --------------------------------------------------------------------------------


def _overtaken(*, first_answered: float) -> HistoryBuilder:
    """A commits 7 at second 4 and 10 at 4.2, answered at 4.25; B is assigned at 7, is told 7, and is given 7 to 9."""
    history = _group().group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4.2, elapsed_s=0.05, process=A, offset=10, generation=1)
    history.group("committed", at=4, elapsed_s=first_answered - 4, process=A, offset=7, generation=1)
    history.group("revoked", at=5, process=A, generation=1)
    history.group("fetched", at=6, process=B, offset=7)
    history.group("assigned", at=6.5, process=B, generation=2, offset=7)
    return history.reads(B, range(7, 10), at=7).finish()


@case(
    "commitAsync of 7 is sent again and answered after the commit of 10, which was sent later; the next member "
    "begins at 7",
    PASS,
    also=[AGAIN],
    why="of two commits under way at once either may be the last; what is above it comes again",
)
def asynchronous_commits_overtake_each_other() -> HistoryBuilder:
    return _overtaken(first_answered=4.4)


@case(
    "the same, and 7 had been answered before 10 was sent",
    VIOLATION,
    {"lost-group-offset violation": SOME, "group-redelivery violation": SOME},
    also=[AGAIN],
    why="then 10 is the last",
)
def commits_one_after_the_other() -> HistoryBuilder:
    return _overtaken(first_answered=4.1)


@case(
    "a read_committed group reads seven records, and commits 11: behind an aborted transaction's three and its marker",
    PASS,
    why="KIP-98: a position goes past what is aborted; nobody skipped anything",
)
def committed_behind_an_aborted_transaction() -> HistoryBuilder:
    history = _group(isolation="read_committed", count=7)
    history.client(PRODUCER, role="producer", transactional_id="p", acks=-1, idempotent=True)
    history.client(99, role="consumer", isolation="read_committed")
    history.transaction(1, 1, at=2.9, until=4, process=PRODUCER, transactional_id="p")
    for number in range(3):
        history.send(900 + number, 7 + number, at=3, process=PRODUCER, transaction=1, status=1)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(7), at=5)
    history.group("committed", at=6, process=A, offset=11, generation=1)
    history.group("fetched", at=20, process=B, offset=11)
    whole = [*history.log, *((7 + number, 0, 900 + number) for number in range(3))]
    for node in history.brokers:
        history.replica(node, whole, high_watermark=11)
        history.rows["replica_snapshots"][-1]["log_end_offset"] = 11
    history.final([(offset, value) for offset, _, value in history.log])
    history.partition.update(end_offset=11, last_stable_offset=11)
    return history


@case(
    "the next member finds its place below the log's start, where retention has come, and begins behind",
    PASS,
    {"removed-by-configuration observation": set(range(6))},
    why="OFFSET_OUT_OF_RANGE and auto.offset.reset=earliest: what nobody could be given any more nobody skipped",
)
def place_below_the_logs_start() -> HistoryBuilder:
    history = _group(topics={"t": {"retention.ms": "1000"}})
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(3), at=3)
    history.group("committed", at=4, process=A, offset=3, generation=1)
    history.group("revoked", at=5, process=A, generation=1)
    history.group("fetched", at=49, process=B, offset=3)
    history.group("assigned", at=50, process=B, generation=2, offset=3)
    history.reads(B, range(6, 10), at=51)
    history.group("committed", at=52, process=B, offset=10, generation=2)
    history.log = history.log[6:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=6, cleanup_policy="delete")
    return history


# ---- what expired ---------------------------------------------------------------------------------------------------


@case(
    "Kafka 2.0: offsets are kept for a minute, the offset was committed again at second 50, and at 92 there is none",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="until 2.1 the time counts from the last commit, and its minute had not passed",
)
def renewed_on_an_old_release() -> HistoryBuilder:
    history = _group(settings=RETENTION, system="kafka:2.0.1")
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(9), at=3)
    for at in (4, 50):
        history.group("committed", at=at, process=A, offset=9, generation=1)
    return history.group("fetched", at=92, process=B, offset=-1).finish()


@case(
    "the group goes on with another topic, and nobody in it subscribes to this one; its offset is gone after a minute",
    (PASS, OPEN),
    also=["lost-group-offset observation"],
    why="KIP-211 (KAFKA-4682): in a stable group the offsets of topics that no member subscribes to expire",
)
def expired_where_nobody_subscribes() -> HistoryBuilder:
    history = _group(settings=RETENTION, system="kafka:4.3.1", topics={"t": {}, "u": {}}).place(2, "u", 0)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=2)
    for offset in range(4):
        history.send(100 + offset, offset, at=1 + 25 * offset, partition_id=2)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(9), at=3)
    history.group("committed", at=4, process=A, offset=9, generation=1)
    history.group("revoked", at=20, process=A, generation=1)
    history.group("assigned", at=21, process=B, generation=2, offset=0, partition_id=2)
    for offset in range(4):
        history.poll([(offset, 100 + offset)], at=22 + 22 * offset, process=B, partition_id=2)
    history.client(TOOL, role="consumer", group="g")
    history.group("fetched", at=92, process=TOOL, offset=-1)
    return history.final([(offset, 100 + offset) for offset in range(4)], partition_id=2).finish()


@case(
    "the group's offset expires while it is empty; its next member starts at the latest record, in generation 1 again",
    PASS,
    why="offsets.retention.minutes took the offset and the group; auto.offset.reset=latest starts at the end",
)
def expired_and_started_at_the_end() -> HistoryBuilder:
    history = _group(settings=RETENTION, system="kafka:4.3.1", reset="latest")
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(5), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=1)
    history.group("revoked", at=20, process=A, generation=1)
    history.group("fetched", at=92, process=B, offset=-1)
    history.group("assigned", at=92.2, process=B, generation=1, offset=10)
    for value in (10, 11):
        history.ack(value, at=93)
    history.reads(B, (10, 11), at=94)
    return history.group("committed", at=95, process=B, offset=12, generation=1).finish()


def _without_offsets(
    *, again: float, commits: bool = False, leaves: bool = True, reads_on: bool = False, cut_off: bool = False
) -> HistoryBuilder:
    """A is told generation 3 and reads, and perhaps leaves at 5 or reads on to the end; B is told generation 1."""
    history = _group(system="kafka:4.3.1", settings={"offsets.retention.check.interval.ms": "5000"})
    history.group("assigned", at=2.5, process=A, generation=3, offset=0)
    history.reads(A, range(10), at=3)
    if commits:
        history.group("committed", at=4, process=A, offset=10, generation=3)
    if leaves:
        history.group("revoked", at=5, process=A, generation=3)
    history.group("assigned", at=again, process=B, generation=1, offset=10 if commits else 0)
    if not commits:
        history.reads(B, range(10), at=again + 1)
    if reads_on:
        for value, at in enumerate(range(10, 75, 10), start=len(history.log)):
            history.ack(value, at=at)
            history.reads(A, [value], at=at + 0.1)
    if cut_off:
        history.fault("cut", [1], at=12, until=70)
    return history.finish()


@case(
    "a group that never committed is left by its last member; 40 s later the next one is told generation 1",
    PASS,
    also=[AGAIN],
    why="an empty group without offsets is removed at the next look (GroupMetadataManager.cleanupGroupMetadata)",
)
def empty_group_without_offsets() -> HistoryBuilder:
    return _without_offsets(again=45)


@case(
    "the same, and it had committed",
    VIOLATION,
    {"generation-regression violation": SOME},
    why="a group is kept as long as its offsets are: a week",
)
def empty_group_with_offsets() -> HistoryBuilder:
    return _without_offsets(again=45, commits=True)


@case(
    "a group that never committed: its only member reads on, and another one is told generation 1",
    VIOLATION,
    {"generation-regression violation": SOME},
    also=[AGAIN],
    why="a group with a member is not empty, and is not removed",
)
def group_without_offsets_that_was_never_empty() -> HistoryBuilder:
    return _without_offsets(again=45, leaves=False, reads_on=True)


@case(
    "the same, and a broker was cut off meanwhile",
    PASS,
    also=[AGAIN],
    why="the member may have been removed, and not have heard of it",
)
def group_without_offsets_that_may_have_been_empty() -> HistoryBuilder:
    return _without_offsets(again=45, leaves=False, reads_on=True, cut_off=True)


@case(
    "a group that never committed is left by its last member, who comes back into generation 1; the next is told 2",
    PASS,
    also=[AGAIN],
    why="it begins again, and goes on from there",
)
def empty_group_that_begins_again_and_goes_on() -> HistoryBuilder:
    return _without_offsets(again=45).group("assigned", at=60, process=A, generation=2, partition_id=1)


@case(
    "in the log of a group by KIP-848 the assignment of epoch 8 stands behind the group's epoch 9",
    PASS,
    why="an assignment is computed for an epoch of the group, and may be written when that has gone on (KIP-848)",
)
def assignment_epoch_behind_the_groups() -> HistoryBuilder:
    history = _group("consumer", "consumer", system="kafka:4.3.1").kept_log(KEPT, 1, 4)
    gone: dict[str, Any] = {"topic": None}
    for at, kind, epoch in (
        (3, "group_epoch", 8),
        (4, "group_epoch", 9),
        (4.1, "assignment_epoch", 8),
        (5, "assignment_epoch", 9),
    ):
        history.kept_offset(PLACE, 0, at=at, kind=kind, generation=epoch, **gone)
        history.rows["consumer_offsets"][-1].update(topic_partition=None, committed_offset=None, commit_ns=None)
    return history.finish()


# ---- what the coordinator's log has ---------------------------------------------------------------------------------


def _committed_twice() -> HistoryBuilder:
    """4 and then 10 are committed, both answered; the group's partition has three copies."""
    history = _group().kept_state(KEPT, 1, 0, (1, 2, 3), at=0)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, offset=4, generation=1)
    return history.group("committed", at=6, process=A, offset=10, generation=1)


@case(
    "a replica of the group's partition that had left the ISR lacks the last commit; the others have it, and "
    "it is answered",
    PASS,
    why="a commit waits for the replicas in sync alone",
)
def missing_on_a_replica_outside() -> HistoryBuilder:
    history = _committed_twice().kept_state(KEPT, 1, 0, (1, 2), at=5)
    for node, end in ((1, 2), (2, 2), (3, 1)):
        history.kept_log(KEPT, node, end)
    history.kept_offset(PLACE, 4, at=4.005)
    history.kept_offset(PLACE, 10, at=6.005)
    history.rows["consumer_offsets"][-1]["snapshots"] = [0, 1]
    return history.group("fetched", at=50, process=B, offset=10).finish()


@case(
    "two groups are kept in one partition of __consumer_offsets, whose only copy is wiped; both have forgotten all",
    PASS,
    also=[AGAIN, "lost-group-offset permitted", "group-redelivery permitted"],
    why="a group is kept where its name's hash says, and so is the other one",
)
def two_groups_of_one_partition() -> HistoryBuilder:
    history = _group()
    history.rows["processes"][-1]["group"] = NEIGHBOUR
    history.kept_state(KEPT, 3, 0, (3,), at=0, replicas=(3,))
    for process, group in ((A, "g"), (B, NEIGHBOUR)):
        history.group("assigned", at=2.5, process=process, generation=1, offset=0, name=group)
        history.reads(process, range(10), at=3)
        history.group("committed", at=4, process=process, offset=10, generation=1, name=group)
        history.group("revoked", at=5, process=process, generation=1, name=group)
    history.destroyed("wipe", 3, "disk", at=20)
    history.started(3, at=21)
    for process, group in ((A, "g"), (B, NEIGHBOUR)):
        history.group("fetched", at=30, process=process, offset=-1, name=group)
        history.group("assigned", at=30.5, process=process, generation=1, offset=0, name=group)
        history.reads(process, range(10), at=31, assignment=1)
    return history.finish()


def _starts_at_the_end(wiped: int) -> HistoryBuilder:
    """The group's only copy is on broker 3; a disk is wiped at 20; a member that starts at the latest begins at 10."""
    history = _group(reset="latest").kept_state(KEPT, 3, 0, (3,), at=0, replicas=(3,))
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(5), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=1)
    history.group("revoked", at=5, process=A, generation=1)
    history.destroyed("wipe", wiped, "disk", at=20)
    history.started(wiped, at=21)
    history.group("assigned", at=30, process=B, generation=1, offset=10)
    for value in (10, 11):
        history.ack(value, at=31)
    return history.reads(B, (10, 11), at=32).finish()


@case(
    "the only copy of the group's partition is wiped; its next member starts at the latest record",
    PASS,
    also=["lost-group-offset permitted", "head-skip permitted"],
    why="what lawfully makes a group forget excuses where it begins",
)
def wiped_and_started_at_the_end() -> HistoryBuilder:
    return _starts_at_the_end(3)


@case(
    "the same, and the disk that was wiped was another broker's",
    VIOLATION,
    {"head-skip violation": SOME},
    also=["lost-group-offset violation", "generation-regression violation"],
    why="the group's offset was there, and was not followed",
)
def started_at_the_end_though_nothing_was_forgotten() -> HistoryBuilder:
    return _starts_at_the_end(2)


@case(
    "an unclean election of the group's partition, allowed for it, takes the last commit back; the next member "
    "begins there",
    PASS,
    also=[AGAIN, "lost-group-offset permitted", "group-redelivery permitted"],
    why="what such an election costs a group, its topic's setting allowed",
)
def taken_back_by_an_unclean_election_of_its_log() -> HistoryBuilder:
    history = _group(settings={"unclean.leader.election.enable": "true"})
    history.kept_state(KEPT, 3, 0, (2, 3), at=0, replicas=(2, 3))
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=1)
    history.kept_state(KEPT, 3, 0, (3,), at=5, replicas=(2, 3))
    history.group("committed", at=8, process=A, offset=10, generation=1)
    history.group("revoked", at=9, process=A, generation=1)
    history.fault("kill", [3], at=10, until=30)
    history.kept_state(KEPT, 2, 1, (2,), at=12, replicas=(2, 3))
    history.group("fetched", at=20, process=B, offset=5)
    history.group("assigned", at=20.5, process=B, generation=2, offset=5)
    return history.reads(B, range(5, 10), at=21).finish()


@case(
    "KIP-848: a static member is started anew and has its partition back in the same epoch",
    PASS,
    why="the same group.instance.id is the same member",
)
def static_member_of_the_new_protocol_again() -> HistoryBuilder:
    history = _group("consumer", "consumer", system="kafka:4.3.1")
    for row in history.rows["processes"][-2:]:
        row["group_instance_id"] = "shop-1"
    history.group("assigned", at=2.5, process=A, generation=5, offset=0)
    history.reads(A, range(5), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=5)
    history.group("assigned", at=8, process=B, generation=5, offset=5)
    history.reads(B, range(5, 10), at=9)
    return history.group("committed", at=10, process=B, offset=10, generation=5).finish()
