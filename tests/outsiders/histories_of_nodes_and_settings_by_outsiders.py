"""Nodes that end by themselves in each era, and what settings mean: their order, their synonyms, their spellings."""

from collections.abc import Mapping
from typing import Any

from harness.ports.load import WorkloadSpec
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"
WEEK = "604800000"
CONTROLLER = 100
KAFKA = "kafka:4.3.1"


# ---- own ends -------------------------------------------------------------------------------------------------------


def _ends(
    history: HistoryBuilder, *, at: float = 24, reason: str, fresh: bool | None = True, node: int = 3
) -> HistoryBuilder:
    """Broker 3 ends with status 1, leaves the ISR, and stays away."""
    history._add(
        "node_ends",
        node=node,
        time_ns=int(at * SECOND),
        uncertainty_ns=SECOND // 10,
        exit_status=1,
        reason=reason,
        line_text="ERROR",
        fresh=fresh,
    )
    return history.state(1, 0, [each for each in history.brokers if each != node], at=at + 3).finish()


@case(
    "a broker ends for a full disk, and the disk that the plan had filled was another one's",
    OPEN,
    {"node-ended observation": SOME},
    why="room on a disk is the machine's to give, and nobody knows what took it",
)
def full_disk_beside() -> HistoryBuilder:
    history = led(system=KAFKA).fault("full", [2], at=20, until=40)
    return _ends(history, reason="disk-full")


@case(
    "a broker ends for a full disk that the plan had filled",
    PASS,
    {"node-ended permitted": SOME},
    why="KIP-112: the last log directory failed",
)
def full_disk_of_its_own() -> HistoryBuilder:
    history = led(system=KAFKA).fault("full", [3], at=20, until=40)
    return _ends(history, reason="disk-full")


def _controllers(*, wiped: bool) -> HistoryBuilder:
    history = led(system=KAFKA)
    history._add("controllers", time_ns=0, uncertainty_ns=0, node=CONTROLLER, controller_epoch=1)
    if wiped:
        history.destroyed("wipe", CONTROLLER, "disk", at=20, until=22)
    else:
        history.fault("kill", [CONTROLLER], at=20, until=22)
    return _ends(history, reason="metadata-truncation-refused")


@case(
    "the only KRaft controller comes back with an empty disk, and a broker ends rather than cut what it takes "
    "for committed",
    PASS,
    {"node-ended permitted": SOME},
    why="KIP-595: the metadata of the quorum was lost with its only disk",
)
def metadata_lost_with_the_controllers_disk() -> HistoryBuilder:
    return _controllers(wiped=True)


@case(
    "the same, and the controller had only been killed",
    OPEN,
    {"node-ended observation": SOME},
    why="a fault had touched the controllers, and does not explain it: its disk was whole",
)
def metadata_lost_with_a_killed_controller() -> HistoryBuilder:
    return _controllers(wiped=False)


@case(
    "a broker that was killed starts while it is cut off, cannot register for a minute, and ends",
    PASS,
    {"node-ended permitted": SOME},
    why="KIP-631: initial.broker.registration.timeout.ms",
)
def cut_off_from_its_registration() -> HistoryBuilder:
    history = led(system=KAFKA).fault("cut", [3], at=20, until=95)
    history.fault("kill", [3], at=21, until=25)
    return _ends(history, at=88, reason="registration-failed")


@case(
    "a broker ends with an exception at 20; that the plan struck it at 50 came later",
    VIOLATION,
    {"node-ended violation": 1},
    why="nothing before its end had touched it",
)
def ended_before_the_first_fault() -> HistoryBuilder:
    history = led(system=KAFKA).fault("kill", [3], at=50, until=52)
    return _ends(history, at=20, reason="exception")


@case(
    "the same on a cluster that had been there before the run",
    OPEN,
    {"node-ended observation": SOME},
    why="what had been done to it before nobody knows",
)
def ended_on_a_cluster_that_was_there_before() -> HistoryBuilder:
    history = led(system=KAFKA).fault("kill", [3], at=50, until=52)
    return _ends(history, at=20, reason="exception", fresh=None)


@case(
    "a leader ends by itself, and its acks=1 tail goes with the clean fail-over",
    VIOLATION,
    {"node-ended violation": 1, "lost-write permitted": {7, 8, 9}},
    why="the end is the broker's own; what acks=1 leaves to one broker dies with it",
)
def leader_ended_with_an_acks_1_tail() -> HistoryBuilder:
    history = led(acks=1, system=KAFKA)
    history._add("node_ends", node=1, time_ns=6 * SECOND, exit_status=1, reason="exception", fresh=True)
    history.state(2, 1, (2, 3), at=8, start=7)
    history.log = history.log[:7]
    return history.finish(only=(2, 3))


