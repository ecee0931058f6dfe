"""What acks and min.insync.replicas promise, and what a deposed leader's acknowledgement is worth."""

from tests.outsiders.history_builder import OPEN, PASS, SOME, VACUOUS, VIOLATION, HistoryBuilder, case, led
from workloads.produce_and_poll import ProduceAndPollSettings

TWO = {"min.insync.replicas": "2"}


@case(
    "acks=0 records never arrive; one the library even calls a success",
    PASS,
    why="with acks=0 nothing is acknowledged, whatever the client library calls it",
)
def acks_0_never_arrives() -> HistoryBuilder:
    history = led(5).send(50, None, at=3, acks=0)
    history.send(51, None, at=3.2, acks=0, status=2)
    return history.ack(5, at=4).finish()


@case(
    "an acks=0 record is read by a consumer at its offset and is in no final log, though nothing ever happened",
    VIOLATION,
    {"dirty-read violation": {50}},
    why="what a consumer saw was committed, whatever its acks",
)
def acks_0_read_and_gone() -> HistoryBuilder:
    return led(5).send(50, None, at=3, acks=0, status=2).poll([(4, 4), (5, 50)], at=4, epoch=0).finish()


@case(
    "an acks=1 tail goes with a clean fail-over, but the dead leader's disk tells a high watermark above it",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    why="a told high watermark above it makes it committed",
)
def acks_1_below_a_high_watermark_of_the_dead_leader() -> HistoryBuilder:
    history = led(acks=1).fail_over(2, kept=7)
    for row in history.rows["replica_snapshots"]:
        row["high_watermark"] = 10
    return history.finish()


@case(
    "an acks=1 tail goes with a clean fail-over; the high watermark told above it lay below the tail's middle",
    VIOLATION,
    {"lost-write violation": {7}, "lost-write permitted": {8, 9}},
    why="record 7 was below the told high watermark 8, records 8 and 9 were not",
)
def acks_1_half_below_a_high_watermark() -> HistoryBuilder:
    history = led(acks=1).fail_over(2, kept=7)
    for row in history.rows["replica_snapshots"]:
        row["high_watermark"] = 8
    return history.finish()


@case(
    "the high watermark above the lost acks=1 tail is that of the new leader, over other records at those offsets",
    PASS,
    {
        "lost-write permitted": {7, 8, 9},
        "inconsistent-offsets permitted": SOME,
        "acknowledged-regression permitted": SOME,
    },
    why="who told that high watermark never held the lost copies: it says nothing of them",
)
def acks_1_below_a_high_watermark_over_other_records() -> HistoryBuilder:
    history = led(acks=1).fail_over(2, kept=7)
    for value in (107, 108, 109):
        history.ack(value, at=12 + value / 100, process=2)
    return history.finish()


@case(
    "acks=1 records were fetched by the next leader, cut by the one after it, and nobody told a high watermark",
    PASS,
    {"lost-write permitted": {7, 8, 9}},
    why="acks=1: leadership moved to a log without them, and no high watermark above them was told",
)
def acks_1_lost_by_the_second_fail_over() -> HistoryBuilder:
    return led(acks=1).fail_over(2, kept=10, isr=(2, 3)).fail_over(3, kept=7, at=30).finish()


@case(
    "the same, but the second leader's disk, holding them, told high watermark 10 before it lost the lead",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    why="committed, and no unclean election or lost disk",
)
def acks_1_committed_by_the_second_leader_and_lost_by_the_third() -> HistoryBuilder:
    history = led(acks=1).fail_over(2, kept=10, isr=(2, 3))
    history.fail_over(3, kept=7, at=30)
    for row in history.rows["replica_snapshots"]:
        if row["time_ns"] == 28 * 10**9:
            row["high_watermark"] = 10
    return history.finish()


