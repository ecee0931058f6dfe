"""Generations, commits and topic ids that no client saw go wrong, each beside what is lawful and looks much alike."""

from tests.harness.checks.histories.build import SECOND
from tests.outsiders.groups import group_of
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

AFTER = 120.0  # the logs are read after the final read, which is at 100
OFFSETS = ("__consumer_offsets", 7)
UNCLEAN = "unclean.leader.election.enable"
P, Q = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
A, B = 11, 12
LOST = ("lost-write permitted", "dirty-read permitted", "unclean-election permitted", "replica-divergence permitted")


# ---- generations ----------------------------------------------------------------------------------------------------


def _answered(
    history: HistoryBuilder, first: int, second: int, *, at: float = 19.0, process: int = B
) -> HistoryBuilder:
    history.group("assigned", at=2.5, process=A, generation=first, offset=0)
    return history.group("assigned", at=at, process=process, generation=second, offset=0).finish()


@case("each assignment is told in a higher generation", PASS, why="that is how a group rebalances")
def generations_that_rise() -> HistoryBuilder:
    return _answered(group_of(A, B), 7, 8)


@case(
    "a member is told generation 7, and another, half a second later, generation 6",
    PASS,
    why="its client had not polled since, and does not know yet that it was removed",
)
def an_older_generation_told_a_moment_later() -> HistoryBuilder:
    return _answered(group_of(A, B), 7, 6, at=3.0)


@case(
    "the same fifteen seconds later: a cut had kept the answer back",
    PASS,
    also=["generation-regression observation"],
    why="what was sent before the cut arrives when it heals",
)
def an_older_generation_told_after_a_cut() -> HistoryBuilder:
    history = group_of(A, B).fault("cut", [1], at=2.4, until=18.5)
    return _answered(history, 7, 6)


@case(
    "members by KIP-848: one is in epoch 7, another is told its assignment in epoch 5 later",
    PASS,
    why="a member has an epoch of its own, and reaches the group's when it has given up what it must",
)
def member_epochs_are_their_own() -> HistoryBuilder:
    return _answered(group_of(A, B, protocol="consumer"), 7, 5)


@case(
    "one member by KIP-848 is told epoch 5 after it had been in epoch 7",
    VIOLATION,
    {"generation-regression violation": 1},
    why="a member's own epoch only rises",
)
def a_members_own_epoch_goes_back() -> HistoryBuilder:
    return _answered(group_of(A, B, protocol="consumer"), 7, 5, process=A)


@case(
    "nobody recorded by which protocol the members joined: another one is told a lower number",
    PASS,
    also=["generation-regression observation"],
    why="it may be an epoch of its own",
)
def generations_of_an_unknown_protocol() -> HistoryBuilder:
    return _answered(group_of(A, B, protocol=None), 7, 5)


@case(
    "every disk in sync that had the group's partition was lost between the two generations",
    PASS,
    {"generation-regression permitted": 1},
    why="the group was forgotten, and begins again with its first generation",
)
def a_group_that_was_lawfully_forgotten() -> HistoryBuilder:
    history = group_of(A, B).kept_state(OFFSETS, 1, 0, (1,), at=0, replicas=(1,))
    history.destroyed("wipe", 1, "disk", at=10, until=12)
    history.state(2, 1, (2, 3), at=10.5, start=10)
    history.kept_state(OFFSETS, -1, 1, (), at=10.5)
    history.kept_state(OFFSETS, 1, 2, (1,), at=12.5)
    history.started(1, at=12)
    history.state(2, 1, (2, 3, 1), at=14)
    history.group("assigned", at=2.5, process=A, generation=7, offset=0)
    return history.group("assigned", at=19, process=B, generation=1, offset=0).finish()


