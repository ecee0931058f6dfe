"""Transactions over their whole life: epochs that each of them raises, ids that expire, coordinators that are lost with
what they had decided, and markers that never came."""

from collections.abc import Sequence
from typing import Any

from harness.history.facts.internal_topics import partition_of
from harness.ports.load import WorkloadSpec
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
PRODUCER, READER, FINAL = 21, 22, 99
PRODUCER_ID = 1001
PLACE = partition_of("g", 50)
KEPT = ("__consumer_offsets", PLACE)
DECIDED_IN = ("__transaction_state", partition_of("p", 50))
UNREAD = ("unseen-tail observation", "end-told-too-low observation", "unreadable observation")
HANGS = {"hanging-transaction violation": SOME}
PERHAPS = {"hanging-transaction observation": SOME}
HANGS_LAWFULLY = {"hanging-transaction permitted": SOME}
State = tuple[float, str, int, int]  # when, what, producer id and epoch


def _begun(
    count: int = 0, *, system: str = "kafka:4.3.1", isolation: str | None = "read_committed", **more: Any
) -> HistoryBuilder:
    history = led(count, system=system, **more)
    history.anchors = [{"monotonic_ns": 0, "wall_ns": 0}]
    history.client(PRODUCER, role="producer", transactional_id="p", acks=-1, idempotent=True, tells_attempts=True)
    return history.client(FINAL, role="consumer", isolation=isolation, offset_reset="earliest")


def _log_of_the_coordinator(
    history: HistoryBuilder,
    states: Sequence[State],
    *,
    nodes: Sequence[int] = (1, 2, 3),
    reason: str = "end",
    at: float = 110,
    timeout_ms: int = 60_000,
    clock: float = 0,
) -> HistoryBuilder:
    """A log of __transaction_state, as these replicas had it; begun: at the last Ongoing. clock: theirs is so "
    "far ahead."""
    begun = 0.0
    snapshots = []
    for node in nodes:
        history.kept_log(DECIDED_IN, node, len(states), at=at)
        history.rows["internal_replica_snapshots"][-1]["reason"] = reason
        snapshots.append(len(history.rows["internal_replica_snapshots"]) - 1)
    for time, state, producer_id, epoch in states:
        begun = time if state == "Ongoing" else begun
        history.decided(
            state,
            at=time + clock,
            transactional_id="p",
            snapshots=snapshots,
            partition=DECIDED_IN[1],
            producer_id=producer_id,
            producer_epoch=epoch,
            timeout_ms=timeout_ms,
            begun_ns=int((begun + clock) * SECOND),
            partitions=[{"topic": "t", "partition": 0}] if state == "Ongoing" or "Prepare" in state else [],
        )
    return history


def _in_a_row(states: Sequence[State], outcomes: Sequence[int], **more: Any) -> HistoryBuilder:
    """Transactions of one record each, at offsets 0, 2, 4 ..., begun at seconds 6, 12, 18 ..., a marker behind each."""
    history = _begun(system="kafka:4.3.1")
    seen = []
    for number, outcome in enumerate(outcomes):
        at = 6.0 * (number + 1)
        history.send(50 + number, 2 * number, at=at + 0.1, process=PRODUCER, transaction=number + 1, status=outcome)
        history.transaction(number + 1, outcome, at=at, until=at + 1, process=PRODUCER, transactional_id="p")
        if outcome == COMMITTED:
            seen.append((2 * number, 50 + number))
    _log_of_the_coordinator(history, states, **more)
    history.final(seen)
    history.partition.update(end_offset=2 * len(outcomes), last_stable_offset=2 * len(outcomes))
    return history


# ---- epochs and ids -------------------------------------------------------------------------------------------------


