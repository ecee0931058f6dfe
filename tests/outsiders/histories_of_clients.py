"""Producers that retry and consumers that go on: duplicates, order, gaps, rewinds and values from nowhere."""

from harness.ports.load import WorkloadSpec
from tests.outsiders.history_builder import OPEN, PASS, SOME, VACUOUS, VIOLATION, HistoryBuilder, case, led
from workloads.produce_and_poll import ProduceAndPollSettings

AT_LEAST_ONCE = ProduceAndPollSettings(idempotence=False)


def _twice(
    *,
    idempotent: bool | None = False,
    workload: WorkloadSpec = AT_LEAST_ONCE,
    tells: bool | None = True,
    acks: int = -1,
) -> HistoryBuilder:
    """Value 5, sent from second 3 to 4, is in the log at offsets 5 and 6."""
    history = led(5, workload=workload)
    history.client(1, role="producer", acks=acks, idempotent=idempotent, tells_attempts=tells)
    history.ack(5, at=3, elapsed_s=1, acks=acks)
    history.log.append((6, 0, 5))
    return history


@case(
    "a producer without idempotence met a time-out while it sent the record, which is in the log twice",
    PASS,
    {"duplicate permitted": SOME},
    why="at least once: it was sent again",
)
def twice_after_a_failed_attempt() -> HistoryBuilder:
    return _twice().failed_attempt(at=3.5).finish()


@case(
    "the only attempt that failed was refused before the append",
    VIOLATION,
    {"duplicate violation": SOME},
    why="one that may have been appended has to have failed; this one was certainly not",
)
def twice_after_a_refusal() -> HistoryBuilder:
    return _twice().failed_attempt(at=3.5, status=1, error="NotEnoughReplicasError").finish()


@case(
    "the attempt failed at the partition beside",
    VIOLATION,
    {"duplicate violation": SOME},
    why="an attempt at another partition sends nothing to this one",
)
def twice_after_a_failed_attempt_at_another_partition() -> HistoryBuilder:
    return _twice().place(1, "t", 1).failed_attempt(at=3.5, partition_id=1).finish()


@case(
    "the attempt that failed was another producer's",
    VIOLATION,
    {"duplicate violation": SOME},
    why="another client's attempt is none of this one's",
)
def twice_after_another_producers_failed_attempt() -> HistoryBuilder:
    return _twice().failed_attempt(at=3.5, process=2).finish()


@case(
    "the attempt failed a second before the record was sent, and another one after its answer",
    VIOLATION,
    {"duplicate violation": SOME},
    why="it has to lie between send and answer",
)
def twice_with_failed_attempts_before_and_after() -> HistoryBuilder:
    return _twice().failed_attempt(at=2).failed_attempt(at=5).finish()


@case(
    "an idempotent producer met a time-out, and the record is in the log twice",
    VIOLATION,
    {"duplicate violation": SOME},
    why="an idempotent producer promises that this never happens",
)
def twice_though_idempotent() -> HistoryBuilder:
    return _twice(idempotent=True, workload=ProduceAndPollSettings()).failed_attempt(at=3.5).finish()


def _twice_in_an_application(*, idempotent: bool | None, acks: int = -1) -> HistoryBuilder:
    """The second broker was down for a while before: a reason to send again."""
    history = _twice(idempotent=idempotent, workload=WorkloadSpec(), tells=None, acks=acks)
    return history.fault("kill", [2], at=2, until=3.5).finish()


@case(
    "of an application's client nobody told whether it is idempotent, and its record is in the log twice",
    OPEN,
    {"duplicate observation": SOME},
    why="librdkafka and aiokafka are not unless they are told so, and then may send again",
)
def twice_and_idempotence_not_told() -> HistoryBuilder:
    return _twice_in_an_application(idempotent=None)


@case(
    "the same of a client that is told to be idempotent",
    VIOLATION,
    {"duplicate violation": SOME},
    why="the application's own producers promise it too",
)
def twice_of_an_idempotent_application() -> HistoryBuilder:
    return _twice_in_an_application(idempotent=True)


