"""An application sends a value again on its own account: that is one record (docs/control.md), whatever its tries came
to."""

from harness.ports.load import WorkloadSpec
from tests.outsiders.history_builder import PASS, SOME, VIOLATION, HistoryBuilder, case, led

OK, REFUSED, UNKNOWN = 0, 1, 2
AGAIN = 50


def _tries(*tries: tuple[float, int, int | None], copies: int = 1) -> HistoryBuilder:
    """Value 50 is sent once for each try (when, outcome, offset), and the log has `copies` of it from offset 3 on."""
    history = led(3, workload=WorkloadSpec()).client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    for at, status, offset in tries:
        history.send(AGAIN, offset, at=at, status=status, error=None if status == OK else "KafkaTimeoutError")
    history.log += [(3 + place, 0, AGAIN) for place in range(copies)]
    return history


@case("the first try was refused for certain, the second acknowledged", PASS, {}, why="it is one record, and is there")
def refused_and_then_acknowledged() -> HistoryBuilder:
    return _tries((4, REFUSED, None), (5, OK, 3)).finish()


@case("it was acknowledged, sent again, and refused", PASS, {}, why="it is one record, and is there")
def acknowledged_and_then_refused() -> HistoryBuilder:
    return _tries((4, OK, 3), (5, REFUSED, None)).poll([(0, 0), (1, 1), (2, 2), (3, AGAIN)], at=4.5).finish()


@case(
    "of the first try nobody knows, the second was acknowledged; both are in the log",
    PASS,
    why="it was sent twice, and is there twice",
)
def unknown_and_then_acknowledged_and_twice_in_the_log() -> HistoryBuilder:
    return _tries((4, UNKNOWN, None), (5, OK, 4), copies=2).finish()


@case("both tries were acknowledged, and both are in the log", PASS, {}, why="it was sent twice, and is there twice")
def acknowledged_twice() -> HistoryBuilder:
    return _tries((4, OK, 3), (5, OK, 4), copies=2).finish()


@case(
    "two tries, and three copies in the log of an idempotent producer",
    VIOLATION,
    {"duplicate violation": SOME},
    why="it is there more often than it was sent",
)
def twice_sent_and_there_three_times() -> HistoryBuilder:
    return _tries((4, UNKNOWN, None), (5, OK, 4), copies=3).finish()


@case(
    "one of two tries was refused for certain, and an idempotent producer's record is there twice",
    VIOLATION,
    {"duplicate violation": SOME},
    why="a refused try leaves no copy",
)
def one_refused_and_there_twice() -> HistoryBuilder:
    return _tries((4, REFUSED, None), (5, OK, 3), copies=2).finish()


@case(
    "the first try was refused for certain, of the second nobody knows, and it is read",
    PASS,
    why="the second try may have been appended",
)
def refused_and_then_unknown_and_read() -> HistoryBuilder:
    return _tries((4, REFUSED, None), (5, UNKNOWN, None)).poll([(0, 0), (1, 1), (2, 2), (3, AGAIN)], at=6).finish()


@case(
    "both tries were refused for certain, and it is read",
    VIOLATION,
    {"aborted-read violation": SOME},
    also=("dirty-read violation",),
    why="nothing of it was appended, and it is there",
)
def refused_twice_and_read() -> HistoryBuilder:
    return _tries((4, REFUSED, None), (5, REFUSED, None)).finish()


@case(
    "the first try was refused, the second acknowledged, and it is nowhere",
    VIOLATION,
    {"lost-write violation": {AGAIN}},
    why="an acknowledged record is lost",
)
def refused_then_acknowledged_and_lost() -> HistoryBuilder:
    return _tries((4, REFUSED, None), (5, OK, 3), copies=0).finish()


@case(
    "refused before an allowed unclean election and acknowledged after it, and then lost",
    VIOLATION,
    {"lost-write violation": {AGAIN}},
    also=("unclean-election permitted", "unclean-election observation"),
    why="what is judged is the acknowledged copy, and the election was over by then",
)
def acknowledged_after_the_election_that_would_excuse_it() -> HistoryBuilder:
    history = led(3, topics={"t": {"unclean.leader.election.enable": "true"}}, workload=WorkloadSpec())
    history.client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.send(AGAIN, None, at=4, status=REFUSED, error="NotEnoughReplicasError")
    history.state(1, 0, (1,), at=4.5)
    history.fail_over(2, kept=3, isr=(2,))
    return history.send(AGAIN, 3, at=15).finish()


@case("its copies have a timestamp each", PASS, {}, why="each try has its own time")
def two_copies_with_two_timestamps() -> HistoryBuilder:
    history = led(3, workload=WorkloadSpec()).client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.send(AGAIN, None, at=4, status=UNKNOWN, error="KafkaTimeoutError", timestamp_ms=4000)
    history.send(AGAIN, 4, at=5, timestamp_ms=5000)
    history.log += [(3, 0, AGAIN), (4, 0, AGAIN)]
    history.finish()
    stamps = {3: 4000, 4: 5000}
    for row in history.rows["records"]:
        if row["kind"] == 2:
            row["timestamp_ms"] = stamps.get(row["offset"])
    return history


@case(
    "it was acknowledged and read, and sent again later, which was refused",
    PASS,
    why="it was read after the first of its sends",
)
def read_before_it_was_sent_again() -> HistoryBuilder:
    history = _tries((4, OK, 3), (9, REFUSED, None)).poll([(0, 0), (1, 1), (2, 2), (3, AGAIN)], at=5)
    history.send(60, 4, at=6, process=2)
    history.log.append((4, 0, 60))
    return history.finish()


def _compacted_at_each_place(*, later: bool) -> HistoryBuilder:
    """Key 1 is sent twice as value 50, and stands at offsets 1 and 3. By second 5 a reader passed over the first of
    the two; by the end both are gone. later: the last record has their key, and was sent after that."""
    topics = {"t": {"cleanup.policy": "compact"}}
    history = HistoryBuilder(system="kafka:3.9.1", topics=topics, workload=WorkloadSpec())
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.ack(0, at=1, key=7)
    history.send(AGAIN, None, at=2, status=UNKNOWN, error="KafkaTimeoutError", key=1)
    history.log.append((1, 0, AGAIN))
    history.ack(2, at=2.5, key=8)
    history.ack(AGAIN, at=3, key=1)
    history.poll([(0, 0), (1, AGAIN), (2, 2), (3, AGAIN)], at=4, process=8)
    history.poll([(0, 0), (2, 2)], at=5, process=9)
    for value, key in ((4, 7), (5, 8), (6, 1 if later else 9)):
        history.ack(value, at=value + 4, key=key)
    history.log = history.log[4:]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=0, cleanup_policy="compact", end_offset=7)
    return history


@case(
    "sent again on a compacted topic; one of its places was passed over before the next of its key was sent",
    PASS,
    {"removed-by-configuration observation": {0, AGAIN, 2}},
    why="the first place was compacted away for the second, and that for the next of its key",
)
def sent_again_and_passed_over_once() -> HistoryBuilder:
    return _compacted_at_each_place(later=True)


@case(
    "sent again on a compacted topic; both places are empty, and nothing later has its key",
    VIOLATION,
    {"compacted-away violation": {AGAIN}, "removed-by-configuration observation": {0, 2}},
    also=("lost-write violation", "dirty-read violation", "duplicate violation"),
    why="the last of its key stays",
)
def sent_again_and_gone_for_nothing() -> HistoryBuilder:
    return _compacted_at_each_place(later=False)
