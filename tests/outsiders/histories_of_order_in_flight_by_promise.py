"""Several sends in flight: which order a producer was promised, and which it was not."""

from collections.abc import Sequence

from tests.outsiders.history_builder import OPEN, PASS, SOME, VACUOUS, VIOLATION, HistoryBuilder, case, led
from workloads.produce_and_poll import ProduceAndPollSettings

AT_LEAST_ONCE = ProduceAndPollSettings(idempotence=False)
Call = tuple[int, int, float, float]  # value, offset, called, answered


def _producer(*, idempotent: bool = True, tells: bool | None = True, count: int = 3, acks: int = -1) -> HistoryBuilder:
    """Three records of process 2 are there; process 1 is the producer in question."""
    history = led(count, workload=ProduceAndPollSettings() if idempotent else AT_LEAST_ONCE)
    for row in history.rows["records"]:
        row["process"] = 2
    history.client(1, role="producer", acks=acks, idempotent=idempotent, tells_attempts=tells)
    return history.client(2, role="producer", acks=-1, idempotent=True, tells_attempts=True)


def _calls(history: HistoryBuilder, calls: Sequence[Call], *, process: int = 1, acks: int = -1) -> HistoryBuilder:
    for value, offset, called, answered in calls:
        history.send(value, offset, at=called, elapsed_s=answered - called, process=process, acks=acks)
        history.log.append((offset, 0, value))
    history.log.sort()
    return history


# ---- idempotent producers ----------------------------------------------------------------------------------------


@case(
    "five calls in flight are answered in the opposite order, and their offsets rise with the calls",
    PASS,
    why="answers have no order; the log has",
)
def answered_backwards() -> HistoryBuilder:
    calls = [(50 + n, 3 + n, 2 + n / 100, 3 - n / 100) for n in range(5)]
    return _calls(_producer(), calls).finish()


@case(
    "five calls in flight are answered in their order, and the fourth stands before the third",
    VIOLATION,
    {"reordering violation": 1},
    why="KAFKA-5494: up to five in flight keep their order",
)
def one_of_five_overtaken() -> HistoryBuilder:
    offsets = (3, 4, 6, 5, 7)
    calls = [(50 + n, offset, 2 + n / 100, 3 + n / 100) for n, offset in enumerate(offsets)]
    return _calls(_producer(), calls).finish()


@case(
    "the first of three calls in flight is answered last, and stands last",
    VIOLATION,
    {"reordering violation": SOME},
    why="it was called first",
)
def first_call_stands_last() -> HistoryBuilder:
    return _calls(_producer(), [(50, 5, 2.0, 4.0), (51, 3, 2.1, 2.5), (52, 4, 2.2, 2.6)]).finish()


@case(
    "the same, and it met a time-out and sent the first one again",
    VIOLATION,
    {"reordering violation": SOME},
    why="with idempotence a retry takes its own place: what follows is refused until it is there",
)
def first_call_stands_last_after_a_retry() -> HistoryBuilder:
    history = _calls(_producer(), [(50, 5, 2.0, 4.0), (51, 3, 2.1, 2.5), (52, 4, 2.2, 2.6)]).failed_attempt(at=2.3)
    return history.finish()


@case(
    "the first call was another process's",
    PASS,
    why="between two producers with calls in flight there is no order",
)
def first_call_was_anothers() -> HistoryBuilder:
    history = _calls(_producer(), [(51, 3, 2.1, 2.5), (52, 4, 2.2, 2.6)])
    return _calls(history, [(50, 5, 2.0, 4.0)], process=2).finish()


def _beside(first: int, second: int) -> HistoryBuilder:
    """Two calls in flight, each to its partition; the other partition's offsets are lower."""
    history = _producer().place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.send(50, first, at=2.0, elapsed_s=1.0)
    history.log.append((first, 0, 50))
    history.send(51, second, at=2.1, elapsed_s=0.2, partition_id=1)
    return history.final([(second, 51)], partition_id=1).finish()


@case("a later call to another partition gets a lower offset", PASS, why="offsets are a partition's own")
def lower_offset_beside() -> HistoryBuilder:
    return _beside(3, 0)


@case(
    "one call with a batch: the second record stands before the first",
    VIOLATION,
    {"reordering violation": 1},
    why="records of one call are sent in their order",
)
def turned_round_within_a_call() -> HistoryBuilder:
    history = _producer().sends([(50, 4, 0), (51, 3, 0)], at=2)
    history.log += [(3, 0, 51), (4, 0, 50)]
    return history.finish()


