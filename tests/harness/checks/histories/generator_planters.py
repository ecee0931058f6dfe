"""Puts exactly one fault into a sound history, and says what a check must then find.

A planter returns False where the history has nothing for its fault, and must then leave it as it was. `must`: the
findings (check/kind) that name the fault; `may`: what the same fault lawfully looks like from elsewhere, with why.
"""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.harness.checks.histories.build import ISR, SECOND, History
from tests.harness.checks.histories.generator import FINAL_READER, Simulation
from tests.harness.checks.histories.generator_rows import number_steps

Row = dict[str, Any]
Plant = Callable[[History, random.Random], bool]
STRANGER = 77 << 40  # values of a process that the workload does not have
_LATE = 60 * SECOND


@dataclass(frozen=True, kw_only=True)
class Planter:
    plant: Plant
    must: frozenset[str]
    may: Mapping[str, str] = field(default_factory=dict)
    classification: str = "violation"  # of every finding in `must`
    of: type[Simulation] = Simulation  # what kind of run it is for


PLANTERS: dict[str, Planter] = {}


def planter(
    *must: str,
    may: Mapping[str, str] | None = None,
    classification: str = "violation",
    of: type[Simulation] = Simulation,
) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        fields: dict[str, Any] = {"must": frozenset(must), "may": may or {}, "classification": classification, "of": of}
        PLANTERS[plant.__name__] = Planter(plant=plant, **fields)
        return plant

    return register


# -- what is there to spoil -------------------------------


def records_of(history: History, *, kind: int, **equal: Any) -> list[Row]:
    rows = (row for row in history.rows["records"] if row["kind"] == kind)
    return [row for row in rows if all(row[name] == wanted for name, wanted in equal.items())]


def log_of(history: History) -> list[Row]:
    return [row for row in records_of(history, kind=2) if row["replica"] is None]


def kept_offsets(history: History) -> set[tuple[int, int]]:
    return {(row["partition_id"], row["offset"]) for row in log_of(history)}


def _acknowledged(history: History) -> list[Row]:
    """Acknowledged with an offset, and in no transaction."""
    return [row for row in records_of(history, kind=0, status=0, transaction=None) if row["offset"] is not None]


def _polled(history: History) -> set[tuple[int, int]]:
    return {(row["partition_id"], row["value"]) for row in records_of(history, kind=1)}


def polls_of(history: History, *, at_least: int) -> list[list[Row]]:
    """The rows of each (poll, partition) that has as many records."""
    found: dict[tuple[int, int], list[Row]] = {}
    for row in records_of(history, kind=1):
        found.setdefault((row["operation"], row["partition_id"]), []).append(row)
    return [rows for rows in found.values() if len(rows) >= at_least]


def drop(history: History, table: str, unwanted: Callable[[Row], bool]) -> None:
    history.rows[table] = [row for row in history.rows[table] if not unwanted(row)]
    number_steps(history)


def take_from_the_logs(history: History, partition_id: int, value: int) -> None:
    place = (partition_id, value)
    drop(history, "records", lambda row: (row["kind"], row["partition_id"], row["value"]) == (2, *place))
    drop(history, "replica_log", lambda row: (row["partition_id"], row["value"]) == place)


def append_to_the_logs(history: History, partition_id: int, value: int) -> int:
    """One more record at the end of the final log and of every replica; returns its offset."""
    partition = next(row for row in history.rows["partitions"] if row["partition_id"] == partition_id)
    offset, epoch = partition["end_offset"], max(row["leader_epoch"] for row in states_of(history, partition_id))
    if partition["last_stable_offset"] == offset:
        partition["last_stable_offset"] += 1
    partition["end_offset"] += 1
    history._add(
        "records",
        kind=2,
        status=0,
        operation=next_operation(history),
        process=FINAL_READER,
        assignment=0,
        topic="t",
        partition=partition_id,
        partition_id=partition_id,
        position=0,
        offset=offset,
        offset_step=None,
        last_of_poll=True,
        leader_epoch=epoch,
        value=value,
        invoked_ns=200 * SECOND,
        completed_ns=201 * SECOND,
    )
    for snapshot in history.rows["replica_snapshots"]:
        if snapshot["partition"] == partition_id:
            snapshot["log_end_offset"] = snapshot["high_watermark"] = offset + 1
            history._add(
                "replica_log",
                snapshot=snapshot["snapshot"],
                node=snapshot["node"],
                topic="t",
                partition=partition_id,
                partition_id=partition_id,
                offset=offset,
                leader_epoch=epoch,
                value=value,
            )
    return int(offset)


