"""The last commit of a group, which nobody fetches: whether the group's own log has it at the end, and what may have
taken it from there."""

from collections.abc import Sequence
from typing import Any

from tests.outsiders.history_builder import PASS, VIOLATION, HistoryBuilder, case, led

OFFSETS = ("__consumer_offsets", 7)
COMMITTED, UNKNOWN = 0, 2
MEMBER = 11
UNCLEAN = "unclean.leader.election.enable"
LOST = {"lost-group-offset violation": 1}
LOST_LAWFULLY = {"lost-group-offset permitted": 1}
Record = tuple[int, float]  # the offset, and when it was written


def _commits(
    *, replicas: Sequence[int] = (1, 2, 3), isr: Sequence[int] | None = None, last: float = 9, **more: Any
) -> HistoryBuilder:
    """A member commits 5 at second 4, and 8 at second `last`; then it is gone."""
    history = led(10, **more)
    history.kept_state(OFFSETS, replicas[0], 0, replicas if isr is None else isr, at=0, replicas=replicas)
    history.client(MEMBER, role="consumer", group="g", offset_reset="earliest", isolation="read_uncommitted")
    history.group("assigned", at=2.5, process=MEMBER, generation=1, offset=0)
    history.reads(MEMBER, range(8), at=3)
    history.group("committed", at=4, process=MEMBER, generation=1, offset=5)
    return history.group("committed", at=last, process=MEMBER, generation=1, offset=8)


def _logs(
    history: HistoryBuilder, *records: Record, nodes: Sequence[int] = (1, 2, 3), end: int | None = None
) -> HistoryBuilder:
    """The logs of its partition on these brokers, at second 110."""
    for node in nodes:
        history.kept_log(OFFSETS, node, len(records) if end is None else end)
    for committed, at in records:
        history.kept_offset(OFFSETS[1], committed, at=at)
    return history.finish()


FIRST, BOTH = ((5, 4.02),), ((5, 4.02), (8, 9.02))


@case(
    "the last commit was answered, nobody fetches any more, and no log in sync has it at the end",
    VIOLATION,
    LOST,
    why="it was answered when every replica in sync had it, and nothing took it",
)
def last_commit_in_no_log() -> HistoryBuilder:
    return _logs(_commits(), *FIRST)


@case("the same, and the logs have it", PASS, why="that is as it has to be")
def last_commit_in_the_logs() -> HistoryBuilder:
    return _logs(_commits(), *BOTH)


@case(
    "the only log that has it is that of a replica out of sync",
    VIOLATION,
    LOST,
    why="whoever coordinates next reads a log in sync",
)
def last_commit_on_a_replica_out_of_sync() -> HistoryBuilder:
    history = _logs(_commits(isr=(1, 2)), *BOTH)
    history.rows["consumer_offsets"][-1]["snapshots"] = [2]
    for row in history.rows["internal_replica_snapshots"][:2]:
        row["log_end_offset"] = row["high_watermark"] = 1
    return history


@case(
    "no record of the group is left, only another group's",
    VIOLATION,
    LOST,
    why="both commits were answered, and nothing took them",
)
def no_commit_in_any_log() -> HistoryBuilder:
    history = _logs(_commits(), (3, 3.0))
    history.rows["consumer_offsets"][0]["group"] = "another"
    return history


@case(
    "a client fetched the older one after it, and the logs say the same",
    VIOLATION,
    LOST,
    why="one loss, seen twice",
)
def last_commit_in_no_log_and_fetched() -> HistoryBuilder:
    history = _commits().group("fetched", at=80, process=MEMBER, offset=5)
    return _logs(history, *FIRST)


@case(
    "a client fetched the last commit, and no log has it at the end",
    VIOLATION,
    LOST,
    why="it was there, and nothing took it",
)
def last_commit_fetched_and_in_no_log() -> HistoryBuilder:
    history = _commits().group("fetched", at=30, process=MEMBER, offset=8)
    return _logs(history, *FIRST)


@case(
    "sent to a transaction that was committed, and no log has a record of it",
    VIOLATION,
    LOST,
    also=["transaction-outcome violation"],
    why="KIP-98: the offsets are in the group's log before their transaction is committed",
)
def last_commit_of_a_transaction_in_no_log() -> HistoryBuilder:
    history = _commits(last=5).client(21, role="both", group="g", transactional_id="p", offset_reset="latest", acks=-1)
    history.transaction(1, COMMITTED, at=9, until=10, process=21, transactional_id="p", group="g")
    history.group("committed", at=9.5, elapsed_s=0.1, process=21, generation=1, offset=9, transaction=1)
    return _logs(history, (5, 4.02), (8, 5.02))


