"""Transactions that nobody ends: when one is a fault, when it is lawful, and when nobody can say."""

from collections.abc import Sequence
from typing import Any

from harness.history.schema.schemas import TABLES
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

ABORTED, UNKNOWN = 1, 2
PROCESSOR, PRODUCER_ID, VALUE = 21, 1001, 900
AT = 3  # its offset
KAFKA, BEFORE_KIP_890 = "kafka:4.3.1", "kafka:3.5.1"
HANGS = {"hanging-transaction violation": SOME}
HANGS_LAWFULLY = {"hanging-transaction permitted": SOME}
PERHAPS = {"hanging-transaction observation": SOME}
# What the final read did not get, since committed readers are held back, may be told besides.
UNREAD = ("unseen-tail observation", "end-told-too-low observation", "unreadable observation")


def _open(
    outcome: int = UNKNOWN, *, ended: float = 6.0, system: str = KAFKA, answered: float = 4.1, **more: Any
) -> HistoryBuilder:
    """Values 0 to 2 at 0 to 2; at second 4 a transaction's record at 3, then plain ones at 4 and 5. `ended`: when the
    client was answered its end, or gave up."""
    history = led(3, system=system, **more)
    history.anchors = [{"monotonic_ns": 0, "wall_ns": 0}]
    history.client(PROCESSOR, role="producer", transactional_id="p", acks=-1, idempotent=True)
    history.client(99, role="consumer", isolation="read_committed")
    history.transaction(1, outcome, at=3.9, until=ended, process=PROCESSOR, transactional_id="p")
    elapsed_s = answered - 4
    history.send(VALUE, AT, at=4, elapsed_s=elapsed_s, process=PROCESSOR, transaction=1, status=outcome)
    history.log.append((AT, 0, VALUE))
    history.ack(4, at=7)
    return history.ack(5, at=8)


def _end(history: HistoryBuilder, *, stable: int = AT, hangs: bool | None = True, at: float = 90) -> HistoryBuilder:
    """The logs at the end, and the final read, which gets to the last stable offset. hangs: whether the logs have the
    transaction without an end; None: they were not read for that."""
    for node in history.brokers:
        history.replica(node, history.log, high_watermark=len(history.log), at=at)
        history.rows["replica_snapshots"][-1]["open_transactions"] = (
            None if hangs is None else [_open_transaction()][: int(hangs)]
        )
    history.final([(offset, value) for offset, _, value in history.log if offset < stable and value != VALUE])
    history.partition |= {
        "end_offset": len(history.log),
        "last_stable_offset": stable,
        "read_to_end": stable == len(history.log),
    }
    return history


def _open_transaction() -> dict[str, Any]:
    place = {"first_offset": AT, "last_offset": AT}
    return {"producer_id": PRODUCER_ID, "producer_epoch": 0, "begun_ms": 4_000, **place}


def _coordinated(
    history: HistoryBuilder,
    states: Sequence[tuple[float, str]],
    *,
    reason: str = "end",
    at: float = 90.0,
    replicas: Sequence[int] = (1, 2, 3),
    isr: Sequence[int] | None = None,
    timeout_ms: int = 4_000,
) -> HistoryBuilder:
    """The log of its coordinator as broker 1 had it, and who had it."""
    history._add(
        "internal_partition_states",
        topic="__transaction_state",
        partition=0,
        time_ns=0,
        uncertainty_ns=0,
        exact=True,
        observer=-1,
        leader=1,
        leader_epoch=0,
        isr=list(replicas if isr is None else isr),
        replicas=list(replicas),
    )
    history._add(
        "internal_replica_snapshots",
        snapshot=history._snapshot,
        node=1,
        time_ns=int(at * SECOND),
        reason=reason,
        topic="__transaction_state",
        partition=0,
        log_start_offset=0,
        log_end_offset=len(states),
        leader_epochs="0:0",
        kept_from=0,
    )
    for offset, (state_at, state) in enumerate(states):
        history.rows["transaction_state"].append(
            dict.fromkeys(TABLES["transaction_state"].names)
            | {
                "run": history.run,
                "snapshots": [history._snapshot],
                "partition": 0,
                "offset": offset,
                "time_ns": int(state_at * SECOND),
                "transactional_id": "p",
                "removed": False,
                "producer_id": PRODUCER_ID,
                "producer_epoch": 0,
                "state": state,
                "timeout_ms": timeout_ms,
                "begun_ns": int(4.05 * SECOND),
                "partitions": [{"topic": "t", "partition": 0}] if state == "Ongoing" else [],
            }
        )
    history._snapshot += 1
    return history


