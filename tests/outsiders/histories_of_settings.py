"""Settings that change while the run goes on, and what holds where nobody set one: each release has its defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.history.schema.schemas import KIND_FINAL_POLL
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"
POLICY, RETENTION, LEAST = "cleanup.policy", "retention.ms", "min.insync.replicas"
GONE = {"removed-by-configuration observation": {0}}
ACCUSED = {"compacted-away violation": {0}}
NOT_GONE = ("lost-write violation",)
Changes = Sequence[tuple[float, str, str]]  # at, key, value


def _of_a_topic(changes: Changes, settings: Mapping[str, str]) -> HistoryBuilder:
    history = HistoryBuilder(topics={"t": settings}).state(1, 0, (1, 2, 3), at=0, start=0)
    for at, key, value in changes:
        history.configured(key, value, at=at)
    return history


def _replaced(
    changes: Changes = (),
    *,
    settings: Mapping[str, str] | None = None,
    at: float = 2.0,
    policy: str = "delete",
    passed_over: float | None = None,
) -> HistoryBuilder:
    """Values 0 and 2 have key 1, value 1 has key 2; 2 is sent at that time, and value 0 is not in the final log."""
    history = _of_a_topic(changes, {POLICY: policy, **(settings or {})})
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
    history = _of_a_topic(changes, {POLICY: "compact"})
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
    history = _of_a_topic((), {POLICY: "compact"})
    history.client(1, role="producer", acks=-1, idempotent=True, transactional_id="x")
    history.transaction(5, 1, at=2, until=3)
    history.ack(0, at=1, key=1)
    history.ack(1, at=1.5, key=2)
    history.ack(2, at=2.1, key=1, transaction=5, status=1)
    _keyed_end(history, {0: 1, 1: 2, 2: 1}, without=(0,))
    return history


# -- retention for a while ---------------------------------------


def _expired(changes: Changes, *, at: float = 1.0) -> HistoryBuilder:
    """Values 0 to 9 from that time on; the final log begins at 5."""
    history = _of_a_topic(changes, {POLICY: "delete"})
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
    history.ack(1, at=acks_at)
    return history.finish(only=(1,))


TOO_FEW = {"acknowledged-below-min-isr violation": {1}}


@case(
    "min.insync.replicas went from 1 to 2 and back; it was 1 when a leader alone answered",
    PASS,
    {},
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
    {},
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


# -- defaults belong to a release --------------------------------


def _unclean(system: str) -> HistoryBuilder:
    """Broker 2, outside the ISR, is elected without the last three records; nobody set anything."""
    history = led(system=system).state(1, 0, (1,), at=3)
    history.fail_over(2, kept=7, isr=(2,))
    return history.finish()


FORBIDDEN = {"lost-write violation": {7, 8, 9}, "unclean-election violation": SOME}
ALLOWED = {"lost-write permitted": {7, 8, 9}, "unclean-election permitted": SOME}


@case(
    "an unclean election on 0.10.2.2, where nobody set anything",
    PASS,
    ALLOWED,
    why="KIP-106: its default is true until 0.11",
)
def unclean_by_the_old_default() -> HistoryBuilder:
    return _unclean("kafka:0.10.2.2")


@case(
    "an unclean election on 0.11.0.3, where nobody set anything",
    VIOLATION,
    FORBIDDEN,
    why="KIP-106: its default is false from 0.11 on",
)
def unclean_by_the_new_default() -> HistoryBuilder:
    return _unclean("kafka:0.11.0.3")


@case(
    "an unclean election on 0.10.2.2, whose brokers said at their start that they use false",
    VIOLATION,
    FORBIDDEN,
    why="what they say of themselves is before any table",
)
def unclean_against_the_brokers_own_word() -> HistoryBuilder:
    history = _unclean("kafka:0.10.2.2")
    for node in history.brokers:
        history.said_at_start(node, UNCLEAN, "false")
    return history


@case(
    "an unclean election on an unpacked distribution, whose brokers said at their start that they use true",
    PASS,
    ALLOWED,
    why="the release is not known, their word is",
)
def unclean_by_the_brokers_own_word() -> HistoryBuilder:
    history = _unclean("kafka:/opt/kafka")
    for node in history.brokers:
        history.said_at_start(node, UNCLEAN, "true")
    return history


@case(
    "0.10.2.2, and the topic itself forbids unclean elections",
    VIOLATION,
    FORBIDDEN,
    why="a topic's own setting is before the brokers'",
)
def unclean_old_default_forbidden_by_the_topic() -> HistoryBuilder:
    return _unclean("kafka:0.10.2.2").configured(UNCLEAN, "false")


@case("an unclean election on 0.9.0.1, where nobody set anything", PASS, ALLOWED, why="KIP-106: true until 0.11")
def unclean_by_the_oldest_default() -> HistoryBuilder:
    return _unclean("kafka:0.9.0.1")


@case(
    "an unclean election on 0.10.2.2, whose scenario forbids it to the brokers",
    VIOLATION,
    FORBIDDEN,
    why="what is set is before any default",
)
def unclean_old_default_forbidden_to_the_brokers() -> HistoryBuilder:
    history = _unclean("kafka:0.10.2.2")
    history.scenario = replace(history.scenario, cluster=replace(history.scenario.cluster, settings={UNCLEAN: "false"}))
    return history


# -- the retention of groups' offsets ----------------------------

_HOUR_S = 3600.0


def _forgotten(
    system: str, *, after_h: float, member_h: float | None = None, minutes: str | None = None
) -> HistoryBuilder:
    """A group commits 10 and asks again that many hours later: there is none. member_h: when it had a member last."""
    history = led(system=system, settings={} if minutes is None else {"offsets.retention.minutes": minutes})
    for process in (11, 12):
        history.client(process, role="consumer", group="g", offset_reset="earliest", isolation="read_uncommitted")
    history.group("assigned", at=2.5, process=11, generation=1, offset=0)
    history.poll([(offset, offset) for offset in range(10)], at=3, process=11)
    history.group("committed", at=4.5, process=11, offset=10, generation=1)
    if member_h is not None:
        history.group("revoked", at=member_h * _HOUR_S, process=11, generation=1)
    history.group("fetched", at=after_h * _HOUR_S, process=12, offset=-1)
    history.finish()
    for row in history.rows["records"]:
        if row["kind"] == KIND_FINAL_POLL:
            row.update(
                invoked_ns=row["invoked_ns"] + int(400 * _HOUR_S * 1e9),
                completed_ns=row["completed_ns"] + int(400 * _HOUR_S * 1e9),
            )
    return history


FORGOTTEN = {"lost-group-offset violation": SOME}


@case(
    "1.1.1: a group's offset is gone 25 hours after its commit",
    PASS,
    {},
    why="KIP-186: until 2.0 offsets are kept for 1,440 minutes",
)
def offsets_expired_by_the_old_default() -> HistoryBuilder:
    return _forgotten("kafka:1.1.1", after_h=25)


@case(
    "4.3.1: a group's offset is gone 25 hours after its commit",
    VIOLATION,
    FORGOTTEN,
    why="KIP-186: from 2.0 on offsets are kept for a week",
)
def offsets_expired_before_the_new_default() -> HistoryBuilder:
    return _forgotten("kafka:4.3.1", after_h=25)


@case(
    "2.0.1: an offset is gone 8 days after its commit, though its group had a member until an hour before",
    PASS,
    {},
    why="KIP-211: until 2.1 offsets expire in groups that are in use, too",
)
def offsets_of_a_group_in_use_expired() -> HistoryBuilder:
    return _forgotten("kafka:2.0.1", after_h=24 * 8, member_h=24 * 8 - 1)


@case(
    "2.8.2: an offset is gone 8 days after its commit, though its group had a member until an hour before",
    VIOLATION,
    FORGOTTEN,
    why="KIP-211: the time begins when the last member has left",
)
def offsets_of_a_group_in_use_kept() -> HistoryBuilder:
    return _forgotten("kafka:2.8.2", after_h=24 * 8, member_h=24 * 8 - 1)


@case(
    "1.1.1 with offsets.retention.minutes of a week: an offset is gone after 25 hours",
    VIOLATION,
    FORGOTTEN,
    why="a setting is before the default",
)
def offsets_expired_before_the_setting() -> HistoryBuilder:
    return _forgotten("kafka:1.1.1", after_h=25, minutes="10080")


# -- before leader epochs --------------------------------------------------


def _without_epochs(*, first: int, sent: float = 20.0, allowed: str = "true") -> HistoryBuilder:
    """0.10.2.2: no log has epochs. Ten records are acknowledged by leader 1 alone; broker 2 is elected, and nobody says
    with which log. Then others are acknowledged from that offset on."""
    history = HistoryBuilder(system="kafka:0.10.2.2", topics={"t": {UNCLEAN: allowed}}).state(1, 0, (1, 2, 3), at=0)
    for value in range(10):
        history.ack(value, at=1 + value / 10)
    history.state(1, 0, (1,), at=3)
    history.fault("kill", [1], at=6, until=30)
    history.state(2, 1, (2,), at=8)
    history.log = history.log[:first]
    for value in range(20, 30):
        history.ack(value, at=sent + (value - 20) / 10)
    history.state(2, 1, (1, 2, 3), at=40)
    history.finish(snapshots=False)
    for row in history.rows["records"]:
        row["leader_epoch"] = None
    return history


@case(
    "before leader epochs: an allowed unclean election, and its leader acknowledges others from offset 7 on",
    PASS,
    {"lost-write permitted": {7, 8, 9}, "unclean-election permitted": SOME},
    also=("inconsistent-offsets permitted", "acknowledged-regression permitted", "reordering permitted"),
    why="its log ended at 7 or below, so it never had the three",
)
def unclean_before_epochs() -> HistoryBuilder:
    return _without_epochs(first=7)


@case(
    "the same, and the topic forbids unclean elections",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}, "unclean-election violation": SOME},
    also=("inconsistent-offsets violation", "acknowledged-regression violation", "reordering violation"),
    why="nothing permits it",
)
def unclean_before_epochs_forbidden() -> HistoryBuilder:
    return _without_epochs(first=7, allowed="false")


@case(
    "before leader epochs: offset 5 of the ten is gone, and the new leader acknowledges others from offset 10 on only",
    (VIOLATION, OPEN),
    {},
    also=("lost-write violation", "lost-write observation", "unclean-election observation"),
    why="whether the new leader had it nobody knows; what it acknowledged says nothing of what lies below",
)
def gone_below_what_the_new_leader_acknowledged() -> HistoryBuilder:
    history = _without_epochs(first=10)
    history.rows["records"] = [
        row for row in history.rows["records"] if not (row["kind"] == KIND_FINAL_POLL and row["value"] == 5)
    ]
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
    {},
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
