"""Evidence: replicas' logs, brokers' books, high watermarks, ends that were told, nodes that end by themselves."""

from collections.abc import Sequence
from typing import Any

from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, Entry, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"
AFTER = 120.0  # the logs are read after the final read, which is at 100
NEVER_PASS = (VIOLATION, OPEN)


def _logs(
    history: HistoryBuilder, logs: dict[int, Sequence[Entry]], *, high_watermark: int | None = None, at: float = AFTER
) -> HistoryBuilder:
    for node, log in logs.items():
        history.replica(node, log, at=at, high_watermark=len(log) if high_watermark is None else high_watermark)
    return history.finish(snapshots=False)


# ---- high watermarks and log ends --------------------------------------------------------------------------------


@case(
    "high watermarks on disk are at 4, 7 and 0, and all three logs have all ten records",
    PASS,
    why="a high watermark is written every five seconds, and lags",
)
def high_watermarks_that_lag() -> HistoryBuilder:
    history = led()
    for node, mark in ((1, 7), (2, 4), (3, 0)):
        history.replica(node, history.log, at=AFTER, high_watermark=mark)
    return history.finish(snapshots=False)


@case(
    "a follower in sync wrote down a high watermark of 12 beside a log that ends at 10, and nothing had happened",
    OPEN,
    {"evidence observation": SOME},
    why="nobody commits what is in no log",
)
def high_watermark_above_its_log() -> HistoryBuilder:
    history = led()
    for node in (1, 2, 3):
        history.replica(node, history.log, at=AFTER, high_watermark=12 if node == 3 else 10)
    return history.finish(snapshots=False)


def _short_follower(isr: Sequence[int]) -> HistoryBuilder:
    history = led().fault("pause", [3], at=5, until=90)
    history.state(1, 0, isr, at=8)
    return _logs(history, {1: history.log, 2: history.log, 3: history.log[:6]})


@case("a paused follower outside the ISR has six of ten records", PASS, why="it has left the ISR, and catches up")
def short_follower_outside() -> HistoryBuilder:
    return _short_follower((1, 2))


@case(
    "a paused follower has six of ten records, and is in the ISR to the end",
    NEVER_PASS,
    also=["evidence observation", "replica-divergence violation"],
    why="acks=all was answered for records that a member of the ISR lacks",
)
def short_follower_in_sync() -> HistoryBuilder:
    return _short_follower((1, 2, 3))


@case(
    "the leader's log begins at 4 by retention, its followers' still at 0",
    PASS,
    {"removed-by-configuration observation": {0, 1, 2, 3}},
    why="each replica deletes in its own time",
)
def followers_keep_what_the_leader_deleted() -> HistoryBuilder:
    history = led(topics={"t": {"retention.ms": "1000"}})
    whole = list(history.log)
    history.log = history.log[4:]
    _logs(history, {1: history.log, 2: whole, 3: whole}, high_watermark=10)
    history.rows["replica_snapshots"][0]["log_start_offset"] = 4
    history.partition.update(log_start_offset=4, cleanup_policy="delete")
    return history


# ---- epochs ------------------------------------------------------------------------------------------------------


def _stamped(late: Sequence[int]) -> HistoryBuilder:
    """Broker 2 leads epoch 1 from offset 10 on; what it takes is stamped with the epochs of `late`."""
    history = led().fail_over(2)
    for number, epoch in enumerate(late):
        history.ack(20 + number, at=15 + number, process=2)
        history.log[-1] = (10 + number, epoch, 20 + number)
    return history.finish()


@case("a new leader's records carry its epoch", PASS, why="a sound history")
def stamped_with_the_present_epoch() -> HistoryBuilder:
    return _stamped((1, 1, 1))


def _two_in_epoch_one(*, epoch: int, polled: bool) -> HistoryBuilder:
    history = led().fail_over(2)
    if polled:
        history.polled(3, 1, epoch, (1, 2, 3), at=9)
    return history.finish()


@case(
    "a follower still names the leader and the epoch of before, a second after an election",
    PASS,
    why="it has not heard of it yet",
)
def follower_names_the_old_leader() -> HistoryBuilder:
    return _two_in_epoch_one(epoch=0, polled=True)


@case(
    "a follower names broker 1 as the leader of epoch 1, which broker 2 leads by the books",
    VIOLATION,
    {"two-leaders violation": SOME},
    why="each epoch has one leader",
)
def follower_names_another_leader_of_the_epoch() -> HistoryBuilder:
    return _two_in_epoch_one(epoch=1, polled=True)


@case(
    "in exact books the epoch of the partition is 3, and later 2",
    OPEN,
    {"evidence observation": SOME},
    why="a controller only raises it",
)
def epoch_falls_in_the_books() -> HistoryBuilder:
    return led().state(2, 3, (1, 2, 3), at=8, start=10).state(1, 2, (1, 2, 3), at=15).finish()