@case(
    "aborted for certain at second 6; 80 quiet seconds later committed readers get nothing from its record on",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="KIP-98: the coordinator writes the markers of what it has decided",
)
def aborted_and_never_marked() -> HistoryBuilder:
    return _end(_open(ABORTED), hangs=None)


@case(
    "the same, and the logs themselves have no end of it",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="KIP-98: the coordinator writes the markers of what it has decided",
)
def aborted_and_open_in_the_logs() -> HistoryBuilder:
    return _end(_open(ABORTED))


@case(
    "the same, answered a second before the logs were read",
    OPEN,
    PERHAPS,
    also=UNREAD,
    why="markers follow the answer",
)
def aborted_a_moment_ago() -> HistoryBuilder:
    return _end(_open(ABORTED, ended=89))


@case(
    "the same, and a broker was paused from the answer on",
    OPEN,
    PERHAPS,
    also=UNREAD,
    why="its coordinator may have been that broker",
)
def aborted_and_held_up() -> HistoryBuilder:
    history = _open(ABORTED).fault("pause", [3], at=6.1, until=85)
    return _end(history)


@case(
    "the same, and a disk was lost on the way; nobody recorded where the coordinator's log was",
    OPEN,
    PERHAPS,
    also=UNREAD,
    why="it may have been the only copy",
)
def aborted_and_a_disk_was_lost() -> HistoryBuilder:
    history = _open(ABORTED).destroyed("wipe", 3, "disk", at=10, until=12)
    return _end(history)


@case(
    "aborted for certain, and its marker is there",
    PASS,
    why="nothing holds anybody back",
)
def aborted_and_marked() -> HistoryBuilder:
    return _end(_open(ABORTED), stable=6, hangs=False)


@case(
    "its client died; its time-out of 4 s passed 80 quiet seconds ago, and its coordinator has it as ongoing",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="a coordinator aborts what is older than its time-out (KIP-98)",
)
def never_aborted() -> HistoryBuilder:
    return _end(_coordinated(_open(), [(4.05, "Ongoing")]))


@case(
    "the same, with a time-out of 5 minutes",
    OPEN,
    PERHAPS,
    also=UNREAD,
    why="its time-out has not passed",
)
def still_in_its_time() -> HistoryBuilder:
    return _end(_coordinated(_open(), [(4.05, "Ongoing")], timeout_ms=300_000))


@case(
    "its coordinator decided to abort it, and never wrote the marker",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="what is decided is carried out",
)
def decided_and_not_marked() -> HistoryBuilder:
    return _end(_coordinated(_open(), [(4.05, "Ongoing"), (12, "PrepareAbort")]))


@case(
    "its coordinator takes it for complete, and its record was answered before",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="a complete transaction has a marker in each of its partitions, and no log was cut",
)
def complete_without_a_marker() -> HistoryBuilder:
    return _end(_coordinated(_open(), [(4.05, "Ongoing"), (12, "PrepareAbort"), (12.1, "CompleteAbort")]))


@case(
    "the same on Kafka 3.5, and its record was answered after it was complete",
    (PASS, OPEN),
    HANGS_LAWFULLY,
    also=UNREAD,
    why="before KIP-890 a late record opened a transaction that nobody knew of",
)
def came_late_before_kip_890() -> HistoryBuilder:
    history = _open(system=BEFORE_KIP_890, answered=13)
    return _end(_coordinated(history, [(4.05, "Ongoing"), (12, "PrepareAbort"), (12.1, "CompleteAbort")]))


@case(
    "the same on Kafka 4.3",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="KIP-890: a leader asks the coordinator before it appends",
)
def came_late_after_kip_890() -> HistoryBuilder:
    history = _open(answered=13)
    return _end(_coordinated(history, [(4.05, "Ongoing"), (12, "PrepareAbort"), (12.1, "CompleteAbort")]))


@case(
    "its coordinator's log had one copy, whose disk was wiped while it was ongoing",
    (PASS, OPEN),
    HANGS_LAWFULLY,
    also=UNREAD,
    why="nobody knows of it any more: the only copy of the coordinator's log was destroyed",
)
def forgotten_with_the_only_copy() -> HistoryBuilder:
    history = _coordinated(_open(), [(4.05, "Ongoing")], reason="wipe", at=10, replicas=(1,))
    history.destroyed("wipe", 1, "disk", at=10, until=12)
    return _end(history)


