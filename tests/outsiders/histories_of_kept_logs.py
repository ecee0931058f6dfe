"""What the logs of the coordinators say of commits and transactions, against what clients were told and fetched."""

from typing import Any

from harness.history.schema.schemas import TABLES
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
PROCESSOR, READER = 21, 22
OFFSETS, TRANSACTIONS = "consumer_offsets", "transaction_state"
TOPICS = {OFFSETS: "__consumer_offsets", TRANSACTIONS: "__transaction_state"}
MISSED = {"lost-group-offset violation": SOME}
TOLD_OTHERWISE = {"transaction-outcome violation": SOME}


def _row(history: HistoryBuilder, table: str, **columns: Any) -> None:
    history.rows[table].append({**dict.fromkeys(TABLES[table].names), "run": history.run, **columns})


def _kept(history: HistoryBuilder, table: str, snapshot: int, *, epochs: str = "0:0") -> None:
    """A replica of the log's partition 7, as it was read at the end."""
    _row(
        history,
        "internal_replica_snapshots",
        snapshot=snapshot,
        node=snapshot + 1,
        time_ns=99 * SECOND,
        reason="end",
        topic=TOPICS[table],
        partition=7,
        log_start_offset=0,
        log_end_offset=100,
        leader_epochs=epochs,
        kept_from=0,
    )


def _record(
    history: HistoryBuilder, table: str, *, at: float, snapshots: tuple[int, ...] = (0,), **columns: Any
) -> None:
    place = {"snapshots": list(snapshots), "partition": 7, "offset": len(history.rows[table])}
    _row(history, table, **place, time_ns=int(at * SECOND), removed=False, **columns)


def _state(history: HistoryBuilder, state: str, *, at: float, begun: float, snapshots: tuple[int, ...] = (0,)) -> None:
    begun_ns = int(begun * SECOND)
    _record(history, TRANSACTIONS, at=at, snapshots=snapshots, transactional_id="p", state=state, begun_ns=begun_ns)


def _offset(history: HistoryBuilder, offset: int, *, at: float, transactional: bool = False) -> None:
    own: dict[str, Any] = {"group": "g", "topic": "t", "topic_partition": 0, "committed_offset": offset}
    _record(history, OFFSETS, at=at, kind="offset", transactional=transactional, producer_id=1, **own)


def _marker(history: HistoryBuilder, commits: bool, *, at: float) -> None:
    _record(history, OFFSETS, at=at, kind="marker", transactional=True, producer_id=1, commits=commits)


def _processed(outcome: int, *, plain: tuple[float, float] | None = None, **more: Any) -> HistoryBuilder:
    """A processor, whose outputs are nobody's affair here, commits 2 plainly at second 4 and sends 4 to a transaction
    at 7.5, which ends at second 8. plain: another commit, of 3, from and until."""
    history = led(10, **more)
    history.client(PROCESSOR, role="both", group="g", transactional_id="p", offset_reset="latest", acks=-1)
    history.client(READER, role="consumer", group="g", offset_reset="latest", isolation="read_committed")
    history.group("assigned", at=2.5, process=PROCESSOR, generation=1, offset=0)
    history.reads(PROCESSOR, range(4), at=3)
    history.group("committed", at=4, process=PROCESSOR, generation=1, offset=2)
    history.transaction(1, outcome, at=7, until=8, process=PROCESSOR, transactional_id="p", group="g")
    history.group(
        "committed", at=7.5, elapsed_s=0.1, process=PROCESSOR, generation=1, offset=4, transaction=1, status=outcome
    )
    if plain is not None:
        begin, end = plain
        history.group("committed", at=begin, elapsed_s=end - begin, process=PROCESSOR, generation=1, offset=3)
    return history


def _asked(history: HistoryBuilder, offset: int, *, at: float, stable: bool | None = None) -> HistoryBuilder:
    return history.group("fetched", at=at, process=READER, offset=offset, require_stable=stable).finish()


# -- the order of records ---------------------------------


