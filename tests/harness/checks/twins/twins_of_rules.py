"""Tiny histories in which the slow models (model_of_groups.py) and the checks were found to say different things."""

from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, SECOND, History
from tests.harness.checks.twins.twins import acknowledged
from tests.harness.checks.twins.twins_of_clients import LOG, expecting

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
ONE, TWO = 21, 22
PROCESSOR = 41
NAMED = 1 << 62


# ---- groups ---------------------------------------------------------------------------------------------------------


BAD, NOTED = "violation", "observation"


def _group(*, reset: str = "earliest") -> History:
    history = acknowledged()
    for process in (ONE, TWO):
        history.client(process, group="g", offset_reset=reset)
    return history


@expecting(Verdict.VIOLATION, {("two-owners", "same-generation", BAD): 1})
def two_owners_of_whom_one_was_told_anew() -> History:
    """Member 1 is told of the partition in generations 2 and 3; member 2 hears late that generation 2 gave it that."""
    history = _group()
    history.group("assigned", at=2.5, process=ONE, generation=2)
    history.group("assigned", at=3, process=ONE, generation=3)
    history.group("assigned", at=4, process=TWO, generation=2)
    return history.final(LOG)


@expecting(Verdict.PASS, {})
def one_owner_under_two_member_ids() -> History:
    """A client that joins again is another member, and no second owner."""
    history = _group()
    for at, member in ((2.5, "a"), (3, "b")):
        history.group("assigned", at=at, process=ONE, generation=2)
        history.rows["group_events"][-1]["member"] = member
    return history.final(LOG)


@expecting(
    Verdict.VIOLATION, {("group-redelivery", "after-commit", BAD): 2, ("group-redelivery", "at-least-once", NOTED): 2}
)
def group_whose_members_tell_no_assignment_read_again_what_was_committed() -> History:
    history = _group().poll(LOG[:5], at=3, process=ONE)
    history.group("committed", at=3.5, process=ONE, offset=5)
    history.poll(LOG[3:], at=5, process=TWO)
    return history.final(LOG)


def _began_at_the_end(*, status: int) -> History:
    """Member 1 reads from 2 and commits 5; member 2 takes over at 7."""
    history = _group(reset="latest").group("assigned", at=2.5, process=ONE, generation=1)
    history.poll(LOG[2:5], at=3, process=ONE)
    history.group("committed", at=3.5, process=ONE, offset=5, generation=1, status=status)
    history.group("revoked", at=4, process=ONE, generation=1)
    history.group("assigned", at=4.5, process=TWO, generation=2)
    history.poll(LOG[7:], at=5, process=TWO)
    return history.final(LOG)


@expecting(Verdict.PASS, {})
def group_began_at_the_end_where_nobody_knows_of_a_commit() -> History:
    return _began_at_the_end(status=UNKNOWN)


@expecting(Verdict.VIOLATION, {("head-skip", "first-poll", BAD): 2})
def group_began_at_the_end_although_there_was_a_commit() -> History:
    return _began_at_the_end(status=COMMITTED)


@expecting(Verdict.VIOLATION, {("group-skip", "ahead", BAD): 2})
def group_that_was_told_of_offset_0_committed_ahead() -> History:
    """It says where it begins, so that auto.offset.reset does not matter."""
    history = _group(reset="latest")
    history.group("assigned", at=2.4, process=ONE, offset=0, generation=1)
    history.group("committed", at=2.5, process=ONE, offset=2, generation=1)
    history.poll(LOG, at=3, process=ONE)
    return history.final(LOG)


# ---- transactional ids ----------------------------------------------------------------------------------------------


def _producers(*transactions: tuple[int, float, float, int]) -> History:
    """(process, from, until, outcome) of transactions of one id."""
    history = acknowledged()
    for txn, (process, at, until, outcome) in enumerate(transactions):
        history.transaction(txn, outcome, at=at, until=until, process=process)
    return history.final(LOG)


