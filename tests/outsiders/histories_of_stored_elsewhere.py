"""What is stored elsewhere, or read another way than usual: tiered storage, followers that serve readers, clusters
that somebody else restarts, and topics whose partitions are read one replica at a time."""

from collections.abc import Sequence
from typing import Any

from harness.ports.load import WorkloadSpec
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, Entry, HistoryBuilder, case, led

READER = 9
TIERED = {"t": {"remote.storage.enable": "true", "local.retention.ms": "1000"}}


# ---- tiered storage (KIP-405) ------------------------------------------------------------------------------------


def _tiered(local: int, *, read: Sequence[int] = range(10), **more: Any) -> HistoryBuilder:
    """The brokers' own logs begin at `local`; what is below is in remote storage. Readers get all of it."""
    history = led(10, system="kafka:3.9.1", **more)
    for node in (1, 2, 3):
        history.replica(node, [entry for entry in history.log if entry[0] >= local], high_watermark=10, at=110)
        history.rows["replica_snapshots"][-1]["log_start_offset"] = local
    history.final([(offset, offset) for offset in read])
    history.partition.update(log_start_offset=0, end_offset=10, cleanup_policy="delete")
    return history


@case(
    "KIP-405: the first six records are in remote storage alone, and the final read gets all ten",
    PASS,
    why="a broker's own log may begin above the partition's start",
)
def first_ones_are_remote() -> HistoryBuilder:
    return _tiered(6, topics=TIERED)


@case(
    "KIP-405: the same, and two of the six are not returned by the final read",
    VIOLATION,
    {"lost-write violation": {2, 3}},
    why="they were acknowledged, and no setting removes from the middle",
)
def two_remote_ones_are_missing() -> HistoryBuilder:
    return _tiered(6, read=[0, 1, *range(4, 10)], topics=TIERED)


# ---- followers that serve readers (KIP-392) ----------------------------------------------------------------------


