"""What holds where nobody set anything: each release has its defaults, and the oldest ones have no leader epochs."""

from dataclasses import replace

from harness.history.schema.schemas import KIND_FINAL_POLL
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"

# -- defaults belong to a release --------------------------------


def _unclean(system: str) -> HistoryBuilder:
    """Broker 2, outside the ISR, is elected without the last three records; nobody set anything."""
    return led(system=system).state(1, 0, (1,), at=3).fail_over(2, kept=7, isr=(2,)).finish()


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
    history.members(11, 12)
    history.group("assigned", at=2.5, process=11, generation=1, offset=0)
    history.reads(11, range(10), at=3)
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
    also=("lost-write violation", "lost-write observation", "unclean-election observation"),
    why="whether the new leader had it nobody knows; what it acknowledged says nothing of what lies below",
)
def gone_below_what_the_new_leader_acknowledged() -> HistoryBuilder:
    history = _without_epochs(first=10)
    history.rows["records"] = [
        row for row in history.rows["records"] if not (row["kind"] == KIND_FINAL_POLL and row["value"] == 5)
    ]
    return history
