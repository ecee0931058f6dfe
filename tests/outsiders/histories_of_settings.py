"""Settings that change while the run goes on, and brokers that were started with different ones."""

from collections.abc import Mapping, Sequence

from harness.history.schema.schemas import KIND_FINAL_POLL
from tests.outsiders.history_builder import OPEN, PASS, VIOLATION, HistoryBuilder, case, led

POLICY, RETENTION, LEAST = "cleanup.policy", "retention.ms", "min.insync.replicas"
Changes = Sequence[tuple[float, str, str]]  # at, key, value


def of_a_topic(changes: Changes, settings: Mapping[str, str]) -> HistoryBuilder:
    history = HistoryBuilder(topics={"t": settings}).state(1, 0, (1, 2, 3), at=0, start=0)
    for at, key, value in changes:
        history.configured(key, value, at=at)
    return history


# -- retention for a while ---------------------------------------


def _expired(changes: Changes, *, at: float = 1.0) -> HistoryBuilder:
    """Values 0 to 9 from that time on; the final log begins at 5."""
    history = of_a_topic(changes, {POLICY: "delete"})
    for value in range(10):
        history.ack(value, at=at + value / 10)
    history.log = history.log[5:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=5, cleanup_policy="delete")
    return history


_FIVE = (0, 1, 2, 3, 4)


@case(
    "retention.ms was a second from 20 s to 40 s, and an hour else",
    PASS,
    {"removed-by-configuration observation": _FIVE},
    why="they were older than that meanwhile",
)
def expired_for_a_while() -> HistoryBuilder:
    return _expired([(0, RETENTION, "3600000"), (20, RETENTION, "1000"), (40, RETENTION, "3600000")])


@case(
    "retention.ms was a second until 20 s, and an hour when the records were sent and after",
    VIOLATION,
    {"lost-write violation": _FIVE},
    why="it was restored before there was anything to remove",
)
def expired_before_they_were_sent() -> HistoryBuilder:
    return _expired([(0, RETENTION, "1000"), (20, RETENTION, "3600000")], at=50)


@case(
    "retention.ms was shortened and restored while a broker was cut off, which heard of it only at 60 s",
    PASS,
    {"removed-by-configuration observation": _FIVE},
    why="until then it used what it knew",
)
def expired_on_a_broker_that_had_not_heard() -> HistoryBuilder:
    return _expired([(0, RETENTION, "1000"), (20, RETENTION, "3600000")], at=40).fault("cut", [1], at=15, until=60)


@case(
    "cleanup.policy was delete only until 20 s, with a retention of a second; they were sent later",
    VIOLATION,
    {"compacted-away violation": _FIVE},
    why="a topic that only compacts has no retention",
)
def expired_where_nothing_deleted() -> HistoryBuilder:
    history = _expired([(0, RETENTION, "1000"), (20, POLICY, "compact")], at=50)
    history.partition["cleanup_policy"] = "compact"
    return history


# -- min.insync.replicas -----------------------------------------


def _alone(changes: Changes, *, acks_at: float, settings: Mapping[str, str] | None = None) -> HistoryBuilder:
    """Broker 1 has been alone in sync since 5 s, and knows it, when it answers."""
    history = HistoryBuilder(topics={"t": {}}, settings=settings or {}).state(1, 0, (1, 2, 3), at=0, start=0)
    for at, key, value in changes:
        history.configured(key, value, at=at)
    history.ack(0, at=1)
    history.fault("kill", [2, 3], at=4)
    history.state(1, 0, (1,), at=5)
    history.polled(1, 1, 0, (1,), at=5.2)
    return history.ack(1, at=acks_at).finish(only=(1,))


TOO_FEW = {"acknowledged-below-min-isr violation": {1}}


@case(
    "min.insync.replicas went from 1 to 2 and back; it was 1 when a leader alone answered",
    PASS,
    why="what is in force then counts",
)
def least_raised_and_lowered_before() -> HistoryBuilder:
    return _alone([(0, LEAST, "1"), (10, LEAST, "2"), (30, LEAST, "1")], acks_at=40)


@case(
    "min.insync.replicas went from 1 to 2 and back; it was 2 when a leader alone answered",
    VIOLATION,
    TOO_FEW,
    why="what is in force then counts",
)
def least_raised_meanwhile() -> HistoryBuilder:
    return _alone([(0, LEAST, "1"), (10, LEAST, "2"), (30, LEAST, "1")], acks_at=25)


def _for_all(history: HistoryBuilder, value: str, *, at: float) -> HistoryBuilder:
    return history.configured(LEAST, value, at=at, scope="broker", name="")


@case(
    "the brokers' dynamic min.insync.replicas=1 was removed again; they were started with 2",
    VIOLATION,
    TOO_FEW,
    why="what was removed gives way to what they were started with",
)
def least_of_all_brokers_removed() -> HistoryBuilder:
    history = _alone((), acks_at=40, settings={LEAST: "2"})
    return _for_all(_for_all(history, "1", at=10), "", at=20)


@case(
    "the brokers' dynamic min.insync.replicas is 1; they were started with 2",
    PASS,
    why="the dynamic one is before the static one",
)
def least_of_all_brokers_lowered() -> HistoryBuilder:
    return _for_all(_alone((), acks_at=40, settings={LEAST: "2"}), "1", at=10)