@case(
    "no write is answered for 30 s, in which a follower in sync was down by itself",
    VIOLATION,
    {"node-ended violation": 1},
    why="a cluster with a node down is not healthy: its client is not stuck, and the end is the broker's own",
)
def nothing_answered_while_a_node_was_down() -> HistoryBuilder:
    history = led(system=KAFKA).client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    for number in range(30):
        history.send(100 + number, None, at=26 + number, elapsed_s=30 - number, status=2)
    history._add("node_ends", node=3, time_ns=25 * SECOND, exit_status=1, reason="exception", fresh=True)
    history.state(1, 0, (1, 2), at=56)
    return history.ack(200, at=57).finish(only=(1, 2))


def _refuses_to_cut(system: str) -> HistoryBuilder:
    """Broker 2, which leads t-1 on 2 and 3, comes back with an empty disk; 3, which follows it, ends."""
    history = led(system=system, settings={UNCLEAN: "false"}).place(1, "t", 1, brokers=(2, 3))
    history.state(2, 0, (2, 3), at=0, partition_id=1)
    history.destroyed("wipe", 2, "disk", at=20, until=22)
    history.started(2, at=22)
    return _ends(history, reason="truncation-refused")


@case(
    "Kafka 0.10.2: a broker ends rather than cut its log to that of a leader whose disk was wiped",
    PASS,
    {"node-ended permitted": SOME},
    why="until 2.1 a follower halts there (ReplicaFetcherThread.handleOffsetOutOfRange)",
)
def refused_to_cut_before_epochs() -> HistoryBuilder:
    return _refuses_to_cut("kafka:0.10.2.2")


@case(
    "the same on Kafka 1.1.1",
    PASS,
    {"node-ended permitted": SOME},
    why="epochs did not end it: a follower of a log without them, or beyond its leader's end, halts until 2.1",
)
def refused_to_cut_with_epochs() -> HistoryBuilder:
    return _refuses_to_cut("kafka:1.1.1")


@case(
    "the same on Kafka 2.8.2",
    (VIOLATION, OPEN),
    also=["node-ended violation", "node-ended observation"],
    why="KAFKA-7414: an offset out of range is never fatal to a follower",
)
def refused_to_cut_since_2_1() -> HistoryBuilder:
    return _refuses_to_cut("kafka:2.8.2")


# ---- retention: which setting counts --------------------------------------------------------------------------------

EXPIRED = {"removed-by-configuration observation": {0, 1, 2, 3}}
LOST = {"lost-write violation": {0, 1, 2, 3}}


def _started_at_4(
    topic: Mapping[str, str],
    cluster: Mapping[str, str] | None = None,
    *,
    dynamic: Mapping[str, str] | None = None,
    policy: str = "delete",
    **more: Any,
) -> HistoryBuilder:
    """Ten records of second 1; when the final read begins, at 100, the log starts at 4."""
    history = led(topics={"t": topic}, settings=cluster or {}, **more)
    for key, value in (dynamic or {}).items():
        history.configured(key, value, scope="cluster", name="")
    history.log = history.log[4:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=4, cleanup_policy=policy)
    return history


@case(
    "log.retention.minutes of the brokers is 1, and nothing else is set",
    PASS,
    EXPIRED,
    why="it is log.retention.ms in minutes",
)
def expired_by_minutes() -> HistoryBuilder:
    return _started_at_4({}, {"log.retention.minutes": "1"})


@case(
    "log.retention.minutes is 1, and log.retention.ms a week",
    VIOLATION,
    LOST,
    why="log.retention.ms comes before log.retention.minutes",
)
def kept_by_milliseconds_though_not_by_minutes() -> HistoryBuilder:
    return _started_at_4({}, {"log.retention.minutes": "1", "log.retention.ms": WEEK})


@case(
    "retention.ms of the topic is a week; log.retention.ms of all brokers is set to a second",
    VIOLATION,
    LOST,
    why="a topic's own setting comes before that of the brokers",
)
def kept_by_the_topic_though_not_by_the_brokers() -> HistoryBuilder:
    return _started_at_4({"retention.ms": WEEK}, dynamic={"log.retention.ms": "1000"})


@case(
    "retention.ms of the topic is -1; log.retention.ms of the brokers is a second",
    VIOLATION,
    LOST,
    why="-1 keeps for ever",
)
def kept_for_ever() -> HistoryBuilder:
    return _started_at_4({"retention.ms": "-1"}, {"log.retention.ms": "1000"})


@case(
    "log.retention.hours of the brokers is -1",
    VIOLATION,
    LOST,
    why="-1 keeps for ever, in hours as well",
)
def kept_for_ever_by_hours() -> HistoryBuilder:
    return _started_at_4({}, {"log.retention.hours": "-1"})


@case(
    'cleanup.policy is "compact, delete" with a space, and retention.ms a second',
    PASS,
    EXPIRED,
    why="a topic may do both, and Kafka takes spaces in a list",
)
def expired_in_a_topic_that_compacts_too() -> HistoryBuilder:
    return _started_at_4({"cleanup.policy": "compact, delete", "retention.ms": "1000"}, policy="compact, delete")


