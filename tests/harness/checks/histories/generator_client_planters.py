"""Faults of groups, transactions, isolation, timestamps and replicas, each put alone into a sound history."""

import random

from tests.harness.checks.histories.build import SECOND, History
from tests.harness.checks.histories.generator_planters import (
    STRANGER,
    Row,
    append_operation,
    drop,
    kept_offsets,
    log_of,
    planter,
    polls_of,
    records_of,
    states_of,
    take_from_the_logs,
)
from tests.harness.checks.histories.generator_rows import COMMITTED_ONLY, FAIL, GROUP, INFO, OK, number_steps

_STRANGER = 60  # a reader that the run does not have
_LATE = 60 * SECOND


# -- heads of assignments ---------------------------------


@planter("head-skip/first-poll", may={"group-skip/skipped": "the group commits past what nobody else has read either"})
def leave_out_the_head_of_an_assignment(history: History, chance: random.Random) -> bool:
    """The consumer starts, or goes on after a seek, one record too late."""
    kept = kept_offsets(history)
    first: dict[tuple[int, int, int], list[Row]] = {}
    for rows in polls_of(history, at_least=1):
        first.setdefault((rows[0]["process"], rows[0]["assignment"], rows[0]["partition_id"]), rows)
    found = [rows for rows in first.values() if len(rows) > 1 and (rows[0]["partition_id"], rows[0]["offset"]) in kept]
    if not found:
        return False
    gone = chance.choice(found)[0]
    drop(history, "records", lambda row: row is gone)
    return True


# -- groups -----------------------------------------------


def _events(history: History, event: str) -> list[Row]:
    return [row for row in history.rows["group_events"] if row["event"] == event and row["group"] == GROUP]


@planter(
    "two-owners/same-generation",
    may={"zombie-commit/old-generation": "the first owner goes on committing in its generation"},
)
def give_a_partition_to_two_members(history: History, chance: random.Random) -> bool:
    members = {row["process"] for row in history.rows["processes"] if row["group"] == GROUP}
    assigned = [row for row in _events(history, "assigned") if row["generation"] is not None]
    found = [(row, other) for row in assigned for other in members - {row["process"]}]
    if not found:
        return False
    row, other = chance.choice(sorted(found, key=lambda pair: (pair[0]["invoked_ns"], pair[0]["partition"])))
    history.rows["group_events"].append(
        {**row, "process": other, "member": f"m{other}", "completed_ns": row["completed_ns"] + 1}
    )
    return True


@planter("lost-group-offset/lost")
def forget_a_committed_offset(history: History, chance: random.Random) -> bool:
    commits = [row for row in _events(history, "committed") if row["status"] == OK]
    found = [
        row
        for row in _events(history, "fetched")
        if any(
            commit["partition"] == row["partition"] and commit["completed_ns"] < row["invoked_ns"] for commit in commits
        )
    ]
    if not found:
        return False
    chance.choice(found)["offset"] = None
    return True


def _committed(history: History) -> list[Row]:
    """The last certain commits of partitions where no commit's outcome is unknown."""
    by_partition: dict[int, list[Row]] = {}
    for row in _events(history, "committed"):
        by_partition.setdefault(row["partition"], []).append(row)
    return [
        max((row for row in rows if row["status"] == OK), key=lambda row: row["invoked_ns"])
        for rows in by_partition.values()
        if all(row["status"] != INFO for row in rows) and any(row["status"] == OK for row in rows)
    ]


@planter("lost-group-offset/regressed")
def answer_an_older_committed_offset(history: History, chance: random.Random) -> bool:
    found = [row for row in _committed(history) if row["offset"] > 0]
    if not found:
        return False
    row = chance.choice(found)
    fields = {**row, "event": "fetched", "offset": row["offset"] - 1, "invoked_ns": _LATE, "completed_ns": _LATE + 1}
    if any(
        other["offset"] == fields["offset"] and other["completed_ns"] >= row["invoked_ns"]
        for other in _events(history, "committed")
    ):
        return False
    history.rows["group_events"].append(fields)
    return True