@case(
    "each broker said at its start that it uses min.insync.replicas=2, which no scenario had set",
    VIOLATION,
    TOO_FEW,
    why="what they say of themselves is before Kafka's default",
)
def least_by_the_brokers_own_word() -> HistoryBuilder:
    history = _alone((), acks_at=40)
    for node in history.brokers:
        history.said_at_start(node, LEAST, "2")
    return history


# -- brokers that were started differently ------------------------------------


def _differently(history: HistoryBuilder, key: str, *, of_node: Mapping[int, str]) -> HistoryBuilder:
    for node, value in of_node.items():
        history.said_at_start(node, key, value)
    return history


@case(
    "broker 1, which leads, was started with min.insync.replicas=2 and the others with 1; it acknowledges alone",
    VIOLATION,
    TOO_FEW,
    why="the leader counts who is in sync, by its own setting",
)
def least_by_the_leaders_own_word() -> HistoryBuilder:
    return _differently(_alone((), acks_at=40), LEAST, of_node={1: "2", 2: "1", 3: "1"})


@case(
    "broker 1, which leads, was started with min.insync.replicas=1 and the others with 2; it acknowledges alone",
    PASS,
    why="what the others would ask for is no promise of this leader's",
)
def least_by_a_followers_word() -> HistoryBuilder:
    return _differently(_alone((), acks_at=40), LEAST, of_node={1: "1", 2: "2", 3: "2"})


KEPT_BRIEFLY, KEPT_LONG = "1000", "3600000"
EXPIRED = {"removed-by-configuration observation": {0, 1, 2, 3, 4}}


def _begins_at_five(of_node: Mapping[int, str], *, second_leader_at: float | None = None) -> HistoryBuilder:
    """Values 0 to 4 are gone below the log's start; a second leader, if there is one, follows broker 1."""
    history = led(10)
    if second_leader_at is not None:
        history.fail_over(2, at=second_leader_at)
    history.finish()
    history.partition.update(log_start_offset=5, cleanup_policy="delete")
    history.rows["records"] = [
        row for row in history.rows["records"] if row["kind"] != KIND_FINAL_POLL or row["offset"] >= 5
    ]
    for row in history.rows["replica_snapshots"]:
        if row["reason"] == "end":
            row["log_start_offset"] = 5
    ends = {row["snapshot"] for row in history.rows["replica_snapshots"] if row["reason"] == "end"}
    history.rows["replica_log"] = [
        row for row in history.rows["replica_log"] if row["snapshot"] not in ends or row["offset"] >= 5
    ]
    return _differently(history, "log.retention.ms", of_node=of_node)


@case(
    "the first five records went below the log's start; only broker 1, which leads, was started to keep them a second",
    PASS,
    EXPIRED,
    why="a replica deletes by its own broker's setting, and followers follow the leader's log start",
)
def expired_by_the_leaders_setting() -> HistoryBuilder:
    return _begins_at_five({1: KEPT_BRIEFLY, 2: KEPT_LONG, 3: KEPT_LONG})


@case(
    "the same, and only broker 2, which never led, keeps them for a second",
    VIOLATION,
    {"lost-write violation": {0, 1, 2, 3, 4}},
    why="what a follower deletes no reader misses, as long as it does not lead",
)
def expired_by_a_followers_setting() -> HistoryBuilder:
    return _begins_at_five({1: KEPT_LONG, 2: KEPT_BRIEFLY, 3: KEPT_LONG})


@case(
    "the same, and broker 2 leads from second 8 on",
    PASS,
    EXPIRED,
    why="readers are given its log from then on",
)
def expired_by_a_later_leaders_setting() -> HistoryBuilder:
    return _begins_at_five({1: KEPT_LONG, 2: KEPT_BRIEFLY, 3: KEPT_LONG}, second_leader_at=8)


@case(
    "broker 1 keeps records for 20 seconds and led only until second 8; broker 2 follows, and keeps them for an hour",
    VIOLATION,
    {"lost-write violation": {0, 1, 2, 3, 4}},
    why="while it led they were not old enough, and what it deletes as a follower nobody misses",
)
def expired_by_a_former_leaders_setting() -> HistoryBuilder:
    return _begins_at_five({1: "20000", 2: KEPT_LONG, 3: KEPT_LONG}, second_leader_at=8)


@case(
    "broker 1, which leads, said nothing of its settings; the others keep records for a second",
    OPEN,
    EXPIRED,
    why="it may have been started as they were",
)
def expired_by_a_setting_that_nobody_told() -> HistoryBuilder:
    return _begins_at_five({2: KEPT_BRIEFLY, 3: KEPT_BRIEFLY})


@case(
    "only broker 2 keeps them for a second, and nobody recorded who led",
    OPEN,
    {"removed-by-configuration observation": {0, 1, 2, 3, 4}},
    why="it may have led",
)
def expired_by_the_setting_of_whoever_led() -> HistoryBuilder:
    history = _begins_at_five({1: KEPT_LONG, 2: KEPT_BRIEFLY, 3: KEPT_LONG})
    history.rows["partition_states"].clear()
    history.rows["broker_events"].clear()
    return history
