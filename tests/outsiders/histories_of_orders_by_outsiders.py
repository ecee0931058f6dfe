"""The order of sends over processes, fail-overs and applications that record one operation a send; and acks=1 that a
move of leadership takes."""

from harness.ports.load import WorkloadSpec
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

A, B, C = 50, 51, 52
UNCLEAN = "unclean.leader.election.enable"
SECOND = 10**9


@case(
    "an application has three in flight; of the second nobody knows when its call returned; the third, called "
    "after the "
    "first call had returned, stands first",
    VIOLATION,
    {"reordering violation": {C}},
    why="the order of the first and the third is known, and idempotent producers keep it",
)
def third_of_an_application_stands_first() -> HistoryBuilder:
    history = led(3, workload=WorkloadSpec()).client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.send(C, 3, at=4.2, elapsed_s=0.2, returned_ns=int(4.25 * SECOND))
    history.send(A, 4, at=4.0, elapsed_s=0.9, returned_ns=int(4.05 * SECOND))
    history.send(B, 5, at=4.02, elapsed_s=0.95)
    history.log += [(3, 0, C), (4, 0, A), (5, 0, B)]
    return history.finish()


@case(
    "the first of two was called, and had not returned when the second was called; in a transaction of an application",
    OPEN,
    {"reordering observation": SOME},
    why="two threads may have called; nobody recorded which came first",
)
def in_flight_together_in_an_applications_transaction() -> HistoryBuilder:
    history = led(3, workload=WorkloadSpec())
    history.client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True, transactional_id="p")
    history.client(99, role="consumer", isolation="read_committed")
    history.send(B, 3, at=4.2, elapsed_s=0.3, transaction=1)
    history.send(A, 4, at=4.0, elapsed_s=0.6, transaction=1)
    history.transaction(1, 0, at=3.9, until=5, transactional_id="p")
    history.log += [(3, 0, B), (4, 0, A)]
    return history.finish()


@case(
    "Kafka 2.4: of three records of one call the second has no answer, and stands behind the third",
    PASS,
    why="what was not answered may come late, of a producer id that was given up",
)
def second_of_a_call_comes_late() -> HistoryBuilder:
    history = led(3, system="kafka:2.4.1").client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.sends([(A, 3, 0), (B, None, 2), (C, 4, 0)], at=4, elapsed_s=1)
    history.log += [(3, 0, A), (4, 0, C), (5, 0, B)]
    return history.finish()


def _below_by_another(acks: int) -> HistoryBuilder:
    """Process 1 is answered offsets 6 and 7; a clean fail-over keeps six; then process 2 is answered 6."""
    history = led(6).ack(A, at=4, acks=acks)
    history.ack(B, at=4.2, acks=acks)
    history.fail_over(2, kept=6)
    return history.ack(C, at=15, acks=acks, process=2).finish()


@case(
    "with acks=1 two records go with a clean fail-over, and another producer is answered an offset below the second",
    PASS,
    {
        "lost-write permitted": {A, B},
        "acknowledged-regression permitted": SOME,
        "inconsistent-offsets permitted": SOME,
    },
    why="what only the old leader had was never promised, nor its offsets",
)
def below_what_a_fail_over_took() -> HistoryBuilder:
    return _below_by_another(1)


@case(
    "the same with acks=all",
    VIOLATION,
    {
        "lost-write violation": {A, B},
        "acknowledged-regression violation": SOME,
        "inconsistent-offsets violation": SOME,
    },
    why="every replica in sync had them before they were answered",
)
def below_what_a_fail_over_must_not_take() -> HistoryBuilder:
    return _below_by_another(-1)


@case(
    "an allowed unclean election cost nothing; long after it a record is answered an offset below one answered before",
    VIOLATION,
    {"acknowledged-regression violation": SOME},
    also=["unclean-election observation", "cycle violation"],
    why="both are in the log, and nothing was moved back",
)
def below_though_an_unclean_election_cost_nothing() -> HistoryBuilder:
    history = led(topics={"t": {UNCLEAN: "true"}}).state(1, 0, (1,), at=6)
    history.fault("kill", [1], at=7, until=9)
    history.state(2, 1, (2,), at=8, start=10)
    history.started(1, at=9)
    history.state(2, 1, (1, 2, 3), at=11)
    history.send(A, 11, at=20)
    history.send(B, 10, at=22, process=2)
    history.log += [(10, 1, B), (11, 1, A)]
    return history.finish()


@case(
    "an application gives a record up without an answer, and another of its processes sends it again: it is "
    "there twice",
    PASS,
    why="each of two sends accounts for one copy, whichever process made it",
)
def sent_again_by_another_process() -> HistoryBuilder:
    history = led(3, workload=WorkloadSpec())
    for process in (1, 2):
        history.client(process, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.send(A, None, at=4, elapsed_s=2, status=2)
    history.send(A, 4, at=7, process=2)
    history.log += [(3, 0, A), (4, 0, A)]
    return history.finish()


@case(
    "leadership is moved back to the preferred replica without any fault, and takes an acks=1 tail with it",
    PASS,
    {"lost-write permitted": {7, 8, 9}},
    why="a follower in sync may lack what acks=1 was answered for, and become leader by a mere request",
)
def acks_1_and_a_preferred_election() -> HistoryBuilder:
    history = led(7)
    for value in (7, 8, 9):
        history.ack(value, at=7.5 + value / 100, acks=1)
    history.state(2, 1, (1, 2, 3), at=8, start=7)
    history.truncation(1, 7, 10, epoch=1, at=8.2)
    history.log = history.log[:7]
    return history.finish()