@planter("group-redelivery/after-commit")
def deliver_again_what_was_committed(history: History, chance: random.Random) -> bool:
    """A last rebalance gives a partition to a member, which begins below the committed offset."""
    sought = {(row["process"], row["partition"]) for row in _events(history, "seek")}
    found = [
        (commit, row)
        for commit in _committed(history)
        for row in log_of(history)
        if row["partition_id"] == commit["partition"]
        and row["offset"] < commit["offset"]
        and row["completed_ns"] < _LATE
        and (commit["process"], commit["partition"]) not in sought
    ]
    if not found:
        return False
    commit, row = chance.choice(found)
    generation = 1 + max(event["generation"] or 0 for event in _events(history, "assigned"))
    assignment = 1 + max(other["assignment"] for other in history.rows["records"])
    owner = commit["process"]
    history.rows["group_events"].append(
        {
            **commit,
            "event": "assigned",
            "generation": generation,
            "offset": None,
            "invoked_ns": _LATE,
            "completed_ns": _LATE + 1,
        }
    )
    again = {
        **row,
        "kind": 1,
        "process": owner,
        "assignment": assignment,
        "invoked_ns": _LATE + 10,
        "completed_ns": _LATE + 20,
        "position": 0,
    }
    append_operation(history, "poll", [again])
    return True


# -- transactions -----------------------------------------


def _sends_of(history: History, *, outcome: int) -> list[list[Row]]:
    """The sends of each transaction of that outcome that has at least two records."""
    by_txn: dict[int, list[Row]] = {}
    for row in records_of(history, kind=0):
        if row["transaction"] is not None and row["offset"] is not None:
            by_txn.setdefault(row["transaction"], []).append(row)
    outcomes = {row["transaction"]: row["outcome"] for row in history.rows["transactions"]}
    return [rows for txn, rows in by_txn.items() if outcomes[txn] == outcome and len(rows) > 1]


def _into_the_log(history: History, sent: Row) -> None:
    """The final reader is given the record at its offset, in a read of its own."""
    finals = [row for row in log_of(history) if row["partition_id"] == sent["partition_id"]]
    model = finals[0] if finals else log_of(history)[0]
    where = {name: sent[name] for name in ("partition_id", "partition", "offset", "value", "timestamp_ms")}
    append_operation(history, "final_poll", [{**model, **where, "position": 0, "assignment": 7, "leader_epoch": None}])


@planter(
    "torn-transaction/torn",
    "lost-write/lost",
    may={"dirty-read/vanished": "the record may have been read before it vanished"},
)
def lose_a_record_of_a_committed_transaction(history: History, chance: random.Random) -> bool:
    found = _sends_of(history, outcome=OK)
    if not found:
        return False
    gone = chance.choice(chance.choice(found))
    take_from_the_logs(history, gone["partition_id"], gone["value"])
    return True


_SKIPPED = {
    "skipped-read/internal": "consumers that read on were right not to see it, and now seem to have skipped it",
    "skipped-read/external": "the same between two polls",
    "head-skip/first-poll": "the same at the head of an assignment",
    "group-skip/skipped": "the same for the group",
}


@planter("torn-transaction/torn", may=_SKIPPED)
def show_a_part_of_an_aborted_transaction_of_unknown_outcome(history: History, chance: random.Random) -> bool:
    shown = {(row["partition_id"], row["value"]) for row in log_of(history)}
    found = [
        rows
        for rows in _sends_of(history, outcome=INFO)
        if not any((row["partition_id"], row["value"]) in shown for row in rows)
    ]
    if not found:
        return False
    _into_the_log(history, chance.choice(chance.choice(found)))
    return True


@planter("aborted-read/aborted-transaction", may=_SKIPPED)
def show_an_aborted_record_to_a_committed_reader(history: History, chance: random.Random) -> bool:
    found = _sends_of(history, outcome=FAIL)
    if not found:
        return False
    _into_the_log(history, chance.choice(chance.choice(found)))
    return True


