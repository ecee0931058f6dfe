"""Evidence that is withheld, polled only, at odds with itself, or ends early."""

from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"


@case(
    "a record is in no log and no event of any kind was seen, by exact books",
    VIOLATION,
    {"lost-write violation": {4}},
    why="there is nothing that could have been allowed to take it",
)
def gone_without_an_event() -> HistoryBuilder:
    history = led()
    history.log = [entry for entry in history.log if entry[2] != 4]
    return history.finish()


@case("the same with acks=1", VIOLATION, {"lost-write violation": {4}}, why="leadership never moved")
def gone_without_an_event_acks_1() -> HistoryBuilder:
    history = led(acks=1)
    history.log = [entry for entry in history.log if entry[2] != 4]
    return history.finish()


def _left_alone(least: str) -> HistoryBuilder:
    """The leader is alone in the ISR and takes two more with acks=1, above the high watermark at which readers end."""
    history = led(settings={"min.insync.replicas": least}).state(1, 0, (1,), at=5)
    for value in (20, 21):
        history.ack(value, at=10 + value / 100, acks=1)
    history.log = history.log[:10]
    return history.finish(snapshots=False)


@case(
    "with fewer in sync than min.insync.replicas the high watermark stands still; the final read ends there, and no "
    "log was read",
    OPEN,
    {"unseen-tail observation": {20, 21}},
    why="the records may stand above the high watermark: not seen is not lost",
)
def above_a_high_watermark_that_stands_still() -> HistoryBuilder:
    return _left_alone("2")


@case(
    "the same with enough in sync: the high watermark would have risen",
    VIOLATION,
    {"lost-write violation": {20, 21}},
    why="the leader kept its epoch, and its readers came to its end",
)
def above_a_high_watermark_that_rises() -> HistoryBuilder:
    return _left_alone("1")


@case(
    "the same as the first, and the only log in sync was read: it ends there",
    VIOLATION,
    {"lost-write violation": {20, 21}},
    why="the log of the only replica in sync has not got them",
)
def above_a_high_watermark_and_in_no_log() -> HistoryBuilder:
    history = _left_alone("2")
    return history.replica(1, history.log, high_watermark=10)


@case(
    "a loss, and no states of the partition at all; unclean elections are allowed",
    OPEN,
    {"lost-write observation": {7, 8, 9}},
    also=("evidence observation",),
    why="the lawful cause could have passed unseen; never a pass",
)
def no_states_at_all() -> HistoryBuilder:
    history = led(topics={"t": {UNCLEAN: "true"}}).fail_over(2, kept=7)
    history.rows["partition_states"].clear()
    history.rows["broker_events"].clear()
    history.rows["replica_snapshots"].clear()
    history.rows["replica_log"].clear()
    return history.finish(snapshots=False)


def _polled_only(history: HistoryBuilder) -> HistoryBuilder:
    """What three observers told twice a second, in place of the books."""
    exact = [dict(row) for row in history.rows["partition_states"]]
    history.rows["partition_states"].clear()
    for tick in range(90):
        at = tick / 2
        known = [row for row in exact if row["time_ns"] <= at * 10**9]
        if known:
            for node in history.brokers:
                history.polled(
                    node, known[-1]["leader"], known[-1]["leader_epoch"], known[-1]["isr"], at=at + node / 100
                )
    return history


@case(
    "polled states show a clean fail-over that lost acks=all records; unclean elections are allowed",
    (OPEN, VIOLATION),
    also=("lost-write observation", "lost-write violation", "unclean-election observation"),
    why="the ISR may have changed unseen between two polls: undecided, and never a pass",
)
def polled_clean_fail_over_where_unclean_is_allowed() -> HistoryBuilder:
    history = led(topics={"t": {UNCLEAN: "true"}}).fail_over(2, kept=7)
    _polled_only(history)
    return history.finish()


@case(
    "polled states show a fail-over that lost acks=all records; unclean elections are forbidden, no disk was harmed",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    also=("unclean-election observation",),
    why="whatever passed unseen, nothing lawful could have taken them",
)
def polled_fail_over_where_nothing_is_allowed() -> HistoryBuilder:
    history = led().fail_over(2, kept=7)
    _polled_only(history)
    return history.finish()


@case("polled states alone, and nothing lost", PASS, {}, why="a sound history")
def polled_and_sound() -> HistoryBuilder:
    history = led().fail_over(2)
    history.ack(10, at=20)
    _polled_only(history)
    return history.poll([(offset, offset) for offset in range(11)], at=30).finish()


@case(
    "the books say broker 2 leads epoch 1, broker 3 answers that itself leads epoch 1",
    VIOLATION,
    {"two-leaders violation": SOME},
    why="two brokers in one epoch, by what one of them answered",
)
def two_leaders_of_whom_one_is_polled() -> HistoryBuilder:
    return led().fail_over(2).polled(3, 3, 1, (2, 3), at=12).finish()


