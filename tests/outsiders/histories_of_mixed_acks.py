"""One producer that sends some records with acks=0, some with acks=1 and some with acks=all; several sends in flight
that are refused and sent again; idempotent producers that begin a new epoch."""

from collections.abc import Sequence

from harness.ports.load import WorkloadSpec
from tests.outsiders.history_builder import OPEN, PASS, SOME, VACUOUS, VIOLATION, HistoryBuilder, case, led
from workloads.produce_and_poll import ProduceAndPollSettings

AT_LEAST_ONCE = ProduceAndPollSettings(idempotence=False)
NONE, ONE, ALL = 0, 1, -1


def _mixed(acks: Sequence[int], *, kept: int | None = None, system: str = "kafka:3.9.1") -> HistoryBuilder:
    """Values 0 to 4 by all; then a value for each of `acks`; then, if it is said, a clean fail-over."""
    history = led(5, system=system, workload=AT_LEAST_ONCE)
    history.client(1, role="producer", idempotent=False, tells_attempts=True)
    for value, each in enumerate(acks, start=5):
        offset = len(history.log)
        history.send(value, None if each == NONE else offset, at=2 + value / 10, acks=each)
        history.log.append((offset, 0, value))
    if kept is not None:
        history.fail_over(2, kept=kept)
    return history.finish()


@case(
    "one producer: acks=all, 1, 0, and a clean fail-over takes the last two",
    PASS,
    {"lost-write permitted": {6}},
    why="of acks=0 nothing was promised, and nobody had the record with acks=1 but the leader",
)
def last_two_of_a_mix() -> HistoryBuilder:
    return _mixed([ALL, ONE, NONE], kept=6)


@case(
    "the same, and the record before them, by all, is gone as well",
    VIOLATION,
    {"lost-write violation": {5}, "lost-write permitted": {6}},
    why="each record has the promise of its own acks",
)
def last_three_of_a_mix() -> HistoryBuilder:
    return _mixed([ALL, ONE, NONE], kept=5)


@case(
    "acks=0, 1, 0, all: all four are there",
    PASS,
    why="what was not promised may be there",
)
def all_of_a_mix_are_there() -> HistoryBuilder:
    return _mixed([NONE, ONE, NONE, ALL], kept=None)


@case(
    "acks=0 to a follower that is no leader any more: only these never came, everything acknowledged is there",
    PASS,
    why="nobody answers acks=0",
)
def acks_0_into_the_void() -> HistoryBuilder:
    history = led(5, system="kafka:4.3.1").fail_over(2, at=8)
    for value in range(5, 9):
        history.send(value, None, at=8.1 + value / 100, acks=NONE)
    for value in range(9, 12):
        history.ack(value, at=12 + value / 10)
    return history.finish()