@case(
    "one call with a batch for two partitions in turns, in order in each",
    PASS,
    why="each partition's share rises",
)
def in_turns_within_a_call() -> HistoryBuilder:
    history = _producer().place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.sends([(50, 3, 0), (51, 4, 0)], at=2)
    history.sends([(52, 0, 0), (53, 1, 0)], at=2, partition_id=1)
    history.log += [(3, 0, 50), (4, 0, 51)]
    return history.final([(0, 52), (1, 53)], partition_id=1).finish()


@case(
    "two calls began in one nanosecond; the one written down second stands first",
    (PASS, OPEN),
    also=["reordering observation"],
    why="nobody knows which was called first",
)
def called_at_one_moment() -> HistoryBuilder:
    return _calls(_producer(), [(50, 4, 2.0, 2.5), (51, 3, 2.0, 2.5)]).finish()


@case(
    "a call has no answer, and its record stands behind that of a later call",
    PASS,
    why="after a time-out the producer begins a new producer id, and the old batch may still come",
)
def unanswered_and_later() -> HistoryBuilder:
    history = _calls(_producer(), [(51, 3, 2.5, 2.8)]).send(50, None, at=2.0, elapsed_s=0.4, status=2)
    history.failed_attempt(at=2.3)
    history.log.append((4, 0, 50))
    return history.finish()