@planter("last-stable-offset/passed")
def read_past_the_last_stable_offset(history: History, chance: random.Random) -> bool:
    """A committed reader gets the first record of a transaction while the last of its sends is under way."""
    found = [
        rows
        for rows in _sends_of(history, outcome=OK)
        if min(row["completed_ns"] for row in rows) < max(r["invoked_ns"] for r in rows)
    ]
    if not found:
        return False
    rows = chance.choice(found)
    first, last = min(rows, key=lambda row: row["operation"]), max(rows, key=lambda row: row["operation"])
    final = next(
        (
            row
            for row in log_of(history)
            if (row["partition_id"], row["value"]) == (first["partition_id"], first["value"])
        ),
        None,
    )
    if final is None:
        return False
    history._add(
        "processes",
        process=_STRANGER,
        client="stranger",
        role="consumer",
        isolation=COMMITTED_ONLY,
        offset_reset="latest",
    )
    read = {
        **final,
        "kind": 1,
        "process": _STRANGER,
        "assignment": 0,
        "invoked_ns": first["completed_ns"],
        "completed_ns": last["invoked_ns"],
        "position": 0,
    }
    append_operation(history, "poll", [read])
    return True


# -- timestamps -------------------------------------------


@planter("timestamps/changed")
def read_another_timestamp_than_was_written(history: History, chance: random.Random) -> bool:
    found = records_of(history, kind=1)
    if not found:
        return False
    chance.choice(found)["timestamp_ms"] += 5
    number_steps(history)
    return True


def _stamped_by_the_broker(history: History) -> list[Row]:
    """Acknowledged sends of records that are in the final log, at which another of the same epoch lies before."""
    kept = kept_offsets(history)
    return [
        row
        for row in records_of(history, kind=0, status=OK)
        if row["log_append"]
        and (row["partition_id"], row["offset"]) in kept
        and (row["partition_id"], (row["offset"] or 0) - 1) in kept
    ]


def _stamp(history: History, sent: Row, stamp_ms: int) -> None:
    for row in history.rows["records"]:
        if (row["partition_id"], row["value"]) == (sent["partition_id"], sent["value"]):
            row["timestamp_ms"] = stamp_ms


@planter("timestamps/backwards")
def stamp_a_record_earlier_than_the_one_before(history: History, chance: random.Random) -> bool:
    log = {(row["partition_id"], row["offset"]): row for row in log_of(history)}
    found = []
    for sent in _stamped_by_the_broker(history):
        before, own = log[sent["partition_id"], sent["offset"] - 1], log[sent["partition_id"], sent["offset"]]
        if before["leader_epoch"] == own["leader_epoch"]:
            found.append((sent, before["timestamp_ms"]))
    if not found:
        return False
    sent, before_ms = chance.choice(found)
    _stamp(history, sent, before_ms - 1)
    return True


@planter("timestamps/out-of-time", may={"timestamps/backwards": "the record before, or the one after, is in time"})
def stamp_a_record_seconds_before_its_send_or_after_its_answer(history: History, chance: random.Random) -> bool:
    found = _stamped_by_the_broker(history)
    if not found:
        return False
    sent = chance.choice(found)
    history.anchors = [{"wall_ns": 0, "monotonic_ns": 0}]
    early_ms, late_ms = sent["invoked_ns"] // 1_000_000 - 1_001, sent["completed_ns"] // 1_000_000 + 1_002
    _stamp(history, sent, chance.choice((early_ms, late_ms)))
    return True


# -- replicas that part -----------------------------------


@planter("replica-divergence/different")
def change_a_value_on_one_replica(history: History, chance: random.Random) -> bool:
    found = _in_sync_rows(history)
    if not found:
        return False
    chance.choice(found)["value"] = STRANGER
    return True


@planter("replica-divergence/missing")
def take_a_record_from_one_replica(history: History, chance: random.Random) -> bool:
    found = _in_sync_rows(history)
    if not found:
        return False
    gone = chance.choice(found)
    drop(history, "replica_log", lambda row: row is gone)
    return True


def _in_sync_rows(history: History) -> list[Row]:
    """The records that members of an ISR of at least two hold."""
    members = {
        partition_id: states_of(history, partition_id)[-1]["isr"]
        for partition_id in (row["partition_id"] for row in history.rows["partitions"])
    }
    return [
        row
        for row in history.rows["replica_log"]
        if row["node"] in members[row["partition_id"]] and len(members[row["partition_id"]]) > 1
    ]
