"""Evidence that looks wrong and is not, or looks whole and cannot be: books, journals, disks and readers of one run."""

from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led
from workloads.produce_and_poll import ProduceAndPollSettings

UNCLEAN = "unclean.leader.election.enable"


@case(
    "in a folder of old nobody recorded the end that the final read was told; it read all, over a clean fail-over",
    PASS,
    why="absent is unknown, and nothing is missing",
)
def no_end_was_recorded() -> HistoryBuilder:
    history = led().fail_over(2)
    history.ack(20, at=15)
    history.finish(snapshots=False)
    history.partition["end_offset"] = None
    return history


@case(
    "the books tell of brokers 11, 12 and 13; the journals, disks and the partition's own replicas are 1, 2 and 3",
    (OPEN, VIOLATION),
    {"evidence observation": SOME},
    also=["evidence violation"],
    why="these are the books of another cluster",
)
def books_of_another_cluster() -> HistoryBuilder:
    history = HistoryBuilder().state(11, 0, (11, 12, 13), at=0)
    history.rows["partition_states"][-1]["replicas"] = [11, 12, 13]
    for value in range(10):
        history.ack(value, at=1 + value / 10)
    for node in history.brokers:
        history.started(node, at=0.1)
    return history.finish()


@case(
    "the books place an election at second 8, two and a half seconds off at most; its leader's first record is "
    "answered "
    "at 6.6",
    PASS,
    why="by its own journal it led from 6 on, within the blur of the books",
)
def answered_before_the_books_say() -> HistoryBuilder:
    history = led().fault("kill", [1], at=4, until=9)
    history.state(2, 1, (2, 3), at=8)
    history.rows["partition_states"][-1]["uncertainty_ns"] = int(2.5 * SECOND)
    history.leads(2, 1, 10, at=6)
    history.started(1, at=9)
    history.ack(20, at=6.5)
    return history.state(2, 1, (1, 2, 3), at=12).finish()


@case(
    "the table of the replicas' records is empty, though it is known that ten of each were read",
    (PASS, OPEN),
    also=["evidence observation"],
    why="a table that was lost accuses nobody",
)
def records_of_the_logs_are_missing() -> HistoryBuilder:
    history = led().finish()
    history.rows["replica_log"].clear()
    return history


@case(
    "power takes the unflushed end of a follower's log; beside it lies a high watermark that is above the log",
    PASS,
    why="the checkpoint had been written before; the follower fetches the rest again",
)
def high_watermark_above_a_log_without_power() -> HistoryBuilder:
    history = led().destroyed("power-loss", 3, "tail", at=20, until=21, first=7, end=10, partition_id=0)
    history.replica(3, history.log[:7], at=20.5, reason="restart", high_watermark=10)
    history.started(3, at=21)
    history.state(1, 0, (1, 2), at=21.5)
    return history.state(1, 0, (1, 2, 3), at=23).finish()


@case(
    "a leader alone in sync is cut off from the controllers: the books have no leader from 9 to 21, and a record is "
    "acknowledged at 10; it leads again then, with all of it",
    PASS,
    why="it had not heard, and it was all that was in sync: nothing was lost",
)
def acknowledged_while_nobody_led() -> HistoryBuilder:
    history = led(5).state(1, 0, (1,), at=5)
    history.fault("cut", [1], at=6, until=20)
    history.state(-1, 1, (1,), at=9)
    history.send(50, 5, at=10)
    history.log.append((5, 0, 50))
    history.state(1, 2, (1,), at=21, start=6)
    history.state(1, 2, (1, 2, 3), at=22)
    return history.ack(60, at=23).finish()


@case(
    "a broker that is cut off from the controllers answers for half a minute that broker 1 leads epoch 0; the "
    "books have "
    "2 in epoch 1",
    PASS,
    why="it has not heard",
)
def answers_of_a_broker_that_has_not_heard() -> HistoryBuilder:
    history = led().fault("cut", [3], at=5, until=45)
    history.fail_over(2)
    for number in range(10):
        history.polled(3, 1, 0, (1, 2, 3), at=12 + 3 * number)
    return history.ack(20, at=15).finish()


@case(
    "every state of the partition is in the books twice, over a clean fail-over",
    PASS,
    why="what is said twice is said once",
)
def every_state_twice() -> HistoryBuilder:
    history = led().fail_over(2)
    history.ack(20, at=15)
    history.rows["partition_states"] = [dict(row) for row in history.rows["partition_states"] for _ in range(2)]
    return history.finish()


@case(
    "the log of the only broker that ever led has all ten; of the followers' logs, in sync to the end, nobody "
    "read one, and "
    "the final read lacks the last three",
    (VIOLATION, OPEN),
    also=[
        "lost-write violation",
        "lost-write observation",
        "unseen-tail observation",
        "unreadable observation",
        "evidence violation",
        "evidence observation",
    ],
    why="the final read was told that the log ends at ten, and it does on disk",
)
def told_the_end_and_given_less() -> HistoryBuilder:
    history = led()
    history.replica(1, history.log, at=110, high_watermark=10)
    history.final([(offset, offset) for offset in range(7)])
    history.partition["end_offset"] = 10
    return history


@case(
    "an allowed unclean election at 30; the record that is missing was passed over by a poll at 10, long before",
    VIOLATION,
    {"lost-write violation": {4}},
    also=["unclean-election observation", "unclean-election permitted", "skipped-read violation"],
    why="it was gone before anything could excuse it",
)
def gone_before_the_unclean_election() -> HistoryBuilder:
    history = led(topics={"t": {UNCLEAN: "true"}}, workload=ProduceAndPollSettings())
    history.poll([(offset, offset) for offset in range(10) if offset != 4], at=10)
    history.state(1, 0, (1,), at=28)
    history.fault("kill", [1], at=29, until=32)
    history.state(2, 1, (2,), at=30, start=10)
    history.log = [entry for entry in history.log if entry[0] != 4]
    return history.finish(snapshots=False)
