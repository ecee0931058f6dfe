"""Puts exactly one fault into a sound history, and says what a check must then find.

A planter returns False where the history has nothing for its fault, and must then leave it as it was. `must`: the
findings (check/kind) that name the fault; `may`: what the same fault lawfully looks like from elsewhere, with why.
"""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.harness.checks.build import ISR, SECOND, History
from tests.harness.checks.generator import FINAL_READER, Simulation
from tests.harness.checks.generator_rows import number_steps

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
        name = plant.__name__
        PLANTERS[name] = Planter(plant=plant, must=frozenset(must), may=may or {}, classification=classification,
                                 of=of)  # fmt: skip
        return plant

    return register


# -- what is there to spoil -------------------------------


def records_of(history: History, *, kind: int, **equal: Any) -> list[Row]:
    return [
        row
        for row in history.rows["records"]
        if row["kind"] == kind and all(row[name] == wanted for name, wanted in equal.items())
    ]


def log_of(history: History) -> list[Row]:
    return [row for row in records_of(history, kind=2) if row["replica"] is None]


def kept_offsets(history: History) -> set[tuple[int, int]]:
    return {(row["tp"], row["off"]) for row in log_of(history)}


def _acknowledged(history: History) -> list[Row]:
    """Acknowledged with an offset, and in no transaction."""
    return [row for row in records_of(history, kind=0, status=0, txn=None) if row["off"] is not None]


def _polled(history: History) -> set[tuple[int, int]]:
    return {(row["tp"], row["value"]) for row in records_of(history, kind=1)}


def polls_of(history: History, *, at_least: int) -> list[list[Row]]:
    """The rows of each (poll, partition) that has as many records."""
    found: dict[tuple[int, int], list[Row]] = {}
    for row in records_of(history, kind=1):
        found.setdefault((row["op"], row["tp"]), []).append(row)
    return [rows for rows in found.values() if len(rows) >= at_least]


def drop(history: History, table: str, unwanted: Callable[[Row], bool]) -> None:
    history.rows[table] = [row for row in history.rows[table] if not unwanted(row)]
    number_steps(history)


def take_from_the_logs(history: History, tp: int, value: int) -> None:
    drop(history, "records", lambda row: row["kind"] == 2 and (row["tp"], row["value"]) == (tp, value))
    drop(history, "replica_log", lambda row: (row["tp"], row["value"]) == (tp, value))


def append_to_the_logs(history: History, tp: int, value: int) -> int:
    """One more record at the end of the final log and of every replica; returns its offset."""
    partition = next(row for row in history.rows["partitions"] if row["tp"] == tp)
    off, epoch = partition["end_offset"], max(row["leader_epoch"] for row in states_of(history, tp))
    partition["end_offset"] += 1
    op = next_operation(history)
    history._add(
        "records", kind=2, status=0, op=op, process=FINAL_READER, assignment=0, topic="t", part=tp, tp=tp, i=0,
        off=off, step=None, last=True, epoch=epoch, value=value, t0=200 * SECOND, t1=201 * SECOND,
    )  # fmt: skip
    for snapshot in history.rows["replica_snapshots"]:
        if snapshot["part"] == tp:
            snapshot["log_end"] = snapshot["high_watermark"] = off + 1
            history._add("replica_log", snapshot=snapshot["snapshot"], node=snapshot["node"], topic="t", part=tp,
                         tp=tp, off=off, epoch=epoch, value=value)  # fmt: skip
    return int(off)


def states_of(history: History, tp: int) -> list[Row]:
    return [row for row in history.rows["partition_states"] if row["part"] == tp]


def next_operation(history: History) -> int:
    return 1 + max((row["op"] for row in (*history.rows["ops"], *history.rows["records"])), default=-1)


def append_operation(history: History, f: str, rows: list[Row]) -> None:
    """One more operation, after all others, with these rows of `records`."""
    op, first = next_operation(history), rows[0]
    history.rows["records"].extend({**row, "op": op} for row in rows)
    history._add("ops", op=op, process=first["process"], client=f"client-{first['process']}", f=f, t0=first["t0"],
                 t1=first["t1"], status=first["status"], count=len(rows))  # fmt: skip
    number_steps(history)


def _acknowledge(history: History, tp: int, value: int, off: int, *, process: int, t0: int, t1: int) -> None:
    op = next_operation(history)
    history._add("records", kind=0, status=0, acks=-1, op=op, process=process, assignment=0, topic="t", part=tp, tp=tp,
                 i=0, off=off, value=value, t0=t0, t1=t1)  # fmt: skip
    history._add("ops", op=op, process=process, client=f"client-{process}", f="send", status=0, t0=t0, t1=t1, count=1)


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
    found = [row for row in _acknowledged(history) if (row["tp"], row["value"]) not in polled]
    if not found:
        return False
    row = chance.choice(found)
    take_from_the_logs(history, row["tp"], row["value"])
    return True


