"""Consumers and groups whose position is gone: retention or a cut overtook it, auto.offset.reset said where to go on;
coordinators whose partition moves; aborted records and what a coordinator forgot."""

from typing import Any

from harness.history.facts.internal_topics import partition_of
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

A, B, P, READER = 11, 12, 21, 9
GROUP_IN = ("__consumer_offsets", partition_of("g", 50))
DECIDED_IN = ("__transaction_state", partition_of("p", 50))
REMOVED = "removed-by-configuration observation"
SHORT = {"t": {"retention.ms": "1000"}}


def _expired(history: HistoryBuilder, start: int) -> HistoryBuilder:
    history.log = [entry for entry in history.log if entry[0] >= start]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=start, cleanup_policy="delete")
    return history


def _reader(reset: str, **more: Any) -> HistoryBuilder:
    history = led(system="kafka:3.9.1", topics=SHORT, **more)
    return history.client(READER, role="consumer", isolation="read_uncommitted", offset_reset=reset)


@case(
    "retention of a second; a reader that stood at 2 for a minute goes on at the end, as auto.offset.reset=latest says",
    PASS,
    {REMOVED: {0, 1, 2, 3, 4, 5}, "skipped-read permitted": SOME},
    why="its position is gone, and records 6 to 8 are not promised to it any more",
)
def overtaken_and_on_at_the_end() -> HistoryBuilder:
    history = _reader("latest").poll([(0, 0), (1, 1)], at=2.5)
    history.poll([(9, 9)], at=62)
    return _expired(history, 6)


@case(
    "the same with auto.offset.reset=earliest, and it goes on at the log's start",
    PASS,
    {REMOVED: {0, 1, 2, 3, 4, 5}},
    why="what lies between was removed on purpose",
)
def overtaken_and_on_at_the_start() -> HistoryBuilder:
    history = _reader("earliest").poll([(0, 0), (1, 1)], at=2.5)
    history.poll([(6, 6), (7, 7), (8, 8), (9, 9)], at=62)
    return _expired(history, 6)


@case(
    "the same with auto.offset.reset=earliest, and it goes on behind the log's start",
    VIOLATION,
    {"skipped-read violation": SOME, REMOVED: {0, 1, 2, 3, 4, 5}},
    why="6 and 7 were there, and earliest means the start",
)
def overtaken_and_on_behind_the_start() -> HistoryBuilder:
    history = _reader("earliest").poll([(0, 0), (1, 1)], at=2.5)
    history.poll([(8, 8), (9, 9)], at=62)
    return _expired(history, 6)


def _member(reset: str, first: int, *, start: int = 6) -> HistoryBuilder:
    """The group committed 2; retention takes the log's head; a new member begins at `first`, a minute later."""
    history = led(system="kafka:2.8.2", topics=SHORT).members(A, B, reset=reset)
    history.group("assigned", at=2.2, process=A, generation=1, offset=0)
    history.poll([(0, 0), (1, 1)], at=2.5, process=A)
    history.group("committed", at=3, process=A, generation=1, offset=2)
    history.group("revoked", at=4, process=A, generation=1)
    history.group("fetched", at=60, process=B, offset=2)
    history.group("assigned", at=60.1, process=B, generation=3, offset=2)
    history.reads(B, range(first, 10), at=62)
    return _expired(history, start)


@case(
    "retention overtook a group that had committed 2; with auto.offset.reset=latest its next member begins at the end",
    PASS,
    {REMOVED: {0, 1, 2, 3, 4, 5}, "head-skip permitted": SOME},
    why="offset 2 is out of range, and latest means the end",
)
def group_overtaken_and_on_at_the_end() -> HistoryBuilder:
    return _member("latest", 9)


@case(
    "the same, with auto.offset.reset=earliest, at the log's start",
    PASS,
    {REMOVED: {0, 1, 2, 3, 4, 5}},
    why="what lies between was removed on purpose",
)
def group_overtaken_and_on_at_the_start() -> HistoryBuilder:
    return _member("earliest", 6)


@case(
    "retention took nothing but the first record; the group had committed 2, and its next member begins at the end",
    VIOLATION,
    {"head-skip violation": SOME, REMOVED: {0}},
    why="offset 2 is there, and binds whatever auto.offset.reset says",
)
def group_not_overtaken_and_on_at_the_end() -> HistoryBuilder:
    return _member("latest", 9, start=1)


