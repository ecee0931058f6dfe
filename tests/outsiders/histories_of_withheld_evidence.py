"""The same events with less and less evidence: journals alone, no logs, some logs, no broker's word, folders of old."""

from collections.abc import Collection
from typing import Any

from harness.history.schema.schemas import TABLES
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

A, B, PROCESSOR = 11, 12, 21
OF_CLIENTS = (
    "operations",
    "records",
    "processes",
    "client_events",
    "transactions",
    "group_events",
    "value_names",
    "partitions",
)


def _journals_alone(history: HistoryBuilder, *, beside: Collection[str] = ()) -> HistoryBuilder:
    """All that clusters, brokers and disks told is withheld."""
    for table in TABLES:
        if table not in OF_CLIENTS and table not in beside:
            history.rows[table].clear()
    return history


def _without(history: HistoryBuilder, *tables: str) -> HistoryBuilder:
    for table in tables:
        history.rows[table].clear()
    return history


# ---- losses ------------------------------------------------------------------------------------------------------


def _fail_over(*, acks: int = -1, kept: int = 7, **more: Any) -> HistoryBuilder:
    history = led(5, **more)
    for value in range(5, 10):
        history.ack(value, at=2 + value / 10, acks=acks)
    return history.fail_over(2, kept=kept).finish()


@case(
    "journals alone: everything acknowledged is read at the end",
    PASS,
    why="the promise is kept, whoever led",
)
def journals_alone_and_all_there() -> HistoryBuilder:
    return _journals_alone(_fail_over(kept=10))


@case(
    "journals alone: three records with acks=1 are gone, and nobody recorded who led",
    OPEN,
    {"lost-write observation": {7, 8, 9}},
    why="a clean fail-over may have taken them, and it may not",
)
def journals_alone_and_acks_1_gone() -> HistoryBuilder:
    return _journals_alone(_fail_over(acks=1))


@case(
    "journals and faults: three records by all are gone, a broker was killed and nobody recorded who led; unclean "
    "elections are allowed",
    OPEN,
    {"lost-write observation": {7, 8, 9}},
    why="an unclean election may have taken them, and it may not",
)
def journals_and_faults_where_unclean_is_allowed() -> HistoryBuilder:
    settings = {"unclean.leader.election.enable": "true"}
    return _journals_alone(_fail_over(topics={"t": settings}), beside=["faults", "configuration"])


@case(
    "the books and the final read, no logs and no broker's word: three by all are gone over a clean fail-over",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    why="the books are exact, and no unclean election and no lost disk was there",
)
def books_alone_and_gone() -> HistoryBuilder:
    return _without(_fail_over(), "replica_snapshots", "replica_log", "broker_events")


@case(
    "the books and the final read, no logs and no broker's word: three with acks=1 are gone over a clean fail-over",
    OPEN,
    {"lost-write observation": {7, 8, 9}},
    why="acks=1 and another leader: but no log shows where that one began, and it may have lost them later",
)
def books_alone_and_acks_1_gone() -> HistoryBuilder:
    return _without(_fail_over(acks=1), "replica_snapshots", "replica_log", "broker_events")


@case(
    "one log of three was read, that of a follower, and it lacks the last two; the final read has everything",
    PASS,
    also=("evidence observation",),
    why="the leader gave them to the reader; a log that was read before they came proves nothing",
)
def one_short_log_was_read() -> HistoryBuilder:
    history = led()
    history.replica(3, history.log[:8], at=1.85, reason="restart", high_watermark=7)
    return history.finish(snapshots=False)


@case(
    "one log of three was read, that of the last leader, and the final read ended early: it has all ten",
    VIOLATION,
    {"end-told-too-low violation": SOME, "unseen-tail observation": {8, 9}},
    also=("evidence observation",),
    why="the leader has them and was asked when they had been acknowledged by all; they are not lost",
)
def final_read_ends_early_with_the_leaders_log() -> HistoryBuilder:
    history = led()
    log, history.log = history.log, history.log[:8]
    history.finish(snapshots=False)
    return history.replica(1, log, at=110, high_watermark=10)