def states_of(history: History, partition_id: int) -> list[Row]:
    return [row for row in history.rows["partition_states"] if row["partition"] == partition_id]


def next_operation(history: History) -> int:
    return 1 + max((row["operation"] for row in (*history.rows["operations"], *history.rows["records"])), default=-1)


def append_operation(history: History, f: str, rows: list[Row]) -> None:
    """One more operation, after all others, with these rows of `records`."""
    op, first = next_operation(history), rows[0]
    history.rows["records"].extend({**row, "operation": op} for row in rows)
    history._add(
        "operations",
        operation=op,
        process=first["process"],
        client=f"client-{first['process']}",
        function=f,
        invoked_ns=first["invoked_ns"],
        completed_ns=first["completed_ns"],
        status=first["status"],
        count=len(rows),
    )
    number_steps(history)


def _acknowledge(
    history: History, partition_id: int, value: int, offset: int, *, process: int, begin: int, end: int
) -> None:
    op = next_operation(history)
    history._add(
        "records",
        kind=0,
        status=0,
        acks=-1,
        operation=op,
        process=process,
        assignment=0,
        topic="t",
        partition=partition_id,
        partition_id=partition_id,
        position=0,
        offset=offset,
        value=value,
        invoked_ns=begin,
        completed_ns=end,
    )
    history._add(
        "operations",
        operation=op,
        process=process,
        client=f"client-{process}",
        function="send",
        status=0,
        invoked_ns=begin,
        completed_ns=end,
        count=1,
    )


# A value that lies where it cannot be in time is before and after what was sent in between: the same, told twice.
_OUT_OF_TIME = {
    "cycle/order-against-time": "the record is in the log after what was sent when it had been acknowledged or read",
    "cycle/G1c-ww-realtime": "the same, by a reader's word",
    "cycle/read-before-send": "the same, where the reader's poll lies before the send",
}


# -- records that vanish ----------------------------------


@planter("lost-write/lost")
def lose_an_acknowledged_record(history: History, chance: random.Random) -> bool:
    polled = _polled(history)
    found = [row for row in _acknowledged(history) if (row["partition_id"], row["value"]) not in polled]
    if not found:
        return False
    row = chance.choice(found)
    take_from_the_logs(history, row["partition_id"], row["value"])
    return True


@planter("lost-write/lost", "dirty-read/vanished")
def lose_an_acknowledged_record_that_was_read(history: History, chance: random.Random) -> bool:
    polled = _polled(history)
    found = [row for row in _acknowledged(history) if (row["partition_id"], row["value"]) in polled]
    if not found:
        return False
    row = chance.choice(found)
    take_from_the_logs(history, row["partition_id"], row["value"])
    return True


@planter("dirty-read/vanished")
def lose_a_record_that_was_read_and_never_acknowledged(history: History, chance: random.Random) -> bool:
    sent = records_of(history, kind=0, transaction=None)
    unanswered = {(row["partition_id"], row["value"]) for row in sent if row["offset"] is None}
    found = sorted(_polled(history) & unanswered)
    if not found:
        return False
    take_from_the_logs(history, *chance.choice(found))
    return True


