"""Two things that may have cost a record, of which one did not: what outlived an event was not lost by it."""

from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = {"unclean.leader.election.enable": "true"}
UNCLEAN_T = {"t": UNCLEAN}
TAIL = {7, 8, 9}
EVERYTHING = set(range(10))
REST = (
    "unclean-election observation",
    "unclean-election permitted",
    "inconsistent-offsets permitted",
    "acknowledged-regression permitted",
)


@case(
    "a request for an unclean election failed a minute before one came by itself",
    VIOLATION,
    {"lost-write violation": TAIL, "unclean-election violation": SOME},
    why="even if it had been granted unseen, it would have been granted then",
)
def request_that_failed_long_ago() -> HistoryBuilder:
    history = led().asked_unclean("failed", at=5, until=5.5)
    history.state(1, 0, (1,), at=60)
    return history.fail_over(2, kept=7, isr=(2,), at=70).finish()


@case(
    "a request was granted a minute before, and found nothing to do; then an unclean election comes by itself",
    VIOLATION,
    {"lost-write violation": TAIL, "unclean-election violation": SOME},
    why="it allowed the election that it asked for, and at that time",
)
def request_that_was_granted_long_ago() -> HistoryBuilder:
    history = led().asked_unclean("ok", at=5, until=5.5)
    history.state(1, 0, (1,), at=60)
    return history.fail_over(2, kept=7, isr=(2,), at=70).finish()


@case(
    "an allowed unclean election kept everything, and a clean one after it loses the tail",
    VIOLATION,
    {"lost-write violation": TAIL},
    also=REST,
    why="the unclean one's log began above the records",
)
def unclean_then_clean() -> HistoryBuilder:
    history = led(topics=UNCLEAN_T).state(1, 0, (1,), at=4)
    history.fail_over(2, kept=10, isr=(2,))
    return history.fail_over(3, kept=7, at=30).finish()


@case(
    "a clean election loses the tail, and an allowed unclean one after it could not have kept it",
    VIOLATION,
    {"lost-write violation": TAIL},
    also=REST,
    why="the first leader whose log lacked it was elected cleanly",
)
def clean_then_unclean() -> HistoryBuilder:
    history = led(topics=UNCLEAN_T).fail_over(2, kept=7)
    history.state(2, 1, (2,), at=20)
    return history.fail_over(3, kept=7, isr=(3,), at=30).finish()


@case(
    "the only in-sync disk is lost after another replica had joined; that one is elected with a shorter log",
    (VIOLATION, OPEN),
    also=(*REST, "lost-write violation", "lost-write observation"),
    why="broker 3 was in sync, and its disk was whole; only a journal tells that broker 2 had it: never permitted",
)
def disk_lost_after_another_joined() -> HistoryBuilder:
    history = led(topics=UNCLEAN_T).state(1, 0, (1,), at=4)
    history.fail_over(2, kept=10, isr=(2,), back=False)
    history.state(2, 1, (2, 3), at=15)
    history.destroyed("wipe", 2, "disk", at=20)
    history.state(3, 2, (3,), at=21, start=7)
    history.log = history.log[:7]
    return history.state(3, 2, (1, 2, 3), at=30).finish()


@case(
    "the only in-sync disk is lost; half a minute later a replica in sync shows all of it; at the end it is gone",
    VIOLATION,
    {"lost-write violation": EVERYTHING},
    why="a copy on a replica in sync after the destruction",
)
def copy_in_sync_after_the_disk() -> HistoryBuilder:
    history = led().state(1, 0, (1,), at=5)
    history.destroyed("wipe", 1, "disk", at=6)
    history.state(1, 0, (1, 2), at=20)
    history.replica(2, history.log, at=30, reason="heal", high_watermark=10)
    history.log = []
    return history.finish(only=(1, 2))


@case(
    "an acks=1 tail outlives a fail-over to broker 2, which later comes back by itself and leads without it",
    VIOLATION,
    {"lost-write violation": TAIL},
    why="leadership moved to a log that had it; where it was lost, leadership did not move",
)
def acks_1_moved_and_then_lost_in_place() -> HistoryBuilder:
    history = led(acks=1).fail_over(2, kept=10, isr=(2,), back=False)
    history.fault("kill", [2], at=20, until=21)
    history.replica(2, history.log, at=20, reason="kill", high_watermark=None)
    history.state(-1, 2, (2,), at=21)
    history.state(2, 3, (2,), at=22, start=7)
    history.log = history.log[:7]
    return history.finish(only=(2,))


@case(
    "the fail-over was before the acks=1 record was acknowledged, and none came after",
    VIOLATION,
    {"lost-write violation": {12}},
    why="leadership has to move after the acknowledgement",
)
def acks_1_after_the_fail_over() -> HistoryBuilder:
    history = led(acks=1).fail_over(2)
    for value in (10, 11, 12):
        history.ack(value, at=20 + value / 100, acks=1)
    history.log = history.log[:-1]
    return history.finish()