# ---- coordinators whose partition moves --------------------------------------------------------------------------


def _moved_coordinator(wiped: int) -> HistoryBuilder:
    """The group's partition moves from 1 to 2 at second 20; then a disk is lost, and the group is told nothing."""
    history = led(system="kafka:3.9.1").kept_state(GROUP_IN, 1, 0, (1,), at=0, replicas=(1,))
    history.members(A, B)
    history.group("assigned", at=2.2, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, generation=1, offset=10)
    history.kept_state(GROUP_IN, 1, 1, (1,), at=20, replicas=(1, 2))
    history.kept_state(GROUP_IN, 1, 1, (1, 2), at=22, replicas=(1, 2))
    history.kept_state(GROUP_IN, 2, 2, (2,), at=23, replicas=(2,))
    history.destroyed("wipe", wiped, "disk", at=40, until=43)
    history.started(wiped, at=43)
    if wiped == 2:
        history.kept_state(GROUP_IN, 2, 3, (2,), at=44, replicas=(2,))
    else:
        history.state(2, 1, (2, 3), at=41, start=10)
    history.state(history._leader or 1, history._epoch, (1, 2, 3), at=50)
    return history.group("fetched", at=60, process=B, offset=-1).finish()


@case(
    "a group's only copy has moved from broker 1 to 2; then the disk of 1 is lost, and the group's offset is gone",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="the copy on broker 2 was untouched",
)
def coordinator_moved_and_the_old_disk_lost() -> HistoryBuilder:
    return _moved_coordinator(1)


@case(
    "a group's only copy has moved from broker 1 to 2; then the disk of 2 is lost, and the group's offset is gone",
    PASS,
    {"lost-group-offset permitted": SOME},
    why="the only copy was destroyed",
)
def coordinator_moved_and_the_new_disk_lost() -> HistoryBuilder:
    return _moved_coordinator(2)


# ---- what was aborted, and what a coordinator forgot -------------------------------------------------------------


def _told_and_forgotten(*, replicas: tuple[int, ...], final: str = "read_committed") -> HistoryBuilder:
    """A transaction is open when the disk of broker 3 is lost; its client is told that it was aborted, and a committed
    reader had its record for a moment; at the end it is an aborted one."""
    history = led(3, system="kafka:3.9.1").kept_state(DECIDED_IN, 3, 0, replicas, at=0, replicas=replicas)
    history.client(P, role="producer", transactional_id="p", acks=-1, idempotent=True, tells_attempts=True)
    history.client(READER, role="consumer", isolation="read_committed", offset_reset="earliest")
    history.client(99, role="consumer", isolation=final, offset_reset="earliest")
    history.send(900, 3, at=10, process=P, transaction=1, status=1)
    history.transaction(1, 1, at=9.9, until=40, process=P, transactional_id="p")
    history.log.append((3, 0, 900))
    history.destroyed("wipe", 3, "disk", at=20, until=23)
    history.state(1, 0, (1, 2), at=21)
    history.started(3, at=23)
    history.kept_state(
        DECIDED_IN, 3 if replicas == (3,) else 1, 1, [each for each in replicas if each != 3] or (3,), at=24
    )
    history.state(1, 0, (1, 2, 3), at=30)
    history.poll([(0, 0), (1, 1), (2, 2), (3, 900)], at=50)
    records = [(offset, value) for offset, _, value in history.log if value != 900 or final == "read_uncommitted"]
    for node in (1, 2, 3):
        history.replica(node, history.log, high_watermark=4)
    history.final(records)
    history.partition["end_offset"] = 4
    return history


@case(
    "the only copy of a coordinator's log is lost while a transaction is open; its client is told that it was aborted, "
    "a committed reader had its record, and the last one does not get it",
    PASS,
    {"aborted-read permitted": SOME},
    why="what the coordinator forgot it may have ended otherwise; the record is in the log to the end, and is not lost",
)
def forgotten_read_and_aborted() -> HistoryBuilder:
    return _told_and_forgotten(replicas=(3,))


@case(
    "the same with three copies of the coordinator's log",
    VIOLATION,
    {"aborted-read violation": SOME},
    why="nothing was forgotten; the record is in the log to the end, and is not lost",
)
def not_forgotten_read_and_aborted() -> HistoryBuilder:
    return _told_and_forgotten(replicas=(1, 2, 3))