@case(
    "Kafka 4: three transactions with offsets, each decided in the epoch after that of its records; all logs were kept",
    PASS,
    why="KIP-890: the end of a transaction raises the epoch, and its markers carry the new one",
)
def every_end_raises_the_epoch() -> HistoryBuilder:
    history = _begun(10)
    history.rows["processes"][-2].update(role="both", group="g", offset_reset="latest", isolation="read_committed")
    history.client(READER, role="consumer", group="g", offset_reset="latest", isolation="read_committed")
    history.kept_state(KEPT, 1, 0, (1, 2, 3), at=0)
    for node in history.brokers:
        history.kept_log(KEPT, node, 6)
    history.group("assigned", at=2.5, process=PRODUCER, generation=1, offset=0)
    history.reads(PRODUCER, range(10), at=3)
    states: list[State] = []
    for number in (1, 2, 3):
        at, epoch = 6.0 * number, number - 1
        history.transaction(number, COMMITTED, at=at, until=at + 1, process=PRODUCER, transactional_id="p", group="g")
        history.group("committed", at=at + 0.5, process=PRODUCER, generation=1, offset=3 * number, transaction=number)
        history.kept_offset(
            PLACE,
            3 * number,
            at=at + 0.505,
            producer_id=PRODUCER_ID,
            producer_epoch=epoch,
            transactional=True,
        )
        history.kept_marker(PLACE, at=at + 0.95, producer_id=PRODUCER_ID, producer_epoch=epoch + 1)
        states += [
            (at + 0.4, "Ongoing", PRODUCER_ID, epoch),
            (at + 0.9, "PrepareCommit", PRODUCER_ID, epoch + 1),
            (at + 0.96, "CompleteCommit", PRODUCER_ID, epoch + 1),
        ]
    _log_of_the_coordinator(history, states)
    return history.group("fetched", at=90, process=READER, offset=9, require_stable=True).finish()


@case(
    "a producer's epochs are used up: its transaction ends under the old id, and the next one has another producer id",
    PASS,
    why="KIP-360, KIP-890: at the last epoch the coordinator hands out a new producer id",
)
def epochs_are_used_up() -> HistoryBuilder:
    return _in_a_row(
        [
            (6.1, "Ongoing", PRODUCER_ID, 32766),
            (6.9, "PrepareCommit", PRODUCER_ID, 32767),
            (6.95, "CompleteCommit", 2002, 0),
            (12.1, "Ongoing", 2002, 0),
            (12.9, "PrepareCommit", 2002, 1),
            (12.95, "CompleteCommit", 2002, 1),
        ],
        [COMMITTED, COMMITTED],
    )


@case(
    "the brokers' clocks are an hour ahead of the clients'; of three transactions the second was aborted, as "
    "it was told",
    PASS,
    why="what was decided agrees with what was told, whatever the clocks say",
)
def decided_by_clocks_an_hour_ahead() -> HistoryBuilder:
    states: list[State] = []
    for number, end in enumerate(("Commit", "Abort", "Commit")):
        at = 6.0 * (number + 1)
        states += [
            (at + 0.1, "Ongoing", PRODUCER_ID, 0),
            (at + 0.9, f"Prepare{end}", PRODUCER_ID, 0),
            (at + 0.95, f"Complete{end}", PRODUCER_ID, 0),
        ]
    return _in_a_row(states, [COMMITTED, ABORTED, COMMITTED], clock=3600)


@case(
    "transactional ids are kept for ten seconds; between two transactions the id expires, and comes again with another "
    "producer id in epoch 0",
    PASS,
    why="transactional.id.expiration.ms: nothing was open when it went",
)
def an_id_expires_between_two_transactions() -> HistoryBuilder:
    history = _in_a_row(
        [
            (6.1, "Ongoing", PRODUCER_ID, 4),
            (6.9, "PrepareCommit", PRODUCER_ID, 5),
            (6.95, "CompleteCommit", PRODUCER_ID, 5),
            (11, "Dead", PRODUCER_ID, 5),
            (12.1, "Ongoing", 2002, 0),
            (12.9, "PrepareCommit", 2002, 1),
            (12.95, "CompleteCommit", 2002, 1),
        ],
        [COMMITTED, COMMITTED],
    )
    history.rows["transaction_state"][3].update(removed=True, state=None, producer_id=None, producer_epoch=None)
    return history


# ---- what nobody ends -----------------------------------------------------------------------------------------------


def _open(outcome: int = UNKNOWN, *, ended: float = 6.0, answered: float = 4.1, **more: Any) -> HistoryBuilder:
    """Values 0 to 2; at second 4 a transaction's record at 3; plain ones at 4 and 5."""
    history = _begun(3, **more).transaction(1, outcome, at=3.9, until=ended, process=PRODUCER, transactional_id="p")
    history.send(900, 3, at=4, elapsed_s=answered - 4, process=PRODUCER, transaction=1, status=outcome)
    history.log.append((3, 0, 900))
    history.ack(4, at=7)
    return history.ack(5, at=8)