# ---- what explains it -----------------------------------------------------------------------------------------------


@case("a later record of somebody else says another offset", PASS, why="it was written over: a tool may have reset it")
def last_commit_written_over() -> HistoryBuilder:
    return _logs(_commits(), (5, 4.02), (2, 30))


@case("a tombstone stands behind it", PASS, why="its coordinator removed it: it expired, or was deleted")
def last_commit_removed() -> HistoryBuilder:
    history = _logs(_commits(), (5, 4.02), (0, 30))
    history.rows["consumer_offsets"][-1].update(removed=True, committed_offset=None)
    return history


@case("the last commit was not answered", PASS, why="nobody promised that it is there")
def last_commit_without_an_answer() -> HistoryBuilder:
    history = _commits()
    history.rows["group_events"][-1]["status"] = UNKNOWN
    return _logs(history, *FIRST)


@case("the last commit was of the same offset as the one before", PASS, why="nobody can tell the two apart")
def last_commit_of_the_same_offset() -> HistoryBuilder:
    history = _commits()
    history.rows["group_events"][-1]["offset"] = 5
    return _logs(history, *FIRST)


@case("the last commit was answered while the logs were read", PASS, why="it may have been written after that")
def last_commit_too_late() -> HistoryBuilder:
    return _logs(_commits(last=105), *FIRST)


@case("the log of one replica in sync was not read", PASS, why="it may stand there")
def last_commit_where_nobody_looked() -> HistoryBuilder:
    return _logs(_commits(), *FIRST, nodes=(1, 2))


@case("the logs lack a record behind the older one", PASS, why="it may have stood there when they were read")
def last_commit_in_a_hole() -> HistoryBuilder:
    return _logs(_commits(), *FIRST, end=2)


@case("of a long log only the end was kept, which has nothing of the group", PASS, why="it may stand before that")
def last_commit_before_what_was_kept() -> HistoryBuilder:
    history = _logs(_commits(), (3, 20.0))
    history.rows["consumer_offsets"][0].update(group="another", offset=70)
    for row in history.rows["internal_replica_snapshots"]:
        row.update(kept_from=70, log_end_offset=71, high_watermark=71)
    return history


@case(
    "the only copy was on a disk that was wiped; another group committed since",
    PASS,
    LOST_LAWFULLY,
    why="the configuration promised one copy, and that one was destroyed",
)
def last_commit_on_the_wiped_disk() -> HistoryBuilder:
    history = _commits(replicas=(3,)).destroyed("wipe", 3, "disk", at=20)
    history.started(3, at=21)
    _logs(history, (3, 30.0), nodes=(3,))
    history.rows["consumer_offsets"][0]["group"] = "another"
    return history


@case(
    "one of three copies was wiped",
    VIOLATION,
    LOST,
    why="two copies in sync were left",
)
def last_commit_and_one_wiped_disk() -> HistoryBuilder:
    history = _commits().destroyed("wipe", 3, "disk", at=20)
    history.started(3, at=21)
    return _logs(history, *FIRST)


def _elected(**more: Any) -> HistoryBuilder:
    history = _commits(isr=(1,), **more).fault("kill", [1], at=20, until=30)
    history.kept_state(OFFSETS, 2, 1, (2,), at=22)
    return _logs(history, *FIRST, nodes=(2,))


@case(
    "a replica without it was elected uncleanly, as the settings allow",
    PASS,
    LOST_LAWFULLY,
    why="an unclean election that is allowed may cost what was committed",
)
def last_commit_and_an_allowed_election() -> HistoryBuilder:
    return _elected(settings={UNCLEAN: "true"})


@case("the same, and the settings forbid it", VIOLATION, LOST, why="the configuration promised that it cannot happen")
def last_commit_and_a_forbidden_election() -> HistoryBuilder:
    return _elected()


@case(
    "offsets are kept for a minute, and nothing of the group is left a minute and a half after its last member",
    PASS,
    why="its offsets expired, and their tombstones with them",
)
def last_commit_expired() -> HistoryBuilder:
    history = _logs(_commits(settings={"offsets.retention.minutes": "1"}), (3, 30.0))
    history.rows["consumer_offsets"][0]["group"] = "another"
    return history


@case("nobody recorded who was in sync", PASS, {}, why="nobody knows whose log has to have it")
def last_commit_without_states() -> HistoryBuilder:
    history = _logs(_commits(), *FIRST)
    history.rows["internal_partition_states"].clear()
    return history