def _beside_each_other(*, plain_first: bool, again: bool = False) -> HistoryBuilder:
    """A plain commit of 3, and 4 in a transaction: both were asked for before either was answered. again: the plain one
    was sent again, and stands there twice."""
    history = _processed(COMMITTED, plain=(7.4, 7.7))
    _kept(history, OFFSETS, 0)
    _offset(history, 2, at=4.005)
    for offset in ((3, 3, 4) if again else (3, 4)) if plain_first else ((4, 3, 3) if again else (4, 3)):
        _offset(history, offset, at=7.55, transactional=offset == 4)
    _marker(history, True, at=7.95)
    if again:  # which of the two was answered is said by a log from which nothing is missing
        history.kept_state((TOPICS[OFFSETS], 7), 1, 0, (1, 2, 3), at=0)
        history.rows["internal_replica_snapshots"][-1]["log_end_offset"] = len(history.rows[OFFSETS])
    return history


def _between_two_records() -> HistoryBuilder:
    history = _beside_each_other(plain_first=True, again=True)
    for row, offset in zip(history.rows[OFFSETS][2:4], (4, 3), strict=True):
        row.update(committed_offset=offset, transactional=offset == 4)
    return history


@case(
    "a plain commit beside one in a transaction, whose record stands later; the plain one is answered at the end",
    VIOLATION,
    MISSED,
    why="the record that stands later holds",
)
def the_transactions_record_stands_later() -> HistoryBuilder:
    return _asked(_beside_each_other(plain_first=True), 3, at=90)


@case("the same, and the plain one's record stands later", PASS, why="KAFKA-5247: the marker does not decide")
def the_plain_ones_record_stands_later() -> HistoryBuilder:
    return _asked(_beside_each_other(plain_first=False), 3, at=90)


@case(
    "the plain one's record stands later, and what the transaction committed is answered at the end",
    VIOLATION,
    MISSED,
    why="it was applied with its marker, over a commit behind it: KAFKA-5247",
)
def applied_by_its_marker() -> HistoryBuilder:
    return _asked(_beside_each_other(plain_first=False), 4, at=90)


@case(
    "the plain one's two records stand later, and what the transaction committed is answered at the end",
    VIOLATION,
    MISSED,
    why="whichever of the two was answered, it stands behind the transaction's",
)
def applied_by_its_marker_over_one_that_was_sent_again() -> HistoryBuilder:
    return _asked(_beside_each_other(plain_first=False, again=True), 4, at=90)


@case("the same, and the plain one is answered", PASS, why="the record that stands later holds")
def one_that_was_sent_again_stands_later() -> HistoryBuilder:
    return _asked(_beside_each_other(plain_first=False, again=True), 3, at=90)


@case(
    "the plain one's two records stand before the transaction's, and the plain one is answered at the end",
    VIOLATION,
    MISSED,
    why="whichever of the two was answered, the transaction's stands later",
)
def the_transactions_record_stands_behind_both() -> HistoryBuilder:
    return _asked(_beside_each_other(plain_first=True, again=True), 3, at=90)


@case(
    "the plain one's records stand before and behind the transaction's, and that one's offset is answered at the end",
    OPEN,
    {"lost-group-offset observation": SOME},
    why="which of the two was answered nobody knows, and the other one may never have been applied",
)
def between_two_records_of_one_that_was_sent_again() -> HistoryBuilder:
    return _asked(_between_two_records(), 4, at=90)


@case("the same, and the plain one is answered", PASS, why="it is the last one, too")
def one_that_was_sent_again_stands_around_another() -> HistoryBuilder:
    return _asked(_between_two_records(), 3, at=90)


@case("the log was not kept, and the plain one is answered", PASS, why="nobody knows which record stands later")
def nobody_kept_the_log() -> HistoryBuilder:
    return _asked(_processed(COMMITTED, plain=(7.4, 7.7)), 3, at=90)


# -- outcomes that nobody was told ------------------------


def _of_unknown_outcome(state: str) -> HistoryBuilder:
    history = _processed(UNKNOWN)
    _kept(history, TRANSACTIONS, 0)
    _state(history, "Ongoing", at=7.55, begun=7.55)
    _state(history, f"Prepare{state}", at=7.9, begun=7.55)
    _state(history, f"Complete{state}", at=8.0, begun=7.55)
    return history


