"""Tiny histories of transactions over two partitions: t-0 and t-1, written by transactional producers."""

from tests.harness.checks.histories.build import ISR, SECOND, History
from tests.harness.checks.twins.twins_of_clients import (
    BAD,
    INCONCLUSIVE,
    LAWFUL,
    NOTED,
    PASS,
    VIOLATION,
    expecting,
)

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
SOMETHING = 77
PRODUCER, STRICT, LOOSE, FINAL = 1, 31, 32, 99


def _history(*, final_isolation: str = "read_committed", read_to_end: bool = True) -> History:
    history = History().second_partition(read_to_end=read_to_end)
    history.state(1, 0, ISR, at=0, start=0)
    history.client(PRODUCER, transactional_id="id", acks=-1, idempotent=True)
    history.client(STRICT, isolation="read_committed", offset_reset="earliest")
    history.client(LOOSE, isolation="read_uncommitted", offset_reset="earliest")
    return history.client(FINAL, isolation=final_isolation, offset_reset="earliest")


def _two_sent(history: History, outcome: int, *, transaction: int = 7, at: float = 2.0, until: float = 4.0) -> History:
    """Values 10 at offset 0 of t-0 and 11 at offset 0 of t-1."""
    history.transaction(transaction, outcome, at=at, until=until)
    for partition_id in (0, 1):
        history.send(
            10 + partition_id, 0, at=at + 0.5, status=outcome, transaction=transaction, partition_id=partition_id
        )
    return history


def _finally(history: History, *tps: int) -> History:
    something = [(row["offset"], row["value"]) for row in history.rows["records"] if row["value"] == SOMETHING]
    for partition_id in (0, 1):
        history.final(
            ([(0, 10 + partition_id)] if partition_id in tps else []) + (something if partition_id == 0 else []),
            partition_id=partition_id,
        )
    return history


@expecting(PASS, {})
def transaction_committed_as_a_whole() -> History:
    return _finally(_two_sent(_history(), COMMITTED), 0, 1)


@expecting(PASS, {})
def transaction_aborted_as_a_whole() -> History:
    return _finally(_with_something(_two_sent(_history(), ABORTED)))


def _with_something(history: History) -> History:
    """An ordinary record, so that there is something to judge."""
    return history.send(SOMETHING, 3, at=4.5)


def _offset_given_anew(*, in_sync: tuple[int, ...]) -> History:
    """Offset 0 had a record of an aborted transaction, until broker 1 lost its disk; no log shows it."""
    history = _history().transaction(7, ABORTED, at=2.0, until=4.0)
    history.send(10, 0, at=2.5, status=ABORTED, transaction=7)
    history.state(1, 0, in_sync, at=5)
    history.fault("wipe", [1], at=6)
    history.state(1, 1, in_sync, at=8, start=0)
    history.send(SOMETHING, 0, at=9)
    return _finally(history)


@expecting(PASS, {("inconsistent-offsets", "two-values", LAWFUL): 1})
def offset_of_an_aborted_record_given_anew_after_every_disk_in_sync_was_lost() -> History:
    return _offset_given_anew(in_sync=(1,))


@expecting(VIOLATION, {("inconsistent-offsets", "two-values", BAD): 1})
def offset_of_an_aborted_record_given_anew_though_a_disk_in_sync_had_it() -> History:
    return _offset_given_anew(in_sync=(1, 2))


@expecting(PASS, {("unclean-election", "election", "observation"): 1, ("duplicate", "moved", LAWFUL): 1})
def aborted_record_that_was_written_again_after_a_permitted_loss() -> History:
    """Offset 3 of t-0 is cut off before it is answered; the same record is acknowledged at offset 0, and aborted. All
    logs have it there, and the final reader is not given it."""
    history = _history().unclean_config("true")
    history.transaction(7, ABORTED, at=2, until=9)
    history.send(10, 0, at=2.5, elapsed_s=4, status=ABORTED, transaction=7)
    history.poll([(3, 10)], at=3, process=LOOSE, epoch=0)
    history.state(1, 0, (1,), at=4)
    history.fault("kill", [1], at=4.5, until=8)
    history.state(2, 1, (2,), at=5, start=0)
    history.send(SOMETHING, 2, at=10)
    for node in ISR:
        history.snapshot(node, [(0, 1, 10), (2, 1, SOMETHING)], high_watermark=3, epochs="1:0")
    for row in history.rows["processes"]:
        row["offset_reset"] = "latest"
    return _finally(history)