# ---- the final read, in a folder of old and of today -------------------------------------------------------------


@case(
    "a folder of old: the final read was told 8, all three logs have ten below their high watermarks",
    (VIOLATION, OPEN),
    also=(
        "end-told-too-low violation",
        "end-told-too-low observation",
        "unreadable observation",
        "unseen-tail observation",
        "evidence observation",
    ),
    why="the end was told too low; who answered it was not recorded",
)
def told_too_low_in_a_folder_of_old() -> HistoryBuilder:
    history = led(system="kafka:2.8.2")
    log, history.log = history.log, history.log[:8]
    history.finish(snapshots=False)
    for node in (1, 2, 3):
        history.replica(node, log, at=110, high_watermark=10)
    return history.as_sealed_before()


def _answers(*answers: tuple[float, int], system: str = "kafka:4.3.1", acks: int = -1) -> HistoryBuilder:
    """The final reader asks for the end again and again, and reads everything."""
    history = led(system=system, acks=acks)
    history.client(99, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    history.finish()
    for at, end in answers:
        told = {"leader_epoch": 0, "since_ns": int(at * SECOND), "from_offset": 0, "to_offset": end}
        history.final_read("end", at=at, elapsed_s=0.01, **told)
    return history


@case(
    "the end is asked for three times and told as ten each time",
    PASS,
    why="that is the end",
)
def told_the_end_three_times() -> HistoryBuilder:
    return _answers((99, 10), (99.5, 10), (100, 10))


@case(
    "the end is told as 8 once, between two answers of ten, by a leader that nobody has replaced; everything is read",
    VIOLATION,
    {"end-told-too-low violation": SOME},
    why="a leader's high watermark never goes back, and what is below it was acknowledged a minute before",
)
def told_too_low_once() -> HistoryBuilder:
    return _answers((99, 10), (99.5, 8), (100, 10))


@case(
    "Kafka 1.1: the end is told as 8 first and then as ten; everything is read",
    PASS,
    {"end-told-too-low observation": SOME},
    why="before KIP-207 a leader might answer so",
)
def told_too_low_once_on_1_1() -> HistoryBuilder:
    return _answers((99, 8), (100, 10), system="kafka:1.1.1")


# ---- groups and transactions in folders of old -------------------------------------------------------------------


def _group(**more: Any) -> HistoryBuilder:
    return led(**more).members(A, B)


def _deposed(generation: int) -> HistoryBuilder:
    """A is replaced by B in generation 2; its commit 5 s later, sent with `generation`, is accepted."""
    history = _group(system="kafka:2.8.2").group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(4), at=3)
    history.group("assigned", at=10, process=B, generation=2, offset=0)
    history.reads(B, range(8), at=11)
    history.group("committed", at=12, process=B, generation=2, offset=8)
    history.group("committed", at=15, process=A, generation=generation, offset=4)
    history.finish()
    return history.as_sealed_before()


@case(
    "a folder of old: a member's commit of generation 1 is accepted 5 s after generation 2 gave the partition away",
    VIOLATION,
    {"zombie-commit violation": SOME},
    also=("group-redelivery observation",),
    why="commits of another generation are refused (ILLEGAL_GENERATION)",
)
def deposed_and_accepted_in_a_folder_of_old() -> HistoryBuilder:
    return _deposed(1)


@case(
    "a folder of old: the same without a generation, as a tool commits",
    PASS,
    also=("group-redelivery observation", "zombie-commit observation"),
    why="what is not known is not held against anybody",
)
def deposed_without_a_generation_in_a_folder_of_old() -> HistoryBuilder:
    return _deposed(-1)


