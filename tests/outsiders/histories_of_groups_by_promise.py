"""Consumer groups as Kafka promises them: static members, rewinds by hand, retention, the coordinator's own books."""

from tests.outsiders.groups import group_of
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case

A, B, TOOL = 11, 12, 13
UNCLEAN = "unclean.leader.election.enable"
RETENTION = {"offsets.retention.minutes": "1"}
KEPT = ("__consumer_offsets", 3)  # where group g belongs
AGAIN = "group-redelivery observation"


def _worked(history: HistoryBuilder) -> HistoryBuilder:
    """A has t-0 in generation 1, reads all ten, commits 10 at 4 s, gives it up at 5 s."""
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, offset=10, generation=1)
    return history.group("revoked", at=5, process=A, generation=1)


# ---- static members ----------------------------------------------------------------------------------------------


def _static(*, status: int, same: bool = True, at: float = 8.0) -> HistoryBuilder:
    """B comes as the same instance in generation 3 and works on; the one before commits 5 once more."""
    history = group_of(A, B)
    for row in history.rows["processes"][-2:]:
        row["group_instance_id"] = "shop-1" if same or row["process"] == A else "shop-2"
    history.group("assigned", at=2.5, process=A, generation=3, offset=0)
    history.reads(A, range(5), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=3)
    history.group("assigned", at=6, process=B, generation=3, offset=5)
    history.reads(B, range(5, 10), at=6.5)
    history.group("committed", at=7, process=B, offset=10, generation=3)
    return history.group("committed", at=at, process=A, offset=5, generation=3, status=status).finish()


@case(
    "a static member starts anew in its generation, and what its old self still commits is refused",
    PASS,
    why="KIP-345: the instance is handed over without a rebalance, and the old member gets FENCED_INSTANCE_ID",
)
def static_member_handed_over() -> HistoryBuilder:
    return _static(status=1)


@case(
    "the same, and the old self's commit is accepted",
    VIOLATION,
    {"zombie-commit violation": SOME},
    why="KIP-345: whoever was replaced under its group.instance.id is fenced, in the same generation as well",
)
def static_member_handed_over_and_not_fenced() -> HistoryBuilder:
    return _static(status=0)


@case(
    "the old self's commit was sent before the new one had its assignment, and answered after",
    PASS,
    why="it may have been taken before the hand-over",
)
def static_member_committing_as_it_is_replaced() -> HistoryBuilder:
    history = _static(status=0, at=5.9)
    history.rows["group_events"][-1]["completed_ns"] = 6_200_000_000
    return history


def _static_in_a_later_generation(*, taken_back: bool) -> HistoryBuilder:
    """B comes as the same instance and is told generation 4; A, perhaps told generation 5 after that, commits."""
    history = group_of(A, B)
    for row in history.rows["processes"][-2:]:
        row["group_instance_id"] = "shop-1"
    history.group("assigned", at=2.5, process=A, generation=3, offset=0)
    history.reads(A, range(5), at=3)
    history.group("assigned", at=6, process=B, generation=4, offset=0)
    if taken_back:
        history.group("assigned", at=7, process=A, generation=5, offset=0)
    return history.group("committed", at=8, process=A, offset=5, generation=5 if taken_back else 3).finish()


@case(
    "a static member starts anew, the group goes on to the next generation, and the old self's commit is accepted",
    VIOLATION,
    {"zombie-commit violation": SOME},
    why="it is fenced by its instance and by its generation",
)
def static_member_not_fenced_a_generation_later() -> HistoryBuilder:
    return _static_in_a_later_generation(taken_back=False)


@case("the old self took its place back, and commits in the newest generation", PASS, why="it is the present member")
def static_member_took_its_place_back() -> HistoryBuilder:
    return _static_in_a_later_generation(taken_back=True)


# ---- rewinds -----------------------------------------------------------------------------------------------------


def _reset_by_hand(status: int) -> HistoryBuilder:
    """The group is empty; a tool sets its offset to 3; B begins there."""
    history = _worked(group_of(A, B))
    history.client(TOOL, role="consumer", group="g", offset_reset="earliest", isolation="read_uncommitted")
    history.group("committed", at=10, process=TOOL, offset=3, generation=-1, status=status)
    history.group("assigned", at=12, process=B, generation=2, offset=3)
    history.reads(B, range(3, 10), at=13)
    return history.group("committed", at=14, process=B, offset=10, generation=2).finish()