@case(
    "a disk with a copy of the group's partition was lost between the two, and two other replicas were in sync",
    VIOLATION,
    {"generation-regression violation": 1},
    why="the other replicas had the generation",
)
def a_group_that_others_still_had() -> HistoryBuilder:
    history = group_of(A, B).kept_state(OFFSETS, 2, 0, (1, 2, 3), at=0)
    history.destroyed("wipe", 3, "disk", at=10, until=12)
    history.started(3, at=12)
    return _answered(history, 7, 2)


@case(
    "Kafka 0.10.0: the last member of generation 7 leaves, and the next one is told generation 1",
    PASS,
    why="before KAFKA-2720 (0.10.1) a group was gone with its last member",
)
def an_empty_group_of_an_old_release() -> HistoryBuilder:
    return _answered(group_of(A, B, system="kafka:0.10.0.1"), 7, 1)


def _logged(history: HistoryBuilder, *records: tuple[int | None, float]) -> HistoryBuilder:
    """Generations in the group's log (None: its tombstone), and when."""
    history.kept_state(OFFSETS, 1, 0, (1, 2, 3), at=0)
    history.kept_log(OFFSETS, 1, len(records))
    for generation, at in records:
        history.kept_offset(
            OFFSETS[1],
            0,
            at=at,
            kind="group",
            removed=generation is None,
            generation=generation,
            topic=None,
            topic_partition=None,
            committed_offset=None,
            commit_ns=None,
        )
    return history.finish()


@case(
    "in the group's own log generation 2 stands behind generation 7",
    VIOLATION,
    {"generation-regression violation": 1},
    why="a coordinator loads the log before it appends to it",
)
def generations_fall_in_the_log() -> HistoryBuilder:
    return _logged(group_of(A, B), (6, 3), (7, 4), (2, 20))


@case(
    "the same with the group's tombstone between them",
    PASS,
    why="the group was removed, and another one began under its name",
)
def generations_fall_behind_a_tombstone() -> HistoryBuilder:
    return _logged(group_of(A, B), (6, 3), (7, 4), (None, 10), (1, 20))


# ---- commits --------------------------------------------------------------------------------------------------------


@case(
    "a member commits offset 1000, and the log ended at ten ever since",
    PASS,
    {"commit-beyond-end observation": 1},
    also=["group-skip observation", "group-skip violation", "group-redelivery observation"],
    why="Kafka stores what it is sent",
)
def commit_far_beyond_the_end() -> HistoryBuilder:
    history = group_of(A, B).group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    return history.group("committed", at=4, process=A, generation=1, offset=1000).finish()


@case(
    "a member commits the end of the log, and another refused one is beyond it",
    PASS,
    why="the next offset is not beyond the end, and what was refused is not committed",
)
def commit_of_the_end() -> HistoryBuilder:
    history = group_of(A, B).group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, generation=1, offset=10)
    return history.group("committed", at=5, process=A, generation=1, offset=1000, status=1).finish()


@case(
    "a member commits 10, and an unclean election that was allowed cuts the log to 6",
    PASS,
    also=[*LOST, "group-redelivery observation", "group-redelivery permitted", "group-skip permitted"],
    why="the log had ten records when it committed",
)
def commit_beyond_what_was_cut_later() -> HistoryBuilder:
    history = group_of(A, B, settings={UNCLEAN: "true"}, acks=1)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, generation=1, offset=10)
    history.state(1, 0, (1,), at=5)
    return history.fail_over(2, kept=6, isr=(2, 3)).finish()


@case(
    "the group's own log has an offset of 1000 that no client of the run is known to have committed",
    PASS,
    {"commit-beyond-end observation": 1},
    why="somebody committed it, and Kafka stores what it is sent",
)
def commit_beyond_the_end_in_the_log() -> HistoryBuilder:
    history = group_of(A, B).kept_state(OFFSETS, 1, 0, (1, 2, 3), at=0)
    history.kept_log(OFFSETS, 1, 1)
    return history.kept_offset(OFFSETS[1], 1000, at=9).finish()


