"""Brokers that were started with different settings: whose counts."""

from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN, RETENTION, LEAST = "unclean.leader.election.enable", "log.retention.ms", "min.insync.replicas"
WEEK = "604800000"


def _said(history: HistoryBuilder, key: str, values: tuple[str, str, str]) -> HistoryBuilder:
    for node, value in enumerate(values, start=1):
        history.said_at_start(node, key, value)
    return history


def _elected_uncleanly(values: tuple[str, str, str], controller: int | None) -> HistoryBuilder:
    history = _said(led(system="kafka:2.8.2"), UNCLEAN, values)
    if controller is not None:
        history._add("controllers", time_ns=0, uncertainty_ns=0, node=controller, controller_epoch=1)
    history.state(1, 0, (1,), at=5)
    return history.fail_over(2, kept=7, isr=(2,)).finish()


@case(
    "Kafka 2.8 with ZooKeeper: the controller was started with unclean elections allowed, the other brokers were not",
    PASS,
    {"unclean-election permitted": SOME, "lost-write permitted": {7, 8, 9}},
    why="the controller elects, by its own configuration",
)
def the_controller_allows_it() -> HistoryBuilder:
    return _elected_uncleanly(("false", "false", "true"), 3)


@case(
    "the same, and it is the controller alone that was started with them forbidden",
    VIOLATION,
    {"unclean-election violation": SOME, "lost-write violation": {7, 8, 9}},
    also=["dirty-read violation", "replica-divergence violation"],
    why="the controller elects, by its own configuration",
)
def the_controller_alone_forbids_it() -> HistoryBuilder:
    return _elected_uncleanly(("true", "true", "false"), 3)


@case(
    "the same, and nobody knows which one was controller",
    OPEN,
    {"unclean-election observation": SOME, "lost-write observation": {7, 8, 9}},
    why="the brokers differ",
)
def nobody_knows_the_controller() -> HistoryBuilder:
    return _elected_uncleanly(("true", "true", "false"), None)


def _start_moved(values: tuple[str, str, str]) -> HistoryBuilder:
    """Broker 1 leads all the time; its log starts at 4 when the final read begins."""
    history = _said(led(system="kafka:2.8.2"), RETENTION, values)
    history.log = history.log[4:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=4, cleanup_policy="delete")
    return history


@case(
    "the leader alone was started with a retention of a second, and its log's start moved",
    PASS,
    {"removed-by-configuration observation": {0, 1, 2, 3}},
    why="each broker removes from its own logs, and followers take over the start of their leader's",
)
def the_leader_keeps_for_a_second() -> HistoryBuilder:
    return _start_moved(("1000", WEEK, WEEK))


def _alone(values: tuple[str, str, str]) -> HistoryBuilder:
    """Broker 1, alone in sync and knowing it, answers acks=all at 20."""
    history = _said(led(5, system="kafka:2.8.2"), LEAST, values).state(1, 0, (1,), at=6)
    history.ack(5, at=20)
    return history.state(1, 0, (1, 2, 3), at=30).finish()


@case(
    "the leader alone was started with min.insync.replicas=1, the others with 2; it answers while it is alone",
    PASS,
    why="the leader refuses, by its own configuration",
)
def the_leader_demands_one() -> HistoryBuilder:
    return _alone(("1", "2", "2"))