@expecting(PASS, {("cycle", "G0", LAWFUL): 1})
def transactions_interleaved_in_two_partitions() -> History:
    """Of t-0 transaction 7 has offset 0 and transaction 8 offset 1; of t-1 it is the other way round."""
    history = _history().client(2, transactional_id="other", acks=-1, idempotent=True)
    for txn, process in ((7, PRODUCER), (8, 2)):
        history.transaction(
            txn, COMMITTED, at=2, until=4, process=process, transactional_id="id" if txn == 7 else "other"
        )
    history.send(10, 0, at=2.5, transaction=7, partition_id=0)
    history.send(11, 1, at=2.5, transaction=7, partition_id=1)
    history.send(20, 1, at=2.5, transaction=8, partition_id=0, process=2)
    history.send(21, 0, at=2.5, transaction=8, partition_id=1, process=2)
    history.final([(0, 10), (1, 20)], partition_id=0)
    return history.final([(0, 21), (1, 11)], partition_id=1)


@expecting(PASS, {})
def transaction_of_unknown_outcome_as_a_whole() -> History:
    return _finally(_with_something(_two_sent(_history(), UNKNOWN)), 0, 1)


@expecting(PASS, {})
def transaction_of_unknown_outcome_not_at_all() -> History:
    return _finally(_with_something(_two_sent(_history(), UNKNOWN)))


@expecting(VIOLATION, {("torn-transaction", "torn", BAD): 1})
def transaction_of_unknown_outcome_torn() -> History:
    return _finally(_with_something(_two_sent(_history(), UNKNOWN)), 0)


@expecting(PASS, {})
def transaction_of_unknown_outcome_seen_in_part_by_a_read_uncommitted_reader() -> History:
    return _finally(_with_something(_two_sent(_history(final_isolation="read_uncommitted"), UNKNOWN)), 0)


@expecting(VIOLATION, {("torn-transaction", "torn", BAD): 1, ("lost-write", "lost", BAD): 1})
def transaction_committed_and_torn() -> History:
    return _finally(_two_sent(_history(), COMMITTED), 0)


@expecting(INCONCLUSIVE, {("torn-transaction", "candidate", NOTED): 1})
def transaction_of_unknown_outcome_and_a_partition_not_read() -> History:
    return _with_something(_two_sent(_history(read_to_end=False), UNKNOWN)).final([(0, 10), (3, SOMETHING)])


# ---- isolation ------------------------------------------------------------------------------------------------------


def _read_by(process: int, outcome: int, *tps: int) -> History:
    history = _with_something(_two_sent(_history(), outcome)).poll([(0, 10)], at=5, process=process)
    return _finally(history, *tps)


@expecting(VIOLATION, {("aborted-read", "aborted-transaction", BAD): 1})
def aborted_record_read_by_a_read_committed_reader() -> History:
    return _read_by(STRICT, ABORTED)


@expecting(PASS, {})
def aborted_record_read_by_a_read_uncommitted_reader() -> History:
    return _read_by(LOOSE, ABORTED)


@expecting(PASS, {})
def unknown_record_read_by_a_read_uncommitted_reader_and_gone() -> History:
    return _read_by(LOOSE, UNKNOWN)


@expecting(VIOLATION, {("dirty-read", "vanished", BAD): 1})
def unknown_record_read_by_a_read_committed_reader_and_gone() -> History:
    return _read_by(STRICT, UNKNOWN)


# ---- the last stable offset -----------------------------------------------------------------------------------------