@case(
    "leadership moved in the partition beside",
    VIOLATION,
    {"lost-write violation": {9}},
    why="an exception reaches no further than its partition",
)
def acks_1_and_a_fail_over_in_the_neighbour() -> HistoryBuilder:
    history = led(acks=1).place(1, "t", 1)
    history.state(1, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.state(2, 1, (2, 3), at=8, start=0, partition_id=1)
    history.log = history.log[:-1]
    return history.finish()


@case(
    "acks=1, acks=all, acks=1 in a row are lost by a clean fail-over",
    VIOLATION,
    {"lost-write violation": SOME},
    also=("lost-write permitted",),
    why="acks=all of 8 is a promise; unsure of 7: an acknowledgement of 8 by all tells that 7 is committed as well",
)
def acks_1_below_one_of_all() -> HistoryBuilder:
    history = led(7, acks=1).ack(7, at=3, acks=1)
    history.ack(8, at=3.2, acks=-1)
    history.ack(9, at=3.4, acks=1)
    return history.fail_over(2, kept=7).finish()


@case(
    "a consumer read offset 9 alone before an acks=1 tail was lost by a clean fail-over",
    VIOLATION,
    {"lost-write violation": SOME, "dirty-read violation": {9}},
    also=("lost-write permitted",),
    why="what was read was committed; unsure of 7 and 8, which lie below a record that was handed out",
)
def acks_1_below_one_that_was_read() -> HistoryBuilder:
    return led(acks=1).poll([(9, 9)], at=3, epoch=0).fail_over(2, kept=7).finish()


@case(
    "an isolated old leader hands out its tail after an allowed unclean election had given it up",
    PASS,
    {"lost-write permitted": TAIL, "dirty-read permitted": TAIL, "unclean-election permitted": SOME},
    why="the old leader answered: a deposed replica's own copy proves nothing of its successor's log",
)
def read_from_the_old_leader_after_the_unclean_election() -> HistoryBuilder:
    history = led(topics=UNCLEAN_T).state(1, 0, (1,), at=4)
    history.fault("cut", [1], at=6, until=40)
    history.state(2, 1, (2,), at=8, start=7)
    history.poll([(offset, offset) for offset in range(10)], at=20, epoch=0)
    history.replica(1, history.log, at=40, reason="heal", high_watermark=10)
    history.truncation(1, 7, 10, epoch=1, at=41)
    history.log = history.log[:7]
    return history.state(2, 1, (1, 2, 3), at=45).finish()


@case(
    "the old leader is dead from 6 to 40; at 20 a consumer is given the tail, which only the uncleanly elected "
    "leader can have; a clean election loses it",
    VIOLATION,
    {"lost-write violation": TAIL, "dirty-read violation": TAIL},
    also=REST,
    why="a read that only a leader downstream of the unclean election can have answered",
)
def read_while_the_old_leader_was_dead() -> HistoryBuilder:
    history = led(topics=UNCLEAN_T).state(1, 0, (1,), at=4)
    history.fault("kill", [1], at=6, until=40)
    history.state(2, 1, (2,), at=8)
    history.poll([(offset, offset) for offset in range(10)], at=20, epoch=0)
    history.state(2, 1, (2, 3), at=25)
    history.state(3, 2, (3,), at=30, start=7)
    history.log = history.log[:7]
    return history.state(3, 2, (1, 2, 3), at=50).finish()


@case(
    "in-sync broker 2 loses its disk and is elected cleanly, though in-sync broker 1 is whole and comes back",
    VIOLATION,
    {"lost-write violation": EVERYTHING},
    also=("replica-divergence violation",),
    why="one in-sync replica stayed whole",
)
def emptied_replica_elected_cleanly() -> HistoryBuilder:
    history = led().state(1, 0, (1, 2), at=4)
    history.fault("kill", [1], at=5.5, until=12)
    history.destroyed("wipe", 2, "disk", at=6)
    history.state(2, 1, (2,), at=8, start=0)
    history.truncation(1, 0, 10, epoch=1, at=13)
    history.log = []
    return history.state(2, 1, (1, 2, 3), at=15).finish()


@case(
    "the final read leaves out a record that all three logs on disk hold between its neighbours",
    VIOLATION,
    {"lost-write violation": {4}},
    also=("evidence violation", "evidence observation", "skipped-read violation"),
    why="no final read returned it, and the read went past it; no event explains that",
)
def left_out_by_the_final_read() -> HistoryBuilder:
    history = led()
    for node in history.brokers:
        history.replica(node, history.log, high_watermark=10)
    history.log = [entry for entry in history.log if entry[2] != 4]
    return history.finish(snapshots=False)


@case(
    "the final read reached end 7, no disk was read, nothing ever happened",
    VIOLATION,
    {"lost-write violation": TAIL},
    why="the final read reached the end that the leader answered",
)
def end_fell_without_an_event() -> HistoryBuilder:
    history = led()
    history.log = history.log[:7]
    return history.finish(snapshots=False)


@case(
    "the books' own mark of an unclean election is missing; the states show that 2 was outside the ISR",
    VIOLATION,
    {"unclean-election violation": SOME, "lost-write violation": TAIL},
    why="by the states of the partition in order, not by a mark",
)
def unmarked_unclean_election() -> HistoryBuilder:
    history = led().state(1, 0, (1,), at=4, elr=())
    history.fail_over(2, kept=7, isr=(2,))
    for row in history.rows["partition_states"]:
        row["unclean"] = False
    return history.finish()


@case(
    "an election is marked unclean, and allowed, though the states show that 2 was in the ISR",
    VIOLATION,
    {"lost-write violation": TAIL},
    also=("evidence violation", "unclean-election observation"),
    why="by the states of the partition it was clean",
)
def clean_election_marked_unclean() -> HistoryBuilder:
    history = led(topics=UNCLEAN_T).fail_over(2, kept=7)
    for row in history.rows["partition_states"]:
        row["unclean"] = row["leader_epoch"] == 1
    return history.finish()


@case(
    "a record of the new epoch, answered within the blur of its unclean election's time, vanishes later",
    VIOLATION,
    {"lost-write permitted": TAIL, "lost-write violation": {20}},
    also=(*REST, "inconsistent-offsets violation"),
    why="a snapshot shows it in the new leader's log in the new epoch: that election did not cost it",
)
def acknowledged_in_the_blur_of_the_election() -> HistoryBuilder:
    history = led(topics=UNCLEAN_T).state(1, 0, (1,), at=4)
    history.fail_over(2, kept=7, isr=(2,))
    for row in history.rows["partition_states"]:
        row["uncertainty_ns"] = 500_000_000 if row["leader_epoch"] == 1 else 0
    history.ack(20, at=7.9, elapsed_s=0.2, process=2)
    history.replica(2, history.log, at=20, reason="heal", high_watermark=8)
    history.log = history.log[:7]
    return history.finish()


@case(
    "a dead replica's disk still has, below its own high watermark, what an allowed unclean election gave up",
    PASS,
    {"lost-write permitted": TAIL, "unclean-election permitted": SOME},
    also=(*REST, "replica-divergence permitted"),
    why="a replica that has not come back may hold what the others gave up",
)
def dead_replica_holds_what_was_given_up() -> HistoryBuilder:
    return _given_up(allowed=True)


@case(
    "the same where unclean elections are forbidden",
    VIOLATION,
    {"lost-write violation": TAIL, "unclean-election violation": SOME},
    also=(
        "replica-divergence violation",
        "inconsistent-offsets violation",
        "acknowledged-regression violation",
        "inconsistent-offsets permitted",
        "acknowledged-regression permitted",
    ),
    why="nobody allowed it",
)
def dead_replica_holds_what_was_given_up_unlawfully() -> HistoryBuilder:
    return _given_up(allowed=False)


def _given_up(*, allowed: bool) -> HistoryBuilder:
    history = led(topics=UNCLEAN_T if allowed else {"t": {}})
    full = list(history.log)
    history.state(1, 0, (1,), at=4)
    history.fault("kill", [1], at=6)
    history.replica(1, full, at=6, reason="kill", high_watermark=10)
    history.state(2, 1, (2,), at=8, start=7)
    history.log = full[:7]
    for value in (20, 21, 22):
        history.ack(value, at=12 + value / 100, process=2)
    return history.state(2, 1, (2, 3), at=20).finish(logs={1: full})


@case(
    "an acknowledged value is cut by an allowed unclean election, and its late retry stands elsewhere in the log",
    PASS,
    {"duplicate permitted": SOME, "unclean-election permitted": SOME, "lost-write permitted": {8, 9}},
    also=REST,
    why="moved: judged like the loss of the first copy, which was permitted; the value itself is there",
)
def moved_by_an_allowed_unclean_election() -> HistoryBuilder:
    history = led(topics=UNCLEAN_T).state(1, 0, (1,), at=4)
    history.fail_over(2, kept=7, isr=(2,))
    history.log += [(7, 1, 20), (8, 1, 7)]
    return history.send(20, 7, at=12, process=2).finish()


@case(
    "a consumer at 10 goes on there after an allowed cut to 7; what took the place of 7 to 9 it never sees",
    PASS,
    {"lost-write permitted": TAIL, "dirty-read permitted": TAIL, "unclean-election permitted": SOME},
    also=REST,
    why="an allowed loss moved the log under it",
)
def consumer_goes_on_behind_the_cut() -> HistoryBuilder:
    history = led(topics=UNCLEAN_T).poll([(offset, offset) for offset in range(10)], at=3, epoch=0)
    history.state(1, 0, (1,), at=4)
    history.fail_over(2, kept=7, isr=(2,))
    for value in range(20, 25):
        history.ack(value, at=12 + value / 100, process=2)
    return history.poll([(10, 23), (11, 24)], at=20, epoch=1).finish()