def _wiped_while_ongoing(at: float, *, timeout_ms: int = 4_000) -> HistoryBuilder:
    history = _coordinated(_open(), [(4.05, "Ongoing")], reason="wipe", at=at, replicas=(1,), timeout_ms=timeout_ms)
    history.destroyed("wipe", 1, "disk", at=at, until=at + 2)
    return _end(history)


@case(
    "the same at second 70, and its time-out of 4 s had passed more than a quiet minute before",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="up to there its coordinator knew of it, and did not abort it",
)
def forgotten_long_after_it_was_overdue() -> HistoryBuilder:
    return _wiped_while_ongoing(70)


@case(
    "the same at second 46, when its coordinator still had time",
    (PASS, OPEN),
    HANGS_LAWFULLY,
    also=UNREAD,
    why="time-out, interval and 30 s of patience end at second 48: the wipe took it before",
)
def forgotten_just_before_it_was_overdue() -> HistoryBuilder:
    return _wiped_while_ongoing(46)


@case(
    "the same at second 70, and its time-out is a minute",
    (PASS, OPEN),
    HANGS_LAWFULLY,
    also=UNREAD,
    why="it was not overdue before it was forgotten",
)
def forgotten_within_a_long_time_out() -> HistoryBuilder:
    return _wiped_while_ongoing(70, timeout_ms=60_000)


@case(
    "the only copy was wiped while the record was on its way, and the answer came while that broker was down",
    (PASS, OPEN),
    HANGS_LAWFULLY,
    also=UNREAD,
    why="a coordinator stores a transaction before its first record is appended, and that one never came back",
)
def forgotten_before_the_answer() -> HistoryBuilder:
    history = _coordinated(_open(answered=7), [], at=90, replicas=(1,)).destroyed("wipe", 1, "disk", at=5, until=12)
    return _end(history)


@case(
    "the same, and the broker ran again when the answer came",
    OPEN,
    PERHAPS,
    also=UNREAD,
    why="its coordinator may have stored it before its disk was wiped, or after",
)
def forgotten_before_or_after_it_was_stored() -> HistoryBuilder:
    history = _coordinated(_open(answered=7), [], at=90, replicas=(1,)).destroyed("wipe", 1, "disk", at=5, until=6)
    return _end(history)


@case(
    "the only copy was wiped before the transaction began",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="nothing was destroyed that knew of it",
)
def wiped_before_it_began() -> HistoryBuilder:
    history = _coordinated(_open(), [], at=90, replicas=(1,)).destroyed("wipe", 1, "disk", at=2, until=3)
    return _end(history)


@case(
    "its coordinator's log had three copies, one of whose disks was wiped, and no log has it at the end",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="two copies were left",
)
def forgotten_with_one_copy_of_three() -> HistoryBuilder:
    history = _coordinated(_open(), [(4.05, "Ongoing")], reason="wipe", at=10)
    history.destroyed("wipe", 1, "disk", at=10, until=12)
    return _end(history)


@case(
    "a predecessor of the same producer was decided before its first record was made, and completed after that",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="what was completed is the predecessor: this one is ongoing, long past its time-out",
)
def the_predecessor_is_complete() -> HistoryBuilder:
    states = [(3.0, "Ongoing"), (3.8, "PrepareCommit"), (4.02, "CompleteCommit"), (4.05, "Ongoing")]
    return _end(_coordinated(_open(), states))


# -- what took it from its coordinator's log --------------------------------

STATE = ("__transaction_state", 0)
UNCLEAN = "unclean.leader.election.enable"


@case(
    "its coordinator's log had three copies, and only the one that was wiped was in sync",
    (PASS, OPEN),
    HANGS_LAWFULLY,
    also=UNREAD,
    why="every in-sync copy of the coordinator's log was destroyed",
)
def forgotten_with_the_only_copy_in_sync() -> HistoryBuilder:
    history = _coordinated(_open(), [(4.05, "Ongoing")], reason="wipe", at=10, isr=(1,))
    history.destroyed("wipe", 1, "disk", at=10, until=12)
    return _end(history)