def _passed(process: int, *, at: float, offset: int = 1) -> History:
    """Transaction 7 has offset 0 of t-0 from 2.5 s on, and is open until its last send is answered at 6.1 s."""
    history = _history().transaction(7, COMMITTED, at=2, until=7)
    history.send(10, 0, at=2.5, transaction=7)
    history.send(20, 1, at=3, process=2)
    history.send(11, 0, at=6, transaction=7, partition_id=1)
    history.poll([(offset, 20 if offset else 10)], at=at, process=process)
    for row in history.rows["processes"]:
        row["offset_reset"] = "latest"  # where a reader begins is another matter
    history.final([(0, 10), (1, 20)])
    return history.final([(0, 11)], partition_id=1)


@expecting(VIOLATION, {("last-stable-offset", "passed", BAD): 1})
def stable_offset_passed() -> History:
    return _passed(STRICT, at=4)


@expecting(PASS, {})
def stable_offset_passed_by_a_read_uncommitted_reader() -> History:
    return _passed(LOOSE, at=4)


@expecting(PASS, {})
def stable_offset_reached_after_the_end() -> History:
    return _passed(STRICT, at=7)


@expecting(VIOLATION, {("last-stable-offset", "passed", BAD): 1})
def open_transaction_read_by_a_read_committed_reader() -> History:
    return _passed(STRICT, at=4, offset=0)


def _passed_of_a_fenced_producer(*, partition_id: int) -> History:
    """Transaction 7 has offset 0 of t-0, which a reader passes at 4 s; its last send is called at 6 s. Then it is told
    that its coordinator had aborted it."""
    history = _history().transaction(7, ABORTED, at=2, until=7)
    history.send(10, 0, at=2.5, status=ABORTED, transaction=7)
    history.send(20, 1, at=3, process=2)
    history.send(11, 2 if partition_id == 0 else 0, at=6, status=ABORTED, transaction=7, partition_id=partition_id)
    history.poll([(1, 20)], at=4, process=STRICT)
    for row in history.rows["processes"]:
        row["offset_reset"] = "latest"
    history.final([(1, 20)])
    return history.final([], partition_id=1)


@expecting(PASS, {})
def stable_offset_passed_where_a_coordinator_may_have_ended_the_transaction_already() -> History:
    return _passed_of_a_fenced_producer(partition_id=1)


@expecting(VIOLATION, {("last-stable-offset", "passed", BAD): 1})
def stable_offset_passed_where_a_fenced_producer_wrote_on() -> History:
    return _passed_of_a_fenced_producer(partition_id=0)


# ---- fencing --------------------------------------------------------------------------------------------------------


def _successor(outcome: int) -> History:
    """Process 2 takes the id over at 5 s; process 1 begins another transaction at 6 s."""
    history = _two_sent(_history(), COMMITTED)
    history.transaction(8, COMMITTED, at=5, until=5.5, process=2)
    history.transaction(9, outcome, at=6, until=7)
    return _finally(history, 0, 1)


@expecting(VIOLATION, {("zombie-transaction", "fenced", BAD): 1})
def fenced_producer_committed() -> History:
    return _successor(COMMITTED)


@expecting(PASS, {})
def fenced_producer_was_refused() -> History:
    return _successor(ABORTED)


# ---- read, process, write -------------------------------------------------------------------------------------------

NAMED = 1 << 62
PROCESSOR = 41


def _processed(outputs: dict[int, int], *, committed: int = 2, outcome: int = COMMITTED) -> History:
    """Inputs 0 to 2 of t-0; each in `outputs` has so many outputs in t-1; one transaction sends offset `committed`."""
    history = _history()
    history.client(PROCESSOR, group="g", transactional_id="g-1", isolation="read_committed", offset_reset="earliest")
    for value in range(3):
        history.send(value, value, at=1 + value / 10)
    history.transaction(7, outcome, at=2, until=4, process=PROCESSOR, transactional_id="g-1", group="g")
    history.group("assigned", at=1.5, process=PROCESSOR, generation=1)
    history.poll([(offset, offset) for offset in range(3)], at=2, process=PROCESSOR, transaction=7)
    history.group("committed", at=3, process=PROCESSOR, offset=committed, status=outcome, transaction=7)
    names = [f"t-0-{offset}/{PROCESSOR}.{copy}" for offset, copies in outputs.items() for copy in range(copies)]
    for place, name in enumerate(names):
        value = NAMED + place
        history._add("value_names", value=value, name=name)
        history.send(value, place, at=2.5, status=outcome, transaction=7, partition_id=1, process=PROCESSOR)
    history.final([(offset, offset) for offset in range(3)])
    return history.final([(place, NAMED + place) for place in range(len(names))], partition_id=1)