@planter("lost-write/lost", "dirty-read/vanished")
def lose_an_acknowledged_record_that_was_read(history: History, chance: random.Random) -> bool:
    polled = _polled(history)
    found = [row for row in _acknowledged(history) if (row["tp"], row["value"]) in polled]
    if not found:
        return False
    row = chance.choice(found)
    take_from_the_logs(history, row["tp"], row["value"])
    return True


@planter("dirty-read/vanished")
def lose_a_record_that_was_read_and_never_acknowledged(history: History, chance: random.Random) -> bool:
    unanswered = {(row["tp"], row["value"]) for row in records_of(history, kind=0, txn=None) if row["off"] is None}
    found = sorted(_polled(history) & unanswered)
    if not found:
        return False
    take_from_the_logs(history, *chance.choice(found))
    return True


@planter("lost-write/lost", "unclean-election/election", classification="permitted",
         may={"dirty-read/vanished": "a lost record may have been read before",
              "torn-transaction/torn": "the cut may run through a transaction"})  # fmt: skip
def elect_uncleanly_where_it_is_allowed(history: History, chance: random.Random) -> bool:
    """A broker outside the ISR takes over with half of the log; the others follow it."""
    found = [row for row in _acknowledged(history) if row["off"] > 0]
    if not found:
        return False
    lost = chance.choice(found)
    tp, kept = lost["tp"], lost["off"]
    history.unclean_config("true")
    before = states_of(history, tp)[-1]
    epoch, leader = before["leader_epoch"], before["leader"]
    if leader not in before["isr"]:
        return False
    other = next(node for node in ISR if node != leader)
    shrunk = {"leader": leader, "leader_epoch": epoch, "isr": [leader], "isr_before": before["isr"], "unclean": False}
    elected = {"leader": other, "leader_epoch": epoch + 1, "isr": [other], "isr_before": [leader], "unclean": True}
    for number, state in enumerate((shrunk, elected)):
        history._add(
            "partition_states", topic="t", part=tp, t=_LATE + number * SECOND, uncertainty_ns=0, exact=True,
            observer=-1, partition_epoch=before["partition_epoch"] + 1 + number, replicas=list(ISR), **state,
        )  # fmt: skip
    history._add("broker_events", node=other, t=_LATE + SECOND, event="leadership_start", topic="t", part=tp,
                 epoch=epoch + 1, from_offset=kept)  # fmt: skip
    drop(history, "records", lambda row: row["kind"] == 2 and row["tp"] == tp and row["off"] >= kept)
    drop(history, "replica_log", lambda row: row["tp"] == tp and row["off"] >= kept)
    for snapshot in history.rows["replica_snapshots"]:
        if snapshot["part"] == tp:
            snapshot["log_end"] = snapshot["high_watermark"] = kept
            snapshot["epochs"] = ",".join(
                [word for word in snapshot["epochs"].split(",") if int(word.split(":")[1]) < kept]
                + [f"{epoch + 1}:{kept}"]
            )
    next(row for row in history.rows["partitions"] if row["tp"] == tp)["end_offset"] = kept
    return True


# -- records that are where they should not be ------------


@planter("duplicate/twice-in-the-log", may=_OUT_OF_TIME)
def write_a_record_twice(history: History, chance: random.Random) -> bool:
    log = log_of(history)
    if not log:
        return False
    row = chance.choice(log)
    append_to_the_logs(history, row["tp"], row["value"])
    return True


@planter("duplicate/moved", may=_OUT_OF_TIME)
def move_a_record_after_it_was_acknowledged(history: History, chance: random.Random) -> bool:
    found = _acknowledged(history)
    if not found:
        return False
    row = chance.choice(found)
    take_from_the_logs(history, row["tp"], row["value"])
    append_to_the_logs(history, row["tp"], row["value"])
    return True


@planter("phantom/nobody-sent-it", "lost-write/lost", "inconsistent-offsets/two-values",
         may={"dirty-read/vanished": "the value that was replaced may have been read before"})  # fmt: skip
def change_an_acknowledged_value_in_the_log(history: History, chance: random.Random) -> bool:
    found = _acknowledged(history)
    if not found:
        return False
    row = chance.choice(found)
    for other in (*records_of(history, kind=2), *history.rows["replica_log"]):
        if (other["tp"], other["value"]) == (row["tp"], row["value"]):
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
    found = records_of(history, kind=0, status=1, txn=None)
    if not found:
        return False
    row = chance.choice(found)
    append_to_the_logs(history, row["tp"], row["value"])
    return True


@planter("phantom/read-before-sent",
         may={**_OUT_OF_TIME, "last-stable-offset/passed": "the poll now ends before the transactions that it saw",
              "head-skip/first-poll": "the poll now lies before its own assignment or seek"})  # fmt: skip