@case(
    "nobody was told its outcome, the log says committed; 80 seconds later the offset from before is answered",
    VIOLATION,
    MISSED,
    why="its coordinator had decided to commit it",
)
def committed_by_the_log() -> HistoryBuilder:
    return _asked(_of_unknown_outcome("Commit"), 2, at=90)


@case("the same, and the log says aborted", PASS, why="its offset was not committed")
def aborted_by_the_log() -> HistoryBuilder:
    return _asked(_of_unknown_outcome("Abort"), 2, at=90)


@case(
    "nobody was told its outcome, the log says aborted, and its offset is answered",
    VIOLATION,
    MISSED,
    why="what was sent to an aborted transaction was applied",
)
def aborted_by_the_log_and_applied() -> HistoryBuilder:
    return _asked(_of_unknown_outcome("Abort"), 4, at=90)


# -- what clients were told -------------------------------


def _answered(
    outcome: int, state: str, *, epochs: str = "0:0", begun: float = 7.55, elapsed_s: float = 0.35, **more: Any
) -> HistoryBuilder:
    """The log's decision is so long after its begin."""
    history = _processed(outcome, **more)
    _kept(history, TRANSACTIONS, 0, epochs=epochs)
    _state(history, "Ongoing", at=begun, begun=begun)
    _state(history, f"Prepare{state}", at=begun + elapsed_s, begun=begun)
    _state(history, f"Complete{state}", at=begun + elapsed_s + 0.1, begun=begun)
    return history


@case("told committed, and the coordinator's log says aborted", VIOLATION, TOLD_OTHERWISE, why="KIP-98")
def told_committed_and_aborted() -> HistoryBuilder:
    return _answered(COMMITTED, "Abort").finish()


@case("told aborted, and the coordinator's log says committed", VIOLATION, TOLD_OTHERWISE, why="KIP-98")
def told_aborted_and_committed() -> HistoryBuilder:
    return _answered(ABORTED, "Commit").finish()


@case("told committed, and the log says so", PASS, why="that is what was decided")
def told_committed_as_it_was() -> HistoryBuilder:
    return _answered(COMMITTED, "Commit").finish()


@case("told aborted, and the log says so", PASS, why="that is what was decided")
def told_aborted_as_it_was() -> HistoryBuilder:
    return _answered(ABORTED, "Abort").finish()


@case("told committed; one that began seconds later was aborted", PASS, why="that is another transaction")
def another_one_was_aborted() -> HistoryBuilder:
    return _answered(COMMITTED, "Abort", begun=12).finish()


@case("told committed; only a replica that was deposed says aborted", PASS, why="the log that was led last counts")
def a_deposed_replica_says_otherwise() -> HistoryBuilder:
    history = _answered(COMMITTED, "Abort")
    _kept(history, TRANSACTIONS, 1, epochs="0:0 3:40")
    for state, at in (("Ongoing", 7.55), ("PrepareCommit", 7.9), ("CompleteCommit", 8.0)):
        _state(history, state, at=at, begun=7.55, snapshots=(1,))
    return history.finish()


@case(
    "told committed and the log says aborted a minute later; unclean elections were allowed and a broker was killed",
    OPEN,
    {"transaction-outcome observation": SOME},
    why="the decision may have gone in one, and the transaction have been aborted by time-out",
)
def decided_anew_perhaps() -> HistoryBuilder:
    history = _answered(COMMITTED, "Abort", elapsed_s=60, settings={"unclean.leader.election.enable": "true"})
    return history.fault("kill", [3], at=8.5, until=20).finish()


def _marked(outcome: int, *, commits: bool) -> HistoryBuilder:
    history = _processed(outcome)
    _kept(history, OFFSETS, 0)
    _offset(history, 2, at=4.005)
    _offset(history, 4, at=7.55, transactional=True)
    _marker(history, commits, at=7.95)
    return history.finish()


