"""Tiny histories of a processor from t-1 to t-0: outputs that are aborted, lost or removed, and who reads them how."""

import dataclasses

from harness.scenario.model import TopicSpec
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, History, scenario
from tests.harness.checks.twins.twins import failed_over
from tests.harness.checks.twins.twins_of_clients import expecting

BAD, LAWFUL, NOTED = "violation", "permitted", "observation"
COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
NAMED, PROCESSOR, FINAL = 1 << 62, 41, 99


_ONCE = "read-process-write"
_LOST = {
    ("lost-write", "lost", LAWFUL): 3,
    ("unclean-election", "election", LAWFUL): 3,
    ("torn-transaction", "torn", LAWFUL): 1,
    (_ONCE, "missing", LAWFUL): 3,
}


def _inputs(count: int, *, final_isolation: str = "read_committed") -> History:
    """Inputs of t-1, read by the processor, and in the final log."""
    history = History().second_partition()
    history.state(1, 0, ISR, at=0, start=0)
    history.client(PROCESSOR, group="g", transactional_id="g-1", isolation="read_committed", offset_reset="earliest")
    history.client(FINAL, isolation=final_isolation, offset_reset="earliest")
    inputs = [(offset, offset) for offset in range(count)]
    for offset, value in inputs:
        history.send(value, offset, at=0.5 + offset / 100, partition_id=1)
    history.group("assigned", at=0.9, process=PROCESSOR, generation=1, partition_id=1)
    history.poll(inputs, at=1, process=PROCESSOR, partition_id=1)
    return history.final(inputs, partition_id=1)


def _output(history: History, source: int, offset: int, *, transaction: int, outcome: int = COMMITTED) -> int:
    """Sends the output of input `source` to `offset` of t-0 in this transaction, and returns its value."""
    value = NAMED + offset
    history._add("value_names", value=value, name=f"t-1-{source}/{PROCESSOR}.{offset}")
    history.send(
        value,
        offset,
        at=2 + transaction / 10 + offset / 100,
        elapsed_s=0.005,
        status=outcome,
        transaction=transaction,
        process=PROCESSOR,
    )
    return value


def _ended(history: History, transaction: int, outcome: int, *, committed: int) -> None:
    at = 2 + transaction / 10
    history.transaction(
        transaction, outcome, at=at, until=at + 0.09, process=PROCESSOR, transactional_id="g-1", group="g"
    )
    history.group(
        "committed",
        at=at + 0.06,
        elapsed_s=0.001,
        process=PROCESSOR,
        offset=committed,
        status=outcome,
        transaction=transaction,
        partition_id=1,
    )


def _tried_twice(first: int, *, final_isolation: str = "read_uncommitted") -> History:
    """Inputs 0 and 1 in transaction 0, which ended as `first` says, and again in transaction 1, which committed."""
    history = _inputs(2, final_isolation=final_isolation)
    log = [(offset, _output(history, offset % 2, offset, transaction=0, outcome=first)) for offset in (0, 1)]
    _ended(history, 0, first, committed=2)
    log += [(offset, _output(history, offset % 2, offset, transaction=1)) for offset in (3, 4)]
    _ended(history, 1, COMMITTED, committed=2)
    return history.final(log if final_isolation == "read_uncommitted" else log[2:])


@expecting(Verdict.PASS, {})
def outputs_of_an_aborted_attempt_are_read_uncommitted() -> History:
    return _tried_twice(ABORTED)


@expecting(Verdict.PASS, {})
def outputs_of_an_attempt_of_unknown_outcome_are_read_uncommitted() -> History:
    return _tried_twice(UNKNOWN)


@expecting(Verdict.VIOLATION, {(_ONCE, "twice", BAD): 2})
def outputs_of_two_committed_attempts_are_read_uncommitted() -> History:
    return _tried_twice(COMMITTED)


