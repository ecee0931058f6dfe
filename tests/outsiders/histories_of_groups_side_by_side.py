"""Groups beside groups, tools that change them, topics made anew under them, coordinators that answer on."""

from typing import Any

from harness.ports.load import WorkloadSpec
from tests.outsiders.groups import group_of
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case

A, B, TOOL, OTHER, NEXT_OTHER = 11, 12, 13, 21, 22
KEPT = ("__consumer_offsets", 3)  # where group g belongs
AGAIN = "group-redelivery observation"
KAFKA = "kafka:4.3.1"


def _worked(history: HistoryBuilder, *, generation: int = 1) -> HistoryBuilder:
    """A reads all ten, commits 10 at second 4, and leaves at 5."""
    history.group("assigned", at=2.5, process=A, generation=generation, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, offset=10, generation=generation)
    return history.group("revoked", at=5, process=A, generation=generation)


# ---- two groups --------------------------------------------------------------------------------------------------


def _two_groups(*, answered: int) -> HistoryBuilder:
    """g and h read everything; a tool sets g back to 0; then h's next member asks for its own place."""
    history = _worked(group_of(A, B, TOOL))
    for process in (OTHER, NEXT_OTHER):
        history.client(process, role="consumer", group="h", offset_reset="earliest", group_protocol="classic")
        history.rows["processes"][-1]["isolation"] = "read_uncommitted"
    history.group("assigned", at=2.6, process=OTHER, generation=1, offset=0, name="h")
    history.reads(OTHER, range(10), at=3.1)
    history.group("committed", at=4.2, process=OTHER, offset=10, generation=1, name="h")
    history.group("revoked", at=5.2, process=OTHER, generation=1, name="h")
    history.group("committed", at=10, process=TOOL, offset=0, generation=-1)
    history.group("assigned", at=12, process=B, generation=2, offset=0)
    history.reads(B, range(10), at=13)
    history.group("committed", at=14, process=B, offset=10, generation=2)
    history.group("fetched", at=15, process=NEXT_OTHER, offset=answered, name="h")
    history.group("assigned", at=15.1, process=NEXT_OTHER, generation=2, offset=answered, name="h")
    if answered < 10:
        history.reads(NEXT_OTHER, range(answered, 10), at=16)
    return history.finish()


@case(
    "a tool sets one of two groups back to the beginning; its next member reads all again, the other group's nothing",
    PASS,
    also=[AGAIN],
    why="each group has offsets of its own",
)
def one_group_set_back_beside_another() -> HistoryBuilder:
    return _two_groups(answered=10)


@case(
    "the same, and the other group is told the beginning too, and reads all again",
    VIOLATION,
    {"lost-group-offset violation": SOME, "group-redelivery violation": SOME},
    also=[AGAIN],
    why="nobody set that one back",
)
def the_other_group_is_set_back_too() -> HistoryBuilder:
    return _two_groups(answered=0)


@case(
    "a group has committed 10 of each of two topics; of the second one it is told that there is none, of the first 10",
    VIOLATION,
    {"lost-group-offset violation": 1},
    why="partitions of one number of two topics are two partitions",
)
def offset_of_the_topic_beside() -> HistoryBuilder:
    history = group_of(A, B, topics={"t": {}, "u": {}}).place(2, "u", 0)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=2)
    for value in range(10):
        history.send(value, value, at=1 + value / 10, partition_id=2)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0, partition_id=2)
    history.reads(A, range(10), at=3)
    history.reads(A, range(10), at=3.2, partition_id=2)
    for partition_id in (0, 2):
        history.group("committed", at=4, process=A, offset=10, generation=1, partition_id=partition_id)
    history.group("fetched", at=40, process=B, offset=10)
    history.group("fetched", at=40, process=B, offset=-1, partition_id=2)
    return history.finish_partition(2, [(value, 0, value) for value in range(10)]).finish()


# ---- what an application's tools delete -----------------------------------------------------------------------------


def _offset_deleted(*, tombstone: bool) -> HistoryBuilder:
    """Of an application: the group's offset is asked for at second 60, and there is none; the group's own log."""
    history = group_of(A, B, system=KAFKA, workload=WorkloadSpec()).kept_state(KEPT, 2, 0, (1, 2, 3), at=0)
    _worked(history)
    history.group("fetched", at=60, process=B, offset=-1)
    history.group("assigned", at=60.1, process=B, generation=2, offset=0)
    history.reads(B, range(10), at=61)
    for node in history.brokers:
        history.kept_log(KEPT, node, 2 if tombstone else 1)
    history.kept_offset(KEPT[1], 10, at=4.005)
    if tombstone:
        history.kept_offset(KEPT[1], 0, at=20, removed=True, committed_offset=None, commit_ns=None)
    return history.finish()


