"""Sound runs that look odd, and promises broken beside losses: settings by level, positions, retention by value."""

from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

MINIMUM = "min.insync.replicas"


@case("the same leader gets a new epoch five times in a row, and acknowledges in each", PASS, {}, why="a sound history")
def one_leader_in_many_epochs() -> HistoryBuilder:
    history = led(3)
    for epoch in range(1, 6):
        history.state(1, epoch, (1, 2, 3), at=5 * epoch, start=len(history.log))
        history.ack(10 + epoch, at=5 * epoch + 1)
    return history.poll([(offset, value) for offset, _, value in history.log], at=40).finish()


@case(
    "leadership goes round three times by clean shutdowns, with leaderless moments, and epochs jump",
    PASS,
    why="a sound history",
)
def leadership_goes_round() -> HistoryBuilder:
    history = led(3)
    epoch = 0
    for turn in range(9):
        old, new = turn % 3 + 1, (turn + 1) % 3 + 1
        at = 5.0 + 5 * turn
        history.fault("stop", [old], at=at, until=at + 2)
        history.state(-1, epoch + 1, (1, 2, 3), at=at + 0.2)
        history.state(new, epoch + 3, [node for node in (1, 2, 3) if node != old], at=at + 0.4, start=len(history.log))
        history.state(new, epoch + 3, (1, 2, 3), at=at + 3)
        epoch += 3
        history.ack(100 + turn, at=at + 1)
    return history.finish()


@case(
    "a producer's call lasts from before a fail-over to after it, and the record is there once",
    PASS,
    why="a retry of an idempotent producer, lawfully answered late",
)
def sent_across_a_fail_over() -> HistoryBuilder:
    history = led(5).client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.send(50, 5, at=5, elapsed_s=7)
    history.failed_attempt(at=6.1)
    history.fail_over(2)
    history.log.append((5, 1, 50))
    return history.finish()


@case(
    "an eligible leader replica is elected after the ISR had run empty, and nothing is lost",
    PASS,
    why="KIP-966: lawful",
)
def eligible_replica_leads() -> HistoryBuilder:
    history = led(5, topics={"t": {MINIMUM: "2"}}).state(1, 0, (1,), at=4, elr=(2,))
    history.fault("kill", [1], at=6, until=20)
    history.state(-1, 1, (), at=7, elr=(1, 2))
    history.state(2, 2, (2,), at=8, start=5, elr=(1,))
    history.state(2, 2, (1, 2, 3), at=25, elr=())
    return history.ack(50, at=30).finish()


@case(
    "acks=all is answered just after the ISR fell below the minimum, by a call that began before",
    PASS,
    why="only what was sent after the leader knew counts",
)
def answered_after_the_shrink() -> HistoryBuilder:
    history = led(5, topics={"t": {MINIMUM: "2"}}).send(5, 5, at=4.95, elapsed_s=0.1)
    history.log.append((5, 0, 5))
    history.state(1, 0, (1,), at=5)
    history.polled(1, 1, 0, (1,), at=5.01)
    return history.state(1, 0, (1, 2, 3), at=20).finish()


def _alone(*, settings: dict[str, str], topic: dict[str, str], observer: int | None = 1) -> HistoryBuilder:
    history = led(5, settings=settings, topics={"t": topic}).state(1, 0, (1,), at=5)
    if observer is not None:
        history.polled(observer, 1, 0, (1,), at=5.2)
    return history.ack(5, at=6).finish()


@case(
    "the minimum of 2 is the cluster's, and the topic has none of its own",
    VIOLATION,
    {"acknowledged-below-min-isr violation": 1},
    why="the cluster's setting holds where the topic has none",
)
def below_the_clusters_minimum() -> HistoryBuilder:
    return _alone(settings={MINIMUM: "2"}, topic={})


@case("the cluster's minimum is 2, the topic's own 1", PASS, {}, why="the topic's own setting stands before it")
def above_the_topics_own_minimum() -> HistoryBuilder:
    return _alone(settings={MINIMUM: "2"}, topic={MINIMUM: "1"})


@case("the topic's minimum of 2 was taken away (an empty value) before", PASS, {}, why="Kafka's default is 1")
def above_a_minimum_that_was_taken_away() -> HistoryBuilder:
    return _alone(settings={}, topic={MINIMUM: "2"}).configured(MINIMUM, "", at=3)


