"""The same event in several releases: what Kafka promised then, by default, and without leader epochs."""

from collections.abc import Sequence

from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import PASS, SOME, VIOLATION, HistoryBuilder, case, led

HOUR = 3_600
A, B = 11, 12


def _asked_late(system: str, *, after_h: float, answer: int = -1, seen_h: float | None = None) -> HistoryBuilder:
    """pykafka 597: a member commits at second 5, ends at second 8 (or is seen until `seen_h`), and is back later."""
    history = led(10, system=system)
    history.client(A, role="consumer", group="g", offset_reset="latest", isolation="read_uncommitted")
    history.client(B, role="consumer", group="g", offset_reset="latest", isolation="read_uncommitted")
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(6), at=3)
    history.group("committed", at=5, process=A, generation=1, offset=6)
    if seen_h is not None:
        history.poll([], at=seen_h * HOUR, process=A)
        history.reads(A, range(6, 10), at=seen_h * HOUR)
    else:
        history.group("revoked", at=8, process=A, generation=1)
    history.group("fetched", at=after_h * HOUR, process=B, offset=answer)
    history.finish(snapshots=False)
    for row in history.rows["records"]:
        if row["kind"] == 2:
            row["invoked_ns"], row["completed_ns"] = (int((after_h * HOUR + each) * SECOND) for each in (60, 61))
    return history


@case(
    "Kafka 0.9: a group that was stopped over the weekend finds no offset on Monday",
    PASS,
    why="offsets.retention.minutes was a day (until KIP-186)",
)
def over_the_weekend_on_0_9() -> HistoryBuilder:
    return _asked_late("kafka:0.9.0.1", after_h=60)


@case(
    "Kafka 2.8: the same weekend",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="KIP-186: offsets are kept for a week",
)
def over_the_weekend_on_2_8() -> HistoryBuilder:
    return _asked_late("kafka:2.8.2", after_h=60)


@case(
    "Kafka 2.8: a group that was stopped for ten days finds no offset",
    PASS,
    why="a week after its last member was seen",
)
def over_ten_days_on_2_8() -> HistoryBuilder:
    return _asked_late("kafka:2.8.2", after_h=240)


@case(
    "Kafka 1.1: the group has gone on for a day and a half without a commit, and finds no offset",
    PASS,
    why="before KIP-211 an offset expired a day after its commit, whoever used the group",
)
def in_use_for_a_day_on_1_1() -> HistoryBuilder:
    return _asked_late("kafka:1.1.1", after_h=36, seen_h=35)


@case(
    "Kafka 0.11 (spring-kafka 435, KAFKA-5600): after the brokers' restart a group is told an offset of long before",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    also=("group-redelivery observation", "group-redelivery violation"),
    why="what was committed last holds; that the release had a fault is what the finding is for",
)
def told_an_old_offset_on_0_11() -> HistoryBuilder:
    history = led(10, system="kafka:0.11.0.0")
    history.client(A, role="consumer", group="g", offset_reset="latest", isolation="read_uncommitted")
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(9), at=3)
    for number, offset in enumerate((3, 6, 9)):
        history.group("committed", at=4 + number, process=A, generation=1, offset=offset)
    for node in (1, 2, 3):
        history.fault("kill", [node], at=20, until=22)
        history.started(node, at=22)
    return history.group("fetched", at=40, process=A, offset=3).finish()


# ---- elections ---------------------------------------------------------------------------------------------------


