"""Compaction whose settings change while the run goes on: what might go meanwhile, and what only looks replaced."""

from collections.abc import Mapping, Sequence

from harness.history.schema.schemas import KIND_FINAL_POLL
from tests.outsiders.histories_of_settings import POLICY, Changes, of_a_topic
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case

UNCLEAN = "unclean.leader.election.enable"
GONE = {"removed-by-configuration observation": {0}}
NOT_GONE = ("lost-write violation",)
ACCUSED = {"compacted-away violation": {0}}


def _replaced(
    changes: Changes = (),
    *,
    settings: Mapping[str, str] | None = None,
    at: float = 2.0,
    policy: str = "delete",
    passed_over: float | None = None,
) -> HistoryBuilder:
    """Values 0 and 2 have key 1, value 1 has key 2; 2 is sent at that time, and value 0 is not in the final log."""
    history = of_a_topic(changes, {POLICY: policy, **(settings or {})})
    for value, (key, sent) in enumerate(((1, 1.0), (2, 1.5), (1, at))):
        history.ack(value, at=sent, key=key)
    _keyed_end(history, {0: 1, 1: 2, 2: 1}, without=(0,), policy=policy)
    if passed_over is not None:
        history.poll([(1, 1)], at=passed_over, process=9)
    return history


def _keyed_end(
    history: HistoryBuilder,
    keys: Mapping[int, int],
    *,
    without: Sequence[int],
    policy: str = "compact",
    snapshots: bool = False,
) -> None:
    end = len(history.log)
    history.log = [entry for entry in history.log if entry[2] not in without]
    history.finish(snapshots=snapshots)
    history.partition.update(log_start_offset=0, cleanup_policy=policy, end_offset=end)
    for row in history.rows["records"]:
        if row["kind"] == KIND_FINAL_POLL:
            row["key"] = keys[row["value"]]


# -- compaction for a while --------------------------------------


@case(
    "cleanup.policy was compact from 10 s to 40 s, and is delete again at the end",
    PASS,
    GONE,
    why="while it compacted, what was written over might go",
)
def compacted_for_a_while() -> HistoryBuilder:
    return _replaced([(0, POLICY, "delete"), (10, POLICY, "compact"), (40, POLICY, "delete")])


@case(
    "cleanup.policy was compact until 20 s before the later record of the key was sent",
    VIOLATION,
    ACCUSED,
    also=NOT_GONE,
    why="while it compacted, it was the last of its key",
)
def compacted_only_before_it_was_replaced() -> HistoryBuilder:
    return _replaced([(0, POLICY, "compact"), (20, POLICY, "delete")], at=40)


@case(
    "cleanup.policy became compact only at 60 s, and never was before",
    PASS,
    GONE,
    why="there was time enough until the final read",
)
def compacted_late() -> HistoryBuilder:
    return _replaced([(0, POLICY, "delete"), (60, POLICY, "compact")], policy="compact")


@case(
    "min.compaction.lag.ms is an hour, and what was written over is gone after two minutes",
    VIOLATION,
    ACCUSED,
    also=NOT_GONE,
    why="KIP-58: nothing younger is compacted",
)
def compacted_before_its_lag() -> HistoryBuilder:
    return _replaced(policy="compact", settings={"min.compaction.lag.ms": "3600000"})


@case(
    "min.compaction.lag.ms was an hour, and a second between 30 s and 50 s",
    PASS,
    GONE,
    why="for 20 s it could be compacted",
)
def compaction_lag_short_for_a_while() -> HistoryBuilder:
    lag = "min.compaction.lag.ms"
    return _replaced([(0, lag, "3600000"), (30, lag, "1000"), (50, lag, "3600000")], policy="compact")


@case(
    "min.compaction.lag.ms was short only before the later record was sent",
    VIOLATION,
    ACCUSED,
    also=NOT_GONE,
    why="the later one was never old enough while the lag was short",
)
def compaction_lag_short_too_early() -> HistoryBuilder:
    lag = "min.compaction.lag.ms"
    return _replaced([(0, lag, "1000"), (20, lag, "3600000")], at=50, policy="compact")


@case(
    "log.cleanup.policy of all brokers was compact for a while, dynamically; the topic has none",
    PASS,
    GONE,
    why="a topic without a policy has the brokers'",
)
def compacted_by_all_brokers() -> HistoryBuilder:
    history = HistoryBuilder(topics={"t": {}}).state(1, 0, (1, 2, 3), at=0, start=0)
    history.configured("log.cleanup.policy", "compact", at=10, scope="broker", name="")
    history.configured("log.cleanup.policy", "", at=40, scope="broker", name="")
    for value, key in enumerate((1, 2, 1)):
        history.ack(value, at=1 + value / 10, key=key)
    _keyed_end(history, {0: 1, 1: 2, 2: 1}, without=(0,), policy="delete")
    return history


def _tombstone(changes: Changes, *, at: float = 2.0) -> HistoryBuilder:
    """Key 1 is written at 0 and deleted at 2; neither is in the final log."""
    history = of_a_topic(changes, {POLICY: "compact"})
    for value, (key, sent) in enumerate(((1, 1.0), (2, 1.5), (1, at))):
        history.ack(value, at=sent, key=key)
    _keyed_end(history, {0: 1, 1: 2, 2: 1}, without=(0, 2))
    history.partition["end_offset"] = 3
    for row in history.rows["records"]:
        row["tombstone"] = row["value"] == 2
    return history