@case(
    "all members have left, an operator sets the offset back to 3, and the next member is given 3 to 9 again",
    PASS,
    also=[AGAIN],
    why="kafka-consumer-groups --reset-offsets: 3 is what was committed last",
)
def set_back_by_an_operator() -> HistoryBuilder:
    return _reset_by_hand(0)


@case(
    "the operator's commit was refused, and the next member is given 3 to 9 all the same",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=[AGAIN],
    why="10 was committed last, and nothing set it back",
)
def set_back_by_nobody() -> HistoryBuilder:
    return _reset_by_hand(1)


@case(
    "the operator's commit had no answer, and the next member is given 3 to 9",
    PASS,
    also=[AGAIN],
    why="a commit without an answer may hold",
)
def perhaps_set_back_by_an_operator() -> HistoryBuilder:
    return _reset_by_hand(2)


def _own_records_again(seek_in: int | None) -> HistoryBuilder:
    history = _worked(group_of(A, B)).group("assigned", at=6, process=A, generation=2, offset=5)
    if seek_in is not None:
        history.group("seek", at=6.5, process=A, offset=5, partition_id=seek_in)
    return history.reads(A, range(5, 10), at=7, assignment=1).finish()


@case(
    "a member commits all, loses the partition, gets it again, and is given the second half again: itself, nobody else",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=[AGAIN],
    why="what was committed before its assignment began does not come again, to whomever",
)
def own_records_again() -> HistoryBuilder:
    return _own_records_again(None)


@case("the same after it sought to 5", PASS, also=[AGAIN], why="where it seeks to is its own affair")
def own_records_again_by_a_seek() -> HistoryBuilder:
    return _own_records_again(0)


@case(
    "the same after it sought to 5 in the partition beside",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=[AGAIN],
    why="a seek is of one partition",
)
def own_records_again_by_a_seek_beside() -> HistoryBuilder:
    return _own_records_again(1)


# ---- what a fetch may answer -------------------------------------------------------------------------------------


def _seven_unanswered(*fetched: int) -> HistoryBuilder:
    history = group_of(A, B).group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(7), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=1)
    history.group("committed", at=5, process=A, offset=7, generation=1, status=2)
    for number, offset in enumerate(fetched):
        history.group("fetched", at=20 + number, process=B, offset=offset)
    return history.finish()


@case("5 was committed, 7 had no answer; twice 7 is fetched", PASS, why="the commit without an answer held")
def unanswered_commit_held() -> HistoryBuilder:
    return _seven_unanswered(7, 7)


@case(
    "5 was committed, 7 had no answer; 7 is fetched, and then 5",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="once answered, 7 was committed last, and nobody committed after it",
)
def unanswered_commit_held_and_went() -> HistoryBuilder:
    return _seven_unanswered(7, 5)


def _two_partitions(status: int) -> HistoryBuilder:
    """10 of t-0 is committed, 4 of t-1 as well; of t-1 nothing is found later."""
    history = group_of(A, B).state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    for offset in range(4):
        history.send(100 + offset, offset, at=1, partition_id=1)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0, partition_id=1)
    history.reads(A, range(10), at=3)
    history.poll([(offset, 100 + offset) for offset in range(4)], at=3.2, process=A, partition_id=1)
    history.group("committed", at=4, process=A, offset=10, generation=1)
    history.group("committed", at=4, process=A, offset=4, generation=1, partition_id=1, status=status)
    history.group("fetched", at=40, process=B, offset=10)
    history.group("fetched", at=40, process=B, offset=-1, partition_id=1)
    return history.final([(offset, 100 + offset) for offset in range(4)], partition_id=1).finish()


@case(
    "one request commits two partitions; of the one the offset is there later, of the other there is none",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="each partition was answered on its own, and both with success",
)
def half_a_commit_lost() -> HistoryBuilder:
    return _two_partitions(0)


@case("the same, and the lost partition's commit had no answer", PASS, why="nobody knows that it held")
def half_a_commit_without_an_answer() -> HistoryBuilder:
    return _two_partitions(2)


# ---- retention ---------------------------------------------------------------------------------------------------