@expecting(Verdict.VIOLATION, {(_ONCE, "twice", BAD): 2})
def outputs_of_an_attempt_of_unknown_outcome_are_read_committed_with_those_of_the_next() -> History:
    history = _tried_twice(UNKNOWN)
    history.rows["processes"][-1]["isolation"] = "read_committed"
    return history


@expecting(Verdict.VIOLATION, {(_ONCE, "missing", BAD): 1})
def only_output_of_an_input_was_aborted() -> History:
    """The group's offset is past input 1, whose only output is read uncommitted and was aborted."""
    history = _inputs(2, final_isolation="read_uncommitted")
    log = [(0, _output(history, 1, 0, transaction=0, outcome=ABORTED))]
    _ended(history, 0, ABORTED, committed=2)
    log.append((2, _output(history, 0, 2, transaction=1)))
    _ended(history, 1, COMMITTED, committed=2)
    return history.final(log)


@expecting(Verdict.PASS, {})
def aborted_output_lies_beyond_the_groups_offset() -> History:
    history = _inputs(2, final_isolation="read_uncommitted")
    log = [(0, _output(history, 0, 0, transaction=0))]
    _ended(history, 0, COMMITTED, committed=1)
    log.append((2, _output(history, 1, 2, transaction=1, outcome=ABORTED)))
    _ended(history, 1, ABORTED, committed=2)
    return history.final(log)


def _cut(*, without_output_of: int | None = None, allowed: str = "true") -> History:
    """Ten outputs in t-0, of which an unclean election lost three; perhaps one of the others was never sent."""
    history = _inputs(10).unclean_config(allowed)
    log = []
    for offset in range(10):
        if offset == without_output_of:
            history.send(NAMED + offset, offset, at=2 + offset / 100, elapsed_s=0.005, process=7)
            log.append((offset, NAMED + offset))
        else:
            log.append((offset, _output(history, offset, offset, transaction=0)))
    _ended(history, 0, COMMITTED, committed=10)
    failed_over(history, leader=2, isr_before=(1,), kept=7)
    kept = [(offset, value) for offset, value in log if offset < 7]
    for row in history.rows["replica_log"]:
        row["value"] += NAMED
    history.rows["records"] = [r for r in history.rows["records"] if not (r["kind"] == 2 and r["partition_id"] == 0)]
    return history.final(kept)


@expecting(Verdict.PASS, _LOST)
def outputs_were_lost_by_an_allowed_unclean_election() -> History:
    return _cut()


@expecting(Verdict.VIOLATION, {(check, kind, BAD): count for (check, kind, _), count in _LOST.items()})
def outputs_were_lost_by_a_forbidden_unclean_election() -> History:
    return _cut(allowed="false")


@expecting(Verdict.VIOLATION, _LOST | {(_ONCE, "missing", BAD): 1, ("cycle", "G0", LAWFUL): 1})
def output_never_sent_though_others_were_lost_with_permission() -> History:
    return _cut(without_output_of=3)


@expecting(Verdict.PASS, {("removed-by-configuration", "retention", NOTED): 2})
def outputs_were_removed_by_retention() -> History:
    history = _inputs(2)
    history.scenario = dataclasses.replace(
        scenario(), topics=(TopicSpec(name="t", settings={"retention.ms": "60000"}),)
    )
    for offset in range(2):
        _output(history, offset, offset, transaction=0)
    _ended(history, 0, COMMITTED, committed=2)
    history.send(50, 3, at=90)
    history.partition["log_start_offset"] = 3
    return history.final([(3, 50)])


