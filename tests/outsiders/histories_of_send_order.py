"""One producer with several sends in flight: what it called later may be answered first, and may not stand first."""

from dataclasses import dataclass
from typing import ClassVar

from harness.ports.load import WorkloadSpec
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led
from workloads.produce_and_poll import ProduceAndPollSettings

AT_LEAST_ONCE = ProduceAndPollSettings(idempotence=False)
APPLICATION = WorkloadSpec()
A_CYCLE = ("cycle violation",)  # two that were not in flight together are against the order of time, too
A, B = 50, 51  # A is called first


@dataclass(frozen=True, kw_only=True)
class OfAPackage(ProduceAndPollSettings):
    """What a package's workload does, nobody here knows; its producers are as the settings say."""

    name: ClassVar[str] = "of-a-package"


def _in_flight(
    *,
    idempotent: bool | None = True,
    tells: bool | None = True,
    workload: WorkloadSpec | None = None,
    a: tuple[float, float, float | None] = (4.0, 4.6, None),
    b: tuple[float, float, float | None] = (4.2, 4.5, None),
    stored: tuple[int, int] = (B, A),
    acks: int = -1,
) -> HistoryBuilder:
    """A and B with their calls, answers and (if recorded) the returns of the calls; `stored` at offsets 3 and 4.

    Operations are numbered as they were answered, as every seal does it.
    """
    history = led(3, workload=workload, acks=acks)
    history.client(1, role="producer", acks=acks, idempotent=idempotent, tells_attempts=tells)
    for value, (called, answered, returned) in sorted([(A, a), (B, b)], key=lambda each: each[1][1]):
        history.send(
            value,
            3 + stored.index(value),
            at=called,
            elapsed_s=answered - called,
            acks=acks,
            returned_ns=None if returned is None else int(returned * 10**9),
        )
    history.log += [(3, 0, stored[0]), (4, 0, stored[1])]
    return history.finish()


@case(
    "an idempotent producer has two in flight; the one it called later is answered first, and stands first",
    VIOLATION,
    {"reordering violation": {B}},
    why="in the order in which it called them, whichever was answered first",
)
def called_later_and_answered_first() -> HistoryBuilder:
    return _in_flight()


@case(
    "the same, and the one that it called first is answered first, and stands behind",
    VIOLATION,
    {"reordering violation": {B}},
    why="the order of answers makes no difference",
)
def called_later_and_answered_later() -> HistoryBuilder:
    return _in_flight(a=(4.0, 4.4, None))


@case(
    "two in flight, answered in the other order, and they stand as they were called",
    PASS,
    why="answers may come in any order",
)
def answered_in_another_order_and_stored_as_called() -> HistoryBuilder:
    return _in_flight(stored=(A, B))


@case(
    "three in flight: the second and the third stand below the first, in their own order",
    VIOLATION,
    {"reordering violation": {B, 52}},
    why="each is compared with all that were called before it, not with its neighbour alone",
)
def below_the_one_before_the_one_before() -> HistoryBuilder:
    history = led(3).client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    for value, offset, called, answered in ((B, 3, 4.1, 4.5), (52, 4, 4.2, 4.6), (A, 5, 4.0, 4.7)):
        history.send(value, offset, at=called, elapsed_s=answered - called)
    history.log += [(3, 0, B), (4, 0, 52), (5, 0, A)]
    return history.finish()


@case(
    "two producers, each with one in flight: the later call stands first",
    PASS,
    why="between producers there is no order until one has been answered",
)
def two_producers_in_flight() -> HistoryBuilder:
    history = _in_flight()
    next(row for row in history.rows["records"] if row["value"] == B)["process"] = 2
    return history


@case("one producer has two in flight in two partitions", PASS, {}, why="the order holds within one partition")
def two_partitions_in_flight() -> HistoryBuilder:
    history = led(3).place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.send(B, 0, at=4.2, elapsed_s=0.3, partition_id=1)
    history.ack(A, at=4.0, elapsed_s=0.6)
    history.finish()
    return history.final([(0, B)], partition_id=1)


@case(
    "the first of two was never answered; it is in the log behind the second",
    PASS,
    why="what was not acknowledged may have been sent later than it was called, or again",
)
def unanswered_and_behind() -> HistoryBuilder:
    history = led(3).send(B, 3, at=4.2, elapsed_s=0.3)
    history.send(A, None, at=4.0, elapsed_s=6.0, status=2)
    history.log += [(3, 0, B), (4, 0, A)]
    return history.finish()


@case(
    "a producer without idempotence has two in flight, and its client tells that no attempt failed",
    VIOLATION,
    {"reordering violation": {B}},
    why="without an attempt that failed, nothing was sent again",
)
def several_in_flight_and_nothing_retried() -> HistoryBuilder:
    return _in_flight(idempotent=False, workload=AT_LEAST_ONCE)


@case(
    "the same, and its client tells of an attempt of which nobody knows",
    PASS,
    {"reordering permitted": {B}},
    why="what failed is sent again behind the next one",
)
def several_in_flight_and_one_retried() -> HistoryBuilder:
    return _in_flight(idempotent=False, workload=AT_LEAST_ONCE).failed_attempt(at=4.3)


