"""Zombie transactions (KIP-98, KIP-360): a producer committed although a newer one of its transactional id had begun.

A producer requests its id's epoch before or at the begin of its first transaction; from then on every older producer of
that id is refused. So a transaction that an older producer began after a newer one's first transaction had ended cannot
commit. The older producer is the one whose first transaction ended before the other's began; if the two overlap, the
one that was not the last to commit. A producer whose only transaction was not committed may never have got an epoch,
and proves nothing. Neither does a transaction that no broker was told of.

Where two transactions of an id ran at once, nobody knows which producer is the newer one, and nobody needs to: each had
its epoch when its first send was answered, and was ended after its last one was. If these times of the two overlap,
whichever epoch was the later had fenced the other producer before that one committed.

A coordinator that lawfully forgot an epoch gives it once more (transaction_forgetting.py).
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from pyspark.sql import functions as sf

from harness.checks.contract.coordinators_log import Ruled
from harness.checks.contract.rulings import Cause
from harness.checks.families.transactions.transaction_forgetting import TransactionForgetting
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.schemas import NEVER_BEGUN, STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "zombie-transaction"
_Pair = tuple[TransactionRow, TransactionRow]


class SpanRow(TypedDict):
    """A committed transaction that ran at once with another of its id: when its first and its last send was answered
    with an offset."""

    run: int
    transaction: int
    first_ns: int
    last_ns: int


class _Number(TypedDict):
    run: int
    transaction: int


ANSWER = RowsOf(CHECK, SpanRow)


def query(runs: JudgedRuns) -> list[SpanRow]:
    pairs = _at_once(runs.rows(TRANSACTIONS))
    numbers = sorted({(row["run"], row["transaction"]) for pair in pairs for row in pair})
    if not numbers:
        return []
    rows: list[_Number] = [{"run": run, "transaction": number} for run, number in numbers]
    wanted = sf.broadcast(runs.frame(("run", "transaction"), rows))
    sent = runs.tables.records.where("kind = 0 and transaction is not null and offset is not null")
    spans = (
        sent.join(wanted, ["run", "transaction"], "left_semi")
        .groupBy("run", "transaction")
        .agg(sf.min("completed_ns").alias("first_ns"), sf.max("completed_ns").alias("last_ns"))
    )
    return typed(SpanRow, spans.toArrow())


def find(context: RunContext) -> list[Finding]:
    forgetting = TransactionForgetting.of(context)

    def ruled(zombie: TransactionRow) -> Ruled:
        return forgetting.ruled(zombie, zombie["completed_ns"]) or (
            "violation",
            Cause(code="fenced-producer-committed"),
        )

    zombies: dict[tuple[str, Ruled], list[_Pair]] = {}
    for name, transaction, successor in fenced(context.tables[TRANSACTIONS]):
        zombies.setdefault((name, ruled(transaction)), []).append((transaction, successor))
    found = [_finding(context, *key, pairs) for key, pairs in sorted(zombies.items(), key=_name)]
    both: dict[tuple[str, Ruled], list[_Pair]] = {}
    for name, pairs in _both_committed(context).items():
        for one, other in pairs:
            last = max(one, other, key=lambda row: row["completed_ns"])
            both.setdefault((name, ruled(last)), []).append((one, other))
    return found + [_found_at_once(context, *key, pairs) for key, pairs in sorted(both.items(), key=_name)]


def _name(group: tuple[tuple[str, Ruled], Sequence[_Pair]]) -> str:
    return group[0][0]


def _at_once(transactions: Sequence[TransactionRow]) -> list[_Pair]:
    """Committed transactions of one id and two producers whose times overlap, in order of their begins."""
    by_id: dict[tuple[int, str], list[TransactionRow]] = {}
    for row in sorted(transactions, key=lambda row: row["invoked_ns"]):
        if row["transactional_id"] and row["outcome"] == STATUS_OK:
            by_id.setdefault((row["run"], row["transactional_id"]), []).append(row)
    pairs = []
    for rows in by_id.values():
        latest: dict[int, TransactionRow] = {}  # of each producer, the transaction that ends last of those before
        for row in rows:
            others = (other for process, other in latest.items() if process != row["process"])
            pairs += [(other, row) for other in others if other["completed_ns"] > row["invoked_ns"]]
            latest[row["process"]] = row
    return pairs


def _both_committed(context: RunContext) -> dict[str, list[_Pair]]:
    spans = {row["transaction"]: row for row in context.rows[ANSWER]}
    found: dict[str, list[_Pair]] = {}
    for one, other in _at_once(context.tables[TRANSACTIONS]):
        first, second = spans.get(one["transaction"]), spans.get(other["transaction"])
        if first is None or second is None:
            continue
        if first["first_ns"] <= second["last_ns"] and second["first_ns"] <= first["last_ns"]:
            found.setdefault(one["transactional_id"] or "", []).append((one, other))
    return found


def _found_at_once(context: RunContext, name: str, ruled: Ruled, pairs: Sequence[_Pair]) -> Finding:
    (one, other), (classification, cause) = pairs[0], ruled
    sentence = (
        f"Processes {one['process']} and {other['process']} each committed a transaction as {name} in which records "
        f"were acknowledged at the same time ({plural(len(pairs), 'pair')} of transactions, the first from "
        f"{context.history.seconds(other['invoked_ns'])} on): {cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind="fenced",
        count=len(pairs),
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        apart="at once",
        first_ns=other["invoked_ns"],
        last_ns=max(row["completed_ns"] for row in pairs[-1]),
        evidence={
            "transactional_id": name,
            "successor": other["process"],
            "transactions": [row["transaction"] for pair in pairs[:10] for row in pair],
        },
    )


def fenced(transactions: Sequence[TransactionRow]) -> list[tuple[str, TransactionRow, TransactionRow]]:
    """(transactional id, transaction that cannot have been committed, its successor's first), in order of time."""
    by_id: dict[str, dict[int, list[TransactionRow]]] = {}
    for row in sorted(transactions, key=lambda row: row["invoked_ns"]):
        if row["transactional_id"] and row["outcome"] != NEVER_BEGUN:
            by_id.setdefault(row["transactional_id"], {}).setdefault(row["process"], []).append(row)
    found = []
    for name, producers in by_id.items():
        for own in producers.values():
            newer = _newer_than(own, producers)
            for row in own:
                first = next((first for first in newer if first["completed_ns"] < row["invoked_ns"]), None)
                if first is not None and row["outcome"] == STATUS_OK:
                    found.append((name, row, first))
    return sorted(found, key=lambda zombie: zombie[1]["invoked_ns"])


def _newer_than(
    own: Sequence[TransactionRow], producers: Mapping[int, Sequence[TransactionRow]]
) -> list[TransactionRow]:
    """The first transactions of the id's producers that certainly got a later epoch, in order of their ends."""
    newer = []
    for theirs in producers.values():
        proved = len(theirs) > 1 or theirs[0]["outcome"] == STATUS_OK
        if theirs is not own and proved and _began_later(theirs, own):
            newer.append(theirs[0])
    return sorted(newer, key=lambda first: first["completed_ns"])


def _began_later(theirs: Sequence[TransactionRow], own: Sequence[TransactionRow]) -> bool:
    if theirs[0]["invoked_ns"] > own[0]["completed_ns"] or theirs[0]["completed_ns"] < own[0]["invoked_ns"]:
        return bool(theirs[0]["invoked_ns"] > own[0]["completed_ns"])
    # Who requested first is unknown; but one that commits now and began after the other got its epoch is current.
    last = max((_last_commit(theirs), _last_commit(own)))
    return last == _last_commit(theirs) and last[0] > own[0]["completed_ns"]


def _last_commit(transactions: Sequence[TransactionRow]) -> tuple[int, int]:
    return max(
        ((row["invoked_ns"], row["process"]) for row in transactions if row["outcome"] == STATUS_OK), default=(-1, -1)
    )


def _finding(context: RunContext, name: str, ruled: Ruled, zombies: Sequence[_Pair]) -> Finding:
    (first, successor), (classification, cause) = zombies[0], ruled
    sentence = (
        f"Process {first['process']} began and committed {plural(len(zombies), 'transaction')} as {name} after process "
        f"{successor['process']} had taken over that id ({context.history.seconds(successor['completed_ns'])}), the "
        f"first {context.history.seconds(first['invoked_ns'])}: {cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind="fenced",
        count=len(zombies),
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        first_ns=first["invoked_ns"],
        last_ns=zombies[-1][0]["completed_ns"],
        evidence={
            "transactional_id": name,
            "successor": successor["process"],
            "transactions": [row["transaction"] for row, _ in zombies[:20]],
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query)