@expecting(PASS, {})
def processed_exactly_once() -> History:
    return _processed({0: 1, 1: 1})


@expecting(PASS, {})
def processed_in_two_sends() -> History:
    """What a processor sends itself is no read: it is answered while its own transaction is open."""
    history = _processed({0: 1, 1: 1})
    last = next(row for row in history.rows["records"] if row["kind"] == 0 and row["value"] == NAMED + 1)
    last["completed_ns"] = int(2.9 * SECOND)
    return history


@expecting(PASS, {("availability", "gap", NOTED): 1})
def transactions_refused_for_four_seconds() -> History:
    """Only what has an offset was taken, whatever became of its transaction."""
    history = _two_sent(_history(), COMMITTED)
    for place in range(4):
        history.transaction(8 + place, ABORTED, at=3.0 + place, until=3.5 + place)
        history.send(50 + place, at=3.0 + place, status=1, transaction=8 + place)
    history.send(60, 8, at=7.5)
    history.final([(0, 10), (8, 60)])
    return history.final([(0, 11)], partition_id=1)


@expecting(PASS, {})
def transactions_aborted_for_four_seconds() -> History:
    history = transactions_refused_for_four_seconds()
    for row in history.rows["records"]:
        if row["status"] == 1:
            row["offset"] = row["value"] - 49
    return history


@expecting(VIOLATION, {("read-process-write", "twice", BAD): 1})
def processed_twice() -> History:
    return _processed({0: 2, 1: 1})


@expecting(VIOLATION, {("read-process-write", "missing", BAD): 1})
def processed_and_no_output() -> History:
    return _processed({0: 1})


@expecting(VIOLATION, {("read-process-write", "uncommitted", BAD): 1})
def processed_without_its_offset() -> History:
    return _processed({0: 1, 1: 1, 2: 1})


@expecting(PASS, {})
def processed_in_a_transaction_of_unknown_outcome() -> History:
    """Either all of it is there, as here, or nothing."""
    return _processed({0: 1, 1: 1}, outcome=UNKNOWN)


# ---- producer ids ----------------------------------------------------------------------------------------------------


def _given(*ids: tuple[str, int], wiped: int | None = None) -> History:
    """Transactional ids with the producer ids that their coordinators' logs name, in that order."""
    history = _finally(_two_sent(_history(), COMMITTED), 0, 1)
    for number, (transactional_id, producer_id) in enumerate(ids):
        history.decided(
            "Empty",
            at=2 + number,
            transactional_id=transactional_id,
            producer_id=producer_id,
            partition=len(transactional_id),
        )
    if wiped is not None:
        history.fault("wipe", [wiped], at=1)
    return history


@expecting(PASS, {})
def each_transactional_id_has_a_producer_id_of_its_own() -> History:
    return _given(("orders", 1000), ("bills", 1001), ("orders", 1000))


@expecting(VIOLATION, {("shared-producer-id", "two-transactional-ids", BAD): 2})
def two_transactional_ids_have_one_producer_id() -> History:
    return _given(("orders", 1000), ("bills", 1000))


@expecting(PASS, {})
def a_transactional_id_goes_on_with_the_next_producer_id() -> History:
    return _given(("orders", 1000), ("bills", 1001), ("orders", 2000))


@expecting(VIOLATION, {("shared-producer-id", "two-transactional-ids", BAD): 2})
def two_transactional_ids_have_one_producer_id_after_a_broker_was_wiped() -> History:
    return _given(("orders", 1000), ("bills", 1000), wiped=3)


@expecting(INCONCLUSIVE, {("shared-producer-id", "two-transactional-ids", NOTED): 2})
def two_transactional_ids_have_one_producer_id_after_a_controller_was_wiped() -> History:
    return _given(("orders", 1000), ("bills", 1000), wiped=100)