@case(
    "the same, and what its client met is not known",
    PASS,
    {"reordering permitted": {B}},
    why="what failed is sent again behind the next one, and nobody says that none did",
)
def several_in_flight_and_nothing_told() -> HistoryBuilder:
    return _in_flight(idempotent=False, tells=None, workload=AT_LEAST_ONCE)


@case(
    "a producer without idempotence had the answer to the first before it called the second, which stands first, "
    "and an attempt of which nobody knows",
    VIOLATION,
    {"reordering violation": {B}, "acknowledged-regression violation": {B}},
    also=A_CYCLE,
    why="whatever was sent again, it was sent behind a record that was there by then",
)
def retried_after_the_answer() -> HistoryBuilder:
    return _in_flight(idempotent=False, workload=AT_LEAST_ONCE, a=(4.0, 4.1, None)).failed_attempt(at=4.3)


@case(
    "an application's client has two in flight, and the one it called later stands first",
    OPEN,
    {"reordering observation": {B}},
    why="two tasks may have called, and between them there is no order",
)
def in_flight_together_in_an_application() -> HistoryBuilder:
    return _in_flight(workload=APPLICATION)


@case(
    "the same in a package's workload", OPEN, {"reordering observation": {B}}, why="nobody recorded which task called"
)
def in_flight_together_in_a_packages_workload() -> HistoryBuilder:
    return _in_flight(workload=OfAPackage())


@case(
    "an application's client has two in flight, and the first call had returned before the second began",
    VIOLATION,
    {"reordering violation": {B}},
    why="whoever called: the one came after the other",
)
def called_after_the_return() -> HistoryBuilder:
    return _in_flight(workload=APPLICATION, a=(4.0, 4.6, 4.01), b=(4.2, 4.5, 4.21))


@case(
    "an application's client has two in flight, and the calls overlapped",
    PASS,
    why="of two calls that overlap, either may have come first",
)
def calls_that_overlap() -> HistoryBuilder:
    return _in_flight(workload=APPLICATION, a=(4.0, 4.6, 4.3), b=(4.2, 4.5, 4.25))


@case(
    "the calls overlapped, of a producer without idempotence whose attempt failed",
    PASS,
    why="there is no order that anything could break",
)
def calls_that_overlap_and_are_retried() -> HistoryBuilder:
    history = _in_flight(idempotent=False, workload=APPLICATION, a=(4.0, 4.6, 4.3), b=(4.2, 4.5, 4.25))
    return history.failed_attempt(at=4.3)


@case("the second call began in the very nanosecond in which the first returned", PASS, {}, why="equal is not before")
def called_at_the_return() -> HistoryBuilder:
    return _in_flight(workload=APPLICATION, a=(4.0, 4.6, 4.2), b=(4.2, 4.5, 4.25))


@case(
    "of an application's client nobody knows whether it is idempotent; the later call stands first",
    OPEN,
    {"reordering observation": {B}},
    why="with idempotence it was promised, and without it was not",
)
def idempotence_not_told() -> HistoryBuilder:
    return _in_flight(idempotent=None, tells=None, workload=APPLICATION, a=(4.0, 4.6, 4.01), b=(4.2, 4.5, 4.21))


@case(
    "an application's client got the answer to its first record before it called the second, which stands first",
    VIOLATION,
    {"reordering violation": {B}, "acknowledged-regression violation": {B}},
    also=A_CYCLE,
    why="whoever called the second may have known of the first",
)
def one_after_the_other_in_an_application() -> HistoryBuilder:
    return _in_flight(workload=APPLICATION, a=(4.0, 4.1, None))


@case(
    "an application's one operation sent two records, and the second stands first",
    VIOLATION,
    {"reordering violation": {B}},
    why="the records of one operation are in its order",
)
def within_one_operation_of_an_application() -> HistoryBuilder:
    history = led(3, workload=APPLICATION).client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.sends([(A, 4, 0), (B, 3, 0)], at=4.0, elapsed_s=0.5)
    history.log += [(3, 0, B), (4, 0, A)]
    return history.finish()


@case(
    "an application's producer with acks=0 had two in flight, and a reader got the later call first",
    PASS,
    also=(),
    why="nothing was acknowledged, so no offset was promised",
)
def acks_0_in_another_order() -> HistoryBuilder:
    history = led(3, workload=APPLICATION).send(A, None, at=4.0, acks=0, status=2, process=2)
    history.send(B, None, at=4.2, acks=0, status=2, process=2)
    history.log += [(3, 0, B), (4, 0, A)]
    return history.finish()


@case(
    "two in flight with acks=1; a clean fail-over loses the first, and the new leader takes the second at its place",
    PASS,
    {"lost-write permitted": {10}, "reordering permitted": SOME, "inconsistent-offsets permitted": SOME},
    why="the election lawfully moved the log's end back between the two",
)
def the_log_was_cut_between_the_two() -> HistoryBuilder:
    history = led(acks=1).client(1, role="producer", acks=1, idempotent=False, tells_attempts=True)
    history.ack(10, at=5.0, acks=1, elapsed_s=0.1)
    history.fail_over(2, kept=10)
    history.send(11, 10, at=5.05, elapsed_s=4.0, acks=1)
    history.log.append((10, 1, 11))
    return history.finish()