def read_a_record_before_it_was_sent(history: History, chance: random.Random) -> bool:
    found = records_of(history, kind=1)
    if not found:
        return False
    row = chance.choice(found)
    sent = next(send for send in records_of(history, kind=0, tp=row["tp"]) if send["value"] == row["value"])
    for other in (*history.rows["records"], *history.rows["ops"]):
        if other["op"] == row["op"]:
            other["t0"], other["t1"] = sent["t0"] - 2, sent["t0"] - 1
    return True


# -- acknowledgements out of order ------------------------


def _two_acknowledged_in_reverse(history: History, chance: random.Random, *, first: int, second: int, t: int) -> bool:
    """Process `first` is told the higher of two new offsets; `second`, whose send began at t, the lower one."""
    tp = chance.choice(history.rows["partitions"])["tp"]
    lower = append_to_the_logs(history, tp, STRANGER + 1)
    higher = append_to_the_logs(history, tp, STRANGER + 2)
    _acknowledge(history, tp, STRANGER + 2, higher, process=first, t0=_LATE, t1=_LATE + SECOND)
    _acknowledge(history, tp, STRANGER + 1, lower, process=second, t0=t, t1=t + SECOND)
    return True


@planter("acknowledged-regression/regression", may=_OUT_OF_TIME)
def acknowledge_below_an_earlier_acknowledgement(history: History, chance: random.Random) -> bool:
    return _two_acknowledged_in_reverse(history, chance, first=50, second=51, t=_LATE + 2 * SECOND)


@planter("reordering/nonmonotonic-send", may=_OUT_OF_TIME)
def write_two_requests_of_one_producer_in_reverse(history: History, chance: random.Random) -> bool:
    return _two_acknowledged_in_reverse(history, chance, first=50, second=50, t=_LATE + SECOND // 2)


@planter("reordering/nonmonotonic-send", "acknowledged-regression/regression", may=_OUT_OF_TIME)
def write_a_later_request_below_an_acknowledged_one(history: History, chance: random.Random) -> bool:
    return _two_acknowledged_in_reverse(history, chance, first=50, second=50, t=_LATE + 2 * SECOND)


# -- polls that go astray ---------------------------------


@planter("nonmonotonic-read/internal",
         may={"skipped-read/internal": "the step before the one back, or the one after it, jumps over a record",
              "skipped-read/external": "the poll begins, or the next one seems to, one record too far",
              "head-skip/first-poll": "the record that came first of all is not the first one any more",
              "nonmonotonic-read/external": "the next poll seems to begin where this one ended"})  # fmt: skip
def swap_two_records_in_a_poll(history: History, chance: random.Random) -> bool:
    found = polls_of(history, at_least=2)
    if not found:
        return False
    rows = chance.choice(found)
    place = chance.randrange(len(rows) - 1)
    one, other = rows[place], rows[place + 1]
    for name in ("off", "value", "epoch", "timestamp_ms"):
        one[name], other[name] = other[name], one[name]
    number_steps(history)
    return True


_PASSED = {"group-skip/skipped": "the group commits past what none of its members has read"}


@planter("skipped-read/internal", may=_PASSED)
def leave_out_the_middle_of_a_poll(history: History, chance: random.Random) -> bool:
    kept = kept_offsets(history)
    inner = (row for rows in polls_of(history, at_least=3) for row in rows[1:-1])
    found = [row for row in inner if (row["tp"], row["off"]) in kept]
    if not found:
        return False
    gone = chance.choice(found)
    drop(history, "records", lambda row: row is gone)
    return True


def _followed(history: History) -> Sequence[tuple[list[Row], list[Row]]]:
    """Pairs of polls of one partition in one assignment, the first ok, with nothing between them."""
    by_consumer: dict[tuple[int, int, int], list[list[Row]]] = {}
    for rows in polls_of(history, at_least=1):
        by_consumer.setdefault((rows[0]["process"], rows[0]["assignment"], rows[0]["tp"]), []).append(rows)
    return [
        (one, next_)
        for polls in by_consumer.values()
        for one, next_ in itertools.pairwise(polls)
        if one[0]["status"] == 0
    ]


@planter("skipped-read/external", may=_PASSED)
def leave_out_the_head_of_a_later_poll(history: History, chance: random.Random) -> bool:
    kept = kept_offsets(history)
    found = [rows[0] for _, rows in _followed(history) if len(rows) > 1 and (rows[0]["tp"], rows[0]["off"]) in kept]
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
    op = chance.choice(found)[0]["op"]
    for table in ("records", "ops"):
        again = []
        for row in history.rows[table]:
            if row["op"] > op:
                row["op"] += 1
            elif row["op"] == op:
                again.append({**row, "op": op + 1})
        history.rows[table].extend(again)
    return True