def _in_a_transaction(outcome: int, *, answer: int, at: float, partition_id: int = 1) -> HistoryBuilder:
    """x25: offsets of two partitions are sent to one transaction, which ends at second 8; then one is asked for."""
    history = _group(system="kafka:2.8.2").place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    beside = [(offset, 0, 50 + offset) for offset in range(6)]
    for offset, _, value in beside:
        history.send(value, offset, at=1 + offset / 10, partition_id=1)
    history.client(
        PROCESSOR, role="both", group="g", transactional_id="p", acks=-1, idempotent=True, offset_reset="latest"
    )
    for each in (0, 1):
        history.group("assigned", at=2.5, process=PROCESSOR, generation=1, offset=0, partition_id=each)
        first = 50 * each
        history.poll([(n, first + n) for n in range(4)], at=3 + each / 10, process=PROCESSOR, partition_id=each)
        history.group("committed", at=4, process=PROCESSOR, generation=1, offset=2, partition_id=each)
    history.transaction(1, outcome, at=6, until=8, process=PROCESSOR, transactional_id="p", group="g")
    for each in (0, 1):
        history.group(
            "committed",
            at=7,
            process=PROCESSOR,
            generation=1,
            offset=4,
            transaction=1,
            status=outcome,
            partition_id=each,
        )
    history.group("fetched", at=at, process=B, offset=4 if partition_id else answer, partition_id=0)
    history.group("fetched", at=at, process=B, offset=answer if partition_id else 4, partition_id=1)
    history.finish()
    history.finish_partition(1, beside)
    return history.as_sealed_before()


@case(
    "a folder of old: a transaction with the offsets of two partitions was committed; 80 s later one is there, and the "
    "other is the one before",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    why="they count as a whole",
)
def half_of_the_offsets_in_a_folder_of_old() -> HistoryBuilder:
    return _in_a_transaction(0, answer=2, at=90)


@case(
    "a folder of old: the same, and both are there",
    PASS,
    why="as committed",
)
def all_of_the_offsets_in_a_folder_of_old() -> HistoryBuilder:
    return _in_a_transaction(0, answer=4, at=90)


@case(
    "a folder of old: the same, asked 2 s after the answer",
    PASS,
    why="each partition of the transaction gets its marker by itself, after the answer",
)
def half_of_the_offsets_a_moment_later() -> HistoryBuilder:
    return _in_a_transaction(0, answer=2, at=10)


def _hangs(*, for_s: float) -> HistoryBuilder:
    """x15: aborted for certain, and the last stable offset stays at its record."""
    history = led(3, system="kafka:2.8.2")
    history.client(PROCESSOR, role="producer", transactional_id="p", acks=-1, idempotent=True)
    history.client(99, role="consumer", isolation="read_committed", offset_reset="earliest")
    began = 100 - for_s
    history.transaction(1, 1, at=began - 1, until=began, process=PROCESSOR, transactional_id="p")
    history.send(900, 3, at=began - 0.5, process=PROCESSOR, transaction=1, status=1)
    log = [*history.log, (3, 0, 900)]
    for offset in (4, 5):
        history.send(offset, offset, at=began + 0.2 + offset / 10)
        log.append((offset, 0, offset))
    for node in (1, 2, 3):
        history.replica(node, log, at=99, high_watermark=6)
    history.final([(offset, offset) for offset in range(3)])
    history.partition.update(end_offset=6, last_stable_offset=3, read_to_end=False)
    return history.as_sealed_before()


@case(
    "a folder of old: a transaction was aborted for certain, and a minute later nobody gets past its record",
    (VIOLATION, OPEN),
    also=(
        "hanging-transaction violation",
        "hanging-transaction observation",
        "unseen-tail observation",
        "unreadable observation",
        "end-told-too-low observation",
    ),
    why="whatever its kind, it is no plain pass",
)
def hangs_in_a_folder_of_old() -> HistoryBuilder:
    return _hangs(for_s=60)


@case(
    "a folder of old: the same, five seconds after the answer",
    OPEN,
    also=(
        "hanging-transaction observation",
        "unseen-tail observation",
        "unreadable observation",
        "end-told-too-low observation",
    ),
    why="the marker may be under way; that two records were not read is said",
)
def ended_a_moment_ago_in_a_folder_of_old() -> HistoryBuilder:
    return _hangs(for_s=5)