@case(
    "told aborted, and its offset is followed by a commit marker; nobody fetches it any more",
    VIOLATION,
    TOLD_OTHERWISE,
    why="an aborted transaction's offset was applied",
)
def aborted_and_applied_and_never_fetched() -> HistoryBuilder:
    return _marked(ABORTED, commits=True)


@case(
    "told committed, and its offset is followed by an abort marker; nobody fetches it any more",
    VIOLATION,
    TOLD_OTHERWISE,
    why="its outputs stand without their inputs' offset",
)
def committed_without_its_offset_and_never_fetched() -> HistoryBuilder:
    return _marked(COMMITTED, commits=False)


@case("told committed, and its offset is followed by a commit marker", PASS, why="so it has to be")
def committed_with_its_offset() -> HistoryBuilder:
    return _marked(COMMITTED, commits=True)


def _marked_after_an_election(
    *, at: float, allowed: bool = True, had: bool | None = None, marked: float = 20
) -> HistoryBuilder:
    """Told aborted, and the next marker behind its offset commits. The only one in sync had led the offsets' log, and
    was replaced at `at`; had: whether its log was read while it was down, with the marker that aborts or without."""
    history = _processed(ABORTED, settings={"unclean.leader.election.enable": "true"} if allowed else {})
    place = (TOPICS[OFFSETS], 7)
    history.kept_state((TOPICS[TRANSACTIONS], 7), 3, 0, (1, 2, 3), at=0)
    history.kept_state(place, 1, 0, (1,), at=0)
    history.fault("kill", [1], at=at - 1, until=at + 5)
    history.kept_state(place, 2, 1, (2,), at=at)
    _kept(history, OFFSETS, 1, epochs="0:0 1:2")
    _offset(history, 2, at=4.005)
    _offset(history, 4, at=7.55, transactional=True)
    _marker(history, True, at=marked)
    for row in history.rows[OFFSETS]:
        row["snapshots"] = [1]
    if had is not None:
        end = 3 if had else 2
        taken = {"node": 1, "time_ns": int((at - 0.5) * SECOND), "reason": "kill", "log_end_offset": end}
        _kept(history, OFFSETS, 0)
        history.rows["internal_replica_snapshots"][-1].update(taken)
        for row in history.rows[OFFSETS][:2]:
            row["snapshots"] = [0, 1]
    if had:
        _marker(history, False, at=7.95)
        history.rows[OFFSETS][-1].update(offset=2, leader_epoch=0)
    return history.finish()


LOST_ITS_MARKER = {"transaction-outcome permitted": SOME}


@case(
    "told aborted; an allowed unclean election of the offsets' log takes the marker, and its producer's next commits",
    PASS,
    LOST_ITS_MARKER,
    why="the marker was lost by leave, and whoever leads then knows of an open transaction only",
)
def its_marker_went_with_an_allowed_election() -> HistoryBuilder:
    return _marked_after_an_election(at=12)


@case(
    "the same, and the log that was replaced had the marker",
    PASS,
    LOST_ITS_MARKER,
    why="that is what the election cost",
)
def its_marker_stood_in_the_log_that_was_replaced() -> HistoryBuilder:
    return _marked_after_an_election(at=12, had=True)


@case(
    "the same, and the log that was replaced had no marker either",
    VIOLATION,
    TOLD_OTHERWISE,
    why="the election took nothing: nobody had aborted its offset there",
)
def the_election_took_no_marker() -> HistoryBuilder:
    return _marked_after_an_election(at=12, had=False)


@case(
    "told aborted; an election that nobody allowed takes the marker, and its producer's next one commits",
    VIOLATION,
    TOLD_OTHERWISE,
    also=["unclean-election violation"],
    why="such an election is forbidden, and what follows from it too",
)
def its_marker_went_with_a_forbidden_election() -> HistoryBuilder:
    return _marked_after_an_election(at=12, allowed=False)


@case(
    "told aborted, and a marker that commits stands behind its offset; then an unclean election is allowed",
    VIOLATION,
    TOLD_OTHERWISE,
    why="what came later took nothing from before",
)
def marked_before_the_election() -> HistoryBuilder:
    return _marked_after_an_election(at=30, marked=10)