@case(
    "a producer's last call has no answer; its successor, a new client, writes; then the old record comes",
    PASS,
    why="two producers: idempotence without a transactional id does not reach over a restart (KIP-98)",
)
def late_record_of_a_restarted_producer() -> HistoryBuilder:
    history = _producer().client(3, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.send(50, None, at=2.0, elapsed_s=0.5, status=2)
    _calls(history, [(60, 3, 3.0, 3.2)], process=3)
    history.log.append((4, 0, 50))
    return history.finish()


@case(
    "an idempotent producer's record, answered at once, is in the log twice",
    VIOLATION,
    {"duplicate violation": SOME},
    why="a producer id and a sequence number stand in the log once",
)
def twice_by_an_idempotent_producer() -> HistoryBuilder:
    history = _producer().send(50, 3, at=2.0)
    history.log += [(3, 0, 50), (4, 0, 50)]
    return history.finish()


# ---- producers without idempotence -------------------------------------------------------------------------------

TURNED = [(50, 4, 2.0, 4.0), (51, 3, 2.5, 3.0)]


def _without_idempotence(*attempts: tuple[float, int, int], tells: bool = True) -> HistoryBuilder:
    """Two calls in flight, the later one stands first. attempts that failed: when, partition_id, status."""
    history = _calls(_producer(idempotent=False, tells=tells), TURNED).place(1, "t", 1)
    for at, partition_id, status in attempts:
        history.failed_attempt(at=at, partition_id=partition_id, status=status)
    return history.finish()


@case(
    "no attempt failed, by a client that tells each, and the later call stands first",
    VIOLATION,
    {"reordering violation": 1},
    why="without a retry nothing changes the order, idempotent or not",
)
def turned_round_without_a_retry() -> HistoryBuilder:
    return _without_idempotence()


@case(
    "an attempt failed at the partition beside",
    VIOLATION,
    {"reordering violation": 1},
    why="nothing was sent to this partition again",
)
def turned_round_and_a_retry_beside() -> HistoryBuilder:
    return _without_idempotence((2.3, 1, 2))


@case(
    "an attempt failed only after both had been answered",
    VIOLATION,
    {"reordering violation": 1},
    why="what was answered before is not sent again",
)
def turned_round_and_a_retry_after() -> HistoryBuilder:
    return _without_idempotence((30.0, 0, 2))


@case(
    "the client tells nothing of its attempts, and nothing happened to the cluster",
    (PASS, OPEN),
    also=["reordering observation", "reordering permitted"],
    why="a retry may have been, and nothing shows that there was none",
)
def turned_round_by_a_client_that_tells_nothing() -> HistoryBuilder:
    return _without_idempotence(tells=False)


@case(
    "a record is in the log twice by a retry, and was answered with its second place, behind a later call",
    PASS,
    {"reordering permitted": SOME, "duplicate permitted": SOME},
    why="at least once, with several in flight",
)
def twice_and_turned_round() -> HistoryBuilder:
    history = _calls(_producer(idempotent=False), [(51, 4, 2.2, 2.6), (52, 5, 2.3, 2.7), (50, 6, 2.0, 4.0)])
    history.log.append((3, 0, 50))
    history.log.sort()
    return history.failed_attempt(at=2.5).finish()


# ---- acks --------------------------------------------------------------------------------------------------------


@case(
    "records with acks=0 stand in the log in the opposite order of their calls, beside one with acks=all",
    PASS,
    why="nothing was answered, and a connection may have been closed between them",
)
def acks_0_backwards() -> HistoryBuilder:
    history = _producer(idempotent=False, acks=0)
    for value in (50, 51):
        history.send(value, None, at=2 + value / 1000, acks=0)
    history.log += [(3, 0, 51), (4, 0, 50)]
    return history.finish()


def _after_a_cut(acks: int) -> HistoryBuilder:
    """The leader answers 50 at offset 3 and dies; the next one's log ends there, and it answers 51 at offset 3."""
    history = _producer(acks=acks, idempotent=acks == -1).ack(50, at=4, acks=acks)
    history.fail_over(2, kept=3)
    return history.ack(51, at=20, acks=acks).finish()


CUT = ["inconsistent-offsets", "acknowledged-regression", "reordering", "lost-write"]


@case(
    "with acks=1 a record goes with its leader, and the same producer's next one gets its offset",
    PASS,
    {"lost-write permitted": {50}, "reordering permitted": SOME},
    also=[f"{each} permitted" for each in CUT],
    why="a clean fail-over lawfully moved the log's end back between the two",
)
def acks_1_takes_the_same_offset() -> HistoryBuilder:
    return _after_a_cut(1)


@case(
    "the same with acks=all",
    VIOLATION,
    {"lost-write violation": {50}, "reordering violation": SOME},
    also=[f"{each} violation" for each in CUT],
    why="what all in-sync replicas had answered is not cut by a clean election",
)
def acks_all_takes_the_same_offset() -> HistoryBuilder:
    return _after_a_cut(-1)


def _zombie_answers(acks: int) -> HistoryBuilder:
    """51 is answered by the new leader at 5; 52, called later, by the deposed one at 3, which is cut there."""
    history = _producer(idempotent=False, acks=acks).fault("cut", [1], at=4, until=20)
    history.state(2, 1, (2, 3), at=6, start=3)
    for number, value in enumerate((60, 61, 51)):
        own = value == 51
        history.send(value, 3 + number, at=8 + number / 10, process=1 if own else 2, acks=acks if own else -1)
        history.log.append((3 + number, 1, value))
    history.send(52, 3, at=9, acks=acks)
    history.replica(1, [*history.log[:3], (3, 0, 52)], at=19, reason="heal", high_watermark=3)
    history.truncation(1, 3, 4, epoch=1, at=21)
    return history.state(2, 1, (1, 2, 3), at=23).finish()


@case(
    "with acks=1 a deposed leader answers a later call at a lower offset, and gives the record up when it is back",
    PASS,
    {"lost-write permitted": {52}, "reordering permitted": SOME},
    also=[f"{each} permitted" for each in CUT],
    why="the later record was acknowledged by a leader that had been replaced, and was lawfully lost",
)
def acks_1_of_a_deposed_leader() -> HistoryBuilder:
    return _zombie_answers(1)


@case(
    "the same with acks=all",
    VIOLATION,
    {"lost-write violation": {52}},
    also=[f"{each} violation" for each in CUT],
    why="a deposed leader whose ISR cannot fetch from it has nothing to answer with",
)
def acks_all_of_a_deposed_leader() -> HistoryBuilder:
    return _zombie_answers(-1)


@case(
    "two calls are in flight over a fail-over that keeps everything; the earlier stands first, and is answered last",
    PASS,
    why="a retry that the new leader knows by its sequence number",
)
def over_a_fail_over() -> HistoryBuilder:
    history = _producer().send(50, 3, at=5.9, elapsed_s=4.1)
    history.send(51, 4, at=6.0, elapsed_s=3.5)
    history.log.append((3, 0, 50))
    history.failed_attempt(at=6.2)
    history.fail_over(2, isr=(2, 3))
    history.log.append((4, 1, 51))
    return history.finish()


@case(
    "the same, and the earlier stands behind the later: both in the new leader's log",
    VIOLATION,
    {"reordering violation": 1},
    why="nothing was lost in the election, and an idempotent producer keeps its order over it",
)
def turned_round_over_a_fail_over() -> HistoryBuilder:
    history = _producer().send(50, 4, at=5.9, elapsed_s=4.1)
    history.send(51, 3, at=6.0, elapsed_s=3.5)
    history.failed_attempt(at=6.2)
    history.fail_over(2, isr=(2, 3))
    history.log += [(3, 1, 51), (4, 1, 50)]
    return history.finish()


@case(
    "every send had acks=0, and all of it was read",
    VACUOUS,
    why="nothing was promised, and nothing can have been broken",
)
def nothing_but_acks_0() -> HistoryBuilder:
    history = led(0, workload=ProduceAndPollSettings(acks="0", idempotence=False))
    history.client(1, role="producer", acks=0, idempotent=False, tells_attempts=True)
    for value in range(3):
        history.send(value, None, at=1 + value / 10, acks=0)
        history.log.append((value, 0, value))
    return history.poll([(offset, offset) for offset in range(3)], at=5).finish()