@case(
    "delete.retention.ms was a second for a while; the tombstone is gone",
    PASS,
    {"removed-by-configuration observation": {0, 2}},
    why="it was old enough meanwhile",
)
def tombstone_expired_for_a_while() -> HistoryBuilder:
    key = "delete.retention.ms"
    return _tombstone([(0, key, "86400000"), (30, key, "1000"), (50, key, "86400000")])


@case(
    "delete.retention.ms was a second only before the tombstone was sent",
    VIOLATION,
    {"compacted-away violation": {2}, "removed-by-configuration observation": {0}},
    also=NOT_GONE,
    why="since it was sent it had to stay for a day",
)
def tombstone_expired_too_early() -> HistoryBuilder:
    key = "delete.retention.ms"
    return _tombstone([(0, key, "1000"), (20, key, "86400000")], at=50)


# -- only what stayed is a later one -----------------------------

_REPLACED_BY_LOST = {0: 2, 1: 1, 2: 3, 50: 1, 51: 4}
_AFTER_IT = ("inconsistent-offsets permitted", "acknowledged-regression permitted", "reordering permitted")


def _replaced_by_a_lost_one(*, unclean: bool, back: bool = False) -> HistoryBuilder:
    """Value 50 replaces value 1 of key 1 and goes with a fail-over; value 1 is gone too."""
    history = HistoryBuilder(topics={"t": {POLICY: "compact", UNCLEAN: "true"}}).state(1, 0, (1, 2, 3), at=0, start=0)
    for value in range(3):
        history.ack(value, at=1 + value / 10, key=_REPLACED_BY_LOST[value])
    if unclean:
        history.fault("cut", [2, 3], at=3, until=9)
        history.state(1, 0, (1,), at=4)
    history.ack(50, at=5, acks=-1 if unclean else 1, key=1)
    history.fail_over(2, kept=3, isr=(2, 3) if not unclean else (2,))
    if back:
        history.fault("kill", [2], at=20, until=30)
        history.state(1, 2, (1, 3), at=22, start=3)
        history.state(1, 2, (1, 2, 3), at=32)
    history.ack(51, at=40, key=4)
    _keyed_end(history, _REPLACED_BY_LOST, without=(1,), snapshots=True)
    return history


@case(
    "the later record of the key was acknowledged with acks=1 and lost by a clean fail-over",
    VIOLATION,
    {"compacted-away violation": {1}, "lost-write permitted": {50}},
    also=_AFTER_IT,
    why="it was never below the high watermark, so no log was compacted for it",
)
def replaced_by_a_record_lost_in_a_fail_over() -> HistoryBuilder:
    return _replaced_by_a_lost_one(unclean=False)


@case(
    "the later record of the key was lost by an allowed unclean election; who leads had the earlier one in sync",
    VIOLATION,
    {"compacted-away violation": {1}, "lost-write permitted": {50}, "unclean-election permitted": SOME},
    also=_AFTER_IT,
    why="that leader never had the later one, and no cleaner took the last of a key",
)
def replaced_by_a_record_lost_uncleanly() -> HistoryBuilder:
    return _replaced_by_a_lost_one(unclean=True)


@case(
    "the same, and the broker that had the later record and cut it leads at the end",
    OPEN,
    {"removed-by-configuration observation": {1}, "lost-write permitted": {50}, "unclean-election permitted": SOME},
    also=_AFTER_IT,
    why="it may have compacted its log before it cut the later one",
)
def replaced_by_a_record_that_the_last_leader_cut() -> HistoryBuilder:
    return _replaced_by_a_lost_one(unclean=True, back=True)


@case(
    "the only later record of the key was aborted",
    VIOLATION,
    ACCUSED,
    also=NOT_GONE,
    why="what was aborted replaces nothing",
)
def replaced_by_an_aborted_record() -> HistoryBuilder:
    history = of_a_topic((), {POLICY: "compact"})
    history.client(1, role="producer", acks=-1, idempotent=True, transactional_id="x")
    history.transaction(5, 1, at=2, until=3)
    history.ack(0, at=1, key=1)
    history.ack(1, at=1.5, key=2)
    history.ack(2, at=2.1, key=1, transaction=5, status=1)
    _keyed_end(history, {0: 1, 1: 2, 2: 1}, without=(0,))
    return history


@case(
    "an allowed unclean election costs a record and the later one of its key, both above the new leader's log end",
    PASS,
    {"lost-write permitted": {3, 4}, "unclean-election permitted": SOME},
    also=_AFTER_IT,
    why="the election alone explains both",
)
def both_of_a_key_lost_uncleanly() -> HistoryBuilder:
    keys = {0: 1, 1: 2, 2: 3, 3: 4, 4: 4, 51: 5}
    history = HistoryBuilder(topics={"t": {POLICY: "compact", UNCLEAN: "true"}}).state(1, 0, (1, 2, 3), at=0, start=0)
    for value in range(3):
        history.ack(value, at=1 + value / 10, key=keys[value])
    history.fault("cut", [2, 3], at=3, until=9)
    history.state(1, 0, (1,), at=4)
    for value in (3, 4):
        history.ack(value, at=5 + value / 10, key=keys[value])
    history.fail_over(2, kept=3, isr=(2,))
    history.ack(51, at=40, key=5)
    _keyed_end(history, keys, without=(), snapshots=True)
    return history