def _joined_by_a_fourth(*, assigned: bool) -> HistoryBuilder:
    """Broker 4 is in the ISR from second 20 on."""
    history = led().state(1, 0, (1, 2, 3, 4), at=20)
    history.state(1, 0, (1, 2, 4), at=30)
    if assigned:
        for row in history.rows["partition_states"][-2:]:
            row["replicas"] = [1, 2, 3, 4] if row["time_ns"] == 20 * SECOND else [1, 2, 4]
    return history.finish(only=(1, 2, 4))


@case("a partition is moved from broker 3 to broker 4", PASS, why="a reassignment: the books name it as a replica")
def moved_to_another_broker() -> HistoryBuilder:
    return _joined_by_a_fourth(assigned=True)


@case(
    "a broker is in the ISR of a partition of which, by the same books, it is no replica",
    OPEN,
    {"evidence observation": SOME},
    why="only replicas are in sync",
)
def in_sync_and_no_replica() -> HistoryBuilder:
    return _joined_by_a_fourth(assigned=False)


# ---- disks against reads -----------------------------------------------------------------------------------------


def _given(*, replicas: Sequence[int], value: int, at: float = AFTER) -> HistoryBuilder:
    """At offset 5 the final read was given value 5; the logs of `replicas` have another one there, or the same."""
    history = led().send(77, None, at=3, status=2, process=2)
    log = [*history.log[:5], (5, 0, value), *history.log[6:]]
    return _logs(history, dict.fromkeys(replicas, log), at=at)


@case("readers and disks agree", PASS, why="a sound history")
def disks_agree() -> HistoryBuilder:
    return _given(replicas=(1, 2, 3), value=5)


@case(
    "readers are given 5 at offset 5; a moment later all three logs have 77 there, and the books are exact",
    VIOLATION,
    {"evidence violation": SOME},
    also=["inconsistent-offsets violation", "lost-write violation"],
    why="only the system can have parted the two",
)
def disks_disagree() -> HistoryBuilder:
    return _given(replicas=(1, 2, 3), value=77)


@case(
    "the same, and only the last leader's log was read",
    NEVER_PASS,
    also=["evidence observation", "evidence violation", "inconsistent-offsets violation", "lost-write violation"],
    why="it is the log that the readers were given",
)
def leaders_disk_disagrees() -> HistoryBuilder:
    return _given(replicas=(1,), value=77)


@case(
    "one replica's log could not be read; the two others agree with the readers",
    PASS,
    why="what is missing contradicts nothing",
)
def one_disk_missing() -> HistoryBuilder:
    return _given(replicas=(1, 2), value=5)


@case(
    "a line of a broker's journal cannot be read, and others follow",
    OPEN,
    {"evidence observation": SOME},
    why="a file that is cut at its end has no such line in its middle",
)
def unreadable_line_in_the_middle() -> HistoryBuilder:
    history = led().started(2, at=0.5)
    history._add("broker_events", node=2, time_ns=40 * SECOND, event="unreadable_line", detail_text="line 17")
    return history.started(2, at=50).finish()


def _nobody_sent(*, complete: bool) -> HistoryBuilder:
    """A record of producer 7's numbers is in the log and read; nothing tells that it was sent."""
    history = led(5).client(7, role="producer", acks=-1, idempotent=True, journal_complete=complete)
    history.send((7 << 40) + 1, 5, at=3, process=7)
    history.log += [(5, 0, (7 << 40) + 1), (6, 0, (7 << 40) + 2)]
    return history.poll([(offset, value) for offset, _, value in history.log], at=8).finish()


@case(
    "a record is read that its producer never wrote down, though its journal is whole",
    VIOLATION,
    {"phantom violation": SOME},
    why="what is sent is written down before",
)
def nobody_sent_it() -> HistoryBuilder:
    return _nobody_sent(complete=True)


@case(
    "a record is read that its producer did not write down, and its journal was cut short",
    OPEN,
    also=["phantom observation"],
    why="what is missing of the journal may have said so: nobody knows",
)
def perhaps_nobody_sent_it() -> HistoryBuilder:
    return _nobody_sent(complete=False)


# ---- the end that the final read is told -------------------------------------------------------------------------


def _answered(system: str, *, isolation: str = "read_uncommitted", acks: int = -1, end: int = 7) -> HistoryBuilder:
    """Asked at second 99 for the end, broker 1 answers `end`, and half a second later 10."""
    history = led(acks=acks, system=system).client(99, role="consumer", isolation=isolation, offset_reset="earliest")
    history.finish()
    for at, offset, come in ((99.0, end, 0), (99.5, 10, 7)):
        history.final_read("end", at=at, elapsed_s=0.05, leader_epoch=0, from_offset=come, to_offset=offset)
    return history