@case(
    "only another broker's metadata showed the shrink",
    OPEN,
    {"acknowledged-below-min-isr observation": 1},
    why="nothing shows that the leader itself knew",
)
def below_the_minimum_as_a_follower_knew() -> HistoryBuilder:
    return _alone(settings={}, topic={MINIMUM: "2"}, observer=2)


@case(
    "a leader is elected with an ISR of itself alone, minimum 2, and answers acks=all",
    VIOLATION,
    {"acknowledged-below-min-isr violation": 1},
    why="a leader knows the ISR that it was elected with",
)
def elected_alone_and_answering() -> HistoryBuilder:
    history = led(5, topics={"t": {MINIMUM: "2"}}).fault("kill", [1, 3], at=7)
    history.state(2, 1, (2,), at=8, start=5)
    return history.ack(5, at=20).finish(only=(2,))


@case(
    "a compacted topic's consumer polls over the holes that compaction made",
    PASS,
    also=("removed-by-configuration observation",),
    why="offsets that hold nothing are no skip",
)
def polls_over_compacted_holes() -> HistoryBuilder:
    history = HistoryBuilder(topics={"t": {"cleanup.policy": "compact"}}).state(1, 0, (1, 2, 3), at=0, start=0)
    for value in range(8):
        history.ack(value, at=1 + value, key=value % 2)
    history.poll([(0, 0), (1, 1)], at=5)
    history.poll([(6, 6), (7, 7)], at=30)
    history.log = history.log[6:]
    history.finish(snapshots=False)
    history.partition.update(cleanup_policy="compact", log_start_offset=0)
    for row in history.rows["records"]:
        row["key"] = row["value"] % 2
    return history


@case(
    "retention.ms was short for one second at the begin, and records of then went",
    PASS,
    {"removed-by-configuration observation": {0, 1, 2}},
    why="every value that a setting ever had counts in favour of the system",
)
def expired_by_a_setting_of_once() -> HistoryBuilder:
    history = led(topics={"t": {"retention.ms": "3600000"}}).configured("retention.ms", "100", at=5)
    history.configured("retention.ms", "3600000", at=6)
    history.log = history.log[3:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=3, cleanup_policy="delete")
    return history


@case(
    "retention.bytes leaves room for a thousand times what there was, and the first three went",
    VIOLATION,
    {"lost-write violation": {0, 1, 2}},
    why="so much cannot lie above the log's start",
)
def removed_though_there_was_room() -> HistoryBuilder:
    history = led(topics={"t": {"retention.bytes": "10000000", "retention.ms": "-1"}})
    history.log = history.log[3:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=3, cleanup_policy="delete")
    return history


@case(
    "a consumer read what retention then removed",
    PASS,
    {"removed-by-configuration observation": {0, 1, 2}},
    why="what retention removed is no dirty read",
)
def read_and_then_expired() -> HistoryBuilder:
    history = led(topics={"t": {"retention.ms": "1000"}}).poll([(offset, offset) for offset in range(10)], at=3)
    history.log = history.log[3:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=3, cleanup_policy="delete")
    return history


@case(
    "a broker stamps a record five seconds before it was sent, by this machine's clock",
    VIOLATION,
    {"timestamps violation": SOME},
    why="outside the time between send and acknowledgement, by more than a second",
)
def stamped_before_it_was_sent() -> HistoryBuilder:
    history = HistoryBuilder(topics={"t": {"message.timestamp.type": "LogAppendTime"}})
    history.anchors = [{"wall_ns": 0, "monotonic_ns": 0}]
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.ack(0, at=10)
    history.ack(1, at=20)
    history.finish()
    for row in history.rows["records"]:
        row.update(timestamp_ms=10_050 if row["value"] == 0 else 15_000, log_append=True)
    return history


@case("commits of two partitions are fetched apart", PASS, {}, why="a group's offset is of one partition")
def commits_of_two_partitions() -> HistoryBuilder:
    history = _group().place(1, "t", 1)
    history.group("committed", at=4, process=11, offset=10, generation=1)
    history.group("committed", at=4.1, process=11, offset=0, generation=1, partition_id=1)
    history.group("fetched", at=50, process=12, offset=10)
    return history.group("fetched", at=50, process=12, offset=0, partition_id=1).finish()