@case(
    "an application's group finds no offset; in the group's log its tombstone was written 16 s after the commit",
    (PASS, OPEN),
    also=[AGAIN, "lost-group-offset observation", "group-redelivery observation"],
    why="KIP-496: a tool of the application's may have deleted the offset of the empty group; nobody recorded that",
)
def offset_deleted_by_a_tool() -> HistoryBuilder:
    return _offset_deleted(tombstone=True)


@case(
    "the same, and the log of every replica still has the commit as its last word",
    VIOLATION,
    {"lost-group-offset violation": SOME, "group-redelivery violation": SOME},
    also=[AGAIN],
    why="nobody deleted it: the coordinator answered less than its log has",
)
def offset_not_deleted_and_not_told() -> HistoryBuilder:
    return _offset_deleted(tombstone=False)


@case(
    "an application's classic group is deleted by a tool, with tombstones in its log, and begins with "
    "generation 1 again",
    (PASS, OPEN),
    also=[AGAIN, "generation-regression observation", "lost-group-offset observation"],
    why="kafka-consumer-groups --delete removes an empty group; the next one of its name is another",
)
def group_deleted_by_a_tool() -> HistoryBuilder:
    history = group_of(A, B, system=KAFKA, workload=WorkloadSpec()).kept_state(KEPT, 2, 0, (1, 2, 3), at=0)
    _worked(history, generation=5)
    history.group("fetched", at=60, process=B, offset=-1)
    history.group("assigned", at=60.1, process=B, generation=1, offset=0)
    history.reads(B, range(10), at=61)
    for node in history.brokers:
        history.kept_log(KEPT, node, 4)
    group: dict[str, Any] = {
        "kind": "group",
        "topic": None,
        "topic_partition": None,
        "committed_offset": None,
        "commit_ns": None,
    }
    history.kept_offset(KEPT[1], 10, at=4.005)
    history.kept_offset(KEPT[1], 0, at=20, removed=True, committed_offset=None, commit_ns=None)
    history.kept_offset(KEPT[1], 0, at=20, removed=True, **group)
    return history.kept_offset(KEPT[1], 0, at=60.05, generation=1, members=["m12"], **group).finish()


@case(
    "a group by KIP-848 in epoch 9 is deleted, with tombstones in its log, and the next member is told epoch 1",
    PASS,
    also=[AGAIN],
    why="another member's epochs are its own, and the log says that the group was gone",
)
def group_of_kip_848_deleted() -> HistoryBuilder:
    history = group_of(A, B, protocol="consumer", system=KAFKA, workload=WorkloadSpec())
    history.kept_state(KEPT, 2, 0, (1, 2, 3), at=0)
    history.group("assigned", at=2.5, process=A, generation=9, offset=0)
    history.reads(A, range(10), at=3)
    history.group("revoked", at=5, process=A, generation=9)
    history.group("assigned", at=60.1, process=B, generation=1, offset=0)
    history.reads(B, range(10), at=61)
    for node in history.brokers:
        history.kept_log(KEPT, node, 3)
    epoch: dict[str, Any] = {"kind": "group_epoch", "topic": None, "topic_partition": None, "committed_offset": None}
    history.kept_offset(KEPT[1], 0, at=2.4, generation=9, commit_ns=None, **epoch)
    history.kept_offset(KEPT[1], 0, at=20, removed=True, commit_ns=None, **epoch)
    return history.kept_offset(KEPT[1], 0, at=60, generation=1, commit_ns=None, **epoch).finish()


# ---- static members, and a member that was away ------------------------------------------------------------------


def _two_instances(*, crossed: bool) -> HistoryBuilder:
    """shop-1 has t-0 and shop-2 t-1. Both crash and start anew in their generation; shop-2 is back first."""
    history = group_of(A, B, 14, 15, reset="latest")
    for row, instance in zip(history.rows["processes"][-4:], ("shop-1", "shop-2", "shop-2", "shop-1"), strict=True):
        row["group_instance_id"] = instance
    history.group("assigned", at=2.5, process=A, generation=3, offset=0)
    history.group("assigned", at=2.5, process=B, generation=3, offset=0, partition_id=1)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, offset=10, generation=3)
    if not crossed:
        history.crash(A, at=10)
    history.crash(B, at=10)
    history.group(
        "assigned", at=12, process=14, generation=3, offset=10 if crossed else 0, partition_id=int(not crossed)
    )
    if not crossed:
        history.group("assigned", at=13, process=15, generation=3, offset=10)
    return history.finish()


@case(
    "two static members crash and are back in the other order, each with its own partition in the same generation",
    PASS,
    why="KIP-345: an instance keeps what it had",
)
def static_members_back_in_the_other_order() -> HistoryBuilder:
    return _two_instances(crossed=False)