def _wiped_in_turn(*, left_the_isr: bool) -> HistoryBuilder:
    history = _coordinated(_open(), [(4.05, "Ongoing")], reason="wipe", at=10)
    for node, at in ((1, 10), (2, 20), (3, 30)):
        history.destroyed("wipe", node, "disk", at=at, until=at + 2)
        if left_the_isr:
            others = [each for each in (1, 2, 3) if each != node]
            history.kept_state(STATE, others[0], at, others, at=at + 0.1)
            history.kept_state(STATE, others[0], at, (1, 2, 3), at=at + 6)
    return _end(history)


@case(
    "all three copies were wiped one after the other, and each was in sync again before the next",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="each copied the log from the others",
)
def forgotten_with_copies_that_were_made_again() -> HistoryBuilder:
    return _wiped_in_turn(left_the_isr=True)


@case(
    "all three copies were wiped one after the other, and the books never had one of them leave the ISR",
    OPEN,
    PERHAPS,
    also=UNREAD,
    why="nobody knows whether one had copied the log before the next was wiped",
)
def forgotten_with_copies_that_may_have_been_made_again() -> HistoryBuilder:
    return _wiped_in_turn(left_the_isr=False)


def _elected_uncleanly(allowed: str) -> HistoryBuilder:
    history = _coordinated(_open(settings={UNCLEAN: allowed}), []).kept_state(STATE, 1, 0, (1,), at=3)
    history.fault("kill", [1], at=10, until=20)
    history.kept_state(STATE, 2, 1, (2,), at=12)
    return _end(history)


@case(
    "a broker out of sync was elected leader of its coordinator's log, which the brokers' setting allows",
    (PASS, OPEN),
    HANGS_LAWFULLY,
    also=UNREAD,
    why="an unclean election of that log which its settings allowed",
)
def forgotten_in_an_allowed_election() -> HistoryBuilder:
    return _elected_uncleanly("true")


@case(
    "the same, and the setting forbids it",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="no election that cost the coordinator its log was allowed",
)
def forgotten_in_a_forbidden_election() -> HistoryBuilder:
    return _elected_uncleanly("false")


@case(
    "the only copy of another transactional id's log was wiped",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="its own log was not touched, and has nothing of it",
)
def another_ids_log_is_wiped() -> HistoryBuilder:
    history = _coordinated(_open(), [], replicas=(1,))
    for node in history.brokers:
        history.said_at_start(node, "transaction.state.log.num.partitions", "2")  # id p: 112 % 2
    history.kept_state(("__transaction_state", 1), 3, 0, (3,), at=0, replicas=(3,))
    history.destroyed("wipe", 3, "disk", at=10, until=12)
    return _end(history)


# -- when its marker is due --------------------------------


@case(
    "its end was decided, and its partition had no leader until five seconds before the logs were read",
    OPEN,
    PERHAPS,
    also=UNREAD,
    why="nobody can write a marker into a partition that nobody leads",
)
def decided_and_nobody_led() -> HistoryBuilder:
    history = _coordinated(_open(), [(4.05, "Ongoing"), (12, "PrepareAbort")]).state(-1, 1, (), at=12.1)
    history.state(1, 2, (1, 2, 3), at=85)
    return _end(history)


@case(
    "Kafka 4.3 looks for what is older than its time-out every 10 s: 30 s of time-out, and 86 s have passed",
    VIOLATION,
    HANGS,
    also=UNREAD,
    why="30 s, 10 s until it is looked for, and 30 s are over",
)
def overdue_where_it_is_looked_for_often() -> HistoryBuilder:
    return _end(_coordinated(_open(), [(4.05, "Ongoing")], timeout_ms=30_000))


@case(
    "the same on Kafka 1.1, which looks every minute",
    OPEN,
    PERHAPS,
    also=UNREAD,
    why="30 s, a minute until it is looked for, and 30 s are not over",
)
def in_its_time_where_it_is_looked_for_seldom() -> HistoryBuilder:
    return _end(_coordinated(_open(system="kafka:1.1.1"), [(4.05, "Ongoing")], timeout_ms=30_000))


@case(
    "its time-out of 47 s passed, and nobody had to see it yet; its client stamped the record with an earlier time",
    OPEN,
    PERHAPS,
    also=UNREAD,
    why="a client stamps its records as it likes (CreateTime): the transaction began when it was begun",
)
def stamped_before_it_began() -> HistoryBuilder:
    history = _end(_coordinated(_open(), [(4.05, "Ongoing")], timeout_ms=47_000))
    for row in history.rows["replica_snapshots"]:
        row["open_transactions"] = [{**_open_transaction(), "begun_ms": 0}]
    return history
