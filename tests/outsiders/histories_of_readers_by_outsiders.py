"""Readers that are told too low an end, get their records late, or get nothing; and clients that are refused after the
last heal."""

from collections.abc import Sequence
from typing import Any

from harness.history.facts.internal_topics import partition_of
from harness.ports.load import WorkloadSpec
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

READER, FINAL = 9, 99
KEPT = ("__consumer_offsets", partition_of("g", 50))
OUT_OF_ORDER, UNKNOWN_PRODUCER_ID = 45, 59


def _answered(history: HistoryBuilder, event: str, end: int, *, at: float, **columns: Any) -> None:
    told = {"leader_epoch": 0, "from_offset": 0, "to_offset": end}
    history.final_read(event, at=at, elapsed_s=0.05, **told | columns)


@case(
    "of two records that the final read did not return one comes when it is fetched again, the other does not",
    VIOLATION,
    {"lost-write violation": {9}, "late-record observation": SOME},
    why="late is not lost, and lost is not late",
)
def one_late_and_one_lost() -> HistoryBuilder:
    history = led(11)
    kept = [entry for entry in history.log if entry[0] != 9]
    history.log = kept
    history.finish(snapshots=False)
    for first, found in ((7, 1), (9, 0)):
        _answered(
            history,
            "again",
            first + 1,
            at=102,
            process=98,
            from_offset=first,
            since_ns=100 * SECOND,
            known=1,
            found=found,
        )
    return history


@case(
    "the committed reader is told a last stable offset of 5, since a transaction is open, and 12 when it has ended; it "
    "reads all",
    PASS,
    why="a last stable offset is no end, and it moves",
)
def last_stable_offset_before_the_end() -> HistoryBuilder:
    history = led(5, system="kafka:4.3.1")
    history.client(21, role="producer", transactional_id="p", acks=-1, idempotent=True)
    history.client(FINAL, role="consumer", isolation="read_committed")
    history.send(900, 5, at=95, process=21, transaction=1)
    history.transaction(1, 0, at=94.9, until=101, process=21, transactional_id="p")
    history.log.append((5, 0, 900))
    for value in range(6, 11):
        history.ack(value, at=96 + value / 100)
    history.finish()
    history.partition.update(end_offset=12, last_stable_offset=12)
    _answered(history, "end", 12, at=100)
    _answered(history, "stable", 5, at=100.1)
    _answered(history, "stable", 12, at=102, from_offset=5)
    return history


@case(
    "the final read first asks a deposed leader that is cut off from the controllers, and is told 10; the new "
    "one tells 14",
    PASS,
    {"end-told-too-low observation": SOME},
    why="a leader that has not heard that it was deposed answers for the log it has",
)
def end_told_by_a_deposed_leader() -> HistoryBuilder:
    history = led().fault("cut", [1], at=6)
    history.state(2, 1, (2, 3), at=9, start=10)
    for value in range(20, 24):
        history.ack(value, at=15)
    history.finish(only=(2, 3))
    _answered(history, "end", 10, at=99)
    _answered(history, "end", 14, at=100, node=2, leader_epoch=1)
    return history


def _standing_still(history: HistoryBuilder) -> HistoryBuilder:
    """A group's only member reads until 8, polls in vain until 48, and then is given what was sent meanwhile."""
    history.client(READER, role="consumer", group="g", offset_reset="earliest", isolation="read_uncommitted")
    history.group("assigned", at=2.5, process=READER, generation=1, offset=0)
    history.reads(READER, range(10), at=3)
    for number in range(40):
        history.ack(10 + number, at=8 + number)
    for number in range(20):
        history.empty_poll(READER, at=10 + 2 * number, elapsed_s=2)
    return history.reads(READER, range(10, 50), at=48.5).finish()


@case(
    "a group gets nothing for 40 s, in which the partition that it is kept in had no leader: its only copy was down",
    PASS,
    why="without a coordinator a group stands still, and its replication factor said so",
)
def without_a_coordinator() -> HistoryBuilder:
    history = led().kept_state(KEPT, 3, 0, (3,), at=0, replicas=(3,))
    history.kept_state(KEPT, -1, 1, (3,), at=8, replicas=(3,))
    history.kept_state(KEPT, 3, 2, (3,), at=48, replicas=(3,))
    return _standing_still(history)


@case(
    "a group gets nothing for 40 s, though nothing was wrong, its coordinator's partition was led, and records waited",
    PASS,
    {"client-stuck observation": SOME},
    why="told, so that nobody takes it for health",
)
def stuck_with_a_coordinator() -> HistoryBuilder:
    history = led().kept_state(KEPT, 3, 0, (1, 2, 3), at=0)
    return _standing_still(history)