def _end_of(history: HistoryBuilder, *, stable: int = 3, open_on: Sequence[int] = (1, 2, 3)) -> HistoryBuilder:
    """The logs at 90, with the transaction open on these brokers, and the final read up to the last stable offset."""
    place = {"first_offset": 3, "last_offset": 3}
    open_transaction = {"producer_id": PRODUCER_ID, "producer_epoch": 0, "begun_ms": 4_000, **place}
    for node in history.brokers:
        history.replica(node, history.log, high_watermark=len(history.log))
        history.rows["replica_snapshots"][-1]["open_transactions"] = [open_transaction] if node in open_on else []
    history.final([(offset, value) for offset, _, value in history.log if offset < stable and value != 900])
    end = len(history.log)
    history.partition.update(end_offset=end, last_stable_offset=stable, read_to_end=stable == end)
    return history


def _coordinated(history: HistoryBuilder, replicas: Sequence[int] = (1, 2, 3)) -> HistoryBuilder:
    return history.kept_state(DECIDED_IN, replicas[-1], 0, replicas, at=0, replicas=replicas)


@case(
    "a transaction of a two-phase commit, which has no time-out, is open for 86 seconds, and nobody has ended it",
    (PASS, OPEN),
    PERHAPS,
    also=UNREAD,
    why="KIP-939: with two.phase.commit the coordinator never aborts it by time-out",
)
def open_in_a_two_phase_commit() -> HistoryBuilder:
    history = _coordinated(_open())
    _log_of_the_coordinator(history, [(4.05, "Ongoing", PRODUCER_ID, 0)], timeout_ms=2**31 - 1, at=90)
    return _end_of(history)


@case(
    "its coordinator's own log has it as ongoing, and then a tombstone of its id, though nothing was lost",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="only an id without an open transaction expires",
)
def expired_while_it_was_open() -> HistoryBuilder:
    history = _coordinated(_open())
    _log_of_the_coordinator(
        history, [(4.05, "Ongoing", PRODUCER_ID, 0), (40, "Dead", PRODUCER_ID, 0)], timeout_ms=4_000, at=90
    )
    history.rows["transaction_state"][-1].update(removed=True, state=None, producer_id=None, producer_epoch=None)
    return _end_of(history)


@case(
    "a follower's log, out of sync since before the marker came, has the transaction open; committed readers "
    "get it all",
    PASS,
    why="its leader's log has the marker, and so will it",
)
def open_on_a_follower_that_lags() -> HistoryBuilder:
    history = _coordinated(_open(ABORTED)).state(1, 0, (1, 2), at=5)
    return _end_of(history, stable=6, open_on=(3,))


def _told_and_wiped(*, at: float) -> HistoryBuilder:
    """Its commit was answered at 6; the only copy of its coordinator's log was on broker 3, whose disk is wiped."""
    history = _coordinated(_open(COMMITTED), replicas=(3,))
    states: list[State] = [(4.05, "Ongoing", PRODUCER_ID, 0), (5.9, "PrepareCommit", PRODUCER_ID, 0)]
    _log_of_the_coordinator(history, states, nodes=(3,), reason="wipe", at=at)
    history.destroyed("wipe", 3, "disk", at=at, until=at + 1)
    history.started(3, at=at + 1)
    return _end_of(history)


@case(
    "a commit is answered; 0.2 s later the only copy of the coordinator's log is wiped, and no marker ever comes",
    (PASS, OPEN),
    HANGS_LAWFULLY,
    also=[*UNREAD, "lost-write observation", "torn-transaction observation", "lost-write permitted"],
    why="who had decided it forgot it, lawfully: the markers follow the answer",
)
def wiped_between_the_answer_and_the_markers() -> HistoryBuilder:
    return _told_and_wiped(at=6.2)


@case(
    "the same, and 54 quiet seconds lay between the answer and the wipe",
    (VIOLATION, OPEN),
    also=[*UNREAD, "hanging-transaction violation", "hanging-transaction observation", "lost-write observation"],
    why="the marker was overdue long before anything was lost",
)
def wiped_long_after_the_marker_was_due() -> HistoryBuilder:
    return _told_and_wiped(at=60)