@case(
    "one of two static members crashes, and is told the other one's partition in the same generation",
    VIOLATION,
    {"two-owners violation": SOME},
    why="the other instance still has it",
)
def static_member_given_the_others_partition() -> HistoryBuilder:
    return _two_instances(crossed=True)


@case(
    "KIP-848: a paused member is replaced, its commit refused; it comes back in a later epoch with the other partition",
    PASS,
    also=[AGAIN],
    why="it was fenced, and joined again",
)
def fenced_member_comes_back() -> HistoryBuilder:
    history = group_of(A, B, protocol="consumer", system=KAFKA)
    history.group("assigned", at=2.5, process=A, generation=3, offset=0)
    history.reads(A, range(6), at=3)
    history.group("committed", at=3.5, process=A, offset=4, generation=3)
    history.group("assigned", at=12, process=B, generation=5, offset=4)
    history.reads(B, range(4, 10), at=13)
    history.group("committed", at=14, process=B, offset=10, generation=5)
    history.group("committed", at=20, process=A, offset=6, generation=3, status=1)
    history.group("lost", at=20.5, process=A, generation=3)
    history.group("assigned", at=22, process=A, generation=6, offset=0, partition_id=1)
    return history.group("fetched", at=30, process=B, offset=10).finish()


# ---- a coordinator that was deposed --------------------------------------------------------------------------------


def _asked_the_old_coordinator(*, healed: float) -> HistoryBuilder:
    """Broker 1 coordinates, and is cut off at 10 from the others and the controllers; 2 takes over at 14, and is
    answered a commit of 10 at 16. Another client of the group asks at 40 and is told 5, committed at 4."""
    history = group_of(A, B, system=KAFKA).kept_state(KEPT, 1, 0, (1, 2, 3), at=0)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=1)
    history.fault("cut", [1], at=10, until=healed)
    history.state(2, 1, (2, 3), at=14, start=10)
    history.kept_state(KEPT, 2, 1, (2, 3), at=14)
    history.group("committed", at=16, process=A, offset=10, generation=1)
    return history.group("fetched", at=40, process=B, offset=5).finish()


@case(
    "a coordinator that is cut off from everybody but clients answers 5; its successor had taken 10 long before",
    (PASS, OPEN),
    also=["lost-group-offset observation", "lost-group-offset permitted"],
    why="it cannot know that it was replaced, and OffsetFetch is answered from memory, without asking a replica",
)
def told_by_a_deposed_coordinator() -> HistoryBuilder:
    return _asked_the_old_coordinator(healed=50)


@case(
    "the same, and the cut was over twenty seconds before",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="KAFKA-18137: by then it has to know that it coordinates no more",
)
def told_by_a_coordinator_that_should_know_better() -> HistoryBuilder:
    return _asked_the_old_coordinator(healed=18)


# ---- a topic made anew ---------------------------------------------------------------------------------------------


@case(
    "the plan deletes the group's topic and makes it anew; the group's next member begins at 0 of the new one",
    PASS,
    {"removed-by-configuration observation": set(range(10))},
    also=[AGAIN, "unseen-tail observation"],
    why="offsets of a deleted topic go with it",
)
def group_on_a_topic_made_anew() -> HistoryBuilder:
    history = HistoryBuilder(system=KAFKA).place(1, "t#1", 0)
    for process in (A, B):
        history.client(
            process,
            role="consumer",
            group="g",
            offset_reset="earliest",
            isolation="read_uncommitted",
            group_protocol="classic",
        )
    for partition_id, at, values in ((1, 0, range(10)), (0, 21, range(100, 105))):
        history.state(1, 0, (1, 2, 3), at=at, start=0, partition_id=partition_id)
        for offset, value in enumerate(values):
            history.send(value, offset, at=at + 1 + offset / 10, partition_id=partition_id)
    for topic, created, deleted in (("t#1", 0, 20), ("t", 21, None)):
        history.lived(topic, since=created, until=deleted)
    history.asked_to_delete(until=20)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0, partition_id=1)
    history.reads(A, range(10), at=3, partition_id=1)
    history.group("committed", at=4, process=A, offset=10, generation=1, partition_id=1)
    history.group("revoked", at=5, process=A, generation=1, partition_id=1)
    history.group("fetched", at=29, process=B, offset=-1)
    history.group("assigned", at=30, process=B, generation=2, offset=0)
    history.poll([(offset, 100 + offset) for offset in range(5)], at=31, process=B)
    history.group("committed", at=32, process=B, offset=5, generation=2)
    return history.final([(offset, 100 + offset) for offset in range(5)])
