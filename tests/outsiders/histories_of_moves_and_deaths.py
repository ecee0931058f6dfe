"""Partitions that move altogether or shrink to one copy, nodes that die by themselves beside losses, full disks."""

from typing import Any

from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, REWOUND, SOME, VIOLATION, HistoryBuilder, case, led

KAFKA = "kafka:4.3.1"
CONTROLLER = 100


@case(
    "a partition moves from 1, 2, 3 to 4, 5, 6 under load, and the first new leader is killed right after it",
    PASS,
    why="the new ones had joined the ISR with everything",
)
def moved_altogether_and_failed_over() -> HistoryBuilder:
    history = led(10, system=KAFKA)
    history.partition["replicas"] = [1, 2, 3, 4, 5, 6]
    history.state(1, 0, (1, 2, 3, 4, 5, 6), at=12)
    history.partition["replicas"] = [4, 5, 6]
    history.state(4, 1, (4, 5, 6), at=13, start=10)
    for value in range(20, 25):
        history.ack(value, at=14 + value / 100)
    history.fault("kill", [4], at=16, until=30)
    history.state(5, 2, (5, 6), at=18, start=15)
    history.ack(30, at=20)
    history.started(4, at=30)
    return history.state(5, 2, (4, 5, 6), at=32).finish(only=(4, 5, 6))


def _one_copy(*, wiped: int) -> HistoryBuilder:
    """The partition is given one replica instead of three, broker 2, which leads; then a disk is wiped."""
    history = led(10, system=KAFKA).state(2, 1, (1, 2, 3), at=12, start=10)
    history.partition["replicas"] = [2]
    history.state(2, 1, (2,), at=14)
    history.destroyed("wipe", wiped, "disk", at=30, until=33)
    history.started(wiped, at=33)
    if wiped != 2:
        history.fault("kill", [2], at=31, until=34)
        history.started(2, at=34)
    history.state(-1, 2, (2,), at=31)
    history.state(2, 3, (2,), at=35, start=0)
    history.log = []
    return history.ack(20, at=40).finish(only=(2,))


@case(
    "a partition is reduced to one copy, and that one's disk is lost",
    PASS,
    {"lost-write permitted": set(range(10))},
    also=REWOUND["permitted"],
    why="its only copy was destroyed",
)
def reduced_to_one_copy_and_lost() -> HistoryBuilder:
    return _one_copy(wiped=2)


@case(
    "the same, and it is a disk that had a copy before; the one that has it was only killed, and is empty",
    VIOLATION,
    {"lost-write violation": set(range(10))},
    also=REWOUND["violation"],
    why="a copy that is no replica any more explains nothing",
)
def reduced_to_one_copy_and_another_lost() -> HistoryBuilder:
    return _one_copy(wiped=1)


# ---- deaths ------------------------------------------------------------------------------------------------------


def _ended(history: HistoryBuilder, node: int, *, at: float, **more: Any) -> None:
    columns = {"uncertainty_ns": SECOND // 10, "reason": "none", "fresh": True, "line_text": None}
    history._add("node_ends", node=node, time_ns=int(at * SECOND), **{**columns, **more})


@case(
    "the kernel kills the leader (signal 9, not ours); a clean fail-over costs two records with acks=1",
    OPEN,
    {"node-ended observation": SOME, "lost-write permitted": {8, 9}},
    also=REWOUND["permitted"],
    why="who sent the signal is not known; acks=1 promised nothing about the fail-over",
)
def killed_from_outside_with_an_acks_1_tail() -> HistoryBuilder:
    history = led(8, system=KAFKA)
    for value in (8, 9):
        history.ack(value, at=4 + value / 100, acks=1)
    _ended(history, 1, at=6, signal=9, back_ns=15 * SECOND)
    history.state(2, 1, (2, 3), at=8, start=8)
    history.log = history.log[:8]
    history.started(1, at=15)
    history.truncation(1, 8, 10, epoch=1, at=16)
    return history.state(2, 1, (1, 2, 3), at=18).finish()


@case(
    "the leader, alone in sync, ends by itself with status 1; an unclean election that its topic allows costs "
    "two records",
    VIOLATION,
    {"node-ended violation": 1, "unclean-election permitted": SOME, "lost-write permitted": {8, 9}},
    also=REWOUND["permitted"],
    why="the loss is allowed, and the end of the broker is not",
)
def ended_by_itself_alone_in_sync() -> HistoryBuilder:
    history = led(8, system=KAFKA).unclean_config("true")
    history.state(1, 0, (1,), at=4)
    for value in (8, 9):
        history.ack(value, at=5 + value / 100)
    _ended(history, 1, at=6, exit_status=1, reason="exception", back_ns=15 * SECOND)
    history.state(-1, 1, (1,), at=7)
    history.state(2, 2, (2,), at=8, start=8)
    history.log = history.log[:8]
    history.started(1, at=15)
    history.truncation(1, 8, 10, epoch=2, at=16)
    return history.state(2, 2, (1, 2, 3), at=18).finish()


@case(
    "a broker ends with an exception after the plan had paused the controller for a while",
    OPEN,
    {"node-ended observation": SOME},
    why="the node that decides over the metadata had been touched",
)
def ended_after_the_controller_was_paused() -> HistoryBuilder:
    history = led(10, system=KAFKA)
    history._add("controllers", time_ns=0, uncertainty_ns=0, node=CONTROLLER, controller_epoch=1)
    history.fault("pause", [CONTROLLER], at=10, until=20)
    _ended(history, 3, at=40, exit_status=1, reason="exception")
    return history.state(1, 0, (1, 2), at=42).finish()


@case(
    "a broker ends with status 0 and no error in its log, and nothing was done to the cluster",
    OPEN,
    {"node-ended observation": 1},
    why="so ends one that was told to stop, and who may have told it nobody recorded",
)
def ended_with_status_0() -> HistoryBuilder:
    history = led(10, system=KAFKA)
    _ended(history, 3, at=40, exit_status=0, back_ns=None)
    return history.state(1, 0, (1, 2), at=42).finish()


@case(
    "a follower's disk is full and it leaves; below the minimum sends are refused, and go on after the heal",
    PASS,
    why="what was refused before the append is not there, and what was acknowledged is",
)
def refused_while_a_disk_was_full() -> HistoryBuilder:
    history = led(10, system=KAFKA, settings={"min.insync.replicas": "3"}).fault("full", [3], at=10, until=30)
    history.state(1, 0, (1, 2), at=12)
    history.leader_known(1, at=1)
    for number in range(5):
        history.send(50 + number, None, at=15 + number, status=1)
        history.failed_attempt(at=15.05 + number, status=1, error="NotEnoughReplicasError 19")
    history.state(1, 0, (1, 2, 3), at=35)
    for number in range(5):
        history.ack(60 + number, at=40 + number)
    return history.finish()