@case(
    "the books say broker 2 leads epoch 1, broker 3 journals that it began to lead epoch 1",
    VIOLATION,
    {"two-leaders violation": SOME},
    also=("evidence violation",),
    why="two brokers in one epoch, by one's journal",
)
def two_leaders_of_whom_one_journals() -> HistoryBuilder:
    return led().fail_over(2).leads(3, 1, 10, at=12).finish()


@case(
    "broker 1, cut off, answers for ten seconds that it leads epoch 0 while broker 2 leads epoch 1",
    PASS,
    why="two leaders in different epochs are lawful",
)
def a_zombie_that_says_so() -> HistoryBuilder:
    history = led().fault("cut", [1], at=5, until=20)
    history.state(2, 1, (2, 3), at=8, start=10)
    for at in range(9, 20):
        history.polled(1, 1, 0, (1, 2, 3), at=at)
        history.polled(2, 2, 1, (2, 3), at=at)
    return history.state(2, 1, (1, 2, 3), at=22).finish()


@case(
    "two producers are told the same offset in one epoch, and the log has one of the two",
    VIOLATION,
    {"inconsistent-offsets violation": SOME, "lost-write violation": {60}},
    why="offset to value is a function; no event took the other",
)
def one_offset_for_two_in_one_epoch() -> HistoryBuilder:
    return led(5).ack(50, at=4).send(60, 5, at=4, process=2).finish()


@case(
    "final reads from two replicas give different records at one offset",
    VIOLATION,
    {"inconsistent-offsets violation": SOME},
    also=("lost-write violation", "replica-divergence violation"),
    why="two final reads that disagree are always a violation",
)
def final_reads_that_disagree() -> HistoryBuilder:
    history = led(5).send(60, None, at=4, process=2, status=2)
    history.send(61, None, at=4, process=2, status=2)
    log = list(history.log)
    history.log = [*log, (5, 0, 60)]
    history.finish(logs={2: [*log, (5, 0, 61)]})
    history.poll([(offset, value) for offset, _, value in log] + [(5, 60)], at=101, final=True, process=98, replica=1)
    return history.poll(
        [(offset, value) for offset, _, value in log] + [(5, 61)], at=102, final=True, process=97, replica=2
    )


@case(
    "two in-sync replicas hold different records at one offset below both high watermarks; clients saw one",
    VIOLATION,
    {"replica-divergence violation": SOME},
    why="always a violation between members of the ISR",
)
def in_sync_replicas_that_differ() -> HistoryBuilder:
    history = led(6)
    return history.finish(logs={3: [*history.log[:5], (5, 0, 77)]})


@case(
    "the two logs differ in the epoch of the record alone",
    VIOLATION,
    {"replica-divergence violation": SOME},
    also=("evidence observation",),
    why="another leader epoch is a difference; in this one nobody led, by the books",
)
def in_sync_replicas_that_differ_in_an_epoch() -> HistoryBuilder:
    history = led(6)
    return history.finish(logs={3: [*history.log[:5], (5, 1, 5)]})


@case(
    "a dead replica, out of the ISR since before, has its own tail above its high watermark",
    PASS,
    {"lost-write permitted": {6, 7}},
    also=("inconsistent-offsets permitted", "acknowledged-regression permitted"),
    why="acks=1, cut off by a fail-over; the dead disk was never asked to cut",
)
def a_dead_replica_with_a_tail_of_its_own() -> HistoryBuilder:
    history = led(8, acks=1)
    full = list(history.log)
    history.fault("kill", [1], at=6)
    history.state(2, 1, (2, 3), at=8, start=6)
    history.log = history.log[:6]
    history.ack(20, at=12, process=2)
    history.ack(21, at=13, process=2)
    for node in (2, 3):
        history.replica(node, history.log, high_watermark=8)
    return history.replica(1, full, high_watermark=6).finish(snapshots=False)


@case(
    "the final read ended early, and only the leader's disk could be read; it lacks the record",
    OPEN,
    {"unseen-tail observation": {7, 8, 9}},
    also=("lost-write observation",),
    why="nobody looked that far, and two in-sync logs were not read",
)
def final_read_ends_early_with_one_disk_read() -> HistoryBuilder:
    history = led(read_to_end=False)
    history.replica(1, history.log[:7], high_watermark=7)
    history.finish(high_watermark=7, snapshots=False)
    history.partition["end_offset"] = None
    return history


@case(
    "the final read ended early, but returned a record above the one that is missing",
    VIOLATION,
    {"lost-write violation": {4}, "unseen-tail observation": {8, 9}},
    why="it read a higher offset: it went past it",
)
def final_read_ends_early_above_a_hole() -> HistoryBuilder:
    history = led(read_to_end=False)
    history.log = [entry for entry in history.log if entry[2] != 4]
    history.finish(high_watermark=8, snapshots=False)
    history.partition["end_offset"] = None
    return history