@case(
    "the same, and the last reader reads everything and gets it",
    VIOLATION,
    {"aborted-read violation": SOME},
    why="a committed reader was given an aborted record",
)
def not_forgotten_read_and_there() -> HistoryBuilder:
    return _told_and_forgotten(replicas=(1, 2, 3), final="read_uncommitted")


# ---- an end that was told too low, and logs of which one was read ------------------------------------------------


def _early(system: str, *, nodes: tuple[int, ...], marks: int | None = 10) -> HistoryBuilder:
    """The final read ends at 8 of 10; the logs of `nodes` were read ten seconds later, and have ten."""
    history = led(system=system)
    log, history.log = history.log, history.log[:8]
    history.finish(snapshots=False)
    for node in nodes:
        history.replica(node, log, at=110, high_watermark=marks)
    return history


UNREAD = ("unreadable observation", "unseen-tail observation", "evidence observation")


@case(
    "Kafka 1.1: the final read is told 8; the leader's log, read afterwards, has ten; the followers' were not read",
    OPEN,
    {"end-told-too-low observation": SOME},
    also=UNREAD,
    why="they are in the log that was led last, so nothing shows that they are lost",
)
def early_on_1_1_with_the_leaders_log() -> HistoryBuilder:
    return _early("kafka:1.1.1", nodes=(1,))


@case(
    "somebody else's brokers: the same",
    OPEN,
    {"end-told-too-low observation": SOME},
    also=UNREAD,
    why="nobody knows which release it is, and the records are there",
)
def early_elsewhere_with_the_leaders_log() -> HistoryBuilder:
    return _early("attached", nodes=(1,))


@case(
    "Kafka 1.1: the same, and it was a follower's log that was read",
    OPEN,
    {"unseen-tail observation": {8, 9}},
    also=UNREAD,
    why="a follower in sync has them, so the leader had them; nothing took them since",
)
def early_on_1_1_with_a_followers_log() -> HistoryBuilder:
    return _early("kafka:1.1.1", nodes=(2,))


@case(
    "an old folder of a run with transactions: the final read, of which nobody knows what it asked for, ended below an "
    "open transaction's record",
    OPEN,
    also=("hanging-transaction observation", "end-told-too-low observation", *UNREAD),
    why="it may have been a reader of committed records",
)
def ended_below_an_open_transaction_in_an_old_folder() -> HistoryBuilder:
    history = led(3, system="kafka:2.8.2").client(P, role="producer", transactional_id="p", acks=-1, idempotent=True)
    history.send(900, 3, at=95, process=P, transaction=1, status=2)
    history.transaction(1, 2, at=94.9, until=98, process=P, transactional_id="p")
    history.ack(4, at=96)
    log = [*history.log[:3], (3, 0, 900), (4, 0, 4)]
    for row in history.rows["records"]:
        if row["value"] == 4:
            row["offset"] = 4
    for node in (1, 2, 3):
        history.replica(node, log, at=110, high_watermark=5)
    history.final([(0, 0), (1, 1), (2, 2)])
    history.partition.update(end_offset=3, read_to_end=True)
    history.rows["processes"] = [row for row in history.rows["processes"] if row["process"] != 99]
    return history.as_sealed_before()


def _without_logs(history: HistoryBuilder) -> HistoryBuilder:
    history.rows["replica_snapshots"].clear()
    history.rows["replica_log"].clear()
    return history


@case(
    "the coordinator forgot a transaction with its only copy, a committed reader had its record, the last one does not "
    "get it, and no log was read",
    PASS,
    {"aborted-read permitted": SOME},
    why="an aborted record has not vanished: committed readers do not get it",
)
def forgotten_read_and_aborted_without_logs() -> HistoryBuilder:
    return _without_logs(_told_and_forgotten(replicas=(3,)))


@case(
    "the same, and the coordinator had two more copies",
    VIOLATION,
    {"aborted-read violation": SOME},
    why="what is wrong is that it was read, and not that it is not read again",
)
def not_forgotten_read_and_aborted_without_logs() -> HistoryBuilder:
    return _without_logs(_told_and_forgotten(replicas=(1, 2, 3)))