@case(
    "a zombie's consumer reads acks=1 records from it after its successor was elected cleanly; they are cut",
    VIOLATION,
    {"lost-write violation": {10, 11}, "dirty-read violation": {10, 11}},
    why="only what is below the high watermark may be handed out; a clean fail-over excuses no committed record",
)
def zombie_serves_what_it_alone_has() -> HistoryBuilder:
    history = led(acks=1).fault("cut", [1], at=4, until=15)
    history.state(2, 1, (2, 3), at=8, start=10)
    zombie = [*history.log, (10, 0, 10), (11, 0, 11)]
    history.send(10, 10, at=9, acks=1)
    history.send(11, 11, at=9.5, acks=1)
    history.poll([(10, 10), (11, 11)], at=10, epoch=0)
    history.replica(1, zombie, at=15, reason="heal", high_watermark=10)
    history.truncation(1, 10, 12, epoch=1, at=16)
    return history.state(2, 1, (1, 2, 3), at=18).finish()


@case(
    "a zombie acknowledges acks=1 records that nobody reads, and cuts them",
    PASS,
    {"lost-write permitted": {10, 11}},
    why="acks=1 and leadership had moved: only the deposed leader had them",
)
def zombie_keeps_what_it_alone_has_to_itself() -> HistoryBuilder:
    history = zombie_serves_what_it_alone_has()
    history.rows["records"] = [row for row in history.rows["records"] if row["kind"] != 1]
    return history


@case(
    "a zombie answers acks=all, sent before its successor's election and answered after it; nobody else has it",
    VIOLATION,
    {"lost-write violation": {10}},
    why="acks=all was told although no other in-sync replica had it",
)
def zombie_answers_acks_all() -> HistoryBuilder:
    history = led().fault("cut", [1], at=4, until=15)
    history.send(10, 10, at=7.9, elapsed_s=1.5)
    history.state(2, 1, (2, 3), at=8, start=10)
    history.replica(1, [*history.log, (10, 0, 10)], at=15, reason="heal", high_watermark=10)
    history.truncation(1, 10, 11, epoch=1, at=16)
    return history.state(2, 1, (1, 2, 3), at=18).finish()


def _alone(*, acks: int = -1, knows: bool = True, least_at: float = 0.0) -> HistoryBuilder:
    history = led(5, topics={"t": TWO, "u": {}}).fault("kill", [2, 3], at=4)
    history.state(1, 0, (1,), at=5)
    if knows:
        history.polled(1, 1, 0, (1,), at=5.2)
    return history.ack(5, at=6, acks=acks)


@case(
    "a leader that knows it is alone answers acks=all under min.insync.replicas=2; the record survives",
    VIOLATION,
    {"acknowledged-below-min-isr violation": 1},
    why="the producer was promised two copies; it is a finding of its own",
)
def below_the_minimum_and_kept() -> HistoryBuilder:
    return _alone().finish(only=(1,))


@case("the same with acks=1", PASS, {}, why="min.insync.replicas binds acks=all alone")
def below_the_minimum_with_acks_1() -> HistoryBuilder:
    return _alone(acks=1).finish(only=(1,))


@case(
    "min.insync.replicas of this topic was lowered to 1 just before", PASS, {}, why="the lowest setting in force counts"
)
def below_a_minimum_that_was_lowered() -> HistoryBuilder:
    return _alone().configured("min.insync.replicas", "1", at=4.5).finish(only=(1,))


@case(
    "min.insync.replicas of another topic was lowered to 1",
    VIOLATION,
    {"acknowledged-below-min-isr violation": 1},
    why="another topic's setting is none of this topic's",
)
def below_the_minimum_where_another_topic_was_lowered() -> HistoryBuilder:
    return _alone().configured("min.insync.replicas", "1", at=4.5, name="u").finish(only=(1,))


@case(
    "min.insync.replicas is lowered after the acknowledgement",
    VIOLATION,
    {"acknowledged-below-min-isr violation": 1},
    why="it was 2 when the answer was given",
)
def below_a_minimum_that_was_lowered_too_late() -> HistoryBuilder:
    return _alone().configured("min.insync.replicas", "1", at=20).finish(only=(1,))