@planter(
    "lost-write/lost",
    "unclean-election/election",
    classification="permitted",
    may={
        "dirty-read/vanished": "a lost record may have been read before",
        "torn-transaction/torn": "the cut may run through a transaction",
    },
)
def elect_uncleanly_where_it_is_allowed(history: History, chance: random.Random) -> bool:
    """A broker outside the ISR takes over with half of the log; the others follow it."""
    found = [row for row in _acknowledged(history) if row["offset"] > 0]
    if not found:
        return False
    lost = chance.choice(found)
    partition_id, kept = lost["partition_id"], lost["offset"]
    history.unclean_config("true")
    before = states_of(history, partition_id)[-1]
    epoch, leader = before["leader_epoch"], before["leader"]
    if leader not in before["isr"]:
        return False
    other = next(node for node in ISR if node != leader)
    shrunk = {"leader": leader, "leader_epoch": epoch, "isr": [leader], "isr_before": before["isr"], "unclean": False}
    elected = {"leader": other, "leader_epoch": epoch + 1, "isr": [other], "isr_before": [leader], "unclean": True}
    for number, state in enumerate((shrunk, elected)):
        history._add(
            "partition_states",
            topic="t",
            partition=partition_id,
            time_ns=_LATE + number * SECOND,
            uncertainty_ns=0,
            exact=True,
            observer=-1,
            partition_epoch=before["partition_epoch"] + 1 + number,
            replicas=list(ISR),
            **state,
        )
    history._add(
        "broker_events",
        node=other,
        time_ns=_LATE + SECOND,
        event="leadership_start",
        topic="t",
        partition=partition_id,
        leader_epoch=epoch + 1,
        from_offset=kept,
    )
    drop(
        history,
        "records",
        lambda row: row["kind"] == 2 and row["partition_id"] == partition_id and row["offset"] >= kept,
    )
    drop(history, "replica_log", lambda row: row["partition_id"] == partition_id and row["offset"] >= kept)
    for snapshot in history.rows["replica_snapshots"]:
        if snapshot["partition"] == partition_id:
            snapshot["log_end_offset"] = snapshot["high_watermark"] = kept
            snapshot["leader_epochs"] = ",".join(
                [word for word in snapshot["leader_epochs"].split(",") if int(word.split(":")[1]) < kept]
                + [f"{epoch + 1}:{kept}"]
            )
    next(row for row in history.rows["partitions"] if row["partition_id"] == partition_id)["end_offset"] = kept
    return True


# -- records that are where they should not be ------------


@planter("duplicate/twice-in-the-log", may=_OUT_OF_TIME)
def write_a_record_twice(history: History, chance: random.Random) -> bool:
    log = log_of(history)
    if not log:
        return False
    row = chance.choice(log)
    append_to_the_logs(history, row["partition_id"], row["value"])
    return True


@planter("duplicate/moved", may=_OUT_OF_TIME)
def move_a_record_after_it_was_acknowledged(history: History, chance: random.Random) -> bool:
    found = _acknowledged(history)
    if not found:
        return False
    row = chance.choice(found)
    take_from_the_logs(history, row["partition_id"], row["value"])
    append_to_the_logs(history, row["partition_id"], row["value"])
    return True


@planter(
    "phantom/nobody-sent-it",
    "lost-write/lost",
    "inconsistent-offsets/two-values",
    may={"dirty-read/vanished": "the value that was replaced may have been read before"},
)
def change_an_acknowledged_value_in_the_log(history: History, chance: random.Random) -> bool:
    found = _acknowledged(history)
    if not found:
        return False
    row = chance.choice(found)
    for other in (*records_of(history, kind=2), *history.rows["replica_log"]):
        if (other["partition_id"], other["value"]) == (row["partition_id"], row["value"]):
            other["value"] = STRANGER
    return True


@planter("phantom/nobody-sent-it", "inconsistent-offsets/two-values", "dirty-read/vanished")
def change_a_value_in_a_poll(history: History, chance: random.Random) -> bool:
    found = records_of(history, kind=1)
    if not found:
        return False
    chance.choice(found)["value"] = STRANGER
    return True


@planter("aborted-read/failed-send")
def deliver_a_refused_record(history: History, chance: random.Random) -> bool:
    found = records_of(history, kind=0, status=1, transaction=None)
    if not found:
        return False
    row = chance.choice(found)
    append_to_the_logs(history, row["partition_id"], row["value"])
    return True


@planter(
    "phantom/read-before-sent",
    may={
        **_OUT_OF_TIME,
        "last-stable-offset/passed": "the poll now ends before the transactions that it saw",
        "head-skip/first-poll": "the poll now lies before its own assignment or seek",
    },
)
def read_a_record_before_it_was_sent(history: History, chance: random.Random) -> bool:
    found = records_of(history, kind=1)
    if not found:
        return False
    row = chance.choice(found)
    sends = records_of(history, kind=0, partition_id=row["partition_id"])
    sent = next(send for send in sends if send["value"] == row["value"])
    for other in (*history.rows["records"], *history.rows["operations"]):
        if other["operation"] == row["operation"]:
            other["invoked_ns"], other["completed_ns"] = sent["invoked_ns"] - 2, sent["invoked_ns"] - 1
    return True


# -- acknowledgements out of order ------------------------