def _reads_past_an_aborted_record(*, outcome: int, isolation: str | None) -> History:
    """A member of a group reads offsets 0 and 3 of t-0; 1 is of a transaction, and the final log has it."""
    history = History().state(1, 0, ISR, at=0, start=0)
    history.client(1, transactional_id="id", acks=-1, idempotent=True)
    history.client(5, group="g", isolation=isolation, offset_reset="earliest")
    history.client(FINAL, isolation="read_uncommitted", offset_reset="earliest")
    history.send(0, 0, at=1)
    history.transaction(3, outcome, at=1.5, until=2)
    history.send(1, 1, at=1.6, status=outcome, transaction=3)
    history.send(2, 3, at=2.5)
    history.group("assigned", at=2.6, process=5, generation=1)
    history.poll([(0, 0), (3, 2)], at=3, process=5)
    history.group("committed", at=4, process=5, offset=4)
    return history.final([(0, 0), (1, 1), (3, 2)])


@expecting(Verdict.PASS, {})
def read_committed_past_an_aborted_record() -> History:
    return _reads_past_an_aborted_record(outcome=ABORTED, isolation="read_committed")


@expecting(Verdict.PASS, {})
def read_committed_past_a_record_of_unknown_outcome() -> History:
    return _reads_past_an_aborted_record(outcome=UNKNOWN, isolation="read_committed")


@expecting(Verdict.VIOLATION, {("skipped-read", "internal", BAD): 1, ("group-skip", "skipped", BAD): 1})
def read_committed_past_a_committed_record() -> History:
    return _reads_past_an_aborted_record(outcome=COMMITTED, isolation="read_committed")


@expecting(Verdict.VIOLATION, {("skipped-read", "internal", BAD): 1})
def read_uncommitted_past_an_aborted_record() -> History:
    return _reads_past_an_aborted_record(outcome=ABORTED, isolation="read_uncommitted")


def _reader_that_does_not_tell(*, outcome: int) -> History:
    """An application's reader outside a group whose isolation nobody told."""
    history = _reads_past_an_aborted_record(outcome=outcome, isolation=None)
    history.rows["processes"][1] |= {"group": None}
    history.rows["group_events"].clear()
    return history


@expecting(Verdict.PASS, {})
def untold_isolation_past_an_aborted_record() -> History:
    return _reader_that_does_not_tell(outcome=ABORTED)


@expecting(Verdict.VIOLATION, {("skipped-read", "internal", BAD): 1})
def untold_isolation_past_a_committed_record() -> History:
    return _reader_that_does_not_tell(outcome=COMMITTED)


def _begins_behind_a_transaction(*, outcome: int, isolation: str | None) -> History:
    """A reader from the earliest record gets offset 2 first; 0 is of a transaction, and the final log has it."""
    history = History().state(1, 0, ISR, at=0, start=0)
    history.client(1, transactional_id="id", acks=-1, idempotent=True, role="producer")
    history.client(5, isolation=isolation, offset_reset="earliest", role="consumer")
    history.client(FINAL, isolation="read_uncommitted", offset_reset="earliest", role="consumer")
    history.transaction(3, outcome, at=1.5, until=2)
    history.send(1, 0, at=1.6, status=outcome, transaction=3)
    history.send(2, 2, at=2.5)
    history.poll([(2, 2)], at=3, process=5)
    return history.final([(0, 1), (2, 2)])


@expecting(Verdict.PASS, {})
def read_committed_begins_behind_an_aborted_record() -> History:
    return _begins_behind_a_transaction(outcome=ABORTED, isolation="read_committed")


@expecting(Verdict.PASS, {})
def untold_isolation_begins_behind_an_aborted_record() -> History:
    return _begins_behind_a_transaction(outcome=ABORTED, isolation=None)


@expecting(Verdict.VIOLATION, {("head-skip", "first-poll", BAD): 1})
def read_uncommitted_begins_behind_an_aborted_record() -> History:
    return _begins_behind_a_transaction(outcome=ABORTED, isolation="read_uncommitted")


@expecting(Verdict.VIOLATION, {("head-skip", "first-poll", BAD): 1})
def read_committed_begins_behind_a_committed_record() -> History:
    return _begins_behind_a_transaction(outcome=COMMITTED, isolation="read_committed")