def _expired(system: str, *, stays: bool, answer: int = -1) -> HistoryBuilder:
    """10 is committed at second 4 and fetched at 92; offsets are kept for a minute."""
    history = group_of(A, B, settings=RETENTION, system=system)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(9), at=3)
    history.group("committed", at=4, process=A, offset=9, generation=1)
    if stays:
        history.reads(A, [9], at=91)
    else:
        history.group("revoked", at=20, process=A, generation=1)
    return history.group("fetched", at=92, process=A if stays else B, offset=answer).finish()


@case(
    "Kafka 4.3.1 forgets the offset after a minute, while a member of the group goes on reading",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="KIP-211: since 2.1 the offsets of a group in use do not expire",
)
def expired_under_a_member() -> HistoryBuilder:
    return _expired("kafka:4.3.1", stays=True)


@case("the same on Kafka 2.0.1", PASS, why="until 2.1 they expired by the age of the commit")
def expired_under_a_member_of_old() -> HistoryBuilder:
    return _expired("kafka:2.0.1", stays=True)


@case("Kafka 4.3.1 forgets it 72 seconds after the only member left", PASS, why="the group had been empty for longer")
def expired_in_an_empty_group() -> HistoryBuilder:
    return _expired("kafka:4.3.1", stays=False)


def _expired_where_brokers_differ(of_coordinator: str, of_others: str) -> HistoryBuilder:
    history = _expired("kafka:4.3.1", stays=False).kept_state(("__consumer_offsets", 12), 1, 0, (1, 2, 3), at=0)
    for node in history.brokers:
        history.said_at_start(node, "offsets.retention.minutes", of_coordinator if node == 1 else of_others)
    return history


@case(
    "the same, and only its coordinator keeps offsets for a minute",
    PASS,
    why="a coordinator forgets by its own setting",
)
def expired_by_the_coordinators_setting() -> HistoryBuilder:
    return _expired_where_brokers_differ("1", "10080")


@case(
    "the same, and all but its coordinator keep offsets for a minute",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="a coordinator forgets by its own setting, which is a week",
)
def expired_by_the_setting_of_others() -> HistoryBuilder:
    return _expired_where_brokers_differ("10080", "1")


@case(
    "it is still there 72 seconds after the only member left", PASS, why="it is removed at the next check at the latest"
)
def expired_and_still_there() -> HistoryBuilder:
    return _expired("kafka:4.3.1", stays=False, answer=9)


def _in_use(*, cut_off: bool) -> HistoryBuilder:
    """A commits t-0, gives it up and reads t-1 for more than a minute; then B is given all of t-0 again."""
    history = group_of(A, B, settings=RETENTION, system="kafka:4.3.1")
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    log = [(offset, 100 + offset) for offset in range(8)]
    history.group("assigned", at=2.4, process=A, generation=1, partition_id=1)
    for offset, value in log:
        history.send(value, offset, at=2 + offset * 10, partition_id=1)
        history.poll([(offset, value)], at=2.5 + offset * 10, process=A, partition_id=1)
    _worked(history)
    if cut_off:
        history.fault("cut", [1], at=10, until=80)
    history.group("assigned", at=75, process=B, generation=2, offset=0)
    history.reads(B, range(10), at=76)
    return history.final(log, partition_id=1).finish()


@case(
    "a group forgets an offset after a minute in which one of its members read another partition of the topic",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=[AGAIN],
    why="KIP-211: what a group in use is subscribed to does not expire",
)
def expired_under_a_member_of_the_partition_beside() -> HistoryBuilder:
    return _in_use(cut_off=False)


@case(
    "the same, and a broker was cut off all the while",
    (PASS, OPEN),
    also=[AGAIN, "group-redelivery permitted"],
    why="the member may have been removed without hearing of it: then the group was empty for a minute",
)
def expired_under_a_member_that_was_cut_off() -> HistoryBuilder:
    return _in_use(cut_off=True)


# ---- the coordinator's own books ---------------------------------------------------------------------------------


