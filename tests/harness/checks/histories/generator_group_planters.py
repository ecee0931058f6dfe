"""Faults of groups' deliveries, of transactional ids and of processors, each put alone into a sound history."""

import random

from harness.history.facts.values import NAMED_FROM
from tests.harness.checks.histories.build import SECOND, History
from tests.harness.checks.histories.generator_of_processors import PROCESSORS, Processing
from tests.harness.checks.histories.generator_planters import (
    Row,
    append_operation,
    append_to_the_logs,
    drop,
    log_of,
    planter,
    records_of,
)
from tests.harness.checks.histories.generator_rows import COMMITTED_ONLY, GROUP, OK
from tests.outputs import decode_output

_LATE = 60 * SECOND
_STRANGER = 70  # a client that the run does not have


def _events(history: History, *names: str, group: str = GROUP) -> list[Row]:
    return [row for row in history.rows["group_events"] if row["event"] in names and row["group"] == group]


# -- owners and deliveries --------------------------------


@planter("two-owners/same-generation")
def give_a_partition_away_before_it_is_given_up(history: History, chance: random.Random) -> bool:
    """The next owner is told in the generation of the one before, which gives the partition up only afterwards."""
    found = []
    for given in _events(history, "assigned"):
        own = [row for row in _events(history, "assigned", "revoked", "lost") if row["partition"] == given["partition"]]
        after = sorted(
            (row for row in own if row["invoked_ns"] > given["invoked_ns"]), key=lambda row: row["invoked_ns"]
        )
        if len(after) < 2 or given["generation"] is None:
            continue
        up, taken = after[:2]
        if up["event"] == "revoked" and up["process"] == given["process"] and taken["event"] == "assigned":
            found.append((given, up, taken))
    found = [each for each in found if each[2]["process"] != each[0]["process"]]
    if not found:
        return False
    given, up, taken = chance.choice(found)
    taken["generation"] = given["generation"]
    up["invoked_ns"] = up["completed_ns"] = taken["completed_ns"] + 1
    return True


def _rest(history: History, chance: random.Random) -> tuple[Row, list[Row]] | None:
    """The last poll of a group's member, and the records of the final log that nobody of the group has read yet."""
    members = {row["process"] for row in history.rows["processes"] if row["group"] == GROUP}
    starts = {row["offset_reset"] for row in history.rows["processes"] if row["group"] == GROUP}
    sought = {row["partition"] for row in _events(history, "seek")}
    found = []
    for partition_id in {row["partition_id"] for row in log_of(history)} - sought:
        read = [row for row in records_of(history, kind=1, partition_id=partition_id) if row["process"] in members]
        top = max(
            (row for row in read if row["status"] == OK),
            key=lambda row: (row["offset"], row["operation"]),
            default=None,
        )
        if top is None or starts != {"earliest"} or any(row["operation"] > top["operation"] for row in read):
            continue
        rest = [row for row in log_of(history) if row["partition_id"] == partition_id and row["offset"] > top["offset"]]
        if rest and not any(row["offset"] > top["offset"] for row in read):
            found.append((top, sorted(rest, key=lambda row: row["offset"])))
    return chance.choice(found) if found else None


def _commit(history: History, last: Row, offset: int) -> None:
    history._add(
        "group_events",
        process=last["process"],
        group=GROUP,
        event="committed",
        member=f"m{last['process']}",
        topic="t",
        partition=last["partition_id"],
        offset=offset,
        status=OK,
        invoked_ns=_LATE,
        completed_ns=_LATE + 1,
    )


@planter("group-skip/skipped")
def commit_beyond_what_anybody_reads(history: History, chance: random.Random) -> bool:
    if (found := _rest(history, chance)) is None:
        return False
    last, rest = found
    _commit(history, last, rest[-1]["offset"] + 1)
    return True


@planter("group-skip/ahead")
def commit_before_reading(history: History, chance: random.Random) -> bool:
    if (found := _rest(history, chance)) is None:
        return False
    last, rest = found
    _commit(history, last, rest[-1]["offset"] + 1)
    later = {"kind": 1, "process": last["process"], "assignment": last["assignment"], "invoked_ns": _LATE + 10}
    append_operation(
        history,
        "poll",
        [{**row, **later, "completed_ns": _LATE + 20, "position": i, "status": OK} for i, row in enumerate(rest)],
    )
    return True