@case(
    "an application's consumer, of which nobody knows how it reads, passes over a record of an aborted "
    "transaction that "
    "the final reader of everything has",
    PASS,
    why="it may be read_committed: it is accused of nothing",
)
def passed_over_by_nobody_knows_whom() -> HistoryBuilder:
    history = led(3, workload=WorkloadSpec())
    history.client(21, role="producer", transactional_id="p", acks=-1, idempotent=True)
    history.client(READER, role="consumer", offset_reset="earliest")
    history.client(FINAL, role="consumer", isolation="read_uncommitted")
    history.transaction(1, 1, at=3.9, until=6, process=21, transactional_id="p")
    history.send(900, 3, at=4, process=21, transaction=1, status=1)
    history.send(4, 5, at=7)
    history.log += [(3, 0, 900), (5, 0, 4)]
    history.poll([(0, 0), (1, 1), (2, 2)], at=3, process=READER)
    return history.poll([(5, 4)], at=8, process=READER).finish(snapshots=False)


# ---- after the last heal --------------------------------------------------------------------------------------------


def _asked(*, code: int, system: str, settings: dict[str, str] | None = None, removed: int = 0) -> HistoryBuilder:
    """The old producer is refused for 31 s, and a fresh one's write is answered."""
    history = led(system=system, topics={"t": settings or {}})
    history.client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    for second in range(95, 130):
        history.failed_attempt(at=second, error=f"E {code}")
        history.rows["client_events"][-1]["code"] = code
    history.log = history.log[removed:]
    history.finish(snapshots=not removed)
    history.partition.update(log_start_offset=removed, cleanup_policy="delete", end_offset=10)
    for age, outcome, until in (("old", "refused", 132), ("fresh", "done", 101.2)):
        refused = {"client": "client-1", "error": f"E {code}", "code": code} if age == "old" else {"offset": 10}
        history.progress(age, "write", outcome, at=101, until=until, **refused)
    return history


@case(
    "an old producer is answered OUT_OF_ORDER_SEQUENCE_NUMBER for 31 s on Kafka 4.3, fresh ones are served",
    OPEN,
    {"no-progress observation": SOME},
    why="the brokers refuse it, and nothing that was recorded says why",
)
def old_producer_out_of_order() -> HistoryBuilder:
    return _asked(code=OUT_OF_ORDER, system="kafka:4.3.1")


@case(
    "Kafka 1.1: an old producer is answered UNKNOWN_PRODUCER_ID for 31 s; retention had removed all that it "
    "had written",
    PASS,
    {"no-progress observation": SOME, "removed-by-configuration observation": SOME},
    why="before KIP-360 a producer's state went with its last record",
)
def old_producer_forgotten_by_retention() -> HistoryBuilder:
    return _asked(code=UNKNOWN_PRODUCER_ID, system="kafka:1.1.1", settings={"retention.ms": "1000"}, removed=10)


def _fresh(code: int) -> HistoryBuilder:
    history = led(system="kafka:4.3.1").finish()
    return history.progress("fresh", "write", "refused", at=101, until=132, error=f"E {code}", code=code)


@case(
    "a fresh write is answered NOT_LEADER_OR_FOLLOWER for 31 s, though the partition is led with all in sync",
    VIOLATION,
    {"no-progress violation": 1},
    why="somebody leads it by the books, and every node runs",
)
def nobody_wants_to_be_leader() -> HistoryBuilder:
    return _fresh(6)


@case(
    "a fresh write is refused as too large for 31 s",
    PASS,
    {"no-progress observation": SOME},
    why="max.message.bytes is a rule",
)
def refused_as_too_large() -> HistoryBuilder:
    return _fresh(10)


@case(
    "a fresh write is answered INVALID_RECORD for 31 s",
    PASS,
    {"no-progress observation": SOME},
    why="a compacted topic takes no record without a key: a rule of formats",
)
def refused_for_its_format() -> HistoryBuilder:
    return _fresh(87)


@case(
    "a group's member polls in vain for 40 s, and nothing was sent meanwhile",
    PASS,
    why="nothing waited for it",
)
def nothing_waited() -> HistoryBuilder:
    history = led().kept_state(KEPT, 3, 0, (1, 2, 3), at=0)
    history.client(READER, role="consumer", group="g", offset_reset="earliest", isolation="read_uncommitted")
    history.group("assigned", at=2.5, process=READER, generation=1, offset=0)
    history.reads(READER, range(10), at=3)
    for number in range(20):
        history.empty_poll(READER, at=10 + 2 * number, elapsed_s=2)
    history.ack(10, at=48)
    return history.poll([(10, 10)], at=48.2, process=READER).finish()


# ---- batches whose checksum does not hold ---------------------------------------------------------------------------


def _refused(damaged: Sequence[int]) -> HistoryBuilder:
    history = led()
    for node in damaged:
        history.damage(node, 5, 6, at=20)
    return history.refused_read(at=30).finish()


@case(
    "a consumer refuses a batch for its checksum, and nothing had been damaged",
    VIOLATION,
    {"corrupt-record violation": SOME},
    why="no broker may serve what it can see to be broken",
)
def broken_by_nobody() -> HistoryBuilder:
    return _refused(())


@case(
    "the same, and one follower's copy had been damaged; the leader's and the other one's were good",
    VIOLATION,
    {"corrupt-record violation": SOME},
    also=["replica-divergence observation"],
    why="there were good copies to serve",
)
def broken_though_there_were_good_copies() -> HistoryBuilder:
    return _refused((3,))