@expecting(Verdict.PASS, {})
def producer_went_on_since_its_successor_got_no_epoch() -> History:
    return _producers((1, 2, 3, COMMITTED), (2, 4, 5, ABORTED), (1, 6, 7, COMMITTED))


@expecting(Verdict.PASS, {})
def producer_committed_while_its_successor_asked_for_its_epoch() -> History:
    """Process 2 may have been given its epoch at 5.9 s only."""
    return _producers((1, 2, 3, COMMITTED), (2, 4, 6, COMMITTED), (1, 5, 5.5, COMMITTED))


@expecting(Verdict.PASS, {})
def producer_whose_begin_took_long_is_the_newer() -> History:
    """Process 1 asked first and was answered last: process 2 was fenced, and commits no more."""
    return _producers((1, 2, 5, COMMITTED), (2, 2.5, 3, COMMITTED), (2, 3.5, 4, COMMITTED), (1, 6, 7, COMMITTED))


@expecting(Verdict.VIOLATION, {("zombie-transaction", "fenced", BAD): 1})
def producers_of_one_id_committed_by_turns() -> History:
    """Whichever of the two got its epoch first, one commit was a fenced producer's."""
    return _producers((1, 2, 4, COMMITTED), (2, 3, 5, COMMITTED), (1, 6, 7, COMMITTED), (2, 8, 9, COMMITTED))


# ---- read, process, write -------------------------------------------------------------------------------------------


def _processed(*outputs: int, committed: int = 2, status: int = COMMITTED, unread: bool = False) -> History:
    """Inputs 0 to 2 of t-0, an output in t-1 for each of `outputs`; a transaction sends offset `committed`."""
    history = History().second_partition(read_to_end=not unread)
    history.state(1, 0, ISR, at=0, start=0)
    history.client(PROCESSOR, group="g", transactional_id="g-1", isolation="read_committed", offset_reset="earliest")
    history.client(99, isolation="read_committed")
    for value in range(3):
        history.send(value, value, at=1 + value / 10)
    history.transaction(7, COMMITTED, at=2, until=4, process=PROCESSOR, transactional_id="g-1", group="g")
    history.group("assigned", at=1.5, process=PROCESSOR, generation=1)
    history.poll([(offset, offset) for offset in range(3)], at=2.1, process=PROCESSOR, transaction=7)
    history.group("committed", at=3, process=PROCESSOR, offset=committed, status=status, transaction=7)
    for place, offset in enumerate(outputs):
        history._add("value_names", value=NAMED + place, name=f"t-0-{offset}/{PROCESSOR}.{place}")
        history.send(NAMED + place, place, at=2.5, transaction=7, partition_id=1, process=PROCESSOR)
    history.final([(offset, offset) for offset in range(3)])
    return history.final([(place, NAMED + place) for place in range(len(outputs))], partition_id=1)


@expecting(Verdict.PASS, {})
def processed_once_and_read_by_two_final_readers() -> History:
    """The final read failed half-way, and a fresh reader began anew."""
    history = _processed(0, 1)
    again = [row for row in history.rows["records"] if row["kind"] == 2 and row["partition_id"] == 1]
    history.rows["records"] += [
        {**row, "operation": 90, "process": 98, "invoked_ns": 110 * SECOND, "completed_ns": 111 * SECOND}
        for row in again
    ]
    return history.client(98, isolation="read_committed")


@expecting(Verdict.VIOLATION, {("read-process-write", "twice", BAD): 1, ("read-process-write", "uncommitted", BAD): 1})
def processed_twice_and_its_offset_never_committed() -> History:
    return _processed(0, 1, 2, 2)


@expecting(Verdict.VIOLATION, {("read-process-write", "uncommitted", BAD): 2})
def processed_and_its_offsets_refused() -> History:
    """All offsets that were ever sent to a transaction were refused; their outputs were committed all the same."""
    return _processed(0, 1, status=ABORTED)


@expecting(Verdict.INCONCLUSIVE, {("read-process-write", "missing", NOTED): 1})
def processed_and_its_output_may_lie_in_what_was_not_read() -> History:
    return _processed(0, unread=True)