@case(
    "acks=1 behind acks=all in one call, and a consumer was given the acks=1 record; a clean fail-over takes it",
    VIOLATION,
    {"dirty-read violation": {6}, "lost-write violation": {6}},
    why="what a consumer was given was committed (a leader hands out nothing above its high watermark)",
)
def read_one_of_a_mix() -> HistoryBuilder:
    history = led(5, system="kafka:2.8.2", workload=AT_LEAST_ONCE)
    history.client(9, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    history.ack(5, at=2.5)
    history.ack(6, at=2.6, acks=ONE)
    history.poll([(offset, offset) for offset in range(7)], at=4)
    return history.fail_over(2, kept=6).finish()


@case(
    "nothing but acks=0, and a consumer was given all of it, and all of it is there",
    VACUOUS,
    why="no broker answered anything",
)
def acks_0_and_read() -> HistoryBuilder:
    history = HistoryBuilder(workload=ProduceAndPollSettings(acks="0", idempotence=False))
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    for value in range(5):
        history.send(value, None, at=1 + value, acks=NONE)
        history.log.append((value, 0, value))
    return history.poll([(value, value) for value in range(5)], at=9).finish()


# ---- several in flight -------------------------------------------------------------------------------------------


def _five(offsets: Sequence[int], *, idempotent: bool, refused: int = 0, over: bool = False) -> HistoryBuilder:
    """Five calls in flight; the first `refused` attempts are answered NOT_LEADER_OR_FOLLOWER (6)."""
    history = led(3, system="kafka:3.9.1", workload=ProduceAndPollSettings(idempotence=idempotent))
    for row in history.rows["records"]:
        row["process"] = 2
    history.client(1, role="producer", idempotent=idempotent, acks=ALL, tells_attempts=True)
    if over:
        history.fault("kill", [1], at=9.5, until=14)
        history.state(2, 1, (2, 3), at=11, start=3)
        history.leader_known(2, at=11.1)
    for number in range(refused):
        history.failed_attempt(at=10.5 + number / 100, status=1, error="NotLeaderOrFollowerError")
    epoch = history._epoch
    for number, offset in enumerate(offsets):
        history.send(50 + number, offset, at=10 + number / 100, elapsed_s=2)
        history.log.append((offset, epoch, 50 + number))
    history.log.sort()
    if over:
        history.started(1, at=14)
        history.state(2, 1, (1, 2, 3), at=15)
    return history.finish()


@case(
    "five of an idempotent producer in flight are refused by a deposed leader and stored by the next one in order",
    PASS,
    why="KIP-98: the sequence numbers keep it",
)
def refused_and_stored_in_order() -> HistoryBuilder:
    return _five([3, 4, 5, 6, 7], idempotent=True, refused=5, over=True)


@case(
    "the same, and the next one stores the first of them last",
    VIOLATION,
    {"reordering violation": SOME},
    why="the next leader has the producer's state from its log, and refuses a gap (OUT_OF_ORDER_SEQUENCE_NUMBER)",
)
def refused_and_the_first_stored_last() -> HistoryBuilder:
    return _five([7, 3, 4, 5, 6], idempotent=True, refused=5, over=True)


@case(
    "the same of a producer without idempotence",
    PASS,
    {"reordering permitted": SOME},
    why="a batch that is sent again may be overtaken",
)
def refused_and_the_first_stored_last_without_idempotence() -> HistoryBuilder:
    return _five([7, 3, 4, 5, 6], idempotent=False, refused=1, over=True)


@case(
    "an idempotent producer of two partitions: within each the order is kept, over both it is not",
    PASS,
    why="there is no order over partitions",
)
def order_over_two_partitions() -> HistoryBuilder:
    history = led(0, system="kafka:1.1.1").place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.client(1, role="producer", idempotent=True, acks=ALL, tells_attempts=True)
    beside = []
    for value in range(8):
        called = 2 + value / 100
        if value % 2:
            history.send(value, value // 2, at=called, elapsed_s=0.5 - value / 100, partition_id=1)
            beside.append((value // 2, 0, value))
        else:
            history.send(value, value // 2, at=called, elapsed_s=1 - value / 100)
            history.log.append((value // 2, 0, value))
    history.finish()
    return history.finish_partition(1, beside)


@case(
    "librdkafka 4953: an idempotent client begins a new epoch by itself and sends a record again that was stored",
    VIOLATION,
    {"duplicate violation": {3}},
    why="enable.idempotence promises one copy; that the client gave the second another name is its own breach",
)
def sent_again_in_a_new_epoch() -> HistoryBuilder:
    history = led(3, system="kafka:3.9.1").client(1, role="producer", idempotent=True, acks=ALL, tells_attempts=True)
    history.fault("kill", [3], at=3.9, until=6)
    history.failed_attempt(at=4.5, status=2, error="E 45")
    history.send(3, 4, at=4, elapsed_s=2)
    history.log += [(3, 0, 3), (4, 0, 3)]
    return history.finish()


@case(
    "an attempt is not answered, the record is sent again, and stands there once, where the first attempt put it",
    PASS,
    why="KIP-98: the broker knows the sequence number, and answers with the first offset",
)
def sent_again_and_known() -> HistoryBuilder:
    history = led(3, system="kafka:4.3.1").client(1, role="producer", idempotent=True, acks=ALL, tells_attempts=True)
    history.failed_attempt(at=4.5, status=2, error="E 7")
    history.send(4, 3, at=4.1, elapsed_s=0.1)
    history.log.append((3, 0, 4))
    history.send(3, 4, at=4.4, elapsed_s=2)
    history.log.append((4, 0, 3))
    return history.finish()


@case(
    "an application (confluent-kafka-go 921): a send is told as failed for certain, and the record is in the log",
    VIOLATION,
    {"aborted-read violation": {3}},
    why="who is told that it was not stored sends it again",
)
def told_as_failed_and_there() -> HistoryBuilder:
    history = led(3, workload=WorkloadSpec(), system="kafka:3.9.1").client(1, role="producer", acks=ALL)
    history.send(3, None, at=4, status=1, error="NotEnoughReplicasError")
    history.log.append((3, 0, 3))
    return history.finish()


@case(
    "librdkafka 1487: a broker is killed, the client gives up some records for certain, and these are not there",
    PASS,
    why="a failure that was told is no loss",
)
def given_up_and_not_there() -> HistoryBuilder:
    history = led(5, system="kafka:0.11.0.3", settings={"min.insync.replicas": "2"}).fault("kill", [1], at=6, until=20)
    for value in range(40, 50):
        history.send(value, None, at=6 + value / 100, elapsed_s=3, status=2, error="timed out")
    for value in range(50, 60):
        history.send(value, None, at=6 + value / 100, elapsed_s=3, status=1, error="NotLeaderForPartitionError")
    history.state(2, 1, (2, 3), at=10, start=5)
    for value in range(60, 65):
        history.ack(value, at=12 + value / 100)
    history.started(1, at=20)
    return history.state(2, 1, (1, 2, 3), at=22).finish()


@case(
    "acks=1 with several in flight: the second of two is acknowledged at the offset of the first, which has no answer",
    PASS,
    why="the first may never have been stored",
)
def unanswered_and_its_place_taken() -> HistoryBuilder:
    history = led(3, system="kafka:0.10.2.2", workload=AT_LEAST_ONCE)
    history.client(1, role="producer", idempotent=False, acks=ONE, tells_attempts=True)
    history.send(3, None, at=4, elapsed_s=5, status=2, acks=ONE, error="timed out")
    return history.ack(4, at=4.01, acks=ONE).finish()


@case(
    "a producer of which nobody knows whether it is idempotent, of a journal alone: an application's record is there "
    "twice, with acks=all and no word of retries",
    OPEN,
    {"duplicate observation": {3}},
    why="control.md: IDEMPOTENT may be null",
)
def there_twice_and_little_is_told() -> HistoryBuilder:
    history = led(3, workload=WorkloadSpec(), system="kafka:4.3.1").client(1, role="producer", acks=ALL)
    history.send(3, 3, at=4)
    history.log += [(3, 0, 3), (4, 0, 3)]
    return history.finish()