@case(
    "nothing is set; an application stamped the first four records ten days back, and they are gone",
    PASS,
    EXPIRED,
    why="retention goes by the records' own timestamps, and is a week by default (log.retention.hours=168)",
)
def expired_by_their_own_timestamps() -> HistoryBuilder:
    return _stamped_by_days(-10, {})


def _stamped_by_days(days: int, topic: Mapping[str, str]) -> HistoryBuilder:
    """The first four records are stamped by so many days after they were sent."""
    now, day_ms = 1_700_000_000_000, 24 * 3_600_000
    history = _started_at_4(topic, system=KAFKA)
    history.anchors = [{"monotonic_ns": 0, "wall_ns": now * 1_000_000}]
    for row in history.rows["records"]:
        row["timestamp_ms"] = now + 1_000 + (days * day_ms if row["value"] < 4 else 0)
        row["log_append"] = False
    return history


@case(
    "retention.ms is a second, and an application stamped the first four records ten days ahead; they are gone",
    (VIOLATION, OPEN),
    also=["lost-write violation", "lost-write observation"],
    why="by their own timestamps they had not expired",
)
def gone_before_their_own_timestamps() -> HistoryBuilder:
    return _stamped_by_days(10, {"retention.ms": "1000"})


@case(
    "message.timestamp.type changes from CreateTime to LogAppendTime; the producer's clock had been days ahead "
    "until then",
    PASS,
    why="what producers stamped before need not lie before what brokers stamp after",
)
def stamped_by_producers_and_then_by_brokers() -> HistoryBuilder:
    history = led(5)
    history.anchors = [{"monotonic_ns": 0, "wall_ns": 0}]
    for at, who in ((0, "CreateTime"), (10, "LogAppendTime")):
        history.configured("message.timestamp.type", who, at=at)
    for value in range(5, 10):
        history.ack(value, at=10 + value)
    history.finish(snapshots=False)
    for row in history.rows["records"]:
        row["log_append"] = row["value"] >= 5
        row["timestamp_ms"] = (10 + row["value"]) * 1000 + 50 if row["value"] >= 5 else 5_000_000_000
    return history


@case(
    "unclean.leader.election.enable of the topic is TRUE, in capitals",
    PASS,
    {"lost-write permitted": {7, 8, 9}, "unclean-election permitted": SOME},
    why="Kafka takes a boolean in any case (ConfigDef.parseType)",
)
def unclean_allowed_in_capitals() -> HistoryBuilder:
    history = led(topics={"t": {UNCLEAN: "TRUE"}}).state(1, 0, (1,), at=6)
    return history.fail_over(2, kept=7, isr=(2,), at=9).finish()


@case(
    "min.insync.replicas of the topic is 1, log's default of all brokers 2; acks=all is answered by a leader alone",
    PASS,
    why="a topic's own setting comes before that of the brokers",
)
def alone_as_the_topic_allows() -> HistoryBuilder:
    history = led(5, topics={"t": {"min.insync.replicas": "1"}}, settings={"min.insync.replicas": "2"})
    history.state(1, 0, (1,), at=6)
    history.ack(5, at=20)
    return history.state(1, 0, (1, 2, 3), at=30).finish()


# ---- a topic that goes ----------------------------------------------------------------------------------------------


def _deleted(*, asked: bool, workload: WorkloadSpec | None = None) -> HistoryBuilder:
    """Three records of a topic that is deleted at 20 and created again at 21, and two of the new one."""
    history = HistoryBuilder(system=KAFKA, workload=workload).place(1, "t#1", 0)
    for partition_id, at, values in ((1, 0, (0, 1, 2)), (0, 21, (10, 11))):
        history.state(1, 0, (1, 2, 3), at=at, start=0, partition_id=partition_id)
        for offset, value in enumerate(values):
            history.send(value, offset, at=at + 1, partition_id=partition_id)
    for topic, created, deleted in (("t#1", 0, 20), ("t", 21, None)):
        history.lived(topic, since=created, until=deleted)
    if asked:
        history.asked_to_delete(until=20)
    return history.final([(0, 10), (1, 11)])


@case(
    "an application's topic is deleted and made again, and no step of the plan asked for that",
    OPEN,
    {"lost-write observation": {0, 1, 2}},
    also=["unseen-tail observation"],
    why="its own clients may have asked for it, and nobody recorded that",
)
def a_topic_that_an_application_makes_anew() -> HistoryBuilder:
    return _deleted(asked=False, workload=WorkloadSpec())


@case(
    "a step of the plan deletes a topic and makes it again: what it held is gone, and its offsets begin anew",
    PASS,
    {"removed-by-configuration observation": {0, 1, 2}},
    also=["unseen-tail observation"],
    why="that was asked for; a topic made again is another one",
)
def deleted_and_made_again() -> HistoryBuilder:
    return _deleted(asked=True)


@case(
    "the same, and no step asked for it",
    VIOLATION,
    {"lost-write violation": {0, 1, 2}},
    why="nobody may delete a topic by himself",
)
def deleted_by_nobody() -> HistoryBuilder:
    return _deleted(asked=False)