@case(
    "the final read ended early, and every in-sync disk was read: none has the record",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    why="every in-sync replica's log was read from disk, and none has it",
)
def final_read_ends_early_and_no_disk_has_it() -> HistoryBuilder:
    history = led(read_to_end=False)
    history.log = history.log[:7]
    history.finish()
    history.partition["end_offset"] = None
    return history


@case(
    "the leader is elected twice in a row, cleanly, at the same nanosecond as an acknowledgement; nothing is lost",
    PASS,
    why="equal times are no offence",
)
def everything_at_one_moment() -> HistoryBuilder:
    history = led().send(10, 10, at=8, elapsed_s=0)
    history.log.append((10, 0, 10))
    history.state(2, 1, (2, 3), at=8, start=11)
    history.state(3, 2, (2, 3), at=8, start=11)
    history.state(3, 2, (1, 2, 3), at=8)
    return history.poll([(offset, offset) for offset in range(11)], at=8, epoch=0).finish()


@case(
    "acknowledged and polled rows stand in the table in no order of time; nothing is lost",
    PASS,
    why="rows need no order; times tell",
)
def rows_out_of_order() -> HistoryBuilder:
    history = led().poll([(offset, offset) for offset in range(5)], at=3)
    history.poll([(offset, offset) for offset in range(5, 10)], at=4)
    history.fail_over(2)
    history.finish()
    for table in ("records", "partition_states", "replica_snapshots", "broker_events", "faults"):
        history.rows[table].reverse()
    return history


@case(
    "all disks' logs are missing at the end; the final read reached the end without three acks=1 records, after a "
    "clean fail-over",
    PASS,
    {"lost-write permitted": {7, 8, 9}},
    why="acks=1, leadership moved, its journal tells a log end of 7",
)
def no_disks_but_a_journal() -> HistoryBuilder:
    history = led(acks=1).fail_over(2, kept=7)
    history.rows["replica_snapshots"].clear()
    history.rows["replica_log"].clear()
    return history.finish(snapshots=False)


@case(
    "the final read reached the answered end 7, and every in-sync disk has ten records under high watermark 10",
    VIOLATION,
    {"end-told-too-low violation": {7, 8, 9}},
    also=("unreadable observation",),
    why="KIP-207: a leader in force answers its high watermark, and acks=all was answered below that",
)
def end_offset_below_the_high_watermark() -> HistoryBuilder:
    history = led()
    for node in history.brokers:
        history.replica(node, history.log, high_watermark=10)
    history.log = history.log[:7]
    return history.finish(snapshots=False)


@case(
    "readers saw a record in the final read that all three logs on disk lack",
    (VIOLATION, OPEN),
    also=("evidence violation", "evidence observation", "replica-divergence violation", "lost-write violation"),
    why="what contradicts itself is never a pass",
)
def final_read_against_all_disks() -> HistoryBuilder:
    history = led()
    for node in history.brokers:
        history.replica(node, history.log[:9], high_watermark=9)
    return history.finish(snapshots=False)


@case(
    "an in-sync follower's log ends at 8 at the end, though the leader's high watermark is 10",
    (VIOLATION, OPEN),
    also=(
        "evidence violation",
        "evidence observation",
        "replica-divergence violation",
        "replica-divergence observation",
    ),
    why="a record below the high watermark is on every member of the ISR; one lacks two: never a pass",
)
def in_sync_follower_below_the_high_watermark() -> HistoryBuilder:
    history = led()
    return history.finish(logs={3: history.log[:8]})


@case(
    "a broker led epoch 3; the books' last epoch of the partition is 0, and they go on until later",
    OPEN,
    {"evidence observation": SOME},
    why="a controller writes an epoch before its leader hears of it",
)
def led_behind_the_books_last_epoch() -> HistoryBuilder:
    history = led(10).leads(2, 3, 10, at=8)
    history.state(1, 0, (1, 2), at=20)
    return history.state(1, 0, (1, 2, 3), at=25).finish()


@case(
    "the same, and only the books of another partition go on",
    OPEN,
    {"evidence observation": SOME},
    why="they are one log",
)
def led_behind_the_books_of_another_partition() -> HistoryBuilder:
    history = led(10).place(1, "t", 1)
    history.leads(2, 3, 10, at=8)
    return history.state(1, 0, (1, 2, 3), at=25, partition_id=1).finish()


@case(
    "a broker led epoch 3 after the last thing that the books have",
    PASS,
    why="the books may have been cut there: they are silent, and contradict nothing",
)
def led_after_the_books_end() -> HistoryBuilder:
    return led(10).leads(2, 3, 10, at=30).finish()