def _two_acknowledged_in_reverse(history: History, chance: random.Random, *, first: int, second: int, at: int) -> bool:
    """Process `first` is told the higher of two new offsets; `second`, whose send began at t, the lower one."""
    partition_id = chance.choice(history.rows["partitions"])["partition_id"]
    lower = append_to_the_logs(history, partition_id, STRANGER + 1)
    higher = append_to_the_logs(history, partition_id, STRANGER + 2)
    _acknowledge(history, partition_id, STRANGER + 2, higher, process=first, begin=_LATE, end=_LATE + SECOND)
    _acknowledge(history, partition_id, STRANGER + 1, lower, process=second, begin=at, end=at + SECOND)
    return True


@planter("acknowledged-regression/regression", may=_OUT_OF_TIME)
def acknowledge_below_an_earlier_acknowledgement(history: History, chance: random.Random) -> bool:
    return _two_acknowledged_in_reverse(history, chance, first=50, second=51, at=_LATE + 2 * SECOND)


@planter("reordering/nonmonotonic-send", may=_OUT_OF_TIME)
def write_two_requests_of_one_producer_in_reverse(history: History, chance: random.Random) -> bool:
    return _two_acknowledged_in_reverse(history, chance, first=50, second=50, at=_LATE + SECOND // 2)


@planter("reordering/nonmonotonic-send", "acknowledged-regression/regression", may=_OUT_OF_TIME)
def write_a_later_request_below_an_acknowledged_one(history: History, chance: random.Random) -> bool:
    return _two_acknowledged_in_reverse(history, chance, first=50, second=50, at=_LATE + 2 * SECOND)


# -- polls that go astray ---------------------------------


@planter(
    "nonmonotonic-read/internal",
    may={
        "skipped-read/internal": "the step before the one back, or the one after it, jumps over a record",
        "skipped-read/external": "the poll begins, or the next one seems to, one record too far",
        "head-skip/first-poll": "the record that came first of all is not the first one any more",
        "nonmonotonic-read/external": "the next poll seems to begin where this one ended",
    },
)
def swap_two_records_in_a_poll(history: History, chance: random.Random) -> bool:
    found = polls_of(history, at_least=2)
    if not found:
        return False
    rows = chance.choice(found)
    place = chance.randrange(len(rows) - 1)
    one, other = rows[place], rows[place + 1]
    for name in ("offset", "value", "leader_epoch", "timestamp_ms"):
        one[name], other[name] = other[name], one[name]
    number_steps(history)
    return True


_PASSED = {"group-skip/skipped": "the group commits past what none of its members has read"}


@planter("skipped-read/internal", may=_PASSED)
def leave_out_the_middle_of_a_poll(history: History, chance: random.Random) -> bool:
    kept = kept_offsets(history)
    inner = (row for rows in polls_of(history, at_least=3) for row in rows[1:-1])
    found = [row for row in inner if (row["partition_id"], row["offset"]) in kept]
    if not found:
        return False
    gone = chance.choice(found)
    drop(history, "records", lambda row: row is gone)
    return True


def _followed(history: History) -> Sequence[tuple[list[Row], list[Row]]]:
    """Pairs of polls of one partition in one assignment, the first ok, with nothing between them."""
    by_consumer: dict[tuple[int, int, int], list[list[Row]]] = {}
    for rows in polls_of(history, at_least=1):
        by_consumer.setdefault((rows[0]["process"], rows[0]["assignment"], rows[0]["partition_id"]), []).append(rows)
    pairs = (pair for polls in by_consumer.values() for pair in itertools.pairwise(polls))
    return [(one, next_) for one, next_ in pairs if one[0]["status"] == 0]


@planter("skipped-read/external", may=_PASSED)
def leave_out_the_head_of_a_later_poll(history: History, chance: random.Random) -> bool:
    kept = kept_offsets(history)
    firsts = [rows[0] for _, rows in _followed(history) if len(rows) > 1]
    found = [row for row in firsts if (row["partition_id"], row["offset"]) in kept]
    if not found:
        return False
    gone = chance.choice(found)
    drop(history, "records", lambda row: row is gone)
    return True


@planter("nonmonotonic-read/external")
def hand_out_a_poll_twice(history: History, chance: random.Random) -> bool:
    """The consumer gets the same records again in its next poll, as if it had stood still."""
    found = [rows for rows in polls_of(history, at_least=1) if rows[0]["status"] == 0]
    if not found:
        return False
    op = chance.choice(found)[0]["operation"]
    for table in ("records", "operations"):
        again = []
        for row in history.rows[table]:
            if row["operation"] > op:
                row["operation"] += 1
            elif row["operation"] == op:
                again.append({**row, "operation": op + 1})
        history.rows[table].extend(again)
    return True