@case(
    "the same of one that is told not to be",
    PASS,
    {"duplicate permitted": SOME},
    why="at least once: it had a reason to send again",
)
def twice_of_an_application_without_idempotence() -> HistoryBuilder:
    return _twice_in_an_application(idempotent=False)


@case(
    "the same of one with acks=1, of which nobody told more",
    PASS,
    {"duplicate permitted": SOME},
    why="idempotence needs acks=all",
)
def twice_of_an_application_with_acks_1() -> HistoryBuilder:
    return _twice_in_an_application(idempotent=None, acks=1)


@case(
    "a record without an answer of an idempotent producer is in the log twice",
    VIOLATION,
    {"duplicate violation": SOME},
    why="whatever the answer, it is never there twice",
)
def unanswered_and_twice() -> HistoryBuilder:
    history = led(5).client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.send(5, None, at=3, status=2)
    history.log += [(5, 0, 5), (6, 0, 5)]
    return history.failed_attempt(at=3.1).finish()


@case(
    "the same value is sent to two partitions, as the workload numbers them by partition",
    PASS,
    why="values are unique by partition",
)
def one_value_in_two_partitions() -> HistoryBuilder:
    history = led(3).place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.send(1, 0, at=2, partition_id=1)
    history.finish()
    return history.final([(0, 1)], partition_id=1)


@case(
    "a value that was sent to partition 1 is read in partition 0",
    VIOLATION,
    {"phantom violation": SOME},
    why="a value sent elsewhere is a phantom where it was read",
)
def read_in_the_wrong_partition() -> HistoryBuilder:
    history = led(3).place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.send(700, 0, at=2, partition_id=1)
    history.log.append((3, 0, 700))
    history.finish()
    return history.final([(0, 700)], partition_id=1)


@case(
    "a refused record is read, by a poll that itself failed",
    VIOLATION,
    {"aborted-read violation": SOME},
    also=("dirty-read violation",),
    why="reads of every outcome count",
)
def refused_and_read_by_a_failed_poll() -> HistoryBuilder:
    history = led(3).send(50, None, at=2, status=1, error="NotEnoughReplicasError")
    history.log.append((3, 0, 50))
    return history.poll([(3, 50)], at=3, status=1).finish()


@case(
    "a poll ends in the very nanosecond in which the send of its record begins",
    PASS,
    why="answered before it was called: equal is not before",
)
def read_at_the_moment_of_its_send() -> HistoryBuilder:
    return led(3).poll([(0, 0), (1, 1), (2, 2), (3, 50)], at=2.9).ack(50, at=3.0).finish()


@case(
    "a poll ends a moment before the send of its record begins",
    VIOLATION,
    {"phantom violation": SOME},
    also=("cycle violation",),
    why="nobody can read what was not yet sent",
)
def read_just_before_its_send() -> HistoryBuilder:
    return led(3).poll([(0, 0), (1, 1), (2, 2), (3, 50)], at=2.8).ack(50, at=3.0).finish()


@case(
    "an answer comes in the very nanosecond in which another producer's send begins, which gets a lower offset",
    PASS,
    why="answered before it was called: equal is not before",
)
def lower_offset_at_the_moment_of_an_answer() -> HistoryBuilder:
    history = led(3).send(51, 4, at=2.0, elapsed_s=1.0)
    history.send(50, 3, at=3.0, process=2)
    history.log += [(3, 0, 50), (4, 0, 51)]
    return history.finish()


@case(
    "an acknowledged record at offset 4; another producer's, sent a second later, gets 3; both are in the log",
    VIOLATION,
    {"acknowledged-regression violation": 1},
    also=("cycle violation",),
    why="both are there: nothing was moved back, and nothing permits it",
)
def lower_offset_after_an_answer() -> HistoryBuilder:
    history = led(3).send(51, 4, at=2.0)
    history.send(50, 3, at=3.1, process=2)
    history.log += [(3, 0, 50), (4, 0, 51)]
    return history.finish()