@case(
    "a commit is gone after two minutes where offsets are kept for one",
    PASS,
    why="an offset that is gone after offsets.retention.minutes is not lost",
)
def commit_expired() -> HistoryBuilder:
    history = _group(settings={"offsets.retention.minutes": "1"})
    history.group("committed", at=4, process=11, offset=10, generation=1)
    history.group("revoked", at=5, process=11, generation=1)
    return history.group("fetched", at=130, process=12, offset=-1).finish()


@case(
    "a commit is gone after half a minute where offsets are kept for one",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="it cannot have expired yet",
)
def commit_gone_before_it_expired() -> HistoryBuilder:
    history = _group(settings={"offsets.retention.minutes": "1"})
    history.group("committed", at=4, process=11, offset=10, generation=1)
    return history.group("fetched", at=34, process=12, offset=-1).finish()


def _group(**more: object) -> HistoryBuilder:
    history = led(**more)  # type: ignore[arg-type]
    history.members(11, 12)
    history.group("assigned", at=2.5, process=11, generation=1, offset=0)
    return history.reads(11, range(10), at=3)


@case(
    "a member that was deposed by the next generation commits, and is told that it holds",
    VIOLATION,
    {"zombie-commit violation": 1},
    also=("group-redelivery observation",),
    why="commits of a former generation must be refused",
)
def zombie_member_commits() -> HistoryBuilder:
    history = _group().group("committed", at=4, process=11, offset=5, generation=1)
    history.group("assigned", at=6, process=12, generation=2, offset=5)
    history.reads(12, range(5, 10), at=7)
    history.group("committed", at=8, process=11, offset=10, generation=1)
    return history.group("fetched", at=50, process=12, offset=10).finish()


@case("unanswered sends are in no log", PASS, {}, why="nobody was promised anything")
def unanswered_and_gone() -> HistoryBuilder:
    history = led(5)
    for value in (50, 51, 52):
        history.send(value, None, at=3, status=2)
    return history.fail_over(2).finish()


@case(
    "an unanswered record is read, then cut by an allowed unclean election",
    PASS,
    {"dirty-read permitted": {50}},
    also=("unclean-election observation", "unclean-election permitted"),
    why="what was read was committed; the election was allowed",
)
def unanswered_read_and_cut() -> HistoryBuilder:
    history = led(5, topics={"t": {"unclean.leader.election.enable": "true"}}).send(50, None, at=3, status=2)
    history.log.append((5, 0, 50))
    history.poll([(offset, value) for offset, _, value in history.log], at=3.5, epoch=0)
    history.state(1, 0, (1,), at=4)
    return history.fail_over(2, kept=5, isr=(2,)).finish()


@case("the same with a clean election", VIOLATION, {"dirty-read violation": {50}}, why="nothing may take what was read")
def unanswered_read_and_cut_by_a_clean_election() -> HistoryBuilder:
    history = led(5, topics={"t": {"unclean.leader.election.enable": "true"}}).send(50, None, at=3, status=2)
    history.log.append((5, 0, 50))
    history.poll([(offset, value) for offset, _, value in history.log], at=3.5, epoch=0)
    return history.fail_over(2, kept=5).finish()


@case(
    "a read_committed consumer was given a record whose transaction's outcome nobody knows; the final log lacks it",
    VIOLATION,
    {"dirty-read violation": {5}},
    also=("aborted-read violation", "torn-transaction violation"),
    why="read_committed hands out what was committed, and it is gone",
)
def read_committed_and_gone() -> HistoryBuilder:
    history = HistoryBuilder().state(1, 0, (1, 2, 3), at=0, start=0)
    history.client(1, role="producer", acks=-1, idempotent=True, transactional_id="id")
    history.client(9, role="consumer", isolation="read_committed", offset_reset="earliest")
    history.client(99, role="consumer", isolation="read_committed", offset_reset="earliest")
    history.send(5, 0, at=1, transaction=1, status=2)
    history.transaction(1, 2, at=0.9, until=2)
    history.ack(8, at=6, process=2)
    history.poll([(0, 5)], at=4)
    history.log = [(2, 0, 8)]
    for row in history.rows["records"]:
        if row["value"] == 8:
            row["offset"] = 2
    return history.finish(snapshots=False)


@case("the same of a read_uncommitted consumer", PASS, {}, why="it may see what is never committed")
def read_uncommitted_and_gone() -> HistoryBuilder:
    history = read_committed_and_gone()
    for row in history.rows["processes"]:
        if row["process"] == 9:
            row["isolation"] = "read_uncommitted"
    return history
