"""Groups, transactional ids and processors in which everything that can collide does: few members, offsets and moments.

Nothing of it need make sense, as long as the rows keep the schemas' rules; the slow model and Spark must agree on it.
"""

import random

from harness.history.facts.values import NAMED_FROM
from harness.history.schema.schemas import NEVER_BEGUN, TABLES
from tests.harness.checks.histories.build import SECOND, History
from tests.harness.checks.histories.generator_rows import FAIL, INFO, OK

_MEMBERS = {21: "g", 22: "g", 23: "g", 24: "h"}
_OUTPUT = 2  # the partition that processors write
_OFFSETS = 8


def colliding_groups(run: int, chance: random.Random) -> History:
    history = History(run=run)
    for partition_id in (1, _OUTPUT):
        history._add(
            "partitions",
            partition_id=partition_id,
            topic="t",
            partition=partition_id,
            replicas=[1, 2, 3],
            read_to_end=True,
        )
    reset = chance.choice(("earliest", "earliest", "earliest", "latest"))
    for process, group in _MEMBERS.items():
        odd = chance.random() < 0.05
        history.client(process, group=group, offset_reset="none" if odd else reset, isolation="read_committed")
    _transactions(history, chance)
    for _ in range(chance.randrange(4, 28)):
        process, partition_id = chance.choice(list(_MEMBERS)), chance.choice((0, 0, 1))
        act = chance.choice(("poll", "poll", "poll", "committed", "committed", "assigned", "revoked", "rest"))
        if act == "poll":
            first = chance.randrange(_OFFSETS)
            offs = range(first, min(_OFFSETS, first + chance.randrange(1, 4)))
            at = _alone(history, process, _moment(chance))
            history.poll(
                [(offset, 10 * partition_id + offset) for offset in offs],
                at=at,
                process=process,
                partition_id=partition_id,
                status=chance.choice((OK, OK, FAIL)),
            )
        else:
            _event(history, chance, act, process, partition_id)
    if chance.random() < 0.6:
        keep_offsets_log(history, chance)
    _number_assignments(history)
    _finally(history, chance)
    return history


def keep_offsets_log(history: History, chance: random.Random) -> None:
    """The log of __consumer_offsets, without markers: most commits that were not refused, each written between its
    request and its answer."""
    written = [
        (chance.randint(row["invoked_ns"], row["completed_ns"]), row)
        for row in history.rows["group_events"]
        if row["event"] == "committed" and (row["status"] == OK or chance.random() < 0.5)
    ]
    for place, (time_ns, row) in enumerate(sorted(written, key=lambda each: each[0])):
        history.rows["consumer_offsets"].append(
            {
                **dict.fromkeys(TABLES["consumer_offsets"].names),
                "run": history.run,
                "snapshots": [0],
                "partition": 7,
                "offset": place,
                "time_ns": time_ns,
                "kind": "offset",
                "removed": False,
                "transactional": row["transaction"] is not None,
                "producer_id": row["process"],
                "group": row["group"],
                "topic": row["topic"],
                "topic_partition": row["partition"],
                "committed_offset": row["offset"],
            }
        )


def _number_assignments(history: History) -> None:
    begins = [row for row in history.rows["group_events"] if row["event"] in ("assigned", "seek")]
    for row in history.rows["records"]:
        own = [
            event for event in begins if (event["process"], event["partition"]) == (row["process"], row["partition_id"])
        ]
        row["assignment"] = sum(event["invoked_ns"] <= row["invoked_ns"] for event in own)


def _moment(chance: random.Random) -> float:
    return chance.choice((1, 1.5, 2, 2.5, 3, 3.05, 4, 5, 6, 8)) + chance.choice((0, 0, 0.01, chance.random()))


def _alone(history: History, process: int, at: float) -> float:
    """A client does one thing at a time."""
    own = [row for table in ("group_events", "records") for row in history.rows[table] if row["process"] == process]
    while any(row["invoked_ns"] == int(at * SECOND) for row in own):
        at += 1e-6
    return at


def _event(history: History, chance: random.Random, act: str, process: int, partition_id: int) -> None:
    event = chance.choice(("revoked", "lost", "fetched", "seek")) if act == "rest" else act
    status = chance.choice((OK, OK, OK, INFO, FAIL)) if event == "committed" else OK
    txn, at, elapsed_s = None, _moment(chance), chance.choice((0.0, 0.01, 0.6))
    own = [row for row in history.rows["transactions"] if row["process"] == process]
    if event == "committed" and own and chance.random() < 0.7:
        chosen = chance.choice(own)  # the offsets were sent to it
        txn, status = chosen["transaction"], FAIL if chosen["outcome"] == NEVER_BEGUN else chosen["outcome"]
        at = chosen["invoked_ns"] / SECOND
        elapsed_s = (chosen["completed_ns"] - chosen["invoked_ns"]) / SECOND
    at = _alone(history, process, at)
    elapsed_s = 0.0 if event == "seek" else elapsed_s
    offset = chance.randrange(_OFFSETS + 2)
    if event in ("revoked", "lost") or (event in ("assigned", "fetched") and chance.random() < 0.5):
        off_told = None
    else:
        off_told = offset
    history.group(
        event,
        at=at,
        process=process,
        partition_id=partition_id,
        offset=off_told,
        status=status,
        transaction=txn,
        name=_MEMBERS[process],
        generation=chance.choice((1, 1, 2, 2, 3, None, -1)),
        elapsed_s=elapsed_s,
    )


def _transactions(history: History, chance: random.Random) -> None:
    """Each producer's one after the other; those of several as it happens."""
    number = 0
    for process in _MEMBERS:
        at, name = _moment(chance), chance.choice(("x", "x", "y"))
        for _ in range(chance.randrange(0, 4)):
            until = at + chance.choice((0.0, 0.5, 1.0, 2.0))
            outcome = chance.choice((OK, OK, FAIL, INFO, NEVER_BEGUN))
            history.transaction(
                number,
                outcome,
                at=at,
                until=until,
                process=process,
                transactional_id=name,
                group=_MEMBERS[process],
            )
            number, at = number + 1, until + chance.choice((0.001, 0.5, 1.5))


def _finally(history: History, chance: random.Random) -> None:
    """What is left in the log, with outputs named after inputs; some of it is read twice, by a second reader."""
    for partition_id in (0, 1):
        left = [(offset, 10 * partition_id + offset) for offset in range(_OFFSETS) if chance.random() < 0.8]
        history.final(left, partition_id=partition_id)
    made = []
    for place in range(chance.randrange(0, 12)):
        partition_id, offset = chance.choice((0, 0, 1)), chance.randrange(_OFFSETS)
        text = chance.choice(
            (f"t-{partition_id}-{offset}/21.{place}",) * 8
            + (f"t-{partition_id}-{offset}", f"t-{partition_id}-0{offset}/21.1", f"u-0-{offset}/2.1")
        )
        history._add("value_names", value=NAMED_FROM + place, name=text)
        made.append((place, NAMED_FROM + place))
    history.final(made, partition_id=_OUTPUT)
    if chance.random() < 0.3:
        history.final(made[: chance.randrange(len(made) + 1)], partition_id=_OUTPUT, at=110)