@case(
    "a reader is served by a follower that lags: each poll gets a little less than is there, and everything in the end",
    PASS,
    why="KIP-392: a follower answers up to the high watermark that it knows",
)
def read_from_a_lagging_follower() -> HistoryBuilder:
    history = led(10, system="kafka:3.9.1")
    history.client(READER, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    for number in range(5):
        history.poll([(2 * number, 2 * number), (2 * number + 1, 2 * number + 1)], at=3 + 2 * number, epoch=0)
    return history.finish()


@case(
    "the same, and between two polls it is moved to a follower that begins two records later",
    VIOLATION,
    {"skipped-read violation": SOME},
    why="whoever serves a reader goes on at its position",
)
def skipped_by_another_follower() -> HistoryBuilder:
    history = led(10, system="kafka:3.9.1")
    history.client(READER, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    history.poll([(0, 0), (1, 1)], at=3)
    return history.poll([(offset, offset) for offset in range(4, 10)], at=5).finish()


# ---- somebody else's rolling restart -----------------------------------------------------------------------------


def _rolled(count: int = 10, *, acks: int = -1, lost: Sequence[int] = (), **more: Any) -> HistoryBuilder:
    """Somebody else restarts his three brokers, one after the other, while an application writes."""
    history = HistoryBuilder(system="attached", workload=WorkloadSpec(), **more).client(1, role="producer", acks=acks)
    history.polled(2, 1, 0, (1, 2, 3), at=0)
    for number, (leader, isr) in enumerate(((2, (2, 3)), (3, (1, 3)), (1, (1, 2)))):
        history.polled(1 + (leader % 3), leader, number + 1, isr, at=10 + 20 * number)
        history.polled(1 + (leader % 3), leader, number + 1, (1, 2, 3), at=18 + 20 * number)
    for value in range(count):
        history.ack(value, at=2 + 7 * value, acks=acks)
    history.log = [entry for entry in history.log if entry[2] not in lost]
    history.finish(snapshots=False)
    history.partition["end_offset"] = count
    return history


@case(
    "somebody else restarts his brokers one after the other; everything acknowledged by all is there",
    PASS,
    why="clean changes of leaders",
)
def rolled_by_somebody_else() -> HistoryBuilder:
    return _rolled()


@case(
    "the same with acks=1, and the record before each change of leaders is gone",
    OPEN,
    {"lost-write observation": SOME},
    why="KAFKA-20554; but states were only polled for",
)
def rolled_by_somebody_else_with_acks_1() -> HistoryBuilder:
    return _rolled(acks=1, lost=[1, 4])


@case(
    "the same with acks=all, and two records are gone from the middle of the log, which only deletes, with later ones "
    "of the same time there",
    VIOLATION,
    {"lost-write violation": {4, 5}},
    why="no election takes records from the middle",
)
def rolled_by_somebody_else_and_lost_in_the_middle() -> HistoryBuilder:
    return _rolled(lost=[4, 5])


# ---- replicas read one by one ------------------------------------------------------------------------------------


def _each(logs: dict[int, Sequence[Entry]]) -> HistoryBuilder:
    history = led(10, system="reference").finish()
    for node, log in logs.items():
        history.final([(offset, value) for offset, _, value in log], at=102 + node, replica=node, assignment=node)
    history.partition["end_offset"] = 10
    return history


@case(
    "at the end each replica is made the leader in turn and read: all give the same",
    PASS,
    why="one log",
)
def each_replica_gives_the_same() -> HistoryBuilder:
    log = [(offset, 0, offset) for offset in range(10)]
    return _each({1: log, 2: log, 3: log})


@case(
    "the same, and replica 3 gives another record at offset 4",
    VIOLATION,
    {"inconsistent-offsets violation": SOME},
    also=("phantom violation", "replica-divergence violation", "evidence violation", "evidence observation"),
    why="an offset has one value, whoever serves it",
)
def one_replica_gives_another_record() -> HistoryBuilder:
    log = [(offset, 0, offset) for offset in range(10)]
    return _each({1: log, 2: log, 3: [*log[:4], (4, 0, 77), *log[5:]]}).send(77, None, at=1.45, status=2)


# ---- ends of nodes, and who is blamed ----------------------------------------------------------------------------


@case(
    "a broker's data directory fails (an error of the disk), the broker ends itself, and is back after it was mended; "
    "its cluster was there before the run",
    OPEN,
    {"node-ended observation": SOME},
    why="KIP-112: with one directory it has to end; what happened to the disk nobody knows",
)
def ended_for_its_only_directory() -> HistoryBuilder:
    history = led(system="attached")
    history._add(
        "node_ends",
        node=3,
        time_ns=20 * SECOND,
        uncertainty_ns=0,
        exit_status=1,
        reason="log-directory-failed",
        line_text="ERROR",
        fresh=False,
        back_ns=40 * SECOND,
    )
    history.state(1, 0, (1, 2), at=22)
    return history.state(1, 0, (1, 2, 3), at=45).finish()


# ---- a transaction's half above an end that was told too low -----------------------------------------------------


def _half_above(nodes: Sequence[int], *, system: str = "kafka:1.1.1") -> HistoryBuilder:
    """A committed transaction has a record in t-0 and one in t-1; of t-1 the final read is told that it ends below that
    one, and the logs of `nodes` have it."""
    history = led(3, system=system).place(1, "t", 1)
    history.state(1, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.client(21, role="producer", transactional_id="p", acks=-1, idempotent=True)
    history.client(99, role="consumer", isolation="read_committed", offset_reset="earliest")
    history.send(20, 0, at=1, process=1, partition_id=1)
    history.send(100, 3, at=5, process=21, transaction=1)
    history.send(101, 1, at=5, process=21, transaction=1, partition_id=1)
    history.transaction(1, 0, at=4.9, until=5.5, process=21, transactional_id="p")
    history.log.append((3, 0, 100))
    history.finish()
    for node in nodes:
        history.replica(node, [(0, 0, 20), (1, 0, 101)], high_watermark=2, partition_id=1, at=110)
    return history.final([(0, 20)], partition_id=1)


UNREAD = [f"{check} observation" for check in ("unseen-tail", "unreadable", "end-told-too-low", "torn-transaction")]


@case(
    "Kafka 1.1: of a committed transaction one half lies above the end that the last reader was told; all logs have it",
    (PASS, OPEN),
    also=UNREAD,
    why="it is there, and was not read; before KIP-207 an end might be told too low",
)
def half_above_the_end_and_in_all_logs() -> HistoryBuilder:
    return _half_above((1, 2, 3))


@case(
    "the same, and only the leader's log was read",
    OPEN,
    also=UNREAD,
    why="it is there as far as anybody looked",
)
def half_above_the_end_and_in_the_leaders_log() -> HistoryBuilder:
    return _half_above((1,))


@case(
    "the same, and no log was read",
    VIOLATION,
    {"torn-transaction violation": SOME, "lost-write violation": {101}},
    why="the last reader came to the end, and nobody knows of it anywhere",
)
def half_above_the_end_and_in_no_log() -> HistoryBuilder:
    return _half_above(())