@case(
    "Kafka 2.8.2: the leader of 99 seconds says that the log ends at 7, and then at 10, as it did all the time",
    VIOLATION,
    {"end-told-too-low violation": 3},
    why="KIP-207: it answers its high watermark, and that had passed what acks=all had answered",
)
def end_told_too_low_since_kip_207() -> HistoryBuilder:
    return _answered("kafka:2.8.2")


@case(
    "the same on Kafka 2.1.1",
    PASS,
    {"end-told-too-low observation": SOME},
    why="before 2.2 a high watermark that lags was answered",
)
def end_told_too_low_before_kip_207() -> HistoryBuilder:
    return _answered("kafka:2.1.1")


@case(
    "the same of records with acks=1 that no consumer had",
    PASS,
    {"end-told-too-low observation": SOME},
    why="they may not have been replicated yet",
)
def end_told_too_low_of_acks_1() -> HistoryBuilder:
    return _answered("kafka:2.8.2", acks=1)


# ---- nodes that end by themselves --------------------------------------------------------------------------------


def _ended(*, struck: int | None = None, **columns: Any) -> HistoryBuilder:
    """Broker 3 of Kafka 4.3.1, whose controller is apart, ends at second 50."""
    history = led(system="kafka:4.3.1")
    if struck is not None:
        history.fault("pause", [struck], at=20, until=25)
        history.rows["faults"][-1]["links"] = []
    history._add("node_ends", **{"node": 3, "time_ns": 50 * SECOND, "uncertainty_ns": 0, "fresh": True, **columns})
    return history.state(1, 0, (1, 2), at=55).finish(only=(1, 2))


@case(
    "a broker ends with status 1 for an error of its own; another broker had been paused, and nothing else was done",
    VIOLATION,
    {"node-ended violation": SOME},
    why="no fault had touched that node, its disk, its links or the controllers",
)
def ended_by_itself() -> HistoryBuilder:
    return _ended(struck=2, exit_status=1, reason="exception", line_text="ERROR")


@case(
    "the same, and that broker had been paused",
    OPEN,
    {"node-ended observation": SOME},
    why="a fault had touched it, and does not explain it",
)
def ended_after_a_pause() -> HistoryBuilder:
    return _ended(struck=3, exit_status=1, reason="exception", line_text="ERROR")


@case(
    "a broker ends with status 143",
    OPEN,
    {"node-ended observation": SOME},
    why="SIGTERM, which the harness did not send",
)
def ended_by_a_signal_of_somebody() -> HistoryBuilder:
    return _ended(exit_status=143, reason="none", line_text="")


# ---- what is missing ---------------------------------------------------------------------------------------------


@case(
    "an allowed unclean election in the books, a record of acks=all gone; only a dead replica outside the ISR was read",
    PASS,
    {"lost-write permitted": {7, 8, 9}, "unclean-election permitted": SOME},
    why="the new leader's journal says where its log ended",
)
def only_a_dead_replica_was_read() -> HistoryBuilder:
    history = led(topics={"t": {UNCLEAN: "true"}})
    whole = list(history.log)
    history.state(1, 0, (1,), at=4)
    history.fail_over(2, kept=7, isr=(2,), back=False)
    return history.replica(1, whole, high_watermark=10).finish(snapshots=False)


@case(
    "a whole run by partial evidence: no journals, no logs, no clients' attempts, polled leaders; nothing is missing",
    PASS,
    why="everything acknowledged was read",
)
def little_evidence_and_nothing_missing() -> HistoryBuilder:
    history = led().fail_over(2)
    history.ack(10, at=20)
    history.finish(snapshots=False)
    for name in ("broker_events", "replica_snapshots", "replica_log"):
        history.rows[name] = []
    for row in history.rows["partition_states"]:
        row |= {"exact": False, "observer": 2, "isr_before": None, "leader_before": None, "unclean": None}
    return history


@case(
    "an acknowledged record is at another offset than its producer was told, and the told one does not exist",
    VIOLATION,
    {"duplicate violation": SOME},
    also=["lost-write violation", "evidence observation", "evidence violation"],
    why="it was answered at 500; what was there is gone, and nothing took it",
)
def acknowledged_far_beyond_the_end() -> HistoryBuilder:
    history = led().send(50, 500, at=5)
    history.log.append((10, 0, 50))
    return history.finish()


@case(
    "a record came late: fetched again at its place two seconds after the final read, it was there",
    PASS,
    {"late-record observation": SOME},
    why="late is not lost",
)
def came_late() -> HistoryBuilder:
    history = led().finish()
    found = {"process": 98, "since_ns": 100 * SECOND, "known": 1, "found": 1}
    return history.final_read("again", at=102, elapsed_s=1, from_offset=8, to_offset=9, **found)