# -- transactional ids ------------------------------------


@planter("zombie-transaction/fenced", of=Processing)
def commit_with_a_fenced_producer(history: History, chance: random.Random) -> bool:
    """An older producer commits one more transaction, with nothing in it, when a newer one has long committed."""
    by_id: dict[str, list[Row]] = {}
    for row in history.rows["transactions"]:
        by_id.setdefault(row["transactional_id"], []).append(row)
    found = [
        (older, newer)
        for rows in by_id.values()
        for older in rows
        for newer in rows
        if older["process"] < newer["process"]
        and newer["outcome"] == OK
        and older["completed_ns"] < newer["invoked_ns"]
    ]
    if not found:
        return False
    older, newer = chance.choice(found)
    number = 1 + max(row["transaction"] for row in history.rows["transactions"])
    began = newer["completed_ns"] + 1
    history.rows["transactions"].append(
        {**older, "transaction": number, "outcome": OK, "invoked_ns": began, "completed_ns": began + 1}
    )
    return True


# -- read, process, write ---------------------------------


def _processed(history: History) -> list[tuple[Row, int, int]]:
    """(send of an output that a committed transaction made, input partition, input offset)."""
    names = {row["value"]: decode_output(row["name"]) for row in history.rows["value_names"]}
    sent = [row for row in records_of(history, kind=0, status=OK) if row["transaction"] is not None]
    places = [(row, names.get(row["value"])) for row in sent]  # other planters send what has no name
    return [(row, place[1], place[2]) for row, place in places if place is not None]


@planter("read-process-write/twice", of=Processing)
def process_an_input_twice(history: History, chance: random.Random) -> bool:
    """A processor of another transactional id makes a second output for an input that has one already."""
    found = _processed(history)
    if not found:
        return False
    sent, partition_id, offset = chance.choice(found)
    value, txn = NAMED_FROM + len(history.rows["value_names"]), len(history.rows["transactions"])
    history._add("value_names", value=value, name=f"t-{partition_id}-{offset}/{_STRANGER}.1")
    history.client(_STRANGER, role="both", acks=-1, transactional_id="p-9", isolation=COMMITTED_ONLY)
    history.transaction(txn, OK, at=60, until=63, process=_STRANGER, transactional_id="p-9")
    place = append_to_the_logs(history, sent["partition_id"], value)
    own = {"value": value, "offset": place, "process": _STRANGER, "transaction": txn, "position": 0}
    append_operation(history, "send", [{**sent, **own, "invoked_ns": _LATE + 1, "completed_ns": _LATE + 2}])
    return True


@planter("read-process-write/missing", of=Processing)
def process_no_output(history: History, chance: random.Random) -> bool:
    """The processor writes nothing for one of its inputs, and sends the offset behind it."""
    found = _processed(history)
    if not found:
        return False
    sent, _, _ = chance.choice(found)
    drop(history, "records", lambda row: row["value"] == sent["value"])
    drop(history, "replica_log", lambda row: row["value"] == sent["value"])
    return True


@planter("read-process-write/uncommitted", of=Processing)
def commit_outputs_without_their_offsets(history: History, chance: random.Random) -> bool:
    """The last offsets of a partition are not sent to the transaction that has the outputs."""
    found = []
    for partition_id in {row["partition"] for row in _events(history, "committed", group=PROCESSORS)}:
        own = [
            row
            for row in _events(history, "committed", "fetched", group=PROCESSORS)
            if row["partition"] == partition_id
        ]
        last = max(own, key=lambda row: row["invoked_ns"])
        commits = [row for row in own if row["event"] == "committed"]
        if last["event"] == "committed" and last["status"] == OK and len(commits) > 1:
            found.append(last)
    if not found:
        return False
    gone = chance.choice(found)
    drop(history, "group_events", lambda row: row is gone)
    return True