def _booked(*, unclean_to: int | None = None, allowed: bool = True, wiped: int | None = None) -> HistoryBuilder:
    """__consumer_offsets-3 is led by broker 2, and only brokers 1 and 2 have it. 10 is committed, and later gone."""
    history = _worked(group_of(A, B, settings={UNCLEAN: "true"} if allowed else None))
    history.kept_state(KEPT, 2, 0, (1, 2), at=0, replicas=(1, 2))
    if wiped is None:
        history.fault("kill", [3], at=20, until=25)
    else:
        history.destroyed("wipe", wiped, "disk", at=20)
        history.started(wiped, at=21)
    if unclean_to is not None:
        history.kept_state(KEPT, 2, 0, (2,), at=18, replicas=(1, 2))
        history.kept_state(KEPT, -1, 1, (2,), at=20.5, replicas=(1, 2))
        history.kept_state(KEPT, unclean_to, 2, (unclean_to,), at=21, replicas=(1, 2))
    history.kept_state(KEPT, unclean_to or 2, 2 if unclean_to else 0, (1, 2), at=40, replicas=(1, 2))
    return history.group("fetched", at=50, process=B, offset=-1).finish()


@case(
    "an offset is gone; unclean elections are allowed, a broker was killed; by the books nobody else was ever elected",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="an exact record of its partition has no election that could have cost it",
)
def gone_without_an_election_by_the_books() -> HistoryBuilder:
    return _booked()


@case(
    "an offset is gone after an unclean election of its partition, which was allowed",
    (PASS, OPEN),
    also=["lost-group-offset permitted", "lost-group-offset observation"],
    why="the configuration allowed it",
)
def gone_by_an_allowed_election() -> HistoryBuilder:
    return _booked(unclean_to=1)


@case(
    "an offset is gone after an unclean election of its partition, which nothing allowed",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    also=["unclean-election violation"],
    why="unclean.leader.election.enable is false for __consumer_offsets as for every topic",
)
def gone_by_a_forbidden_election() -> HistoryBuilder:
    return _booked(unclean_to=1, allowed=False)


@case(
    "an offset is gone, and the disk of a broker that never had its partition was wiped",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="by the books its replicas are brokers 1 and 2",
)
def gone_with_a_disk_that_never_had_it() -> HistoryBuilder:
    return _booked(allowed=False, wiped=3)


@case(
    "5 is fetched though 10 was committed; a disk was wiped; every log of the partition still has the commit of 10",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="what the log still has was never forgotten: the coordinator answered something else than its log",
)
def answered_against_its_own_log() -> HistoryBuilder:
    history = group_of(A, B).group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=3.5, process=A, offset=5, generation=1)
    history.group("committed", at=4, process=A, offset=10, generation=1)
    history.kept_state(KEPT, 2, 0, (1, 2, 3), at=0)
    history.destroyed("wipe", 3, "disk", at=20)
    history.started(3, at=21)
    history.group("fetched", at=50, process=B, offset=5)
    for node in (1, 2, 3):
        history.kept_log(KEPT, node, 2)
    history.kept_offset(3, 5, at=3.5)
    return history.kept_offset(3, 10, at=4).finish()


# ---- where a member begins, and what it commits ------------------------------------------------------------------


def _begins_at_eight(status: int) -> HistoryBuilder:
    history = group_of(A, B, reset="latest").group("assigned", at=2.5, process=A, generation=1)
    history.reads(A, range(4), at=3)
    history.group("committed", at=4, process=A, offset=4, generation=1, status=status)
    history.group("revoked", at=5, process=A, generation=1)
    history.group("assigned", at=6, process=B, generation=2)
    return history.reads(B, (8, 9), at=7).finish()


@case(
    "a group that resets to latest had committed 4; the next member begins at 8, as if there were no offset",
    VIOLATION,
    {"head-skip violation": SOME},
    why="auto.offset.reset is for groups without an offset; this one had 4",
)
def latest_in_spite_of_a_commit() -> HistoryBuilder:
    return _begins_at_eight(0)


@case("the same, and the commit had been refused", PASS, why="without a committed offset latest may begin anywhere")
def latest_without_a_commit() -> HistoryBuilder:
    return _begins_at_eight(1)


@case(
    "a member commits 8 when it was given 5 records, and reads the rest only afterwards",
    VIOLATION,
    {"group-skip violation": SOME},
    why="a crash between the two would have skipped three records",
)
def committed_ahead() -> HistoryBuilder:
    history = group_of(A, B).group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(5), at=3)
    history.group("committed", at=4, process=A, offset=8, generation=1)
    return history.reads(A, range(5, 10), at=5).finish()