@case(
    "an idempotent producer has two operations in flight; the later one stands first",
    VIOLATION,
    {"reordering violation": 1},
    why="in the order in which it called them",
)
def pipelined_out_of_order() -> HistoryBuilder:
    history = led(3).client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.send(51, 4, at=2.0, elapsed_s=2.0)
    history.send(50, 3, at=2.5, elapsed_s=0.5)
    history.log += [(3, 0, 50), (4, 0, 51)]
    return history.finish()


@case(
    "the same without idempotence, and an attempt at that partition failed meanwhile",
    PASS,
    {"reordering permitted": 1},
    why="a batch that failed is sent again after the next one was stored",
)
def pipelined_out_of_order_by_a_retry() -> HistoryBuilder:
    history = led(3, workload=AT_LEAST_ONCE).client(1, role="producer", acks=-1, idempotent=False, tells_attempts=True)
    history.send(51, 4, at=2.0, elapsed_s=2.0)
    history.send(50, 3, at=2.5, elapsed_s=0.5)
    history.failed_attempt(at=2.2)
    history.log += [(3, 0, 50), (4, 0, 51)]
    return history.finish()


@case(
    "a success without an offset, and the value is nowhere",
    VIOLATION,
    {"lost-write violation": {50}},
    why="an acknowledged record like any other: the final read decides by its value",
)
def acknowledged_without_an_offset_and_lost() -> HistoryBuilder:
    return led(3).send(50, None, at=3).ack(51, at=4).finish()


@case("a success without an offset, and the value is in the log", PASS, {}, why="it is there, wherever the answer said")
def acknowledged_without_an_offset() -> HistoryBuilder:
    history = led(3).send(50, None, at=3)
    history.log.append((3, 0, 50))
    return history.finish()


@case(
    "acknowledged at offset 3, and in the final log at offset 4 only, with no event between",
    VIOLATION,
    {"duplicate violation": SOME},
    also=("inconsistent-offsets violation", "lost-write violation"),
    why="moved: judged like the loss of the offset that is gone, and nothing took that",
)
def moved_by_nothing() -> HistoryBuilder:
    history = led(3).send(50, 3, at=3)
    history.send(51, None, at=3, status=2, process=2)
    history.log += [(3, 0, 51), (4, 0, 50)]
    return history.finish()


@case(
    "a poll that failed saw offsets 3 and 4; the next good one begins at 3",
    PASS,
    why="a poll that failed does not move the position",
)
def read_again_after_a_failed_poll() -> HistoryBuilder:
    history = led(6).poll([(0, 0), (1, 1), (2, 2)], at=3)
    history.poll([(3, 3), (4, 4)], at=4, status=1)
    return history.poll([(3, 3), (4, 4), (5, 5)], at=5).finish()


@case(
    "a poll that failed saw offsets 3 and 4; the next good one begins at 5",
    VIOLATION,
    {"skipped-read violation": SOME},
    why="a poll that failed does not move the position: 3 and 4 were skipped",
)
def skipped_what_a_failed_poll_saw() -> HistoryBuilder:
    history = led(6).poll([(0, 0), (1, 1), (2, 2)], at=3)
    history.poll([(3, 3), (4, 4)], at=4, status=1)
    return history.poll([(5, 5)], at=5).finish()


@case("one poll holds offsets of two partitions in turns", PASS, {}, why="between partitions there is no order")
def two_partitions_in_turns() -> HistoryBuilder:
    history = led(6).place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    for place in range(3):
        history.send(1000 + place, place, at=1 + place / 10, partition_id=1)
    history.poll([(0, 0), (1, 1)], at=3)
    history.poll([(0, 1000), (1, 1001)], at=3.2, partition_id=1)
    history.poll([(2, 2), (3, 3), (4, 4), (5, 5)], at=4)
    history.poll([(2, 1002)], at=4.2, partition_id=1)
    history.finish()
    return history.final([(0, 1000), (1, 1001), (2, 1002)], partition_id=1)


