"""hanging-transaction: a transaction that is open in a partition's log, and that nobody ends (KIP-664).

A coordinator writes a marker into every partition of a transaction that it has decided to end (KIP-98), and decides so
itself once a transaction is older than its time-out. It does so until it succeeds, so a transaction is hanging when 30
s have gone by in which coordinator and partitions were led (open_transactions.py) and its marker is not there. Nobody
who wants committed records gets anything at or above its first record any more.

Permitted is what a coordinator's forgetting explains (every in-sync copy of its log was destroyed, or an unclean
election of it was allowed), the loss of the marker with the end of the partition's log, and, as long as leaders did not
ask the coordinator before they appended (KIP-890, from 3.6 on), a record that came after its transaction's end.
"""

from collections.abc import Sequence
from typing import Literal

from harness.checks.contract.coordinators_log import Stored, perhaps_taken, taken_from
from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt
from harness.checks.contract.timelines import Timelines
from harness.checks.explaining.rewinds import under_a_reader
from harness.checks.families.transactions import open_transactions
from harness.checks.families.transactions.open_transactions import ANSWER, OpenRow
from harness.checks.families.transactions.transaction_forgetting import CODES
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.model.partition_history import RunHistory
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.facts.internal_topics import TRANSACTIONS_TOPIC

CHECK = open_transactions.NAME
_VERIFIED = "transaction.partition.verification.enable"
_NAMES: Sequence[tuple[str, Literal["transactional_id", "producer_id", "process"]]] = (
    ("transactional id", "transactional_id"),
    ("producer id", "producer_id"),
    ("process", "process"),
)

_Ruled = tuple[Class, Cause]


def find(context: RunContext) -> list[Finding]:
    rows = sorted(context.rows[ANSWER], key=lambda row: (row["partition_id"], row["offset"]))
    return [_finding(context, row) for row in rows]


def holding_back(history: RunHistory, named: Sequence[tuple[str, Finding]]) -> list[str]:
    """A line for each one that is no violation and keeps its partition from being read to its end."""
    unread = {(each.topic, each.partition) for each in history.partitions.values() if not each.read_to_end}
    return [
        f"{name}: {each.sentence}"
        for name, each in named
        if each.check == CHECK
        and each.classification != "violation"
        and not each.is_open
        and (each.topic, each.partition) in unread
    ]


# ---- what explains it -----------------------------------------------------------------------------------------------


def _ruled(context: RunContext, row: OpenRow) -> _Ruled:
    if not _is_overdue(row):
        return "observation", Cause(code="marker-not-due")
    if row["known"] == "forgotten":
        return _forgotten(context, row)
    if row["known"] == "not-told":
        return _not_told(context, row)
    if row["known"] == "complete":
        return _marker_gone(context, row)
    if row["known"] == "unregistered":
        return _came_late(context, row)
    return "violation", NOTHING_PERMITS_IT


def _is_overdue(row: OpenRow) -> bool:
    return row["read_ns"] >= row["due_ns"]


def _forgotten(context: RunContext, row: OpenRow) -> _Ruled:
    """What took it from the log of its coordinator."""
    number = row["state_partition"]
    place = None if number is None else context.history.internal.get((TRANSACTIONS_TOPIC, number))
    taken = None if place is None else taken_from(place, Timelines(place), _stored(row), CODES)
    if taken is None and (place is None or not place.exact):
        taken = perhaps_taken(context.history, place, _stored(row), CODES) or _came_late(context, row)
    if taken is not None:
        return taken
    return _came_late(context, row) if row["state_ns"] is None else ("violation", NOTHING_PERMITS_IT)


def _not_told(context: RunContext, row: OpenRow) -> _Ruled:
    """Where nobody read a coordinator's log: as far as the client and the cluster's books know."""
    return perhaps_taken(context.history, None, _stored(row), CODES) or (
        _came_late(context, row) if row["decided_ns"] is None else _marker_gone(context, row)
    )


def _stored(row: OpenRow) -> Stored:
    """Its coordinator stored it before its first record was appended, at the latest. What took it from there after its
    marker was overdue excuses nothing."""
    known_ns, gone_ns = _known_ns(row), min(row["read_ns"], row["owed_ns"] or row["read_ns"])
    sent_ns = row["begun_ns"] if row["state_ns"] is None and row["begun_ns"] is not None else known_ns
    return Stored(sent_ns=min(sent_ns, known_ns), stored_ns=known_ns, gone_ns=gone_ns)