@case(
    "nothing shows that the leader knew of the shrink",
    OPEN,
    {"acknowledged-below-min-isr observation": 1},
    why="where nothing shows it, it is an observation that leaves the run inconclusive",
)
def below_the_minimum_unknowingly() -> HistoryBuilder:
    return _alone(knows=False).finish(only=(1,))


@case(
    "acknowledged below the minimum, then lost to the wipe of the only in-sync disk",
    VIOLATION,
    {"acknowledged-below-min-isr violation": 1, "lost-write violation": {5}, "lost-write permitted": {0, 1, 2, 3, 4}},
    also=("inconsistent-offsets permitted", "inconsistent-offsets violation", "acknowledged-regression permitted"),
    why="its loss is a violation whatever took it; what was acknowledged by all went with every in-sync disk",
)
def below_the_minimum_and_wiped() -> HistoryBuilder:
    history = _alone().destroyed("wipe", 1, "disk", at=10)
    history.state(-1, 1, (1,), at=11)
    history.started(1, at=12)
    history.state(1, 2, (1,), at=13, start=0)
    history.log = []
    return history.ack(60, at=20, acks=1, process=2).finish(only=(1,))


@case(
    "three replicas demanded of a topic that has two, both in sync, and acks=all is answered",
    PASS,
    why="brokers take the smaller of the minimum and the number of replicas",
)
def a_minimum_above_the_number_of_replicas() -> HistoryBuilder:
    return led(5, brokers=(1, 2), topics={"t": {"min.insync.replicas": "3"}}).polled(1, 1, 0, (1, 2), at=0.5).finish()


@case(
    "an acks=1 leader alone in its ISR dies, comes back by itself and leads again without its tail",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    why="leadership never moved, and a killed process loses no page cache",
)
def acks_1_lost_by_a_leader_that_stayed() -> HistoryBuilder:
    history = led(acks=1).state(1, 0, (1,), at=4)
    history.fault("kill", [1], at=6, until=7)
    history.state(-1, 1, (1,), at=7)
    history.state(1, 2, (1,), at=8, start=7)
    history.log = history.log[:7]
    return history.finish(only=(1,))


@case(
    "everything was sent with acks=0, and all of it is in the log",
    VACUOUS,
    why="no broker answers to acks=0: nothing was promised",
)
def acks_0_alone() -> HistoryBuilder:
    history = led(0, workload=ProduceAndPollSettings(acks="0"))
    for value in range(3):
        history.send(value, None, at=1 + value, acks=0, status=2 * (value % 2))
        history.log.append((value, 0, value))
    return history.finish()


@case(
    "everything was sent with acks=0, and what a consumer read of it is gone",
    VIOLATION,
    {"dirty-read violation": {0}},
    why="what a consumer saw was committed",
)
def acks_0_alone_and_a_dirty_read() -> HistoryBuilder:
    history = led(0, workload=ProduceAndPollSettings(acks="0")).send(0, None, at=1, acks=0, status=2)
    return history.poll([(0, 0)], at=2).finish()


@case(
    "of nothing that was sent anybody knows what became of it, and all of it is in the log",
    VACUOUS,
    why="nothing was acknowledged, so nothing was promised",
)
def nothing_was_answered() -> HistoryBuilder:
    history = led(0)
    for value in range(3):
        history.send(value, None, at=1 + value, status=2, error="KafkaTimeoutError")
        history.log.append((value, 0, value))
    return history.finish()


@case("with acks=0 and, once, acks=1", PASS, {}, why="one record was acknowledged, and is there")
def acks_0_and_one_that_is_acknowledged() -> HistoryBuilder:
    history = acks_0_alone()
    history.rows["records"] = [row for row in history.rows["records"] if row["kind"] == 0]
    history.rows["replica_snapshots"], history.rows["replica_log"] = [], []
    history.send(9, 3, at=5, acks=1)
    history.log.append((3, 0, 9))
    return history.finish()