@case(
    "a consumer jumps over two records; an allowed unclean election cut the log, but only minutes later",
    VIOLATION,
    {"skipped-read violation": SOME},
    also=("unclean-election observation",),
    why="a cut that came after the poll excuses nothing of it",
)
def skipped_before_the_unclean_election() -> HistoryBuilder:
    history = led(8, topics={"t": {"unclean.leader.election.enable": "true"}}).poll([(0, 0), (1, 1)], at=3)
    history.poll([(4, 4), (5, 5)], at=4)
    history.state(1, 0, (1,), at=60)
    return history.fail_over(2, kept=8, at=70, isr=(2,)).finish()


@case(
    "a consumer goes back by three; the allowed unclean election that cut the log was of another topic",
    VIOLATION,
    {"nonmonotonic-read violation": SOME},
    also=("unclean-election observation",),
    why="an exception reaches no further than its topic",
)
def went_back_while_another_topic_was_cut() -> HistoryBuilder:
    history = led(8, topics={"t": {}, "u": {"unclean.leader.election.enable": "true"}}).place(1, "u", 0)
    history.state(1, 0, (1,), at=0, start=0, partition_id=1)
    history.poll([(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)], at=3)
    history.state(2, 1, (2,), at=4, start=0, partition_id=1)
    return history.poll([(2, 2), (3, 3), (4, 4)], at=5).finish()


@case(
    "a consumer that had read ten goes back to 7 after an allowed unclean election cut the log there",
    PASS,
    {
        "nonmonotonic-read permitted": SOME,
        "lost-write permitted": {7, 8, 9},
        "dirty-read permitted": {7, 8, 9},
        "unclean-election permitted": SOME,
        "inconsistent-offsets permitted": SOME,
        "acknowledged-regression permitted": SOME,
    },
    why="an allowed loss of committed records moved the log's end below its position",
)
def went_back_after_the_unclean_election() -> HistoryBuilder:
    history = led(topics={"t": {"unclean.leader.election.enable": "true"}})
    history.poll([(offset, offset) for offset in range(10)], at=3, epoch=0)
    history.state(1, 0, (1,), at=4)
    history.fail_over(2, kept=7, isr=(2,))
    for value in (20, 21, 22):
        history.ack(value, at=15 + value / 100, process=2)
    return history.poll([(7, 20), (8, 21), (9, 22)], at=20, epoch=1).finish()


@case(
    "two consumers read a value each at one offset; both sends had no answer; the log has one of them",
    VIOLATION,
    {"inconsistent-offsets violation": SOME, "dirty-read violation": {61}},
    why="what a consumer saw was committed, and nothing was allowed to take it",
)
def two_readers_see_two_values() -> HistoryBuilder:
    history = led(3).send(60, None, at=3, status=2)
    history.send(61, None, at=3, status=2, process=2)
    history.log.append((3, 0, 60))
    history.poll([(3, 60)], at=4)
    return history.poll([(3, 61)], at=4, process=8).finish()


@case("nothing was sent and nothing read", VACUOUS, {}, why="nothing can be said of a run in which nothing happened")
def nothing_at_all() -> HistoryBuilder:
    return led(0).finish()


@case("every send was refused", VACUOUS, {}, why="nothing was acknowledged, so nothing was promised")
def everything_refused() -> HistoryBuilder:
    history = led(0)
    for value in range(5):
        history.send(value, None, at=1 + value, status=1, error="NotEnoughReplicasError")
    return history.finish()


@case(
    "a retry of the client's own, with retries=0 by the scenario, put the record into the log twice",
    (VIOLATION, PASS, OPEN),
    also=("duplicate violation", "duplicate permitted", "duplicate observation"),
    why="unsure: with retries=0 it may not be repeated, but for libraries that do so of their own accord; which?",
)
def twice_with_retries_0() -> HistoryBuilder:
    return _twice(workload=ProduceAndPollSettings(idempotence=False, retries=0)).failed_attempt(at=3.5).finish()