def _came_late(**more: Any) -> HistoryBuilder:
    """Its record was answered at 13, after its coordinator had aborted it by time-out."""
    states: list[State] = [
        (4.05, "Ongoing", PRODUCER_ID, 0),
        (12, "PrepareAbort", PRODUCER_ID, 0),
        (12.1, "CompleteAbort", PRODUCER_ID, 0),
    ]
    history = _coordinated(_open(answered=13, **more))
    return _end_of(_log_of_the_coordinator(history, states, timeout_ms=4_000, at=90))


@case(
    "Kafka 4.3.1 with transaction.version 1: a record comes after its transaction's end, and opens one for good",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="leaders verify with the coordinator since 3.6 (KIP-890, part 1), whatever the transaction version",
)
def came_late_with_the_first_transaction_version() -> HistoryBuilder:
    return _came_late().configured("transaction.version", "1", scope="feature", name="")


@case(
    "Kafka 4.3.1 whose brokers do not verify (transaction.partition.verification.enable=false): the same",
    (PASS, OPEN),
    HANGS_LAWFULLY,
    also=UNREAD,
    why="that is what the setting gives up",
)
def came_late_where_nobody_verifies() -> HistoryBuilder:
    return _came_late(settings={"transaction.partition.verification.enable": "false"})


# ---- what readers saw -----------------------------------------------------------------------------------------------


@case(
    "half of a committed transaction is gone from a compacted topic, where its key was written again",
    PASS,
    {"removed-by-configuration observation": {6}},
    why="compaction takes what was written over, in a transaction or not",
)
def half_of_it_compacted() -> HistoryBuilder:
    history = _begun(topics={"t": {}, "c": {"cleanup.policy": "compact"}})
    history.place(1, "c", 0, log_start_offset=0, cleanup_policy="compact")
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.send(5, 0, at=2, process=PRODUCER, transaction=1)
    history.send(6, 0, at=2.2, process=PRODUCER, transaction=1, partition_id=1, key=1)
    history.transaction(1, COMMITTED, at=1.9, until=3, process=PRODUCER, transactional_id="p")
    history.send(7, 2, at=4, process=3, partition_id=1, key=1)
    history.final([(0, 5)])
    history.final([(2, 7)], partition_id=1, key=1)
    history.rows["partitions"][0]["end_offset"] = 2
    history.rows["partitions"][1]["end_offset"] = 3
    return history


@case(
    "a committed reader is given a record above one of an open transaction, whose send was answered only later",
    VIOLATION,
    {"last-stable-offset violation": SOME},
    also=["skipped-read violation", "head-skip violation", "cycle permitted", "cycle violation"],
    why="the record below was in the log before, answered or not, and its transaction open",
)
def passed_before_the_record_was_answered() -> HistoryBuilder:
    history = _begun().client(3, role="producer", acks=-1, idempotent=True)
    history.client(9, role="consumer", isolation="read_committed", offset_reset="earliest")
    history.send(10, 0, at=1, elapsed_s=4, process=PRODUCER, transaction=1)
    history.send(30, 1, at=1.5, process=3)
    history.poll([(1, 30)], at=2.4)
    history.transaction(1, COMMITTED, at=0.9, until=6, process=PRODUCER, transactional_id="p")
    history.final([(0, 10), (1, 30)])
    history.partition.update(end_offset=3)
    return history


@case(
    "in a folder that does not say how the final reader read, the record of an aborted transaction is in the final log",
    (PASS, OPEN),
    why="a read_uncommitted reader sees it, lawfully; nobody knows that this one was another",
)
def aborted_and_read_by_nobody_knows_whom() -> HistoryBuilder:
    history = _begun(3, isolation=None).transaction(1, ABORTED, at=3.9, until=6, process=PRODUCER, transactional_id="p")
    history.send(900, 3, at=4, process=PRODUCER, transaction=1, status=ABORTED)
    history.log.append((3, 0, 900))
    history.ack(4, at=7)
    history.log[-1] = (5, 0, 4)
    history.rows["records"][-1]["offset"] = 5
    return history.finish(snapshots=False)