# ---- topic ids ------------------------------------------------------------------------------------------------------


def _with_ids(history: HistoryBuilder, *, books: str | None = P, **of_node: str | None) -> HistoryBuilder:
    """of_node: n1=..., where a replica's own file says another id than P."""
    for row in history.rows["partition_states"]:
        row["topic_id"] = books
    for row in history.rows["replica_snapshots"]:
        row["topic_id"] = of_node.get(f"n{row['node']}", P)
    return history


@case("books and logs are of one topic", PASS, why="that is as it has to be")
def one_topic() -> HistoryBuilder:
    history = led().finish()
    return _with_ids(history)


@case(
    "Kafka before 2.8, or a folder that was sealed before: nobody has an id; or only the books have",
    PASS,
    why="what is not known is no contradiction",
)
def no_topic_ids() -> HistoryBuilder:
    history = led().finish()
    return _with_ids(history, n1=None, n2=None, n3="A" * 22)


@case(
    "a broker that was down since before the topic was created, and is not in sync, has a log of the topic before",
    PASS,
    also=["inconsistent-topic-id observation"],
    why="it has not heard of the deletion yet",
)
def log_left_behind() -> HistoryBuilder:
    history = led().fault("kill", [3], at=0.5, until=None)
    history.state(1, 0, (1, 2), at=2)
    history.finish()
    return _with_ids(history, n3=Q)


@case(
    "a broker that was paused when the topic was created anew is still named in sync, and has the old topic's log",
    PASS,
    also=["inconsistent-topic-id observation"],
    why="it has had no chance to hear of it",
)
def log_of_a_paused_broker() -> HistoryBuilder:
    history = led().fault("pause", [3], at=-1, until=None)
    history.finish()
    return _with_ids(history, n3=Q)


@case(
    "the books have no ids, and the log of a follower in sync is of another topic than that of its leader",
    VIOLATION,
    {"inconsistent-topic-id violation": 1},
    why="a follower fetches with the id of its own log, and is refused",
)
def logs_of_two_topics() -> HistoryBuilder:
    history = led().finish()
    return _with_ids(history, books=None, n2=Q)


@case(
    "the leader's own log is of another topic than its partition",
    VIOLATION,
    {"inconsistent-topic-id violation": 1},
    why="a broker does not lead with a log of another topic",
)
def a_leader_with_another_topics_log() -> HistoryBuilder:
    history = led().finish()
    return _with_ids(history, n1=Q)


@case(
    "the cluster's own books give a partition two topic ids, and nobody deleted it",
    OPEN,
    {"evidence observation": SOME},
    also=["inconsistent-topic-id violation"],
    why="one of the two entries is not of this topic",
)
def books_of_two_topics() -> HistoryBuilder:
    history = led().fail_over(2)
    history.finish()
    _with_ids(history)
    history.rows["partition_states"][-1]["topic_id"] = Q
    return history


@case(
    "a topic was created again, and a broker that has been in sync with the new one ever since has only the old one's "
    "log",
    VIOLATION,
    {"inconsistent-topic-id violation": 1},
    also=["replica-divergence violation"],
    why="it answers for the new topic with the log of the old one",
)
def the_old_topics_log_in_its_place() -> HistoryBuilder:
    history = led().place(5, "t#1", 0, read_to_end=False, replicas=[1, 2, 3])
    history.finish(only=(1, 2))
    _with_ids(history)
    history._add("topics", topic="t", name="t", topic_id=P, created_ns=0, uncertainty_ns=0, undecided=False)
    history._add(
        "topics",
        topic="t#1",
        name="t",
        topic_id=Q,
        created_ns=-60 * SECOND,
        deleted_ns=-30 * SECOND,
        uncertainty_ns=0,
        undecided=False,
    )
    history.replica(3, (), at=AFTER, high_watermark=0, partition_id=5)
    history.rows["replica_snapshots"][-1]["topic_id"] = Q
    return history