def _known_ns(row: OpenRow) -> int:
    """When its coordinator had certainly stored it."""
    times = (row["state_ns"], row["answered_ns"], row["begun_ns"])
    return next((time_ns for time_ns in times if time_ns is not None), 0)


def _marker_gone(context: RunContext, row: OpenRow) -> _Ruled:
    """Its coordinator had its markers written: the log may have been cut since, above its records."""
    history = context.partition(row["partition_id"])
    ends = [end["log_end_offset"] for end in history.end_snapshots.values()]
    rewind = under_a_reader(
        history,
        offset=max([*ends, row["offset"] + 1]) - 1,
        epoch=None,
        time_ns=row["read_ns"],
        since_ns=row["complete_ns"] or row["decided_ns"],
        code="marker-cut",
    )
    return _came_late(context, row) if rewind.classification == "violation" else (rewind.classification, rewind.cause)


def _came_late(context: RunContext, row: OpenRow) -> _Ruled:
    """A leader may have appended a record of a transaction that was over, or of none, for want of asking."""
    answered_ns, decided_ns = row["answered_ns"], row["decided_ns"]
    if answered_ns is not None and decided_ns is not None and answered_ns <= decided_ns:
        return "violation", NOTHING_PERMITS_IT
    history = context.history
    asks = history.settings.values(_VERIFIED, None, _known_ns(row), row["read_ns"])
    if "false" in asks:
        return "permitted", Cause(code="appended-without-asking")
    if history.scenario is None or history.scenario.cluster.release is None:
        doubt = Doubt(code="asked-on-an-unknown-release")
        return "observation", Cause(code="appended-in-doubt", doubt=doubt)
    return "violation", NOTHING_PERMITS_IT


# ---- findings -------------------------------------------------------------------------------------------------------


def _finding(context: RunContext, row: OpenRow) -> Finding:
    history, run = context.partition(row["partition_id"]), context.history
    classification, cause = _ruled(context, row)
    above = f" ({plural(row['above'], 'acknowledged record')} above it)" if row["above"] else ""
    sentence = (
        f"{_who(row)} is open in {history.name} from offset {row['offset']} on, since {_at(context, row['begun_ns'])}, "
        f"and had no end there {run.seconds(row['read_ns'])}: {_why(context, row)}. Readers of committed records get "
        f"nothing from there on{above}: {cause_words(cause)}."
    )
    faults = history.faults_between(_known_ns(row), row["read_ns"])
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=row["known"] if _is_overdue(row) else "open",
        topic=history.topic,
        partition=history.partition,
        count=1,
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        offsets=[row["offset"]],
        first_ns=row["begun_ns"],
        last_ns=row["read_ns"],
        faults=[fault["fault"] for fault in faults] if classification != "violation" else [],
        evidence={name: value for name, value in row.items() if name not in ("run", "partition_id")},
    )


def _who(row: OpenRow) -> str:
    names = [f"{what} {row[name]}" for what, name in _NAMES if row[name] is not None]
    return f"A transaction ({', '.join(names)})" if names else "A transaction"


def _at(context: RunContext, time_ns: int | None) -> str:
    return context.history.seconds(time_ns)[3:]


def _why(context: RunContext, row: OpenRow) -> str:
    if not _is_overdue(row):
        return "its end is not overdue"
    if row["known"] == "forgotten":
        return "no log of a coordinator has it any more"
    if row["known"] == "unregistered":
        return "its coordinator has no transaction of this producer there"
    if row["known"] == "complete":
        return f"its coordinator has taken it for complete since {_at(context, row['complete_ns'])}"
    if row["decided_ns"] is not None:
        return (
            f"its end was decided {context.history.seconds(row['decided_ns'])}, and coordinator and partition were led"
        )
    timeout = "any time-out" if row["timeout_ms"] is None else f"its time-out of {row['timeout_ms'] / 1000:g} s"
    return f"it is older than {timeout} allows, and coordinator and partition were led"


FAMILY = Family(name=CHECK, find=find, query=open_transactions.query)