def _elected_outside(system: str, *, start: int | None, settings: dict[str, str] | None = None) -> HistoryBuilder:
    """2 and 3 fall out, 1 acknowledges 6 to 9 alone, a consumer gets 8, and broker 3 is elected without them."""
    history = led(6, system=system, topics={"t": settings or {}}).state(1, 0, (1,), at=3)
    for value in range(6, 10):
        history.ack(value, at=3 + value / 10)
    history.client(9, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    history.poll([(offset, offset) for offset in range(9)], at=5)
    history.fault("kill", [1], at=8, until=20)
    history.replica(1, history.log, at=8, reason="kill", high_watermark=10)
    history.state(3, 1, (3,), at=10, start=start)
    history.log = history.log[:6]
    for value in range(20, 23):
        history.ack(value, at=12 + value / 10)
    history.started(1, at=20)
    history.truncation(1, 6, 10, epoch=1, at=21)
    return history.state(3, 1, (1, 2, 3), at=24).finish()


def _rewound(each: str) -> list[str]:
    checks = ("inconsistent-offsets", "acknowledged-regression", "reordering", "nonmonotonic-read", "skipped-read")
    return [f"{check} {each}" for check in checks]


LAWFULLY = {
    "unclean-election permitted": SOME,
    "lost-write permitted": {6, 7, 8, 9},
    "dirty-read permitted": {6, 7, 8},
}
UNLAWFULLY = {each.replace("permitted", "violation"): count for each, count in LAWFULLY.items()}


@case(
    "Kafka 0.9, nothing set: a replica that had fallen out is elected, and nobody says where its log ended",
    PASS,
    LAWFULLY,
    also=_rewound("permitted"),
    why="until KIP-106 (0.11) unclean elections were allowed by default",
)
def elected_outside_on_0_9() -> HistoryBuilder:
    return _elected_outside("kafka:0.9.0.1", start=None)


@case(
    "Kafka 0.11, nothing set: the same",
    VIOLATION,
    UNLAWFULLY,
    also=_rewound("violation"),
    why="KIP-106",
)
def elected_outside_on_0_11() -> HistoryBuilder:
    return _elected_outside("kafka:0.11.0.0", start=6)


@case(
    "Kafka 0.10.2, forbidden by the topic: the same, and nobody says where its log ended",
    VIOLATION,
    UNLAWFULLY,
    also=_rewound("violation"),
    why="the topic's own setting goes before every default",
)
def elected_outside_on_0_10_though_forbidden() -> HistoryBuilder:
    return _elected_outside("kafka:0.10.2.2", start=None, settings={"unclean.leader.election.enable": "false"})


# ---- logs without epochs -----------------------------------------------------------------------------------------


def _without_epochs(history: HistoryBuilder, others: Sequence[int] | None = None) -> HistoryBuilder:
    """Message formats 0 and 1: no batch has an epoch. others: the values in the log of broker 2."""
    logs = None if others is None else {2: [(offset, 0, value) for offset, value in enumerate(others)]}
    history.finish(logs=logs)
    for row in (*history.rows["replica_log"], *history.rows["records"]):
        row["leader_epoch"] = -1 if row.get("leader_epoch") is not None else None
    for row in history.rows["replica_snapshots"]:
        row["leader_epochs"] = ""
    return history


@case(
    "Kafka 0.10.2: three clean fail-overs, and logs without any epoch that are all alike",
    PASS,
    why="there were no epochs to be stamped with",
)
def no_epochs_over_three_fail_overs() -> HistoryBuilder:
    history = led(5, system="kafka:0.10.2.2")
    for number, leader in enumerate((2, 3, 1)):
        history.fail_over(leader, at=10 + 10 * number, journalled=False)
        history.ack(50 + number, at=14 + 10 * number)
    return _without_epochs(history)


@case(
    "Kafka 0.10.2: two replicas in sync have different records at offset 3",
    VIOLATION,
    {"replica-divergence violation": SOME},
    also=("evidence observation",),
    why="replicas in sync hold one log, in every release",
)
def in_sync_and_different_without_epochs() -> HistoryBuilder:
    return _without_epochs(led(5, system="kafka:0.10.2.2"), [0, 1, 2, 77, 4])


@case(
    "Kafka 0.9: records of a topic with an hour of retention go within two minutes; no record has a timestamp",
    VIOLATION,
    {"lost-write violation": {0, 1, 2}},
    why="before timestamps (KIP-32) a segment's age was that of its file, which the run made itself",
)
def expired_too_early_without_timestamps() -> HistoryBuilder:
    history = led(topics={"t": {"retention.ms": "3600000"}}, system="kafka:0.9.0.1")
    history.log = history.log[3:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=3, cleanup_policy="delete")
    return history


# ---- generations -------------------------------------------------------------------------------------------------


def _begun_again(system: str, *, committed: bool) -> HistoryBuilder:
    """All members leave at second 20; at second 40 another one is told generation 1 again."""
    history = led(10, system=system)
    for process in (A, B):
        history.client(
            process,
            role="consumer",
            group="g",
            offset_reset="earliest",
            isolation="read_uncommitted",
            group_protocol="classic",
        )
    for generation, at in ((1, 2.5), (2, 5.0), (3, 8.0)):
        history.group("assigned", at=at, process=A, generation=generation, offset=0)
    history.reads(A, range(10), at=9)
    if committed:
        history.group("committed", at=10, process=A, generation=3, offset=10)
    history.group("revoked", at=20, process=A, generation=3)
    return history.group("assigned", at=40, process=B, generation=1, offset=10 if committed else 0).finish()


@case(
    "Kafka 0.9: the last member leaves, and the next one begins with generation 1",
    PASS,
    why="before KAFKA-2720 (0.10.1) a group was gone with its last member",
)
def generations_begin_again_on_0_9() -> HistoryBuilder:
    return _begun_again("kafka:0.9.0.1", committed=True)


@case(
    "Kafka 1.1: the same of a group that had committed",
    VIOLATION,
    {"generation-regression violation": SOME},
    why="since KAFKA-2720 an empty group with offsets stays",
)
def generations_begin_again_on_1_1() -> HistoryBuilder:
    return _begun_again("kafka:1.1.1", committed=True)


@case(
    "Kafka 1.1: the generation goes on from the one before, twenty seconds after the last member left",
    PASS,
    why="that is what the coordinator kept",
)
def generations_go_on_on_1_1() -> HistoryBuilder:
    history = _begun_again("kafka:1.1.1", committed=True)
    history.rows["group_events"][-1]["generation"] = 5
    return history