@case(
    "Kafka 3.9.0: complete by the coordinator's log; a second after that the group is told the offset from before",
    PASS,
    why="KAFKA-17507, of 3.9.1: until then the group's offsets may follow the complete transaction",
)
def complete_before_its_offsets_are() -> HistoryBuilder:
    history = _begun(10, system="kafka:3.9.0")
    history.rows["processes"][-2].update(role="both", group="g", offset_reset="latest", isolation="read_committed")
    history.client(READER, role="consumer", group="g", offset_reset="latest", isolation="read_committed")
    history.group("assigned", at=2.5, process=PRODUCER, generation=1, offset=0)
    history.reads(PRODUCER, range(4), at=3)
    history.group("committed", at=4, process=PRODUCER, generation=1, offset=2)
    history.transaction(1, COMMITTED, at=7, until=8, process=PRODUCER, transactional_id="p", group="g")
    history.group("committed", at=7.5, process=PRODUCER, generation=1, offset=4, transaction=1)
    _log_of_the_coordinator(
        history,
        [
            (7.1, "Ongoing", PRODUCER_ID, 0),
            (7.9, "PrepareCommit", PRODUCER_ID, 0),
            (7.98, "CompleteCommit", PRODUCER_ID, 0),
        ],
    )
    history.group("fetched", at=9, process=READER, offset=2, require_stable=False)
    return history.group("fetched", at=90, process=READER, offset=4, require_stable=False).finish()


def _timed_out(*, goes_on: bool) -> HistoryBuilder:
    """A record at 0 of second 1, its transaction aborted; a plain one at 2 is given to a committed reader at 14; at 20
    the client sends once more."""
    history = _begun().client(3, role="producer", acks=-1, idempotent=True)
    history.client(9, role="consumer", isolation="read_committed", offset_reset="earliest")
    history.send(10, 0, at=1, process=PRODUCER, transaction=1, status=ABORTED)
    history.send(30, 2, at=13, process=3)
    history.poll([(2, 30)], at=14)
    history.send(11, 3 if goes_on else None, at=20, process=PRODUCER, transaction=1, status=ABORTED)
    history.transaction(1, ABORTED, at=0.9, until=21, process=PRODUCER, transactional_id="p")
    history.final([(2, 30)])
    history.partition.update(end_offset=5)
    return history


@case(
    "a transaction is aborted by its time-out behind its client's back, and committed readers go on; what the client "
    "sends then is refused",
    PASS,
    why="the coordinator may have ended it before the poll, and nothing came of it afterwards",
)
def ended_by_its_time_out_behind_its_client() -> HistoryBuilder:
    return _timed_out(goes_on=False)


@case(
    "the same, and what the client sends then gets an offset",
    VIOLATION,
    {"last-stable-offset violation": SOME},
    also=["head-skip violation", "cycle permitted"],
    why="a partition takes nothing of a transaction that ended: it was open when the readers went on",
)
def open_when_the_readers_went_on() -> HistoryBuilder:
    return _timed_out(goes_on=True)


def _tried_again(isolation: str) -> HistoryBuilder:
    """An application's transaction with a record is aborted, and made again with the same record: offsets 0 and 2."""
    history = _begun(isolation=isolation, workload=WorkloadSpec())
    for number, (offset, outcome) in enumerate(((0, ABORTED), (2, COMMITTED)), start=1):
        at = 3.0 * number
        history.send(10, offset, at=at, process=PRODUCER, transaction=number, status=outcome)
        history.transaction(number, outcome, at=at - 0.1, until=at + 1, process=PRODUCER, transactional_id="p")
    history.final([(0, 10), (2, 10)] if isolation == "read_uncommitted" else [(2, 10)])
    history.partition.update(end_offset=4)
    return history


@case(
    "an application's transaction is aborted and made again with the same record; a reader of everything finds "
    "it twice",
    PASS,
    why="it was sent twice, and a reader of everything sees the aborted one as well",
)
def made_again_after_an_abort_and_read_twice() -> HistoryBuilder:
    return _tried_again("read_uncommitted")


@case(
    "the same, and a committed reader finds it once",
    PASS,
    why="that is the one that was committed",
)
def made_again_after_an_abort() -> HistoryBuilder:
    return _tried_again("read_committed")