@case(
    "a member that lost its partition hands out what it had fetched before, while its successor reads the same",
    PASS,
    {AGAIN: SOME},
    why="nothing was committed: from the committed offset on everything may come again",
)
def deposed_member_empties_its_buffer() -> HistoryBuilder:
    history = group_of(A, B).group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(5), at=3)
    history.group("assigned", at=6, process=B, generation=2, offset=0)
    history.reads(B, range(10), at=7)
    history.reads(A, range(5, 10), at=8)
    history.group("lost", at=9, process=A, generation=1)
    return history.group("committed", at=9.5, process=B, offset=10, generation=2).finish()


# ---- epochs of KIP-848, and generations that go back -------------------------------------------------------------


def _older_epoch_of_its_own(system: str) -> HistoryBuilder:
    """A has t-0 since epoch 3 and t-1 since epoch 5; with epoch 3 it commits t-0."""
    history = group_of(A, B, protocol="consumer", system=system)
    history.group("assigned", at=2.5, process=A, generation=3, offset=0)
    history.reads(A, range(5), at=3)
    history.group("assigned", at=6, process=A, generation=5, partition_id=1)
    return history.group("committed", at=9, process=A, offset=5, generation=3).finish()


@case(
    "KIP-848 on Kafka 4.1.0: a member that was told epoch 5 commits with epoch 3, and it is accepted",
    VIOLATION,
    {"zombie-commit violation": SOME},
    why="before KIP-1251 the epoch has to be the member's present one: STALE_MEMBER_EPOCH",
)
def epoch_below_its_own() -> HistoryBuilder:
    return _older_epoch_of_its_own("kafka:4.1.0")


@case(
    "the same on Kafka 4.3.1",
    PASS,
    why="KIP-1251: since 4.3 every epoch counts from that in which the partition was assigned",
)
def epoch_below_its_own_since_4_3() -> HistoryBuilder:
    return _older_epoch_of_its_own("kafka:4.3.1")


# ---- a log that was lawfully cut below the group -----------------------------------------------------------------


def _cut(*, kept: int, begins: int) -> HistoryBuilder:
    """10 is committed, an allowed unclean election keeps `kept` records, five new ones come, B begins at `begins`."""
    history = _worked(group_of(A, B, topics={"t": {UNCLEAN: "true"}})).state(1, 0, (1,), at=6)
    history.fail_over(2, kept=kept, isr=(2,), at=10)
    for value in range(20, 25):
        history.ack(value, at=15 + value / 100, process=2)
    history.group("assigned", at=30, process=B, generation=2, offset=begins)
    history.poll([(offset, value) for offset, _, value in history.log if offset >= begins], at=31, process=B)
    epochs = {offset: epoch for offset, epoch, _ in history.log}
    for row in history.rows["records"]:
        if row["process"] == B:
            row["leader_epoch"] = epochs[row["offset"]]  # of the batch, whoever answers
    return history.group("committed", at=32, process=B, offset=len(history.log), generation=2).finish()


CUT = [
    f"{each} permitted"
    for each in ("unclean-election", "inconsistent-offsets", "acknowledged-regression", "dirty-read")
]
CUT += ["unclean-election observation", AGAIN]


@case(
    "an allowed unclean election cut the log below the committed offset; the consumer resets and is given all again",
    PASS,
    {"lost-write permitted": {7, 8, 9}, "group-redelivery permitted": SOME},
    also=CUT,
    why="the committed offset lies beyond the log's end: out of range",
)
def all_again_after_a_cut() -> HistoryBuilder:
    return _cut(kept=7, begins=0)


@case(
    "the same, and the consumer goes on at the committed 10, over new records at 7 to 9 that nobody is ever given",
    (PASS, OPEN),
    {"lost-write permitted": {7, 8, 9}},
    also=[*CUT, "group-skip permitted", "group-skip observation", "skipped-read permitted"],
    why="the offset was right when it was committed; the allowed election cost what follows from it (KIP-320)",
)
def skipped_after_a_cut() -> HistoryBuilder:
    return _cut(kept=7, begins=10)


@case(
    "an allowed unclean election cost nothing, and the consumer is given all again",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=CUT,
    why="the log was never shorter than the committed offset",
)
def all_again_though_nothing_was_cut() -> HistoryBuilder:
    return _cut(kept=10, begins=0)
